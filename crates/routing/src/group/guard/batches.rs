//! Batches that the replay guard remembers, together with the replies to their events. The batches are sorted by their
//! time of arrival. If memory runs short, the oldest batch is forgotten first.

use super::Standing;
use super::queue::{Keyed, KeyedQueue, mix};
use super::verdicts::Verdicts;
use crate::protocol::{BatchName, EventTag, MonotonicMs};
use crate::verdict::Decision;

struct RememberedBatch {
    name: BatchName,
    events: u32,
    tag: EventTag,
    taken_ms: MonotonicMs,
    verdicts: Verdicts,
}

impl RememberedBatch {
    /// Returns what is known of each event of the batch.
    fn standings(&self) -> impl Iterator<Item = Standing> {
        (0..self.events).map(|event| self.verdicts.word(event as usize / 64).standing(event % 64))
    }
}

impl Keyed for RememberedBatch {
    type Key = BatchName;

    fn key(&self) -> BatchName {
        self.name
    }

    fn hash(name: BatchName) -> u64 {
        mix(name.producer, name.sequence)
    }
}

/// All batches that the guard remembers.
pub(super) struct Batches {
    batches: KeyedQueue<RememberedBatch>,
    verdict_bytes: u64,
    scratch: Vec<u64>,
}

impl Batches {
    pub(super) fn new() -> Self {
        Self { batches: KeyedQueue::new(), verdict_bytes: 0, scratch: Vec::new() }
    }

    /// Returns the number of events of a batch and their tag, or `None` if the batch is not remembered.
    pub(super) fn content(&mut self, name: BatchName) -> Option<(u32, EventTag)> {
        self.batches.find_mut(name).map(|batch| (batch.events, batch.tag))
    }

    /// Appends what is known of each event of the batch to `standings`.
    pub(super) fn standings(&mut self, name: BatchName, standings: &mut Vec<Standing>) {
        standings.extend(self.batches.find_mut(name).into_iter().flat_map(|batch| batch.standings()));
    }

    /// Adds a batch that is not remembered yet.
    pub(super) fn take(&mut self, name: BatchName, events: u32, tag: EventTag, now_ms: MonotonicMs) {
        self.batches.push_back(RememberedBatch { name, events, tag, taken_ms: now_ms, verdicts: Verdicts::None });
    }

    /// Adds the replies to a batch. Returns `false` if the batch is not remembered.
    pub(super) fn learn(&mut self, name: BatchName, decisions: &[Decision]) -> bool {
        let Some(batch) = self.batches.find_mut(name) else { return false };
        if batch.events as usize == decisions.len() {
            self.verdict_bytes -= batch.verdicts.bytes();
            batch.verdicts.learn(decisions, &mut self.scratch);
            self.verdict_bytes += batch.verdicts.bytes();
        }
        true
    }

    /// Returns all remembered batches, oldest first, with what is known of each event.
    pub(super) fn iter(&self) -> impl Iterator<Item = (BatchName, impl Iterator<Item = Standing>)> {
        self.batches.iter().map(|batch| (batch.name, batch.standings()))
    }

    /// Returns the time at which the oldest batch was accepted.
    pub(super) fn oldest_ms(&self) -> Option<MonotonicMs> {
        self.batches.front().map(|batch| batch.taken_ms)
    }

    /// Forgets the oldest batch and returns its idempotency key.
    pub(super) fn forget(&mut self) -> Option<BatchName> {
        let batch = self.batches.pop_front()?;
        self.verdict_bytes -= batch.verdicts.bytes();
        Some(batch.name)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.batches.len() as u64 * KeyedQueue::<RememberedBatch>::ENTRY_BYTES + self.verdict_bytes
    }
}
