//! State machine of a slice group that consists of one slice. The slice contains all positions of an event, so testing
//! and recording are one step, and every submission is decided at once. If the slice has copies on other nodes, the
//! reply to the submission waits until these copies have recorded the events too (see `mirrors.rs`).
//!
//! The commands that a submission causes have a fixed order:
//!
//! - The journal record comes first, because a reply must only state what is persisted.
//! - The messages to the other copies follow, because the reply may have to wait for them.
//! - The reply itself comes next.
//! - The last commands deal with events that the slice lacks.
//!
//! # Guarantees
//!
//! - The verdict on each event is the same as in the embedded engine, which runs a filter in one process.
//! - A rejected submission changes nothing.
//! - Nothing is allocated per event.
//!
//! This module does not depend on other slices or on how messages travel.

mod claims;
mod copies;
mod mirrors;
mod names;
mod received;
mod reply_knowledge;
mod workbench;

use firstseen_filter::{FilterDefinition, FilterSlice, LiveEvents, PartError, Refresh, Stamp, Unit, Verdict};

use super::claiming::GroupClaims;
use super::clock::Heading;
use super::completeness_tracker::CompletenessTracker;
use super::from_copies::FromCopies;
use super::gap::{Missing, Proposals};
use super::group_time::GroupTime;
use super::guard::{Admission, ReplayGuard, Standing};
use super::limits::{OwnerLimits, Shares};
use super::parts::TakesParts;
use super::persisting::{checkpoint, restore_names};
use super::rescan::Rescan;
use super::rules::{Rule, remembered};
use super::site::Site;
use super::state::{Counts, GroupState, SliceState, begin_ms, share_of_sample};
use super::thresholds::TOO_FEW_LEFT;
use crate::ids::Epoch;
use crate::map::{ClusterMap, Ending, FilterRecord, WhenLost};
use crate::plan::{Load, SlicedBuildError};
use crate::protocol::{Answers, Command, Entry, GroupReply, Hold, Moment, MonotonicMs, Operation, Submission};
use crate::verdict::{Decision, Reason};
use copies::is_complete;
use mirrors::Mirrors;
use reply_knowledge::ReplyKnowledge;
use workbench::{Standings, Workbench};

/// The owner of a slice that shares no events with other slices.
pub(crate) struct SingleSliceGroup {
    site: Site,
    present: GroupTime,
    definition: FilterDefinition,
    when_lost: WhenLost,
    /// Whether the group writes a journal of what it records.
    keeps_journal: bool,
    /// Whether recording a duplicate extends the time for which the event is remembered.
    refreshes: bool,
    slice: FilterSlice,
    guard: ReplayGuard,
    /// The copies of the same slice on other nodes.
    mirrors: Mirrors,
    completeness: CompletenessTracker,
    /// The events that an incomplete slice may lack, once their range is known.
    missing: Option<Missing>,
    proposals: Proposals,
    /// The claims of events. `None` if the filter does not support claims.
    claiming: Option<Box<GroupClaims<()>>>,
    from_copies: FromCopies,
    joining: ReplyKnowledge,
    /// The reason why the group rejects all submissions, if it does. Either the node is about to stop, or the slice has
    /// moved to another node.
    refuses: Option<Reason>,
    load: Load,
    counts: Counts,
    workbench: Workbench,
    /// Commands that the node has not taken yet, in the order of execution.
    commands: Vec<Command>,
}

impl SingleSliceGroup {
    pub(crate) fn new(
        site: Site,
        map: &ClusterMap,
        record: &FilterRecord,
        limits: &OwnerLimits,
    ) -> Result<Self, SlicedBuildError> {
        let definition = limits.with_window(record.definition.slice()?, record.policies.clock);
        let horizon_ms = u64::from(record.policies.retry_horizon_ms);
        let mut mirrors = Mirrors::new(&site);
        mirrors.follow(map, record, site.me, &mut Vec::new());
        let is_complete = is_complete(map, record, &site) == Some(true);
        let mut claiming = GroupClaims::new(map, record, limits).map(Box::new);
        if let Some(claiming) = claiming.as_mut().filter(|_| !is_complete || record.epoch != Epoch::FIRST) {
            claiming.note_head_change(None, record.epoch, mirrors.live_nodes());
        }
        let compared = Rescan::new(&definition.rule, &definition.unit, site.group, horizon_ms, limits.rescan_every_ms);
        Ok(Self {
            site,
            present: GroupTime::new(&definition, record, limits),
            // Some kinds of cells forget events in any case or give no verdicts, so treating events as lost has no use
            // for them.
            when_lost: if definition.cells.kind().forgets_early() {
                WhenLost::FirstSeen
            } else {
                record.policies.when_lost
            },
            keeps_journal: record.policies.durability.keeps_journal(),
            refreshes: definition.cells.refresh() == Refresh::Refresh,
            slice: FilterSlice::build(&definition)?,
            guard: ReplayGuard::new(horizon_ms, limits.guard_bytes_max),
            completeness: CompletenessTracker::new(is_complete, mirrors.has_gap_here()),
            mirrors,
            missing: None,
            proposals: Proposals::default(),
            claiming,
            from_copies: FromCopies::new(compared),
            joining: ReplyKnowledge::new(horizon_ms),
            refuses: None,
            load: Load::default(),
            counts: Counts::default(),
            workbench: Workbench::default(),
            commands: Vec::new(),
            definition,
        })
    }

    pub(crate) fn present(&self) -> &GroupTime {
        &self.present
    }

    pub(crate) fn present_mut(&mut self) -> &mut GroupTime {
        &mut self.present
    }

    /// Sets this group's shares of the node's resources.
    pub(crate) fn set_shares(&mut self, shares: &Shares, now_ms: MonotonicMs) {
        self.guard.set_bytes_max(shares.guard_bytes_max, now_ms);
        self.present.limits_mut().share(shares);
        if let Some(claiming) = &mut self.claiming {
            claiming.set_bytes_max(shares.claims_bytes_max);
        }
    }

    /// Moves the pending commands into `commands`, in the order of execution.
    pub(crate) fn take_commands(&mut self, commands: &mut Vec<Command>) {
        commands.append(&mut self.commands);
    }

    /// Decides a submission and queues its reply.
    pub(crate) fn submit(&mut self, submission: Submission, now: Moment) {
        let events = submission.probes.len();
        let mut decisions = vec![Decision::FirstSeen; events];
        let mut estimates = Vec::new();
        let mut holds = Vec::new();
        let mut expected_rate = 0.0;
        self.begin(now);
        match self.refusal(&submission).map(Decision::Undecided).or_else(|| self.lost(&submission)) {
            Some(decision) => {
                decisions.fill(decision);
                expected_rate = if decision == Decision::Duplicate { 1.0 } else { 0.0 };
            }
            None => {
                self.run(&submission, &mut decisions, &mut estimates);
                holds = std::mem::take(&mut self.workbench.holds);
                if submission.operation.records() && !self.workbench.runs.is_empty() {
                    self.tell_copies(&submission, &decisions);
                }
                if holds.iter().any(|hold| matches!(hold, Hold::Own(_))) {
                    self.tell_copies_of_grants();
                }
            }
        }
        self.counts.batches += 1;
        self.counts.events += events as u64;
        if submission.operation.is_of_verdicts() {
            self.counts.decisions.count(&decisions);
        }
        let answers = Answers::new(decisions)
            .with_estimates(estimates)
            .with_holds(holds)
            .with_clock(self.present.clock().clock_ms())
            .with_quality(!self.is_known_whole(), expected_rate);
        let reply = GroupReply { reply_to: submission.reply_to, answers, spent: Some(submission.probes) };
        if self.present.keeps(Rule::AwaitsSets) && self.present.keeps(Rule::AwaitsAcknowledgements) {
            self.mirrors.reply(reply, submission.deadline_ms, &mut self.commands)
        } else {
            self.commands.push(Command::Reply(reply))
        }
        self.recover_gap();
    }

    /// Decides all events of a submission without a test if the slice may lack events and the filter's policy forbids
    /// testing such a slice. Returns that decision, which is the same for all events of the submission, or `None` if
    /// the slice can be tested.
    ///
    /// Even if the slice is not tested, the times of the events advance the group's clock. A window that counts events
    /// is an exception. Its clock does not advance, because producers send undecided events again, and each event would
    /// then be counted twice.
    fn lost(&mut self, submission: &Submission) -> Option<Decision> {
        let decision = match self.when_lost {
            _ if self.is_known_whole() || submission.operation == Operation::Release => return None,
            _ if submission.operation.is_of_claims() => TOO_FEW_LEFT,
            WhenLost::FirstSeen => return None,
            WhenLost::Undecided => TOO_FEW_LEFT,
            WhenLost::Duplicate => Decision::Duplicate,
        };
        if !matches!(self.definition.unit, Unit::Events(_)) {
            let heading = Heading::of(submission);
            let times = &submission.times;
            self.present.open_batch(heading, times);
            let clock = self.present.clock_mut();
            for event in 0..submission.probes.len() {
                clock.place(heading, times, event);
            }
            clock.close_batch(heading, times);
        }
        Some(decision)
    }

    /// Returns the reason why a submission is rejected as a whole, or `None` if it is valid and the group accepts it.
    fn refusal(&self, submission: &Submission) -> Option<Reason> {
        let events = submission.probes.len();
        let limits = self.present.limits();
        let counts = submission.operation.is_of_frequencies();
        let fits = submission.probes.shape() == self.slice.probe_shape()
            && counts == self.definition.cells.kind().estimates_frequencies()
            && events <= limits.batch_events_max
            && (submission.names.is_empty() || submission.names.len() == events)
            && self.present.clock().is_valid(&submission.times, events)
            && submission.takes_its_ttl()
            && self.takes_claims(submission);
        match self.refuses {
            _ if !fits => Some(Reason::Invalid),
            None if self.present.now_ms() > submission.deadline_ms => Some(Reason::Overloaded),
            refuses => refuses.or(self.present.doubt()).or_else(|| self.mirrors.refusal(limits.inflight_events_max)),
        }
    }

    /// Executes a submission in four steps. The replay guard removes events that were already answered. The clock
    /// places the remaining events in the window. The slice tests and records them. Finally the guard remembers the
    /// replies. The caller passes `decisions` with the initial value `FirstSeen` for each event.
    fn run(&mut self, submission: &Submission, decisions: &mut [Decision], estimates: &mut Vec<f32>) {
        let records = submission.operation.records();
        let now_ms = self.present.now_ms();
        let admission =
            if records { self.guard.admit(submission, now_ms, &mut self.workbench.standings) } else { Admission::New };
        let admission = remembered(admission, &mut self.workbench.standings, self.present.limits().rules);
        if let Admission::Refused(reason) = admission {
            decisions.fill(Decision::Undecided(reason));
            return;
        }
        if submission.operation == Operation::Release {
            return self.let_go(submission, decisions);
        }
        let heading = Heading::of(submission);
        self.present.open_batch(heading, &submission.times);
        let clock = self.present.clock_mut();
        let standings = self.workbench.place(clock, submission, admission, decisions);
        clock.close_batch(heading, &submission.times);
        if !submission.operation.moves_clock() {
            self.workbench.judge_ahead(submission.operation, clock.now_unit(), self.slice.judges_ahead());
        }
        // The reason why nothing may be recorded now, if there is one.
        let unrecorded = self.present.absent().or_else(|| self.present.cut_off());
        let asked = match self.claiming {
            None => self.ask(submission, unrecorded, decisions),
            Some(_) => self.ask_beside_claims(submission, unrecorded, decisions),
        };
        if let Err(reason) = asked {
            self.workbench.refuse(reason, decisions);
        }
        if submission.operation == Operation::Observe && self.joining.may_be_its_own(submission, now_ms) {
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
        if self.definition.cells.kind().estimates_frequencies() {
            self.estimate_again(submission, admission);
            estimates.extend(self.workbench.estimates.iter().map(|estimate| *estimate as f32));
        }
    }

    /// Tests the events of `runs` in the slice and records the new ones. If nothing may be recorded now, `unrecorded`
    /// contains the reason. In that case, the events are only tested, and each new event becomes undecided with that
    /// reason.
    fn ask(
        &mut self,
        submission: &Submission,
        unrecorded: Option<Reason>,
        decisions: &mut [Decision],
    ) -> Result<(), Reason> {
        // With refresh, recording a duplicate extends its time. Without a lease this node cannot record, so it must not
        // report a duplicate either.
        let is_found_told = !self.refreshes || unrecorded != Some(Reason::CutOff);
        let Workbench { stamps, verdicts, estimates, runs, .. } = &mut self.workbench;
        let probes = &submission.probes;
        let mut asked = 0;
        let mut recorded = 0;
        for run in runs.iter() {
            let events = run.clone();
            let stamps = &stamps[run.clone()];
            match submission.operation {
                Operation::Claim { .. } if !self.present.keeps(Rule::GrantsRecordNothing) => {
                    self.slice.observe_probes(probes, events, stamps, &mut verdicts[run.clone()])
                }
                Operation::Observe | Operation::Confirm if unrecorded.is_none() => {
                    self.slice.observe_probes(probes, events, stamps, &mut verdicts[run.clone()])
                }
                Operation::Observe | Operation::Confirm | Operation::Lookup | Operation::Claim { .. } => {
                    self.slice.lookup_probes(probes, events, stamps, &mut verdicts[run.clone()])
                }
                Operation::Count => self.slice.count_probes(probes, events, stamps, &mut estimates[run.clone()]),
                Operation::Estimate => self.slice.estimate_probes(probes, events, stamps, &mut estimates[run.clone()]),
                // A group of one slice is never part of a filter tree, and a release does not ask the slice.
                Operation::Verify | Operation::BringUp | Operation::Release => return Err(Reason::Invalid),
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
            let records_or_claims = submission.operation.moves_clock();
            if let Some(reason) = unrecorded.filter(|reason| records_or_claims || *reason != Reason::CutOff) {
                for decision in &mut decisions[run.clone()] {
                    if *decision == Decision::FirstSeen || !is_found_told {
                        *decision = Decision::Undecided(reason);
                    }
                }
                recorded = 0;
            }
        }
        self.load.positions_tested += asked * u64::from(probes.shape().hashes());
        self.load.test_visits += asked;
        self.load.record_visits += if submission.operation.records() { recorded } else { 0 };
        Ok(())
    }

    /// Copies the decision of the first event to later events with the same idempotency key in the same batch.
    fn answer_repeats(&mut self, submission: &Submission, decisions: &mut [Decision]) {
        let asked = submission.names.iter().zip(&self.workbench.standings).zip(decisions);
        for ((name, _), decision) in asked.filter(|((_, standing), _)| **standing == Standing::InFlight) {
            *decision = match self.guard.recall(*name) {
                Standing::Answered(decision) => decision,
                Standing::New | Standing::InFlight => Decision::Undecided(Reason::Overloaded),
            };
        }
    }

    /// Estimates the frequencies of events that were already counted in an earlier try, without counting them again.
    fn estimate_again(&mut self, submission: &Submission, admission: Admission) {
        let Workbench { standings, estimates, .. } = &mut self.workbench;
        let present = [Stamp::on_time(self.present.clock().now_unit())];
        if admission == Admission::Known {
            let known = standings.iter().enumerate().filter(|(_, standing)| **standing != Standing::New);
            for (event, _) in known {
                let estimate = &mut estimates[event..event + 1];
                // Probes of this shape were counted just before, so this call cannot fail.
                let _ = self.slice.estimate_probes(&submission.probes, event..event + 1, &present, estimate);
            }
        }
    }

    pub(crate) fn tick(&mut self, now: Moment) {
        self.begin(now);
        self.query_former_heads();
        self.guard.expire(now.monotonic_ms);
        self.mirrors.expire(now.monotonic_ms, &mut self.commands);
        self.recover_gap();
        self.rescan();
    }

    pub(crate) fn next_tick_ms(&self) -> Option<MonotonicMs> {
        let lacks = !self.completeness.is_complete();
        let is_whole = self.completeness.is_whole();
        let opening_ms = (lacks && self.missing.is_none()).then_some(MonotonicMs::START);
        let known_ms = if is_whole { MonotonicMs::START } else { self.known_ms() };
        let proposal_ms =
            (lacks && (is_whole || self.has_fetched_all())).then(|| self.proposals.next_ms().max(known_ms));
        let fetches = lacks && !self.mirrors.is_gone_here();
        let fetch_ms = fetches.then(|| self.from_copies.fetched.next_ms(self.mirrors.sources())).flatten();
        let rescan_ms = self.rescans().then(|| self.from_copies.compared.next_ms()).flatten();
        let expiry_ms = self.mirrors.next_expiry_ms();
        let unsure_ms = self.claiming.as_ref().and_then(|claiming| claiming.next_ms());
        let names_ms = self.next_ask_names_ms();
        let others =
            [self.guard.next_expiry_ms(), opening_ms, proposal_ms, fetch_ms, rescan_ms, expiry_ms, unsure_ms, names_ms];
        others.into_iter().flatten().min()
    }

    pub(crate) fn drain(&mut self) {
        self.refuses = Some(Reason::NotReady);
    }

    /// Returns whether the closed filter has ended in this group, together with the group's present time. The filter
    /// ends here as soon as it is closed. A group of one slice records and decides an event in a single step, so no
    /// recording can be half finished at that time.
    pub(crate) fn ending(&self, now: Moment) -> Ending {
        Ending {
            has_ended: self.present.absent().is_some(),
            newest_unit: self.present.clock().now_unit(),
            present_unit: Some(self.present.unit_at(now)),
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.completeness.is_complete()
    }

    pub(crate) fn slices(&self) -> Vec<Option<&FilterSlice>> {
        vec![Some(&self.slice)]
    }

    pub(crate) fn state(&mut self, sample_bytes: usize) -> GroupState {
        self.slice.advance(self.present.clock().now_unit());
        let (fill, expected_rate) = self.slice.fill_and_rate(share_of_sample(sample_bytes, 1));
        let complete_from_unit = self.missing.and_then(|missing| missing.complete_from_unit(&self.definition));
        let complete_from_unit = complete_from_unit.filter(|_| !self.completeness.is_complete());
        let slice = SliceState {
            slice: self.site.group,
            load: self.load,
            bytes: self.slice.bytes(),
            generations: self.slice.generations() as u32,
            live_events: self.slice.live_events(),
            fill,
            expected_rate,
            ready: self.refuses.is_none(),
            complete: self.completeness.is_complete(),
            complete_from_ms: complete_from_unit.and_then(|unit| begin_ms(&self.definition.unit, unit)),
        };
        let Load { test_visits: tests, record_visits: sets, .. } = self.load;
        let counts = Counts { tests, sets, ..self.counts };
        let mended_runs = self.from_copies.compared.mended_runs();
        let claims = self.claiming.as_ref().map(|claiming| claiming.counts(self.present.now_ms()));
        GroupState { mended_runs, claims, ..counts.state(vec![slice], tests, sets, &self.guard, self.present.clock()) }
    }
}

/// The part of the group's state that outlives the process, because it is written to the journal. If a new process
/// restores the journal entries in their original order, its slice knows everything that the slice of the earlier
/// process knew.
impl SingleSliceGroup {
    /// Restores an entry that an earlier process of this node has persisted.
    pub(crate) fn restore(&mut self, entry: Entry, now: Moment) -> Result<(), PartError> {
        self.present.begin(now);
        self.put(entry)
    }

    /// Applies an entry that was recorded on this node or by another copy of the slice.
    pub(super) fn put(&mut self, entry: Entry) -> Result<(), PartError> {
        let Some(entry) = restore_names(entry, &mut self.guard, &mut self.present) else { return Ok(()) };
        match entry {
            Entry::Events { generation, probes, stamps } => self.slice.put_probes(generation, &probes, &stamps),
            Entry::Checkpoint { clock, .. } => {
                self.present.clock_mut().restore(clock);
                Ok(())
            }
            Entry::Replied { .. } | Entry::Marks { .. } | Entry::CheckpointEnd => Ok(()),
            Entry::Slice { .. } | Entry::Cells { .. } => self.slice.put_part(&entry),
            Entry::Headed { .. }
            | Entry::Taken { .. }
            | Entry::Set { .. }
            | Entry::Owed { .. }
            | Entry::Reported { .. } => Err(PartError::Misfit("an entry of a group of several slices")),
        }
    }

    /// Ends the restore after the last entry.
    pub(crate) fn end_restore(&mut self, is_whole: bool) {
        self.completeness.restore(is_whole);
        if self.mirrors.has_others() {
            self.forget_names();
            if self.completeness.is_complete() {
                self.joining.note_first();
            }
        }
        self.slice.recount();
    }

    /// Begins a checkpoint and returns everything except the cells.
    pub(crate) fn checkpoint(&self, is_complete: bool) -> Vec<Entry> {
        let clock = self.present.clock();
        let begin = Entry::Checkpoint {
            is_complete,
            clock: clock.reading(),
            newest: self.slice.newest_generation(),
            counted: LiveEvents::default(),
        };
        checkpoint(vec![begin], &self.guard, clock, &self.slices())
    }
}
