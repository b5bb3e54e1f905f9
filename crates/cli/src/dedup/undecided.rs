//! Handles events that are undecided, which means that neither a filter in this process nor a cluster has given a
//! verdict about them. The handler counts these events. The flags `--unjudged` and `--late` determine what happens to
//! their records. The filter does not remember an undecided event, so an equal record that comes later may be passed on
//! too.

use firstseen_filter::Digest;
use firstseen_routing::Answer;

use super::LateArg;
use super::handler::{Chunk, Dedup, Destination};
use super::tally::Event;
use super::verdicts::Verdicts;
use crate::driver::Outputs;
use crate::output::Output;
use crate::unjudged::counts::Place;
use crate::unjudged::reason::{Explanation, LATE_BY_OTHERS};
use crate::unjudged::{Disposition, UnjudgedReason};

/// Message about the last record of a file if its time is far ahead of the other times of the file, and no later record
/// can confirm this time.
///
/// Usually, the first records of the next file show whether such a time is right, because they were written after it.
/// However, if the next file begins at an earlier time than this file ends, it does not continue this file. Its records
/// then say nothing about the time.
const AT_FILE_END: &str = "undecided: its time is more than --future-max ahead of its file, and the next file is older: name the \
                           oldest file first";

impl Dedup {
    /// Counts an event of a chunk that has no verdict, and returns what happens to its record.
    ///
    /// # Errors
    /// Returns an error with `--unjudged fail`.
    pub(super) fn unjudged<O: Output>(
        &mut self,
        chunk: &Chunk<'_, O::Records>,
        event: &Event<'_, O::Records>,
        answer: Answer,
        decider: &mut impl Verdicts<O::Records>,
        outputs: &mut Outputs<O>,
    ) -> anyhow::Result<Disposition> {
        let at = place(chunk, event);
        match answer {
            Answer::Late => {
                let why = self.why_late(chunk, event, decider, outputs);
                self.late(event, why, at, outputs)
            }
            Answer::Refused if chunk.batch.is_before_older && event.index + 1 == event.parsed.len() => {
                self.undecided(UnjudgedReason::Future, AT_FILE_END, at, outputs)
            }
            Answer::Refused => outputs.unjudged.implausible(at, &outputs.progress),
            answer => {
                let digest: Digest = event.parsed.digests()[event.index];
                decider.check(digest, event.index - chunk.start, answer);
                let why = decider.why(event.index);
                let reason = why.map_or(UnjudgedReason::Full, |why| why.reason.into());
                self.undecided(reason, reason.meaning(), at, outputs)
            }
        }
    }

    fn undecided<O>(
        &mut self,
        reason: UnjudgedReason,
        details: &str,
        at: Place,
        outputs: &mut Outputs<O>,
    ) -> anyhow::Result<Disposition> {
        let fate = outputs.unjudged.undecided(reason, details, at, &outputs.progress)?;
        self.tally.counts.events += 1;
        self.tally.counts.undecided += 1;
        Ok(fate)
    }

    /// Returns why an event is late: because of the order of the input, or because an earlier run or another producer
    /// has moved the clock of the filter.
    fn why_late<O: Output>(
        &self,
        chunk: &Chunk<'_, O::Records>,
        event: &Event<'_, O::Records>,
        decider: &impl Verdicts<O::Records>,
        outputs: &Outputs<O>,
    ) -> Explanation {
        // Only the first late record is explained. For the others, this saves a scan of the records before them.
        let is_explained = outputs.unjudged.has_named(UnjudgedReason::Late);
        if !is_explained && !self.order.is_late_by_order(chunk.batch, event.index, &decider.group().window) {
            return LATE_BY_OTHERS;
        }
        UnjudgedReason::Late.explanation()
    }

    /// Counts a late event if the user has not chosen what happens to late events.
    fn late<O: Output>(
        &mut self,
        event: &Event<'_, O::Records>,
        why: Explanation,
        at: Place,
        outputs: &mut Outputs<O>,
    ) -> anyhow::Result<Disposition> {
        let fate = outputs.unjudged.late(why, at, &outputs.progress)?;
        self.tally.counts.late += 1;
        if fate == Disposition::Passed && self.late.is_none() {
            self.tally.late_unjudged += 1;
            self.decided(event, Answer::FirstSeen);
        } else {
            self.tally.counts.events += 1;
            self.tally.counts.undecided += 1;
        }
        Ok(fate)
    }

    /// Returns the answer that the user has chosen for late events. `None` means that the event is not late or that the
    /// user made no choice.
    pub(super) fn chosen(&self, answer: Answer) -> Option<Answer> {
        match self.late.filter(|_| answer == Answer::Late)? {
            LateArg::FirstSeen => Some(Answer::FirstSeen),
            LateArg::Duplicate => Some(Answer::Duplicate),
            LateArg::Undecided => None,
        }
    }

    /// Counts a late event for which the user has chosen `answer`, and returns its output.
    pub(super) fn answer_late<O: Output>(
        &mut self,
        chunk: &Chunk<'_, O::Records>,
        event: &Event<'_, O::Records>,
        answer: Answer,
        decider: &impl Verdicts<O::Records>,
        outputs: &mut Outputs<O>,
    ) -> Destination {
        let what =
            if answer == Answer::Duplicate { "dropped (--late duplicate)" } else { "passed on (--late first-seen)" };
        let why = self.why_late(chunk, event, decider, outputs);
        outputs.unjudged.name_chosen(why, what, place(chunk, event), &outputs.progress);
        self.tally.counts.late += 1;
        self.decided(event, answer)
    }
}

/// Returns the line on which the record of an event begins.
fn place<R>(chunk: &Chunk<'_, R>, event: &Event<'_, R>) -> Place {
    Place { file: chunk.batch.file, line: event.parsed.spans()[event.index].line }
}
