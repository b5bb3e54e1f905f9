//! Slices that share events: the positions of one event lie in several of them (K11 3.1, pipelined).
//!
//! A test visits slices in the order of the event's hash functions and stops at the first where no generation is left
//! that may hold the event: the first zero. It sets nothing. An event that is not there then sets its cells in *all* its
//! slices, also those that the test has passed: a cell that was found alive may expire sooner than the event.
//!
//! Promises: decides event by event as the classic filter that was cut. (Where density limits timers, when a generation
//! opens depends on which expired timers were swept already, and that on the cut.) Must not know: clocks.

use std::io::{self, Read, Write};

use firstseen_filter::{CellDefinition, Digest, FilterSlice, Refresh, Sighting, Stamp};

use crate::ledger::Ledger;
use crate::{Answer, Load, Route, SlicedDefinition};

/// The groups of a filter whose slices share events.
pub(crate) struct Vertical {
    ledgers: Vec<Ledger>,
    slices_per_group: usize,
    refresh: Refresh,
    equal_timers: usize,
    /// Of the event at hand; kept to avoid allocations.
    candidates: Vec<Candidate>,
    routes: Vec<Route>,
    expiries: Vec<u64>,
}

/// A generation that may hold the event at hand.
struct Candidate {
    number: u64,
    route: usize,
    sighting: Sighting,
}

/// The slices of a filter, and what they have done.
pub(crate) struct Cells<'a> {
    pub(crate) slices: &'a mut [FilterSlice],
    pub(crate) loads: &'a mut [Load],
}

impl Vertical {
    /// The groups of empty `slices`; `None` where the definition does not divide cells.
    pub(crate) fn new(definition: &SlicedDefinition, slices: &[FilterSlice]) -> Option<Self> {
        let slicing = definition.slicing;
        let (growth, refresh, equal_timers) = match definition.group.cells {
            CellDefinition::Timing { growth, refresh, equal_timers, .. } => (growth, refresh, equal_timers),
            CellDefinition::Bloom { growth, .. } | CellDefinition::Generations { growth, .. } => {
                (growth, Refresh::Fixed, 0)
            }
            _ => return None,
        };
        let slice = slices.first()?;
        let ledger = || Ledger::new(slicing, definition.group.rule, growth, slice);
        let ledgers = (0..slicing.groups()).map(|_| ledger()).collect::<Option<_>>();
        Some(Self {
            ledgers: if slicing.divides_cells() { ledgers? } else { return None },
            slices_per_group: slicing.slices_per_group() as usize,
            refresh,
            equal_timers: equal_timers as usize,
            candidates: Vec::new(),
            routes: Vec::new(),
            expiries: Vec::new(),
        })
    }

    /// Asks about one event of `group`, and records it if it is not there and `record` says so.
    pub(crate) fn ask(
        &mut self,
        cells: &mut Cells<'_>,
        group: usize,
        digest: Digest,
        stamp: Stamp,
        record: bool,
    ) -> Answer {
        let start = group * self.slices_per_group;
        let own = &mut cells.slices[start..start + self.slices_per_group];
        self.ledgers[group].advance(stamp.unit, own);
        let has_room = record && self.ledgers[group].make_room(own);
        self.route(group, digest);
        let newest = self.ledgers[group].newest();
        let held_by = self.test(cells, stamp);
        match held_by {
            Some(number) => {
                if record && self.refresh == Refresh::Refresh {
                    let number = if has_room { newest } else { number };
                    let newly_used = self.set(cells, group, number, stamp);
                    self.ledgers[group].refresh(number, newly_used);
                }
                Answer::Duplicate
            }
            None if has_room => {
                let newly_used = self.set(cells, group, newest, stamp);
                self.ledgers[group].record(newly_used);
                Answer::FirstSeen
            }
            None if record => Answer::Undecided,
            None => Answer::FirstSeen,
        }
    }

    /// Lists the generations that may hold the event, each with its route; generations of one shape share one.
    fn route(&mut self, group: usize, digest: Digest) {
        self.candidates.clear();
        let mut routes = 0;
        let mut routed = None;
        for (number, generation) in self.ledgers[group].generations() {
            if routed != Some(&generation.plan) {
                routed = Some(&generation.plan);
                if self.routes.len() == routes {
                    self.routes.push(Route::default());
                }
                generation.plan.route(digest, &mut self.routes[routes]);
                routes += 1;
            }
            self.candidates.push(Candidate { number, route: routes - 1, sighting: Sighting::ALL });
        }
    }

    /// The oldest generation that holds the event, if any does.
    fn test(&mut self, cells: &mut Cells<'_>, stamp: Stamp) -> Option<u64> {
        // Positions of a word fall into the same slice in every generation, so steps of one index are one visit.
        for index in 0.. {
            let (mut visited, mut tested, mut is_possible) = (None, 0, false);
            for candidate in self.candidates.iter_mut().filter(|candidate| candidate.sighting.is_hit()) {
                if let Some(step) = self.routes[candidate.route].step(index) {
                    let slice = &cells.slices[step.slice as usize];
                    let sighting = slice.test_generation(candidate.number, step.positions, stamp);
                    candidate.sighting = candidate.sighting.and(sighting.unwrap_or(NOTHING));
                    (visited, tested) = (Some(step.slice), step.positions.len().max(tested));
                }
                is_possible |= candidate.sighting.is_hit();
            }
            if let Some(slice) = visited {
                let load = &mut cells.loads[slice as usize];
                load.test_visits += 1;
                load.positions_tested += tested as u64;
            }
            if !is_possible {
                return None;
            }
            if visited.is_none() {
                break;
            }
        }
        let hits = self.candidates.iter().filter(|candidate| candidate.sighting.is_hit());
        let expiries = &mut self.expiries;
        let mut equal = hits.filter(|hit| {
            let route = &self.routes[hit.route];
            self.equal_timers <= 1 || equal_timers(cells.slices, route, hit.number, stamp, expiries) >= self.equal_timers
        });
        equal.next().map(|candidate| candidate.number)
    }

    /// Sets all of the event's cells in generation `number` and tells how many of them were empty, where that matters.
    fn set(&mut self, cells: &mut Cells<'_>, group: usize, number: u64, stamp: Stamp) -> u64 {
        let ledger = &self.ledgers[group];
        let Some(candidate) = self.candidates.iter().find(|candidate| candidate.number == number) else { return 0 };
        let mut newly_used = 0;
        for step in self.routes[candidate.route].steps() {
            let slice = &mut cells.slices[step.slice as usize];
            slice.advance(ledger.now());
            let used = slice.used_cells();
            slice.set_generation(number, step.positions, stamp);
            newly_used += slice.used_cells() - used;
            cells.loads[step.slice as usize].record_visits += 1;
        }
        newly_used
    }

    /// Brings all slices to the present.
    pub(crate) fn catch_up(&mut self, unit: u64, slices: &mut [FilterSlice]) {
        for (ledger, own) in self.ledgers.iter_mut().zip(slices.chunks_mut(self.slices_per_group)) {
            ledger.advance(unit, own);
        }
    }

    pub(crate) fn live_events(&self) -> u64 {
        self.ledgers.iter().map(Ledger::live_events).sum()
    }

    pub(crate) fn generations(&self) -> usize {
        self.ledgers.iter().map(|ledger| ledger.generations().len()).max().unwrap_or(0)
    }

    /// The mean over groups of the rate of all their cells together: with a rate of `r_s` each, from its own fill to the
    /// k-th power, S slices have `(mean r_s^(1/k))^k`. (Exact for one generation of cells. Several have more, and the
    /// slices of one filter differ too little for that to matter.)
    pub(crate) fn expected_rate(&self, slices: &[FilterSlice]) -> f64 {
        let group_rate = |own: &[FilterSlice]| {
            let hashes = own.first().map_or(1.0, |slice| f64::from(slice.geometry().hashes()));
            let fills = own.iter().map(|slice| slice.expected_rate().powf(1.0 / hashes));
            (fills.sum::<f64>() / own.len() as f64).powf(hashes)
        };
        slices.chunks(self.slices_per_group).map(group_rate).sum::<f64>() / self.ledgers.len() as f64
    }

    pub(crate) fn write_body(&self, sink: &mut dyn Write) -> io::Result<()> {
        self.ledgers.iter().try_for_each(|ledger| ledger.write_body(sink))
    }

    pub(crate) fn read_body(&mut self, source: &mut dyn Read, slices: &mut [FilterSlice]) -> io::Result<()> {
        let groups = self.ledgers.iter_mut().zip(slices.chunks_mut(self.slices_per_group));
        groups.into_iter().try_for_each(|(ledger, own)| ledger.read_body(source, own))
    }
}

/// What a slice says that cannot be asked.
const NOTHING: Sighting = Sighting { generations: 0, expiry: u64::MAX };

/// How many of the event's timers show the same expiry, at best (K11 4).
fn equal_timers(slices: &[FilterSlice], route: &Route, number: u64, stamp: Stamp, expiries: &mut Vec<u64>) -> usize {
    expiries.clear();
    for step in route.steps() {
        slices[step.slice as usize].push_expiries(number, step.positions, stamp, expiries);
    }
    expiries.sort_unstable();
    expiries.chunk_by(|first, second| first == second).map(<[u64]>::len).max().unwrap_or(0)
}
