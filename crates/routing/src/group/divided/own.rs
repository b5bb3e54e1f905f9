//! The slices of a group that this node has.
//!
//! Promises: a test visits slices in the order of the event's hash functions, stops at the first zero and sets nothing;
//! a set sets all positions that lie here. Every visit is counted. Must not know: other nodes, who asks.

use std::cell::Cell;

use firstseen_filter::{
    FilterDefinition, FilterSlice, GENERATIONS_MAX, GenerationNumber, HASHES_MAX, PartError, Sighting, Stamp,
    UnitNumber, WindowRule,
};

use super::placement::Placement;
use crate::group::parts::TakesParts;
use crate::group::present::Present;
use crate::group::state::share_of_sample;
use crate::plan::{Load, SlicedBuildError};
use crate::protocol::MonotonicMs;

/// Cells that are read to estimate how dense they are, and for how long the estimate is believed.
const DENSITY_SAMPLE_BYTES: usize = 64 << 10;
const DENSITY_HOLDS_MS: u64 = 10;

/// The answer of a slice that does not know the positions.
const NOTHING: Sighting = Sighting { generations: 0, expiry: UnitNumber::NEVER };

/// Own slices with what they have done.
pub(crate) struct OwnSlices {
    definition: FilterDefinition,
    /// By slice of the group.
    slices: Vec<Option<FilterSlice>>,
    loads: Vec<Load>,
    /// The greatest unit that a stamp brought here.
    now: UnitNumber,
    /// How dense cells are, until when that is believed.
    density: Cell<Option<(MonotonicMs, Density)>>,
    /// Events that came by to be tested, and to be set.
    pub(crate) test_node_visits: u64,
    pub(crate) set_node_visits: u64,
}

/// How densely the cells here are set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Density {
    /// The share of a generation's cells that are set, averaged over generations.
    pub(crate) fill: f64,
    /// Generations.
    pub(crate) generations: usize,
}

/// Positions of one event in one slice.
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

    /// Takes empty slices that came to this node, and drops those that went; returns which have come. A slice that
    /// cannot be built is not there: events that ask it are undecided, and building it is tried again.
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

    /// Whether a slice is here.
    pub(crate) fn has(&self, slice: u32) -> bool {
        self.slices.get(slice as usize).is_some_and(Option::is_some)
    }

    /// What every slice is like.
    pub(crate) fn definition(&self) -> &FilterDefinition {
        &self.definition
    }

    /// The greatest unit that a stamp brought here.
    pub(crate) fn now_unit(&self) -> UnitNumber {
        self.now
    }

    pub(crate) fn rule(&self) -> &WindowRule {
        &self.definition.rule
    }

    /// Whether every position that the placement has tested here can be tested. A slice on its way here that cannot be
    /// built delays no event: it is not complete before all of it has come again.
    pub(crate) fn has_all(&self, placement: &Placement, positions: &[u64]) -> bool {
        positions.iter().all(|position| {
            let slice = placement.locate(*position).0;
            !placement.tests_slice(slice) || self.slices[slice].is_some()
        })
    }

    /// The stamp as it is judged here: not before the edge of lateness, beyond which cells may have been cleared.
    /// `None` where the event's own window is over then; an event that is only looked up may be judged after its
    /// window.
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

    /// Narrows `found` to the generations that hold all of the event's positions that are tested here, and to the least
    /// expiry there; returns how many slices were visited.
    pub(crate) fn test(&mut self, placement: &Placement, positions: &[u64], stamp: Stamp, found: &mut Sighting) -> u64 {
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

    /// Whether all positions that lie here are set; this counts as no visit.
    pub(crate) fn has_set(&self, placement: &Placement, positions: &[u64], stamp: Stamp) -> bool {
        let mut found = Sighting::ALL;
        for (first, position) in positions.iter().enumerate() {
            let Some(slice) = &self.slices[placement.locate(*position).0] else { continue };
            let Some(own) = InSlice::starting_at(placement, positions, first) else { continue };
            found = found.and(slice.test_at(own.offsets(), stamp).unwrap_or(NOTHING));
        }
        found.is_hit()
    }

    /// Whether generation `number`, which was committed, is there in every slice here that has some of `positions`;
    /// opens it where it is newer than what a slice has.
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

    /// Sets all positions that lie here in generation `number`, which [`Self::open`] has found, whatever is there;
    /// returns how many cells that were, or none where one has no room. Only slices that have all positions of an event
    /// can lack room, so then nothing is set.
    pub(crate) fn set(
        &mut self,
        placement: &Placement,
        positions: &[u64],
        stamp: Stamp,
        number: GenerationNumber,
    ) -> Option<u64> {
        // An event that has expired here already would read as alive when the wheel of timers comes round.
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

    /// Sets cells that another process of this node has set, in its order.
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

    /// By slice of the group.
    pub(crate) fn each(&self) -> Vec<Option<&FilterSlice>> {
        self.slices.iter().map(Option::as_ref).collect()
    }

    /// By slice of the group.
    pub(crate) fn slices(&self) -> &[Option<FilterSlice>] {
        &self.slices
    }

    /// Counts the cells in use anew, and takes the time from the slices.
    pub(crate) fn recount(&mut self) {
        for slice in self.slices.iter_mut().flatten() {
            slice.recount();
            self.now = self.now.max(slice.outline().map_or(UnitNumber::FIRST, |outline| outline.unit));
        }
    }

    /// Own slices with their number in the group and what they have done, brought to the present.
    pub(crate) fn states(&mut self) -> impl Iterator<Item = (usize, &FilterSlice, Load)> {
        let now = self.now;
        let slices = self.slices.iter_mut().zip(&self.loads).enumerate();
        slices.filter_map(move |(index, (slice, load))| {
            let slice = slice.as_mut()?;
            slice.advance(now);
            Some((index, &*slice, *load))
        })
    }

    /// How densely cells are set: estimated from a sample of the own slices' cells, now and then.
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

    /// Brings all slices to unit `unit`, if that is later: expired cells go.
    pub(crate) fn advance(&mut self, unit: UnitNumber) {
        self.now = self.now.max(unit);
        let now = self.now;
        self.slices.iter_mut().flatten().for_each(|slice| slice.advance(now));
    }

    /// Cells in use in generation `number`, the newest, where the kind counts them; a slice opens it when the first event
    /// is set there.
    pub(crate) fn used_cells(&self, number: GenerationNumber) -> u64 {
        let opened = self.slices.iter().flatten().filter(|slice| slice.newest_generation() == number);
        opened.map(FilterSlice::used_cells).sum()
    }

    /// The most generations that one of the slices has.
    pub(crate) fn generations(&self) -> usize {
        self.slices.iter().flatten().map(FilterSlice::generations).max().unwrap_or(0)
    }

    /// The number of the newest generation that one of the slices has opened.
    pub(crate) fn newest_generation(&self) -> GenerationNumber {
        self.slices.iter().flatten().map(FilterSlice::newest_generation).max().unwrap_or_default()
    }
}

impl TakesParts for OwnSlices {
    /// One that could not be built takes nothing.
    fn part_owner(&mut self, slice: u32) -> Option<&mut FilterSlice> {
        self.slices.get_mut(slice as usize)?.as_mut()
    }

    fn greatest_unit(&self, _present: &Present) -> UnitNumber {
        self.now_unit()
    }

    fn catch_up(&mut self, unit: UnitNumber) {
        self.advance(unit);
    }
}

impl InSlice {
    /// The positions of the slice that position `first` lies in; `None` where an earlier one lies there too.
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

/// Whether the slice has generation `number`, or could open it; no slice ever has more than a mask has bits.
fn open_up_to(slice: &mut FilterSlice, number: GenerationNumber, now: UnitNumber) -> bool {
    slice.advance(now);
    while slice.newest_generation() < number {
        if slice.generations() >= GENERATIONS_MAX as usize || slice.open_generation().is_err() {
            return false;
        }
    }
    // A generation that has emptied is gone: cells set in another one would not be judged together with those
    // elsewhere.
    slice.generation_geometry(number).is_some()
}
