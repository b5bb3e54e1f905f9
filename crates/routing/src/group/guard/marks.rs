//! Low-water marks: a name below one says nothing any more, because its reply may have been forgotten.
//!
//! Promises: a mark outlives its owner's last use by [`MARK_HORIZONS`] retry horizons, and by one where memory is
//! short; where not even that is possible, owners without a mark yet are turned away. Must not know: what was
//! forgotten.

use super::queue::{Keyed, KeyedQueue, mix};
use crate::protocol::MonotonicMs;

/// Retry horizons for which an unused mark is kept where there is room: with a horizon of a minute most of a day.
const MARK_HORIZONS: u64 = 1000;

/// Marks looked at to make room for another.
const PASSES_MAX: usize = 8;

/// The mark of an owner of names (a producer, a source): the number from which on its names are good.
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

    /// The mark of an owner that is used now: numbers below are too old. `None` where there is no room for another.
    pub(super) fn touch(&mut self, owner: u128, now_ms: MonotonicMs) -> Option<u64> {
        if let Some(mark) = self.marks.find_mut(owner) {
            mark.used_ms = now_ms;
            return Some(mark.low_water);
        }
        self.make_room(now_ms)
            .then(|| self.marks.push_back(Mark { owner, low_water: 0, used_ms: now_ms, queued_ms: now_ms }).low_water)
    }

    /// Numbers up to `number` are too old from now on.
    pub(super) fn raise(&mut self, owner: u128, number: u64) {
        if let Some(mark) = self.marks.find_mut(owner) {
            mark.low_water = mark.low_water.max(number.saturating_add(1));
        }
    }

    /// Owners with their low-water marks, but for those that say nothing.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u128, u64)> {
        self.marks.iter().filter(|mark| mark.low_water > 0).map(|mark| (mark.owner, mark.low_water))
    }

    /// Forgets marks that were not used for long.
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

    /// Removes the mark at the front, or puts it at the back if it was used within `keep_ms`.
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
