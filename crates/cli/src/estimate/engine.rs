//! A batch through the decaying filter: its estimates, their counts, and what is written.
//!
//! Promises: estimates come in the order of the records, and include the record itself. Must not know: files, threads.

use std::ops::Range;

use firstseen_filter::{Digest, Placed, Stamp};

use super::exact::ExactFrequencies;
use super::leaders::Leaders;
use super::outputs::Outputs;
use super::report::{EstimateCounts, Estimated};
use super::setup::Clocked;
use crate::input::{Batch, present_ms};
use crate::output::rejects::Rejects;
use crate::terminal::progress::Progress;

/// Events that are estimated before they are written: their estimates stay in the first cache.
const CHUNK_EVENTS: usize = 4096;

/// The filter with everything that checks it.
pub(super) struct Engine {
    pub(super) clocked: Clocked,
    pub(super) leaders: Leaders,
    pub(super) exact: Option<ExactFrequencies>,
    pub(super) rejects: Rejects,
    pub(super) counts: EstimateCounts,
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
}

impl Chunk {
    fn clear(&mut self) {
        self.indices.clear();
        self.digests.clear();
        self.stamps.clear();
        self.estimates.clear();
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
        let bytes = batch.block.bytes();
        outputs.header(batch)?;
        // A record that arrives now is not late, even where the clock of this machine was set back.
        let shown_ms = batch.arrived_ms.and_then(|_| self.clocked.clock.now_ms());
        self.times_ms.clear();
        self.times_ms.extend((0..batch.parsed.len()).filter_map(|event| batch.time_ms(event).max(shown_ms)));
        self.times_ms.extend_from_slice(ahead_ms);
        self.clocked.clock.show_present_ms(present_ms());
        for start in (0..batch.parsed.len()).step_by(CHUNK_EVENTS) {
            self.place(batch, start..batch.parsed.len().min(start + CHUNK_EVENTS), outputs, progress)?;
            self.estimate();
            self.write(batch, outputs)?;
        }
        for rejection in batch.parsed.rejections() {
            self.rejects.add(batch.file, rejection.span.line, &rejection.reason, progress);
            outputs.rejected.record(bytes, rejection.span.range())?;
        }
        outputs.end_block(bytes)
    }

    /// Finds the epoch of each event; events without one are rejected.
    fn place(
        &mut self,
        batch: &Batch,
        events: Range<usize>,
        outputs: &mut Outputs,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let Batch { block, parsed, file, .. } = batch;
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
                    self.chunk.digests.push(parsed.digests()[index]);
                    self.chunk.stamps.push(stamp);
                }
                Placed::Late | Placed::Refused => {
                    let span = parsed.spans()[index];
                    let reason = "its time is more than --future-max ahead of the others, which do not bear it out";
                    self.rejects.add(*file, span.line, reason, progress);
                    outputs.rejected.record(block.bytes(), span.range())?;
                }
            }
        }
        Ok(())
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

    fn write(&mut self, batch: &Batch, outputs: &mut Outputs) -> anyhow::Result<()> {
        let Chunk { indices, digests, stamps, estimates } = &self.chunk;
        self.counts.events += indices.len() as u64;
        for (place, index) in indices.iter().enumerate() {
            let (digest, estimate) = (digests[place], estimates[place]);
            let name = || batch.parsed.key_parts(*index, &batch.block).join(" ");
            self.leaders.offer(digest, estimate, stamps[place].judged, name);
            self.counts.chosen += u64::from(outputs.estimated(batch, *index, estimate)?);
        }
        Ok(())
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

    /// Whether there was no record yet, not even a rejected one.
    pub(super) fn has_seen_nothing(&self) -> bool {
        self.counts.events + self.rejects.count() == 0
    }
}
