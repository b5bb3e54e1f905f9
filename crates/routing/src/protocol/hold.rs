//! Information about the holder of an event, which is part of the reply to a claim.

use super::fence::Fence;

/// Information about the claims on an event, in the reply to a request that claims events. If the event is claimed, its
/// decision is undecided with the reason [`Reason::Claimed`](crate::Reason::Claimed), and this value tells whether the
/// requester or another consumer holds the event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// No consumer holds the event. The decision contains the complete answer.
    #[default]
    None,
    /// The claim was granted under this fence.
    Own(Fence),
    /// Another consumer holds the event.
    Other {
        /// Maximum time that the other lease still lasts, in milliseconds.
        left_ms: u32,
    },
}
