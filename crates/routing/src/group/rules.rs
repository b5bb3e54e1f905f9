//! The rules on which promises rest, one name each, and what happens where one is broken.
//!
//! Promises: without the feature `broken-rules`, which only tests ask for, every rule is kept, at no cost. Must not know: what
//! finds a rule that is broken.

use super::guard::{Admission, Standing};

/// A rule that nodes keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Rule {
    /// Submissions of one event wait for the first of them, where slices share events.
    SingleFlight,
    /// An event stays in flight until all of its cells are set, where slices share events.
    AwaitsSets,
    /// What is to be told when all have acknowledged is told then, and not before.
    AwaitsAcknowledgements,
    /// All cells of a new event are set, also those that are set already and expire sooner.
    SetsAllCells,
    /// What is told under a name is told again.
    RemembersNames,
    /// What is told of a durable filter is on disk before.
    AwaitsDisk,
    /// What is remembered of submissions is taken up from the journal, too.
    RestoresNames,
    /// Cells that were set for other nodes are kept as well as those of own events.
    KeepsPeerSets,
    /// What nodes ask and set by an older map than the receiver's is refused.
    FencesEpochs,
    /// Slices that may lack something count as complete only when that has expired.
    MindsGaps,
    /// A copy that lacks something counts as complete when it has fetched all of it.
    FetchesAll,
    /// Who has taken over a slice heads its events only when the node before has ended them.
    AwaitsFormerHeads,
    /// What a clock that is behind has recorded is not gone by one that is ahead.
    MindsOtherClocks,
    /// Nothing expires before its time.
    ExpiresOnTime,
    /// A node that has not heard from a majority of the cluster lately records nothing.
    HoldsLease,
    /// Slices that may lack something wait until nobody may record in their place any more.
    AwaitsLeases,
    /// A node says that it is ready when it has what it can get from others, and not before.
    ReadyWhenWhole,
    /// What a node keeps on a disk that hangs is for the others to answer.
    GivesUpHungDisks,
    /// A node whose clock is not known to agree with those of most others stamps nothing.
    MeasuresClocks,
    /// What is far ahead of a clock moves it only where the time of day or other events bear it out.
    BearsOutTimes,
    /// A filter that was altered is there, and asked, until all that it has has expired.
    KeepsFormers,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::SingleFlight,
        Self::AwaitsSets,
        Self::AwaitsAcknowledgements,
        Self::SetsAllCells,
        Self::RemembersNames,
        Self::AwaitsDisk,
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
        Self::BearsOutTimes,
        Self::KeepsFormers,
    ];
}

/// Which rules are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    #[cfg(feature = "broken-rules")]
    broken: u32,
}

impl Rules {
    /// All but one, to show what goes wrong then.
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

/// What is known of a batch: nothing, where the rule that something is remembered is broken.
pub(crate) fn remembered(admission: Admission, standings: &mut [Standing], rules: Rules) -> Admission {
    if rules.keep(Rule::RemembersNames) || admission != Admission::Known {
        return admission;
    }
    standings.fill(Standing::New);
    Admission::New
}
