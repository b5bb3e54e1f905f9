//! Services that an endpoint needs from its node: authentication, authorization, and the creation of filters.
//!
//! This module does not depend on the contents of certificates and tokens, or on how rights are stored in the cluster.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use firstseen_routing::{FilterVerb, Reason};
use firstseen_wire::tls::CertificateDer;

/// Future of an operation. The error says why the operation failed.
pub type OperationFuture<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// Future of a number. `None` means that the number cannot be determined.
pub type CountFuture<'a> = Pin<Box<dyn Future<Output = Option<u64>> + Send + 'a>>;

/// Node that an endpoint runs in.
pub trait Host: Send + Sync + 'static {
    /// Returns the user of a connection whose client needs no token. That is the case if a certificate identifies the
    /// client, or if the cluster does not require authentication.
    fn known(
        &self,
        certificates: Option<&[CertificateDer<'static>]>,
        from: SocketAddr,
    ) -> Option<Arc<dyn ClientSession>>;

    /// Authenticates a client by its token. If the client also sends a user name, that name must be the name of the
    /// token's principal. Returns `None` if the token is not valid.
    fn enter(&self, user: Option<&[u8]>, token: &[u8], from: SocketAddr) -> Option<Arc<dyn ClientSession>>;

    /// Returns the size of the cells of a filter with all its copies, in bytes. Returns `None` if the filter does not
    /// exist.
    fn cell_bytes(&self, filter: &str) -> Option<u64>;

    /// Estimates how many events a filter remembers, from the slices that this node has of the filter.
    fn recorded_events<'a>(&'a self, filter: &'a str) -> CountFuture<'a>;

    /// Returns the node's current time, in milliseconds since 1970.
    ///
    /// # Errors
    /// Returns the reason why this node may not stamp events at present. Its clock differs from the clocks of most
    /// nodes, or the node has not compared its clock yet.
    fn now_ms(&self) -> Result<u64, Reason>;
}

/// User of a connection, with the rights of a principal.
pub trait ClientSession: Send + Sync {
    /// Returns whether the user must authenticate now, because the cluster has begun to require authentication after
    /// the user connected.
    fn requires_authentication(&self) -> bool;

    /// Checks whether the user may perform an operation on a filter now, with this number of events.
    ///
    /// # Errors
    /// Returns [`Refused`] if the operation is not allowed.
    fn may(&self, verb: FilterVerb, filter: &str, events: u32) -> Result<(), Refused>;

    /// Checks whether the principal of this client may still record events of a filter. The endpoint calls this
    /// function before it confirms a claim on behalf of the client, because the right may have been revoked since the
    /// claim was granted.
    ///
    /// The check concerns only the rights of the principal. An expired credential of the client does not prevent the
    /// confirmation, because the credential was valid when the client made the claim.
    ///
    /// # Errors
    /// Returns [`Refused`] if the confirmation is not allowed.
    fn may_confirm(&self, filter: &str) -> Result<(), Refused>;

    /// Returns whether the user may know that a filter exists. The endpoint uses this function to remove filters from
    /// lists that it shows to the user. A missing right only shortens the list and does not cause an error, so the
    /// result is not written to the audit log.
    fn sees(&self, filter: &str) -> bool;

    /// Creates a filter without a window. The filter can be used when the future completes.
    fn make<'a>(&'a self, new: NewFilter<'a>) -> OperationFuture<'a>;

    /// Drops a filter.
    fn drop_filter<'a>(&'a self, name: &'a str) -> OperationFuture<'a>;
}

/// Description of a filter to create.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NewFilter<'a> {
    /// Name of the filter.
    pub name: &'a str,
    /// Number of events that the filter is sized for.
    pub capacity_events: u64,
    /// Maximum rate of false positives.
    pub rate: f64,
    /// Whether the filter grows beyond its capacity.
    pub grows: bool,
}

/// Reason why an operation is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The user must authenticate first.
    Unknown,
    /// The user does not have the right. The text names the missing right.
    Forbidden(String),
    /// The quota is used up. More is available after this time.
    Spent(Duration),
}
