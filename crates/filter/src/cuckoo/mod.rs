//! Kind `cuckoo`: a filter for sliding windows that stores fingerprints in the buckets of a cuckoo filter (Fan,
//! Andersen, Kaminsky, Mitzenmacher, "Cuckoo Filter: Practically Better Than Bloom", CoNEXT 2014). The page
//! `docs/reference/kinds.md` compares this kind with others.
//!
//! Three details are specific to this project. A bucket keeps its fingerprints in the order of their expiry. It stores
//! the times of the fingerprints in unary code. Buckets are grouped into regions, and the two buckets of an event
//! always lie in the same region.
//!
//! The fingerprint of an event lies in one of its two buckets, and each bucket is a cache line. The filter therefore
//! reads two cache lines to test an event, and writes one cache line to record it. A new event is a false positive if
//! its fingerprint equals that of another entry in its two buckets. The false-positive rate therefore follows from the
//! number of entries in two buckets ([`crate::rates::cuckoo`]).
//!
//! - An event judged at `j` is found if it was recorded with an expiry above `j`.
//! - Every answer depends only on the set of recorded events with their greatest expiries, and on the number of live
//!   events. An event is identified by its pair of buckets and its fingerprint. Where an entry lies never matters.
//! - A region keeps every entry until it expires. If a region has no room, it rejects new entries.
//!
//! This module does not depend on the length of a tick.

mod bucket;
mod merge;
mod region;
mod rule;
mod stash;
mod times;
mod view;

use std::marker::PhantomData;
use std::ops::Range;

use crate::arch::{Instructions, Lanes, compiled_for};
use crate::buckets::{
    BUCKET_BYTES, BucketShape, CacheLine, PRINT_BITS_MAX, PRINT_BITS_MIN, Pair, REGION_BUCKETS, REGION_BYTES,
    REGION_LINES, lines_of, regions_of, regions_of_mut,
};
use crate::cell_kind::{CellKind, Density, Pass, Recorded, sample};
use crate::generation::{Generation, LiveEvents};
use crate::rates;
use crate::sweep::Sweep;
use crate::unit_number::UnitNumber;
use crate::{Refresh, Stamp, WindowRule};
use bucket::Ring;
use region::{Put, Region};
use rule::BucketRule;
use times::TimeWord;
use view::View;

/// Buckets with 64 bits for times.
pub type Buckets64 = Buckets<u64>;
/// Buckets with 128 bits for times. They distinguish more ticks and hold fewer fingerprints.
pub type Buckets128 = Buckets<u128>;

/// Number of ticks within which every bucket is visited. The number must be less than 32, because the base of a bucket
/// distinguishes 32 ticks.
const SWEEP_PERIOD_UNITS: u64 = 24;

/// Fingerprints in buckets, in the order of their expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets<W> {
    window: WindowRule,
    refresh: Refresh,
    shape: BucketShape,
    width: PhantomData<W>,
}

#[allow(private_bounds)]
impl<W: TimeWord> Buckets<W> {
    /// Creates the kind for `window` with fingerprints of `print_bits` bits. Returns `None` if the buckets cannot
    /// distinguish the number of ticks.
    pub fn new(window: WindowRule, refresh: Refresh, print_bits: u32) -> Option<Self> {
        if !(PRINT_BITS_MIN..=PRINT_BITS_MAX).contains(&print_bits) || window.span_units == 0 {
            return None;
        }
        let shape = BucketShape::new(print_bits, W::BITS);
        let reach = window.span_units.checked_add(window.lateness_units)?;
        (reach <= u64::from(shape.ticks())).then_some(Self { window, refresh, shape, width: PhantomData })
    }

    /// Returns the base: the latest unit such that every event that may still arrive is judged at or after it. Live
    /// entries expire after the base.
    fn base(&self, now: UnitNumber) -> UnitNumber {
        now.before(self.window.lateness_units)
    }

    /// Returns the unit in which an event was recorded that expires at `expiry`.
    fn recorded_unit(&self, expiry: UnitNumber) -> UnitNumber {
        expiry.before(self.window.span_units)
    }

    /// Returns the number of ticks after the base within which every entry expires.
    fn reach(&self) -> u64 {
        self.window.span_units + self.window.lateness_units
    }

    /// Returns the latest expiry of an event that may have been recorded at unit `now`.
    fn latest(&self, now: UnitNumber) -> UnitNumber {
        self.base(now).after(self.reach())
    }

    fn sweep_plan() -> Sweep {
        Sweep { period_units: SWEEP_PERIOD_UNITS, grain_bytes: BUCKET_BYTES }
    }

    /// Moves the lines in `bytes` from unit `now` to unit `next`, and removes the entries that have expired.
    fn settle(&self, generation: &mut Generation, bytes: Range<usize>, now: UnitNumber, next: UnitNumber) {
        let base = self.base(now);
        let next_base = self.base(next);
        let shape = self.shape;
        let first = bytes.start / BUCKET_BYTES;
        let lines = generation.memory.bytes_mut()[bytes.clone()].as_chunks_mut::<{ BUCKET_BYTES }>().0;
        compiled_for(Instructions::Widest, |lanes| {
            for (line, number) in lines.iter_mut().zip(first..) {
                if number % REGION_LINES != REGION_BUCKETS {
                    settle_line::<W>(line, base, next_base, shape, lanes);
                }
            }
        });
    }

    /// Moves entries of stashes back to their buckets, if these have room. Only stashes whose line lies in `bytes` are
    /// examined.
    fn unstash(&self, generation: &mut Generation, bytes: Range<usize>, now: UnitNumber) {
        if generation.used_cells == 0 {
            return;
        }
        let stash_bytes = REGION_BUCKETS * BUCKET_BYTES;
        for number in bytes.start / REGION_BYTES..=bytes.end / REGION_BYTES {
            if !bytes.contains(&(number * REGION_BYTES + stash_bytes)) {
                continue;
            }
            let mut region = self.region(generation.memory.bytes_mut(), number, now);
            let before = region.stashed();
            region.unstash();
            generation.used_cells = (generation.used_cells + region.stashed()).saturating_sub(before);
        }
    }

    /// Returns region `number` of `memory` as it is at `now`.
    fn region<'a>(&self, memory: &'a mut [u8], number: usize, now: UnitNumber) -> Region<'a, W> {
        Region::new(&mut regions_of_mut(memory)[number], self.shape, self.base(now), Lanes::widest())
    }
}

#[inline(always)]
fn settle_line<W: TimeWord>(
    line: &mut CacheLine,
    base: UnitNumber,
    next: UnitNumber,
    shape: BucketShape,
    lanes: Lanes,
) {
    let mut ring = Ring::<W>::read(line, shape);
    // A line without entries is not written. Memory that was never touched then need not be provided by the operating
    // system.
    if ring.count() > 0 {
        ring.expire_later(base, next, shape, lanes);
        ring.write(line, shape);
    }
}

impl<W: TimeWord> CellKind for Buckets<W> {
    type Rule<'a> = BucketRule<'a, W>;
    /// The slack is 0, because a tick is long and an event must find the entries that are alive at its own tick.
    const SLACK_UNITS: u64 = 0;
    const COUNTS_ALONE: bool = true;
    const SWEEP_BYTES: usize = BUCKET_BYTES;
    const RUN_BYTES: usize = REGION_BYTES;

    fn window(&self) -> &WindowRule {
        &self.window
    }

    /// Entries keep their places until the latest late event has been judged.
    fn counted(&self) -> WindowRule {
        WindowRule { span_units: self.reach(), lateness_units: 0 }
    }

    fn rule<'a>(&'a self, pass: Pass<'a>, now: UnitNumber) -> BucketRule<'a, W> {
        BucketRule::new(self, pass, now)
    }

    fn recorded(rule: &BucketRule<'_, W>) -> Recorded {
        rule.recorded()
    }

    fn take_refused(rule: &mut BucketRule<'_, W>) -> Vec<usize> {
        rule.take_refused()
    }

    /// Events that restart their window keep their places for longer, so they are counted in the present unit.
    fn note_refreshed(rule: &BucketRule<'_, W>, live: &mut LiveEvents, now: UnitNumber) {
        let Recorded { refreshed: true, .. } = rule.recorded() else { return };
        live.refresh(now);
        for (unit, events) in rule.raised() {
            live.take_back(unit, events);
            live.record(now, events);
        }
    }

    fn advance(&self, generation: &mut Generation, now: UnitNumber, next: UnitNumber) {
        let parts = Self::sweep_plan().parts_until(generation, now, next);
        parts.iter().for_each(|part| self.settle(generation, part.clone(), now, next));
        // A stash may be emptied into any bucket of its region, so all buckets must be at `next` or close to it.
        parts.into_iter().for_each(|part| self.unstash(generation, part, next));
    }

    fn sweep(&self, generation: &mut Generation, now: UnitNumber, budget_bytes: usize) {
        let part = Self::sweep_plan().step(generation, now, budget_bytes);
        self.settle(generation, part.clone(), now, now);
        self.unstash(generation, part, now);
    }

    fn density(&self, generation: &Generation, now: UnitNumber, bytes_max: usize) -> Density {
        let base = self.base(now);
        let shape = self.shape;
        let mut entries = 0u64;
        let mut slots = 0u64;
        for region in regions_of(sample(generation.memory.bytes(), bytes_max, REGION_BYTES)) {
            for line in &region[..REGION_BUCKETS] {
                let mut ring = Ring::<W>::read(line, shape);
                ring.expire(base, shape, Lanes::PORTABLE);
                entries += u64::from(ring.count());
                slots += u64::from(shape.slots());
            }
        }
        let fill = entries as f64 / slots.max(1) as f64;
        Density { fill, rate: rates::cuckoo::rate(shape, fill) }
    }

    fn sight(&self, generation: &Generation, positions: &[u64], stamp: Stamp, now: UnitNumber) -> (u16, UnitNumber) {
        let Some(position) = positions.first() else { return (1, UnitNumber::NEVER) };
        let Pair { region, bucket, print } = Pair::of(*position, self.shape.print_bits());
        let lines = &regions_of(generation.memory.bytes())[region];
        let found = View::<W>::new(lines, self.shape, self.base(now), Lanes::PORTABLE).find(bucket, print);
        match found.filter(|(_, expiry)| *expiry > stamp.judged) {
            Some((_, expiry)) => (1, expiry),
            None => (0, UnitNumber::NEVER),
        }
    }

    fn set(&self, generation: &mut Generation, positions: &[u64], stamp: Stamp, now: UnitNumber) -> Option<Recorded> {
        let expiry = self.window.expiry(stamp.unit);
        let Some(position) = positions.first().filter(|_| expiry > self.base(now)) else {
            return Some(Recorded::default());
        };
        let Pair { region, bucket, print } = Pair::of(*position, self.shape.print_bits());
        let mut region = self.region(generation.memory.bytes_mut(), region, now);
        // Most events are on time and new, and most filters have empty stashes. This fast path then avoids reading the
        // line of the stash.
        let is_latest = stamp.unit == now && expiry > self.base(now);
        if is_latest
            && generation.used_cells == 0
            && region.append_new(bucket, print, expiry.since(self.base(now)) as u32)
        {
            return Some(Recorded::one(0));
        }
        let before = region.stashed();
        let put = region.put(bucket, print, expiry);
        let recorded = Recorded::one(region.stashed().saturating_sub(before));
        match put {
            Put::Full => None,
            Put::New => Some(recorded),
            Put::Kept => Some(Recorded { events: 0, ..recorded }),
            Put::Raised(held) => {
                generation.live.take_back(self.recorded_unit(held), 1);
                Some(recorded)
            }
        }
    }

    fn merge(&self, cells: &mut [u8], others: &[u8], then: UnitNumber, now: UnitNumber) -> Option<u64> {
        self.merge_regions(cells, others, then, now)
    }

    fn lacks(&self, cells: &[u8], others: &[u8], then: UnitNumber, now: UnitNumber) -> bool {
        self.lacks_entries(cells, others, then, now)
    }

    fn age_max_units(&self) -> u64 {
        u64::MAX
    }

    fn used(&self, cells: &[u8]) -> u64 {
        let lines = lines_of(cells);
        lines.iter().skip(REGION_BUCKETS).step_by(REGION_LINES).map(stash::stashed_count).sum()
    }

    fn can_hold(&self, cells: &[u8], then: UnitNumber) -> bool {
        let latest = self.latest(then);
        lines_of(cells).iter().enumerate().all(|(number, line)| match number % REGION_LINES {
            REGION_BUCKETS => stash::is_stash(line, self.shape, latest),
            _ => bucket::is_bucket::<W>(line, self.shape, self.reach()),
        })
    }
}
