//! Converts the contents of a replay guard to journal entries and back. After a restart, each restored idempotency key
//! is remembered for a whole retry horizon from that time on. A restart therefore never shortens the time for which the
//! guard remembers a key.

use super::{ReplayGuard, Standing};
use crate::protocol::{BatchName, Entry, EventTag, MonotonicMs, NamedEvent};
use crate::verdict::{Decision, Reason};

/// Maximum number of low-water marks in one entry.
const MARKS_MAX: usize = 1 << 14;

/// A batch in a guard: its idempotency key, the keys of its events if they have their own, and the replies.
pub(crate) type KeptBatch = (BatchName, Vec<NamedEvent>, Vec<Decision>);

/// Returns the decision that is written to the journal for an event in the replay guard. If the guard knows no result
/// of the event, the returned decision allows a retry of the event to be executed again.
///
/// This must not happen to an event in flight, whose cells may already be set. The caller therefore writes the events
/// in flight to the journal separately.
fn known(standing: Standing) -> Decision {
    match standing {
        Standing::Answered(decision) => decision,
        Standing::InFlight | Standing::New => Decision::Undecided(Reason::Overloaded),
    }
}

impl ReplayGuard {
    /// Returns all batches that the guard remembers.
    pub(crate) fn kept(&self) -> impl Iterator<Item = KeptBatch> {
        let batches = self.batches.iter().map(|(name, standings)| (name, Vec::new(), standings.map(known).collect()));
        let names = self.names.iter().map(|block| {
            let (names, standings): (Vec<_>, Vec<_>) = block.into_iter().unzip();
            (BatchName::default(), names, standings.into_iter().map(known).collect())
        });
        batches.chain(names)
    }

    /// Returns the low-water marks of producers and of sources, divided into entries of limited size.
    pub(crate) fn marks(&self) -> Vec<Entry> {
        let producers: Vec<_> = self.producers.iter().collect();
        let sources: Vec<_> = self.sources.iter().collect();
        let of_producers = producers.chunks(MARKS_MAX);
        let of_sources = sources.chunks(MARKS_MAX);
        let of_producers = of_producers.map(|marks| Entry::Marks { producers: marks.to_vec(), sources: Vec::new() });
        let of_sources = of_sources.map(|marks| Entry::Marks { producers: Vec::new(), sources: marks.to_vec() });
        of_producers.chain(of_sources).collect()
    }

    /// Restores a batch that another guard of the same group has remembered.
    pub(crate) fn restore(&mut self, (name, names, decisions): &KeptBatch, now_ms: MonotonicMs) {
        match u32::try_from(decisions.len()) {
            Ok(events) if names.is_empty() => {
                if self.producers.touch(name.producer, now_ms).is_some() && self.batches.content(*name).is_none() {
                    self.batches.take(*name, events, EventTag::NONE, now_ms);
                }
                self.batches.learn(*name, decisions);
            }
            _ => {
                for (event, decision) in names.iter().zip(decisions) {
                    // This decision reports that the idempotency key was reused. It says nothing about the event that
                    // the guard remembers under that key.
                    if *decision == Decision::Undecided(Reason::NameReused) {
                        continue;
                    }
                    let is_known = self.sources.touch(event.name.source, now_ms).is_some();
                    if !is_known || self.names.take(*event, 0, now_ms) != Standing::NAME_REUSED {
                        self.learn_named(event.name, *decision);
                    }
                }
            }
        }
        self.make_room(now_ms);
    }

    /// Restores low-water marks that another guard of the same group had.
    pub(crate) fn restore_marks(&mut self, producers: &[(u128, u64)], sources: &[(u128, u64)], now_ms: MonotonicMs) {
        for (marks, kept) in [(&mut self.producers, producers), (&mut self.sources, sources)] {
            for (owner, low_water) in kept {
                if marks.touch(*owner, now_ms).is_some() {
                    marks.raise(*owner, low_water.saturating_sub(1));
                }
            }
        }
    }
}
