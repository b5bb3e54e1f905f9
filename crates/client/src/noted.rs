//! Local notes about the events of a batch, which are not sent to nodes. They serve the client's local memory and its
//! audits.
//!
//! When a batch is divided, each part keeps the local notes of its own events.

use firstseen_filter::Digest;
use firstseen_routing::Tick;

use crate::queue::chosen;

/// Event whose verdict is audited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuditedEvent {
    /// Index of the event in the batch.
    pub(crate) event: u32,
    pub(crate) digest: Digest,
}

/// Notes about all events of a batch.
#[derive(Default)]
pub(crate) struct Noted {
    /// Digest of each event, if the client remembers first-seen events. Otherwise empty.
    pub(crate) digests: Vec<Digest>,
    /// Place in time of events that nodes stamp on arrival.
    pub(crate) local_tick: Tick,
    pub(crate) audited: Vec<AuditedEvent>,
}

impl Noted {
    /// Returns the notes of these events, whose indices must be in the order of the batch.
    pub(crate) fn part(&self, events: &[usize]) -> Self {
        let digests = chosen(&self.digests, events);
        let audited = self.audited.iter().filter_map(|AuditedEvent { event, digest }| {
            let event = events.binary_search(&(*event as usize)).ok()?;
            Some(AuditedEvent { event: event as u32, digest: *digest })
        });
        Self { digests, local_tick: self.local_tick, audited: audited.collect() }
    }
}
