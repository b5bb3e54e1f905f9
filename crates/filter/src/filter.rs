//! A filter slice of any kind. The kind is chosen at run time by the slice's definition.
//!
//! A slice can be built from a definition, saved, and read back. In all cases it answers exactly as the documentation
//! of its kind says.
//!
//! This module does not depend on other slices or on files.

use std::any::Any;
use std::io::{self, Read, Write};

use crate::arch::Instructions;
use crate::bloom::Bits;
use crate::build_error::BuildError;
use crate::cell_kind::{CellKind, Density, RATE_SAMPLE_BYTES};
use crate::counting::{JumpingCounting, SlidingCounting};
use crate::cuckoo::{Buckets64, Buckets128};
use crate::decaying::DecayingFilter;
use crate::definition::{
    BloomCells, CellDefinition, CuckooCells, DecayingCells, FilterDefinition, GenerationCells, JumpingCells,
    SlidingCells, StableCells, TimingCells,
};
use crate::flags::Flags;
use crate::frequencies::Frequencies;
use crate::generation_number::GenerationNumber;
use crate::generations::{Generations8, Generations16};
use crate::growth::{Growth, Limit};
use crate::slice::{CellSlice, MergeError};
use crate::stable::StableFilter;
use crate::timing::{Timers8, Timers16};
use crate::unit_number::UnitNumber;
use crate::{Digest, FilterSecret, Geometry, Kind, Layout, Stamp, TestResult, Verdict, WindowRule};

/// Filter slice of any kind: the cells of one part of a filter, together with the rule that reads and writes them.
pub struct FilterSlice(Cells);

enum Cells {
    Bloom(CellSlice<Bits>),
    Timing8(CellSlice<Timers8>),
    Timing16(CellSlice<Timers16>),
    Generations8(CellSlice<Generations8>),
    Generations16(CellSlice<Generations16>),
    Cuckoo64(CellSlice<Buckets64>),
    Cuckoo128(CellSlice<Buckets128>),
    JumpingCounting(Flags<JumpingCounting>),
    SlidingCounting(Flags<SlidingCounting>),
    Stable(Flags<StableFilter>),
    Decaying(Box<Frequencies>),
}

/// Evaluates an expression for the filter in a slice. The caller passes two expressions, because there are two groups
/// of kinds. For kinds that consist of generations of cells, the first expression is evaluated, and the filter is bound
/// to `$slice`. For all other kinds, the second expression is evaluated, and the filter is bound to `$flags`.
macro_rules! on_kind {
    ($cells:expr, $slice:ident => $on_slice:expr, $flags:ident => $on_flags:expr) => {
        match $cells {
            Cells::Bloom($slice) => $on_slice,
            Cells::Timing8($slice) => $on_slice,
            Cells::Timing16($slice) => $on_slice,
            Cells::Generations8($slice) => $on_slice,
            Cells::Generations16($slice) => $on_slice,
            Cells::Cuckoo64($slice) => $on_slice,
            Cells::Cuckoo128($slice) => $on_slice,
            Cells::JumpingCounting($flags) => $on_flags,
            Cells::SlidingCounting($flags) => $on_flags,
            Cells::Stable($flags) => $on_flags,
            Cells::Decaying($flags) => $on_flags,
        }
    };
}

mod asked;
mod copied;

/// Creates a slice with cells of `geometry` that follow the rule of `kind`. A `kind` of `None` means that the window
/// does not fit the cells.
fn slice<K: CellKind>(
    kind: Option<K>,
    geometry: &Geometry,
    growth: Option<Growth>,
) -> Result<CellSlice<K>, BuildError> {
    let kind = kind.ok_or(BuildError::Window)?;
    let bytes = geometry.bytes();
    CellSlice::new(kind, *geometry, growth).map_err(|source| BuildError::Memory { bytes, source })
}

/// Adds everything that `other` has recorded to `slice`, if both slices have the same kind. Otherwise returns
/// [`MergeError::Definition`].
fn merge_same<K: CellKind + 'static>(slice: &mut CellSlice<K>, other: &mut dyn Any) -> Result<(), MergeError> {
    match other.downcast_mut::<CellSlice<K>>() {
        Some(other) => slice.merge(other),
        None => Err(MergeError::Definition),
    }
}

/// Returns the maximum number of units between two sweeps. A sweep clears expired timers. If the share of used cells
/// decides when a generation is full, expired timers make the generation look fuller than it is, until a sweep clears
/// them. A filter with such a limit therefore sweeps all timers in every eighth of the window.
fn sweep_period_units(growth: Option<&Growth>, window: WindowRule) -> u64 {
    match growth {
        Some(growth) if growth.limit == Limit::Density => window.span_units / 8,
        _ => u64::MAX,
    }
}

impl FilterSlice {
    /// Creates an empty slice from `definition`.
    ///
    /// ```
    /// use firstseen_filter::{FilterSecret, FilterSlice, FilterSpec, Kind, Stamp, UnitNumber, Verdict};
    /// let spec = FilterSpec {
    ///     capacity_events: Some(1000),
    ///     ..FilterSpec::new(Kind::Timing, "1h".parse().unwrap())
    /// };
    /// let mut slice = FilterSlice::build(&spec.resolve().unwrap()).unwrap();
    /// let digests = [FilterSecret::from_seed(1).digest(b"click-1"); 2];
    /// let mut verdicts = [Verdict::Undecided; 2];
    /// slice.observe_batch(&digests, &[Stamp::on_time(UnitNumber(7)); 2], &mut verdicts);
    /// assert_eq!(verdicts, [Verdict::FirstSeen, Verdict::Duplicate]);
    /// ```
    ///
    /// # Errors
    /// Returns [`BuildError`] if the system has too little memory, or if no [`crate::FilterSpec`] resolves to this
    /// definition.
    pub fn build(definition: &FilterDefinition) -> Result<Self, BuildError> {
        definition.check()?;
        let window = definition.rule;
        Ok(Self(match &definition.cells {
            CellDefinition::Bloom(BloomCells { geometry, growth }) => {
                Cells::Bloom(slice(Some(Bits::new()), geometry, *growth)?)
            }
            CellDefinition::Timing(TimingCells { geometry, refresh, equal_timers, growth, .. }) => {
                let period_units = sweep_period_units(growth.as_ref(), window);
                if geometry.cell_bits() == 8 {
                    let timers = Timers8::new(window, *refresh, *equal_timers);
                    Cells::Timing8(slice(timers.map(|timers| timers.swept_every(period_units)), geometry, *growth)?)
                } else {
                    let timers = Timers16::new(window, *refresh, *equal_timers);
                    Cells::Timing16(slice(timers.map(|timers| timers.swept_every(period_units)), geometry, *growth)?)
                }
            }
            CellDefinition::Generations(GenerationCells { geometry, growth, .. }) => {
                if geometry.cell_bits() == 8 {
                    Cells::Generations8(slice(Generations8::new(window), geometry, *growth)?)
                } else {
                    Cells::Generations16(slice(Generations16::new(window), geometry, *growth)?)
                }
            }
            CellDefinition::Cuckoo(CuckooCells { geometry, refresh, growth, .. }) => {
                let print_bits = geometry.cell_bits();
                if let Layout::Buckets { time_bits: 64 } = geometry.layout() {
                    Cells::Cuckoo64(slice(Buckets64::new(window, *refresh, print_bits), geometry, Some(*growth))?)
                } else {
                    Cells::Cuckoo128(slice(Buckets128::new(window, *refresh, print_bits), geometry, Some(*growth))?)
                }
            }
            CellDefinition::JumpingCounting(JumpingCells { cells, hashes, events_max }) => {
                let kind = JumpingCounting::new(*cells, *hashes, window)?;
                Cells::JumpingCounting(Flags::limited(kind, *events_max, window))
            }
            CellDefinition::SlidingCounting(SlidingCells { cells, hashes, window_events }) => {
                Cells::SlidingCounting(Flags::unlimited(SlidingCounting::new(*cells, *hashes, *window_events)?))
            }
            CellDefinition::Stable(StableCells { shape, seed }) => {
                Cells::Stable(Flags::unlimited(StableFilter::new(*shape, *seed)?))
            }
            CellDefinition::Decaying(DecayingCells { shape }) => {
                Cells::Decaying(Box::new(Frequencies { kind: DecayingFilter::new(*shape)? }))
            }
        }))
    }

    /// Returns the kind of the filter.
    pub fn kind(&self) -> Kind {
        match &self.0 {
            Cells::Bloom(_) => Kind::Bloom,
            Cells::Timing8(_) | Cells::Timing16(_) => Kind::Timing,
            Cells::Generations8(_) | Cells::Generations16(_) => Kind::Generations,
            Cells::Cuckoo64(_) | Cells::Cuckoo128(_) => Kind::Cuckoo,
            Cells::JumpingCounting(_) | Cells::SlidingCounting(_) => Kind::Counting,
            Cells::Stable(_) => Kind::Stable,
            Cells::Decaying(_) => Kind::Decaying,
        }
    }

    /// Returns the same slice, but with other processor instructions, if its kind has a choice of instructions. The
    /// instructions change the speed of the slice, but never its answers.
    #[must_use]
    pub fn with_instructions(mut self, instructions: Instructions) -> Self {
        on_kind!(&mut self.0, slice => slice.set_instructions(instructions), _flags => ());
        self
    }

    /// Tests every event of a batch, and records the events that are not in the filter yet. Writes one verdict per
    /// event, in the order of the batch. All stamps must come from the same [`crate::WindowClock`].
    ///
    /// # Panics
    /// Panics if the three slices differ in length.
    pub fn observe_batch(&mut self, digests: &[Digest], stamps: &[Stamp], verdicts: &mut [Verdict]) {
        on_kind!(
            &mut self.0,
            slice => slice.observe_batch(digests, stamps, verdicts),
            flags => flags.observe_batch(digests, stamps, verdicts)
        );
    }

    /// Hashes every event and then observes it. The verdicts are the same as those of [`Self::observe_batch`] for the
    /// digests of the events. This method is faster, because it hashes events while it waits for memory.
    ///
    /// # Panics
    /// Panics if `events`, `stamps` and `verdicts` differ in length.
    pub fn observe_events<E: AsRef<[u8]>>(
        &mut self,
        secret: &FilterSecret,
        events: &[E],
        stamps: &[Stamp],
        verdicts: &mut [Verdict],
    ) {
        on_kind!(
            &mut self.0,
            slice => slice.observe_events(secret, events, stamps, verdicts),
            flags => {
                let digests: Vec<Digest> = events.iter().map(|event| secret.digest(event.as_ref())).collect();
                flags.observe_batch(&digests[..], stamps, verdicts);
            }
        );
    }

    /// Tests every event and records nothing.
    ///
    /// # Panics
    /// Panics if the three slices differ in length.
    pub fn lookup_batch(&mut self, digests: &[Digest], stamps: &[Stamp], verdicts: &mut [Verdict]) {
        on_kind!(
            &mut self.0,
            slice => slice.lookup_batch(digests, stamps, verdicts),
            flags => flags.lookup_batch(digests, stamps, verdicts)
        );
    }

    /// Returns whether the filter can test events whose time is later than every recorded event. Kinds that consist of
    /// generations of cells can do so, because their lookups take the time as a parameter. The other kinds would have
    /// to move their window forward to that time, which would change their state.
    pub fn judges_ahead(&self) -> bool {
        on_kind!(&self.0, _slice => true, _flags => false)
    }

    /// Returns which generations have all of `positions` set, and records nothing. A caller uses this method if the
    /// positions of an event are divided over several slices. Returns `None` for kinds that do not allow this
    /// (counting, stable, decaying).
    ///
    /// # Panics
    /// Panics if a position is not below the number of cells of the slice.
    pub fn test_at(&self, positions: &[u64], stamp: Stamp) -> Option<TestResult> {
        on_kind!(&self.0, slice => Some(slice.test_at(positions, stamp)), _flags => None)
    }

    /// Records an event at `positions`, whether or not the event is already there. Returns `false` if a cuckoo filter
    /// has no room for the event, or if the kind cannot record by positions (counting, stable, decaying).
    ///
    /// # Panics
    /// Panics if a position is not below the number of cells of the slice.
    pub fn set_at(&mut self, positions: &[u64], stamp: Stamp) -> bool {
        on_kind!(
            &mut self.0,
            slice => slice.set_at(positions, stamp),
            _flags => false
        )
    }

    /// Prefetches the cells of an event that the caller is going to test soon. See [`CellSlice::prefetch`].
    ///
    /// # Panics
    /// Panics if a position is not below the number of cells of the generation.
    pub fn prefetch(&self, number: GenerationNumber, positions: &[u64]) {
        on_kind!(&self.0, slice => slice.prefetch(number, positions), _flags => ());
    }

    /// Tests whether generation `number` has all of `positions` set, as [`CellSlice::test_generation`] does. The call
    /// records nothing. Returns `None` if the kind cannot divide the positions of an event over slices (counting,
    /// stable, decaying).
    ///
    /// # Panics
    /// Panics if a position is not below the number of cells of the generation.
    pub fn test_generation(&self, number: GenerationNumber, positions: &[u64], stamp: Stamp) -> Option<TestResult> {
        on_kind!(&self.0, slice => Some(slice.test_generation(number, positions, stamp)), _flags => None)
    }

    /// Appends the expiries of the cells at `positions` to `expiries`. See [`CellSlice::push_expiries`].
    ///
    /// # Panics
    /// Panics if a position is not below the number of cells of the generation.
    pub fn push_expiries(
        &self,
        number: GenerationNumber,
        positions: &[u64],
        stamp: Stamp,
        expiries: &mut Vec<UnitNumber>,
    ) {
        on_kind!(&self.0, slice => slice.push_expiries(number, positions, stamp, expiries), _flags => ());
    }

    /// Records an event in generation `number`, as [`CellSlice::set_generation`] does. Returns `false` if there is no
    /// room for the event, or if the kind cannot record by positions (counting, stable, decaying).
    ///
    /// # Panics
    /// Panics if a position is not below the number of cells of the generation.
    pub fn set_generation(&mut self, number: GenerationNumber, positions: &[u64], stamp: Stamp) -> bool {
        on_kind!(&mut self.0, slice => slice.set_generation(number, positions, stamp), _flags => false)
    }

    /// Opens an empty generation. See [`CellSlice::open_generation`]. Has no effect if the kind does not consist of
    /// generations.
    ///
    /// # Errors
    /// Returns an error if the operating system does not provide the memory.
    pub fn open_generation(&mut self) -> io::Result<()> {
        on_kind!(&mut self.0, slice => slice.open_generation(), _flags => Ok(()))
    }

    /// Removes the newest generation again. See [`CellSlice::close_generation`].
    pub fn close_generation(&mut self) {
        on_kind!(&mut self.0, slice => slice.close_generation(), _flags => ());
    }

    /// Returns the geometry of generation `number`, or `None` if the slice has no such generation (any more).
    pub fn generation_geometry(&self, number: GenerationNumber) -> Option<Geometry> {
        on_kind!(&self.0, slice => slice.generation_geometry(number), _flags => None)
    }

    /// Returns the number of the newest generation. Generations are numbered from the time at which the slice was
    /// created.
    pub fn newest_generation(&self) -> GenerationNumber {
        on_kind!(&self.0, slice => slice.newest_generation(), _flags => GenerationNumber::FIRST)
    }

    /// Returns the number of units after which a recorded event is no longer found by any lookup. Returns `None` if the
    /// kind does not consist of generations of cells.
    pub fn kept_units(&self) -> Option<u64> {
        on_kind!(&self.0, slice => Some(slice.kept_units()), _flags => None)
    }

    /// Returns the number of used cells in the newest generation. Kinds that do not count used cells return 0.
    pub fn used_cells(&self) -> u64 {
        on_kind!(&self.0, slice => slice.used_cells(), _flags => 0)
    }

    /// Moves the window forward to `unit`. The call has no effect if an event of this unit or of a later one has been
    /// recorded already.
    ///
    /// A slice that is used with batches does not need this call, because its batches move the window. The owner of a
    /// slice that is queried only by positions must call it. Otherwise the slice never clears expired cells and never
    /// drops empty generations.
    pub fn advance(&mut self, unit: UnitNumber) {
        on_kind!(&mut self.0, slice => slice.advance(unit), _flags => ());
    }

    /// Returns the size of the filter's cells in bytes.
    pub fn bytes(&self) -> u64 {
        on_kind!(&self.0, slice => slice.bytes(), flags => flags.kind.bytes())
    }

    /// Returns the geometry of the first generation of cells.
    pub fn geometry(&self) -> &Geometry {
        on_kind!(&self.0, slice => slice.geometry(), flags => flags.kind.geometry())
    }

    /// Returns the current number of generations of cells.
    pub fn generations(&self) -> usize {
        on_kind!(&self.0, slice => slice.generations(), _flags => 1)
    }

    /// Returns the number of recorded events that have not expired. `None` means that the kind does not count events.
    pub fn live_events(&self) -> Option<u64> {
        on_kind!(&self.0, slice => Some(slice.live_events()), flags => flags.live_events())
    }

    /// Returns the current probability that an event that was never seen is called a duplicate. The value is estimated
    /// from the first [`RATE_SAMPLE_BYTES`] of the cells. If the filter uses the equal-timers heuristic, the value is
    /// an upper bound.
    pub fn expected_rate(&self) -> f64 {
        self.fill_and_rate(RATE_SAMPLE_BYTES).1
    }

    /// Returns the share of cells that are set, and the false-positive rate as in [`Self::expected_rate`]. The share is
    /// `None` for kinds whose share of set cells does not tell how full the slice is.
    ///
    /// Both values are estimated from a sample, which consists of the first `bytes_max` bytes of the cells. The sample
    /// represents all cells, because hashing fills the cells evenly. With [`crate::FILL_SAMPLE_BYTES`] as `bytes_max`,
    /// the error is as small as described there. Pass `usize::MAX` to read all cells.
    pub fn fill_and_rate(&self, bytes_max: usize) -> (Option<f64>, f64) {
        if let Cells::Stable(flags) = &self.0 {
            return (Some(flags.kind.fill_within(bytes_max)), flags.kind.rate_within(bytes_max));
        }
        on_kind!(
            &self.0,
            slice => {
                let Density { fill, rate } = slice.density_within(bytes_max);
                (Some(fill), rate)
            },
            flags => (None, flags.kind.rate_within(bytes_max))
        )
    }

    /// Adds everything that `other` has recorded to this slice. See [`CellSlice::merge`].
    ///
    /// # Errors
    /// Returns [`MergeError`] if the slices cannot be merged. Counting, stable and decaying filters can never be
    /// merged.
    pub fn merge(&mut self, other: &mut Self) -> Result<(), MergeError> {
        let other: &mut dyn Any = on_kind!(&mut other.0, slice => slice, flags => flags);
        on_kind!(&mut self.0, slice => merge_same(slice, other), _flags => Err(MergeError::Definition))
    }

    /// Writes the whole state of the slice except its definition. Together with the definition, this state determines
    /// all later answers.
    ///
    /// # Errors
    /// Returns the errors of `sink`.
    pub fn write_body(&self, sink: &mut dyn Write) -> io::Result<()> {
        on_kind!(&self.0, slice => slice.write_body(sink), flags => flags.write_cap(sink).and_then(|()| flags.kind.write_body(sink)))
    }

    /// Replaces the state of this slice by bytes that [`Self::write_body`] wrote for a slice with the same definition.
    /// If the call returns an error, the state is undefined, and the slice must not be used any more.
    ///
    /// # Errors
    /// Returns `InvalidData` if the bytes are not a valid state of such a slice, and the errors of `source`.
    pub fn read_body(&mut self, source: &mut dyn Read) -> io::Result<()> {
        on_kind!(&mut self.0, slice => slice.read_body(source), flags => flags.read_cap(source).and_then(|()| flags.kind.read_body(source)))
    }
}
