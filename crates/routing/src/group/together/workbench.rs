//! The buffers of a batch while it is answered: which of its events the slice is asked about, and their verdicts.
//!
//! Promises: buffers are used again, so that nothing is allocated for an event. Must not know: the slice, the guard.

use std::ops::Range;

use firstseen_filter::{Placed, Stamp, UnitNumber, Verdict};

use crate::group::clock::{HeadClock, Heading};
use crate::group::guard::{Admission, Standing};
use crate::protocol::{Hold, Operation, Submission};
use crate::verdict::{Decision, Reason};

/// Buffers of a batch, kept to be used again; with one entry for each event where nothing else is said.
#[derive(Default)]
pub(super) struct Workbench {
    pub(super) standings: Vec<Standing>,
    pub(super) stamps: Vec<Stamp>,
    pub(super) verdicts: Vec<Verdict>,
    pub(super) estimates: Vec<f64>,
    /// Who holds the events, where they are claimed.
    pub(super) holds: Vec<Hold>,
    /// Runs of consecutive events that the slice is asked about.
    pub(super) runs: Vec<Range<usize>>,
}

/// Whether a name came twice in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standings {
    AllOnce,
    SomeTwice,
}

impl Workbench {
    /// Stamps the events that the slice is to be asked about and gathers them in `runs`; decides all others.
    pub(super) fn place(
        &mut self,
        clock: &mut HeadClock,
        submission: &Submission,
        admission: Admission,
        decisions: &mut [Decision],
    ) -> Standings {
        let events = decisions.len();
        let heading = Heading::of(submission);
        self.stamps.clear();
        self.runs.clear();
        // Counts have no verdicts: their decisions are first-seen.
        self.verdicts.clear();
        self.verdicts.resize(events, Verdict::FirstSeen);
        self.estimates.clear();
        self.holds.clear();
        if submission.operation.is_of_frequencies() {
            self.estimates.resize(events, 0.0);
        }
        if admission == Admission::New
            && let Some(Placed::At(stamp)) = clock.common_place(heading, &submission.times)
        {
            self.stamps.resize(events, stamp);
            self.runs.push(0..events);
            return Standings::AllOnce;
        }
        self.stamps.resize(events, Stamp::default());
        let mut standings = Standings::AllOnce;
        let mut start = 0;
        for (event, decision) in decisions.iter_mut().enumerate() {
            let standing = if admission == Admission::Known { self.standings[event] } else { Standing::New };
            *decision = match standing {
                Standing::New => match clock.place(heading, &submission.times, event) {
                    Placed::At(stamp) => {
                        self.stamps[event] = stamp;
                        continue;
                    }
                    Placed::Late => Decision::Undecided(Reason::Late),
                    Placed::Refused => Decision::Undecided(Reason::Future),
                },
                Standing::InFlight => {
                    standings = Standings::SomeTwice;
                    Decision::Undecided(Reason::Overloaded)
                }
                Standing::Answered(decision) => decision,
            };
            self.end_run(start..event);
            start = event + 1;
        }
        self.end_run(start..events);
        standings
    }

    /// The stamps of lookups later than all recorded events, whose time is `now_unit`: they are judged by their own
    /// time where the slice can do that, otherwise by `now_unit`. A frequency is what occurrences are still worth at
    /// the lookup's time.
    pub(super) fn judge_ahead(&mut self, operation: Operation, now_unit: UnitNumber, judges_ahead: bool) {
        for stamp in self.stamps.iter_mut().filter(|stamp| stamp.judged > now_unit) {
            match operation {
                Operation::Estimate => *stamp = Stamp::on_time(stamp.judged),
                _ if judges_ahead => {}
                _ => stamp.judged = now_unit,
            }
        }
    }

    fn end_run(&mut self, run: Range<usize>) {
        if !run.is_empty() {
            self.runs.push(run);
        }
    }

    /// The slice could not be asked: all events in `runs` are undecided.
    pub(super) fn refuse(&self, reason: Reason, decisions: &mut [Decision]) {
        for run in &self.runs {
            decisions[run.clone()].fill(Decision::Undecided(reason));
        }
    }
}
