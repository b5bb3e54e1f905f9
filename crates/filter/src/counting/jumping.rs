//! Jumping windows by adding and subtracting the counters of sub-windows (M05 3.3, 5.2.4).
//!
//! The counter of a cell in one sub-window stops at 1, and the sum adds up what the sub-windows' counters hold, not
//! what was inserted. So what is subtracted is exactly what was added, the sum is positive iff a live sub-window has
//! the cell, and the verdicts are those of counters that never overflow: nothing saturates, whatever the load.
//!
//! Promises: alive as [`WindowRule`] says, exactly. Must not know: what makes a sub-window.

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

/// Most sub-windows of a window: their sum must fit eight bits.
pub const SUB_WINDOWS_MAX: u64 = 255;

/// Each sub-window's bits fill whole cache lines.
const LINE_BITS: u64 = 512;

/// A window of `span_units` sub-windows (Q full ones and the current one): a sum a cell, and a bit a cell for each
/// sub-window. Only distinct events are recorded; a lookup reads one cell a position, of the sum.
///
/// Memory is `s + span_units` bits a cell, with `s = 4` up to 15 sub-windows and 8 up to 255. When a sub-window
/// leaves, it is subtracted at once, 16 (or 8) cells an
/// instruction: 11 ms for 200 million cells, measured.
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
    /// Cell by cell the number of live sub-windows that have it.
    sums: PackedCells,
    /// The bits of sub-window `unit` are the `unit % span`-th of as many equal parts.
    marks: CellMemory,
    part_bytes: usize,
    /// The greatest unit that an event was judged at.
    now: UnitNumber,
}

impl JumpingCounting {
    /// An empty filter of `cells` (m) and `hashes` (k) in the classic layout. `window.span_units` is Q + 1.
    ///
    /// # Errors
    /// If the shape is impossible, the window has more than [`SUB_WINDOWS_MAX`] sub-windows or lateness, or the
    /// system refuses the memory.
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

    /// The shape, if a filter of it is possible.
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

    /// Tests every event, and records it in the sub-window of its `unit` if it is distinct; `duplicate[i]` is true if
    /// event `i` was recorded in a live sub-window, or at [`Self::expected_rate`] if it was not.
    ///
    /// The window moves to each stamp's `judged` and never back: an event of an earlier `judged` is judged at the
    /// present. An event whose `unit` has left the window is tested and not recorded.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn observe_batch(&mut self, digests: &[Digest], stamps: &[Stamp], duplicate: &mut [bool]) {
        self.observe(digests, stamps, duplicate);
    }

    /// Tests every event and records none; the window moves as in [`Self::observe_batch`].
    ///
    /// # Panics
    /// If the slices differ in length.
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

    /// Bytes that the cells of the sum and of all sub-windows take.
    pub fn bytes(&self) -> u64 {
        (self.sums.bytes().len() + self.marks.bytes().len()) as u64
    }

    /// Cells (m), positions (k) and layout.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The window in sub-windows.
    pub fn window(&self) -> WindowRule {
        self.window
    }

    /// The part of the cells that is not zero; reads the whole sum.
    pub fn fill(&self) -> f64 {
        self.sums.share_occupied(usize::MAX)
    }

    /// The chance that a key not recorded in the window is called a duplicate now: `fill^k`.
    ///
    /// With n events recorded in live sub-windows `fill = 1 - (1 - 1/m)^(k n)` (M05 5.1). The window just before a
    /// jump holds `span_units` full sub-windows: size m for those.
    pub fn expected_rate(&self) -> f64 {
        self.rate_within(usize::MAX)
    }

    /// The same, estimated from the first `bytes_max` bytes of the sums.
    pub(crate) fn rate_within(&self, bytes_max: usize) -> f64 {
        rates::plain::rate_from_fill(self.geometry.hashes(), self.sums.share_occupied(bytes_max))
    }

    /// Writes all state: the current unit, then the bits of the sub-windows. The sums follow from those.
    ///
    /// # Errors
    /// What `sink` answers.
    pub fn write_body(&self, sink: &mut dyn io::Write) -> io::Result<()> {
        write_u64(sink, self.now.0)?;
        sink.write_all(self.marks.bytes())
    }

    /// Replaces all state by the one that [`Self::write_body`] of a filter of the same shape and window wrote.
    ///
    /// # Errors
    /// What `source` answers, and `InvalidData` for what no filter writes; the filter must then be dropped.
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
