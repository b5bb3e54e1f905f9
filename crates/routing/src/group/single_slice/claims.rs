//! Claims of events in a slice group that consists of one slice. The slice may have copies on several nodes, and one of
//! these copies answers clients. If the answering copy grants a claim, it delays the reply until all other copies have
//! acknowledged everything that was sent to them before.
//!
//! Granting a claim records nothing. An event that a client holds can be recorded only for that client.

use std::ops::Range;

use firstseen_filter::PREFETCH_EVENTS;
use hashbrown::HashSet;

use super::SingleSliceGroup;
use crate::claims::{BeforeTest, ClaimCall};
use crate::group::claiming::{GrantRequest, HELD, event_of, lost, other, tag_of};
use crate::protocol::{BatchName, Hold, Mirrored, Operation, Submission};
use crate::verdict::{Decision, Reason};

impl SingleSliceGroup {
    /// Returns whether the claim parameters of a submission are valid for this filter. A filter without claims accepts
    /// none.
    pub(super) fn takes_claims(&self, submission: &Submission) -> bool {
        let Submission { operation, fences, probes, .. } = submission;
        match &self.claiming {
            Some(claiming) => claiming.takes(*operation, fences, probes.len()),
            None => !operation.is_of_claims() && fences.is_empty(),
        }
    }

    /// Releases the events of a submission.
    pub(super) fn let_go(&mut self, submission: &Submission, decisions: &mut [Decision]) {
        let now_ms = self.present.now_ms();
        let Some(claiming) = &mut self.claiming else { return };
        for (event, (fence, decision)) in submission.fences.iter().zip(decisions).enumerate() {
            *decision = claiming.release(event_of(&submission.probes, event), *fence, now_ms);
        }
    }

    /// Asks the slice like [`Self::ask`] in a filter with claims. The claims of an event are checked before the slice.
    pub(super) fn ask_beside_claims(
        &mut self,
        submission: &Submission,
        unrecorded: Option<Reason>,
        decisions: &mut [Decision],
    ) -> Result<(), Reason> {
        let operation = submission.operation;
        let unknown = self.claiming.as_ref().and_then(|claiming| claiming.unknown(|_| true, self.present.now_ms()));
        if let Operation::Claim { lease_ms } = operation {
            return self.claim(submission, lease_ms, unrecorded, unknown, decisions);
        }
        let placed = self.workbench.runs.clone();
        let confirmed = self.sift(submission, decisions);
        if let Some(reason) = unrecorded {
            confirmed.iter().for_each(|event| decisions[*event] = Decision::Undecided(reason));
        } else {
            self.confirm(submission, &confirmed, decisions);
        }
        // A client that confirms an event has already delivered it. Recording the event keeps other clients from
        // delivering it too.
        let unknown = unknown.filter(|_| operation != Operation::Confirm);
        let asked = self.ask(submission, unknown.or(unrecorded), decisions);
        self.workbench.runs = placed;
        if operation == Operation::Confirm {
            self.confirm_late(submission, decisions);
        }
        if operation.records() {
            self.note_recorded(submission, decisions);
        }
        asked
    }

    /// Decides the events of a submission that have an entry in the claim table. All other events stay in `runs`, and
    /// are tested in the slice afterwards. Returns the indexes of the events whose claims the client confirms. The
    /// caller must record these events without a test.
    fn sift(&mut self, submission: &Submission, decisions: &mut [Decision]) -> Vec<usize> {
        let operation = submission.operation;
        let now_ms = self.present.now_ms();
        let Some(claiming) = self.claiming.as_mut().filter(|claiming| claiming.is_any()) else { return Vec::new() };
        let placed = std::mem::take(&mut self.workbench.runs);
        let mut confirmed = Vec::new();
        let mut events = HashSet::new();
        for index in placed.into_iter().flatten() {
            let event = event_of(&submission.probes, index);
            let call = match operation {
                Operation::Confirm => ClaimCall::Confirm(submission.fences[index]),
                Operation::Observe => ClaimCall::Observe,
                _ => ClaimCall::Test,
            };
            match claiming.before_test(call, event, now_ms) {
                // If the same batch confirms this event again, the second confirmation finds it recorded.
                BeforeTest::Record if events.insert(event) => confirmed.push(index),
                BeforeTest::UndecidedClaimed => decisions[index] = HELD,
                BeforeTest::LeaseLost(why) => decisions[index] = lost(why),
                _ => push_to_runs(&mut self.workbench.runs, index),
            }
        }
        confirmed
    }

    /// Records events that a client confirms, because it holds their claims. The cells of these events are set without
    /// a test, because a test could do harm. The cells may be set by chance, because other events use the same cells. A
    /// test would then find the event, and the event would not be recorded. As soon as the cells of the other events
    /// expired, it would be forgotten too early.
    fn confirm(&mut self, submission: &Submission, confirmed: &[usize], decisions: &mut [Decision]) {
        let probes = &submission.probes;
        let generation = self.slice.newest_generation();
        let mut positions = Vec::new();
        for (at, index) in confirmed.iter().enumerate() {
            if let Some(ahead) = confirmed.get(at + PREFETCH_EVENTS) {
                probes.unpack(*ahead, &mut positions);
                self.slice.prefetch(generation, &positions);
            }
            probes.unpack(*index, &mut positions);
            let put = self.slice.put_event(generation, &positions, self.workbench.stamps[*index]);
            decisions[*index] = match put {
                Ok(()) => Decision::FirstSeen,
                Err(_) => Decision::Undecided(Reason::Full),
            };
        }
        self.load.record_visits += confirmed.len() as u64;
    }

    /// Confirms events whose window has ended before their holder confirmed them. These events are not recorded.
    fn confirm_late(&mut self, submission: &Submission, decisions: &mut [Decision]) {
        let Some(claiming) = &mut self.claiming else { return };
        let late =
            decisions.iter_mut().enumerate().filter(|(_, decision)| **decision == Decision::Undecided(Reason::Late));
        for (index, decision) in late {
            let event = event_of(&submission.probes, index);
            *decision = claiming.confirm_late(submission.fences[index], event, self.present.now_ms());
            claiming.count_confirm(*decision);
        }
    }

    /// Removes the claims of events that are recorded now. Events that the replay guard answered were recorded earlier.
    fn note_recorded(&mut self, submission: &Submission, decisions: &[Decision]) {
        let Self { claiming, workbench, .. } = self;
        let Some(claiming) = claiming else { return };
        for index in workbench.runs.iter().cloned().flatten() {
            if submission.operation == Operation::Confirm {
                claiming.count_confirm(decisions[index]);
            }
            if decisions[index] == Decision::FirstSeen && claiming.is_any() {
                claiming.forget(event_of(&submission.probes, index));
            }
        }
    }

    /// Grants the events that are not recorded and that no client holds.
    fn claim(
        &mut self,
        submission: &Submission,
        lease_ms: u32,
        unrecorded: Option<Reason>,
        unknown: Option<Reason>,
        decisions: &mut [Decision],
    ) -> Result<(), Reason> {
        self.ask(submission, unknown.or(unrecorded), decisions)?;
        let now_ms = self.present.now_ms();
        let epoch = self.mirrors.epoch();
        let Self { claiming, workbench, site, slice, .. } = self;
        let Some(claiming) = claiming else { return Ok(()) };
        workbench.holds.resize(decisions.len(), Hold::None);
        let room_events = slice.room_events();
        let mut room_events = room_events.saturating_sub(claiming.pending(room_events, decisions.len(), now_ms));
        for index in workbench.runs.iter().cloned().flatten() {
            let event = event_of(&submission.probes, index);
            let tag = tag_of(submission.names.get(index).copied(), submission.name(), index);
            let hold = match claiming.before_test(ClaimCall::Claim { tag }, event, now_ms) {
                BeforeTest::Claimed(fence) => Hold::Own(fence),
                BeforeTest::InProgress { left_ms } => other(left_ms),
                _ if decisions[index] != Decision::FirstSeen => continue,
                _ => {
                    let request = GrantRequest { event, tag, since_ms: now_ms, lease_ms };
                    let room = room_events.checked_sub(1).ok_or(Reason::Full);
                    match room.and_then(|left| Ok((left, claiming.grant(site, epoch, request, now_ms)?))) {
                        Ok((left, fence)) => {
                            room_events = left;
                            Hold::Own(fence)
                        }
                        Err(reason) => {
                            decisions[index] = Decision::Undecided(reason);
                            continue;
                        }
                    }
                }
            };
            decisions[index] = HELD;
            workbench.holds[index] = hold;
        }
        Ok(())
    }

    /// Asks the other copies to acknowledge everything that was sent to them so far. A copy that acts by a newer
    /// cluster map rejects this.
    pub(super) fn tell_copies_of_grants(&mut self) {
        let clock = self.present.clock().reading();
        let generation = self.slice.newest_generation();
        let shape = self.slice.probe_shape();
        let nothing = Mirrored::without_events(BatchName::default(), clock, generation, shape);
        self.mirrors.push(nothing, &mut self.commands);
    }

    /// Notes that another copy may have answered before this one and may have granted claims that are not known here.
    pub(super) fn note_head_change(&mut self) {
        let Self { claiming, mirrors, .. } = self;
        if let Some(claiming) = claiming {
            claiming.note_head_change(None, mirrors.epoch(), mirrors.live_nodes());
        }
    }

    /// Asks the other copies by which cluster map they act, if claims of former heads may still be active.
    pub(super) fn query_former_heads(&mut self) {
        let now_ms = self.present.now_ms();
        let Self { claiming, mirrors, .. } = self;
        let Some(claiming) = claiming else { return };
        claiming.pass(now_ms);
        if !mirrors.is_asked() {
            // A copy that does not answer grants nothing. When it answers again, it treats all events as unsure.
            return claiming.head_changes_mut().clear();
        }
        claiming.head_changes_mut().follow(|node| mirrors.live_nodes().any(|live| live == node));
        // Records that already wait for acknowledgements are sent again with every new map, so they need no extra
        // message.
        if !claiming.ask(now_ms).is_empty() && mirrors.awaits_nothing() {
            self.tell_copies_of_grants();
        }
    }
}

/// Adds an event to a list of runs of consecutive events.
fn push_to_runs(runs: &mut Vec<Range<usize>>, index: usize) {
    match runs.last_mut().filter(|run| run.end == index) {
        Some(run) => run.end += 1,
        None => runs.push(index..index + 1),
    }
}
