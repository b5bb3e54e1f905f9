//! Claims of events. A claim lets one consumer hold an event for a limited time, the lease of the claim, until the
//! consumer confirms or releases the event. The head node of an event stores the claims of that event. This module
//! contains the part of the implementation that is the same for groups of one slice and groups of several slices.
//!
//! # Guarantees
//!
//! - The fence of a grant (a fencing token) is greater than the fences of all earlier grants of this process.
//! - An event is not granted while another head, or the filter that this one replaced, may still hold a claim of it.
//!
//! This module does not depend on cells or messages.

use firstseen_filter::Probes;

use super::former_filter::FormerFilter;
use super::head_changes::HeadChanges;
use super::limits::OwnerLimits;
use super::rules::{Rule, Rules};
use super::site::Site;
use super::state::ClaimCounts;
use crate::claims::{BeforeTest, ClaimCall, ClaimTable, ClaimedBy, Holding, Lost, before_test};
use crate::ids::{Epoch, NodeId};
use crate::map::{ClusterMap, FilterRecord};
use crate::protocol::{BatchName, Fence, Hold, MonotonicMs, Operation, SubmissionName};
use crate::verdict::{Decision, Reason};

/// The decision on an event that another client holds.
pub(crate) const HELD: Decision = Decision::Undecided(Reason::Claimed);

/// Time in milliseconds after which a node is asked again by which cluster map it acts, if it has not answered.
const REQUEST_RETRY_MS: u64 = 1_000;
/// Interval in milliseconds at which claims are removed whose leases ended long ago.
const PASS_EVERY_MS: u64 = 1_000;
/// Minimum interval in milliseconds between scans of all claims for expired leases. A scan happens only if room is
/// needed.
const DROP_EVERY_MS: u64 = 100;

/// The claims of a group. A group has this state only if its filter supports claims.
pub(crate) struct GroupClaims<Former> {
    /// Maximum lease of a claim in milliseconds. This lease is not related to the node's lease to record (`lease.rs`).
    claim_lease_max_ms: u64,
    rules: Rules,
    table: ClaimTable,
    /// Number of grants that this process has given.
    granted: u64,
    unsure: HeadChanges<Former>,
    /// The predecessor that this filter replaced, if there is one.
    former_filter: Option<FormerFilter>,
    /// Epoch of the last cluster map that gave some events a different head node, which is the node that decides an
    /// event. A claim that was granted before this epoch needs care, because another head may have recorded the event
    /// since the grant. When such a claim is confirmed, the event is therefore tested first.
    headed_since: Epoch,
    /// The next time at which nodes are asked by which cluster map they act.
    next_ask_ms: MonotonicMs,
    /// The next time at which the claims whose leases ended long ago are removed from the claim table.
    next_pass_ms: MonotonicMs,
    /// The next time at which the claim table may be scanned for claims whose leases have ended. Such a scan removes
    /// these claims when the group runs out of room for further claims. It takes long, so it is repeated only after
    /// [`DROP_EVERY_MS`] milliseconds.
    next_drop_ms: MonotonicMs,
    counts: ClaimCounts,
}

/// Parameters of a claim that is granted if the test of its event finds nothing.
#[derive(Clone, Copy)]
pub(crate) struct GrantRequest {
    /// Number under which the claim table stores the event.
    pub(crate) event: u128,
    /// Identifies the claim, so that a retry of the same claim is recognized.
    pub(crate) tag: u64,
    /// The time at which the other nodes were asked. The lease runs from this time.
    pub(crate) since_ms: MonotonicMs,
    pub(crate) lease_ms: u32,
}

impl<Former> GroupClaims<Former> {
    /// Creates the claim state for a filter. Returns `None` if clients cannot claim events of the filter. In a filter
    /// tree, this is the case for all levels below the root.
    pub(crate) fn new(map: &ClusterMap, record: &FilterRecord, limits: &OwnerLimits) -> Option<Self> {
        if record.branch.as_ref().is_some_and(|branch| !branch.is_root()) {
            return None;
        }
        let claim_lease_max_ms = u64::from(record.policies.claim_lease_max_ms?.get());
        Some(Self {
            claim_lease_max_ms,
            rules: limits.rules,
            table: ClaimTable::new(limits.claims_bytes_max, claim_lease_max_ms),
            granted: 0,
            unsure: HeadChanges::new(claim_lease_max_ms),
            former_filter: FormerFilter::of(map, record, claim_lease_max_ms, limits),
            headed_since: Epoch::default(),
            next_ask_ms: MonotonicMs::START,
            next_pass_ms: MonotonicMs::START,
            next_drop_ms: MonotonicMs::START,
            counts: ClaimCounts::default(),
        })
    }

    /// Returns whether the parameters of an operation on claims are valid for this filter.
    pub(crate) fn takes(&self, operation: Operation, fences: &[Fence], events: usize) -> bool {
        match operation {
            Operation::Claim { lease_ms } => {
                (1..=self.claim_lease_max_ms).contains(&u64::from(lease_ms)) && fences.is_empty()
            }
            ending if ending.ends_claims() => fences.len() == events,
            _ => fences.is_empty(),
        }
    }

    /// Returns the reason for an undecided reply if this node cannot know whether a client holds a claim on an event.
    /// There are two such cases. A former head of the event may have granted a claim that is still active, or the
    /// removed predecessor of this filter may have done so. Returns `None` if neither is possible.
    ///
    /// The callback `counts` returns whether a change of heads concerns the event.
    pub(crate) fn unknown(&self, counts: impl Fn(Option<&Former>) -> bool, now_ms: MonotonicMs) -> Option<Reason> {
        let is_unknown = self.former_filter_left_ms(now_ms).is_some()
            || self.rules.keep(Rule::AwaitsFormerGrants) && self.unsure.left_ms(counts, now_ms).is_some();
        let says_unknown = self.rules.keep(Rule::ReportsUnknownClaims);
        is_unknown.then_some(if says_unknown { Reason::ClaimsUnknown } else { Reason::Claimed })
    }

    fn former_filter_left_ms(&self, now_ms: MonotonicMs) -> Option<u64> {
        let keeps = self.rules.keep(Rule::AwaitsFormerFilters);
        self.former_filter.as_ref().filter(|_| keeps)?.left_ms(now_ms)
    }

    /// Returns whether all nodes and filters that may have granted claims are known and can be asked.
    pub(crate) fn is_sure(&self, now_ms: MonotonicMs) -> bool {
        self.unsure.is_over() && self.former_filter_left_ms(now_ms).is_none()
    }

    /// Applies a new cluster map.
    pub(crate) fn follow(&mut self, map: &ClusterMap) {
        self.former_filter.iter_mut().for_each(|former| former.follow(map));
    }

    pub(crate) fn head_changes_mut(&mut self) -> &mut HeadChanges<Former> {
        &mut self.unsure
    }

    /// Returns the nodes that must be asked now by which cluster map they act.
    pub(crate) fn ask(&mut self, now_ms: MonotonicMs) -> Vec<NodeId> {
        if now_ms < self.next_ask_ms {
            return Vec::new();
        }
        let unheard = self.unsure.unheard();
        if !unheard.is_empty() {
            self.next_ask_ms = now_ms.after(REQUEST_RETRY_MS);
        }
        unheard
    }

    /// Returns the time at which this state has work to do, if no other input arrives before.
    pub(crate) fn next_ms(&self) -> Option<MonotonicMs> {
        let ask_ms = (!self.unsure.unheard().is_empty()).then_some(self.next_ask_ms);
        let pass_ms = (!self.table.is_at_rest()).then_some(self.next_pass_ms);
        ask_ms.into_iter().chain(pass_ms).chain(self.unsure.next_ms()).min()
    }

    /// Notes the current time. Changes of heads are forgotten once claims of the former heads can no longer be active.
    pub(crate) fn note_time(&mut self, now_ms: MonotonicMs) {
        self.unsure.pass(now_ms);
        self.former_filter.iter_mut().for_each(|former| former.pass(now_ms));
    }

    /// Notes the current time as in [`Self::note_time`], and removes claims that no client has come back for.
    pub(crate) fn pass(&mut self, now_ms: MonotonicMs) {
        self.note_time(now_ms);
        if self.next_pass_ms <= now_ms && !self.table.is_at_rest() {
            if self.rules.keep(Rule::ClaimsExpire) {
                self.table.pass(now_ms);
            }
            self.next_pass_ms = now_ms.after(PASS_EVERY_MS);
        }
    }

    /// Returns the number of events in the claim table. Each of these events is recorded when its claim is confirmed,
    /// so the caller reserves room for it: it subtracts this number from the number of events that the filter can still
    /// take.
    ///
    /// The function first checks whether `room_events` is enough for the events in the table and for `claimed` further
    /// events. If it is not, the function removes the claims whose leases have ended. That requires a scan of the whole
    /// table, so it happens at most once in [`DROP_EVERY_MS`] milliseconds.
    pub(crate) fn pending(&mut self, room_events: u64, claimed: usize, now_ms: MonotonicMs) -> u64 {
        if self.table.len() as u64 + claimed as u64 > room_events && self.next_drop_ms <= now_ms {
            self.table.drop_expired(now_ms);
            self.next_drop_ms = now_ms.after(DROP_EVERY_MS);
        }
        self.table.len() as u64
    }

    pub(crate) fn set_bytes_max(&mut self, bytes_max: u64) {
        self.table.set_bytes_max(bytes_max);
    }

    /// Returns whether the claim table contains any event. Most filters have few claims at a time, so this check saves
    /// lookups.
    pub(crate) fn is_any(&self) -> bool {
        !self.table.is_empty()
    }

    /// Returns the remaining time for which this node holds the event for a client, or `None` if it does not.
    pub(crate) fn held_ms(&self, event: u128, now_ms: MonotonicMs) -> Option<u64> {
        match self.table.holding(event, now_ms) {
            Holding::Held { left_ms, .. } => Some(left_ms).filter(|_| self.rules.keep(Rule::FormerHeadsVeto)),
            Holding::Free | Holding::Expired { .. } => None,
        }
    }

    /// Returns what a request about an event must do before the event is tested, given the claims of this node.
    pub(crate) fn before_test(&self, call: ClaimCall, event: u128, now_ms: MonotonicMs) -> BeforeTest {
        let holding = self.table.holding(event, now_ms);
        let (call, holding) =
            if self.rules == Rules::default() { (call, holding) } else { self.by_rules(call, holding) };
        match (before_test(call, holding), holding) {
            // Another head may have recorded the event since the grant.
            (BeforeTest::Record, Holding::Held { by, .. } | Holding::Expired { by })
                if by.fence.epoch() < self.headed_since =>
            {
                BeforeTest::Ask
            }
            (step, _) => step,
        }
    }

    /// Notes that the cluster map with epoch `epoch` has given some events a different head node. Claims that the
    /// former heads have granted may still be active. `former` describes which nodes were the heads before the change.
    /// `others` are the other nodes that have copies of slices.
    pub(crate) fn note_head_change(
        &mut self,
        former: Option<Former>,
        epoch: Epoch,
        others: impl Iterator<Item = NodeId>,
    ) {
        self.headed_since = epoch;
        self.unsure.push(former, epoch, others);
    }

    /// Changes the request and the state of the claim as a test demands that has broken one of the rules.
    fn by_rules(&self, call: ClaimCall, holding: Holding) -> (ClaimCall, Holding) {
        let rules = self.rules;
        let holding = match holding {
            Holding::Expired { by } if !rules.keep(Rule::ClaimsExpire) => Holding::Held { by, left_ms: 1 },
            holding => holding,
        };
        let (Holding::Held { by, .. } | Holding::Expired { by }) = holding else { return (call, holding) };
        match call {
            ClaimCall::Claim { tag } if tag == by.tag && !rules.keep(Rule::RemembersClaims) => (call, Holding::Free),
            ClaimCall::Observe | ClaimCall::Test if !rules.keep(Rule::RespectsClaims) => (call, Holding::Free),
            ClaimCall::Confirm(_) if !rules.keep(Rule::ChecksFences) => (ClaimCall::Confirm(by.fence), holding),
            ClaimCall::Release(_) if !rules.keep(Rule::ChecksFences) => (ClaimCall::Release(by.fence), holding),
            call => (call, holding),
        }
    }

    /// Notes that the filter is closed because a successor has replaced it.
    pub(crate) fn close(&mut self) {
        if !self.rules.keep(Rule::InheritsClaims) {
            self.table = ClaimTable::new(0, 0);
        }
    }

    /// Grants a claim on an event that no slice and no other node knows.
    pub(crate) fn grant(
        &mut self,
        site: &Site,
        epoch: Epoch,
        request: GrantRequest,
        now_ms: MonotonicMs,
    ) -> Result<Fence, Reason> {
        let GrantRequest { event, tag, since_ms, lease_ms } = request;
        let fence = Fence::new(site.filter, epoch, site.incarnation, self.granted).ok_or(Reason::Overloaded)?;
        let until_ms = since_ms.after(u64::from(lease_ms));
        if matches!(self.table.holding(event, now_ms), Holding::Expired { .. }) {
            self.counts.expired += 1;
        }
        if !self.table.hold(event, ClaimedBy { fence, tag }, until_ms, now_ms) {
            return Err(Reason::Overloaded);
        }
        self.granted += 1;
        self.counts.granted += 1;
        Ok(fence)
    }

    /// Confirms an event whose window has ended. The event is not recorded, and the claim is removed so that no other
    /// confirmation succeeds.
    pub(crate) fn confirm_late(&mut self, fence: Fence, event: u128, now_ms: MonotonicMs) -> Decision {
        match self.before_test(ClaimCall::Confirm(fence), event, now_ms) {
            BeforeTest::Record => {
                self.table.forget(event);
                Decision::FirstSeen
            }
            BeforeTest::LeaseLost(why) => lost(why),
            _ => Decision::Undecided(Reason::Late),
        }
    }

    /// Removes the claim of an event that has been recorded.
    pub(crate) fn forget(&mut self, event: u128) {
        self.table.forget(event);
    }

    /// Releases an event, if it is held under this fence.
    pub(crate) fn release(&mut self, event: u128, fence: Fence, now_ms: MonotonicMs) -> Decision {
        match self.before_test(ClaimCall::Release(fence), event, now_ms) {
            BeforeTest::Release => {
                let fence = if self.rules.keep(Rule::ChecksFences) { Some(fence) } else { self.holder(event, now_ms) };
                fence.map(|fence| self.table.let_go(event, fence));
                self.counts.released += 1;
                Decision::FirstSeen
            }
            _ => {
                self.counts.lost_held += 1;
                HELD
            }
        }
    }

    fn holder(&self, event: u128, now_ms: MonotonicMs) -> Option<Fence> {
        match self.table.holding(event, now_ms) {
            Holding::Held { by, .. } | Holding::Expired { by } => Some(by.fence),
            Holding::Free => None,
        }
    }

    /// Counts the decision on a confirmation.
    pub(crate) fn count_confirm(&mut self, decision: Decision) {
        match decision {
            Decision::FirstSeen => self.counts.confirmed += 1,
            Decision::Duplicate => self.counts.lost_recorded += 1,
            HELD => self.counts.lost_held += 1,
            Decision::Undecided(_) => {}
        }
    }

    /// Returns the counts of claims, including those that are held now.
    pub(crate) fn counts(&self, now_ms: MonotonicMs) -> ClaimCounts {
        ClaimCounts {
            open: self.table.held(now_ms) as u64,
            bytes: self.table.bytes(),
            unsure_ms: self.unsure.left_ms(|_| true, now_ms).max(self.former_filter_left_ms(now_ms)).unwrap_or(0),
            ..self.counts
        }
    }

    /// Puts the claims into the state that they would have after a restart of the node, although its process continues.
    /// The other nodes may have taken over the events of this node in the meantime, and may have granted claims that
    /// this node does not know. This node therefore grants a claim on an event only when all such claims have certainly
    /// ended.
    pub(crate) fn mark_restarted(&mut self, epoch: Epoch, others: impl Iterator<Item = NodeId>) {
        self.granted = 0;
        self.note_head_change(None, epoch, others);
    }
}

/// Returns the decision on a request whose caller no longer holds the event.
pub(crate) fn lost(lost: Lost) -> Decision {
    match lost {
        Lost::NotHeld => HELD,
        Lost::Recorded => Decision::Duplicate,
    }
}

/// Returns the part of a reply which says that another client holds the event for `left_ms` more milliseconds.
pub(crate) fn other(left_ms: u64) -> Hold {
    Hold::Other { left_ms: u32::try_from(left_ms).unwrap_or(u32::MAX) }
}

/// Returns the number under which claim tables store an event. It is computed from all positions of the event, or from
/// its block and words.
pub(crate) fn event_of(probes: &Probes, index: usize) -> u128 {
    match probes.block(index) {
        Some(probe) => event_of_words([probe.block].into_iter().chain(probe.words)),
        None => event_of_positions(probes.positions(index)),
    }
}

/// Returns the number under which claim tables store the event with these positions.
pub(crate) fn event_of_positions(positions: &[u64]) -> u128 {
    event_of_words(positions.iter().copied())
}

fn event_of_words(words: impl Iterator<Item = u64>) -> u128 {
    let seed = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C834_u128;
    words.fold(seed, |sum, word| {
        let mixed = (sum ^ u128::from(word)).wrapping_mul(0xDA94_2042_E4DD_58B5_2360_ED05_1FC6_5DA5);
        mixed ^ mixed >> 64
    })
}

/// Returns the number by which a retry of a claim request is recognized. The number is computed from the idempotency
/// key of the event, so a retry has the same number as the first attempt. If the event has no key of its own, the
/// number is computed from the key of the batch and the index of the event in the batch.
pub(crate) fn tag_of(name: Option<SubmissionName>, batch: BatchName, index: usize) -> u64 {
    let words = match name {
        Some(name) => [name.source as u64, (name.source >> 64) as u64, name.number, u64::MAX],
        None => [batch.producer as u64, (batch.producer >> 64) as u64, batch.sequence, index as u64],
    };
    let sum = event_of_words(words.into_iter());
    sum as u64 ^ (sum >> 64) as u64
}
