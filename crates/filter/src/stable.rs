//! `stable`: a filter for endless streams that forgets at random (Deng and Rafiei 2006).
//!
//! Promises: after many arrivals the rate of false positives stands still below [`StableShape::stable_rate`]; a
//! recorded event is forgotten sooner or later, so there are false negatives by design. Must not know: windows, time.

use std::io;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ahead::{AHEAD, Positions};
use crate::body::{invalid, read_u64, write_u64};
use crate::events::Events;
use crate::flags::FlagKind;
use crate::number::number;
use crate::packed::PackedCells;
use crate::{Digest, Geometry, GeometryError, Layout, Stamp, rates, reduce};

/// `decrements` is a number of this many parts of a cell.
const PARTS: u64 = 1 << 32;

/// Why a stable filter cannot be made.
#[derive(Debug, Error)]
pub enum StableError {
    /// The cells or positions are impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Cells must be able to be set.
    #[error("cells are set to 0: choose Max from 1 to 255")]
    Max,
    /// The cells to decrement at an arrival are not a number between 0 and all of them.
    #[error("{} cells decremented at an arrival: choose more than 0 and at most all {cells}", number(.decrements))]
    Decrements {
        /// Cells to decrement asked for (P).
        decrements: f64,
        /// Cells of the filter (m).
        cells: u64,
    },
    /// A rate must lie between 0 and 1.
    #[error("a false-positive rate of {}: choose more than 0 and less than 1", number(.0))]
    Rate(f64),
    /// The system refused the memory.
    #[error("no memory for the filter: {0}; choose fewer cells")]
    Memory(#[from] io::Error),
}

/// Cells (m), positions (K), the value that cells are set to (Max) and the cells decremented at an arrival (P).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StableShape {
    /// Cells (m).
    pub cells: u64,
    /// Positions of an event (K).
    pub hashes: u32,
    /// The value that an arrival sets its cells to (Max). Cells are 1, 2, 4 or 8 bits wide, as few as hold it.
    pub max: u8,
    /// Cells decremented at an arrival (P). It need not be whole: the fraction is carried over to the next arrival,
    /// so that the mean over arrivals is exact to 2^-32.
    pub decrements: f64,
}

impl StableShape {
    /// The shape whose rate of false positives is stable at `rate`:
    /// `P = 1 / ((1/(1 - FPS^(1/K))^(1/Max) - 1)(1/K - 1/m))` (Deng and Rafiei 2006).
    ///
    /// # Errors
    /// If `rate` is not between 0 and 1, or the shape is impossible.
    ///
    /// ```
    /// use firstseen_filter::StableShape;
    /// let shape = StableShape::for_rate(1_000_000, 4, 1, 0.05).unwrap();
    /// assert!((shape.decrements - 4.459).abs() < 1e-3);
    /// assert!((shape.stable_rate() - 0.05).abs() < 1e-12);
    /// ```
    pub fn for_rate(cells: u64, hashes: u32, max: u8, rate: f64) -> Result<Self, StableError> {
        if !(rate > 0.0 && rate < 1.0) {
            return Err(StableError::Rate(rate));
        }
        let decrements = rates::stable::decrements(cells as f64, hashes, rate, u32::from(max));
        let shape = Self { cells, hashes, max, decrements };
        shape.check()?;
        Ok(shape)
    }

    /// The rate of false positives that a stream of distinct events reaches, and one with repeats stays under:
    /// `FPS = (1 - (1/(1 + 1/(P(1/K - 1/m))))^Max)^K` (Deng and Rafiei 2006, theorem 2).
    pub fn stable_rate(&self) -> f64 {
        rates::stable::rate(self.cells as f64, self.hashes, self.decrements, u32::from(self.max))
    }

    /// Bits a cell: 1, 2, 4 or 8.
    pub fn cell_bits(&self) -> u32 {
        (8 - self.max.leading_zeros()).next_power_of_two()
    }

    /// The geometry of the cells, if the shape is possible.
    pub(crate) fn check(&self) -> Result<Geometry, StableError> {
        let Self { cells, hashes, max, decrements } = *self;
        let geometry = Geometry::new(cells, hashes, 1, Layout::Classic)?;
        if max == 0 {
            return Err(StableError::Max);
        }
        if !(decrements > 0.0 && decrements <= cells as f64) {
            return Err(StableError::Decrements { decrements, cells });
        }
        Ok(geometry)
    }
}

/// At every arrival, whatever the decision: test the K cells, decrement P consecutive ones from a random place, set
/// the K cells to Max.
///
/// The random places are drawn from SplitMix64 under `seed`; its state is part of the filter's.
///
/// ```
/// use firstseen_filter::{FilterSecret, StableFilter, StableShape, Stamp};
/// let click = FilterSecret::from_seed(1).digest(b"click");
/// let mut filter = StableFilter::new(StableShape::for_rate(1 << 16, 4, 3, 0.01).unwrap(), 7).unwrap();
/// let mut duplicate = [false; 2];
/// filter.observe_batch(&[click; 2], &[Stamp::default(); 2], &mut duplicate);
/// assert_eq!(duplicate, [false, true]);
/// ```
pub struct StableFilter {
    shape: StableShape,
    geometry: Geometry,
    cells: PackedCells,
    /// P in parts of a cell.
    decrement_parts: u128,
    /// Decrements still to be made, in parts of a cell: less than one cell.
    carried_parts: u64,
    generator: SplitMix,
}

impl StableFilter {
    /// An empty filter. Two filters of one shape and seed answer one stream alike.
    ///
    /// # Errors
    /// If the shape is impossible or the system refuses the memory.
    pub fn new(shape: StableShape, seed: u64) -> Result<Self, StableError> {
        let geometry = shape.check()?;
        let decrement_parts = (shape.decrements * PARTS as f64).round() as u128;
        let cells = PackedCells::zeroed(shape.cells, shape.cell_bits())?;
        Ok(Self { shape, geometry, cells, decrement_parts, carried_parts: 0, generator: SplitMix(seed) })
    }

    /// Tests and sets every event; `duplicate[i]` is true if no cell of event `i` was zero. Stamps do not matter.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn observe_batch(&mut self, digests: &[Digest], stamps: &[Stamp], duplicate: &mut [bool]) {
        self.observe(digests, stamps, duplicate);
    }

    /// Tests every event; nothing changes.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn lookup_batch(&mut self, digests: &[Digest], stamps: &[Stamp], duplicate: &mut [bool]) {
        self.lookup(digests, stamps, duplicate);
    }

    fn holds(&self, positions: &Positions) -> bool {
        positions.iter().all(|position| self.cells.get(position) != 0)
    }

    fn run_start(&self, word: u64) -> u64 {
        reduce(word, self.shape.cells)
    }

    fn decrement(&mut self) {
        let due_parts = self.decrement_parts + u128::from(self.carried_parts);
        self.carried_parts = due_parts as u64 % PARTS;
        let start = self.run_start(self.generator.draw(0));
        self.generator = self.generator.after(1);
        let run_cells = (due_parts / u128::from(PARTS)) as u64;
        self.cells.decrement_run(start, run_cells.min(self.shape.cells));
    }

    /// Bytes that the cells take.
    pub fn bytes(&self) -> u64 {
        self.cells.bytes().len() as u64
    }

    /// Cells (m), positions (K) and layout; the width of the cells is [`StableShape::cell_bits`].
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The shape that the filter was made from.
    pub fn shape(&self) -> StableShape {
        self.shape
    }

    /// The part of the cells that is not zero; reads all of them.
    pub fn fill(&self) -> f64 {
        self.fill_within(usize::MAX)
    }

    /// The same, estimated from the first `bytes_max` bytes of the cells.
    pub(crate) fn fill_within(&self, bytes_max: usize) -> f64 {
        self.cells.share_occupied(bytes_max)
    }

    /// The chance that a key never seen is called a duplicate now: `fill^K`. It goes towards
    /// [`StableShape::stable_rate`].
    pub fn expected_rate(&self) -> f64 {
        self.rate_within(usize::MAX)
    }

    /// The same, estimated from the first `bytes_max` bytes of the cells.
    pub(crate) fn rate_within(&self, bytes_max: usize) -> f64 {
        rates::plain::rate_from_fill(self.shape.hashes, self.fill_within(bytes_max))
    }

    /// Writes all state: the generator, the carried fraction, the cells.
    ///
    /// # Errors
    /// What `sink` answers.
    pub fn write_body(&self, sink: &mut dyn io::Write) -> io::Result<()> {
        write_u64(sink, self.generator.0)?;
        write_u64(sink, self.carried_parts)?;
        self.cells.write(sink)
    }

    /// Replaces all state by what [`Self::write_body`] of a filter of the same shape wrote.
    ///
    /// # Errors
    /// What `source` answers, and `InvalidData` for what no filter writes; the filter must then be dropped.
    pub fn read_body(&mut self, source: &mut dyn io::Read) -> io::Result<()> {
        self.generator = SplitMix(read_u64(source)?);
        self.carried_parts = read_u64(source)?;
        if self.carried_parts >= PARTS {
            return Err(invalid("the carried fraction is a whole cell or more"));
        }
        self.cells.read(source)?;
        if (0..self.shape.cells as usize).any(|index| self.cells.get(index) > self.shape.max) {
            Err(invalid("a cell holds more than Max"))
        } else {
            Ok(())
        }
    }
}

impl FlagKind for StableFilter {
    #[inline(always)]
    fn find<E: Events>(&self, events: E, index: usize, _: Stamp, records: bool) -> Positions {
        if records {
            // Of the events of the batch before this one so many have not drawn yet.
            let waiting = index.min(AHEAD - 1) as u64;
            self.cells.prefetch(self.run_start(self.generator.draw(waiting)) as usize);
        }
        let positions = Positions::of(events, index, &self.geometry);
        positions.iter().for_each(|position| self.cells.prefetch(position));
        positions
    }

    #[inline(always)]
    fn observe_one<E: Events>(&mut self, _: E, _index: usize, _: Stamp, positions: &Positions) -> bool {
        let found = self.holds(positions);
        self.decrement();
        positions.iter().for_each(|position| self.cells.set(position, self.shape.max));
        found
    }

    #[inline(always)]
    fn look_up_one(&mut self, _: Stamp, positions: &Positions) -> bool {
        self.holds(positions)
    }
}

/// SplitMix64: its state moves by a constant, so that draws to come are known without drawing those before.
#[derive(Clone, Copy)]
struct SplitMix(u64);

impl SplitMix {
    fn after(self, draws: u64) -> Self {
        Self(self.0.wrapping_add(draws.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    /// The draw that comes after `earlier` other ones.
    fn draw(self, earlier: u64) -> u64 {
        let mut z = self.after(earlier.wrapping_add(1)).0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
