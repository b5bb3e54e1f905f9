//! Sliding windows by count: counters, and a circular queue of the last N arrivals (M05 3.1, 5.2.3).
//!
//! Promises: the event recorded at arrival n is never unseen before arrival n + N, and exactly then its counters go
//! down. Must not know: time.

use std::io;

use super::queue::Queue;
use super::{COUNTER_BITS, CountingError};
use crate::ahead::Positions;
use crate::body::{invalid, read_u64, write_u64};
use crate::events::Events;
use crate::flags::FlagKind;
use crate::packed::PackedCells;
use crate::unit_number::UnitNumber;
use crate::{Digest, Geometry, Layout, Stamp, rates};

/// Most arrivals of a window (2^36, 1 TiB of queue).
pub const WINDOW_EVENTS_MAX: u64 = 1 << 36;

/// In a saved filter, beside the arrival number, which is below: its queue holds positions.
const HOLDS_POSITIONS: u64 = 1 << 63;

/// The last `window_events` (N) arrivals. Every arrival takes a place in the queue; a duplicate leaves it empty.
///
/// Memory is 4 bits a cell and 129 bits an arrival of the window. A counter that has reached 15 may stand for more, so
/// it is never decremented: it stays occupied, which costs false positives and never a false negative. The load is
/// bounded by N, so the cost is known in advance: a counter reaches 15 at a given moment with the chance
/// `P(Poisson(k N / m) >= 15)`, 1.6e-15 a cell at the best k (`k N / m = ln 2`) and 3.0e-13 at a load of 1; against
/// that 8-bit counters would cost 24 % more memory at k = 7. [`Self::stuck_cells`] counts them.
///
/// ```
/// use firstseen_filter::{FilterSecret, SlidingCounting, Stamp, UnitNumber};
/// let secret = FilterSecret::from_seed(1);
/// let mut filter = SlidingCounting::new(1 << 12, 5, 3).unwrap();
/// let events = [&b"a"[..], b"b", b"a", b"a"].map(|event| secret.digest(event));
/// let arrivals = [0, 1, 2, 3].map(|number| Stamp::on_time(UnitNumber(number)));
/// let mut duplicate = [false; 4];
/// filter.observe_batch(&events, &arrivals, &mut duplicate);
/// assert_eq!(duplicate, [false, false, true, false]);
/// ```
pub struct SlidingCounting {
    geometry: Geometry,
    window_events: u64,
    counters: PackedCells,
    /// Arrival `n` is at place `n % N`.
    queue: Queue,
    /// The greatest arrival number judged at: arrivals up to `now - N` have left.
    now: UnitNumber,
    /// The least arrival number not yet given.
    next: UnitNumber,
}

impl SlidingCounting {
    /// An empty filter of `cells` (m) and `hashes` (k) in the classic layout, for windows of `window_events` (N).
    ///
    /// # Errors
    /// If the shape is impossible, the window is empty or above [`WINDOW_EVENTS_MAX`], or the system refuses the
    /// memory.
    pub fn new(cells: u64, hashes: u32, window_events: u64) -> Result<Self, CountingError> {
        let geometry = Self::check(cells, hashes, window_events)?;
        Ok(Self {
            geometry,
            window_events,
            counters: PackedCells::zeroed(cells, COUNTER_BITS)?,
            queue: Queue::new(geometry, window_events)?,
            now: UnitNumber::FIRST,
            next: UnitNumber::FIRST,
        })
    }

    /// The shape, if a filter of it is possible.
    pub(crate) fn check(cells: u64, hashes: u32, window_events: u64) -> Result<Geometry, CountingError> {
        if (1..=WINDOW_EVENTS_MAX).contains(&window_events) {
            Ok(Geometry::new(cells, hashes, 1, Layout::Classic)?)
        } else {
            Err(CountingError::WindowEvents(window_events))
        }
    }

    /// Tests every arrival, and records it if it is distinct; `duplicate[i]` is true if event `i` was recorded among
    /// the N arrivals before it, or at [`Self::expected_rate`] if it was not.
    ///
    /// A stamp's `unit` is the number of the arrival: what is recorded at `n` is alive for arrivals `j < n + N`.
    /// Numbers must increase; a number that does not counts as the next one. Gaps are places that stay empty.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn observe_batch(&mut self, digests: &[Digest], stamps: &[Stamp], duplicate: &mut [bool]) {
        self.observe(digests, stamps, duplicate);
    }

    /// Tests every event as if it arrived at number `judged`, and records none; arrivals that have left the window by
    /// then leave.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn lookup_batch(&mut self, digests: &[Digest], stamps: &[Stamp], duplicate: &mut [bool]) {
        self.lookup(digests, stamps, duplicate);
    }

    #[inline(always)]
    fn prefetch(&self, positions: &Positions) {
        positions.iter().for_each(|position| self.counters.prefetch(position));
    }

    /// Asks for the counters of the arrival whose place arrival `number` takes.
    #[inline(always)]
    fn prefetch_leaving(&self, number: UnitNumber) {
        if let Some(leaving) = self.queue.positions(self.place(number)) {
            self.prefetch(&leaving);
        }
    }

    fn holds(&self, positions: &Positions) -> bool {
        positions.iter().all(|position| self.counters.get(position) != 0)
    }

    fn record(&mut self, number: UnitNumber, digest: Option<Digest>, positions: &Positions) {
        let place = self.place(number);
        self.evict(place);
        self.queue.put(place, digest, positions);
        for position in positions.iter() {
            let counter = self.counters.get(position);
            self.counters.set(position, counter.saturating_add(1).min(self.counters.max()));
        }
    }

    fn place(&self, number: UnitNumber) -> usize {
        (number.0 % self.window_events) as usize
    }

    #[inline]
    fn advance(&mut self, judged: UnitNumber) {
        if judged <= self.now {
            return;
        }
        if judged.since(self.now) >= self.window_events {
            self.counters.clear();
            self.queue.clear();
        } else {
            for number in (self.now.0 + 1..=judged.0).map(UnitNumber) {
                self.evict(self.place(number));
            }
        }
        self.now = judged;
    }

    /// Takes the arrival at `place`, if there is one, out of the counters.
    #[inline]
    fn evict(&mut self, place: usize) {
        let Some(leaving) = self.queue.take(place) else { return };
        for position in leaving.iter() {
            let counter = self.counters.get(position);
            if counter < self.counters.max() {
                self.counters.set(position, counter.saturating_sub(1));
            }
        }
    }

    /// Bytes that counters and queue take; where the queue holds positions, as many as those need instead of digests.
    pub fn bytes(&self) -> u64 {
        self.counters.bytes().len() as u64 + self.queue.bytes()
    }

    /// Cells (m), positions (k) and layout.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Arrivals of the window (N).
    pub fn window_events(&self) -> u64 {
        self.window_events
    }

    /// Counters that have reached their maximum and stay occupied; reads all of them.
    pub fn stuck_cells(&self) -> u64 {
        self.counters.full()
    }

    /// The part of the cells that is not zero, stuck ones included; reads all counters.
    pub fn fill(&self) -> f64 {
        self.counters.share_occupied(usize::MAX)
    }

    /// The chance that a key not recorded in the window is called a duplicate now: `fill^k`, and with n distinct
    /// events in the window (at most N) `fill = 1 - (1 - 1/m)^(k n)` (M05 5.1).
    pub fn expected_rate(&self) -> f64 {
        self.rate_within(usize::MAX)
    }

    /// The same, estimated from the first `bytes_max` bytes of the counters.
    pub(crate) fn rate_within(&self, bytes_max: usize) -> f64 {
        rates::plain::rate_from_fill(self.geometry.hashes(), self.counters.share_occupied(bytes_max))
    }

    /// Writes all state: the arrival numbers, the counters, the queue's occupied places with their arrivals.
    ///
    /// # Errors
    /// What `sink` answers.
    pub fn write_body(&self, sink: &mut dyn io::Write) -> io::Result<()> {
        write_u64(sink, self.now.0)?;
        let holds_positions = if self.queue.holds_positions() { HOLDS_POSITIONS } else { 0 };
        write_u64(sink, self.next.0.min(HOLDS_POSITIONS - 1) | holds_positions)?;
        self.counters.write(sink)?;
        self.queue.write(sink)
    }

    /// Replaces all state by the one that [`Self::write_body`] of a filter of the same shape and window wrote.
    ///
    /// # Errors
    /// What `source` answers, and `InvalidData` for what no filter writes; the filter must then be dropped.
    pub fn read_body(&mut self, source: &mut dyn io::Read) -> io::Result<()> {
        self.now = UnitNumber(read_u64(source)?);
        let next = read_u64(source)?;
        self.next = UnitNumber(next & !HOLDS_POSITIONS);
        if self.next > self.now.after(1) {
            return Err(invalid("an arrival is numbered after the last one judged"));
        }
        self.counters.read(source)?;
        self.queue.read(source, next & HOLDS_POSITIONS != 0)?;
        let counted = self.counters.total();
        let recorded = self.queue.arrivals() * u64::from(self.geometry.hashes());
        // A counter at its maximum may stand for more arrivals than it says, or for some that have left.
        if counted != recorded && self.stuck_cells() == 0 {
            return Err(invalid("the counters do not add up to the arrivals in the queue"));
        }
        Ok(())
    }
}

impl FlagKind for SlidingCounting {
    fn keep_positions(&mut self) -> io::Result<()> {
        self.queue.keep_positions()
    }

    #[inline(always)]
    fn find<E: Events>(&self, events: E, index: usize, stamp: Stamp, records: bool) -> Positions {
        if records {
            self.prefetch_leaving(stamp.unit);
        }
        let positions = Positions::of(events, index, &self.geometry);
        self.prefetch(&positions);
        positions
    }

    #[inline(always)]
    fn observe_one<E: Events>(&mut self, events: E, index: usize, stamp: Stamp, positions: &Positions) -> bool {
        let Stamp { unit, judged } = stamp;
        let number = unit.max(self.next);
        self.advance(number.max(judged));
        self.next = number.after(1);
        let found = self.holds(positions);
        if !found && number.after(self.window_events) > self.now {
            self.record(number, events.digest(index), positions);
        }
        found
    }

    #[inline(always)]
    fn look_up_one(&mut self, stamp: Stamp, positions: &Positions) -> bool {
        self.advance(stamp.judged);
        self.holds(positions)
    }
}
