//! Rule that first tests the two buckets of an event, and then adds an entry if the event is new.
//!
//! For a new event that is on time, the rule reads two cache lines and writes one. It handles rarer cases with
//! [`Region::put`]: late events, events that restart their window, full buckets, and entries in the stash.
//!
//! This module does not depend on where lines lie in memory.

use crate::arch::{Instructions, Lanes};
use crate::buckets::{BucketShape, RegionLines, TICKS_MAX};
use crate::cell_kind::{Pass, Recorded, Recording};
use crate::cuckoo::Buckets;
use crate::cuckoo::bucket::{Ring, matches};
use crate::cuckoo::region::{Put, Region};
use crate::cuckoo::times::TimeWord;
use crate::cuckoo::view::View;
use crate::events::Events;
use crate::kernel::{PairRule, Walk, run_pairs};
use crate::unit_number::UnitNumber;
use crate::{Geometry, Refresh, Stamp};

/// State of one pass over a batch.
pub(crate) struct BucketRule<'a, W> {
    pass: Pass<'a>,
    buckets: &'a Buckets<W>,
    now: UnitNumber,
    base: UnitNumber,
    /// Tick at which an event on time expires, counted from the base. No other event expires later.
    tick: u32,
    recorded: Recorded,
    /// Indexes of the events of the batch for which there was no room.
    refused: Vec<usize>,
    /// Number of events that restarted their window, by the tick at which they would have expired, counted from the
    /// base.
    raised: [u32; TICKS_MAX + 1],
}

impl<'a, W: TimeWord> BucketRule<'a, W> {
    pub(super) fn new(buckets: &'a Buckets<W>, pass: Pass<'a>, now: UnitNumber) -> Self {
        let base = buckets.base(now);
        let tick = buckets.window.expiry(now).since(base).min(u64::from(buckets.shape.ticks())) as u32;
        Self {
            pass,
            buckets,
            now,
            base,
            tick,
            recorded: Recorded::default(),
            refused: Vec::new(),
            raised: [0; TICKS_MAX + 1],
        }
    }

    pub(super) fn recorded(&self) -> Recorded {
        self.recorded
    }

    pub(super) fn take_refused(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.refused)
    }

    /// Returns the units in which the events that restarted their window had been recorded, and the number of events
    /// for each unit.
    pub(super) fn raised(&self) -> impl Iterator<Item = (UnitNumber, u64)> {
        let by_tick = self.raised.iter().zip(0..).filter(|(events, _)| **events > 0);
        by_tick.map(|(events, tick)| (self.buckets.recorded_unit(self.base.after(tick)), u64::from(*events)))
    }

    /// Returns whether the event is alive for `stamp`, if its fingerprint is in `slots` of a bucket.
    #[inline(always)]
    fn is_alive(&self, ring: Ring<W>, slots: u64, stamp: Stamp, lanes: Lanes) -> bool {
        if slots == 0 || stamp.judged == self.base {
            return slots != 0;
        }
        let place = ring.place(slots.trailing_zeros(), self.buckets.shape);
        self.base.after(u64::from(ring.tick(place, lanes))) > stamp.judged
    }

    #[cold]
    #[inline(never)]
    fn is_stashed(&self, lines: &RegionLines, bucket: usize, print: u32, stamp: Stamp) -> bool {
        let view = View::<W>::new(lines, self.buckets.shape, self.base, Lanes::PORTABLE);
        view.find(bucket, print).is_some_and(|(_, expiry)| expiry > stamp.judged)
    }

    #[cold]
    #[inline(never)]
    fn put(&mut self, index: usize, lines: &mut RegionLines, bucket: usize, print: u32, is_new: bool, lanes: Lanes) {
        let expiry = self.buckets.window.expiry(self.pass.stamps[index].unit);
        if expiry <= self.base {
            return;
        }
        let mut region = Region::<W>::new(lines, self.buckets.shape, self.base, lanes);
        let before = region.stashed();
        let put = if is_new { Region::put_new } else { Region::put };
        match put(&mut region, bucket, print, expiry) {
            Put::New => self.recorded.events += 1,
            Put::Raised(held) => {
                self.raised[held.since(self.base).min(TICKS_MAX as u64) as usize] += 1;
                self.recorded.refreshed = true;
            }
            Put::Kept => {}
            Put::Full => self.refused.push(index),
        }
        self.recorded.cells += region.stashed().saturating_sub(before);
    }
}

impl<W: TimeWord> Walk for BucketRule<'_, W> {
    fn walk<E: Events>(
        &mut self,
        instructions: Instructions,
        memory: &mut [u8],
        geometry: &Geometry,
        events: E,
        found: &mut [bool],
    ) {
        run_pairs(instructions, memory, geometry, events, self, found);
    }
}

impl<W: TimeWord> PairRule for BucketRule<'_, W> {
    fn print_bits(&self) -> u32 {
        self.buckets.shape.print_bits()
    }

    #[inline(always)]
    fn touch<const PRINT_BITS: u32>(
        &mut self,
        index: usize,
        lines: &mut RegionLines,
        pair: [usize; 2],
        print: u32,
        lanes: Lanes,
    ) -> bool {
        let shape = if PRINT_BITS == 0 { self.buckets.shape } else { BucketShape::new(PRINT_BITS, W::BITS) };
        let stamp = self.pass.stamps[index];
        let known = self.pass.is_known(index);
        let [mut first, mut second] = pair.map(|bucket| Ring::<W>::read(&lines[bucket], shape));
        first.expire(self.base, shape, lanes);
        second.expire(self.base, shape, lanes);
        let in_first = matches(first, &lines[pair[0]], print, shape, lanes);
        let in_second = matches(second, &lines[pair[1]], print, shape, lanes);
        let has_stashed = self.pass.used_cells + self.recorded.cells > 0;
        let found = known
            || self.is_alive(first, in_first, stamp, lanes)
            || self.is_alive(second, in_second, stamp, lanes)
            || has_stashed && self.is_stashed(lines, pair[0], print, stamp);
        let refreshes = self.buckets.refresh == Refresh::Refresh;
        let puts = match self.pass.record {
            Recording::Everything => !found || refreshes,
            Recording::Refreshes => found && !known && refreshes,
            Recording::Nothing => false,
        };
        if puts {
            let emptier = usize::from(second.count() < first.count());
            let mut ring = [first, second][emptier];
            let bucket = pair[emptier];
            let is_new = (in_first | in_second) == 0 && !has_stashed;
            if is_new && stamp.unit == self.now && self.tick > 0 && !ring.is_full(shape) {
                ring.append(&mut lines[bucket], print, self.tick, shape);
                self.recorded.events += 1;
            } else {
                self.put(index, lines, pair[0], print, is_new, lanes);
            }
        }
        found
    }
}
