//! Low-water marks of the replay guard. Each producer or source of events has one mark, which is a number. A submission
//! whose idempotency key has a smaller number is rejected, because the guard may have forgotten the reply to it.
//!
//! The mark of a producer or source is normally kept for [`MARK_HORIZONS`] retry horizons after its last use. If memory
//! is short, it is kept for a single retry horizon. If all marks have been used more recently than that, there is no
//! room for another one. Submissions of producers and sources that have no mark yet are then rejected, because without
//! an existing mark a forgotten key could count as new.

use super::queue::{Keyed, KeyedQueue, mix};
use crate::protocol::MonotonicMs;

/// Number of retry horizons for which an unused mark is kept if there is room. With a horizon of one minute, this is
/// most of a day.
const MARK_HORIZONS: u64 = 1000;

/// Maximum number of marks that are examined to make room for another mark.
const PASSES_MAX: usize = 8;

/// The mark of a producer or a source. Keys with numbers from `low_water` on are accepted.
struct Mark {
    owner: u128,
    low_water: u64,
    used_ms: MonotonicMs,
    queued_ms: MonotonicMs,
}

impl Keyed for Mark {
    type Key = u128;

    fn key(&self) -> u128 {
        self.owner
    }

    fn hash(owner: u128) -> u64 {
        mix(owner, 0)
    }
}

/// The marks of all producers, or of all sources.
pub(super) struct Marks {
    marks: KeyedQueue<Mark>,
    horizon_ms: u64,
    marks_max: usize,
}

impl Marks {
    pub(super) fn new(horizon_ms: u64, bytes_max: u64) -> Self {
        let marks_max = usize::try_from(bytes_max / KeyedQueue::<Mark>::ENTRY_BYTES).unwrap_or(usize::MAX);
        Self { marks: KeyedQueue::new(), horizon_ms, marks_max }
    }

    /// Returns the mark of an owner that is used now. Keys with smaller numbers are too old. Returns `None` if there is
    /// no room for another mark.
    pub(super) fn touch(&mut self, owner: u128, now_ms: MonotonicMs) -> Option<u64> {
        if let Some(mark) = self.marks.find_mut(owner) {
            mark.used_ms = now_ms;
            return Some(mark.low_water);
        }
        self.make_room(now_ms)
            .then(|| self.marks.push_back(Mark { owner, low_water: 0, used_ms: now_ms, queued_ms: now_ms }).low_water)
    }

    /// Raises the mark of an owner, so that numbers up to `number` are too old from now on.
    pub(super) fn raise(&mut self, owner: u128, number: u64) {
        if let Some(mark) = self.marks.find_mut(owner) {
            mark.low_water = mark.low_water.max(number.saturating_add(1));
        }
    }

    /// Returns all owners with their marks, except marks that reject nothing.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u128, u64)> {
        self.marks.iter().filter(|mark| mark.low_water > 0).map(|mark| (mark.owner, mark.low_water))
    }

    /// Forgets marks that were not used for a long time.
    pub(super) fn expire(&mut self, now_ms: MonotonicMs) {
        let keep_ms = self.horizon_ms.saturating_mul(MARK_HORIZONS);
        while self.marks.front().is_some_and(|mark| now_ms.since(mark.queued_ms) >= keep_ms) {
            self.pass(now_ms, keep_ms);
        }
    }

    fn make_room(&mut self, now_ms: MonotonicMs) -> bool {
        for _ in 0..PASSES_MAX {
            if self.marks.len() < self.marks_max {
                return true;
            }
            self.pass(now_ms, self.horizon_ms);
        }
        self.marks.len() < self.marks_max
    }

    /// Removes the oldest mark, or moves it to the back of the queue if it was used within `keep_ms`.
    fn pass(&mut self, now_ms: MonotonicMs, keep_ms: u64) {
        if let Some(mark) = self.marks.pop_front()
            && now_ms.since(mark.used_ms) < keep_ms
        {
            self.marks.push_back(Mark { queued_ms: now_ms, ..mark });
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.marks.len() as u64 * KeyedQueue::<Mark>::ENTRY_BYTES
    }
}
