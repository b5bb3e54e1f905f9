//! One filter slice of whatever kind its definition says.
//!
//! Promises: built from a definition, saved and read back, it answers as its kind documents. Must not know: other
//! slices, files.

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
use crate::{Digest, FilterSecret, Geometry, Kind, Layout, Sighting, Stamp, Verdict, WindowRule};

/// A filter slice.
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

/// Runs the same expression on whichever kind the slice is: `$slice` on those that are made of generations of cells,
/// `$flags` on the others.
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

/// Cells of `geometry` by the rule of `kind`.
fn slice<K: CellKind>(
    kind: Option<K>,
    geometry: &Geometry,
    growth: Option<Growth>,
) -> Result<CellSlice<K>, BuildError> {
    let kind = kind.ok_or(BuildError::Window)?;
    let bytes = geometry.bytes();
    CellSlice::new(kind, *geometry, growth).map_err(|source| BuildError::Memory { bytes, source })
}

/// Adds what `other` has recorded, if it is a slice of the same kind.
fn merge_same<K: CellKind + 'static>(slice: &mut CellSlice<K>, other: &mut dyn Any) -> Result<(), MergeError> {
    match other.downcast_mut::<CellSlice<K>>() {
        Some(other) => slice.merge(other),
        None => Err(MergeError::Definition),
    }
}

/// An eighth of the window where used cells decide when the filter is full: expired ones count until they are swept.
fn sweep_period_units(growth: Option<&Growth>, window: WindowRule) -> u64 {
    match growth {
        Some(growth) if growth.limit == Limit::Density => window.span_units / 8,
        _ => u64::MAX,
    }
}

impl FilterSlice {
    /// An empty slice of this `definition`.
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
    /// [`BuildError`]: no memory, or a definition that no [`crate::FilterSpec`] gives.
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

    /// The kind.
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

    /// The same slice, run with other instructions where its kind has a choice: answers are the same, speed is not.
    #[must_use]
    pub fn with_instructions(mut self, instructions: Instructions) -> Self {
        on_kind!(&mut self.0, slice => slice.set_instructions(instructions), _flags => ());
        self
    }

    /// Tests every event and records those that are not there; one verdict an event, in order. Stamps come from one
    /// [`crate::WindowClock`].
    ///
    /// # Panics
    /// If the three lengths differ.
    pub fn observe_batch(&mut self, digests: &[Digest], stamps: &[Stamp], verdicts: &mut [Verdict]) {
        on_kind!(
            &mut self.0,
            slice => slice.observe_batch(digests, stamps, verdicts),
            flags => flags.observe_batch(digests, stamps, verdicts)
        );
    }

    /// Hashes every event and observes it: the same as [`Self::observe_batch`] of the digests, in less time.
    ///
    /// # Panics
    /// If the three lengths differ.
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
    /// If the three lengths differ.
    pub fn lookup_batch(&mut self, digests: &[Digest], stamps: &[Stamp], verdicts: &mut [Verdict]) {
        on_kind!(
            &mut self.0,
            slice => slice.lookup_batch(digests, stamps, verdicts),
            flags => flags.lookup_batch(digests, stamps, verdicts)
        );
    }

    /// Whether an event that is looked up may be judged later than all that was recorded: a kind that can only be asked
    /// about the present would have to move there.
    pub fn judges_ahead(&self) -> bool {
        on_kind!(&self.0, _slice => true, _flags => false)
    }

    /// Which generations hold every one of `positions`; nothing is recorded. `None` where the kind cannot be
    /// divided (counting, stable, decaying).
    ///
    /// # Panics
    /// If a position is not below the slice's cells.
    pub fn test_at(&self, positions: &[u64], stamp: Stamp) -> Option<Sighting> {
        on_kind!(&self.0, slice => Some(slice.test_at(positions, stamp)), _flags => None)
    }

    /// Records an event at `positions`, whatever is there; `false` where there is no room (cuckoo), or the kind cannot
    /// (counting, stable, decaying).
    ///
    /// # Panics
    /// If a position is not below the slice's cells.
    pub fn set_at(&mut self, positions: &[u64], stamp: Stamp) -> bool {
        on_kind!(
            &mut self.0,
            slice => slice.set_at(positions, stamp),
            _flags => false
        )
    }

    /// Asks memory for cells that will be needed soon, as [`CellSlice::prefetch`] says.
    ///
    /// # Panics
    /// If a position is not below the generation's cells.
    pub fn prefetch(&self, number: GenerationNumber, positions: &[u64]) {
        on_kind!(&self.0, slice => slice.prefetch(number, positions), _flags => ());
    }

    /// What generation `number` holds at `positions`, as [`CellSlice::test_generation`] says; nothing is recorded.
    /// `None` where the kind cannot be divided (counting, stable, decaying).
    ///
    /// # Panics
    /// If a position is not below the generation's cells.
    pub fn test_generation(&self, number: GenerationNumber, positions: &[u64], stamp: Stamp) -> Option<Sighting> {
        on_kind!(&self.0, slice => Some(slice.test_generation(number, positions, stamp)), _flags => None)
    }

    /// Appends expiries, as [`CellSlice::push_expiries`] says.
    ///
    /// # Panics
    /// If a position is not below the generation's cells.
    pub fn push_expiries(
        &self,
        number: GenerationNumber,
        positions: &[u64],
        stamp: Stamp,
        expiries: &mut Vec<UnitNumber>,
    ) {
        on_kind!(&self.0, slice => slice.push_expiries(number, positions, stamp, expiries), _flags => ());
    }

    /// Records an event in generation `number`, as [`CellSlice::set_generation`] says; `false` where there is no room, or
    /// the kind cannot (counting, stable, decaying).
    ///
    /// # Panics
    /// If a position is not below the generation's cells.
    pub fn set_generation(&mut self, number: GenerationNumber, positions: &[u64], stamp: Stamp) -> bool {
        on_kind!(&mut self.0, slice => slice.set_generation(number, positions, stamp), _flags => false)
    }

    /// Opens an empty generation, as [`CellSlice::open_generation`] says; does nothing where the kind has none.
    ///
    /// # Errors
    /// Where the system refuses the memory.
    pub fn open_generation(&mut self) -> io::Result<()> {
        on_kind!(&mut self.0, slice => slice.open_generation(), _flags => Ok(()))
    }

    /// Takes the newest generation back, as [`CellSlice::close_generation`] says.
    pub fn close_generation(&mut self) {
        on_kind!(&mut self.0, slice => slice.close_generation(), _flags => ());
    }

    /// The shape of generation `number`, while there is one.
    pub fn generation_geometry(&self, number: GenerationNumber) -> Option<Geometry> {
        on_kind!(&self.0, slice => slice.generation_geometry(number), _flags => None)
    }

    /// The number of the newest generation since the slice was made.
    pub fn newest_generation(&self) -> GenerationNumber {
        on_kind!(&self.0, slice => slice.newest_generation(), _flags => GenerationNumber::FIRST)
    }

    /// Units after which no lookup finds a recorded event, where the kind has generations of cells.
    pub fn kept_units(&self) -> Option<u64> {
        on_kind!(&self.0, slice => Some(slice.kept_units()), _flags => None)
    }

    /// Cells in use in the newest generation, where the kind keeps count; otherwise 0.
    pub fn used_cells(&self) -> u64 {
        on_kind!(&self.0, slice => slice.used_cells(), _flags => 0)
    }

    /// Moves the window to `unit` if that is later than anything seen. Batches do so by themselves; a slice that is
    /// asked by position needs it to shrink and to clear.
    pub fn advance(&mut self, unit: UnitNumber) {
        on_kind!(&mut self.0, slice => slice.advance(unit), _flags => ());
    }

    /// Bytes that the filter takes.
    pub fn bytes(&self) -> u64 {
        on_kind!(&self.0, slice => slice.bytes(), flags => flags.kind.bytes())
    }

    /// The shape of the (first) generation of cells.
    pub fn geometry(&self) -> &Geometry {
        on_kind!(&self.0, slice => slice.geometry(), flags => flags.kind.geometry())
    }

    /// Generations of cells at present.
    pub fn generations(&self) -> usize {
        on_kind!(&self.0, slice => slice.generations(), _flags => 1)
    }

    /// Events recorded that have not expired, where the kind counts them.
    pub fn live_events(&self) -> Option<u64> {
        on_kind!(&self.0, slice => Some(slice.live_events()), flags => flags.live_events())
    }

    /// The chance that an event never seen is called a duplicate, from the first [`RATE_SAMPLE_BYTES`] of the cells as they
    /// are; with equal timers an upper bound.
    pub fn expected_rate(&self) -> f64 {
        self.fill_and_rate(RATE_SAMPLE_BYTES).1
    }

    /// The share of cells that are set, where it says how full the slice is, and [`Self::expected_rate`]: estimated
    /// from the first `bytes_max` bytes of cells, as [`crate::FILL_SAMPLE_BYTES`] says. Positions are hashed, so these
    /// are set as densely as all others; `usize::MAX` reads all of them.
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

    /// Adds what `other` has recorded, as [`CellSlice::merge`] says.
    ///
    /// # Errors
    /// [`MergeError`]; counting, stable and decaying filters are never mergeable.
    pub fn merge(&mut self, other: &mut Self) -> Result<(), MergeError> {
        let other: &mut dyn Any = on_kind!(&mut other.0, slice => slice, flags => flags);
        on_kind!(&mut self.0, slice => merge_same(slice, other), _flags => Err(MergeError::Definition))
    }

    /// Writes everything that answers depend on beside the definition.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn write_body(&self, sink: &mut dyn Write) -> io::Result<()> {
        on_kind!(&self.0, slice => slice.write_body(sink), flags => flags.write_cap(sink).and_then(|()| flags.kind.write_body(sink)))
    }

    /// Takes up the state of a slice of the same definition. After an error the slice must not be used.
    ///
    /// # Errors
    /// `InvalidData` where the bytes cannot be the state of such a slice; and those of the source.
    pub fn read_body(&mut self, source: &mut dyn Read) -> io::Result<()> {
        on_kind!(&mut self.0, slice => slice.read_body(source), flags => flags.read_cap(source).and_then(|()| flags.kind.read_body(source)))
    }
}
