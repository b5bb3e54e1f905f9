//! What the door asks of the node that it is in: who may come in, and do what.
//!
//! Must not know: certificates, tokens, how rights are agreed on.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use firstseen_routing::FilterVerb;
use firstseen_wire::tls::CertificateDer;

use crate::sandbox::NewFilter;

/// Something that takes its time; an error says why it was not done.
pub type Making<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// The node.
pub trait Host: Send + Sync + 'static {
    /// Who has connected, where nothing more has to be shown: by its certificate, or as nobody asks who it is.
    fn known(&self, certificates: Option<&[CertificateDer<'static>]>, from: SocketAddr) -> Option<Arc<dyn Guest>>;

    /// Who shows a token; a user's name, where one is given, is that of its principal. None where the token does not count.
    fn enter(&self, user: Option<&[u8]>, token: &[u8], from: SocketAddr) -> Option<Arc<dyn Guest>>;

    /// Bytes of the cells of a filter, with all its copies, where there is such a filter.
    fn cell_bytes(&self, filter: &str) -> Option<u64>;
}

/// Somebody who came in.
pub trait Guest: Send + Sync {
    /// Its name, for `CLIENT` and for logs.
    fn name(&self) -> &str;

    /// Whether it may do this with a filter now, with so many events.
    ///
    /// # Errors
    /// [`Refused`]: nothing may be done.
    fn may(&self, verb: FilterVerb, filter: &str, events: u32) -> Result<(), Refused>;

    /// Makes a filter without a window; it can be asked when this is over.
    fn make<'a>(&'a self, new: NewFilter<'a>) -> Making<'a>;

    /// Drops a filter.
    fn drop_filter<'a>(&'a self, name: &'a str) -> Making<'a>;
}

/// Why something may not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The right is missing; the text says which.
    Forbidden(String),
    /// The quota is spent; there is more after so long.
    Spent(Duration),
}
