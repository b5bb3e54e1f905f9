//! Laws about claims:
//!
//! - At most one consumer relies on an event at any time.
//! - The fences of an event's grants increase.
//! - An event that a consumer holds is first-seen to no other client.
//! - A lease is lost only to a later claim, and only after it has ended.
//! - Every lease ends.
//!
//! Three other laws cover the remaining guarantees about claims:
//!
//! - `one_winner` requires that only one confirmation of an event succeeds.
//! - `no_false_negative` requires that an event that is already recorded is not granted.
//! - `no_own_duplicate` requires that a lease is lost because of a recorded event only if another call has recorded the
//!   event.

use std::collections::BTreeMap;

use super::Violation;
use crate::claims::{ClaimRecord, Grant};
use crate::history::{Call, History};
use firstseen_routing::{Decision, Reason};

const ONE_HOLDER: &str = "one holder: two consumers held one event at the same time";
const RISES: &str = "fences rise: the fence of a later grant of an event is not greater";
const HELD: &str = "held is not new: an event that a consumer held was first-seen to another client";
const EXPLAINED: &str = "a lease is lost to somebody: no later claim explains it, or it had not ended";
const IN_PROGRESS: &str = "in progress is held: an event was reported as held although no client can hold it";
const KNOWN: &str = "claims are known in the end: the holder of an event stays unknown long after all faults";

pub(super) fn check(history: &History, by_event: &BTreeMap<u64, Vec<&Call>>, violations: &mut Vec<Violation>) {
    let mut claims: BTreeMap<u64, Vec<&ClaimRecord>> = BTreeMap::new();
    for claim in &history.claims {
        claims.entry(claim.event).or_default().push(claim);
    }
    for (event, claims) in &claims {
        let calls = by_event.get(event).map_or(&[][..], |calls| calls);
        let granted: Vec<Granted<'_>> =
            claims.iter().filter_map(|claim| Some(Granted { claim, grant: claim.grant? })).collect();
        for (index, first) in granted.iter().enumerate() {
            for second in &granted[index + 1..] {
                if first.overlaps(second) {
                    violations.push(first.violation(ONE_HOLDER, second));
                }
                if first.is_overtaken_by(second) || second.is_overtaken_by(first) {
                    violations.push(first.violation(RISES, second));
                }
            }
            if first.is_lost_to_nobody(claims) {
                violations.push(Violation::found(EXPLAINED, format!("{:?}", first.claim)));
            }
        }
        held(history, &granted, calls, violations);
    }
    for (event, calls) in by_event {
        let claims = claims.get(event).map_or(&[][..], |claims| claims);
        in_progress(claims, calls, violations);
    }
    if let Some(healed) = &history.healed {
        known(healed.at_us, history, violations);
    }
}

/// A granted claim with its grant.
struct Granted<'a> {
    claim: &'a ClaimRecord,
    grant: Grant,
}

impl Granted<'_> {
    /// Returns whether two consumers relied on the event at the same time.
    fn overlaps(&self, other: &Self) -> bool {
        let replied_us = self.claim.replied_us.max(other.claim.replied_us).unwrap_or(u64::MAX);
        replied_us < self.grant.until_us.min(other.grant.until_us)
    }

    /// Returns whether `later` got a fence that is not greater than the fence of this claim, although it is a later
    /// claim of the same event. Fences must increase from claim to claim.
    ///
    /// A claim counts as later only if it was requested after this claim was answered. If the requests overlap in time,
    /// their order says nothing, because the earlier request may have been retried for a long time and granted after
    /// the other.
    fn is_overtaken_by(&self, later: &Self) -> bool {
        let is_before = self.claim.replied_us.is_some_and(|replied_us| replied_us <= later.claim.asked_us);
        is_before && self.grant.fence >= later.grant.fence
    }

    /// Returns whether the consumer lost the lease without a valid reason. There are two such cases:
    ///
    /// - The lease was lost before its end, although no other client can get the event before that time.
    /// - The lease was lost after its end, but no other claim can have replaced it.
    ///
    /// Another claim may have replaced this claim even if its first request was sent earlier, because an attempt of a
    /// claim may arrive late.
    fn is_lost_to_nobody(&self, claims: &[&ClaimRecord]) -> bool {
        let Some(lost_us) = self.grant.lost_us else { return false };
        let mut others = claims.iter().filter(|claim| !std::ptr::eq(**claim, self.claim));
        let is_explained =
            others.any(|claim| claim.replied_us.is_none_or(|replied_us| replied_us >= self.claim.asked_us));
        lost_us < self.grant.over_us || !is_explained
    }

    fn violation(&self, law: &'static str, other: &Self) -> Violation {
        Violation::found(law, format!("{:?} and {:?}", self.claim, other.claim))
    }
}

/// Finds observations that got the verdict first-seen while a consumer relied on a claim of the event. Verdicts of a
/// leaf that answers alone are exempt, because such a leaf does not know which events are claimed at the root of its
/// tree.
fn held(history: &History, granted: &[Granted<'_>], calls: &[&Call], violations: &mut Vec<Violation>) {
    for call in calls.iter().filter(|call| call.won() && !call.is_confirm && !history.is_alone(call)) {
        let Some(returned_us) = call.returned_us else { continue };
        if let Some(holder) = granted.iter().find(|holder| holder.claim.holds(call.began_us, returned_us)) {
            let what = Some(format!("{:?}", holder.claim));
            violations.push(Violation { law: HELD, calls: vec![(*call).clone()], what });
        }
    }
}

/// Finds events that were reported as held by a client although no client can have held them. A node that does not know
/// whether a client holds an event must give a different reply.
fn in_progress(claims: &[&ClaimRecord], calls: &[&Call], violations: &mut Vec<Violation>) {
    let longest_us = claims.iter().map(|claim| claim.lease_us).max().unwrap_or(0);
    for call in calls.iter().filter(|call| is_called_held(call)) {
        let is_explained = claims.iter().any(|claim| may_hold(claim, longest_us, call))
            || calls.iter().any(|other| is_unanswered_claim(other, call));
        if !is_explained {
            let what = Some(format!("{claims:?}"));
            violations.push(Violation { law: IN_PROGRESS, calls: vec![(*call).clone()], what });
        }
    }
}

fn is_called_held(call: &Call) -> bool {
    call.verdict == Some(Decision::Undecided(Reason::Claimed)) && !call.is_confirm && call.returned_us.is_some()
}

/// Returns whether a claim may hold the event while `call` is answered. A grant lasts for one lease, so this is
/// possible until one lease after the claim's last attempt. An attempt that the consumer has abandoned also counts,
/// because its message may still be in transit and be granted later.
fn may_hold(claim: &ClaimRecord, longest_us: u64, call: &Call) -> bool {
    let last_us = claim.replied_us.unwrap_or(u64::MAX).max(claim.asked_us).saturating_add(longest_us + SENT_US);
    let is_this_call = call.is_claim && claim.asked_us == call.began_us && claim.is_in_progress;
    let is_before = call.returned_us.is_none_or(|returned_us| claim.asked_us < returned_us);
    is_before && call.began_us < last_us && !is_this_call
}

/// Returns whether `other` is a claim whose consumer got no reply and that may be granted while `call` is answered.
fn is_unanswered_claim(other: &Call, call: &Call) -> bool {
    let is_before = call.returned_us.is_none_or(|returned_us| other.began_us < returned_us);
    other.is_claim && other.returned_us.is_none() && is_before
}

/// Requires that some leases after the end of all failures every node knows who holds its events.
fn known(healed_us: u64, history: &History, violations: &mut Vec<Violation>) {
    let settled_us = healed_us + SETTLE_LEASES * LEASE_MAX_US;
    let unknown = Some(Decision::Undecided(Reason::ClaimsUnknown));
    let mut settled = history.calls.iter().filter(|call| call.began_us > settled_us);
    if let Some(call) = settled.find(|call| call.verdict == unknown) {
        violations.push(Violation { law: KNOWN, calls: vec![call.clone()], what: None });
    }
}

/// Maximum lease of a filter in a storm. Only storms have a time at which all failures have ended.
const LEASE_MAX_US: u64 = 3_000_000;
/// Number of leases after the end of all failures for which a head may wait for the leases of another head.
const SETTLE_LEASES: u64 = 3;
/// Maximum time in microseconds for which a message is in flight, including all tries.
const SENT_US: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use firstseen_routing::{Epoch, Fence, FilterId};

    use super::*;
    use crate::history::Healed;

    fn claim(asked_us: u64, replied_us: u64, until_us: u64, number: u64) -> ClaimRecord {
        let fence = Fence::of_number(FilterId(1), Epoch(1), number);
        let grant = Some(Grant { fence, until_us, over_us: until_us, lost_us: None });
        ClaimRecord {
            event: 7,
            asked_us,
            replied_us: Some(replied_us),
            lease_us: until_us - asked_us,
            is_in_progress: false,
            grant,
        }
    }

    fn broken(claims: Vec<ClaimRecord>, calls: Vec<Call>, healed_us: Option<u64>) -> Vec<&'static str> {
        let healed = healed_us.map(|at_us| Healed { at_us, is_whole: true, lacks: None });
        let history = History { claims, calls, healed, ..History::default() };
        let mut by_event: BTreeMap<u64, Vec<&Call>> = BTreeMap::new();
        history.calls.iter().for_each(|call| by_event.entry(call.event).or_default().push(call));
        let mut violations = Vec::new();
        check(&history, &by_event, &mut violations);
        violations.into_iter().map(|violation| violation.law).collect()
    }

    fn observed(began_us: u64, returned_us: u64, verdict: Decision) -> Call {
        Call { returned_us: Some(returned_us), verdict: Some(verdict), ..Call::begun(1, 7, 0, began_us) }
    }

    #[test]
    fn what_breaks_a_promise_of_claims_is_found() {
        assert_eq!(broken(vec![claim(0, 5, 100, 1), claim(100, 105, 200, 2)], vec![], None), [""; 0]);
        assert_eq!(broken(vec![claim(0, 5, 100, 1), claim(40, 99, 200, 2)], vec![], None), [ONE_HOLDER]);
        assert_eq!(broken(vec![claim(0, 5, 100, 2), claim(100, 105, 200, 2)], vec![], None), [RISES]);
        let tried_for_long = claim(0, 150, 20, 2);
        assert_eq!(broken(vec![tried_for_long, claim(100, 105, 110, 1)], vec![], None), [""; 0]);
        let first = observed(10, 90, Decision::FirstSeen);
        assert_eq!(broken(vec![claim(0, 5, 100, 1)], vec![first.clone()], None), [HELD]);
        assert_eq!(broken(vec![claim(0, 11, 100, 1)], vec![first], None), [""; 0], "it may have come before");
    }

    #[test]
    fn a_lease_that_is_lost_to_nobody_or_early_is_found() {
        let lost = |lost_us: u64| {
            let mut claim = claim(0, 5, 100, 1);
            claim.grant.as_mut().unwrap().lost_us = Some(lost_us);
            claim
        };
        assert_eq!(broken(vec![lost(150)], vec![], None), [EXPLAINED]);
        assert_eq!(broken(vec![lost(150), claim(100, 110, 200, 2)], vec![], None), [""; 0]);
        assert_eq!(broken(vec![lost(90), claim(100, 110, 200, 2)], vec![], None), [EXPLAINED]);
    }

    #[test]
    fn an_event_that_is_called_held_by_nobody_is_found() {
        let late_us = 60_000_000;
        let waits = observed(late_us, late_us + 5, Decision::Undecided(Reason::Claimed));
        assert_eq!(broken(vec![], vec![waits.clone()], None), [IN_PROGRESS]);
        assert_eq!(broken(vec![claim(0, 5, 100, 1)], vec![waits.clone()], Some(1_000)), [IN_PROGRESS]);
        assert_eq!(
            broken(vec![claim(late_us - 50, late_us - 40, late_us + 100, 1)], vec![waits], Some(1_000)),
            [""; 0]
        );
    }

    fn unknown(at_us: u64) -> Call {
        observed(at_us, at_us + 5, Decision::Undecided(Reason::ClaimsUnknown))
    }

    #[test]
    fn an_event_whose_holder_stays_unknown_is_found() {
        assert_eq!(broken(vec![], vec![unknown(5_000_000)], Some(1_000)), [""; 0], "leases may still run");
        assert_eq!(broken(vec![], vec![unknown(5_000_000), unknown(20_000_000)], None), [""; 0], "all is not well");
        assert_eq!(broken(vec![], vec![unknown(20_000_000)], Some(1_000)), [KNOWN]);
    }
}
