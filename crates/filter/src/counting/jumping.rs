//! Jumping windows that add and subtract the counters of sub-windows (Metwally et al. 2005, sections 3.3 and 5.2.4).
//!
//! A window of this filter moves in jumps, and the events between two jumps form a sub-window. Each cell has a counter
//! for every sub-window, and a sum over the counters of all sub-windows that are still in the window. A counter stops
//! at 1, so it is a single bit. When a sub-window leaves the window, its bits are subtracted from the sums, which
//! removes exactly what the sub-window had added. A cell is therefore in use iff its sum is positive.
//!
//! Limiting counters to 1 does not change any verdict, because a verdict depends only on whether a sum is positive. A
//! sum cannot overflow under any load, because it is at most the number of live sub-windows.
//!
//! Events are alive exactly as [`WindowRule`] says.
//!
//! This module does not depend on what causes a new sub-window.

use std::io;

use super::{CountingError, sum_bits};
use crate::ahead::Positions;
use crate::arch::prefetch_line;
use crate::body::{memory_bytes, read_u64, write_u64};
use crate::events::Events;
use crate::flags::FlagKind;
use crate::memory::CellMemory;
use crate::packed::{PackedCells, check_zero_from};
use crate::unit_number::UnitNumber;
use crate::{Digest, Geometry, Layout, Stamp, WindowRule, rates};

/// Maximum number of sub-windows in a window. The sum of a cell must fit into eight bits.
pub const SUB_WINDOWS_MAX: u64 = 255;

/// Number to a multiple of which the bits of a sub-window are rounded up, so that they fill whole cache lines.
const LINE_BITS: u64 = 512;

/// Counting filter with a jumping window of `span_units` sub-windows: Q full sub-windows and the current one. The
/// filter has a sum for each cell, and a bit for each cell and sub-window. It records only distinct events. A lookup
/// reads one sum per position.
///
/// The filter takes `s + span_units` bits of memory per cell, where s is 4 for up to 15 sub-windows and 8 for up
/// to 255. A sub-window is subtracted in a single step when it leaves the window. This is fast, because one instruction
/// subtracts 16 cells (or 8, if sums have 8 bits). Subtracting 200 million cells took 11 ms in a measurement.
///
/// ```
/// use firstseen_filter::{FilterSecret, JumpingCounting, Stamp, UnitNumber, WindowRule};
/// let digest = FilterSecret::from_seed(1).digest(b"click");
/// let mut filter = JumpingCounting::new(1 << 12, 5, WindowRule { span_units: 3, lateness_units: 0 }).unwrap();
/// let mut seen_at = |unit| {
///     let mut duplicate = [false];
///     filter.observe_batch(&[digest], &[Stamp::on_time(UnitNumber(unit))], &mut duplicate);
///     duplicate[0]
/// };
/// assert_eq!([seen_at(10), seen_at(12), seen_at(13), seen_at(13)], [false, true, false, true]);
/// ```
pub struct JumpingCounting {
    geometry: Geometry,
    window: WindowRule,
    /// Number of live sub-windows that have each cell.
    sums: PackedCells,
    /// Bits of all sub-windows. The bits of sub-window `unit` are in part `unit % span` of `span` equal parts.
    marks: CellMemory,
    part_bytes: usize,
    /// Greatest unit at which an event was judged.
    now: UnitNumber,
}

impl JumpingCounting {
    /// Creates an empty filter of `cells` cells (m) and `hashes` positions (k) in the classic layout.
    /// `window.span_units` is Q + 1.
    ///
    /// # Errors
    /// Returns an error if the shape is invalid, if the window has more than [`SUB_WINDOWS_MAX`] sub-windows or any
    /// lateness, or if the operating system does not provide the memory.
    pub fn new(cells: u64, hashes: u32, window: WindowRule) -> Result<Self, CountingError> {
        let geometry = Self::check(cells, hashes, window)?;
        let part_bytes = memory_bytes(cells.next_multiple_of(LINE_BITS) / 8)?;
        let marks_bytes = memory_bytes(part_bytes as u64 * window.span_units)?;
        Ok(Self {
            geometry,
            window,
            sums: PackedCells::zeroed(cells, sum_bits(&window))?,
            marks: CellMemory::zeroed(marks_bytes)?,
            part_bytes,
            now: UnitNumber::FIRST,
        })
    }

    /// Returns the geometry, if a filter of this shape is possible.
    pub(crate) fn check(cells: u64, hashes: u32, window: WindowRule) -> Result<Geometry, CountingError> {
        let geometry = Geometry::new(cells, hashes, 1, Layout::Classic)?;
        if !(1..=SUB_WINDOWS_MAX).contains(&window.span_units) {
            return Err(CountingError::SubWindows(window.span_units));
        }
        match window.lateness_units {
            0 => Ok(geometry),
            lateness_units => Err(CountingError::Lateness(lateness_units)),
        }
    }

    /// Tests every event of a batch, and records the distinct events in the sub-window of their `unit`. The result
    /// `duplicate[i]` is always true if event `i` was recorded in a live sub-window. For a new event it is true with
    /// the probability [`Self::expected_rate`].
    ///
    /// A stamp contains two units. The event is looked up at the unit `judged`, and recorded in the sub-window `unit`.
    /// The window moves forward to the greatest `judged` of all stamps so far, and never goes back.
    ///
    /// Events may arrive late. If the `judged` of an event is earlier than the present unit of the window, the event is
    /// looked up at the present unit. If its `unit` has already left the window, the event is tested but not recorded.
    ///
    /// # Panics
    /// Panics if the slices differ in length.
    pub fn observe_batch(&mut self, digests: &[Digest], stamps: &[Stamp], duplicate: &mut [bool]) {
        self.observe(digests, stamps, duplicate);
    }

    /// Tests every event and records none. The window moves as in [`Self::observe_batch`].
    ///
    /// # Panics
    /// Panics if the slices differ in length.
    pub fn lookup_batch(&mut self, digests: &[Digest], stamps: &[Stamp], duplicate: &mut [bool]) {
        self.lookup(digests, stamps, duplicate);
    }

    fn holds(&self, positions: &Positions) -> bool {
        positions.iter().all(|position| self.sums.get(position) != 0)
    }

    fn record(&mut self, unit: UnitNumber, positions: &Positions) {
        let part = self.part_start(unit);
        for position in positions.iter() {
            let marks = &mut self.marks.bytes_mut()[part + position / 8];
            if *marks >> (position % 8) & 1 == 0 {
                *marks |= 1 << (position % 8);
                self.sums.set(position, self.sums.get(position) + 1);
            }
        }
    }

    fn part_start(&self, unit: UnitNumber) -> usize {
        (unit.0 % self.window.span_units) as usize * self.part_bytes
    }

    /// Subtracts the sub-windows that are no longer alive at `judged`.
    #[inline]
    fn advance(&mut self, judged: UnitNumber) {
        if judged > self.now {
            self.leave(judged);
        }
    }

    #[cold]
    fn leave(&mut self, judged: UnitNumber) {
        if judged.since(self.now) >= self.window.span_units {
            self.sums.clear();
            self.marks.clear();
        } else {
            for unit in (self.now.0 + 1..=judged.0).map(UnitNumber) {
                let part = self.part_start(unit);
                let marks = &mut self.marks.bytes_mut()[part..part + self.part_bytes];
                self.sums.subtract_marks(marks);
                marks.fill(0);
            }
        }
        self.now = judged;
    }

    /// Returns the size in bytes of the sums and of the bits of all sub-windows.
    pub fn bytes(&self) -> u64 {
        (self.sums.bytes().len() + self.marks.bytes().len()) as u64
    }

    /// Returns the geometry: number of cells (m), positions per event (k) and layout.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the window in sub-windows.
    pub fn window(&self) -> WindowRule {
        self.window
    }

    /// Returns the share of cells that are not zero. The call reads all sums.
    pub fn fill(&self) -> f64 {
        self.sums.share_occupied(usize::MAX)
    }

    /// Returns the current probability that a key that is not in the window is called a duplicate: `fill^k`.
    ///
    /// The rate depends on the fill, which is the share of cells that are not zero. If n events with k positions each
    /// are recorded in live sub-windows, the fill of m cells is `1 - (1 - 1/m)^(k n)` (Metwally et al. 2005, section
    /// 5.1). The number n is greatest just before a jump, when the window holds `span_units` full sub-windows. The
    /// number of cells must therefore be chosen for the events of `span_units` sub-windows.
    pub fn expected_rate(&self) -> f64 {
        self.rate_within(usize::MAX)
    }

    /// Returns the false-positive rate, estimated from the first `bytes_max` bytes of the sums.
    pub(crate) fn rate_within(&self, bytes_max: usize) -> f64 {
        rates::plain::rate_from_fill(self.geometry.hashes(), self.sums.share_occupied(bytes_max))
    }

    /// Writes the whole state: the current unit, and the bits of the sub-windows. The sums follow from these bits.
    ///
    /// # Errors
    /// Returns the errors of `sink`.
    pub fn write_body(&self, sink: &mut dyn io::Write) -> io::Result<()> {
        write_u64(sink, self.now.0)?;
        sink.write_all(self.marks.bytes())
    }

    /// Replaces the whole state by what [`Self::write_body`] wrote for a filter of the same shape and window.
    ///
    /// # Errors
    /// Returns the errors of `source`, and `InvalidData` if no filter can have this state. The filter must be dropped
    /// after an error.
    pub fn read_body(&mut self, source: &mut dyn io::Read) -> io::Result<()> {
        self.now = UnitNumber(read_u64(source)?);
        source.read_exact(self.marks.bytes_mut())?;
        self.sums.clear();
        for marks in self.marks.bytes().chunks_exact(self.part_bytes) {
            check_zero_from(marks, self.geometry.cells())?;
            self.sums.add_marks(marks);
        }
        Ok(())
    }
}

impl FlagKind for JumpingCounting {
    #[inline(always)]
    fn find<E: Events>(&self, events: E, index: usize, stamp: Stamp, records: bool) -> Positions {
        let positions = Positions::of(events, index, &self.geometry);
        let part = self.part_start(stamp.unit);
        for position in positions.iter() {
            self.sums.prefetch(position);
            if records {
                prefetch_line(&self.marks.bytes()[part + position / 8]);
            }
        }
        positions
    }

    #[inline(always)]
    fn observe_one<E: Events>(&mut self, _: E, _index: usize, stamp: Stamp, positions: &Positions) -> bool {
        let Stamp { unit, judged } = stamp;
        self.advance(judged.max(unit));
        let found = self.holds(positions);
        if !found && self.window.expiry(unit) > self.now {
            self.record(unit, positions);
        }
        found
    }

    #[inline(always)]
    fn look_up_one(&mut self, stamp: Stamp, positions: &Positions) -> bool {
        self.advance(stamp.judged);
        self.holds(positions)
    }
}
