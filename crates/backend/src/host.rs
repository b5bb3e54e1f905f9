//! What a door asks of the node that it is in: who may come in, and do what.
//!
//! Must not know: what certificates and tokens say, how rights are agreed on.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use firstseen_routing::{FilterVerb, Reason};
use firstseen_wire::tls::CertificateDer;

/// Something that takes its time; an error says why it was not done.
pub type Making<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// A number that takes its time; `None` if nobody can tell it.
pub type Counting<'a> = Pin<Box<dyn Future<Output = Option<u64>> + Send + 'a>>;

/// The node.
pub trait Host: Send + Sync + 'static {
    /// Who has connected, where no token is needed: its certificate says who it is, or nobody has to say so.
    fn known(&self, certificates: Option<&[CertificateDer<'static>]>, from: SocketAddr) -> Option<Arc<dyn Guest>>;

    /// Who shows a token; a user's name, where one is given, is that of its principal. None where the token does not count.
    fn enter(&self, user: Option<&[u8]>, token: &[u8], from: SocketAddr) -> Option<Arc<dyn Guest>>;

    /// Bytes of the cells of a filter, with all its copies, where there is such a filter.
    fn cell_bytes(&self, filter: &str) -> Option<u64>;

    /// Estimates how many events a filter remembers, by the slices that this node has of it.
    fn recorded_events<'a>(&'a self, filter: &'a str) -> Counting<'a>;

    /// Returns the node's time of day, in milliseconds since 1970.
    ///
    /// # Errors
    /// The reason why this node may not stamp events now: its clock differs from those of most nodes, or nobody knows yet whether it
    /// does.
    fn now_ms(&self) -> Result<u64, Reason>;
}

/// Somebody who came in.
pub trait Guest: Send + Sync {
    /// Whether it has to say who it is, though it came in: the cluster asks for that now.
    fn must_say_who(&self) -> bool;

    /// Whether it may do this with a filter now, with so many events.
    ///
    /// # Errors
    /// [`Refused`]: nothing may be done.
    fn may(&self, verb: FilterVerb, filter: &str, events: u32) -> Result<(), Refused>;

    /// Whether its principal may record events of a filter now, so that what it has claimed is confirmed. The credential that it has
    /// shown need not count any more.
    ///
    /// # Errors
    /// [`Refused`]: nothing may be done.
    fn may_confirm(&self, filter: &str) -> Result<(), Refused>;

    /// Whether it may know of a filter. Who asks for a list is refused nothing, so this is written down nowhere.
    fn sees(&self, filter: &str) -> bool;

    /// Makes a filter without a window; it can be asked when this is over.
    fn make<'a>(&'a self, new: NewFilter<'a>) -> Making<'a>;

    /// Drops a filter.
    fn drop_filter<'a>(&'a self, name: &'a str) -> Making<'a>;
}

/// A filter that is to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NewFilter<'a> {
    /// Its name.
    pub name: &'a str,
    /// Number of events it is sized for.
    pub capacity_events: u64,
    /// Highest rate of false positives.
    pub rate: f64,
    /// Whether it grows beyond its capacity.
    pub grows: bool,
}

/// Why something may not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It has to say who it is: the cluster asks for that now.
    Unknown,
    /// The right is missing; the text says which.
    Forbidden(String),
    /// The quota is spent; there is more after so long.
    Spent(Duration),
}
