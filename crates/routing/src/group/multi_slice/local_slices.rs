//! The slices of a group that this node has, with operations to test and set the positions of an event in them.
//!
//! A test checks the cells of an event slice by slice, in the order of the event's hash functions. It stops at the
//! first empty cell, because that cell proves that the event is new. A test sets no cells. A set operation writes all
//! cells of the event that lie on this node. Every visit of a slice by one of these operations is counted.

use std::cell::Cell;

use firstseen_filter::{
    FilterDefinition, FilterSlice, GENERATIONS_MAX, GenerationNumber, HASHES_MAX, PartError, Stamp, TestResult,
    UnitNumber, WindowRule,
};

use super::placement::Placement;
use crate::group::group_time::GroupTime;
use crate::group::parts::TakesParts;
use crate::group::state::share_of_sample;
use crate::plan::{Load, SlicedBuildError};
use crate::protocol::MonotonicMs;

/// Number of bytes of cells that are read to estimate how densely they are set, and the time in milliseconds for which
/// the estimate is used.
const DENSITY_SAMPLE_BYTES: usize = 64 << 10;
const DENSITY_HOLDS_MS: u64 = 10;

/// The reply of a slice for positions that it does not know.
const NOTHING: TestResult = TestResult { generations: 0, expiry: UnitNumber::NEVER };

/// The slices of this node, with counts of their work.
pub(crate) struct OwnSlices {
    definition: FilterDefinition,
    /// The slices by their number in the group. Slices of other nodes are `None`.
    slices: Vec<Option<FilterSlice>>,
    loads: Vec<Load>,
    /// The greatest unit of any stamp that arrived here.
    now: UnitNumber,
    /// The last density estimate, and until when it is used.
    density: Cell<Option<(MonotonicMs, Density)>>,
    /// Numbers of events that arrived here to be tested and to be set.
    pub(crate) test_node_visits: u64,
    pub(crate) set_node_visits: u64,
}

/// How densely the cells of this node are set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Density {
    /// Share of a generation's cells that are set, averaged over the generations.
    pub(crate) fill: f64,
    /// Number of generations.
    pub(crate) generations: usize,
}

/// The positions of one event that lie in one slice.
struct InSlice {
    offsets: [u64; HASHES_MAX as usize],
    len: usize,
}

impl OwnSlices {
    pub(crate) fn build(definition: FilterDefinition, placement: &Placement) -> Result<Self, SlicedBuildError> {
        let mut slices = Vec::with_capacity(placement.slices());
        for slice in 0..placement.slices() {
            slices.push(if placement.holds_slice(slice) { Some(FilterSlice::build(&definition)?) } else { None });
        }
        let loads = vec![Load::default(); slices.len()];
        Ok(Self {
            definition,
            slices,
            loads,
            now: UnitNumber::FIRST,
            density: Cell::new(None),
            test_node_visits: 0,
            set_node_visits: 0,
        })
    }

    /// Applies a new placement, which states which slices this node has. The function creates empty slices that were
    /// assigned to this node, drops slices that were moved away, and returns the created slices. If there is no memory
    /// for a slice, events that need it are undecided. Each later cluster map triggers another attempt to create the
    /// slice.
    pub(crate) fn follow(&mut self, placement: &Placement) -> Vec<u32> {
        let mut come = Vec::new();
        for (index, slice) in self.slices.iter_mut().enumerate() {
            match (placement.holds_slice(index), slice.is_some()) {
                (true, false) => {
                    *slice = FilterSlice::build(&self.definition).ok();
                    come.extend(slice.is_some().then_some(index as u32));
                }
                (false, true) => *slice = None,
                _ => {}
            }
        }
        come
    }

    /// Returns whether a slice is on this node.
    pub(crate) fn has(&self, slice: u32) -> bool {
        self.slices.get(slice as usize).is_some_and(Option::is_some)
    }

    /// Returns the definition that all slices share.
    pub(crate) fn definition(&self) -> &FilterDefinition {
        &self.definition
    }

    /// Returns the greatest unit of any stamp that arrived here.
    pub(crate) fn now_unit(&self) -> UnitNumber {
        self.now
    }

    pub(crate) fn rule(&self) -> &WindowRule {
        &self.definition.rule
    }

    /// Returns whether this node has built every slice in which the placement lets it test `positions`. A slice can be
    /// missing because there was not enough memory for it. A slice that is still moving to this node need not be there,
    /// because no node asks this node about it before all of its cells have arrived.
    pub(crate) fn has_all(&self, placement: &Placement, positions: &[u64]) -> bool {
        positions.iter().all(|position| {
            let slice = placement.locate(*position).0;
            !placement.tests_slice(slice) || self.slices[slice].is_some()
        })
    }

    /// Returns the time stamp with which this node tests an event, or `None` if the event can no longer be tested. The
    /// stamp states the time at which a cell must be alive to count as set, which is usually the event's own time.
    ///
    /// An event may be late by more than the allowed lateness. Cells that were alive at its own time may then have been
    /// cleared already. Such an event is tested at the earliest time that the lateness still allows.
    ///
    /// The result is `None` if a late event would have to be tested at such a later time, but the event's window has
    /// ended by then. A lookup can itself ask about a time after the end of its window. It is tested at the requested
    /// time, unless that time is late by more than the allowed lateness too.
    pub(crate) fn rejudge(&mut self, stamp: Stamp) -> Option<Stamp> {
        self.now = self.now.max(stamp.unit);
        let edge = self.now.before(self.definition.rule.lateness_units);
        let judged = stamp.judged.max(edge);
        let is_alive = self.definition.rule.expiry(stamp.unit) > judged || judged == stamp.judged;
        is_alive.then_some(Stamp { unit: stamp.unit, judged })
    }

    pub(crate) fn prefetch(&self, placement: &Placement, positions: &[u64], generation: GenerationNumber) {
        for position in positions {
            let (index, offset) = placement.locate(*position);
            if let Some(slice) = &self.slices[index] {
                slice.prefetch(generation, &[offset]);
            }
        }
    }

    /// Tests the positions of an event that lie on this node, and returns the number of slices that were visited.
    ///
    /// `found` contains the results of the nodes that have tested the event before this node. The call combines them
    /// with the cells on this node. Afterwards, `found` contains only those generations in which all positions on this
    /// node are set too. Its expiry is the earliest expiry of all cells that were tested so far.
    pub(crate) fn test(
        &mut self,
        placement: &Placement,
        positions: &[u64],
        stamp: Stamp,
        found: &mut TestResult,
    ) -> u64 {
        let mut visits = 0;
        for (first, position) in positions.iter().enumerate() {
            let (index, _) = placement.locate(*position);
            let Some(slice) = self.slices[index].as_ref().filter(|_| placement.tests_slice(index)) else { continue };
            let Some(own) = InSlice::starting_at(placement, positions, first) else { continue };
            let sighting = slice.test_at(own.offsets(), stamp).unwrap_or(NOTHING);
            visits += 1;
            self.loads[index].test_visits += 1;
            self.loads[index].positions_tested += own.len as u64;
            *found = found.and(sighting);
            if !found.is_hit() {
                break;
            }
        }
        self.test_node_visits += u64::from(visits > 0);
        visits
    }

    /// Returns whether all positions that lie here are set. This check does not count as a visit.
    pub(crate) fn has_set(&self, placement: &Placement, positions: &[u64], stamp: Stamp) -> bool {
        let mut found = TestResult::ALL;
        for (first, position) in positions.iter().enumerate() {
            let Some(slice) = &self.slices[placement.locate(*position).0] else { continue };
            let Some(own) = InSlice::starting_at(placement, positions, first) else { continue };
            found = found.and(slice.test_at(own.offsets(), stamp).unwrap_or(NOTHING));
        }
        found.is_hit()
    }

    /// Opens generation `number` in every slice of this node that contains some of `positions`. A slice in which the
    /// generation is already open is not changed. The caller must pass a generation that the cluster map contains.
    /// Returns whether the generation is open in all of these slices afterwards.
    pub(crate) fn open(
        &mut self,
        placement: &Placement,
        positions: &[u64],
        unit: UnitNumber,
        number: GenerationNumber,
    ) -> bool {
        self.now = self.now.max(unit);
        let now = self.now;
        positions.iter().all(|position| {
            let slice = &mut self.slices[placement.locate(*position).0];
            slice.as_mut().is_none_or(|slice| open_up_to(slice, number, now))
        })
    }

    /// Sets all positions of an event that lie on this node, in generation `number`. The caller must first check with
    /// [`Self::open`] that this generation is open. Returns the number of cells, or `None` if a slice has no room.
    ///
    /// The result `None` guarantees that no cell of the event was set. A slice can run out of room only if it contains
    /// all positions of the event. In that case, there is no other slice in which the call could have set some of the
    /// cells before.
    pub(crate) fn set(
        &mut self,
        placement: &Placement,
        positions: &[u64],
        stamp: Stamp,
        number: GenerationNumber,
    ) -> Option<u64> {
        // An event that has already expired here would appear as alive when the timers' wheel comes round, so nothing
        // is set.
        let Some(stamp) = self.rejudge(stamp) else { return Some(0) };
        let mut cells = 0;
        let mut has_room = true;
        for (first, position) in positions.iter().enumerate() {
            let (index, _) = placement.locate(*position);
            let Some(slice) = &mut self.slices[index] else { continue };
            let Some(own) = InSlice::starting_at(placement, positions, first) else { continue };
            has_room &= slice.set_generation(number, own.offsets(), stamp);
            self.loads[index].record_visits += 1;
            cells += own.len as u64;
        }
        self.set_node_visits += u64::from(cells > 0);
        has_room.then_some(cells)
    }

    /// Sets cells that an earlier process of this node has set, in the order in which it set them.
    pub(crate) fn put(
        &mut self,
        placement: &Placement,
        positions: &[u64],
        stamp: Stamp,
        number: GenerationNumber,
    ) -> Result<(), PartError> {
        let Some(stamp) = self.rejudge(stamp) else { return Ok(()) };
        for (first, position) in positions.iter().enumerate() {
            let Some(slice) = &mut self.slices[placement.locate(*position).0] else { continue };
            let Some(own) = InSlice::starting_at(placement, positions, first) else { continue };
            slice.put_event(number, own.offsets(), stamp)?;
        }
        Ok(())
    }

    /// Returns the slices by their number in the group. Slices of other nodes are `None`.
    pub(crate) fn each(&self) -> Vec<Option<&FilterSlice>> {
        self.slices.iter().map(Option::as_ref).collect()
    }

    /// Returns the slices by their number in the group. Slices of other nodes are `None`.
    pub(crate) fn slices(&self) -> &[Option<FilterSlice>] {
        &self.slices
    }

    /// Counts the cells in use again, and takes the current unit from the slices.
    pub(crate) fn recount(&mut self) {
        for slice in self.slices.iter_mut().flatten() {
            slice.recount();
            self.now = self.now.max(slice.outline().map_or(UnitNumber::FIRST, |outline| outline.unit));
        }
    }

    /// Returns the slices of this node, advanced to the present, with their number in the group and their work.
    pub(crate) fn states(&mut self) -> impl Iterator<Item = (usize, &FilterSlice, Load)> {
        let now = self.now;
        let slices = self.slices.iter_mut().zip(&self.loads).enumerate();
        slices.filter_map(move |(index, (slice, load))| {
            let slice = slice.as_mut()?;
            slice.advance(now);
            Some((index, &*slice, *load))
        })
    }

    /// Returns the density of this node's cells, which is the share of the cells that are set. The value is estimated
    /// from a sample of the cells. The estimate is reused for a short time, because each sample takes time.
    pub(crate) fn density(&self, now_ms: MonotonicMs) -> Density {
        if let Some((until_ms, density)) = self.density.get()
            && now_ms < until_ms
        {
            return density;
        }
        let density = self.density_of(DENSITY_SAMPLE_BYTES);
        self.density.set(Some((now_ms.after(DENSITY_HOLDS_MS), density)));
        density
    }

    fn density_of(&self, sample_bytes: usize) -> Density {
        let own = self.slices.iter().flatten();
        let hashes = own.clone().next().map_or(1, |slice| slice.geometry().hashes());
        let rates = own.map(|slice| slice.fill_and_rate(share_of_sample(sample_bytes, self.len())).1);
        let rate = rates.sum::<f64>() / self.len().max(1) as f64;
        let generations = self.generations().max(1);
        Density { fill: (rate / generations as f64).powf(1.0 / f64::from(hashes)), generations }
    }

    pub(crate) fn len(&self) -> usize {
        self.slices.iter().flatten().count()
    }

    /// Advances all slices to `unit` if that is later than their present, which clears expired cells.
    pub(crate) fn advance(&mut self, unit: UnitNumber) {
        self.now = self.now.max(unit);
        let now = self.now;
        self.slices.iter_mut().flatten().for_each(|slice| slice.advance(now));
    }

    /// Returns the number of cells in use in generation `number`, which must be the newest. Slices that have not opened
    /// this generation yet count as empty. For kinds of cells that do not keep this count, the result is 0.
    pub(crate) fn used_cells(&self, number: GenerationNumber) -> u64 {
        let opened = self.slices.iter().flatten().filter(|slice| slice.newest_generation() == number);
        opened.map(FilterSlice::used_cells).sum()
    }

    /// Returns the greatest number of generations of any slice.
    pub(crate) fn generations(&self) -> usize {
        self.slices.iter().flatten().map(FilterSlice::generations).max().unwrap_or(0)
    }

    /// Returns the number of the newest generation that any slice has opened.
    pub(crate) fn newest_generation(&self) -> GenerationNumber {
        self.slices.iter().flatten().map(FilterSlice::newest_generation).max().unwrap_or_default()
    }
}

impl TakesParts for OwnSlices {
    /// Returns the slice, or `None` if it is not on this node or could not be built.
    fn part_owner(&mut self, slice: u32) -> Option<&mut FilterSlice> {
        self.slices.get_mut(slice as usize)?.as_mut()
    }

    fn greatest_unit(&self, _present: &GroupTime) -> UnitNumber {
        self.now_unit()
    }

    fn catch_up(&mut self, unit: UnitNumber) {
        self.advance(unit);
    }
}

impl InSlice {
    /// Returns the positions that lie in the same slice as position `first`. Returns `None` if an earlier position lies
    /// in that slice too.
    #[inline]
    fn starting_at(placement: &Placement, positions: &[u64], first: usize) -> Option<Self> {
        let (slice, offset) = placement.locate(positions[first]);
        if positions[..first].iter().any(|earlier| placement.locate(*earlier).0 == slice) {
            return None;
        }
        let mut own = Self { offsets: [0; HASHES_MAX as usize], len: 1 };
        own.offsets[0] = offset;
        for position in &positions[first + 1..] {
            let (other, offset) = placement.locate(*position);
            if other == slice {
                own.offsets[own.len] = offset;
                own.len += 1;
            }
        }
        Some(own)
    }

    fn offsets(&self) -> &[u64] {
        &self.offsets[..self.len]
    }
}

/// Returns whether the slice has generation `number` or could open it. A slice never has more generations than a mask
/// has bits.
fn open_up_to(slice: &mut FilterSlice, number: GenerationNumber, now: UnitNumber) -> bool {
    slice.advance(now);
    while slice.newest_generation() < number {
        if slice.generations() >= GENERATIONS_MAX as usize || slice.open_generation().is_err() {
            return false;
        }
    }
    // A generation that has become empty is removed. Cells set in a different generation would not be judged together
    // with the cells of the same event elsewhere.
    slice.generation_geometry(number).is_some()
}
