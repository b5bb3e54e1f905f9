//! The claims of the events that a group heads: what both machines of groups share.
//!
//! Promises: each grant of this process has a greater fence than the grants before it. An event is not granted while another head, or
//! the filter that this one replaced, may hold a claim of it. This module must not depend on cells or messages.

use firstseen_filter::Probes;

use super::former_filter::FormerFilter;
use super::limits::OwnerLimits;
use super::rules::{Rule, Rules};
use super::site::Site;
use super::state::ClaimCounts;
use super::unsure::Unsure;
use crate::claims::{BeforeTest, ClaimCall, ClaimTable, ClaimedBy, Holding, Lost, before_test};
use crate::ids::{Epoch, NodeId};
use crate::map::{ClusterMap, FilterRecord};
use crate::protocol::{BatchName, Fence, Hold, MonotonicMs, Operation, SubmissionName};
use crate::verdict::{Decision, Reason};

/// The decision on an event that somebody holds.
pub(crate) const HELD: Decision = Decision::Undecided(Reason::Claimed);

/// Who has not said by which map it acts is asked again after so long.
const ASK_AGAIN_MS: u64 = 1_000;
/// So often claims whose leases have been over for long are forgotten.
const PASS_EVERY_MS: u64 = 1_000;
/// So often, at most, all claims are looked at, where their leases may be over and their room is needed.
const DROP_EVERY_MS: u64 = 100;

/// The claims of a group whose filter has any.
pub(crate) struct GroupClaims<Former> {
    /// The greatest lease of a claim, which is no lease to record (`lease.rs`).
    claim_lease_max_ms: u64,
    rules: Rules,
    table: ClaimTable,
    /// Grants that this process has given.
    granted: u64,
    unsure: Unsure<Former>,
    /// The filter that this one has followed, if it has.
    former_filter: Option<FormerFilter>,
    /// The epoch at which the heads of events last changed here. The event of an older grant may have been recorded by another
    /// head meanwhile, so its confirm is tested.
    headed_since: Epoch,
    /// When nodes are asked by which map they act.
    next_ask_ms: MonotonicMs,
    /// When claims are looked at whose leases may have been over for long, and when all are.
    next_pass_ms: MonotonicMs,
    next_drop_ms: MonotonicMs,
    counts: ClaimCounts,
}

/// A test of an event that is to be granted.
#[derive(Clone, Copy)]
pub(crate) struct GrantRequest {
    /// By which tables of claims know the event.
    pub(crate) event: u128,
    /// Names the claim.
    pub(crate) tag: u64,
    /// When nodes were asked: the lease runs from then on.
    pub(crate) since_ms: MonotonicMs,
    pub(crate) lease_ms: u32,
}

impl<Former> GroupClaims<Former> {
    /// None where the filter has no claims. In a tree the root has them.
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
            unsure: Unsure::new(claim_lease_max_ms),
            former_filter: FormerFilter::of(map, record, claim_lease_max_ms, limits),
            headed_since: Epoch::default(),
            next_ask_ms: MonotonicMs::START,
            next_pass_ms: MonotonicMs::START,
            next_drop_ms: MonotonicMs::START,
            counts: ClaimCounts::default(),
        })
    }

    /// Whether a submission of claims can be one of this filter.
    pub(crate) fn takes(&self, operation: Operation, fences: &[Fence], events: usize) -> bool {
        match operation {
            Operation::Claim { lease_ms } => {
                (1..=self.claim_lease_max_ms).contains(&u64::from(lease_ms)) && fences.is_empty()
            }
            ending if ending.ends_claims() => fences.len() == events,
            _ => fences.is_empty(),
        }
    }

    /// Returns the reply if a former head, or the filter before, may hold an event that is not recorded, and `None` if neither
    /// can. `counts` returns whether a change of heads concerns that event.
    pub(crate) fn unknown(&self, counts: impl Fn(Option<&Former>) -> bool, now_ms: MonotonicMs) -> Option<Reason> {
        let is_unknown = self.former_filter_left_ms(now_ms).is_some()
            || self.rules.keep(Rule::WaitsOutClaims) && self.unsure.left_ms(counts, now_ms).is_some();
        let says_unknown = self.rules.keep(Rule::TellsUnknownClaims);
        is_unknown.then_some(if says_unknown { Reason::ClaimsUnknown } else { Reason::Claimed })
    }

    fn former_filter_left_ms(&self, now_ms: MonotonicMs) -> Option<u64> {
        let keeps = self.rules.keep(Rule::WaitsOutFormerFilters);
        self.former_filter.as_ref().filter(|_| keeps)?.left_ms(now_ms)
    }

    /// Returns whether all nodes and filters that may have granted claims are known and can be asked.
    pub(crate) fn is_sure(&self, now_ms: MonotonicMs) -> bool {
        self.unsure.is_over() && self.former_filter_left_ms(now_ms).is_none()
    }

    /// Follows a new map.
    pub(crate) fn follow(&mut self, map: &ClusterMap) {
        self.former_filter.iter_mut().for_each(|former| former.follow(map));
    }

    pub(crate) fn unsure_mut(&mut self) -> &mut Unsure<Former> {
        &mut self.unsure
    }

    /// The nodes to ask now by which map they act.
    pub(crate) fn ask(&mut self, now_ms: MonotonicMs) -> Vec<NodeId> {
        if now_ms < self.next_ask_ms {
            return Vec::new();
        }
        let unheard = self.unsure.unheard();
        if !unheard.is_empty() {
            self.next_ask_ms = now_ms.after(ASK_AGAIN_MS);
        }
        unheard
    }

    /// When there is something to do, if nothing comes.
    pub(crate) fn next_ms(&self) -> Option<MonotonicMs> {
        let ask_ms = (!self.unsure.unheard().is_empty()).then_some(self.next_ask_ms);
        let pass_ms = (!self.table.is_at_rest()).then_some(self.next_pass_ms);
        ask_ms.into_iter().chain(pass_ms).chain(self.unsure.next_ms()).min()
    }

    /// Time has passed: changes of heads may be over.
    pub(crate) fn note_time(&mut self, now_ms: MonotonicMs) {
        self.unsure.pass(now_ms);
        self.former_filter.iter_mut().for_each(|former| former.pass(now_ms));
    }

    /// Time has passed: changes of heads may be over, and claims that nobody comes back for are forgotten.
    pub(crate) fn pass(&mut self, now_ms: MonotonicMs) {
        self.note_time(now_ms);
        if self.next_pass_ms <= now_ms && !self.table.is_at_rest() {
            if self.rules.keep(Rule::ClaimsEnd) {
                self.table.pass(now_ms);
            }
            self.next_pass_ms = now_ms.after(PASS_EVERY_MS);
        }
    }

    /// The number of events that the table holds, which take room. If `claimed` more would not fit beside them, claims
    /// whose leases are over are dropped first, once in [`DROP_EVERY_MS`] at most.
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

    /// Whether a call of an event may find anything here: most filters have few claims at a time.
    pub(crate) fn is_any(&self) -> bool {
        !self.table.is_empty()
    }

    /// For how long this node holds an event for somebody.
    pub(crate) fn held_ms(&self, event: u128, now_ms: MonotonicMs) -> Option<u64> {
        match self.table.holding(event, now_ms) {
            Holding::Held { left_ms, .. } => Some(left_ms).filter(|_| self.rules.keep(Rule::FormerHeadsVeto)),
            Holding::Free | Holding::Expired { .. } => None,
        }
    }

    /// What follows from the claims here for a call about an event.
    pub(crate) fn before_test(&self, call: ClaimCall, event: u128, now_ms: MonotonicMs) -> BeforeTest {
        let holding = self.table.holding(event, now_ms);
        let (call, holding) =
            if self.rules == Rules::default() { (call, holding) } else { self.by_rules(call, holding) };
        match (before_test(call, holding), holding) {
            // Another head may have recorded it meanwhile.
            (BeforeTest::Record, Holding::Held { by, .. } | Holding::Expired { by })
                if by.fence.epoch() < self.headed_since =>
            {
                BeforeTest::Ask
            }
            (step, _) => step,
        }
    }

    /// By the map of this epoch some events have another head than they had by `former`; other nodes have copies of slices.
    pub(crate) fn become_unsure(&mut self, former: Option<Former>, epoch: Epoch, others: impl Iterator<Item = NodeId>) {
        self.headed_since = epoch;
        self.unsure.push(former, epoch, others);
    }

    /// The call and what is held, as they are where a rule is broken.
    fn by_rules(&self, call: ClaimCall, holding: Holding) -> (ClaimCall, Holding) {
        let rules = self.rules;
        let holding = match holding {
            Holding::Expired { by } if !rules.keep(Rule::ClaimsEnd) => Holding::Held { by, left_ms: 1 },
            holding => holding,
        };
        let (Holding::Held { by, .. } | Holding::Expired { by }) = holding else { return (call, holding) };
        match call {
            ClaimCall::Claim { tag } if tag == by.tag && !rules.keep(Rule::RemembersClaims) => (call, Holding::Free),
            ClaimCall::Observe | ClaimCall::Test if !rules.keep(Rule::MindsClaims) => (call, Holding::Free),
            ClaimCall::Confirm(_) if !rules.keep(Rule::MindsFences) => (ClaimCall::Confirm(by.fence), holding),
            ClaimCall::Release(_) if !rules.keep(Rule::MindsFences) => (ClaimCall::Release(by.fence), holding),
            call => (call, holding),
        }
    }

    /// The filter is closed, as another one has followed.
    pub(crate) fn close(&mut self) {
        if !self.rules.keep(Rule::FormersKeepClaims) {
            self.table = ClaimTable::new(0, 0);
        }
    }

    /// Grants an event of which no slice and no node knows anything.
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

    /// Confirms an event whose window is over: nothing is recorded, and the claim is forgotten, so that no other confirm succeeds.
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

    /// The event is recorded.
    pub(crate) fn forget(&mut self, event: u128) {
        self.table.forget(event);
    }

    /// Lets an event go, if it is held under this fence.
    pub(crate) fn release(&mut self, event: u128, fence: Fence, now_ms: MonotonicMs) -> Decision {
        match self.before_test(ClaimCall::Release(fence), event, now_ms) {
            BeforeTest::Release => {
                let fence = if self.rules.keep(Rule::MindsFences) { Some(fence) } else { self.holder(event, now_ms) };
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

    /// A confirm has this decision.
    pub(crate) fn count_confirm(&mut self, decision: Decision) {
        match decision {
            Decision::FirstSeen => self.counts.confirmed += 1,
            Decision::Duplicate => self.counts.lost_recorded += 1,
            HELD => self.counts.lost_held += 1,
            Decision::Undecided(_) => {}
        }
    }

    /// What was counted, with what is held now.
    pub(crate) fn counts(&self, now_ms: MonotonicMs) -> ClaimCounts {
        ClaimCounts {
            open: self.table.held(now_ms) as u64,
            bytes: self.table.bytes(),
            unsure_ms: self.unsure.left_ms(|_| true, now_ms).max(self.former_filter_left_ms(now_ms)).unwrap_or(0),
            ..self.counts
        }
    }

    /// The process goes on as another start of its node: others may have gone on without it, and it grants nothing that they
    /// may hold.
    pub(crate) fn begin_anew(&mut self, epoch: Epoch, others: impl Iterator<Item = NodeId>) {
        self.granted = 0;
        self.become_unsure(None, epoch, others);
    }
}

/// The decision on a call whose caller has lost the event.
pub(crate) fn lost(lost: Lost) -> Decision {
    match lost {
        Lost::NotHeld => HELD,
        Lost::Recorded => Decision::Duplicate,
    }
}

/// What the reply says of an event that another one holds for so long.
pub(crate) fn other(left_ms: u64) -> Hold {
    Hold::Other { left_ms: u32::try_from(left_ms).unwrap_or(u32::MAX) }
}

/// The number by which tables of claims know an event: made of all of its positions, or of its block and words.
pub(crate) fn event_of(probes: &Probes, index: usize) -> u128 {
    match probes.block(index) {
        Some(probe) => event_of_words([probe.block].into_iter().chain(probe.words)),
        None => event_of_positions(probes.positions(index)),
    }
}

/// The same, from the positions.
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

/// Names a claim, so that a retry is known: by the name that the caller gave, or by the batch and the place there.
pub(crate) fn tag_of(name: Option<SubmissionName>, batch: BatchName, index: usize) -> u64 {
    let words = match name {
        Some(name) => [name.source as u64, (name.source >> 64) as u64, name.number, u64::MAX],
        None => [batch.producer as u64, (batch.producer >> 64) as u64, batch.sequence, index as u64],
    };
    let sum = event_of_words(words.into_iter());
    sum as u64 ^ (sum >> 64) as u64
}
