//! Commands about claims: who is about to deliver an event. Must not know: who holds which.

use super::filters::some_items;
use super::words::{is, ttl_ms};
use crate::Arguments;
use crate::refusal::{Refusal, SYNTAX};

/// A command about claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimRequest<'a> {
    /// `FS.CLAIM key PX ms [WITHFENCE]`, `FS.CLAIM filter PX ms [WITHFENCE] ITEMS item...`: whether this client may deliver the
    /// events; the reply is an integer, or an array of them.
    Claim {
        /// The events.
        events: ClaimedEvents<'a>,
        /// For how long the claim holds: over zero.
        lease_ms: u64,
        /// Whether the reply tells the fences of grants, and how long others hold an event.
        with_fence: bool,
    },
    /// `FS.CONFIRM key [FENCE fence]`, `FS.CONFIRM filter [FENCE fence] ITEMS item...`: claimed events were delivered.
    Confirm {
        /// The events.
        events: ClaimedEvents<'a>,
        /// The fence of the grant of the one event; the connection's own claims where it is left out.
        fence: Option<&'a [u8]>,
    },
    /// `FS.RELEASE key [FENCE fence]`, `FS.RELEASE filter [FENCE fence] ITEMS item...`: claimed events were not delivered.
    Release {
        /// The events.
        events: ClaimedEvents<'a>,
        /// As in [`Self::Confirm`].
        fence: Option<&'a [u8]>,
    },
}

/// The events that a claim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimedEvents<'a> {
    /// The one of this key.
    Key(&'a [u8]),
    /// Items of a filter.
    Items {
        /// The filter.
        filter: &'a [u8],
        /// The events, from one to [`ITEMS_MAX`](crate::ITEMS_MAX).
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

/// Events that were claimed, and the fence: it is of one event.
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

/// The events behind the options, which end at this place.
fn events<'a>(command: &'static str, arguments: Arguments<'a>, place: usize) -> Result<ClaimedEvents<'a>, Refusal<'a>> {
    match arguments.get(place) {
        None => Ok(ClaimedEvents::Key(arguments.at(0))),
        Some(word) if is(word, "ITEMS") => {
            Ok(ClaimedEvents::Items { filter: arguments.at(0), items: some_items(command, arguments.from(place + 1))? })
        }
        Some(_) => Err(SYNTAX),
    }
}
