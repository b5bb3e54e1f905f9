//! A filter slice: one owner, one writer, one or more generations of cells.
//!
//! Promises: a batch answers like its events one by one; upkeep (sweeps, growth) never changes an answer. Must not
//! know: other slices, how long a unit is.

use std::io;

use crate::arch::{Instructions, prefetch_line};
use crate::cell_kind::{CellKind, Density, Pass, Recording};
use crate::events::{Events, Hashed};
use crate::generation::Generation;
use crate::generation_number::GenerationNumber;
use crate::growth::{Growth, Limit};
use crate::kernel::Walk;
use crate::unit_number::UnitNumber;
use crate::{Digest, FilterSecret, Geometry, Sighting, Stamp, Verdict};

/// Bytes of cells that upkeep may visit for each event of a batch.
const SWEEP_BYTES_PER_EVENT: usize = 128;

/// Cells of one kind with their window, growing where it is allowed.
pub struct CellSlice<K> {
    pub(crate) kind: K,
    pub(crate) base: Geometry,
    pub(crate) growth: Option<Growth>,
    /// The greatest unit any event has brought.
    pub(crate) now: UnitNumber,
    /// Oldest first; the last one takes new events.
    pub(crate) stack: Vec<Generation>,
    /// The number of the oldest generation since the slice was made.
    pub(crate) oldest: GenerationNumber,
    instructions: Instructions,
    /// Events of the batch found so far in older generations; kept to avoid an allocation a batch.
    known: Vec<bool>,
    found: Vec<bool>,
}

#[allow(private_bounds)]
impl<K: CellKind> CellSlice<K> {
    /// An empty slice. Fails where the system refuses the memory.
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

    /// Runs the slice with other instructions: answers are the same, speed is not.
    pub fn set_instructions(&mut self, instructions: Instructions) {
        self.instructions = instructions;
    }

    /// Tests every event and records those that are not there; one verdict an event, in order.
    ///
    /// # Panics
    /// If the three lengths differ.
    pub fn observe_batch(&mut self, digests: &[Digest], stamps: &[Stamp], verdicts: &mut [Verdict]) {
        self.walk(digests, stamps, verdicts, true);
    }

    /// Tests every event and records nothing. An event that is judged after the present of the slice is judged by what
    /// would be left then, and moves nothing.
    ///
    /// # Panics
    /// If the three lengths differ.
    pub fn lookup_batch(&mut self, digests: &[Digest], stamps: &[Stamp], verdicts: &mut [Verdict]) {
        self.walk(digests, stamps, verdicts, false);
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
        self.walk(Hashed { secret, events }, stamps, verdicts, true);
    }

    pub(crate) fn walk<E: Events>(&mut self, batch: E, stamps: &[Stamp], verdicts: &mut [Verdict], record: bool) {
        let events = batch.count();
        assert!(events == stamps.len() && events == verdicts.len(), "one stamp and one verdict an event");
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

    /// The events at the start of `stamps` that can be walked without upkeep between them, and their greatest unit.
    fn segment(&self, stamps: &[Stamp], record: bool) -> (usize, UnitNumber) {
        let reach = self.kind.window().lateness_units + K::SLACK_UNITS;
        let in_one_unit = K::COUNTS_ALONE || self.growth.is_some_and(|growth| self.fills_within(stamps.len(), &growth));
        let mut newest = self.now;
        let mut earliest = UnitNumber::NEVER;
        for (index, stamp) in stamps.iter().enumerate() {
            // An event that is recorded for less than the window has an earlier unit than the present; one that is looked
            // up may be judged later.
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

    /// Whether `events` more might fill the newest generation: then the events that expire meanwhile decide where the
    /// next generation opens, so these events must be walked unit by unit. A density changes with every unit.
    fn fills_within(&self, events: usize, growth: &Growth) -> bool {
        growth.limit == Limit::Density || self.room_in_newest(growth) < events as u64
    }

    /// Walks a segment through all generations. Where it is `full`, or finds no room, an event that is found starts its
    /// window again in the place that it has, which needs no room.
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
            // Only now: the walk may have refreshed what it recorded itself.
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
        // One that is found in an older generation starts its window again there, where it has its place.
        let (unknown, elsewhere): (Vec<usize>, Vec<usize>) = refused.into_iter().partition(|index| !self.found[*index]);
        unknown.into_iter().for_each(|index| verdicts[index] = Verdict::Undecided);
        for index in elsewhere {
            let event = events.part(index..index + 1);
            let stamps = &stamps[index..=index];
            let again = Segment { events: event, stamps, before: self.now, record: true, full: true };
            self.touch(again, &mut verdicts[index..=index]);
        }
    }

    /// Answers lookups so far ahead that no event recorded up to now is alive for them.
    fn answer_expired(&self, stamps: &[Stamp], verdicts: &mut [Verdict]) {
        let expiry = self.kind.window().expiry(self.now);
        let expired = stamps.iter().zip(verdicts).filter(|(stamp, _)| stamp.judged >= expiry);
        expired.for_each(|(_, verdict)| *verdict = Verdict::FirstSeen);
    }

    /// Moves the window to unit `next`, if that is later: all cells that must be gone by then are gone.
    pub fn advance(&mut self, next: UnitNumber) {
        if next <= self.now {
            return;
        }
        for generation in &mut self.stack {
            // Where nothing was ever recorded, nothing can expire, and the system need not provide memory that was
            // never touched.
            if generation.live.newest_unit().is_some() {
                self.kind.advance(generation, self.now, next);
            }
            generation.live.advance(&self.kind.counted(), next);
        }
        self.now = next;
        self.drop_emptied();
    }

    /// Whether batches must count the cells they use.
    fn counts_cells(&self) -> bool {
        self.growth.is_some_and(|growth| growth.limit == Limit::Density)
    }

    fn upkeep(&mut self, events: usize) {
        // Where the number of used cells decides about growth, it must not depend on how far a sweep has come within a
        // unit.
        if self.counts_cells() {
            return;
        }
        for generation in &mut self.stack {
            self.kind.sweep(generation, self.now, events.saturating_mul(SWEEP_BYTES_PER_EVENT));
        }
    }

    /// Which generations hold every one of `positions`, and their least expiry; nothing is recorded.
    ///
    /// # Panics
    /// If a position is not below the slice's cells.
    pub fn test_at(&self, positions: &[u64], stamp: Stamp) -> Sighting {
        let mut sighting = Sighting { generations: 0, expiry: UnitNumber::NEVER };
        for (number, generation) in (self.oldest.0..).zip(&self.stack) {
            let (held, expiry) = self.kind.sight(generation, positions, stamp, self.now);
            if held != 0 {
                sighting.generations |= held.rotate_left((number % u64::from(u16::BITS)) as u32);
                sighting.expiry = sighting.expiry.min(expiry);
            }
        }
        sighting
    }

    /// Asks memory for the cells at `positions` in generation `number`, which will be needed soon.
    ///
    /// # Panics
    /// If a position is not below the generation's cells.
    pub fn prefetch(&self, number: GenerationNumber, positions: &[u64]) {
        if let Some(index) = self.index_of(number) {
            let generation = &self.stack[index];
            let bytes = generation.memory.bytes();
            let starts = positions.iter().flat_map(|position| generation.geometry.bytes_at(*position));
            starts.filter_map(|start| bytes.get(start)).for_each(prefetch_line);
        }
    }

    /// Whether generation `number` since the slice was made holds every one of `positions`: its own mask and least
    /// expiry, not turned by its number as in [`Self::test_at`]. A generation that has been dropped holds nothing.
    ///
    /// # Panics
    /// If a position is not below the generation's cells.
    pub fn test_generation(&self, number: GenerationNumber, positions: &[u64], stamp: Stamp) -> Sighting {
        let Some(index) = self.index_of(number) else {
            return Sighting { generations: 0, expiry: UnitNumber::NEVER };
        };
        let (generations, expiry) = self.kind.sight(&self.stack[index], positions, stamp, self.now);
        Sighting { generations, expiry }
    }

    /// Appends the expiries of the cells at `positions` in generation `number`, 0 where a cell is not alive for
    /// `stamp`; nothing where cells have no expiry of their own.
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
        if let Some(index) = self.index_of(number) {
            self.kind.push_expiries(&self.stack[index], positions, stamp, self.now, expiries);
        }
    }

    /// The shape of generation `number`, while there is one.
    pub fn generation_geometry(&self, number: GenerationNumber) -> Option<Geometry> {
        self.index_of(number).map(|index| self.stack[index].geometry)
    }

    pub(crate) fn index_of(&self, number: GenerationNumber) -> Option<usize> {
        let index = usize::try_from(number.since(self.oldest)?).ok()?;
        (index < self.stack.len()).then_some(index)
    }

    /// Records an event at `positions` in the newest generation, whatever is there. Returns whether there was room.
    ///
    /// # Panics
    /// If a position is not below the slice's cells.
    pub fn set_at(&mut self, positions: &[u64], stamp: Stamp) -> bool {
        self.set_newest_or(None, positions, stamp)
    }

    /// Records an event at `positions` in generation `number`, or in the newest where there is none of that number,
    /// also where it is found. Returns whether there was room for it.
    ///
    /// # Panics
    /// If a position is not below the generation's cells.
    pub fn set_generation(&mut self, number: GenerationNumber, positions: &[u64], stamp: Stamp) -> bool {
        self.set_newest_or(Some(number), positions, stamp)
    }

    /// Records an event in generation `number`, or in the newest where there is none, or none of that number.
    fn set_newest_or(&mut self, number: Option<GenerationNumber>, positions: &[u64], stamp: Stamp) -> bool {
        self.advance(stamp.unit);
        let index = number.and_then(|number| self.index_of(number)).unwrap_or(self.stack.len().saturating_sub(1));
        let Some(generation) = self.stack.get_mut(index) else { return false };
        let Some(recorded) = self.kind.set(generation, positions, stamp, self.now) else { return false };
        generation.live.record(self.now, recorded.events);
        generation.used_cells += recorded.cells;
        true
    }

    /// The geometry of the first generation.
    pub fn geometry(&self) -> &Geometry {
        &self.base
    }

    /// The greatest unit any event has brought.
    pub fn now(&self) -> UnitNumber {
        self.now
    }

    /// Generations of cells at present.
    pub fn generations(&self) -> usize {
        self.stack.len()
    }

    /// Cells in use in the newest generation, where the kind keeps count.
    pub fn used_cells(&self) -> u64 {
        self.stack.last().map_or(0, |newest| newest.used_cells)
    }

    /// Bytes of cells.
    pub fn bytes(&self) -> u64 {
        self.stack.iter().map(|generation| generation.geometry.bytes()).sum()
    }

    /// Events recorded that have not expired.
    pub fn live_events(&self) -> u64 {
        self.stack.iter().map(|generation| generation.live.total()).sum()
    }

    /// How densely the cells are set; reads all of them. The rate is the chance that an event never seen is called a
    /// duplicate: a generation's is its fill to the k-th power (blocked: the mean over blocks), and that of all is
    /// `1 - product (1 - rate)`.
    pub fn density(&self) -> Density {
        self.density_within(usize::MAX)
    }

    /// The same from a sample: reads about `bytes_max` bytes, the first ones of every generation in equal shares.
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

    /// Adds what `other`, a slice of the same definition, has recorded. Both are first brought to the later of their
    /// units; the result is the same in any order and after any repetition.
    ///
    /// # Errors
    /// [`MergeError`] where the definitions differ or either has grown; both are unchanged then.
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

/// Why two slices cannot be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// They are not copies of one slice.
    #[error("the slices have different definitions: only copies of the same slice can be merged")]
    Definition,
    /// One holds more than one generation of cells.
    #[error("a slice that has grown cannot be merged: wait until its older generations have emptied")]
    Grown,
    /// The events of both do not fit into one; some of the other's are not in this one now.
    #[error("the slice has no room for all events of the other: wait until some have expired")]
    Full,
}

/// Events that are walked together.
struct Segment<'a, E> {
    events: E,
    stamps: &'a [Stamp],
    /// The greatest unit before the first of them.
    before: UnitNumber,
    record: bool,
    /// There is no room for another event.
    full: bool,
}

fn refuse_unseen(verdicts: &mut [Verdict]) {
    for verdict in verdicts.iter_mut().filter(|verdict| **verdict == Verdict::FirstSeen) {
        *verdict = Verdict::Undecided;
    }
}
