//! Kind `stable`: a filter for endless streams that forgets events at random (Deng and Rafiei 2006).
//!
//! After many arrivals, the false-positive rate of a stable filter no longer changes and is at most
//! [`StableShape::stable_rate`]. In return, each recorded event is forgotten sooner or later, so the filter has false
//! negatives by design.
//!
//! This module does not depend on windows or time.

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

/// Number of parts of a cell in which `decrements` is measured.
const PARTS: u64 = 1 << 32;

/// Reason why a stable filter cannot be created.
#[derive(Debug, Error)]
pub enum StableError {
    /// The number of cells or positions is invalid.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// `Max` is 0, so that cells could not be set.
    #[error("Max is 0: choose 1 to 255")]
    Max,
    /// The number of cells to decrement per arrival is not between 0 and the number of cells.
    #[error("{} cells decremented per arrival: choose more than 0 and at most all {cells}", number(.decrements))]
    Decrements {
        /// Requested number of cells to decrement (P).
        decrements: f64,
        /// Number of cells of the filter (m).
        cells: u64,
    },
    /// The rate is not between 0 and 1.
    #[error("a false-positive rate of {}: choose more than 0 and less than 1", number(.0))]
    Rate(f64),
    /// The operating system does not provide the memory.
    #[error("no memory for the filter: {0}; choose fewer cells")]
    Memory(#[from] io::Error),
}

/// Shape of a stable filter. It consists of the number of cells (m), the positions per event (K), the value to which
/// cells are set (Max), and the number of cells that each arrival decrements (P).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StableShape {
    /// Number of cells (m).
    pub cells: u64,
    /// Number of positions per event (K).
    pub hashes: u32,
    /// Value to which an arrival sets its cells (Max). Cells have 1, 2, 4 or 8 bits, the smallest width that can hold
    /// this value.
    pub max: u8,
    /// Number of cells that each arrival decrements (P). The number need not be an integer. The filter carries the
    /// fraction over to the next arrival, so the mean over all arrivals is exact to 2^-32.
    pub decrements: f64,
}

impl StableShape {
    /// Returns the shape of a filter whose false-positive rate becomes stable at `rate` (FPS in the formula). The
    /// number of decrements is `P = 1 / ((1/(1 - FPS^(1/K))^(1/Max) - 1)(1/K - 1/m))` (Deng and Rafiei 2006).
    ///
    /// # Errors
    /// Returns an error if `rate` is not between 0 and 1, or if the shape is invalid.
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

    /// Returns the false-positive rate (FPS) that the filter reaches over a long stream of distinct events. For a
    /// stream with repeats, the value is an upper bound. The formula is `FPS = (1 - (1/(1 + 1/(P(1/K - 1/m))))^Max)^K`
    /// (Deng and Rafiei 2006, theorem 2).
    pub fn stable_rate(&self) -> f64 {
        rates::stable::rate(self.cells as f64, self.hashes, self.decrements, u32::from(self.max))
    }

    /// Returns the bits per cell: 1, 2, 4 or 8.
    pub fn cell_bits(&self) -> u32 {
        (8 - self.max.leading_zeros()).next_power_of_two()
    }

    /// Returns the geometry of the cells, if the shape is valid.
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

/// Stable filter, which forgets old events at random so that it never fills up. At every arrival, whatever the verdict
/// is, the filter tests the K cells of the event, decrements P consecutive cells from a random start, and sets the K
/// cells to Max.
///
/// The random starts are drawn from a SplitMix64 generator with `seed`. The state of the generator is part of the
/// filter's state.
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
    /// Decrements that are still due, in parts of a cell. The value is less than one cell.
    carried_parts: u64,
    generator: SplitMix,
}

impl StableFilter {
    /// Creates an empty filter. Two filters with the same shape and seed give the same answers to the same stream.
    ///
    /// # Errors
    /// Returns an error if the shape is invalid or the operating system does not provide the memory.
    pub fn new(shape: StableShape, seed: u64) -> Result<Self, StableError> {
        let geometry = shape.check()?;
        let decrement_parts = (shape.decrements * PARTS as f64).round() as u128;
        let cells = PackedCells::zeroed(shape.cells, shape.cell_bits())?;
        Ok(Self { shape, geometry, cells, decrement_parts, carried_parts: 0, generator: SplitMix(seed) })
    }

    /// Tests and records every event. `duplicate[i]` is true if no cell of event `i` was zero. Stamps are ignored.
    ///
    /// # Panics
    /// Panics if the slices differ in length.
    pub fn observe_batch(&mut self, digests: &[Digest], stamps: &[Stamp], duplicate: &mut [bool]) {
        self.observe(digests, stamps, duplicate);
    }

    /// Tests every event. The filter does not change.
    ///
    /// # Panics
    /// Panics if the slices differ in length.
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

    /// Returns the size of the cells in bytes.
    pub fn bytes(&self) -> u64 {
        self.cells.bytes().len() as u64
    }

    /// Returns the geometry: number of cells (m), positions per event (K) and layout. The width of the cells is
    /// [`StableShape::cell_bits`].
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the shape with which the filter was created.
    pub fn shape(&self) -> StableShape {
        self.shape
    }

    /// Returns the share of cells that are not zero. The call reads all cells.
    pub fn fill(&self) -> f64 {
        self.fill_within(usize::MAX)
    }

    /// Returns the share of cells that are not zero, estimated from the first `bytes_max` bytes of the cells.
    pub(crate) fn fill_within(&self, bytes_max: usize) -> f64 {
        self.cells.share_occupied(bytes_max)
    }

    /// Returns the current probability that a key that was never seen is called a duplicate, which is `fill^K`. Over a
    /// long stream, the value converges to [`StableShape::stable_rate`].
    pub fn expected_rate(&self) -> f64 {
        self.rate_within(usize::MAX)
    }

    /// Returns the false-positive rate, estimated from the first `bytes_max` bytes of the cells.
    pub(crate) fn rate_within(&self, bytes_max: usize) -> f64 {
        rates::plain::rate_from_fill(self.shape.hashes, self.fill_within(bytes_max))
    }

    /// Writes the whole state: the generator, the carried fraction and the cells.
    ///
    /// # Errors
    /// Returns the errors of `sink`.
    pub fn write_body(&self, sink: &mut dyn io::Write) -> io::Result<()> {
        write_u64(sink, self.generator.0)?;
        write_u64(sink, self.carried_parts)?;
        self.cells.write(sink)
    }

    /// Replaces the whole state by what [`Self::write_body`] wrote for a filter of the same shape.
    ///
    /// # Errors
    /// Returns the errors of `source`, and `InvalidData` if no filter can have this state. The filter must be dropped
    /// after an error.
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
            // Number of earlier events of the batch that have not drawn their random start yet.
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

/// SplitMix64 generator. Its state advances by a constant, so that a later draw can be computed without the draws
/// before it.
#[derive(Clone, Copy)]
struct SplitMix(u64);

impl SplitMix {
    fn after(self, draws: u64) -> Self {
        Self(self.0.wrapping_add(draws.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    /// Returns the draw that follows after `earlier` other draws.
    fn draw(self, earlier: u64) -> u64 {
        let mut z = self.after(earlier.wrapping_add(1)).0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
