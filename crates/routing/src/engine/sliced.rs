//! The embedded engine: a filter with all of its slices in one place, and the clock that places events in its window.
//!
//! Promises: a batch answers like its events one by one, in order. Must not know: files, where times come from.

use std::io::{self, Read, Write};

use firstseen_filter::{BuildError, Digest, FilterSlice, Placed, Stamp, Unit, UnitNumber, WindowClock};

use super::horizontal::Gather;
use super::itinerary::Cells;
use super::placed_batch::PlacedBatch;
use super::vertical::Vertical;
use crate::plan::{Load, PlanError, Route, SlicePlan, SlicedBuildError, SlicedDefinition};
use crate::verdict::Answer;

/// Events that are worked on together: enough that every slice gets a batch, few enough that buffers stay small.
pub const BATCH_EVENTS: usize = 1 << 14;

/// A filter with all of its slices.
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
    /// One for all slices, or one a slice where events are counted.
    clocks: Vec<WindowClock>,
    needs_time: bool,
    /// An event that is looked up may be judged later than all that was recorded.
    judges_ahead: bool,
    lateness_units: u64,
    /// Of the first generation.
    plan: SlicePlan,
    /// Where slices share events.
    vertical: Option<Vertical>,
    loads: Vec<Load>,
    gather: Gather,
    stamps: Vec<Stamp>,
    /// Groups of the events; empty where there is only one.
    groups: Vec<u32>,
}

impl SlicedFilter {
    /// An empty filter of this `definition`.
    ///
    /// # Errors
    /// [`SlicedBuildError`]: no memory, or a definition that [`SlicedDefinition::new`] does not give.
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

    /// The time of day, in milliseconds since 1970: a time far ahead of the others is borne out sooner where it is near
    /// the time of day, and later where it is after that ([`WindowClock::show_present_ms`]).
    pub fn show_present_ms(&mut self, present_ms: u64) {
        self.clocks.iter_mut().for_each(|clock| clock.show_present_ms(present_ms));
    }

    /// Tests every event and records those that are not there; one answer an event, in order. `times_ms` holds the
    /// time of every event, in milliseconds since 1970; it may be empty where the window needs none
    /// ([`Self::needs_time`]), and where it does every event is then [`Answer::Refused`].
    ///
    /// A time that is far ahead of the others is accepted where the times of the events behind it bear it out, and
    /// refused where they do not; so `times_ms` should go on with the times of events that will come after these, as
    /// far as they are known: [`firstseen_filter::AHEAD_EVENTS_MAX`] are looked at.
    ///
    /// # Panics
    /// If there are fewer times than events, but not none, or not as many answers.
    pub fn observe_batch(&mut self, digests: &[Digest], times_ms: &[u64], answers: &mut [Answer]) {
        self.walk(digests, times_ms, answers, true);
    }

    /// Tests every event and records nothing; no time moves the clock, and where the window counts events, these are
    /// not counted. For an event later than all that was recorded, the answer is by what would be left then, where the
    /// kind can say that without moving there; otherwise by what is left now.
    ///
    /// # Panics
    /// As [`Self::observe_batch`].
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

    /// Stamps every event; answers those that have no place, and returns whether all have one.
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

    /// Counts the work of slices that share no events: test and record are one visit.
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

    /// Whether events need a time to be placed in the window.
    pub fn needs_time(&self) -> bool {
        self.needs_time
    }

    /// The greatest time accepted so far, in milliseconds since 1970.
    pub fn now_ms(&self) -> Option<u64> {
        self.clocks.iter().filter_map(WindowClock::now_ms).max()
    }

    /// Returns the unit in which the first cell of an event expires. If that cell has expired since the event was found,
    /// this is the latest unit in which it can have expired. Returns `None` if the filter has grown, because the cells
    /// may then be in several generations.
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

    /// The stamps of the last batch, if that was not larger than [`BATCH_EVENTS`]; stamps of events that had no place
    /// say nothing.
    pub fn stamps(&self) -> &[Stamp] {
        &self.stamps
    }

    /// Which slices and positions an event has.
    pub fn plan(&self) -> &SlicePlan {
        &self.plan
    }

    /// The cells of one slice; none of a slice that there is not.
    pub fn slice(&self, slice: u32) -> Option<&FilterSlice> {
        self.slices.get(slice as usize)
    }

    /// The greatest unit so far.
    pub fn now_unit(&self) -> UnitNumber {
        self.clocks.iter().map(WindowClock::now_unit).max().unwrap_or_default()
    }

    /// What each slice has done since the filter was built or read.
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// Bytes of cells.
    pub fn bytes(&self) -> u64 {
        self.slices.iter().map(FilterSlice::bytes).sum()
    }

    /// Generations of cells at present, in the slice that has most.
    pub fn generations(&self) -> usize {
        let alone = self.slices.iter().map(FilterSlice::generations).max().unwrap_or(0);
        self.vertical.as_ref().map_or(alone, Vertical::generations)
    }

    /// Events recorded that have not expired, where the kind counts them.
    pub fn live_events(&mut self) -> Option<u64> {
        self.catch_up();
        let alone = self.slices.iter().map(FilterSlice::live_events).sum();
        self.vertical.as_ref().map_or(alone, |vertical| Some(vertical.live_events()))
    }

    /// The chance that an event never seen is called a duplicate, from the cells as they are: the mean over slices, or
    /// over groups of slices that share events the rate of their cells together.
    pub fn expected_rate(&mut self) -> f64 {
        self.catch_up();
        match &self.vertical {
            Some(vertical) => vertical.expected_rate(&self.slices),
            None => self.slices.iter().map(FilterSlice::expected_rate).sum::<f64>() / self.slices.len() as f64,
        }
    }

    /// Writes everything that answers depend on beside the definition: clocks, slices, and
    /// what slices that share events have recorded together.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn write_body(&self, sink: &mut dyn Write) -> io::Result<()> {
        self.clocks.iter().try_for_each(|clock| clock.write_body(sink))?;
        self.slices.iter().try_for_each(|slice| slice.write_body(sink))?;
        self.vertical.as_ref().map_or(Ok(()), |vertical| vertical.write_body(sink))
    }

    /// Takes up the state of a filter of the same definition. After an error the filter must not be used.
    ///
    /// # Errors
    /// `InvalidData` where the bytes cannot be the state of such a filter; and those of the source.
    pub fn read_body(&mut self, source: &mut dyn Read) -> io::Result<()> {
        self.clocks.iter_mut().try_for_each(|clock| clock.read_body(source))?;
        self.slices.iter_mut().try_for_each(|slice| slice.read_body(source))?;
        self.vertical.as_mut().map_or(Ok(()), |vertical| vertical.read_body(source, &mut self.slices))
    }

    /// Brings slices to which nothing has come for a while to the present.
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

/// The place of an event that is looked up; `judges_ahead` says whether the kind knows what will be left later.
fn look_up(clock: &mut WindowClock, time_ms: Option<u64>, judges_ahead: bool) -> Placed {
    match clock.place_lookup(time_ms) {
        Placed::At(Stamp { unit, judged }) if !judges_ahead => {
            // Where events are counted, the next one may be in the next unit.
            Placed::At(Stamp { unit, judged: judged.min(clock.now_unit().max(unit)) })
        }
        placed => placed,
    }
}
