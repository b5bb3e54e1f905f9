//! Engine for filters in which each event belongs to exactly one slice. It divides a batch over the slices, and returns
//! the answers in the order of the batch. Each slice processes its events in that order too. The answers are therefore
//! the same as if the events of the batch were processed one after the other.
//!
//! If the filter has only one slice, and all events of a batch have a place in the window, the slice processes the
//! batch without copying it.

use firstseen_filter::{Digest, FilterSlice, Stamp, Verdict};

use super::placed_batch::PlacedBatch;
use crate::verdict::Answer;

/// Events of a batch, sorted by slice. The buffers are reused to avoid allocations.
#[derive(Default)]
pub(crate) struct Gather {
    starts: Vec<usize>,
    digests: Vec<Digest>,
    stamps: Vec<Stamp>,
    verdicts: Vec<Verdict>,
    origins: Vec<usize>,
}

impl Gather {
    /// Looks up or records the events in the slices, and writes an answer for every event that has a place in the
    /// window.
    pub(crate) fn ask(&mut self, slices: &mut [FilterSlice], batch: &PlacedBatch<'_>, answers: &mut [Answer]) {
        if let ([slice], true) = (&mut *slices, batch.all_placed) {
            self.verdicts.resize(batch.digests.len(), Verdict::Undecided);
            ask(slice, batch.digests, batch.stamps, &mut self.verdicts, batch.record);
            for (answer, verdict) in answers.iter_mut().zip(&self.verdicts) {
                *answer = (*verdict).into();
            }
            return;
        }
        self.divide(slices.len(), batch, answers);
        for (slice, bounds) in slices.iter_mut().zip(self.starts.windows(2)) {
            let events = bounds[0]..bounds[1];
            if !events.is_empty() {
                let verdicts = &mut self.verdicts[events.clone()];
                ask(slice, &self.digests[events.clone()], &self.stamps[events], verdicts, batch.record);
            }
        }
        for (origin, verdict) in self.origins.iter().zip(&self.verdicts) {
            answers[*origin] = (*verdict).into();
        }
    }

    /// Sorts the placed events by slice. Events of the same slice keep their order.
    fn divide(&mut self, slices: usize, batch: &PlacedBatch<'_>, answers: &[Answer]) {
        let placed = (0..batch.digests.len()).filter(|event| answers[*event].is_placed());
        // The number of events of each slice is stored two places further on in the list. A running sum then gives the
        // start of each slice, one place further on. While events are filled in, each start moves to the start of the
        // next slice.
        self.starts.clear();
        self.starts.resize(slices + 2, 0);
        placed.clone().for_each(|event| self.starts[batch.group(event) + 2] += 1);
        (2..slices + 2).for_each(|slice| self.starts[slice] += self.starts[slice - 1]);
        let events = self.starts[slices + 1];
        self.digests.resize(events, Digest::default());
        self.stamps.resize(events, Stamp::default());
        self.verdicts.resize(events, Verdict::Undecided);
        self.origins.resize(events, 0);
        for event in placed {
            let next = &mut self.starts[batch.group(event) + 1];
            self.digests[*next] = batch.digests[event];
            self.stamps[*next] = batch.stamps[event];
            self.origins[*next] = event;
            *next += 1;
        }
    }
}

fn ask(slice: &mut FilterSlice, digests: &[Digest], stamps: &[Stamp], verdicts: &mut [Verdict], record: bool) {
    if record {
        slice.observe_batch(digests, stamps, verdicts);
    } else {
        slice.lookup_batch(digests, stamps, verdicts);
    }
}
