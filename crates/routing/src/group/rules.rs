//! The rules on which promises rest, one name each, and what happens where one is broken.
//!
//! Promises: without the feature `broken-rules`, which only tests ask for, every rule is kept, at no cost. Must not
//! know: which test finds a broken rule.

use super::guard::{Admission, Standing};

/// A rule that nodes keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Rule {
    /// Submissions of one event wait for the first of them, where slices share events.
    SingleFlight,
    /// An event stays in flight until all of its cells are set, where slices share events.
    AwaitsSets,
    /// Each message of sets has a number of its own: an acknowledgement does not count for sets that gather behind it.
    NumbersSets,
    /// A reply that is due when all have acknowledged leaves then, and not before.
    AwaitsAcknowledgements,
    /// All cells of a new event are set, also those that are set already and expire sooner.
    SetsAllCells,
    /// A retry gets the reply of the first try.
    RemembersNames,
    /// The records of a durable filter's reply are on disk before it leaves.
    AwaitsDisk,
    /// What replies and messages rest on is persisted ahead of them.
    PersistsFirst,
    /// The guard is restored from the journal, too.
    RestoresNames,
    /// Cells that were set for other nodes are persisted as well as those of own events.
    KeepsPeerSets,
    /// Tests and sets by a map of another epoch than the receiver's are refused.
    FencesEpochs,
    /// Slices that may lack events count as complete only when these have expired.
    MindsGaps,
    /// A copy that lacks cells counts as complete only when it has fetched all of them.
    FetchesAll,
    /// A node that has taken over a slice heads its events only when the former head has ended them.
    AwaitsFormerHeads,
    /// Events that were recorded by a clock that is behind do not expire early by one that is ahead.
    MindsOtherClocks,
    /// Nothing expires before its time.
    ExpiresOnTime,
    /// A node that has not heard from a majority of the cluster lately records nothing.
    HoldsLease,
    /// Slices that may lack events wait until no node may record in their place any more.
    AwaitsLeases,
    /// A node says that it is ready when it has fetched what it can get from others, and not before.
    ReadyWhenWhole,
    /// Copies on a disk that hangs are given up, and other copies answer.
    GivesUpHungDisks,
    /// A node whose clock is not known to agree with those of most others stamps no events.
    MeasuresClocks,
    /// A node that starts compares its clock with the time that it relied on last.
    ComparesFirstLook,
    /// A node whose machine may have stood still with all its clocks stamps and records nothing until most others have confirmed its
    /// time, and its lease is over.
    MindsStandstills,
    /// A time far ahead of a clock moves it only where the time of day or other events bear it out.
    BearsOutTimes,
    /// A filter that was altered is there, and asked, until all of its events have expired.
    KeepsFormers,
    /// Cells of another copy count as of the time at which they were read, so that no merge shortens an expiry.
    DatesCells,
    /// A claim that is granted records nothing: only its confirm does.
    GrantsRecordNothing,
    /// An event is granted when all nodes that would record it have answered, also where one of them does not know it.
    AwaitsAllAnswers,
    /// A head grants nothing that a former head may have granted, until the lease of that is over.
    WaitsOutClaims,
    /// A consumer counts its lease from when it has asked first, not from when it got the reply.
    CountsLeasesFromAsking,
    /// A node that has granted an event as its head says so when another head asks.
    FormerHeadsVeto,
    /// Who confirms or releases shows the fence of the grant.
    MindsFences,
    /// An event that somebody holds is not called first-seen to others.
    MindsClaims,
    /// The reply to a confirm leaves when all nodes have recorded the event, whatever the filter's other replies do.
    ConfirmsAwaitAll,
    /// A claim that comes again gets the fence that it has.
    RemembersClaims,
    /// Who waited for an event that was granted is asked about anew.
    AsksJoinersAnew,
    /// A filter that was altered keeps the claims that were granted there.
    FormersKeepClaims,
    /// A lease that is over keeps nobody else from the event.
    ClaimsEnd,
    /// Where nobody knows whether an event is held, the reply says that, and not that it is held.
    TellsUnknownClaims,
    /// A filter grants nothing that the filter before it may have granted, if that one can no longer be asked.
    WaitsOutFormerFilters,
    /// What the sender of a stream may do is looked up anew once its entry node has another map.
    RightsFollowTheMap,
    /// The door for Redis clients stamps events by the time of day that its node relies on, and stamps none while there is no such
    /// time.
    DoorStampsByJudgedTime,
    /// A node that is stopped confirms the claims that wait at its door.
    DoorConfirmsBeforeStop,
    /// The door confirms no claim of a client that has lost the right to record.
    DoorAsksRightsAtConfirm,
    /// Each filter of an alteration counts a key's own time by its own window.
    CountsTtlByEachWindow,
}

impl Rule {
    /// All but those of claims and of rights.
    pub const ALL: [Self; 26] = [
        Self::SingleFlight,
        Self::AwaitsSets,
        Self::NumbersSets,
        Self::AwaitsAcknowledgements,
        Self::SetsAllCells,
        Self::RemembersNames,
        Self::AwaitsDisk,
        Self::PersistsFirst,
        Self::RestoresNames,
        Self::KeepsPeerSets,
        Self::FencesEpochs,
        Self::MindsGaps,
        Self::FetchesAll,
        Self::AwaitsFormerHeads,
        Self::MindsOtherClocks,
        Self::ExpiresOnTime,
        Self::HoldsLease,
        Self::AwaitsLeases,
        Self::ReadyWhenWhole,
        Self::GivesUpHungDisks,
        Self::MeasuresClocks,
        Self::ComparesFirstLook,
        Self::MindsStandstills,
        Self::BearsOutTimes,
        Self::KeepsFormers,
        Self::DatesCells,
    ];

    /// Those on which the promises of claims rest.
    pub const OF_CLAIMS: [Self; 14] = [
        Self::GrantsRecordNothing,
        Self::AwaitsAllAnswers,
        Self::WaitsOutClaims,
        Self::CountsLeasesFromAsking,
        Self::FormerHeadsVeto,
        Self::MindsFences,
        Self::MindsClaims,
        Self::ConfirmsAwaitAll,
        Self::RemembersClaims,
        Self::AsksJoinersAnew,
        Self::FormersKeepClaims,
        Self::ClaimsEnd,
        Self::TellsUnknownClaims,
        Self::WaitsOutFormerFilters,
    ];

    /// That on which the promise of rights rests.
    pub const OF_RIGHTS: [Self; 1] = [Self::RightsFollowTheMap];

    /// Those on which the promises of the door for Redis clients rest.
    pub const OF_DOORS: [Self; 4] = [
        Self::DoorStampsByJudgedTime,
        Self::DoorConfirmsBeforeStop,
        Self::DoorAsksRightsAtConfirm,
        Self::CountsTtlByEachWindow,
    ];
}

/// Which rules are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    #[cfg(feature = "broken-rules")]
    broken: u64,
}

impl Rules {
    /// All rules but one, to show what goes wrong without it.
    #[cfg(feature = "broken-rules")]
    pub const fn without(rule: Rule) -> Self {
        Self { broken: 1 << rule as u32 }
    }

    /// Whether a rule is kept.
    #[cfg(feature = "broken-rules")]
    pub const fn keep(self, rule: Rule) -> bool {
        self.broken & 1 << rule as u32 == 0
    }

    /// Whether a rule is kept.
    #[cfg(not(feature = "broken-rules"))]
    pub const fn keep(self, _rule: Rule) -> bool {
        true
    }
}

/// What the guard knows of a batch: nothing, where the rule that names are remembered is broken.
pub(crate) fn remembered(admission: Admission, standings: &mut [Standing], rules: Rules) -> Admission {
    if rules.keep(Rule::RemembersNames) || admission != Admission::Known {
        return admission;
    }
    standings.fill(Standing::New);
    Admission::New
}
