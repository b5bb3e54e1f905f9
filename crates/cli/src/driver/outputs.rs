//! The outputs of a run, and the rules for records that the filter does not judge. Such a record is first counted by
//! the reason why it is not judged. The flags `--unjudged` and `--rejected` then determine whether the record is passed
//! on, written to a separate output, or dropped.

use std::iter::once;

use firstseen_records::{RecordSpan, RejectReason, Rejection};

use crate::input::Batch;
use crate::output::Output;
use crate::terminal::progress::Progress;
use crate::unjudged::Disposition;
use crate::unjudged::counts::{Place, Unjudged};
use crate::unjudged::gate::Turn;

/// All outputs of a run.
pub(crate) struct Outputs<O> {
    /// Output of the records that pass.
    pub(crate) passed: O,
    /// Further outputs, which depend on the command.
    pub(crate) others: [O; 2],
    /// Output of `--rejected`.
    pub(crate) rejected: O,
    /// Counts and settings of records that cannot be judged.
    pub(crate) unjudged: Unjudged,
    pub(crate) progress: Progress,
}

impl<O: Output> Outputs<O> {
    fn each(&mut self) -> impl Iterator<Item = &mut O> {
        once(&mut self.passed).chain(&mut self.others).chain(once(&mut self.rejected))
    }

    /// Returns the output for a record that cannot be judged. `None` means that the record is not written anywhere.
    pub(crate) fn of_unjudged(&mut self, fate: Disposition) -> Option<&mut O> {
        match fate {
            Disposition::Passed => Some(&mut self.passed),
            Disposition::Rejected => Some(&mut self.rejected),
            Disposition::Dropped => None,
        }
    }

    /// Counts and writes the rejected records that begin before `place` in the block of `batch`, and returns the other
    /// rejections.
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
                // This comment names the fields of the rows after it, so every output needs it.
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

    /// Writes the next piece of the record that was rejected last. All of `records` belongs to that record.
    pub(crate) fn continue_rejected(&mut self, records: &O::Records) -> anyhow::Result<()> {
        let fate = self.unjudged.last_fate();
        let output = fate.and_then(|fate| self.of_unjudged(fate));
        output.map_or(Ok(()), |output| output.continue_record(records))
    }

    /// Reads the output files of earlier runs to which this run appends.
    pub(crate) fn begin(&mut self) -> anyhow::Result<()> {
        self.each().try_for_each(O::begin)
    }

    /// Checks that the output files of earlier runs begin with the header of `batch`. This happens before any record of
    /// the batch is decided.
    pub(crate) fn check_header(&mut self, batch: &Batch<O::Records>) -> anyhow::Result<()> {
        let Some(header) = batch.new_header() else { return Ok(()) };
        self.each().try_for_each(|output| output.check_header(&batch.block, header))
    }

    /// Writes the header of an input to each output.
    pub(crate) fn header(&mut self, records: &O::Records, header: RecordSpan) -> anyhow::Result<()> {
        self.each().try_for_each(|output| output.header(records, header))
    }

    /// Opens or discards the outputs, as the gate demands.
    pub(crate) fn turn(&mut self, turn: Turn) -> anyhow::Result<()> {
        match turn {
            Turn::Stay => Ok(()),
            Turn::Release => self.each().try_for_each(O::release),
            Turn::Open => self.each().try_for_each(O::open),
        }
    }

    /// Completes all outputs. Outputs that have been written under other names get their own only if all are complete.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        self.each().try_for_each(O::finish)?;
        self.each().try_for_each(O::publish)
    }

    /// Discards the outputs, because the run ends before anything was written.
    pub(crate) fn discard(&mut self) {
        self.each().for_each(O::discard);
    }

    /// Writes the rest of a block.
    pub(crate) fn end_block(&mut self, records: &O::Records) -> anyhow::Result<()> {
        self.each().try_for_each(|output| output.end_block(records))
    }

    /// Passes everything written so far to the operating system.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        self.each().try_for_each(O::flush)
    }

    /// Does the same as [`Self::flush`], and also makes sure that output in files survives a power failure.
    pub(crate) fn sync(&mut self) -> anyhow::Result<()> {
        self.each().try_for_each(O::sync)
    }
}
