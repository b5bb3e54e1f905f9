//! A batch through the decaying filter: its estimates, their counts, and what is written.
//!
//! Guarantees: estimates are returned in the order of the records, and each includes the record itself. Records that
//! cannot be judged keep their place among the chosen ones. It does not know files or threads.

use std::ops::Range;

use firstseen_filter::{Digest, Placed, Stamp};
use firstseen_records::Rejection;

use super::exact::ExactFrequencies;
use super::leaders::Leaders;
use super::outputs::Outputs;
use super::report::{EstimateCounts, Estimated};
use super::setup::Clocked;
use crate::input::left_out::LeftOut;
use crate::input::{Batch, present_ms};
use crate::terminal::progress::Progress;
use crate::unjudged::counts::{Place, Unjudged};

/// Events that are estimated before they are written: their estimates stay in the first cache.
const CHUNK_EVENTS: usize = 4096;

/// The filter with everything that checks it.
pub(super) struct Engine {
    pub(super) clocked: Clocked,
    pub(super) leaders: Leaders,
    pub(super) exact: Option<ExactFrequencies>,
    pub(super) unjudged: Unjudged,
    pub(super) counts: EstimateCounts,
    pub(super) left_out: LeftOut,
    pub(super) lookup: bool,
    pub(super) chunk: Chunk,
    /// The times of the batch, and of the records that come next.
    pub(super) times_ms: Vec<u64>,
}

/// The events of a chunk that have a place in time, column by column.
#[derive(Default)]
pub(super) struct Chunk {
    /// The indices of these events in the batch.
    indices: Vec<usize>,
    digests: Vec<Digest>,
    stamps: Vec<Stamp>,
    estimates: Vec<f64>,
    /// The indices of the events of the chunk that have no place in time.
    doubted: Vec<usize>,
}

impl Chunk {
    fn clear(&mut self) {
        self.indices.clear();
        self.digests.clear();
        self.stamps.clear();
        self.estimates.clear();
        self.doubted.clear();
    }
}

impl Engine {
    /// Estimates every record of `batch` and writes what was asked for.
    pub(super) fn handle(
        &mut self,
        batch: &Batch,
        ahead_ms: &[u64],
        outputs: &mut Outputs,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let handled = self.handle_records(batch, ahead_ms, outputs, progress);
        // Where the run ends within the batch, the records before its end are written.
        outputs.end_block(batch.block.bytes()).and(handled)
    }

    fn handle_records(
        &mut self,
        batch: &Batch,
        ahead_ms: &[u64],
        outputs: &mut Outputs,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        if batch.parsed.is_rest() {
            return outputs.continue_unjudged(self.unjudged.last_fate(), batch.block.bytes());
        }
        let unjudged = &self.unjudged;
        self.left_out.count(batch, |line| unjudged.place(Place { file: batch.file, line }), progress);
        outputs.header(batch)?;
        // A record that arrives now is not late, even where the clock of this machine was set back.
        let shown_ms = batch.arrived_ms.and_then(|_| self.clocked.clock.now_ms());
        self.times_ms.clear();
        self.times_ms.extend((0..batch.parsed.len()).filter_map(|event| batch.time_ms(event).max(shown_ms)));
        self.times_ms.extend_from_slice(ahead_ms);
        self.clocked.clock.show_present_ms(present_ms());
        let mut rejections = batch.parsed.rejections();
        for start in (0..batch.parsed.len()).step_by(CHUNK_EVENTS) {
            self.place(batch, start..batch.parsed.len().min(start + CHUNK_EVENTS));
            self.estimate();
            rejections = self.write(batch, rejections, outputs, progress)?;
        }
        self.write_unread(batch, rejections, u32::MAX, outputs, progress).map(drop)
    }

    /// Finds the epoch of each event; events without one are not estimated.
    fn place(&mut self, batch: &Batch, events: Range<usize>) {
        self.chunk.clear();
        for index in events {
            let (clock, times_ms) = (&mut self.clocked.clock, &self.times_ms);
            let placed = if self.lookup {
                clock.place_lookup(times_ms.get(index).copied())
            } else {
                clock.place_nth(times_ms, index)
            };
            match placed {
                Placed::At(stamp) => {
                    self.counts.late += u64::from(stamp.unit < stamp.judged);
                    self.chunk.indices.push(index);
                    self.chunk.digests.push(batch.parsed.digests()[index]);
                    self.chunk.stamps.push(stamp);
                }
                Placed::Late | Placed::Refused => self.chunk.doubted.push(index),
            }
        }
    }

    fn estimate(&mut self) {
        let Self { clocked: Clocked { filter, .. }, chunk, exact, .. } = self;
        let Chunk { digests, stamps, estimates, .. } = chunk;
        estimates.resize(digests.len(), 0.0);
        if self.lookup {
            // What a record counts now, also one that comes late.
            stamps.iter_mut().for_each(|stamp| *stamp = Stamp::on_time(stamp.judged));
            filter.estimate_batch(digests, stamps, estimates);
        } else if let Some(exact) = exact {
            // One at a time: the estimate before an event needs all events before it.
            for (index, (digest, stamp)) in digests.iter().zip(&*stamps).enumerate() {
                exact.asked(*digest, filter.estimate(*digest, stamp.judged));
                exact.count(*digest, *stamp);
                filter.observe_batch(&[*digest], &[*stamp], &mut estimates[index..=index]);
                exact.compare(*digest, stamp.judged, estimates[index]);
            }
        } else {
            filter.observe_batch(digests, stamps, estimates);
        }
    }

    /// Writes the events of the chunk, and what cannot be judged between them; returns the rejections behind the chunk.
    fn write<'a>(
        &mut self,
        batch: &Batch,
        mut rejections: &'a [Rejection],
        outputs: &mut Outputs,
        progress: &Progress,
    ) -> anyhow::Result<&'a [Rejection]> {
        let spans = batch.parsed.spans();
        let Chunk { indices, digests, stamps, estimates, doubted } = std::mem::take(&mut self.chunk);
        self.counts.events += indices.len() as u64;
        let mut rest_doubted = doubted.as_slice();
        for (place, index) in indices.iter().enumerate() {
            if !rest_doubted.is_empty() || !rejections.is_empty() {
                let before = spans[*index].start;
                (rest_doubted, rejections) =
                    self.write_unjudged(batch, rest_doubted, rejections, before, outputs, progress)?;
            }
            let (digest, estimate) = (digests[place], estimates[place]);
            let name = || batch.parsed.key_parts(*index, &batch.block).join(" ");
            self.leaders.offer(digest, estimate, stamps[place].judged, name);
            self.counts.chosen += u64::from(outputs.estimated(batch, *index, estimate)?);
        }
        let behind = doubted.last().map_or(0, |index| spans[*index].end);
        (_, rejections) = self.write_unjudged(batch, rest_doubted, rejections, behind, outputs, progress)?;
        self.chunk = Chunk { indices, digests, stamps, estimates, doubted };
        Ok(rejections)
    }

    /// Counts and writes what cannot be judged and begins before `place` in the block, in the order of the input: events
    /// whose times are doubted, and rejections. Returns the others.
    fn write_unjudged<'a, 'b>(
        &mut self,
        batch: &Batch,
        mut doubted: &'a [usize],
        mut rejections: &'b [Rejection],
        place: u32,
        outputs: &mut Outputs,
        progress: &Progress,
    ) -> anyhow::Result<(&'a [usize], &'b [Rejection])> {
        let Batch { block, parsed, file, .. } = batch;
        while let [index, others @ ..] = doubted
            && let span = parsed.spans()[*index]
            && span.start < place
        {
            rejections = self.write_unread(batch, rejections, span.start, outputs, progress)?;
            let fate = self.unjudged.doubted(Place { file: *file, line: span.line }, progress)?;
            outputs.unjudged(fate, block.bytes(), span)?;
            doubted = others;
        }
        rejections = self.write_unread(batch, rejections, place, outputs, progress)?;
        Ok((doubted, rejections))
    }

    /// Counts and writes the rejections that begin before `place` in the block, and returns the others.
    fn write_unread<'a>(
        &mut self,
        batch: &Batch,
        rejections: &'a [Rejection],
        place: u32,
        outputs: &mut Outputs,
        progress: &Progress,
    ) -> anyhow::Result<&'a [Rejection]> {
        let mut rest = rejections;
        while let [Rejection { span, reason }, others @ ..] = rest
            && span.start < place
        {
            let fate = self.unjudged.unread(reason, Place { file: batch.file, line: span.line }, progress)?;
            outputs.unjudged(fate, batch.block.bytes(), *span)?;
            rest = others;
        }
        Ok(rest)
    }

    /// The `top` keys by what their occurrences count now.
    pub(super) fn top_keys(&self, top: usize) -> Vec<Estimated> {
        let Clocked { filter, clock, .. } = &self.clocked;
        let estimated = |(digest, name): (Digest, &str)| Estimated {
            key: name.to_owned(),
            estimate: filter.estimate(digest, clock.now_unit()),
        };
        let mut keys: Vec<Estimated> = self.leaders.candidates().map(estimated).collect();
        keys.retain(|key| key.estimate > 0.0);
        keys.sort_unstable_by(|a, b| b.estimate.total_cmp(&a.estimate).then_with(|| a.key.cmp(&b.key)));
        keys.truncate(top);
        keys
    }
}
