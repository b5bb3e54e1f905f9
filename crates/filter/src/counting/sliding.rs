//! Counting filter for a window that slides by the number of events. The filter consists of counters and of a circular
//! queue of the last N arrivals (Metwally et al. 2005, sections 3.1 and 5.2.3).
//!
//! An event that is recorded at arrival n is found by all lookups before arrival n + N. At arrival n + N, the event
//! leaves the window and its counters are decremented.
//!
//! This module does not depend on time.

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

/// Maximum number of arrivals in a window (2^36, which needs a queue of 1 TiB).
pub const WINDOW_EVENTS_MAX: u64 = 1 << 36;

/// Flag in the state of a saved filter. If it is set, the queue of the filter contains positions instead of digests.
/// The state has no field of its own for the flag. It is stored in the highest bit of the number of the next arrival,
/// because arrival numbers never become so large that they use this bit.
const HOLDS_POSITIONS: u64 = 1 << 63;

/// Counting filter with a window of the last `window_events` (N) arrivals. Every arrival takes a slot in the queue, so
/// that an event leaves the window exactly N arrivals after its own. A duplicate takes a slot as well, but its slot
/// stays empty, because a duplicate is not recorded.
///
/// The filter takes 4 bits of memory per cell and 129 bits per arrival of the window. A counter stops at 15. A counter
/// that has reached 15 may stand for more than 15 arrivals, so it is never decremented and stays occupied. This causes
/// additional false positives, but never a false negative.
///
/// Counters that have stopped at 15 are rare, because the window limits the number of live events to N. With m cells
/// and k positions per event, a counter has reached 15 at a given moment with the probability `P(Poisson(k N / m) >=
/// 15)`. This is 1.6e-15 per cell at the best k, for which `k N / m = ln 2`, and 3.0e-13 if `k N / m = 1`. Counters of
/// 8 bits would avoid the effect, but need 24 % more memory at k = 7. [`Self::stuck_cells`] counts the counters that
/// have stopped.
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
    /// Queue of arrivals. Arrival `n` is in slot `n % N`.
    queue: Queue,
    /// Greatest arrival number at which an event was judged. Arrivals up to `now - N` have left the window.
    now: UnitNumber,
    /// Smallest arrival number that has not been used yet.
    next: UnitNumber,
}

impl SlidingCounting {
    /// Creates an empty filter of `cells` cells (m) and `hashes` positions (k) in the classic layout, for windows of
    /// `window_events` (N).
    ///
    /// # Errors
    /// Returns an error if the shape is invalid, if the window is empty or above [`WINDOW_EVENTS_MAX`], or if the
    /// operating system does not provide the memory.
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

    /// Returns the geometry, if a filter of this shape is possible.
    pub(crate) fn check(cells: u64, hashes: u32, window_events: u64) -> Result<Geometry, CountingError> {
        if (1..=WINDOW_EVENTS_MAX).contains(&window_events) {
            Ok(Geometry::new(cells, hashes, 1, Layout::Classic)?)
        } else {
            Err(CountingError::WindowEvents(window_events))
        }
    }

    /// Tests every arrival of a batch, and records the distinct ones. The result `duplicate[i]` is always true if event
    /// `i` was recorded among the N arrivals before it. For a new event it is true with the probability
    /// [`Self::expected_rate`].
    ///
    /// The `unit` of a stamp is the number of the arrival. An event that was recorded at arrival `n` is alive for all
    /// arrivals `j < n + N`.
    ///
    /// The arrival numbers in the stamps must increase. If a number is not greater than the number of the previous
    /// arrival, the filter uses the next free number instead. If numbers are left out between two arrivals, the filter
    /// adds an empty slot to the queue for each of them, so they count as arrivals of the window.
    ///
    /// # Panics
    /// Panics if the slices differ in length.
    pub fn observe_batch(&mut self, digests: &[Digest], stamps: &[Stamp], duplicate: &mut [bool]) {
        self.observe(digests, stamps, duplicate);
    }

    /// Tests every event and records none. Each event is tested as if it were the arrival whose number is the `judged`
    /// of its stamp. Before the test, the filter removes all events that are no longer in the window at that arrival.
    ///
    /// # Panics
    /// Panics if the slices differ in length.
    pub fn lookup_batch(&mut self, digests: &[Digest], stamps: &[Stamp], duplicate: &mut [bool]) {
        self.lookup(digests, stamps, duplicate);
    }

    #[inline(always)]
    fn prefetch(&self, positions: &Positions) {
        positions.iter().for_each(|position| self.counters.prefetch(position));
    }

    /// Prefetches the counters of the arrival that leaves the window when arrival `number` takes its slot.
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

    /// Removes the arrival at `place`, if there is one, from the counters.
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

    /// Returns the size of the counters and of the queue in bytes. If the queue holds positions, their size counts
    /// instead of the size of digests.
    pub fn bytes(&self) -> u64 {
        self.counters.bytes().len() as u64 + self.queue.bytes()
    }

    /// Returns the geometry: number of cells (m), positions per event (k) and layout.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the number of arrivals in the window (N).
    pub fn window_events(&self) -> u64 {
        self.window_events
    }

    /// Returns the number of counters that have reached their maximum and stay occupied. The call reads all counters.
    pub fn stuck_cells(&self) -> u64 {
        self.counters.full()
    }

    /// Returns the share of cells that are not zero, including counters at their maximum. The call reads all counters.
    pub fn fill(&self) -> f64 {
        self.counters.share_occupied(usize::MAX)
    }

    /// Returns the current probability that a key that is not in the window is called a duplicate, which is `fill^k`.
    /// If the window has n distinct events (at most N), the fill is `1 - (1 - 1/m)^(k n)` for m counters (Metwally et
    /// al. 2005, section 5.1).
    pub fn expected_rate(&self) -> f64 {
        self.rate_within(usize::MAX)
    }

    /// Returns the false-positive rate, estimated from the first `bytes_max` bytes of the counters.
    pub(crate) fn rate_within(&self, bytes_max: usize) -> f64 {
        rates::plain::rate_from_fill(self.geometry.hashes(), self.counters.share_occupied(bytes_max))
    }

    /// Writes the whole state: the arrival numbers, the counters, and the occupied slots of the queue with their
    /// arrivals.
    ///
    /// # Errors
    /// Returns the errors of `sink`.
    pub fn write_body(&self, sink: &mut dyn io::Write) -> io::Result<()> {
        write_u64(sink, self.now.0)?;
        let holds_positions = if self.queue.holds_positions() { HOLDS_POSITIONS } else { 0 };
        write_u64(sink, self.next.0.min(HOLDS_POSITIONS - 1) | holds_positions)?;
        self.counters.write(sink)?;
        self.queue.write(sink)
    }

    /// Replaces the whole state by what [`Self::write_body`] wrote for a filter of the same shape and window.
    ///
    /// # Errors
    /// Returns the errors of `source`, and `InvalidData` if no filter can have this state. The filter must be dropped
    /// after an error.
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
        // A counter at its maximum may stand for more arrivals than its value, or for arrivals that have left the
        // window.
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
