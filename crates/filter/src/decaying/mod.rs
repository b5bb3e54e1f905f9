//! Kind `decaying`: a filter that estimates how often an event occurred, where recent occurrences count more. An
//! occurrence d epochs ago counts `lambda^d` (Cheng et al., "Efficient Web Profiling by Time-Decaying Bloom Filters").
//!
//! The decayed frequency `f_e(now)` of an event e is the sum of `lambda^(epoch(now) - epoch(occurrence))` over all
//! occurrences of e. An epoch is a fixed period that is aligned to the clock. The units of the stamps are epochs.
//!
//! - An estimate is never below the true frequency by more than [`DecayRule::epsilon`], unless
//!   [`DecayingFilter::degraded`] reports otherwise.
//! - With [`DecayRule::Lasting`], every estimate is zero [`DecayingFilter::silence_epochs`] after the last input.
//!
//! This module does not depend on the length of an epoch.

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
use seen::RecentKeys;

/// Reason why a decaying filter cannot be created.
#[derive(Debug, Error)]
pub enum DecayingError {
    /// The number of cells or positions is invalid.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The decay factor is too close to 1 or to 0.
    #[error("a decay factor of {} per epoch: choose {start} to {end}", number(.0), start = LAMBDA_RANGE.start(), end = LAMBDA_RANGE.end())]
    Lambda(f64),
    /// The number of fractional bits is outside `2..=12`.
    #[error("{0} fractional bits: choose 2 to {FRACTION_BITS_MAX}")]
    FractionBits(u32),
    /// The operating system does not provide the memory.
    #[error("no memory for the filter: {0}; choose fewer cells or extensions")]
    Memory(#[from] io::Error),
}

/// Storage of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CounterStorage {
    /// Counters of 16 bits (Cheng et al., section 3). A counter saturates at 65,535 parts, which is at most `65535 /
    /// 2^f` occurrences.
    Basic,
    /// Small counters that are extended when needed (Cheng et al., section 4). A counter has 4 bits under
    /// [`DecayRule::Literal`]. Under [`DecayRule::Lasting`] it has 8 bits, because some of them hold a fraction. A
    /// counter that needs more bits takes extensions of 4 bits from a common pool, up to 32 bits in total.
    ///
    /// A Bloom filter named BF_0 is tested before the counters. It remembers which events have occurred. For an event
    /// that BF_0 does not know, the answer is "never seen", and the counters are not read.
    ///
    /// This storage suits streams in which a few keys are frequent and most keys are rare. It then takes less memory
    /// than `Basic`: about a third of it under [`DecayRule::Literal`], and about two thirds under
    /// [`DecayRule::Lasting`]. In return, each event takes two to three times as long.
    ///
    /// Choose `Basic` if most cells would need extensions. The extensions of 64 neighbouring cells form one chain, and
    /// every access to an extended counter follows this chain, so long chains are slow.
    Extended {
        /// Number of extensions in the pool. The paper uses m/2. Extensions that are never used take no memory.
        extensions: u32,
    },
}

/// Shape of a decaying filter: number of cells (m), positions per event (k), decay rule and storage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecayingShape {
    /// Number of cells (m).
    pub cells: u64,
    /// Number of positions per event (k).
    pub hashes: u32,
    /// Rule by which counters decay as epochs pass.
    pub rule: DecayRule,
    /// Storage of the counters.
    pub storage: CounterStorage,
}

impl DecayingShape {
    /// Returns the number of bits per cell, rounded up. The number includes BF_0 and the lookup table. It does not
    /// include the extensions, because they take memory only when they are needed.
    pub fn cell_bits(&self) -> u64 {
        match (self.storage, self.rule) {
            (CounterStorage::Basic, _) => 16,
            (CounterStorage::Extended { .. }, DecayRule::Literal { .. }) => 5,
            (CounterStorage::Extended { .. }, DecayRule::Lasting { .. }) => 10,
        }
    }

    /// Returns the geometry of the counters, if the shape is valid.
    pub(crate) fn check(&self) -> Result<Geometry, DecayingError> {
        self.rule.check()?;
        Ok(Geometry::new(self.cells, self.hashes, 1, Layout::Classic)?)
    }
}

/// Filter that estimates decayed frequencies. An occurrence adds to its k cells, and the estimate is the smallest of
/// the k cells.
///
/// An estimate can be higher than the true frequency for two reasons. Other events may have raised all k cells of the
/// event, so that even the smallest cell is too high. In addition, counters are rounded as [`DecayRule`] describes.
///
/// Under [`DecayRule::Lasting`], the filter reduces the effect of shared cells. An occurrence raises the k cells of its
/// event only to the new estimate, and leaves cells unchanged that other events have already raised higher. Under
/// [`DecayRule::Literal`], an occurrence adds to all k cells, as in the paper.
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
    /// The filter BF_0, if the storage has one.
    seen: Option<RecentKeys>,
    /// Greatest epoch so far.
    epoch: UnitNumber,
    /// Worth of one part of a counter in `epoch`, in occurrences.
    worth: f64,
    degraded: u64,
}

impl DecayingFilter {
    /// Creates an empty filter in the classic layout.
    ///
    /// # Errors
    /// Returns an error if the shape or the rule is invalid, or if the operating system does not provide the memory.
    pub fn new(shape: DecayingShape) -> Result<Self, DecayingError> {
        let DecayingShape { cells, hashes, rule, storage } = shape;
        let geometry = shape.check()?;
        let decay = Decay::new(rule);
        let counters = Counters::zeroed(cells, storage, &decay)?;
        let seen = match storage {
            CounterStorage::Basic => None,
            CounterStorage::Extended { .. } => {
                let forget_epochs = decay.epochs_to_zero(counters.max());
                Some(RecentKeys::new(RecentKeys::shape_for(cells, hashes)?, forget_epochs)?)
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

    /// Counts every event of a batch, and then estimates the frequency of each event. The estimate `estimates[i]`
    /// includes the occurrence itself. An event that is on time counts as 1, so its estimate is at least `1 - epsilon`,
    /// where epsilon is the rounding error [`DecayRule::epsilon`].
    ///
    /// The `unit` of a stamp is the epoch of the event. The filter advances to the greatest epoch so far and never goes
    /// back. A late occurrence, whose epoch is earlier than that of the filter, counts for less than 1, because its
    /// weight has decayed since its own epoch.
    ///
    /// Counters do not decay after every epoch, but only at the end of a run of epochs. A run is a single epoch under
    /// [`DecayRule::Literal`]. Under [`DecayRule::Lasting`], a run has about `ln 2 / ln(1/lambda)` epochs, which is the
    /// time in which the weight of an occurrence falls to one half.
    ///
    /// # Panics
    /// Panics if the slices differ in length.
    pub fn observe_batch(&mut self, digests: &[Digest], stamps: &[Stamp], estimates: &mut [f64]) {
        self.count(digests, stamps, estimates);
    }

    /// Estimates every event at the epoch of its stamp. The filter does not change.
    ///
    /// # Panics
    /// Panics if the slices differ in length.
    pub fn estimate_batch(&self, digests: &[Digest], stamps: &[Stamp], estimates: &mut [f64]) {
        self.estimate_all(digests, stamps, estimates);
    }

    /// Returns the decayed frequency of an event at `epoch`, or at the present epoch if that is later. The result is
    /// zero if the event was never seen. It may also be zero if the event occurred so long ago that its frequency is
    /// less than the rounding error [`DecayRule::epsilon`].
    pub fn estimate(&self, digest: Digest, epoch: UnitNumber) -> f64 {
        self.estimate_at(&self.find(&[digest][..], 0, self.epoch), epoch)
    }

    pub(crate) fn count<E: Events>(&mut self, events: E, stamps: &[Stamp], estimates: &mut [f64]) {
        let count = events.count();
        assert!(count == stamps.len() && count == estimates.len(), "each event needs one stamp and one estimate");
        walk(
            self,
            count,
            |filter, index| filter.find(events, index, stamps[index].unit),
            |filter, index, probe| estimates[index] = filter.observe(&probe, stamps[index].unit),
        );
    }

    pub(crate) fn estimate_all<E: Events>(&self, events: E, stamps: &[Stamp], estimates: &mut [f64]) {
        let count = events.count();
        assert!(count == stamps.len() && count == estimates.len(), "each event needs one stamp and one estimate");
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

    /// Adds to the counters of one event, and returns the smallest of them afterwards.
    #[inline(always)]
    fn add(&mut self, probe: &Probe, added: u32) -> u32 {
        let literal = self.decay.literal;
        let raised = if literal { 0 } else { self.least(probe).saturating_add(added) };
        let mut lost = false;
        for position in probe.counters.iter() {
            let held = self.counters.get(position);
            let wanted = if literal { held.saturating_add(added) } else { raised };
            // A counter at the end of its 32 bits may have lost occurrences, so it counts as degraded.
            lost |= wanted == u32::MAX || wanted > held && !self.counters.set(position, wanted);
        }
        self.degraded = self.degraded.saturating_add(u64::from(lost));
        // With the literal rule, an event with two positions in one cell has added to that cell twice.
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

    /// Advances the filter to `epoch` without an event. The call has no effect if the present epoch is later.
    #[inline]
    pub fn advance(&mut self, epoch: UnitNumber) {
        if epoch > self.epoch {
            self.pass(epoch);
        }
    }

    /// Advances all counters to `epoch`. The result is the same as advancing by one epoch at a time.
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

    /// Returns the number of occurrences that could not be counted in full, because a counter was at its maximum or the
    /// pool of extensions was empty. If such a counter belongs to an event, the estimate of this event may be further
    /// below its true frequency than [`DecayRule::epsilon`] allows.
    ///
    /// As long as the number is 0, no estimate is affected. If the number has grown, all estimates are reliable again
    /// when it has not grown for [`Self::silence_epochs`] epochs.
    pub fn degraded(&self) -> u64 {
        self.degraded
    }

    /// Returns the number of epochs without input after which every estimate is certainly zero. The number is
    /// calculated for counters that start at the greatest value that the storage can hold. Returns `None` for the
    /// literal rule, because its counters never return to zero.
    pub fn silence_epochs(&self) -> Option<u64> {
        self.decay.epochs_to_zero(self.counters.max())
    }

    /// Returns the number of extensions in use. The number is 0 for the basic storage.
    pub fn extensions_used(&self) -> u32 {
        self.counters.extensions_used()
    }

    /// Returns the reserved size in bytes: counters, BF_0, lookup table and the whole pool.
    pub fn bytes(&self) -> u64 {
        self.counters.bytes() + self.seen_bytes()
    }

    /// Returns the size in bytes that the operating system must provide. This is [`Self::bytes`] without the extensions
    /// that were never needed.
    pub fn touched_bytes(&self) -> u64 {
        self.counters.touched_bytes() + self.seen_bytes()
    }

    fn seen_bytes(&self) -> u64 {
        self.seen.as_ref().map_or(0, RecentKeys::bytes)
    }

    /// Returns the geometry of the counters: the number of cells (m), the positions per event (k) and the layout. The
    /// width of the counters follows from [`DecayingShape::storage`].
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the shape with which the filter was created.
    pub fn shape(&self) -> DecayingShape {
        self.shape
    }

    /// Returns the greatest epoch so far.
    pub fn epoch(&self) -> UnitNumber {
        self.epoch
    }

    /// Returns the share of counters that are not zero. The call reads all counters.
    pub fn fill(&self) -> f64 {
        self.counters.share_occupied(usize::MAX)
    }

    /// Returns the current probability that an event that was never seen has an estimate above zero. Without the filter
    /// BF_0, this probability is `fill^k` (Cheng et al., section 4.1). With BF_0, the event must also be a false
    /// positive of BF_0, so `fill^k` is multiplied by the false-positive rate of BF_0.
    pub fn expected_rate(&self) -> f64 {
        self.rate_within(usize::MAX)
    }

    /// Returns the rate of [`Self::expected_rate`], estimated from the first `bytes_max` bytes of the counters and of
    /// BF_0.
    pub(crate) fn rate_within(&self, bytes_max: usize) -> f64 {
        let counted = rates::plain::rate_from_fill(self.geometry.hashes(), self.counters.share_occupied(bytes_max));
        self.seen.as_ref().map_or(counted, |seen| counted * seen.rate_within(bytes_max))
    }

    /// Returns the number of bytes that [`Self::write_body`] writes at present.
    pub fn body_bytes(&self) -> u64 {
        16 + self.counters.body_bytes(self.counters.touched_bytes()) + self.seen_bytes()
    }

    /// Returns the maximum number of bytes that [`Self::write_body`] writes for a filter of this shape, with all
    /// extensions in use.
    pub fn body_bytes_max(&self) -> u64 {
        16 + self.counters.body_bytes(self.counters.bytes()) + self.seen_bytes()
    }

    /// Writes the whole state: the epoch, the number of degraded occurrences, and the counters. Only extensions that
    /// were ever used are written.
    ///
    /// # Errors
    /// Returns the errors of `sink`.
    pub fn write_body(&self, sink: &mut dyn io::Write) -> io::Result<()> {
        write_u64(sink, self.epoch.0)?;
        write_u64(sink, self.degraded)?;
        if let Some(seen) = &self.seen {
            seen.write(sink)?;
        }
        self.counters.write(sink)
    }

    /// Replaces the whole state by bytes that [`Self::write_body`] wrote for a filter of the same shape. To reject
    /// damaged bytes, the call follows every chain of extensions and checks that the chain ends, stays within the pool,
    /// and shares no extension with another chain.
    ///
    /// # Errors
    /// Returns the errors of `source`, and `InvalidData` if no filter can have this state. The filter must be dropped
    /// after an error.
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

/// Positions of an event in the counters and in BF_0.
#[derive(Clone, Copy, Default)]
struct Probe {
    counters: Positions,
    seen: Positions,
}
