//! Events that the filter or the cluster does not judge: how they are counted, and what becomes of them.
//!
//! Promises: nothing here is remembered by the filter. Must not know: outputs.

use firstseen_filter::Digest;
use firstseen_routing::Answer;

use super::LateArg;
use super::engine::{Destination, Engine, Source};
use super::tally::Event;
use crate::input::Batch;
use crate::terminal::progress::Progress;
use crate::unjudged::counts::Place;
use crate::unjudged::{Fate, UnjudgedReason};

/// What is wrong with a last record of a file that the next file cannot contradict, as it begins earlier.
const AT_FILE_END: &str = "undecided: its time is more than --future-max ahead of its file, and the next file is older: name the \
                           oldest file first";

impl Engine {
    /// Counts the `place`th event of its chunk, which has no verdict, and returns what becomes of it.
    ///
    /// # Errors
    /// With `--unjudged fail`.
    pub(super) fn unjudged(
        &mut self,
        event: Event<'_>,
        place: usize,
        answer: Answer,
        batch: &Batch,
        progress: &Progress,
    ) -> anyhow::Result<Fate> {
        let at = Place { file: batch.file, line: event.parsed.spans()[event.index].line };
        match answer {
            Answer::Late => self.late(event, at, progress),
            Answer::Refused if batch.is_before_older && event.index + 1 == event.parsed.len() => {
                self.undecided(UnjudgedReason::Future, AT_FILE_END, at, progress)
            }
            Answer::Refused => self.unjudged.doubted(at, progress),
            answer => {
                let digest: Digest = event.parsed.digests()[event.index];
                let reason = match &mut self.source {
                    Source::Here(here) => {
                        here.measure(digest, place, answer);
                        UnjudgedReason::Full
                    }
                    Source::Cluster(remote) => {
                        remote.why(event.index).map_or(UnjudgedReason::Full, |why| why.reason.into())
                    }
                };
                self.undecided(reason, reason.meaning(), at, progress)
            }
        }
    }

    fn undecided(
        &mut self,
        reason: UnjudgedReason,
        details: &str,
        at: Place,
        progress: &Progress,
    ) -> anyhow::Result<Fate> {
        let fate = self.unjudged.undecided(reason, details, at, progress)?;
        self.tally.counts.events += 1;
        self.tally.counts.undecided += 1;
        Ok(fate)
    }

    /// Counts an event that is late, where the user has said nothing of such events.
    fn late(&mut self, event: Event<'_>, at: Place, progress: &Progress) -> anyhow::Result<Fate> {
        let reason = UnjudgedReason::Late;
        let fate = self.unjudged.undecided(reason, reason.meaning(), at, progress)?;
        self.tally.counts.late += 1;
        if fate == Fate::Passed && self.late.is_none() {
            self.tally.late_unjudged += 1;
            self.decided(event, Answer::FirstSeen);
        } else {
            self.tally.counts.events += 1;
            self.tally.counts.undecided += 1;
        }
        Ok(fate)
    }

    /// The answer that the user has chosen for late events, if the event has this answer and there is such a choice.
    pub(super) fn chosen(&self, answer: Answer) -> Option<Answer> {
        match self.late.filter(|_| answer == Answer::Late)? {
            LateArg::FirstSeen => Some(Answer::FirstSeen),
            LateArg::Duplicate => Some(Answer::Duplicate),
            LateArg::Undecided => None,
        }
    }

    /// Counts a late event for which the user has chosen `answer`, and returns its output.
    pub(super) fn late_as_chosen(
        &mut self,
        event: Event<'_>,
        answer: Answer,
        batch: &Batch,
        progress: &Progress,
    ) -> Destination {
        let at = Place { file: batch.file, line: event.parsed.spans()[event.index].line };
        let what =
            if answer == Answer::Duplicate { "dropped (--late duplicate)" } else { "passed on (--late first-seen)" };
        self.unjudged.name_chosen(UnjudgedReason::Late, what, at, progress);
        self.tally.counts.late += 1;
        self.decided(event, answer)
    }
}
