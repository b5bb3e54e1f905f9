//! Handles the estimates of `estimate`: it counts them, tracks the keys with the greatest estimates, writes the
//! selected records, and writes a line for each estimate. Records are written unchanged, and estimates are written as
//! separate lines. Both appear in the order of the input.

use std::io::Write;
use std::ops::Range;

use firstseen_filter::Digest;
use firstseen_records::Records;
use serde::Serialize;

use super::args::EstimateFormat;
use super::frequencies::{Estimate, Frequencies};
use super::leaders::Leaders;
use super::report::{EstimateCounts, Estimated};
use crate::driver::{Chunk, Handler, Outputs};
use crate::input::Batch;
use crate::output::Output;
use crate::unjudged::counts::Place;

/// Counts estimates, and writes records and estimates.
pub(super) struct Estimates {
    pub(super) counts: EstimateCounts,
    pub(super) leaders: Leaders,
    /// Smallest estimate for which a record is written.
    pub(super) min_estimate: Option<f64>,
    pub(super) format: EstimateFormat,
    /// Byte that ends a record of text.
    pub(super) record_end: u8,
    pub(super) line: Vec<u8>,
}

/// A line of `--per-event-format json`.
#[derive(Serialize)]
struct EventLine {
    estimate: f64,
    key: Vec<String>,
}

impl<O: Output> Handler<O, Frequencies> for Estimates {
    fn look(&mut self, chunk: &Chunk<'_, O::Records, Option<Estimate>>, _: &Frequencies, _: &mut Outputs<O>) {
        for estimate in chunk.decisions.iter().flatten() {
            self.counts.events += 1;
            self.counts.late += u64::from(estimate.is_late);
        }
    }

    fn write(
        &mut self,
        chunk: &Chunk<'_, O::Records, Option<Estimate>>,
        events: Range<usize>,
        _: &mut Frequencies,
        outputs: &mut Outputs<O>,
    ) -> anyhow::Result<()> {
        let Batch { block, parsed, file, .. } = chunk.batch;
        for index in events {
            let span = parsed.spans()[index];
            let Some(Estimate { value, epoch, .. }) = chunk.decisions[index - chunk.start] else {
                // A record without an estimate is written among the selected records.
                let fate = outputs.unjudged.implausible(Place { file: *file, line: span.line }, &outputs.progress)?;
                outputs.of_unjudged(fate).map_or(Ok(()), |output| output.record(block, span))?;
                continue;
            };
            self.leaders.offer(parsed.digests()[index], value, epoch, || block.key_parts(parsed, index).join(" "));
            let [estimates, _] = &mut outputs.others;
            if estimates.is_kept() {
                self.write_estimate(chunk.batch, index, value, estimates)?;
            }
            if self.min_estimate.is_some_and(|least| value >= least) {
                self.counts.chosen += 1;
                outputs.passed.record(block, span)?;
            }
        }
        Ok(())
    }

    fn has_judged(&self) -> bool {
        self.counts.events > 0
    }

    fn summary(&self) -> String {
        format!("{} events", self.counts.events)
    }
}

impl Estimates {
    /// Writes the line of an estimate.
    fn write_estimate<O: Output>(
        &mut self,
        batch: &Batch<O::Records>,
        index: usize,
        estimate: f64,
        output: &mut O,
    ) -> anyhow::Result<()> {
        let Batch { block, parsed, .. } = batch;
        self.line.clear();
        match self.format {
            EstimateFormat::Text => {
                write!(self.line, "{estimate}\t")?;
                let record = &block.text()[parsed.spans()[index].range()];
                self.line.extend_from_slice(record);
                // A line with an estimate ends with a newline, even if records end with another byte.
                if self.record_end != b'\n' && record.last() == Some(&self.record_end) {
                    self.line.pop();
                }
            }
            EstimateFormat::Json => {
                serde_json::to_writer(&mut self.line, &EventLine { estimate, key: block.key_parts(parsed, index) })?;
            }
        }
        if self.line.last() != Some(&b'\n') {
            self.line.push(b'\n');
        }
        output.line(&self.line)
    }

    /// Returns the `top` keys by the present value of their occurrences.
    pub(super) fn top_keys(&self, frequencies: &Frequencies, top: usize) -> Vec<Estimated> {
        let Frequencies { filter, clock, .. } = frequencies;
        let candidates = self.leaders.candidates().map(|(digest, name): (Digest, &str)| Estimated {
            key: name.to_owned(),
            estimate: filter.estimate(digest, clock.now_unit()),
        });
        let mut keys: Vec<Estimated> = candidates.filter(|key| key.estimate > 0.0).collect();
        keys.sort_unstable_by(|a, b| b.estimate.total_cmp(&a.estimate).then_with(|| a.key.cmp(&b.key)));
        keys.truncate(top);
        keys
    }
}
