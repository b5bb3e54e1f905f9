//! The way of one event through the slices of its group, over all generations that may hold it.
//!
//! Promises: a test visits slices in the order of the event's hash functions, sets nothing, and stops at the first
//! zero: the position after which no generation is left that may hold the event. Must not know: when generations open,
//! clocks.

use firstseen_filter::{Digest, FilterSlice, GenerationNumber, Sighting, Stamp, UnitNumber};

use super::ledger::Ledger;
use crate::plan::{Load, Route};

/// Routes of one event, and what has been sighted on the way; a buffer to be used again.
#[derive(Default)]
pub(crate) struct Itinerary {
    /// Oldest generation first.
    candidates: Vec<Candidate>,
    /// Generations of one shape share a route.
    routes: Vec<Route>,
    expiries: Vec<UnitNumber>,
}

/// A generation that may hold the event.
struct Candidate {
    number: GenerationNumber,
    route: usize,
    sighting: Sighting,
}

/// The slices of a filter, and what they have done.
pub(crate) struct Cells<'a> {
    pub(crate) slices: &'a mut [FilterSlice],
    pub(crate) loads: &'a mut [Load],
}

impl Itinerary {
    /// Lists the generations of `ledger`, each with its route.
    pub(crate) fn plan(&mut self, ledger: &Ledger, digest: Digest) {
        self.candidates.clear();
        let mut routes = 0;
        let mut routed = None;
        for (number, generation) in ledger.generations() {
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

    /// Whether the generations are still those of `ledger`.
    pub(crate) fn is_current(&self, ledger: &Ledger) -> bool {
        let first = self.candidates.first().map(|candidate| candidate.number);
        first == Some(ledger.oldest()) && self.candidates.len() == ledger.generations().len()
    }

    /// Asks memory for all cells that the event may need.
    pub(crate) fn prefetch(&self, slices: &[FilterSlice]) {
        for candidate in &self.candidates {
            for step in self.routes[candidate.route].steps() {
                slices[step.slice as usize].prefetch(candidate.number, step.positions);
            }
        }
    }

    /// The oldest generation that holds the event, if any does: with all of its cells alive, and `equal_timers` of them
    /// equal.
    pub(crate) fn test(
        &mut self,
        cells: &mut Cells<'_>,
        stamp: Stamp,
        equal_timers: usize,
    ) -> Option<GenerationNumber> {
        // Positions of a word fall into the same slice in every generation, so steps of one index are one visit.
        let mut index = 0;
        while self.visit(index, cells, stamp) {
            index += 1;
        }
        let hits = self.candidates.iter().filter(|candidate| candidate.sighting.is_hit());
        let expiries = &mut self.expiries;
        let mut equal = hits.filter(|hit| {
            let route = &self.routes[hit.route];
            equal_timers <= 1 || largest_group(cells.slices, route, hit.number, stamp, expiries) >= equal_timers
        });
        equal.next().map(|candidate| candidate.number)
    }

    /// Tests at step `index`; `false` where there is no such step, or no generation left that may hold the event.
    fn visit(&mut self, index: usize, cells: &mut Cells<'_>, stamp: Stamp) -> bool {
        let mut visited = None;
        let mut tested = 0;
        for candidate in self.candidates.iter_mut().filter(|candidate| candidate.sighting.is_hit()) {
            if let Some(step) = self.routes[candidate.route].step(index) {
                let slice = &cells.slices[step.slice as usize];
                let sighting = slice.test_generation(candidate.number, step.positions, stamp);
                candidate.sighting = candidate.sighting.and(sighting.unwrap_or(NOTHING));
                visited = Some(step.slice);
                tested = step.positions.len().max(tested);
            }
        }
        if let Some(slice) = visited {
            let load = &mut cells.loads[slice as usize];
            load.test_visits += 1;
            load.positions_tested += tested as u64;
        }
        visited.is_some()
    }

    /// The event's steps in generation `number`.
    pub(crate) fn route_in(&self, number: GenerationNumber) -> Option<&Route> {
        let candidate = self.candidates.iter().find(|candidate| candidate.number == number)?;
        self.routes.get(candidate.route)
    }
}

/// The answer of a slice that cannot be asked.
const NOTHING: Sighting = Sighting { generations: 0, expiry: UnitNumber::NEVER };

/// How many of the event's timers show the same expiry, at best (Koloniari 2011, section 4).
fn largest_group(
    slices: &[FilterSlice],
    route: &Route,
    number: GenerationNumber,
    stamp: Stamp,
    expiries: &mut Vec<UnitNumber>,
) -> usize {
    expiries.clear();
    for step in route.steps() {
        slices[step.slice as usize].push_expiries(number, step.positions, stamp, expiries);
    }
    expiries.sort_unstable();
    expiries.chunk_by(|first, second| first == second).map(<[UnitNumber]>::len).max().unwrap_or(0)
}
