//! Finds the fences that are needed to confirm or release the events of a connection.
//!
//! A client confirms or releases only the events that it has claimed on the same connection. To confirm or release any
//! other event, the command must contain the fence of the claim.

use std::sync::Arc;

use firstseen_backend::{EventCall, EventOperation, Filters};
use firstseen_client::Verdict;
use firstseen_routing::{Fence, FilterVerb, Reason};
use tokio::time::Instant;

use super::Requester;
use super::event_query::Action;
use super::place::Found;
use crate::command_rejected::CommandRejected;
use crate::own_claims::{OwnClaim, OwnClaims};

/// Fences of the events that a command names.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) fences: Vec<Fence>,
    /// Time at which the events occurred, if the filter needs times.
    pub(super) at_ms: Option<u64>,
}

impl Shown {
    fn add(&mut self, OwnClaim { fence, at_ms, .. }: OwnClaim, needs_times: bool) {
        self.fences.push(fence);
        if needs_times {
            // All events of a call share one time. The latest of their times keeps them in the window for the longest.
            self.at_ms = self.at_ms.max(Some(at_ms));
        }
    }
}

/// Returns the fences of events that are to be confirmed or released.
pub(super) async fn held<'a>(
    filters: &Filters,
    own: &mut OwnClaims,
    found: &Found,
    action: Action<'_>,
    mut items: impl Iterator<Item = &'a [u8]>,
) -> Result<Shown, CommandRejected> {
    let Found { filter, needs_times, .. } = found;
    let (Action::Confirm(fence) | Action::Release(fence)) = action else { return Ok(Shown::default()) };
    let mut shown = Shown::default();
    if let Some(text) = fence {
        let fence = std::str::from_utf8(text).ok().and_then(|text| text.parse::<Fence>().ok());
        let fence = fence.ok_or_else(|| CommandRejected::wrong("a fence has 48 hexadecimal digits"))?;
        // A foreign fence would make the filter refuse the other events of the same call too.
        if !filters.may_have_granted(filter, fence).await {
            return Err(CommandRejected::Undecided(Reason::Invalid));
        }
        let known = items.next().and_then(|item| own.get(filter, item)).filter(|claim| claim.fence == fence);
        let claim = match known {
            Some(claim) => claim,
            None => {
                let at_ms = match filters.now_ms() {
                    Err(reason) if *needs_times => return Err(CommandRejected::Undecided(reason)),
                    now_ms => now_ms.unwrap_or_default(),
                };
                OwnClaim { fence, at_ms, until: Instant::now() }
            }
        };
        shown.add(claim, *needs_times);
        return Ok(shown);
    }
    for item in items {
        let claim = of_filter(filters, own, filter, item).await.ok_or_else(not_own)?;
        shown.add(claim, *needs_times);
    }
    Ok(shown)
}

/// Returns the connection's claim of an event. A claim that belongs to an earlier filter of the same name is forgotten.
async fn of_filter(filters: &Filters, own: &mut OwnClaims, filter: &Arc<str>, item: &[u8]) -> Option<OwnClaim> {
    let claim = own.get(filter, item)?;
    if filters.may_have_granted(filter, claim.fence).await {
        return Some(claim);
    }
    own.remove(filter, item, claim.fence);
    None
}

fn not_own() -> CommandRejected {
    CommandRejected::wrong(
        "this connection has not claimed one of the events: claim it here, or pass its fence \
         (FS.CLAIM ... WITHFENCE returns it). Nothing was done",
    )
}

/// Releases those of the given events that the connection has claimed, and returns their number.
pub(super) async fn release(
    Requester { shared, client_session, patience }: Requester<'_>,
    own: &mut OwnClaims,
    filter: &Arc<str>,
    items: &[&[u8]],
) -> Result<usize, CommandRejected> {
    let mut held: Vec<(&[u8], OwnClaim)> = Vec::new();
    for item in items {
        held.extend(of_filter(&shared.filters, own, filter, item).await.map(|claim| (*item, claim)));
    }
    let count = u32::try_from(held.len()).unwrap_or(u32::MAX);
    client_session.may(FilterVerb::Observe, filter, count).map_err(CommandRejected::from)?;
    if held.is_empty() {
        return Ok(0);
    }
    let items: Vec<&[u8]> = held.iter().map(|(item, _)| *item).collect();
    let fences: Vec<Fence> = held.iter().map(|(_, claim)| claim.fence).collect();
    held.iter().for_each(|(item, claim)| shared.common.confirmer.cancel(filter, item, claim.fence));
    let at_ms = held.iter().map(|(_, claim)| claim.at_ms).max().unwrap_or_default();
    let asked = EventCall { fences: &fences, ..EventCall::new(&items, EventOperation::Release, Ok(at_ms)) };
    let answers = patience.ask(&shared.filters, filter, &asked).await?;
    let mut count = 0;
    for ((item, claim), verdict) in held.iter().zip(answers.verdicts) {
        match verdict {
            Verdict::Undecided(reason) => return Err(CommandRejected::Undecided(reason)),
            Verdict::FirstSeen => count += 1,
            Verdict::Duplicate => {}
        }
        own.remove(filter, item, claim.fence);
    }
    Ok(count)
}
