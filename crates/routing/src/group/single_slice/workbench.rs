//! Buffers for the batch that is being answered. They contain the events that the slice must test and the resulting
//! verdicts. The buffers are reused for the next batch, so no memory is allocated per event.

use std::ops::Range;

use firstseen_filter::{Placed, Stamp, UnitNumber, Verdict};

use crate::group::clock::{HeadClock, Heading};
use crate::group::guard::{Admission, Standing};
use crate::protocol::{Hold, Operation, Submission};
use crate::verdict::{Decision, Reason};

/// Reusable buffers for a batch. Unless stated otherwise, each buffer has one entry per event.
#[derive(Default)]
pub(super) struct Workbench {
    pub(super) standings: Vec<Standing>,
    pub(super) stamps: Vec<Stamp>,
    pub(super) verdicts: Vec<Verdict>,
    pub(super) estimates: Vec<f64>,
    /// The clients that hold the events, if the submission claims events.
    pub(super) holds: Vec<Hold>,
    /// Runs of consecutive events that the slice is asked about.
    pub(super) runs: Vec<Range<usize>>,
}

/// Whether an idempotency key occurs twice in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standings {
    AllOnce,
    SomeTwice,
}

impl Workbench {
    /// Stamps the events that the slice must be asked about and collects them in `runs`. Decides all other events.
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
        // Counting gives no verdicts, so the decision on each counted event is first-seen.
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

    /// Adjusts the time stamps of lookups whose time is later than `now_unit`, the time of the latest recorded event.
    /// The adjustment depends on the lookup:
    ///
    /// - A lookup that asks for an estimate of a frequency gets the estimate for its own time.
    /// - Any other lookup tests the cells at its own time if the slice can look up a future time, which `judges_ahead`
    ///   states.
    /// - If the slice cannot look up a future time, the lookup tests the cells at `now_unit`.
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

    /// Makes all events in `runs` undecided, because the slice could not be asked.
    pub(super) fn refuse(&self, reason: Reason, decisions: &mut [Decision]) {
        for run in &self.runs {
            decisions[run.clone()].fill(Decision::Undecided(reason));
        }
    }
}
