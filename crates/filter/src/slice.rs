//! A filter slice that consists of one or more generations of cells. Each slice has one owner and one writer.
//!
//! - A batch of events gets the same answers as the same events one after the other.
//! - Maintenance (sweeps that clear expired cells, opening and dropping generations) never changes an answer.
//!
//! This module does not depend on other slices, and does not know how long a unit of the window is.

use std::io;

use crate::arch::{Instructions, prefetch_line};
use crate::cell_kind::{CellKind, Density, Pass, Recording};
use crate::events::{Events, Hashed};
use crate::generation::Generation;
use crate::generation_number::GenerationNumber;
use crate::growth::{Growth, Limit};
use crate::kernel::Walk;
use crate::unit_number::UnitNumber;
use crate::{Digest, FilterSecret, Geometry, Stamp, TestResult, Verdict};

/// Number of bytes of cells that maintenance may visit for each event of a batch.
const SWEEP_BYTES_PER_EVENT: usize = 128;

/// Cells of one kind, together with their window. The slice opens further generations if its definition allows growth.
pub struct CellSlice<K> {
    pub(crate) kind: K,
    pub(crate) base: Geometry,
    pub(crate) growth: Option<Growth>,
    /// Greatest unit of any event so far, which is the slice's present time.
    pub(crate) now: UnitNumber,
    /// Generations of cells, oldest first. The slice records new events in the last generation.
    pub(crate) stack: Vec<Generation>,
    /// Number of the oldest generation. Generations are numbered from the time at which the slice was created.
    pub(crate) oldest: GenerationNumber,
    instructions: Instructions,
    /// For each event of the current batch, whether an older generation holds it. The buffer is a field to avoid an
    /// allocation per batch.
    known: Vec<bool>,
    found: Vec<bool>,
}

#[allow(private_bounds)]
impl<K: CellKind> CellSlice<K> {
    /// Creates an empty slice. Returns an error if the operating system does not provide the memory.
    pub fn new(kind: K, geometry: Geometry, growth: Option<Growth>) -> io::Result<Self> {
        Ok(Self {
            kind,
            base: geometry,
            growth,
            now: UnitNumber::FIRST,
            stack: vec![Generation::new(geometry)?],
            oldest: GenerationNumber::FIRST,
            instructions: Instructions::Widest,
            known: Vec::new(),
            found: Vec::new(),
        })
    }

    /// Selects the processor instructions that the slice uses. They change its speed, but never its answers.
    pub fn set_instructions(&mut self, instructions: Instructions) {
        self.instructions = instructions;
    }

    /// Tests every event and records the events that are not in the filter yet. Writes one verdict per event, in order.
    ///
    /// # Panics
    /// Panics if the three slices differ in length.
    pub fn observe_batch(&mut self, digests: &[Digest], stamps: &[Stamp], verdicts: &mut [Verdict]) {
        self.walk(digests, stamps, verdicts, true);
    }

    /// Tests every event of a batch, and records no event. The stamp of an event may be later than the present time of
    /// the slice. Such an event is compared only with cells that will still be alive at the time of the stamp. The
    /// window of the slice does not move.
    ///
    /// # Panics
    /// Panics if the three slices differ in length.
    pub fn lookup_batch(&mut self, digests: &[Digest], stamps: &[Stamp], verdicts: &mut [Verdict]) {
        self.walk(digests, stamps, verdicts, false);
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
        self.walk(Hashed { secret, events }, stamps, verdicts, true);
    }

    pub(crate) fn walk<E: Events>(&mut self, batch: E, stamps: &[Stamp], verdicts: &mut [Verdict], record: bool) {
        let events = batch.count();
        assert!(events == stamps.len() && events == verdicts.len(), "each event needs one stamp and one verdict");
        let mut start = 0;
        while start < events {
            let before = self.now;
            let (end, newest) = self.segment(&stamps[start..], record);
            self.advance(newest);
            let room = if record { self.make_room() } else { u64::MAX };
            let full = room == 0;
            let end = start + if full { end } else { end.min(usize::try_from(room).unwrap_or(usize::MAX)) };
            let segment = Segment { events: batch.part(start..end), stamps: &stamps[start..end], before, record, full };
            self.touch(segment, &mut verdicts[start..end]);
            if full {
                refuse_unseen(&mut verdicts[start..end]);
            }
            if !record {
                self.answer_expired(&stamps[start..end], &mut verdicts[start..end]);
            }
            self.upkeep(end - start);
            start = end;
        }
    }

    /// Returns how many events at the start of `stamps` can be walked without maintenance between them, and the
    /// greatest unit of these events.
    fn segment(&self, stamps: &[Stamp], record: bool) -> (usize, UnitNumber) {
        let reach = self.kind.window().lateness_units + K::SLACK_UNITS;
        let in_one_unit = K::COUNTS_ALONE || self.growth.is_some_and(|growth| self.fills_within(stamps.len(), &growth));
        let mut newest = self.now;
        let mut earliest = UnitNumber::NEVER;
        for (index, stamp) in stamps.iter().enumerate() {
            // An event that is recorded for less than the window has a unit before the present. An event that is only
            // looked up may be judged at a later time than the present.
            let present = if record { stamp.unit.max(stamp.judged) } else { stamp.unit };
            let next_newest = newest.max(present);
            let next_earliest = earliest.min(stamp.judged);
            let starts_unit = in_one_unit && next_newest > newest;
            if index > 0 && (starts_unit || next_newest.since(next_earliest) > reach) {
                return (index, newest);
            }
            newest = next_newest;
            earliest = next_earliest;
        }
        (stamps.len(), newest)
    }

    /// Returns whether the newest generation could become full during a batch of `events` further events, so that the
    /// next generation opens. If so, the batch must be processed unit by unit. The reason is that events expire at the
    /// end of each unit and make room, which can delay the moment at which the next generation opens.
    ///
    /// If growth is limited by density, the result is always `true`, because the number of used cells can change with
    /// every unit.
    fn fills_within(&self, events: usize, growth: &Growth) -> bool {
        growth.limit == Limit::Density || self.room_in_newest(growth) < events as u64
    }

    /// Tests the events of a segment in all generations, and records its new events in the newest generation. No new
    /// event is recorded if the segment is marked `full`. In a cuckoo filter, single new events may also find no room.
    /// An event that is already in the filter keeps its place, so it can restart its window even if there is no room
    /// for new events.
    fn touch<E: Events>(&mut self, segment: Segment<'_, E>, verdicts: &mut [Verdict]) {
        let Segment { events, stamps, before, record, full } = segment;
        let mut known = std::mem::take(&mut self.known);
        known.clear();
        self.found.resize(events.count(), false);
        let counts_cells = self.counts_cells();
        let newest = self.stack.len() - 1;
        let mut refused = Vec::new();
        for (index, generation) in self.stack.iter_mut().enumerate() {
            let record = match record {
                true if full => Recording::Refreshes,
                true if index == newest => Recording::Everything,
                _ => Recording::Nothing,
            };
            let used_cells = generation.used_cells;
            let pass = Pass { stamps, known: &known, record, counts_cells, used_cells };
            let mut rule = self.kind.rule(pass, self.now);
            let memory = generation.memory.bytes_mut();
            rule.walk(self.instructions, memory, &generation.geometry, events, &mut self.found);
            refused.extend(K::take_refused(&mut rule));
            let recorded = K::recorded(&rule);
            if before == self.now || K::COUNTS_ALONE {
                generation.live.record(self.now, recorded.events);
            } else if recorded.events > 0 {
                generation.live.record_each(before, stamps, &self.found);
                generation.live.advance(&self.kind.counted(), self.now);
            }
            // This call must come after the walk, because the walk may have refreshed events that it recorded itself.
            K::note_refreshed(&rule, &mut generation.live, self.now);
            drop(rule);
            generation.used_cells += recorded.cells;
            if index < newest {
                known.clone_from(&self.found);
            }
        }
        for (verdict, found) in verdicts.iter_mut().zip(&self.found) {
            *verdict = if *found { Verdict::Duplicate } else { Verdict::FirstSeen };
        }
        self.known = known;
        // A rejected event that an older generation holds restarts its window in that generation, where it already has
        // a place.
        let (unknown, elsewhere): (Vec<usize>, Vec<usize>) = refused.into_iter().partition(|index| !self.found[*index]);
        unknown.into_iter().for_each(|index| verdicts[index] = Verdict::Undecided);
        for index in elsewhere {
            let event = events.part(index..index + 1);
            let stamps = &stamps[index..=index];
            let again = Segment { events: event, stamps, before: self.now, record: true, full: true };
            self.touch(again, &mut verdicts[index..=index]);
        }
    }

    /// Answers `FirstSeen` for lookups that lie so far in the future that every event recorded up to now will have
    /// expired.
    fn answer_expired(&self, stamps: &[Stamp], verdicts: &mut [Verdict]) {
        let expiry = self.kind.window().expiry(self.now);
        let expired = stamps.iter().zip(verdicts).filter(|(stamp, _)| stamp.judged >= expiry);
        expired.for_each(|(_, verdict)| *verdict = Verdict::FirstSeen);
    }

    /// Moves the window forward to unit `next`, if that is later than the present. Afterwards no cell that expires by
    /// then is set.
    pub fn advance(&mut self, next: UnitNumber) {
        if next <= self.now {
            return;
        }
        for generation in &mut self.stack {
            // A generation in which nothing was ever recorded has nothing that could expire. Skipping it means that the
            // operating system need not provide memory for cells that were never written.
            if generation.live.newest_unit().is_some() {
                self.kind.advance(generation, self.now, next);
            }
            generation.live.advance(&self.kind.counted(), next);
        }
        self.now = next;
        self.drop_emptied();
    }

    /// Returns whether batches must count the cells that they use, because the density of cells limits growth.
    fn counts_cells(&self) -> bool {
        self.growth.is_some_and(|growth| growth.limit == Limit::Density)
    }

    fn upkeep(&mut self, events: usize) {
        // If the number of used cells decides about growth, that number must not depend on how far a sweep has come
        // within a unit.
        if self.counts_cells() {
            return;
        }
        for generation in &mut self.stack {
            self.kind.sweep(generation, self.now, events.saturating_mul(SWEEP_BYTES_PER_EVENT));
        }
    }

    /// Returns which generations hold all of `positions`, and the earliest expiry among the cells found. The call
    /// records nothing.
    ///
    /// # Panics
    /// Panics if a position is not below the number of cells of the slice.
    pub fn test_at(&self, positions: &[u64], stamp: Stamp) -> TestResult {
        let mut sighting = TestResult { generations: 0, expiry: UnitNumber::NEVER };
        for (number, generation) in (self.oldest.0..).zip(&self.stack) {
            let (held, expiry) = self.kind.sight(generation, positions, stamp, self.now);
            if held != 0 {
                sighting.generations |= held.rotate_left((number % u64::from(u16::BITS)) as u32);
                sighting.expiry = sighting.expiry.min(expiry);
            }
        }
        sighting
    }

    /// Prefetches the cells at `positions` in generation `number` into the processor's cache. Callers use this method
    /// some time before they test an event, so that the test does not wait for memory.
    ///
    /// # Panics
    /// Panics if a position is not below the number of cells of the generation.
    pub fn prefetch(&self, number: GenerationNumber, positions: &[u64]) {
        if let Some(index) = self.index_of(number) {
            let generation = &self.stack[index];
            let bytes = generation.memory.bytes();
            let starts = positions.iter().flat_map(|position| generation.geometry.bytes_at(*position));
            starts.filter_map(|start| bytes.get(start)).for_each(prefetch_line);
        }
    }

    /// Tests `positions` in the single generation `number`. Generations are numbered from the creation of the slice.
    /// Returns the bit mask of this generation and the earliest expiry of the tested cells. The mask is empty if the
    /// generation has been dropped.
    ///
    /// The mask is not rotated by the number of the generation, unlike the mask that [`Self::test_at`] returns.
    ///
    /// # Panics
    /// Panics if a position is not below the number of cells of the generation.
    pub fn test_generation(&self, number: GenerationNumber, positions: &[u64], stamp: Stamp) -> TestResult {
        let Some(index) = self.index_of(number) else {
            return TestResult { generations: 0, expiry: UnitNumber::NEVER };
        };
        let (generations, expiry) = self.kind.sight(&self.stack[index], positions, stamp, self.now);
        TestResult { generations, expiry }
    }

    /// Appends the expiry of each cell at `positions` in generation `number` to a list. The expiry is 0 for a cell that
    /// is not alive at `stamp`. If the cells of this kind have no expiry of their own, the method appends nothing.
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
        if let Some(index) = self.index_of(number) {
            self.kind.push_expiries(&self.stack[index], positions, stamp, self.now, expiries);
        }
    }

    /// Returns the geometry of generation `number`, or `None` if the slice has no such generation (any more).
    pub fn generation_geometry(&self, number: GenerationNumber) -> Option<Geometry> {
        self.index_of(number).map(|index| self.stack[index].geometry)
    }

    pub(crate) fn index_of(&self, number: GenerationNumber) -> Option<usize> {
        let index = usize::try_from(number.since(self.oldest)?).ok()?;
        (index < self.stack.len()).then_some(index)
    }

    /// Records an event at `positions` in the newest generation, whether or not it is already there. Returns `false` if
    /// there was no room for it.
    ///
    /// # Panics
    /// Panics if a position is not below the number of cells of the slice.
    pub fn set_at(&mut self, positions: &[u64], stamp: Stamp) -> bool {
        self.set_newest_or(None, positions, stamp)
    }

    /// Records an event at `positions` in generation `number`, even if the event is already there. If the slice has no
    /// generation of that number, the event goes to the newest generation. Returns `false` if there was no room for the
    /// event.
    ///
    /// # Panics
    /// Panics if a position is not below the number of cells of the generation.
    pub fn set_generation(&mut self, number: GenerationNumber, positions: &[u64], stamp: Stamp) -> bool {
        self.set_newest_or(Some(number), positions, stamp)
    }

    /// Records an event in generation `number`. If `number` is `None`, or the slice has no generation of that number,
    /// the event goes to the newest generation.
    fn set_newest_or(&mut self, number: Option<GenerationNumber>, positions: &[u64], stamp: Stamp) -> bool {
        self.advance(stamp.unit);
        let index = number.and_then(|number| self.index_of(number)).unwrap_or(self.stack.len().saturating_sub(1));
        let Some(generation) = self.stack.get_mut(index) else { return false };
        let Some(recorded) = self.kind.set(generation, positions, stamp, self.now) else { return false };
        generation.live.record(self.now, recorded.events);
        generation.used_cells += recorded.cells;
        true
    }

    /// Returns the geometry of the first generation.
    pub fn geometry(&self) -> &Geometry {
        &self.base
    }

    /// Returns the greatest unit of any event so far.
    pub fn now(&self) -> UnitNumber {
        self.now
    }

    /// Returns the current number of generations of cells.
    pub fn generations(&self) -> usize {
        self.stack.len()
    }

    /// Returns the number of used cells in the newest generation, if this kind counts used cells.
    pub fn used_cells(&self) -> u64 {
        self.stack.last().map_or(0, |newest| newest.used_cells)
    }

    /// Returns the size of all cells in bytes.
    pub fn bytes(&self) -> u64 {
        self.stack.iter().map(|generation| generation.geometry.bytes()).sum()
    }

    /// Returns the number of recorded events that have not expired.
    pub fn live_events(&self) -> u64 {
        self.stack.iter().map(|generation| generation.live.total()).sum()
    }

    /// Returns how densely the cells are set. The call reads all cells.
    ///
    /// The rate is the probability that an event that was never seen is called a duplicate. For a single generation in
    /// the classic layout, the rate is the fill to the k-th power. In a blocked layout, it is the mean of this value
    /// over all blocks. The rate of the slice is `1 - product (1 - rate)` over its generations.
    pub fn density(&self) -> Density {
        self.density_within(usize::MAX)
    }

    /// Returns an estimate of [`Self::density`] from a sample, so that the cost does not grow with the slice. The
    /// sample has about `bytes_max` bytes and contains an equal share from the start of every generation.
    pub(crate) fn density_within(&self, bytes_max: usize) -> Density {
        let share_bytes = bytes_max / self.stack.len().max(1);
        let mut alive = 0.0;
        let mut cells = 0.0;
        let mut miss = 1.0;
        for generation in &self.stack {
            let Density { fill, rate } = self.kind.density(generation, self.now, share_bytes);
            alive += fill * generation.geometry.cells() as f64;
            cells += generation.geometry.cells() as f64;
            miss *= 1.0 - rate;
        }
        Density { fill: if cells > 0.0 { alive / cells } else { 0.0 }, rate: 1.0 - miss }
    }

    /// Adds everything that `other` has recorded to this slice. Both slices must have the same definition. The call
    /// first advances both slices to the later of their present units. The result does not depend on the order in which
    /// slices are merged, and merging the same slice twice changes nothing.
    ///
    /// # Errors
    /// Returns [`MergeError`] if the definitions differ or if either slice has grown. Both slices are unchanged in that
    /// case.
    pub fn merge(&mut self, other: &mut Self) -> Result<(), MergeError> {
        if self.base != other.base || self.growth != other.growth || self.kind != other.kind {
            return Err(MergeError::Definition);
        }
        let now = self.now.max(other.now);
        if self.emptied_at(now) + 1 < self.stack.len() || other.emptied_at(now) + 1 < other.stack.len() {
            return Err(MergeError::Grown);
        }
        self.advance(now);
        other.advance(now);
        let ([mine], [others]) = (&mut self.stack[..], &other.stack[..]) else { return Err(MergeError::Grown) };
        if mine.geometry != others.geometry {
            return Err(MergeError::Grown);
        }
        let used = self.kind.merge(mine.memory.bytes_mut(), others.memory.bytes(), now, now);
        mine.used_cells = used.unwrap_or_else(|| self.kind.used(mine.memory.bytes()));
        mine.live.merge(&others.live);
        self.oldest = self.oldest.max(other.oldest);
        used.map(|_| ()).ok_or(MergeError::Full)
    }
}

/// Reason why two slices cannot be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The slices are not copies of one slice.
    #[error("the slices have different definitions: only copies of the same slice can be merged")]
    Definition,
    /// One of the slices holds more than one generation of cells.
    #[error("a slice that has grown cannot be merged: wait until its older generations have emptied")]
    Grown,
    /// The events of both slices do not fit into one. This slice now lacks some events of the other slice.
    #[error("the slice has no room for all events of the other: wait until some have expired")]
    Full,
}

/// Consecutive events that are walked together.
struct Segment<'a, E> {
    events: E,
    stamps: &'a [Stamp],
    /// Greatest unit of the slice before the first event of the segment.
    before: UnitNumber,
    record: bool,
    /// Whether the slice has no room for another event.
    full: bool,
}

fn refuse_unseen(verdicts: &mut [Verdict]) {
    for verdict in verdicts.iter_mut().filter(|verdict| **verdict == Verdict::FirstSeen) {
        *verdict = Verdict::Undecided;
    }
}
