//! Who holds an event, in the reply to a claim of it.
//!
//! Promises: plain data. Must not know: what is claimed.

use super::fence::Fence;

/// What the reply to a claim says beside a decision that is undecided as the event is claimed
/// ([`Reason::Claimed`](crate::Reason::Claimed)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// Nobody's: the decision says all.
    #[default]
    None,
    /// The claim's own: it is granted, under this fence.
    Own(Fence),
    /// Another one's, for so long at most.
    Other {
        /// Milliseconds.
        left_ms: u32,
    },
}
