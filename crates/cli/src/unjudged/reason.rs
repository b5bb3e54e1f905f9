//! The reasons why a record cannot be judged. Each reason has a name, a meaning, and advice for the user. The names do
//! not change between releases, so scripts can rely on them. The page docs/reference/dedup-messages.md lists all
//! reasons, and a test compares the page with this module.

use std::borrow::Cow;

use firstseen_records::RejectKind;
use firstseen_routing::Reason;

/// What is wrong with a record, and what the user can do about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Explanation {
    /// End of a sentence that starts with "the record" or with its place.
    pub(crate) meaning: &'static str,
    /// What the user can do.
    pub(crate) cure: &'static str,
}

/// Explanation of a late record that is not late by the order of the run's own records. Sorting the input and a greater
/// lateness do not help in this case.
pub(crate) const LATE_BY_OTHERS: Explanation = Explanation {
    meaning: "an earlier run, or another producer, has moved the clock of the filter past its time by more than the window",
    cure: "if an earlier run has read these records, drop them with --late duplicate; or pass all late records on with \
           --late first-seen; or judge them with a filter of their own (another --filter or --state)",
};

/// Why a record cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnjudgedReason {
    /// The record cannot be read, or lacks the fields that are compared.
    Unread(RejectKind),
    /// The record's time is ahead of the other records' times or of the present, and no other record confirms it.
    Future,
    /// The record is older than the window and the lateness together.
    Late,
    /// The filter is full.
    Full,
    /// The cluster did not decide about the event. The reason is one that only clusters have, such as unreachable
    /// nodes.
    ///
    /// Three reasons can occur both with and without a cluster: the event is ahead of the clock, the event is late, or
    /// the filter is full. [`Self::from`] converts these reasons of a cluster to [`Self::Future`], [`Self::Late`] and
    /// [`Self::Full`], so they have the same names in runs with and without a cluster.
    Cluster(Reason),
}

impl From<Reason> for UnjudgedReason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Full => Self::Full,
            Reason::Late => Self::Late,
            Reason::Future => Self::Future,
            reason => Self::Cluster(reason),
        }
    }
}

impl UnjudgedReason {
    /// Returns all reasons in the order in which they are listed.
    pub fn all() -> impl Iterator<Item = Self> {
        let unread = RejectKind::ALL.iter().filter(|kind| **kind != RejectKind::Blank).map(|kind| Self::Unread(*kind));
        let cluster = Reason::ALL.into_iter().map(Self::from).filter(|reason| matches!(reason, Self::Cluster(_)));
        unread.chain([Self::Future, Self::Late, Self::Full]).chain(cluster)
    }

    /// Returns the name of the reason in reports and messages. A reason that comes from a cluster has the same name as
    /// in the cluster's metrics.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Self::Unread(kind) => Cow::Borrowed(kind.name()),
            Self::Future => Cow::Borrowed("future"),
            Self::Late => Cow::Borrowed("late"),
            Self::Full => Cow::Borrowed("full"),
            Self::Cluster(reason) => match serde_json::to_value(reason) {
                Ok(serde_json::Value::String(name)) => Cow::Owned(name),
                _ => Cow::Borrowed("cluster"),
            },
        }
    }

    /// Returns what is wrong with the record, as the end of a sentence that starts with "the record" or with its place.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Unread(kind) => unread_meaning(kind),
            Self::Future => "its time is ahead of the others or of the present, which do not confirm it",
            Self::Late => "the filter has seen times that are later by more than the window",
            Self::Full => "the filter is full and cannot remember it",
            Self::Cluster(reason) => cluster_meaning(reason),
        }
    }

    /// Returns what the user can do about this reason.
    pub fn cure(self) -> &'static str {
        match self {
            Self::Unread(kind) => unread_remedy(kind),
            Self::Future => {
                "correct the clock that stamped it, name the zone of its time with --tz, or accept it with a greater --future-max"
            }
            Self::Late => {
                "feed the oldest records first, or use a greater --lateness, up to twice the window (with --cluster: \
                 `firstseen filter alter --lateness`)"
            }
            Self::Full => {
                "give the filter more room with --capacity or --growth, in a cluster with `firstseen filter alter --capacity`"
            }
            Self::Cluster(reason) => cluster_remedy(reason),
        }
    }

    /// Returns what is wrong with the record, and what the user can do about it.
    pub(crate) fn explanation(self) -> Explanation {
        Explanation { meaning: self.meaning(), cure: self.cure() }
    }

    /// Returns whether the record could not be judged because of a problem with the cluster or with the connection to
    /// it. Such a problem may be temporary, and it says nothing about the record itself.
    pub(crate) fn is_trouble(self) -> bool {
        matches!(self, Self::Cluster(_))
    }
}

fn unread_meaning(kind: RejectKind) -> &'static str {
    match kind {
        RejectKind::Blank => "the line is blank or a comment",
        RejectKind::NoKey => "a field of its key has no value",
        RejectKind::RepeatedName => "a field of its key or of its time occurs more than once",
        RejectKind::Ragged => "it has another number of fields than the header or the first row",
        RejectKind::JoinedLines => "a quote joins lines to it, and does not close at the end of a field",
        RejectKind::MissingField => "it has no such field as the key or the time needs",
        RejectKind::BadTime => "its time field is no time",
        RejectKind::InvalidUtf8 => "it is not UTF-8",
        RejectKind::NulByte => "there is a NUL byte in it",
        RejectKind::InvalidJson => "it is not valid JSON",
        RejectKind::NotAnObject => "it is JSON but no object",
        RejectKind::NotALogLine => "it is no line of the common log format",
        RejectKind::NotAnIndexLine => "it is no index line",
        RejectKind::TooLong => "it is longer than a record may be",
        RejectKind::UnclosedQuote => "a quote opens on this line and the record does not end",
        RejectKind::BrokenOff => "the input broke off in it",
    }
}

fn unread_remedy(kind: RejectKind) -> &'static str {
    match kind {
        RejectKind::Blank => "nothing: such a line is no record",
        RejectKind::RepeatedName => "write each name once in a record, or name another field with --key",
        RejectKind::NoKey => "name a --key that every record has, or compare empty values with --empty-key value",
        RejectKind::Ragged => "name the --separator of the fields, or take such rows with --ragged pad",
        RejectKind::JoinedLines => "double a quote that belongs to the value, where it is written as `\\\"`",
        RejectKind::MissingField => "name a field that all records have with --key or --time",
        RejectKind::BadTime => "name the field of the time with --time, and its zone with --tz",
        RejectKind::InvalidUtf8 => "convert the input (`iconv -f ... -t UTF-8`), or compare bytes with --format lines",
        RejectKind::NulByte => "look for damage, or for text in UTF-16 (`iconv -f UTF-16 -t UTF-8`)",
        RejectKind::InvalidJson => "write one JSON object a line (`jq -c .`), or name another --format",
        RejectKind::NotAnObject => "write one JSON object a line (`jq -c '.[]'`)",
        RejectKind::NotALogLine => "name the --format of the line, or compare whole lines with --format lines",
        RejectKind::NotAnIndexLine => "name the --format of the line, or compare whole lines with --format lines",
        RejectKind::TooLong => "look for a missing line end, or for a quote that joins lines",
        RejectKind::UnclosedQuote => "close the quote, or double a quote that belongs to the value",
        RejectKind::BrokenOff => "feed the input again from here",
    }
}

fn cluster_meaning(reason: Reason) -> &'static str {
    match reason {
        Reason::Full | Reason::Late | Reason::Future => UnjudgedReason::from(reason).meaning(),
        Reason::Overloaded => "nodes are busy",
        Reason::StaleMap => "the cluster changed while it decided about the record",
        Reason::TooOld => "the answer to its request is no longer remembered",
        Reason::Unknown => "no answer came in time, and it may have been recorded",
        Reason::NotReady => "a node that is needed is starting or stopping",
        Reason::Invalid => "a node refused the request as damaged",
        Reason::UnknownFilter => "the cluster has no such filter any more",
        Reason::SlicesDown => "too few nodes that have its slices answer, or slices have lost what they knew",
        Reason::Altered => "the filter was altered, and records are hashed with another secret now",
        Reason::NameReused => "its request has the name of another one",
        Reason::CutOff => "a node is cut off from most of the cluster",
        Reason::ClockSkew => "the clock of a node differs from those of the others",
        Reason::Claimed => "another consumer has claimed it",
        Reason::Forbidden => "this run has no right to record it",
        Reason::ClaimsUnknown => "its node has just started or taken over, and another consumer may have claimed it",
    }
}

fn cluster_remedy(reason: Reason) -> &'static str {
    match reason {
        Reason::Full | Reason::Late | Reason::Future => UnjudgedReason::from(reason).cure(),
        Reason::Overloaded => "run fewer producers at once, or add nodes",
        Reason::StaleMap | Reason::TooOld | Reason::NameReused => "feed the records again",
        Reason::Unknown => {
            "see which nodes are slow with `firstseen cluster status`; records that are fed again may be duplicates"
        }
        Reason::NotReady => "wait until `firstseen cluster status` calls the node ready, and feed the records again",
        Reason::Invalid => "use the same release of firstseen here and on the nodes",
        Reason::UnknownFilter => {
            "create the filter again with `firstseen filter create`, or name another place with `--site` if the place was \
             removed, and start the run again"
        }
        Reason::SlicesDown => {
            "start the nodes that `firstseen filter describe` names, or give up what is lost with `firstseen filter forgive`"
        }
        Reason::Altered => "start the run again",
        Reason::CutOff => "restore the network between the nodes (`firstseen cluster status`)",
        Reason::ClockSkew => "set the clock of the node right (`firstseen cluster status`)",
        Reason::Claimed => "wait until its claim is over, or share the input with --claims",
        Reason::Forbidden => {
            "grant this run's principal the right (`firstseen access grant PRINCIPAL --filter NAME --allow observe`; lookup only tests events)"
        }
        Reason::ClaimsUnknown => {
            "wait until the longest claim is over, and feed the records again, or share the input with --claims"
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_has_a_name_of_its_own_and_the_clusters_names_are_those_of_its_reports() {
        let all: Vec<UnjudgedReason> = UnjudgedReason::all().collect();
        let names: BTreeSet<Cow<str>> = all.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), all.len());
        for reason in Reason::ALL {
            assert_eq!(serde_json::to_value(reason).expect("a name"), *UnjudgedReason::from(reason).name());
            assert!(all.contains(&reason.into()), "{reason:?}");
        }
        assert!(all.iter().all(|reason| !reason.meaning().is_empty() && !reason.cure().is_empty()));
    }
}
