//! What a batch keeps of its events beside what it sends: for what the client remembers itself, and for what it audits.
//!
//! Promises: a part of a batch has its part of both. Must not know: who is told what.

use firstseen_filter::Digest;
use firstseen_routing::Tick;

/// Of all events of a batch.
#[derive(Default)]
pub(crate) struct Noted {
    /// One an event, where what is told first-seen is remembered.
    pub(crate) digests: Vec<Digest>,
    /// The place of events that nodes stamp.
    pub(crate) local_tick: Tick,
    /// Events whose answers are checked.
    pub(crate) audited: Vec<(u32, Digest)>,
}

impl Noted {
    /// What is kept of these events, which stand in their order.
    pub(crate) fn part(&self, events: &[usize]) -> Self {
        let digests = events.iter().filter_map(|event| self.digests.get(*event).copied()).collect();
        let audited = self.audited.iter().filter_map(|(event, digest)| {
            events.binary_search(&(*event as usize)).ok().map(|event| (event as u32, *digest))
        });
        Self { digests, local_tick: self.local_tick, audited: audited.collect() }
    }
}
