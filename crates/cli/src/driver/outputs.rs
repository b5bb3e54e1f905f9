//! The outputs of a run, and the records that reach them without a decision.
//!
//! Guarantees: a record that cannot be judged is counted before it is written, and goes where `--unjudged` and
//! `--rejected` say. It does not know how events are decided, or how an output writes.

use std::iter::once;

use firstseen_records::{RecordSpan, RejectReason, Rejection};

use crate::input::Batch;
use crate::output::Output;
use crate::terminal::progress::Progress;
use crate::unjudged::Fate;
use crate::unjudged::counts::{Place, Unjudged};
use crate::unjudged::gate::Turn;

/// The outputs of a run.
pub(crate) struct Outputs<O> {
    /// Records that pass.
    pub(crate) passed: O,
    /// Further outputs of the command.
    pub(crate) others: [O; 2],
    /// Records that `--rejected` takes.
    pub(crate) rejected: O,
    /// Records that cannot be judged.
    pub(crate) unjudged: Unjudged,
    pub(crate) progress: Progress,
}

impl<O: Output> Outputs<O> {
    fn each(&mut self) -> impl Iterator<Item = &mut O> {
        once(&mut self.passed).chain(&mut self.others).chain(once(&mut self.rejected))
    }

    /// The output of a record that cannot be judged, if it goes anywhere.
    pub(crate) fn of_unjudged(&mut self, fate: Fate) -> Option<&mut O> {
        match fate {
            Fate::Passed => Some(&mut self.passed),
            Fate::Rejected => Some(&mut self.rejected),
            Fate::Dropped => None,
        }
    }

    /// Counts and writes the rejections that begin before `place` in the block of `batch`, and returns the others.
    pub(crate) fn reject_before<'a>(
        &mut self,
        rejections: &'a [Rejection],
        place: u32,
        batch: &Batch<O::Records>,
    ) -> anyhow::Result<&'a [Rejection]> {
        let mut rest = rejections;
        while let [Rejection { span, reason }, others @ ..] = rest
            && span.start < place
        {
            let at = Place { file: batch.file, line: span.line };
            let fate = self.unjudged.unread(reason, at, &self.progress)?;
            match reason {
                // The rows behind it mean nothing without it, in any output.
                RejectReason::Comment { names_fields: true } => {
                    self.each().try_for_each(|output| output.record(&batch.block, *span))?;
                }
                RejectReason::Comment { names_fields: false } => self.passed.record(&batch.block, *span)?,
                _ => self.of_unjudged(fate).map_or(Ok(()), |output| output.record(&batch.block, *span))?,
            }
            rest = others;
        }
        Ok(rest)
    }

    /// Writes the next piece of the record that was rejected last: all of `records`.
    pub(crate) fn continue_rejected(&mut self, records: &O::Records) -> anyhow::Result<()> {
        let fate = self.unjudged.last_fate();
        let output = fate.and_then(|fate| self.of_unjudged(fate));
        output.map_or(Ok(()), |output| output.continue_record(records))
    }

    /// Reads the outputs of earlier runs that are continued.
    pub(crate) fn begin(&mut self) -> anyhow::Result<()> {
        self.each().try_for_each(O::begin)
    }

    /// Checks, before any record of `batch` is decided, that outputs of earlier runs begin with its header.
    pub(crate) fn check_header(&mut self, batch: &Batch<O::Records>) -> anyhow::Result<()> {
        let Some(header) = batch.new_header() else { return Ok(()) };
        self.each().try_for_each(|output| output.check_header(&batch.block, header))
    }

    /// Writes the header of an input to each output.
    pub(crate) fn header(&mut self, records: &O::Records, header: RecordSpan) -> anyhow::Result<()> {
        self.each().try_for_each(|output| output.header(records, header))
    }

    /// Does what the gate says.
    pub(crate) fn turn(&mut self, turn: Turn) -> anyhow::Result<()> {
        match turn {
            Turn::Stay => Ok(()),
            Turn::Release => self.each().try_for_each(O::release),
            Turn::Open => self.each().try_for_each(O::open),
        }
    }

    /// The run ends before anything was written.
    pub(crate) fn discard(&mut self) {
        self.each().for_each(O::discard);
    }

    /// Writes what is left of a block.
    pub(crate) fn end_block(&mut self, records: &O::Records) -> anyhow::Result<()> {
        self.each().try_for_each(|output| output.end_block(records))
    }

    /// Hands everything written so far to the system.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        self.each().try_for_each(O::flush)
    }

    /// The same as [`Self::flush`], and output that goes to files outlives a power cut.
    pub(crate) fn sync(&mut self) -> anyhow::Result<()> {
        self.each().try_for_each(O::sync)
    }
}
