//! `decaying`: how often an event occurred, where an occurrence of d epochs ago counts `lambda^d` (C05).
//!
//! `f_e(now)` is the sum over the occurrences of e of `lambda^(epoch(now) - epoch(occurrence))`; epochs are aligned to
//! the clock and are the units of the stamps.
//!
//! Promises: no estimate is below the truth by more than [`DecayRule::epsilon`], unless [`DecayingFilter::degraded`]
//! says so; with [`DecayRule::Lasting`] every estimate is zero [`DecayingFilter::silence_epochs`] after input stops.
//! Must not know: how long an epoch is.

mod basic;
mod counters;
mod extended;
mod pool;
mod rule;
mod seen;

use std::io;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ahead::{Positions, walk};
use crate::body::{read_u64, write_u64};
use crate::events::Events;
use crate::number::number;
use crate::unit_number::UnitNumber;
use crate::{Digest, Geometry, GeometryError, Layout, Stamp, rates};
use counters::Counters;
use rule::{Decay, LAMBDA_RANGE};
pub use rule::{DecayRule, FRACTION_BITS_MAX};
use seen::SeenLately;

/// Why a decaying filter cannot be made.
#[derive(Debug, Error)]
pub enum DecayingError {
    /// The cells or positions are impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The decay factor does not decay, or leaves nothing.
    #[error("a decay factor of {} an epoch: choose {start} to {end}", number(.0), start = LAMBDA_RANGE.start(), end = LAMBDA_RANGE.end())]
    Lambda(f64),
    /// The number of fractional bits is outside `2..=12`.
    #[error("{0} fractional bits: choose 2 to {FRACTION_BITS_MAX}")]
    FractionBits(u32),
    /// The system refused the memory.
    #[error("no memory for the filter: {0}; choose fewer cells or extensions")]
    Memory(#[from] io::Error),
}

/// How counters are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CounterStorage {
    /// 16 bits each (C05 3). Saturates at 65,535 parts: `65535 / 2^f` occurrences and less.
    Basic,
    /// 4 bits each (8 with [`DecayRule::Lasting`], which has a fraction to keep), and extensions of 4 bits from a
    /// common pool for those that need more, up to 32 bits (C05 4); before them a filter BF_0 that answers "never
    /// seen" without looking at counters. For skewed data: about a third of the memory of `Basic` with the literal
    /// rule and two thirds with the lasting one, and two to three times its time an event. The time grows with the
    /// extensions that 64 neighbouring cells have together: where most cells are extended, choose `Basic`.
    Extended {
        /// Extensions in the pool. The paper's are m/2; those never used take no memory.
        extensions: u32,
    },
}

/// Cells (m), positions (k), decay and storage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecayingShape {
    /// Cells (m).
    pub cells: u64,
    /// Positions of an event (k).
    pub hashes: u32,
    /// How counters decay as epochs pass.
    pub rule: DecayRule,
    /// How counters are kept.
    pub storage: CounterStorage,
}

impl DecayingShape {
    /// Bits a cell, rounded up, with BF_0 and the lookup table but without extensions: those take memory only where
    /// they are needed.
    pub fn cell_bits(&self) -> u64 {
        match (self.storage, self.rule) {
            (CounterStorage::Basic, _) => 16,
            (CounterStorage::Extended { .. }, DecayRule::Literal { .. }) => 5,
            (CounterStorage::Extended { .. }, DecayRule::Lasting { .. }) => 10,
        }
    }

    /// The geometry of the counters, if the shape is possible.
    pub(crate) fn check(&self) -> Result<Geometry, DecayingError> {
        self.rule.check()?;
        Ok(Geometry::new(self.cells, self.hashes, 1, Layout::Classic)?)
    }
}

/// Estimates of decayed frequencies. An occurrence adds to its k cells, an estimate is the least of the k.
///
/// Estimates are too high where other events share all k cells, and by the rounding that [`DecayRule`] states. With
/// [`DecayRule::Lasting`] an occurrence raises its cells only to the new estimate (those that others have raised
/// already stay), which keeps the bound and shares less; the literal rule adds to all k, as the paper does.
///
/// ```
/// use firstseen_filter::{CounterStorage, DecayRule, DecayingFilter, DecayingShape, FilterSecret, Stamp, UnitNumber};
/// let page = FilterSecret::from_seed(1).digest(b"/index.html");
/// let mut filter = DecayingFilter::new(DecayingShape {
///     cells: 1 << 12,
///     hashes: 4,
///     rule: DecayRule::Lasting { lambda: 0.5, fraction_bits: 4 },
///     storage: CounterStorage::Extended { extensions: 1 << 11 },
/// })
/// .unwrap();
/// let mut estimates = [0.0; 3];
/// filter.observe_batch(&[page; 3], &[0, 0, 1].map(|epoch| Stamp::on_time(UnitNumber(epoch))), &mut estimates);
/// assert_eq!(estimates, [1.0, 2.0, 2.0]);
/// assert_eq!(filter.estimate(page, UnitNumber(2)), 1.0);
/// assert_eq!(filter.estimate(page, UnitNumber(1).after(filter.silence_epochs().unwrap())), 0.0);
/// ```
pub struct DecayingFilter {
    shape: DecayingShape,
    geometry: Geometry,
    decay: Decay,
    counters: Counters,
    /// BF_0, where the storage has it.
    seen: Option<SeenLately>,
    /// The greatest epoch seen.
    epoch: UnitNumber,
    /// The worth of one part of a counter in `epoch`.
    worth: f64,
    degraded: u64,
}

impl DecayingFilter {
    /// An empty filter in the classic layout.
    ///
    /// # Errors
    /// If the shape or the rule is impossible, or the system refuses the memory.
    pub fn new(shape: DecayingShape) -> Result<Self, DecayingError> {
        let DecayingShape { cells, hashes, rule, storage } = shape;
        let geometry = shape.check()?;
        let decay = Decay::new(rule);
        let counters = Counters::zeroed(cells, storage, &decay)?;
        let seen = match storage {
            CounterStorage::Basic => None,
            CounterStorage::Extended { .. } => {
                let forget_epochs = decay.epochs_to_zero(counters.max());
                Some(SeenLately::new(SeenLately::shape_for(cells, hashes)?, forget_epochs)?)
            }
        };
        Ok(Self {
            shape,
            geometry,
            decay,
            counters,
            seen,
            epoch: UnitNumber::FIRST,
            worth: decay.worth(UnitNumber::FIRST),
            degraded: 0,
        })
    }

    /// Counts every event, then estimates it: `estimates[i]` includes the occurrence itself, so it is at least
    /// `1 - epsilon` for one on time.
    ///
    /// A stamp's `unit` is the epoch. Time goes on to the greatest epoch seen and never back; an occurrence of an
    /// earlier epoch is counted as decayed as it is by now. All counters decay when a run of epochs ends: every
    /// epoch with the literal rule, every `ln 2 / ln(1/lambda)` epochs with the lasting one.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn observe_batch(&mut self, digests: &[Digest], stamps: &[Stamp], estimates: &mut [f64]) {
        self.count(digests, stamps, estimates);
    }

    /// Estimates every event at the epoch of its stamp; nothing changes.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn estimate_batch(&self, digests: &[Digest], stamps: &[Stamp], estimates: &mut [f64]) {
        self.estimate_all(digests, stamps, estimates);
    }

    /// The decayed frequency of an event at `epoch`, or now if that is later. Zero means never seen, or so long ago
    /// that less than epsilon is left.
    pub fn estimate(&self, digest: Digest, epoch: UnitNumber) -> f64 {
        self.estimate_at(&self.find(&[digest][..], 0, self.epoch), epoch)
    }

    pub(crate) fn count<E: Events>(&mut self, events: E, stamps: &[Stamp], estimates: &mut [f64]) {
        let count = events.count();
        assert!(count == stamps.len() && count == estimates.len(), "one stamp and estimate an event");
        walk(
            self,
            count,
            |filter, index| filter.find(events, index, stamps[index].unit),
            |filter, index, probe| estimates[index] = filter.observe(&probe, stamps[index].unit),
        );
    }

    pub(crate) fn estimate_all<E: Events>(&self, events: E, stamps: &[Stamp], estimates: &mut [f64]) {
        let count = events.count();
        assert!(count == stamps.len() && count == estimates.len(), "one stamp and estimate an event");
        walk(
            &mut &*self,
            count,
            |filter, index| filter.find(events, index, filter.epoch),
            |filter, index, probe| estimates[index] = filter.estimate_at(&probe, stamps[index].unit),
        );
    }

    #[inline(always)]
    fn find<E: Events>(&self, events: E, index: usize, epoch: UnitNumber) -> Probe {
        let counters = Positions::of(events, index, &self.geometry);
        counters.iter().for_each(|position| self.counters.prefetch(position));
        let Some(seen) = &self.seen else {
            return Probe { counters, seen: Positions::default() };
        };
        let seen_positions = seen.find(&counters);
        seen.prefetch(&seen_positions, epoch);
        Probe { counters, seen: seen_positions }
    }

    #[inline(always)]
    fn observe(&mut self, probe: &Probe, epoch: UnitNumber) -> f64 {
        self.advance(epoch);
        if let Some(seen) = &mut self.seen {
            seen.record(&probe.seen, self.epoch);
        }
        let added = self.decay.parts(self.epoch.since(epoch), self.worth);
        f64::from(self.add(probe, added)) * self.worth
    }

    /// Adds to the counters of one event; the least of them afterwards.
    #[inline(always)]
    fn add(&mut self, probe: &Probe, added: u32) -> u32 {
        let literal = self.decay.literal;
        let raised = if literal { 0 } else { self.least(probe).saturating_add(added) };
        let mut lost = false;
        for position in probe.counters.iter() {
            let held = self.counters.get(position);
            let wanted = if literal { held.saturating_add(added) } else { raised };
            // A counter at the end of its 32 bits is taken for one that has lost some.
            lost |= wanted == u32::MAX || wanted > held && !self.counters.set(position, wanted);
        }
        self.degraded = self.degraded.saturating_add(u64::from(lost));
        // An event with two positions in one cell has added to it twice by the literal rule.
        if lost || literal { self.least(probe) } else { raised }
    }

    #[inline(always)]
    fn least(&self, probe: &Probe) -> u32 {
        probe.counters.iter().map(|position| self.counters.get(position)).min().unwrap_or(0)
    }

    #[inline(always)]
    fn estimate_at(&self, probe: &Probe, epoch: UnitNumber) -> f64 {
        let epoch = epoch.max(self.epoch);
        if self.seen.as_ref().is_some_and(|seen| !seen.holds(&probe.seen, self.epoch, epoch)) {
            return 0.0;
        }
        let mut parts = self.least(probe);
        for _ in 0..self.decay.steps_between(self.epoch, epoch) {
            let decayed = self.decay.step(parts);
            if decayed == parts {
                break;
            }
            parts = decayed;
        }
        f64::from(parts) * self.decay.worth(epoch)
    }

    /// Lets time go on to `epoch`, or stay where it is if that is later, without an event.
    #[inline]
    pub fn advance(&mut self, epoch: UnitNumber) {
        if epoch > self.epoch {
            self.pass(epoch);
        }
    }

    /// Lets all epochs up to `epoch` pass: counter by counter the same as one after the other.
    #[cold]
    fn pass(&mut self, epoch: UnitNumber) {
        for _ in 0..self.decay.steps_between(self.epoch, epoch) {
            if !self.counters.step(&self.decay) {
                break;
            }
        }
        if let Some(seen) = &mut self.seen {
            seen.advance(self.epoch, epoch);
        }
        self.epoch = epoch;
        self.worth = self.decay.worth(epoch);
    }

    /// Occurrences that could not be counted in full, because a counter was at its maximum or the pool empty. While
    /// this is 0 the bound holds; once it grows, estimates of events that share such a counter may be below it, until
    /// [`Self::silence_epochs`] have passed since it last grew.
    pub fn degraded(&self) -> u64 {
        self.degraded
    }

    /// Epochs without input after which every estimate is zero, from the greatest counter that the storage can hold;
    /// `None` with the literal rule, whose counters never get there.
    pub fn silence_epochs(&self) -> Option<u64> {
        self.decay.epochs_to_zero(self.counters.max())
    }

    /// Extension counters in use now; 0 for the basic storage.
    pub fn extensions_used(&self) -> u32 {
        self.counters.extensions_used()
    }

    /// Bytes reserved: counters, BF_0, lookup table and the whole pool.
    pub fn bytes(&self) -> u64 {
        self.counters.bytes() + self.seen_bytes()
    }

    /// Bytes that the system has to provide: as [`Self::bytes`], less the extensions that were never needed.
    pub fn touched_bytes(&self) -> u64 {
        self.counters.touched_bytes() + self.seen_bytes()
    }

    fn seen_bytes(&self) -> u64 {
        self.seen.as_ref().map_or(0, SeenLately::bytes)
    }

    /// Cells (m), positions (k) and layout; the width of the counters follows from [`DecayingShape::storage`].
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The shape that the filter was made from.
    pub fn shape(&self) -> DecayingShape {
        self.shape
    }

    /// The greatest epoch seen.
    pub fn epoch(&self) -> UnitNumber {
        self.epoch
    }

    /// The part of the counters that is not zero; reads all of them.
    pub fn fill(&self) -> f64 {
        self.counters.share_occupied(usize::MAX)
    }

    /// The chance that an event never seen has an estimate above zero now: `fill^k` (C05 4.1), times the chance that
    /// BF_0 knows it, where there is one.
    pub fn expected_rate(&self) -> f64 {
        self.rate_within(usize::MAX)
    }

    /// The same, estimated from the first `bytes_max` bytes of the counters, and of BF_0.
    pub(crate) fn rate_within(&self, bytes_max: usize) -> f64 {
        let counted = rates::plain::rate_from_fill(self.geometry.hashes(), self.counters.share_occupied(bytes_max));
        self.seen.as_ref().map_or(counted, |seen| counted * seen.rate_within(bytes_max))
    }

    /// Bytes that [`Self::write_body`] writes now.
    pub fn body_bytes(&self) -> u64 {
        16 + self.counters.body_bytes(self.counters.touched_bytes()) + self.seen_bytes()
    }

    /// The most that [`Self::write_body`] of a filter of this shape ever writes: with all extensions in use.
    pub fn body_bytes_max(&self) -> u64 {
        16 + self.counters.body_bytes(self.counters.bytes()) + self.seen_bytes()
    }

    /// Writes all state: the epoch, the number of degraded occurrences, the counters; extensions only as far as they
    /// were ever used.
    ///
    /// # Errors
    /// What `sink` answers.
    pub fn write_body(&self, sink: &mut dyn io::Write) -> io::Result<()> {
        write_u64(sink, self.epoch.0)?;
        write_u64(sink, self.degraded)?;
        if let Some(seen) = &self.seen {
            seen.write(sink)?;
        }
        self.counters.write(sink)
    }

    /// Replaces all state by what [`Self::write_body`] of a filter of the same shape wrote. Every chain of extensions
    /// is followed to see that it ends, stays in the pool and shares nothing with another.
    ///
    /// # Errors
    /// What `source` answers, and `InvalidData` for what no filter writes; the filter must then be dropped.
    pub fn read_body(&mut self, source: &mut dyn io::Read) -> io::Result<()> {
        self.epoch = UnitNumber(read_u64(source)?);
        self.degraded = read_u64(source)?;
        self.worth = self.decay.worth(self.epoch);
        if let Some(seen) = &mut self.seen {
            seen.read(source)?;
        }
        self.counters.read(source)
    }
}

/// Where an event is counted, and where BF_0 keeps it.
#[derive(Clone, Copy, Default)]
struct Probe {
    counters: Positions,
    seen: Positions,
}
