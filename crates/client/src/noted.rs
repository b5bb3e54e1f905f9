//! Notes that a batch keeps of its events beside what it sends: for the client's own memory, and for its audits.
//!
//! Promises: a part of a batch has its part of both notes. Must not know: who gets which verdict.

use firstseen_filter::Digest;
use firstseen_routing::Tick;

use crate::queue::chosen;

/// An event whose answer is checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuditedEvent {
    /// Its number in the batch.
    pub(crate) event: u32,
    pub(crate) digest: Digest,
}

/// The notes of all events of a batch.
#[derive(Default)]
pub(crate) struct Noted {
    /// The digest of each event, where first-seen events are remembered.
    pub(crate) digests: Vec<Digest>,
    /// The place of events that nodes stamp.
    pub(crate) local_tick: Tick,
    pub(crate) audited: Vec<AuditedEvent>,
}

impl Noted {
    /// The notes of these events, which stand in the order of the batch.
    pub(crate) fn part(&self, events: &[usize]) -> Self {
        let digests = chosen(&self.digests, events);
        let audited = self.audited.iter().filter_map(|AuditedEvent { event, digest }| {
            let event = events.binary_search(&(*event as usize)).ok()?;
            Some(AuditedEvent { event: event as u32, digest: *digest })
        });
        Self { digests, local_tick: self.local_tick, audited: audited.collect() }
    }
}
