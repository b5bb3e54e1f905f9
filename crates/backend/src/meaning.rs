//! Explains to clients what the reasons of undecided events mean.
//!
//! This module does not depend on how an endpoint shows the explanations.

use firstseen_routing::Reason;

/// Returns what an undecided event means for the client, and what the client can do.
pub fn meaning(reason: Reason) -> &'static str {
    match reason {
        Reason::Full => "the filter is full: nothing was recorded",
        Reason::Late => "the event is older than the window, and nothing was recorded",
        Reason::Future => {
            "the event is too far ahead of the clock, and nothing was recorded: send its right time, or none"
        }
        Reason::Overloaded | Reason::NotReady => "nothing was recorded: try again later",
        Reason::SlicesDown => {
            "too few of its slices can answer, because nodes are down or slices have lost events (firstseen filter describe lists \
             them), so it may be new: ask again later, or deliver it"
        }
        Reason::Claimed => "another consumer is about to deliver it",
        Reason::CutOff | Reason::ClockSkew => "the node cannot tell: nothing was recorded",
        Reason::Forbidden => "the client does not have the right to do this",
        Reason::ClaimsUnknown => {
            "its node has just started or taken over, and another consumer may hold it: try again later"
        }
        Reason::StaleMap => "the node's cluster map is outdated: nothing was recorded, try again later",
        Reason::Altered => "the filter is being altered: nothing was recorded, try again",
        Reason::UnknownFilter => "the filter no longer exists: nothing was recorded",
        Reason::NameReused => "its ID was already used for another event: nothing was recorded, give it another ID",
        Reason::Invalid => "the node refuses it: nothing was recorded",
        Reason::Unknown | Reason::TooOld => "it may have been recorded: deliver it",
    }
}
