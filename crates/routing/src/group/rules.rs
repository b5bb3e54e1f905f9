//! Names of the rules on which the guarantees of the system rest. A test can switch off a single rule, and must then
//! detect that a guarantee is violated. If it does, this shows two things: the rule is necessary, and the test is able
//! to detect such violations.
//!
//! Without the feature `broken-rules`, which only tests enable, every rule always applies and the checks cost nothing.

use super::guard::{Admission, Standing};

/// A rule that all nodes follow. Each variant states the rule in one sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Rule {
    /// If slices share events, concurrent submissions of one event wait for the first of them.
    SingleFlight,
    /// If slices share events, an event stays in flight until all of its cells are set.
    AwaitsSets,
    /// Each message that sets cells has its own number. An acknowledgement therefore does not count for sets that were
    /// queued after that message.
    NumbersSets,
    /// A reply that waits for acknowledgements is sent only when all of them have arrived.
    AwaitsAcknowledgements,
    /// A new event sets all of its cells, including cells that are already set but expire sooner.
    SetsAllCells,
    /// A retry gets the same reply as the first try.
    RemembersIdempotencyKeys,
    /// The records of a durable filter are on disk before the reply that depends on them is sent.
    AwaitsDisk,
    /// Records are persisted before the replies and messages that depend on them.
    PersistsFirst,
    /// A restart restores the idempotency keys of the replay guard from the journal, in addition to the cells.
    RestoresIdempotencyKeys,
    /// A node persists the cells that it set for other nodes in the same way as the cells of its own events.
    PersistsPeerSets,
    /// A node rejects tests and sets whose epoch differs from its own.
    FencesEpochs,
    /// A slice that may lack events counts as complete only when these events have expired.
    AwaitsGapExpiry,
    /// A copy that lacks cells counts as complete only when it has fetched all of them.
    FetchesAll,
    /// A node that has taken over a slice acts as head of its events only after the former head has finished its events
    /// in flight.
    AwaitsFormerHeads,
    /// Events that were recorded with a slow clock do not expire early because of a fast clock on another node.
    ToleratesClockSkew,
    /// No event expires before its time.
    ExpiresOnTime,
    /// A node that has not heard from a majority of the cluster recently records no events.
    HoldsLease,
    /// A slice that may lack events waits until no other node may still record in its place.
    AwaitsLeases,
    /// A node reports itself as ready only after it has fetched everything that it can get from other nodes.
    ReadyWhenComplete,
    /// A node stops using copies on a hung disk, so that other copies can reply.
    AbandonsHungDisks,
    /// A node stamps no events while it does not know that its clock agrees with the clocks of most other nodes.
    MeasuresClocks,
    /// A node that starts compares its clock with the last time that it relied on.
    ChecksClockAtStart,
    /// A machine may have been suspended together with all of its clocks, so that its node does not know how much time
    /// has passed. After such a suspension, the node assigns no times to events and records no events, until two
    /// conditions hold. Most of the other nodes must have confirmed its time, and the lease from before the suspension
    /// must have ended.
    DetectsSuspensions,
    /// An event time far ahead of a clock moves that clock only if the time of day or other events confirm it.
    ConfirmsFutureTimes,
    /// The predecessor of an altered filter stays available for lookups until all of its events have expired.
    RetainsPredecessors,
    /// Cells received from another copy count as of the time at which they were read, so that no merge shortens an
    /// expiry.
    TimestampsCells,
    /// Granting a claim records nothing. Only the confirmation of the claim records the event.
    GrantsRecordNothing,
    /// A claim is granted only when all nodes that would record the event have replied, even if one of them does not
    /// know the event.
    AwaitsAllAnswers,
    /// A head grants no event that a former head may have granted until the lease of that grant has ended.
    AwaitsFormerGrants,
    /// A consumer counts its lease from its first request, not from the reply.
    CountsLeasesFromRequest,
    /// A node that has granted a claim as head of the event reports it when another head asks.
    FormerHeadsVeto,
    /// A confirmation or release must contain the fence of the grant.
    ChecksFences,
    /// While a client holds an event, the event is not reported as first-seen to other clients.
    RespectsClaims,
    /// The reply to a confirmation is sent when all nodes have recorded the event, even if the filter's other replies
    /// are sent earlier.
    ConfirmsAwaitAll,
    /// A repeated claim request gets the fence of the first grant.
    RemembersClaims,
    /// Submissions that waited for an event which was then granted are tested again.
    RetestsWaiters,
    /// An altered filter keeps the claims that its predecessor granted.
    InheritsClaims,
    /// A claim whose lease has ended does not block other clients from the event.
    ClaimsExpire,
    /// If it is unknown whether an event is held, the reply says so, and does not claim that the event is held.
    ReportsUnknownClaims,
    /// A filter does not grant events that its predecessor may have granted, if that predecessor can no longer be
    /// asked.
    AwaitsFormerFilters,
    /// The rights of a stream's sender are looked up again as soon as its entry node has a new cluster map.
    RightsFollowTheMap,
    /// The Redis endpoint stamps events with the time of day that its node has verified. While there is no verified
    /// time, it stamps no events.
    EndpointStampsByVerifiedTime,
    /// A node that is being stopped confirms the claims that are still waiting at its Redis endpoint.
    EndpointConfirmsBeforeStop,
    /// The Redis endpoint does not confirm claims of a client that has lost the right to record.
    EndpointChecksRightsAtConfirm,
    /// If a key has its own time to live, each filter in a chain of altered filters applies it within its own window.
    CountsTtlByEachWindow,
    /// A level of a tree decides events alone only while it is cut off from its parent level, and not while the parent
    /// level can be asked but does not decide.
    DecidesAloneOnlyIfCutOff,
    /// A level of a tree that is cut off continues to decide events alone after the leases of its nodes have ended.
    DecidesAloneWithoutLease,
    /// A level of a durable tree writes an event that it decides alone to the journal before it replies.
    PersistsOwedEvents,
    /// A level of a durable tree that starts again reports the events that an earlier process has decided alone.
    RestoresOwedEvents,
    /// A level of a tree forgets an event that it has decided alone only after its parent level has answered.
    ReportsUntilAnswered,
}

impl Rule {
    /// All rules except those about claims, access rights and the Redis endpoint.
    pub const ALL: [Self; 26] = [
        Self::SingleFlight,
        Self::AwaitsSets,
        Self::NumbersSets,
        Self::AwaitsAcknowledgements,
        Self::SetsAllCells,
        Self::RemembersIdempotencyKeys,
        Self::AwaitsDisk,
        Self::PersistsFirst,
        Self::RestoresIdempotencyKeys,
        Self::PersistsPeerSets,
        Self::FencesEpochs,
        Self::AwaitsGapExpiry,
        Self::FetchesAll,
        Self::AwaitsFormerHeads,
        Self::ToleratesClockSkew,
        Self::ExpiresOnTime,
        Self::HoldsLease,
        Self::AwaitsLeases,
        Self::ReadyWhenComplete,
        Self::AbandonsHungDisks,
        Self::MeasuresClocks,
        Self::ChecksClockAtStart,
        Self::DetectsSuspensions,
        Self::ConfirmsFutureTimes,
        Self::RetainsPredecessors,
        Self::TimestampsCells,
    ];

    /// The rules on which the guarantees of claims rest.
    pub const OF_CLAIMS: [Self; 14] = [
        Self::GrantsRecordNothing,
        Self::AwaitsAllAnswers,
        Self::AwaitsFormerGrants,
        Self::CountsLeasesFromRequest,
        Self::FormerHeadsVeto,
        Self::ChecksFences,
        Self::RespectsClaims,
        Self::ConfirmsAwaitAll,
        Self::RemembersClaims,
        Self::RetestsWaiters,
        Self::InheritsClaims,
        Self::ClaimsExpire,
        Self::ReportsUnknownClaims,
        Self::AwaitsFormerFilters,
    ];

    /// The rule on which the guarantee about access rights rests.
    pub const OF_RIGHTS: [Self; 1] = [Self::RightsFollowTheMap];

    /// The rules on which the guarantees of the Redis endpoint rest.
    pub const OF_ENDPOINTS: [Self; 4] = [
        Self::EndpointStampsByVerifiedTime,
        Self::EndpointConfirmsBeforeStop,
        Self::EndpointChecksRightsAtConfirm,
        Self::CountsTtlByEachWindow,
    ];

    /// The rules on which the guarantees of trees rest whose levels decide alone while they are cut off.
    pub const OF_TREES: [Self; 5] = [
        Self::DecidesAloneOnlyIfCutOff,
        Self::DecidesAloneWithoutLease,
        Self::PersistsOwedEvents,
        Self::RestoresOwedEvents,
        Self::ReportsUntilAnswered,
    ];
}

/// The set of rules that are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    #[cfg(feature = "broken-rules")]
    broken: u64,
}

impl Rules {
    /// Returns a set with all rules except one. Tests use it to show what goes wrong without that rule.
    #[cfg(feature = "broken-rules")]
    pub const fn without(rule: Rule) -> Self {
        Self { broken: 1 << rule as u32 }
    }

    /// Returns whether a rule is followed.
    #[cfg(feature = "broken-rules")]
    pub const fn keep(self, rule: Rule) -> bool {
        self.broken & 1 << rule as u32 == 0
    }

    /// Returns whether a rule is followed, which is always the case without the feature `broken-rules`.
    #[cfg(not(feature = "broken-rules"))]
    pub const fn keep(self, _rule: Rule) -> bool {
        true
    }
}

/// Returns what the replay guard knows about a batch. A test can switch off the rule that idempotency keys are
/// remembered. In that case, the function reports every event as new, so that a retry is executed again and the test
/// can observe the consequences.
pub(crate) fn remembered(admission: Admission, standings: &mut [Standing], rules: Rules) -> Admission {
    if rules.keep(Rule::RemembersIdempotencyKeys) || admission != Admission::Known {
        return admission;
    }
    standings.fill(Standing::New);
    Admission::New
}
