//! Engine for slices that share events: the positions of one event are spread over several slices (Koloniari et al.
//! 2011, section 3.1, pipelined).
//!
//! If an event is new, this engine sets the event's cells in *all* of the event's slices, even in slices where the test
//! found these cells set. Such a cell was set for another event and may expire earlier, so setting it again extends its
//! life to that of the new event.
//!
//! The engine decides every event exactly as the same filter without slices would, with one exception.
//!
//! The exception is a timing filter that opens a new generation when a certain share of its cells is in use. In such a
//! filter, an expired cell counts as used until a periodic sweep has cleared it. If the cells are divided into slices,
//! the sweep clears them in a different order than in an undivided filter. The counts of used cells can therefore
//! differ for a while, and a new generation can open slightly earlier or later.

use std::io::{self, Read, Write};

use firstseen_filter::{Ability, FilterSlice, GenerationNumber, PREFETCH_EVENTS, Refresh, Stamp, UnitNumber};

use super::itinerary::{Cells, Itinerary};
use super::ledger::Ledger;
use super::placed_batch::PlacedBatch;
use crate::plan::{DefinitionError, SlicedDefinition};
use crate::verdict::Answer;

/// Groups of a filter whose slices share events.
pub(crate) struct Vertical {
    ledgers: Vec<Ledger>,
    slices_per_group: usize,
    refresh: Refresh,
    equal_timers: usize,
    /// Itineraries of the current event and of the events that follow.
    itineraries: [Itinerary; PREFETCH_EVENTS],
}

impl Vertical {
    /// Creates the groups for empty `slices`. Returns `None` if the definition does not divide the cells of an event.
    pub(crate) fn new(definition: &SlicedDefinition, slices: &[FilterSlice]) -> Result<Option<Self>, DefinitionError> {
        let slicing = definition.slicing;
        if !slicing.divides_cells() {
            return Ok(None);
        }
        let cells = &definition.group.cells;
        let refused = DefinitionError::Kind { kind: cells.kind(), slicing };
        if !cells.kind().can(Ability::Divide) {
            return Err(refused);
        }
        let growth = cells.growth().copied();
        let firsts = slices.iter().step_by(slicing.slices_per_group() as usize);
        let ledgers = firsts.map(|slice| Ledger::new(slicing, definition.group.rule, growth, slice));
        Ok(Some(Self {
            ledgers: ledgers.collect::<Option<_>>().ok_or(refused)?,
            slices_per_group: slicing.slices_per_group() as usize,
            refresh: cells.refresh(),
            equal_timers: cells.equal_timers() as usize,
            itineraries: Default::default(),
        }))
    }

    /// Tests every event that has a place in the window, one after the other. New events are recorded if the batch
    /// requests that.
    pub(crate) fn ask(&mut self, cells: &mut Cells<'_>, batch: &PlacedBatch<'_>, answers: &mut [Answer]) {
        for next in 0..batch.digests.len() + PREFETCH_EVENTS {
            if let Some(event) = next.checked_sub(PREFETCH_EVENTS)
                && answers[event].is_placed()
            {
                let group = batch.group(event);
                let has_room = self.make_room(cells, group, batch.stamps[event], batch.record);
                // A generation may have been opened or dropped since the event was routed.
                let itinerary = &mut self.itineraries[event % PREFETCH_EVENTS];
                if !itinerary.is_current(&self.ledgers[group]) {
                    itinerary.plan(&self.ledgers[group], batch.digests[event]);
                }
                answers[event] = self.decide(cells, event, group, batch, has_room);
            }
            if next < batch.digests.len() && answers[next].is_placed() {
                let itinerary = &mut self.itineraries[next % PREFETCH_EVENTS];
                itinerary.plan(&self.ledgers[batch.group(next)], batch.digests[next]);
                itinerary.prefetch(cells.slices);
            }
        }
    }

    fn make_room(&mut self, cells: &mut Cells<'_>, group: usize, stamp: Stamp, record: bool) -> bool {
        let start = group * self.slices_per_group;
        let own = &mut cells.slices[start..start + self.slices_per_group];
        self.ledgers[group].advance(stamp.unit, own);
        record && self.ledgers[group].make_room(own)
    }

    fn decide(
        &mut self,
        cells: &mut Cells<'_>,
        event: usize,
        group: usize,
        batch: &PlacedBatch<'_>,
        has_room: bool,
    ) -> Answer {
        let stamp = batch.stamps[event];
        let newest = self.ledgers[group].newest();
        let itinerary = &mut self.itineraries[event % PREFETCH_EVENTS];
        match itinerary.test(cells, stamp, self.equal_timers) {
            Some(number) => {
                if batch.record && self.refresh == Refresh::Refresh {
                    let number = if has_room { newest } else { number };
                    let newly_used = set(itinerary, cells, &self.ledgers[group], number, stamp);
                    self.ledgers[group].refresh(number, newly_used);
                }
                Answer::Duplicate
            }
            None if has_room => {
                let newly_used = set(itinerary, cells, &self.ledgers[group], newest, stamp);
                self.ledgers[group].record(newly_used);
                Answer::FirstSeen
            }
            None if batch.record => Answer::Undecided,
            None => Answer::FirstSeen,
        }
    }

    /// Moves all slices to the present unit.
    pub(crate) fn catch_up(&mut self, unit: UnitNumber, slices: &mut [FilterSlice]) {
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

    /// Returns the expected false-positive rate, as the mean over all slice groups.
    ///
    /// The rate of one group is `(mean r_s^(1/k))^k`, where `r_s` is the rate that slice s alone would have, k is the
    /// number of positions of an event, and the mean is taken over the slices of the group. The k-th root of `r_s` is
    /// the share of used cells in the slice, so the formula first averages the share of used cells in the group. The
    /// formula is exact if the group has one generation. With several generations, the result is too high by a relative
    /// error of at most `k^2 / 2u`, where u is the number of used cells in one slice and generation.
    pub(crate) fn expected_rate(&self, slices: &[FilterSlice]) -> f64 {
        let rates = slices.chunks(self.slices_per_group).map(|own| {
            let hashes = own.first().map_or(1.0, |slice| f64::from(slice.geometry().hashes()));
            let fills = own.iter().map(|slice| slice.expected_rate().powf(1.0 / hashes));
            (fills.sum::<f64>() / own.len() as f64).powf(hashes)
        });
        rates.sum::<f64>() / self.ledgers.len() as f64
    }

    pub(crate) fn write_body(&self, sink: &mut dyn Write) -> io::Result<()> {
        self.ledgers.iter().try_for_each(|ledger| ledger.write_body(sink))
    }

    pub(crate) fn read_body(&mut self, source: &mut dyn Read, slices: &mut [FilterSlice]) -> io::Result<()> {
        let groups = self.ledgers.iter_mut().zip(slices.chunks_mut(self.slices_per_group));
        groups.into_iter().try_for_each(|(ledger, own)| ledger.read_body(source, own))
    }
}

/// Sets all of the event's cells in generation `number`, and returns how many of them were empty, where that matters.
fn set(itinerary: &Itinerary, cells: &mut Cells<'_>, ledger: &Ledger, number: GenerationNumber, stamp: Stamp) -> u64 {
    let Some(route) = itinerary.route_in(number) else { return 0 };
    let counts_cells = ledger.limited_by_density();
    let mut newly_used = 0;
    for step in route.steps() {
        let slice = &mut cells.slices[step.slice as usize];
        let used = if counts_cells { slice.used_cells() } else { 0 };
        slice.set_generation(number, step.positions, stamp);
        newly_used += if counts_cells { slice.used_cells() - used } else { 0 };
        cells.loads[step.slice as usize].record_visits += 1;
    }
    newly_used
}
