//! The embedded engine: a filter with all of its slices in one process, and the clock that places events in the window.
//! The engine answers a batch exactly as it would answer the same events one by one, in the order of the batch. It does
//! not read the time of the machine: callers pass the time of each event.

use std::io::{self, Read, Write};

use firstseen_filter::{BuildError, Digest, FilterSlice, Placed, Stamp, Unit, UnitNumber, WindowClock};

use super::horizontal::Gather;
use super::itinerary::Cells;
use super::placed_batch::PlacedBatch;
use super::vertical::Vertical;
use crate::plan::{Load, PlanError, Route, SlicePlan, SlicedBuildError, SlicedDefinition};
use crate::verdict::Answer;

/// Maximum number of events that the engine processes at once. Larger batches are split. The number is large enough for
/// every slice to get several events of a batch, and small enough to keep the buffers small.
pub const BATCH_EVENTS: usize = 1 << 14;

/// Filter with all of its slices in one process.
///
/// ```
/// use firstseen_filter::{FilterSecret, FilterSpec, Kind};
/// use firstseen_routing::{Answer, SlicedDefinition, SlicedFilter};
/// let spec = FilterSpec { capacity_events: Some(1000), ..FilterSpec::new(Kind::Timing, "1h".parse().unwrap()) };
/// let definition = SlicedDefinition::new(&spec, "horizontal:8".parse().unwrap()).unwrap();
/// let mut filter = SlicedFilter::build(&definition).unwrap();
/// let click = FilterSecret::from_seed(1).digest(b"click-1");
/// let hours = [100, 100, 900, 102, 102, 90].map(|hour| hour * 3_600_000);
/// let mut answers = [Answer::Undecided; 6];
/// filter.observe_batch(&[click; 6], &hours, &mut answers);
/// let (first, again) = (Answer::FirstSeen, Answer::Duplicate);
/// assert_eq!(answers, [first, again, Answer::Refused, first, again, Answer::Late]);
/// ```
pub struct SlicedFilter {
    slices: Vec<FilterSlice>,
    /// Clocks: one for all slices, or one for each slice if the window counts events.
    clocks: Vec<WindowClock>,
    needs_time: bool,
    /// Whether an event that is looked up may be judged at a later time than all recorded events.
    judges_ahead: bool,
    lateness_units: u64,
    /// Plan of the first generation.
    plan: SlicePlan,
    /// Groups of slices that share events, if the slicing is vertical.
    vertical: Option<Vertical>,
    loads: Vec<Load>,
    gather: Gather,
    stamps: Vec<Stamp>,
    /// Group of each event. The list is empty if there is only one group.
    groups: Vec<u32>,
}

impl SlicedFilter {
    /// Creates an empty filter with this `definition`.
    ///
    /// # Errors
    /// Returns [`SlicedBuildError`] if memory is not available, or if the definition does not come from
    /// [`SlicedDefinition::new`].
    pub fn build(definition: &SlicedDefinition) -> Result<Self, SlicedBuildError> {
        let slice = definition.slice()?;
        if let Unit::Milliseconds(0) | Unit::Events(0) = slice.unit {
            return Err(BuildError::Window.into());
        }
        let groups = definition.slicing.groups() as usize;
        let count = definition.slicing.slices() as usize;
        let slices = (0..count).map(|_| FilterSlice::build(&slice)).collect::<Result<Vec<_>, _>>()?;
        let clock = WindowClock::new(slice.unit.clone(), slice.rule, slice.future_max_ms);
        let first = slices.first().ok_or(PlanError::Slices(0))?;
        Ok(Self {
            clocks: vec![clock; if matches!(slice.unit, Unit::Events(_)) { groups } else { 1 }],
            needs_time: slice.unit.needs_time(),
            judges_ahead: first.judges_ahead(),
            lateness_units: slice.rule.lateness_units,
            plan: SlicePlan::new(definition.slicing, *first.geometry())?,
            vertical: Vertical::new(definition, &slices)?,
            loads: vec![Load::default(); count],
            slices,
            gather: Gather::default(),
            stamps: Vec::new(),
            groups: Vec::new(),
        })
    }

    /// Sets the present time of day, in milliseconds since 1970. The event clock needs it if the time of an event is
    /// far ahead of the times of all other events, because such a time may be an error. If the time is not later than
    /// the time of day, the clock accepts it as soon as a few further events have similar times. If it is later than
    /// the time of day, the clock requires more such events ([`WindowClock::show_present_ms`]).
    pub fn show_present_ms(&mut self, present_ms: u64) {
        self.clocks.iter_mut().for_each(|clock| clock.show_present_ms(present_ms));
    }

    /// Tests every event, records new events, and writes one answer for each event, in order. `times_ms` contains the
    /// time of every event, in milliseconds since 1970. The list may be empty if the window needs no times
    /// ([`Self::needs_time`]). If the window needs times and the list is empty, the answer to every event is
    /// [`Answer::Refused`].
    ///
    /// A caller that already knows the times of later events should append them to `times_ms`. If the time of an event
    /// is far ahead of all other events, it may be an error, so the clock accepts it only if the following events have
    /// similar times. The clock examines up to [`firstseen_filter::AHEAD_EVENTS_MAX`] following times.
    ///
    /// # Panics
    /// Panics if `times_ms` is not empty but has fewer entries than `digests`, or if the number of answers differs from
    /// the number of events.
    pub fn observe_batch(&mut self, digests: &[Digest], times_ms: &[u64], answers: &mut [Answer]) {
        self.walk(digests, times_ms, answers, true);
    }

    /// Tests every event without recording any event. The times of the events do not move the event clock, and a window
    /// that counts events does not count these events.
    ///
    /// A lookup may ask about a time that is later than the times of all recorded events. The result then depends on
    /// the filter kind. Some kinds know when each cell expires, so they ignore cells that will have expired at the
    /// requested time. The other kinds cannot tell, and use all cells that are alive now.
    ///
    /// # Panics
    /// Panics in the same cases as [`Self::observe_batch`].
    pub fn lookup_batch(&mut self, digests: &[Digest], times_ms: &[u64], answers: &mut [Answer]) {
        self.walk(digests, times_ms, answers, false);
    }

    fn walk(&mut self, digests: &[Digest], times_ms: &[u64], answers: &mut [Answer], record: bool) {
        assert_eq!(digests.len(), answers.len(), "one answer an event");
        assert!(times_ms.is_empty() || times_ms.len() >= digests.len(), "one time an event, or none at all");
        let mut start = 0;
        while start < digests.len() {
            let end = digests.len().min(start + BATCH_EVENTS);
            let times_ms = if times_ms.is_empty() { times_ms } else { &times_ms[start..] };
            self.walk_some(&digests[start..end], times_ms, &mut answers[start..end], record);
            start = end;
        }
    }

    fn walk_some(&mut self, digests: &[Digest], times_ms: &[u64], answers: &mut [Answer], record: bool) {
        self.groups.clear();
        if self.plan.groups() > 1 {
            self.groups.extend(digests.iter().map(|digest| self.plan.group(*digest)));
        }
        let all_placed = self.place(times_ms, answers, record);
        let Self { slices, loads, groups, stamps, gather, vertical, .. } = self;
        let batch = PlacedBatch { digests, stamps, groups, all_placed, record };
        match vertical {
            Some(vertical) => vertical.ask(&mut Cells { slices, loads }, &batch, answers),
            None => {
                gather.ask(slices, &batch, answers);
                self.count(answers, record);
            }
        }
    }

    /// Stamps every event, and answers the events that have no place in the window. Returns whether all events have a
    /// place.
    fn place(&mut self, times_ms: &[u64], answers: &mut [Answer], record: bool) -> bool {
        let Self { clocks, stamps, groups, judges_ahead, .. } = self;
        let one_clock = clocks.len() == 1;
        stamps.clear();
        let mut all_placed = true;
        stamps.extend(answers.iter_mut().enumerate().map(|(event, answer)| {
            let clock = &mut clocks[if one_clock { 0 } else { groups[event] as usize }];
            let placed = if record {
                clock.place_nth(times_ms, event)
            } else {
                look_up(clock, times_ms.get(event).copied(), *judges_ahead)
            };
            let (stamp, unplaced) = match placed {
                Placed::At(stamp) => (stamp, Answer::Undecided),
                Placed::Late => (Stamp::default(), Answer::Late),
                Placed::Refused => (Stamp::default(), Answer::Refused),
            };
            all_placed &= unplaced.is_placed();
            *answer = unplaced;
            stamp
        }));
        all_placed
    }

    /// Counts the work of slices that share no events. A test and the following recording are a single visit of the
    /// slice.
    fn count(&mut self, answers: &[Answer], record: bool) {
        let hashes = u64::from(self.plan.slice().hashes());
        if self.groups.is_empty() {
            let tested = answers.iter().filter(|answer| answer.is_placed()).count();
            let first_seen = answers.iter().filter(|answer| **answer == Answer::FirstSeen).count();
            let recorded = if record { first_seen } else { 0 };
            self.loads[0].count(hashes, tested as u64, recorded as u64);
            return;
        }
        for (answer, slice) in answers.iter().zip(&self.groups) {
            let is_recorded = record && *answer == Answer::FirstSeen;
            self.loads[*slice as usize].count(hashes, u64::from(answer.is_placed()), u64::from(is_recorded));
        }
    }

    /// Returns whether events need a time to be placed in the window.
    pub fn needs_time(&self) -> bool {
        self.needs_time
    }

    /// Returns the greatest time that the clock has accepted, in milliseconds since 1970.
    pub fn now_ms(&self) -> Option<u64> {
        self.clocks.iter().filter_map(WindowClock::now_ms).max()
    }

    /// Returns the unit of the window in which the first of an event's cells expires. The caller must have found the
    /// event in the filter before. One of the cells may have expired since then, and its exact expiry is no longer
    /// known. In that case, the result is the latest unit in which the cell can have expired.
    ///
    /// Returns `None` if the filter has more than one generation, because the generation that contains the event is not
    /// known.
    pub fn expiry(&self, digest: Digest, stamp: Stamp) -> Option<UnitNumber> {
        if self.generations() > 1 {
            return None;
        }
        let mut route = Route::default();
        self.plan.route(digest, &mut route);
        let steps = (0..route.len()).filter_map(|index| route.step(index));
        let sightings = steps.filter_map(|step| self.slice(step.slice)?.test_at(step.positions, stamp));
        let expiry = sightings.map(|sighting| sighting.expiry).min()?;
        let is_over = expiry == UnitNumber::NEVER;
        Some(if is_over { self.now_unit().before(self.lateness_units) } else { expiry })
    }

    /// Returns the stamps of the last batch, with one stamp for each event. A stamp states to which unit of the window
    /// an event belongs. If an event lies outside of the window, its stamp must not be used.
    ///
    /// A batch of more than [`BATCH_EVENTS`] events is processed in parts. For such a batch, this method returns only
    /// the stamps of the last part.
    pub fn stamps(&self) -> &[Stamp] {
        &self.stamps
    }

    /// Returns the plan, which maps events to slices and positions.
    pub fn plan(&self) -> &SlicePlan {
        &self.plan
    }

    /// Returns one slice, or `None` if the number is out of range.
    pub fn slice(&self, slice: u32) -> Option<&FilterSlice> {
        self.slices.get(slice as usize)
    }

    /// Returns the greatest unit that any clock has reached.
    pub fn now_unit(&self) -> UnitNumber {
        self.clocks.iter().map(WindowClock::now_unit).max().unwrap_or_default()
    }

    /// Returns the work counters of each slice since the filter was created or restored.
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// Returns the memory of the cells in bytes.
    pub fn bytes(&self) -> u64 {
        self.slices.iter().map(FilterSlice::bytes).sum()
    }

    /// Returns the number of generations in the slice that has the most.
    pub fn generations(&self) -> usize {
        let alone = self.slices.iter().map(FilterSlice::generations).max().unwrap_or(0);
        self.vertical.as_ref().map_or(alone, Vertical::generations)
    }

    /// Returns the number of recorded events that have not expired, or `None` if the filter kind does not count them.
    pub fn live_events(&mut self) -> Option<u64> {
        self.catch_up();
        let alone = self.slices.iter().map(FilterSlice::live_events).sum();
        self.vertical.as_ref().map_or(alone, |vertical| Some(vertical.live_events()))
    }

    /// Returns the expected false-positive rate of the filter: the probability that an event that was never seen is
    /// reported as a duplicate. The rate is computed from the present contents of the cells.
    ///
    /// If one slice holds all positions of an event, the result is the mean of the rates of all slices. Otherwise the
    /// cells of a slice group together determine one rate, and the result is the mean of the rates of all groups.
    pub fn expected_rate(&mut self) -> f64 {
        self.catch_up();
        match &self.vertical {
            Some(vertical) => vertical.expected_rate(&self.slices),
            None => self.slices.iter().map(FilterSlice::expected_rate).sum::<f64>() / self.slices.len() as f64,
        }
    }

    /// Writes the part of the filter's state that its answers depend on: the event clocks, the slices, and the
    /// generations of each slice group. The definition of the filter is not included, so the reader must know it.
    ///
    /// # Errors
    /// Returns the errors of the sink.
    pub fn write_body(&self, sink: &mut dyn Write) -> io::Result<()> {
        self.clocks.iter().try_for_each(|clock| clock.write_body(sink))?;
        self.slices.iter().try_for_each(|slice| slice.write_body(sink))?;
        self.vertical.as_ref().map_or(Ok(()), |vertical| vertical.write_body(sink))
    }

    /// Restores the state of a filter with the same definition. After an error the filter must not be used.
    ///
    /// # Errors
    /// Returns `InvalidData` if the bytes cannot be the state of such a filter, and the errors of the source.
    pub fn read_body(&mut self, source: &mut dyn Read) -> io::Result<()> {
        self.clocks.iter_mut().try_for_each(|clock| clock.read_body(source))?;
        self.slices.iter_mut().try_for_each(|slice| slice.read_body(source))?;
        self.vertical.as_mut().map_or(Ok(()), |vertical| vertical.read_body(source, &mut self.slices))
    }

    /// Moves all slices to the present unit, including slices that have received no event for some time.
    fn catch_up(&mut self) {
        for (index, slice) in self.slices.iter_mut().enumerate() {
            let clock = &self.clocks[if self.clocks.len() == 1 { 0 } else { index }];
            slice.advance(clock.now_unit());
        }
        if let (Some(vertical), [clock]) = (&mut self.vertical, &self.clocks[..]) {
            vertical.catch_up(clock.now_unit(), &mut self.slices);
        }
    }
}

/// Determines to which unit of the window an event belongs, for a lookup that does not move the clock. The event may be
/// later than all recorded events. If `judges_ahead` is set, the filter kind knows which cells will still be alive at
/// that later time, so the event is tested at its own time. Otherwise it is tested at the present unit of the clock.
fn look_up(clock: &mut WindowClock, time_ms: Option<u64>, judges_ahead: bool) -> Placed {
    match clock.place_lookup(time_ms) {
        Placed::At(Stamp { unit, judged }) if !judges_ahead => {
            // If the window counts events, the next event may belong to the next unit.
            Placed::At(Stamp { unit, judged: judged.min(clock.now_unit().max(unit)) })
        }
        placed => placed,
    }
}
