//! Tests whether a slice group contains an event whose positions are spread over several slices.
//!
//! A test looks at the slices one after the other, in the order of the event's hash functions, and does not change any
//! cells. A filter that grows has several generations of cells, and each of them may contain the event. The test
//! therefore keeps a separate result for each generation.
//!
//! An empty cell proves that a generation does not contain the event. The test therefore stops as soon as it has found
//! an empty cell in every generation.

use firstseen_filter::{Digest, FilterSlice, GenerationNumber, Stamp, TestResult, UnitNumber};

use super::ledger::Ledger;
use crate::plan::{Load, Route};

/// Routes of one event through the slices, and the lookup results so far. The buffer is reused for later events.
#[derive(Default)]
pub(crate) struct Itinerary {
    /// Generations that may contain the event, oldest first.
    candidates: Vec<Candidate>,
    /// Routes of the event. Generations of the same shape share a route.
    routes: Vec<Route>,
    expiries: Vec<UnitNumber>,
}

/// Generation that may contain the event.
struct Candidate {
    number: GenerationNumber,
    route: usize,
    sighting: TestResult,
}

/// Slices of a filter, and counters of the work that they have done.
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
            self.candidates.push(Candidate { number, route: routes - 1, sighting: TestResult::ALL });
        }
    }

    /// Returns whether the listed generations are still those of `ledger`.
    pub(crate) fn is_current(&self, ledger: &Ledger) -> bool {
        let first = self.candidates.first().map(|candidate| candidate.number);
        first == Some(ledger.oldest()) && self.candidates.len() == ledger.generations().len()
    }

    /// Prefetches all cells that the event may need.
    pub(crate) fn prefetch(&self, slices: &[FilterSlice]) {
        for candidate in &self.candidates {
            for step in self.routes[candidate.route].steps() {
                slices[step.slice as usize].prefetch(candidate.number, step.positions);
            }
        }
    }

    /// Tests the event in all listed generations, which are sets of cells that were opened one after another. Returns
    /// the oldest generation that contains the event, or `None` if no generation contains it.
    ///
    /// A generation contains the event if two conditions hold. First, no cell of the event is empty or has expired
    /// in that generation. Second, at least `equal_timers` of these cells expire in the same unit of the window,
    /// because the cells of one event are set together and therefore expire together.
    pub(crate) fn test(
        &mut self,
        cells: &mut Cells<'_>,
        stamp: Stamp,
        equal_timers: usize,
    ) -> Option<GenerationNumber> {
        // The positions of a word belong to the same slice in every generation, so steps with the same index form one
        // visit.
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

    /// Executes step `index` of the event's test, which reads the event's cells in one slice. The cells are read only
    /// in those generations in which the earlier steps found no empty cell, because an empty cell already proves that
    /// the generation does not contain the event. Returns `false` if the event has no such step, or if an empty cell
    /// was found in every generation.
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

    /// Returns the event's steps in generation `number`.
    pub(crate) fn route_in(&self, number: GenerationNumber) -> Option<&Route> {
        let candidate = self.candidates.iter().find(|candidate| candidate.number == number)?;
        self.routes.get(candidate.route)
    }
}

/// Lookup result for a slice that cannot be asked.
const NOTHING: TestResult = TestResult { generations: 0, expiry: UnitNumber::NEVER };

/// Returns the size of the largest group of the event's timers that show the same expiry (Koloniari et al. 2011,
/// section 4).
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
