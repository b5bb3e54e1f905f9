//! The outputs of `estimate`: chosen records, estimates, rejected records.
//!
//! Promises: chosen and rejected records are unchanged, and every estimate is a line of its own, all in the order of
//! the input. Must not know: how estimates are computed.

use std::io::Write;

use firstseen_records::RecordSpan;
use serde::Serialize;

use super::args::{EstimateArgs, EstimateFormat, EstimateOutputArgs};
use crate::input::{Batch, is_stdin};
use crate::output::Output;
use crate::unjudged::Fate;
use crate::unjudged::gate::Turn;

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
        let record_end = input.record_end()?;
        Ok(Self {
            min_estimate: output.min_estimate,
            chosen: if output.writes_records_to_stdout() {
                Output::stdout(earlier)?
            } else {
                Output::optional(output.out.as_deref(), earlier)?
            }
            .with_record_end(record_end),
            events: if output.writes_events_to_stdout() {
                Output::stdout(apart)?
            } else {
                Output::optional(files, apart)?
            },
            format: output.per_event_format,
            rejected: Output::optional(run.rejected.as_deref(), apart)?.with_record_end(record_end),
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

    /// Writes a record that cannot be judged to its output: it has no estimate, and stays among the chosen ones.
    pub(super) fn unjudged(&mut self, fate: Fate, block: &[u8], span: RecordSpan) -> anyhow::Result<()> {
        self.of_unjudged(fate).map_or(Ok(()), |output| output.record(block, span.range()))
    }

    /// Writes `bytes`, the next piece of the record that could not be judged last.
    pub(super) fn continue_unjudged(&mut self, fate: Option<Fate>, bytes: &[u8]) -> anyhow::Result<()> {
        let Some(output) = fate.and_then(|fate| self.of_unjudged(fate)) else { return Ok(()) };
        output.continue_record();
        output.record(bytes, 0..bytes.len())
    }

    fn of_unjudged(&mut self, fate: Fate) -> Option<&mut Output> {
        match fate {
            Fate::Passed => Some(&mut self.chosen),
            Fate::Rejected => Some(&mut self.rejected),
            Fate::Dropped => None,
        }
    }

    /// Does what the gate says.
    pub(super) fn turn(&mut self, turn: Turn) -> anyhow::Result<()> {
        match turn {
            Turn::Stay => Ok(()),
            Turn::Release => self.each().into_iter().try_for_each(Output::release),
            Turn::Open => self.each().into_iter().try_for_each(Output::open),
        }
    }

    /// The run ends before anything was written.
    pub(super) fn discard(&mut self) {
        self.each().into_iter().for_each(Output::discard);
    }

    fn each(&mut self) -> [&mut Output; 3] {
        [&mut self.chosen, &mut self.events, &mut self.rejected]
    }

    fn event(&mut self, Batch { block, parsed, .. }: &Batch, index: usize, estimate: f64) -> anyhow::Result<()> {
        self.line.clear();
        match self.format {
            EstimateFormat::Text => {
                write!(self.line, "{estimate}\t")?;
                let record = &block.bytes()[parsed.spans()[index].range()];
                self.line.extend_from_slice(record);
                // A line of estimates ends with a newline also where records do not.
                if block.record_end() != b'\n' && record.last() == Some(&block.record_end()) {
                    self.line.pop();
                }
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

    /// Reads older outputs that are continued.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        self.each().into_iter().try_for_each(Output::begin)
    }

    /// Hands everything written so far to the system.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        self.each().into_iter().try_for_each(Output::flush)
    }

    /// The same as [`Self::flush`], and output that goes to files outlives a power cut.
    pub(super) fn sync(&mut self) -> anyhow::Result<()> {
        self.each().into_iter().try_for_each(Output::sync)
    }
}
