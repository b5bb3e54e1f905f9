//! The outputs of `estimate`: chosen records, estimates, rejected records.
//!
//! Promises: chosen and rejected records are unchanged, and every estimate is a line of its own, all in the order of
//! the input. Must not know: how estimates are computed.

use std::io::Write;

use serde::Serialize;

use super::args::{EstimateArgs, EstimateFormat, EstimateOutputArgs};
use crate::input::{Batch, is_stdin};
use crate::output::Output;

impl EstimateOutputArgs {
    /// Whether estimates go to standard output.
    pub(super) fn writes_events_to_stdout(&self) -> bool {
        self.per_event.as_deref().is_some_and(is_stdin)
    }

    /// Whether chosen records go to standard output.
    pub(super) fn writes_records_to_stdout(&self) -> bool {
        self.min_estimate.is_some() && self.out.is_none()
    }
}

/// Where records and estimates go.
pub(super) struct Outputs {
    min_estimate: Option<f64>,
    chosen: Output,
    events: Output,
    format: EstimateFormat,
    pub(super) rejected: Output,
    line: Vec<u8>,
}

/// A line of `--per-event-format json`.
#[derive(Serialize)]
struct EventLine {
    estimate: f64,
    key: Vec<String>,
}

impl Outputs {
    /// Opens all files.
    pub(super) fn open(EstimateArgs { input, output, run, .. }: &EstimateArgs) -> anyhow::Result<Self> {
        let files = output.per_event.as_deref().filter(|path| !is_stdin(path));
        let earlier = run.earlier(&[&output.out, &output.per_event, &run.rejected], input.quotes());
        let apart = earlier.without_quotes();
        Ok(Self {
            min_estimate: output.min_estimate,
            chosen: if output.writes_records_to_stdout() {
                Output::stdout(earlier)?
            } else {
                Output::optional(output.out.as_deref(), earlier)?
            },
            events: if output.writes_events_to_stdout() {
                Output::stdout(apart)?
            } else {
                Output::optional(files, apart)?
            },
            format: output.per_event_format,
            rejected: Output::optional(run.rejected.as_deref(), apart)?,
            line: Vec::new(),
        })
    }

    /// Checks, before any record of `batch` is counted, that output files of earlier runs begin with its header.
    pub(super) fn check_header(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let Some(header) = batch.new_header() else { return Ok(()) };
        [&mut self.chosen, &mut self.rejected].into_iter().try_for_each(|output| output.check_header(header))
    }

    /// Passes the header of `batch` on, if it has one that was not passed on yet.
    pub(super) fn header(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let Some(header) = batch.parsed.header().filter(|header| !header.is_repeated) else { return Ok(()) };
        let bytes = batch.block.bytes();
        self.chosen.header(bytes, header.span.range())?;
        self.rejected.header(bytes, header.span.range())
    }

    /// Writes event `index` of `batch` to its outputs, and returns whether it was chosen.
    #[inline]
    pub(super) fn estimated(&mut self, batch: &Batch, index: usize, estimate: f64) -> anyhow::Result<bool> {
        if self.events.is_kept() {
            self.event(batch, index, estimate)?;
        }
        let chosen = self.min_estimate.is_some_and(|least| estimate >= least);
        if chosen {
            self.chosen.record(batch.block.bytes(), batch.parsed.spans()[index].range())?;
        }
        Ok(chosen)
    }

    fn event(&mut self, Batch { block, parsed, .. }: &Batch, index: usize, estimate: f64) -> anyhow::Result<()> {
        self.line.clear();
        match self.format {
            EstimateFormat::Text => {
                write!(self.line, "{estimate}\t")?;
                self.line.extend_from_slice(&block.bytes()[parsed.spans()[index].range()]);
            }
            EstimateFormat::Json => {
                serde_json::to_writer(&mut self.line, &EventLine { estimate, key: parsed.key_parts(index, block) })?;
            }
        }
        if self.line.last() != Some(&b'\n') {
            self.line.push(b'\n');
        }
        self.events.write(&self.line)
    }

    /// Writes the rest of `block`.
    pub(super) fn end_block(&mut self, block: &[u8]) -> anyhow::Result<()> {
        self.chosen.end_block(block)?;
        self.rejected.end_block(block)
    }

    /// Replaces older outputs, or continues them.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        [&mut self.chosen, &mut self.events, &mut self.rejected].into_iter().try_for_each(Output::begin)
    }

    /// Hands everything written so far to the system.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        [&mut self.chosen, &mut self.events, &mut self.rejected].into_iter().try_for_each(Output::flush)
    }

    /// The same as [`Self::flush`], and output that goes to files outlives a power cut.
    pub(super) fn sync(&mut self) -> anyhow::Result<()> {
        [&mut self.chosen, &mut self.events, &mut self.rejected].into_iter().try_for_each(Output::sync)
    }
}
