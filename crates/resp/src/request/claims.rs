//! Commands about claims, with which a client reserves the delivery of events.

use super::filters::some_items;
use super::words::{is, ttl_ms};
use crate::Arguments;
use crate::refusal::{Refusal, SYNTAX};

/// Command about claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimRequest<'a> {
    /// Command that claims events, in the form `FS.CLAIM key PX ms [WITHFENCE]` or `FS.CLAIM filter PX ms [WITHFENCE]
    /// ITEMS item...`. The reply tells whether this client may deliver the events. It is an integer for a key, and an
    /// array of integers for a list of items.
    Claim {
        /// Events to claim.
        events: ClaimedEvents<'a>,
        /// Lease of the claim in milliseconds, above 0.
        lease_ms: u64,
        /// Whether the reply includes the fences of granted claims, and the remaining time of events that other clients
        /// hold.
        with_fence: bool,
    },
    /// `FS.CONFIRM key [FENCE fence]` or `FS.CONFIRM filter [FENCE fence] ITEMS item...`, which records claimed events
    /// as delivered.
    Confirm {
        /// Events to confirm.
        events: ClaimedEvents<'a>,
        /// Fence of the grant, if the command names a single event. `None` means the claims of this connection.
        fence: Option<&'a [u8]>,
    },
    /// `FS.RELEASE key [FENCE fence]` or `FS.RELEASE filter [FENCE fence] ITEMS item...`, which releases claimed events
    /// that were not delivered.
    Release {
        /// Events to release.
        events: ClaimedEvents<'a>,
        /// Fence of the grant, as in [`Self::Confirm`].
        fence: Option<&'a [u8]>,
    },
}

/// Events that a command about claims names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimedEvents<'a> {
    /// The event with this key.
    Key(&'a [u8]),
    /// Items of a filter.
    Items {
        /// Name of the filter.
        filter: &'a [u8],
        /// Items, from one to [`ITEMS_MAX`](crate::ITEMS_MAX).
        items: Arguments<'a>,
    },
}

pub(super) fn claim(arguments: Arguments<'_>) -> Result<ClaimRequest<'_>, Refusal<'_>> {
    if !is(arguments.at(1), "PX") {
        return Err(SYNTAX);
    }
    let lease_ms = ttl_ms(arguments.at(2), 1, "fs.claim")?;
    let with_fence = arguments.get(3).is_some_and(|word| is(word, "WITHFENCE"));
    let events = events("fs.claim", arguments, 3 + usize::from(with_fence))?;
    Ok(ClaimRequest::Claim { events, lease_ms, with_fence })
}

pub(super) fn confirm(arguments: Arguments<'_>) -> Result<ClaimRequest<'_>, Refusal<'_>> {
    let (events, fence) = held("fs.confirm", arguments)?;
    Ok(ClaimRequest::Confirm { events, fence })
}

pub(super) fn release(arguments: Arguments<'_>) -> Result<ClaimRequest<'_>, Refusal<'_>> {
    let (events, fence) = held("fs.release", arguments)?;
    Ok(ClaimRequest::Release { events, fence })
}

/// Parses claimed events with an optional fence. A fence is allowed only with a single event.
fn held<'a>(
    command: &'static str,
    arguments: Arguments<'a>,
) -> Result<(ClaimedEvents<'a>, Option<&'a [u8]>), Refusal<'a>> {
    let fence = match arguments.get(1) {
        Some(word) if is(word, "FENCE") => Some(arguments.get(2).ok_or(SYNTAX)?),
        _ => None,
    };
    let events = events(command, arguments, if fence.is_some() { 3 } else { 1 })?;
    match (fence, events) {
        (Some(_), ClaimedEvents::Items { items, .. }) if items.len() > 1 => {
            Err(Refusal::BadArgument("ERR a fence is of one event: name one item with it"))
        }
        _ => Ok((events, fence)),
    }
}

/// Parses the events after the options, which end at index `place`.
fn events<'a>(command: &'static str, arguments: Arguments<'a>, place: usize) -> Result<ClaimedEvents<'a>, Refusal<'a>> {
    match arguments.get(place) {
        None => Ok(ClaimedEvents::Key(arguments.at(0))),
        Some(word) if is(word, "ITEMS") => {
            Ok(ClaimedEvents::Items { filter: arguments.at(0), items: some_items(command, arguments.from(place + 1))? })
        }
        Some(_) => Err(SYNTAX),
    }
}
