//! What the reasons of undecided events mean for the client that asked.
//!
//! This module must not depend on how a door shows them.

use firstseen_routing::Reason;

/// Returns what an undecided event means for the client that asked about it, and what to do.
pub fn meaning(reason: Reason) -> &'static str {
    match reason {
        Reason::Full => "the filter is full: nothing was recorded",
        Reason::Late => "the event is older than the window, and nothing was recorded",
        Reason::Future => {
            "the event is too far ahead of the clock, and nothing was recorded: send its right time, or none"
        }
        Reason::Overloaded | Reason::NotReady => "nothing was recorded: try again later",
        Reason::SlicesDown => "slices are down: it may be new",
        Reason::Claimed => "another consumer is about to deliver it",
        Reason::CutOff | Reason::ClockSkew => "the node cannot tell: nothing was recorded",
        Reason::Forbidden => "there is no right to do this",
        Reason::ClaimsUnknown => {
            "its node has just started or taken over, and another consumer may hold it: try again later"
        }
        Reason::StaleMap => "the node knows an older map: nothing was recorded, try again later",
        Reason::Altered => "the filter is altered: nothing was recorded, try again",
        Reason::UnknownFilter => "there is no such filter any more: nothing was recorded",
        Reason::NameReused => "its ID stands for another event: nothing was recorded, give it another ID",
        Reason::Invalid => "the node refuses it: nothing was recorded",
        Reason::Unknown | Reason::TooOld => "it may have been recorded: deliver it",
    }
}
