//! Slices that share no event: a batch is divided over them, and the answers are put back in order.
//!
//! Promises: each slice gets its events in the order of the batch, as if they came one by one; nothing is copied
//! where there is one slice. Must not know: clocks, which slice an event belongs to.

use firstseen_filter::{Digest, FilterSlice, Stamp, Verdict};

use super::placed_batch::PlacedBatch;
use crate::verdict::Answer;

/// The events of a batch, slice by slice; kept to avoid allocations.
#[derive(Default)]
pub(crate) struct Gather {
    starts: Vec<usize>,
    digests: Vec<Digest>,
    stamps: Vec<Stamp>,
    verdicts: Vec<Verdict>,
    origins: Vec<usize>,
}

impl Gather {
    /// Asks the slices, and writes an answer for every event that was placed.
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

    /// Sorts the placed events by slice, keeping their order within each.
    fn divide(&mut self, slices: usize, batch: &PlacedBatch<'_>, answers: &[Answer]) {
        let placed = (0..batch.digests.len()).filter(|event| answers[*event].is_placed());
        // One place further on than the slice, so that filling turns the start of a slice into that of the next.
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
