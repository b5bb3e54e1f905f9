//! A group that is one slice: test and record are one step, and every submission is decided at once; where the slice has
//! copies, its answer waits until they have what was recorded (`mirrors.rs`).
//!
//! Promises: answers event by event as a slice of the embedded engine; what is refused leaves nothing behind; nothing is
//! allocated for an event. Must not know: other slices, how messages travel.

mod copies;
mod gap;
mod heard;
mod kept;
mod mirrors;
mod workbench;

use firstseen_filter::{CellDefinition, FilterSlice, Kind, Refresh, Stamp, Unit, Verdict};

use super::clock::{HeadClock, Heading};
use super::copying::Copying;
use super::guard::{Admission, ReplayGuard, Standing};
use super::holding::Holding;
use super::leave::Leave;
use super::limits::OwnerLimits;
use super::rescan::Rescan;
use super::rules::{Rule, remembered};
use super::state::{DecisionCounts, GroupState, HopCounts, JournalCounts, SliceState, share_of_sample};
use super::thresholds::TOO_FEW_LEFT;
use crate::ids::{FilterId, Incarnation, NodeId};
use crate::map::{ClusterMap, Ending, FilterRecord, WhenLost};
use crate::plan::{Load, SlicedBuildError};
use crate::protocol::{Command, GroupReply, Moment, Operation, Submission};
use crate::verdict::{Decision, Reason};
use copies::{first_number, is_complete};
use gap::Gap;
use mirrors::Mirrors;
use workbench::{Standings, Workbench};

/// The owner of a slice that shares no events with others.
pub(crate) struct TogetherGroup {
    filter: FilterId,
    number: u32,
    me: NodeId,
    /// The start of this node that the group was built in.
    incarnation: Incarnation,
    limits: OwnerLimits,
    leave: Leave,
    /// The same slice on other nodes.
    mirrors: Mirrors,
    copying: Copying,
    rescan: Rescan,
    /// When this copy began to fetch what it lacked: what was told before under which names, it does not know.
    joined_ms: Option<u64>,
    /// That is so from the next input on.
    is_joining: bool,
    horizon_ms: u64,
    /// What it does is told to be kept.
    keeps_journal: bool,
    /// Duplicates are recorded anew.
    refreshes: bool,
    slice: FilterSlice,
    estimates_frequencies: bool,
    pub(super) clock: HeadClock,
    guard: ReplayGuard,
    when_lost: WhenLost,
    gap: Gap,
    unit: Unit,
    holding: Holding,
    /// Why nothing is taken up, where that is so.
    closed: Option<Reason>,
    load: Load,
    batches: u64,
    events: u64,
    decisions: DecisionCounts,
    workbench: Workbench,
}

impl TogetherGroup {
    pub(crate) fn new(
        filter: FilterId,
        (map, record): (&ClusterMap, &FilterRecord),
        group: u32,
        (me, incarnation): (NodeId, Incarnation),
        limits: &OwnerLimits,
    ) -> Result<Self, SlicedBuildError> {
        let definition = limits.with_window(record.definition.slice()?, record.policies.clock);
        let horizon_ms = u64::from(record.policies.retry_horizon_ms);
        let refreshes = matches!(definition.cells, CellDefinition::Timing { refresh: Refresh::Refresh, .. });
        let mut mirrors = Mirrors::new(filter, group, first_number(incarnation));
        mirrors.follow(map, record, me, &mut Vec::new());
        let holding = Holding::new(is_complete(map, record, group, me) == Some(true), mirrors.has_gap_here());
        Ok(Self {
            filter,
            number: group,
            me,
            incarnation,
            limits: *limits,
            leave: Leave::new(record.line.absent()),
            mirrors,
            copying: Copying::default(),
            rescan: Rescan::new((definition.rule, &definition.unit), group, horizon_ms, limits.rescan_every_ms),
            joined_ms: None,
            is_joining: false,
            horizon_ms,
            keeps_journal: record.policies.durability.keeps_journal(),
            refreshes,
            slice: FilterSlice::build(&definition)?,
            estimates_frequencies: definition.cells.kind() == Kind::Decaying,
            clock: HeadClock::new(&definition, record.policies.clock, limits),
            guard: ReplayGuard::new(horizon_ms, limits.guard_bytes_max),
            when_lost: match definition.cells.kind() {
                // They forget in any case, or tell no verdicts.
                Kind::Stable | Kind::Decaying => WhenLost::FirstSeen,
                _ => record.policies.when_lost,
            },
            gap: Gap::new(definition.rule, definition.unit != Unit::Endless, limits),
            unit: definition.unit.clone(),
            holding,
            closed: None,
            load: Load::default(),
            batches: 0,
            events: 0,
            decisions: DecisionCounts::default(),
            workbench: Workbench::default(),
        })
    }

    /// Answers a submission.
    pub(crate) fn submit(&mut self, submission: Submission, now: Moment, commands: &mut Vec<Command>) {
        let events = submission.probes.len();
        let mut decisions = vec![Decision::FirstSeen; events];
        let (mut estimates, mut expected_rate) = (Vec::new(), 0.0);
        self.open_gap(now);
        match self.refusal(&submission, now).map(Decision::Undecided).or_else(|| self.lost(&submission, now)) {
            Some(decision) => {
                decisions.fill(decision);
                expected_rate = if decision == Decision::Duplicate { 1.0 } else { 0.0 };
            }
            None => {
                self.run(&submission, now, &mut decisions, &mut estimates);
                if submission.operation.records() && !self.workbench.runs.is_empty() {
                    self.tell_copies(&submission, &decisions, commands);
                }
            }
        }
        self.batches += 1;
        self.events += events as u64;
        self.decisions.count(&decisions);
        let reply = GroupReply {
            reply_to: submission.reply_to,
            decisions,
            estimates,
            clock_ms: self.clock.clock_ms(),
            degraded: !self.is_known_whole(),
            expected_rate,
            seen: Vec::new(),
            spent: Some(submission.probes),
        };
        if self.limits.rules.keep(Rule::AwaitsSets) && self.limits.rules.keep(Rule::AwaitsAcknowledgements) {
            self.mirrors.reply(reply, submission.deadline_ms, commands)
        } else {
            commands.push(Command::Reply(reply))
        }
        self.mind_gap(now, commands);
    }

    /// What all events are told where what was lost forbids to ask the slice: their times pass nevertheless. Where events make
    /// the window, these count for nothing, as they come again.
    fn lost(&mut self, submission: &Submission, now: Moment) -> Option<Decision> {
        let decision = match self.when_lost {
            _ if self.is_known_whole() => return None,
            WhenLost::FirstSeen => return None,
            WhenLost::Undecided => TOO_FEW_LEFT,
            WhenLost::Duplicate => Decision::Duplicate,
        };
        if !matches!(self.unit, Unit::Events(_)) {
            let (heading, times) = (Heading::of(submission), &submission.times);
            self.clock.open_batch(heading, times, now.wall_ms);
            for event in 0..submission.probes.len() {
                self.clock.place(heading, times, event);
            }
            self.clock.close_batch(heading, times);
        }
        Some(decision)
    }

    /// Why none of the events is looked at.
    fn refusal(&self, submission: &Submission, now: Moment) -> Option<Reason> {
        let events = submission.probes.len();
        let counts = matches!(submission.operation, Operation::Count | Operation::Estimate);
        let fits = submission.probes.shape() == self.slice.probe_shape()
            && counts == self.estimates_frequencies
            && events <= self.limits.batch_events_max
            && (submission.names.is_empty() || submission.names.len() == events)
            && self.clock.is_valid(&submission.times, events);
        match self.closed {
            _ if !fits => Some(Reason::Invalid),
            None if now.monotonic_ms > submission.deadline_ms => Some(Reason::Overloaded),
            closed => closed.or(self.leave.doubt()).or_else(|| self.mirrors.refusal(self.limits.inflight_events_max)),
        }
    }

    /// Guard, clock, slice, guard. `decisions` come as first-seen, one an event.
    fn run(&mut self, submission: &Submission, now: Moment, decisions: &mut [Decision], estimates: &mut Vec<f32>) {
        let records = submission.operation.records();
        let admission = if records {
            self.guard.admit(submission, now.monotonic_ms, &mut self.workbench.standings)
        } else {
            Admission::New
        };
        let admission = remembered(admission, &mut self.workbench.standings, self.limits.rules);
        if let Admission::Refused(reason) = admission {
            decisions.fill(Decision::Undecided(reason));
            return;
        }
        let heading = Heading::of(submission);
        self.clock.open_batch(heading, &submission.times, now.wall_ms);
        let standings = self.workbench.place(&mut self.clock, submission, admission, decisions);
        self.clock.close_batch(heading, &submission.times);
        if !records {
            self.workbench.judge_ahead(submission.operation, self.clock.now_unit(), self.slice.judges_ahead());
        }
        if let Err(reason) = self.ask(submission, self.unrecorded(now), decisions) {
            self.workbench.refuse(reason, decisions);
        }
        if records && self.may_be_its_own(submission, now) {
            let found = self.workbench.runs.iter().cloned().flatten();
            for event in found.filter(|event| decisions[*event] == Decision::Duplicate).collect::<Vec<_>>() {
                decisions[event] = Decision::Undecided(Reason::TooOld);
            }
        }
        if records {
            self.guard.settle(submission, decisions);
            if standings == Standings::SomeTwice {
                self.answer_repeats(submission, decisions);
            }
        }
        if self.estimates_frequencies {
            self.estimate_again(submission, admission);
            estimates.extend(self.workbench.estimates.iter().map(|estimate| *estimate as f32));
        }
    }

    /// Asks the slice about the events in `runs`; nothing is recorded where `unrecorded` says what is told instead.
    fn ask(
        &mut self,
        submission: &Submission,
        unrecorded: Option<Reason>,
        decisions: &mut [Decision],
    ) -> Result<(), Reason> {
        // What is found counts from now on where duplicates are recorded anew, which it would not.
        let is_found_told = !self.refreshes || unrecorded != Some(Reason::CutOff);
        let Workbench { stamps, verdicts, estimates, runs, .. } = &mut self.workbench;
        let (probes, records) = (&submission.probes, submission.operation.records());
        let (mut asked, mut recorded) = (0, 0);
        for run in runs.iter() {
            let (events, stamps) = (run.clone(), &stamps[run.clone()]);
            match submission.operation {
                Operation::Observe if unrecorded.is_none() => {
                    self.slice.observe_probes(probes, events, stamps, &mut verdicts[run.clone()])
                }
                Operation::Observe | Operation::Lookup => {
                    self.slice.lookup_probes(probes, events, stamps, &mut verdicts[run.clone()])
                }
                Operation::Count => self.slice.count_probes(probes, events, stamps, &mut estimates[run.clone()]),
                Operation::Estimate => self.slice.estimate_probes(probes, events, stamps, &mut estimates[run.clone()]),
                // It is in no tree.
                Operation::Verify | Operation::Record => return Err(Reason::Invalid),
            }
            .map_err(|_| Reason::Invalid)?;
            asked += run.len() as u64;
            for (decision, verdict) in decisions[run.clone()].iter_mut().zip(&verdicts[run.clone()]) {
                *decision = match verdict {
                    Verdict::FirstSeen => Decision::FirstSeen,
                    Verdict::Duplicate => Decision::Duplicate,
                    Verdict::Undecided => Decision::Undecided(Reason::Full),
                };
                recorded += u64::from(*verdict == Verdict::FirstSeen);
            }
            if let Some(reason) = unrecorded.filter(|reason| records || *reason != Reason::CutOff) {
                let is_left = |decision: &Decision| *decision == Decision::FirstSeen || !is_found_told;
                let left = decisions[run.clone()].iter_mut().filter(|decision| is_left(decision));
                left.for_each(|decision| *decision = Decision::Undecided(reason));
                recorded = 0;
            }
        }
        self.load.positions_tested += asked * u64::from(probes.shape().hashes());
        self.load.test_visits += asked;
        self.load.record_visits += if records { recorded } else { 0 };
        Ok(())
    }

    /// A name that came twice in the batch: the second is told what the first was.
    fn answer_repeats(&mut self, submission: &Submission, decisions: &mut [Decision]) {
        let asked = submission.names.iter().zip(&self.workbench.standings).zip(decisions);
        for ((name, _), decision) in asked.filter(|((_, standing), _)| **standing == Standing::InFlight) {
            *decision = match self.guard.recall(*name) {
                Standing::Answered(decision) => decision,
                Standing::New | Standing::InFlight => Decision::Undecided(Reason::Overloaded),
            };
        }
    }

    /// Frequencies of events that were counted before: they are not counted again.
    fn estimate_again(&mut self, submission: &Submission, admission: Admission) {
        let Workbench { standings, estimates, .. } = &mut self.workbench;
        let present = [Stamp::on_time(self.clock.now_unit())];
        if admission == Admission::Known {
            let known = standings.iter().enumerate().filter(|(_, standing)| **standing != Standing::New);
            for (event, _) in known {
                let estimate = &mut estimates[event..event + 1];
                // Probes of this shape were counted just now.
                let _ = self.slice.estimate_probes(&submission.probes, event..event + 1, &present, estimate);
            }
        }
    }

    pub(crate) fn tick(&mut self, now: Moment, commands: &mut Vec<Command>) {
        self.open_gap(now);
        self.guard.expire(now.monotonic_ms);
        self.mirrors.expire(now.monotonic_ms, commands);
        self.mind_gap(now, commands);
        self.rescan(now, commands);
    }

    pub(crate) fn next_tick_ms(&self) -> Option<u64> {
        let opening_ms = (!self.holding.is_complete() && !self.gap.is_open()).then_some(0);
        let is_known = self.holding.is_whole() || self.has_fetched_all();
        let claim_ms = (!self.holding.is_complete() && is_known).then_some(self.gap.next_claim_ms());
        let claim_ms =
            claim_ms.map(|claim_ms| if self.holding.is_whole() { claim_ms } else { claim_ms.max(self.known_ms()) });
        let fetches = !self.holding.is_complete() && !self.mirrors.is_down_here();
        let fetch_ms = fetches.then(|| self.copying.next_ms(self.mirrors.sources())).flatten();
        let rescan_ms = self.rescans().then(|| self.rescan.next_ms());
        let expiry_ms = self.mirrors.next_expiry_ms();
        let others = [self.guard.next_expiry_ms(), opening_ms, claim_ms, fetch_ms, rescan_ms, expiry_ms];
        others.into_iter().flatten().min()
    }

    pub(crate) fn drain(&mut self) {
        self.closed = Some(Reason::NotReady);
    }

    pub(crate) fn clock_ms(&self) -> u64 {
        self.clock.clock_ms()
    }

    /// How far it has come since it was closed. What is told and what is recorded is one step here.
    pub(crate) fn ending(&self, now: Moment) -> Ending {
        Ending {
            has_ended: self.leave.absent().is_some(),
            newest_unit: self.clock.now_unit(),
            present_unit: self.leave.present_unit(&self.clock, now),
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.holding.is_complete()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.slice.bytes()
    }

    pub(crate) fn shared(&mut self) -> (&mut ReplayGuard, &mut OwnerLimits) {
        (&mut self.guard, &mut self.limits)
    }

    pub(crate) fn state(&mut self, sample_bytes: usize) -> GroupState {
        self.slice.advance(self.clock.now_unit());
        let (fill, expected_rate) = self.slice.fill_and_rate(share_of_sample(sample_bytes, 1));
        let (visits, records) = (self.load.test_visits, self.load.record_visits);
        GroupState {
            slices: vec![SliceState {
                slice: self.number,
                load: self.load,
                bytes: self.slice.bytes(),
                generations: self.slice.generations() as u32,
                live_events: self.slice.live_events(),
                fill,
                expected_rate,
                ready: self.closed.is_none(),
                complete: self.holding.is_complete(),
                complete_from_ms: self.complete_from_ms(),
            }],
            journal: JournalCounts::default(),
            mended_runs: self.rescan.mended_runs(),
            batches: self.batches,
            events: self.events,
            decisions: self.decisions,
            guard_bytes: self.guard.bytes(),
            guard_bytes_per_horizon_second: self.guard.bytes_per_horizon_second(),
            inflight_events: 0,
            hops: HopCounts {
                tests: visits,
                test_slices: visits,
                test_nodes: visits,
                sets: records,
                set_slices: records,
                set_nodes: records,
            },
            clock_ms: self.clock.clock_ms(),
        }
    }
}
