//! Lines that say when answers begin to be undecided, when the reason changes, and when answers are decided again,
//! while the run goes on.
//!
//! Promises: a trouble has a line as it begins, and one for each kind of reason in it; where troubles come and go
//! quickly, not more often than every [`QUIET`]. Must not know: clocks (moments are passed in), where the lines go.

use std::time::{Duration, Instant};

use firstseen_routing::{Answer, Reason};

use crate::text::numbers::grouped;
use crate::unjudged::{Fate, UnjudgedReason};

/// A trouble has ended when no answer was undecided for so long, and a new event was recorded since.
const QUIET: Duration = Duration::from_secs(10);

/// Undecided answers so far.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    total: u64,
    current: Option<Trouble>,
}

/// A trouble that goes on.
#[derive(Debug)]
struct Trouble {
    /// How many answers were undecided before it.
    before: u64,
    /// When the last answer was undecided.
    last: Instant,
    /// The kinds of reason that have had a line.
    shown: Vec<Option<Kind>>,
}

/// A kind of reason: its members have one remedy.
type Kind = (Reason, bool, bool);

/// Why an event of a cluster's filter is undecided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Why {
    /// The reason that the cluster gives.
    pub(super) reason: Reason,
    /// Whether slices of the filter are down, and whether some have lost what they knew.
    pub(super) has_down: bool,
    pub(super) has_lost: bool,
}

impl Why {
    /// Nodes that are out of reach and nodes that are down are of one kind: the former are soon known to be down.
    fn kind(self) -> Kind {
        let has_lost = self.reason == Reason::SlicesDown && self.has_lost;
        (self.reason, has_lost, has_lost && self.has_down)
    }

    /// The meaning of the reason, where its name alone does not say it.
    pub(super) fn meaning(self) -> &'static str {
        match (self.reason, self.has_down, self.has_lost) {
            (Reason::SlicesDown, false, false) => ": nodes that have its slices are out of reach",
            (Reason::SlicesDown, true, false) => ": nodes that have slices are down",
            (Reason::SlicesDown, false, true) => {
                ": slices have lost what they knew, until the window has passed or `firstseen filter forgive`"
            }
            (Reason::SlicesDown, true, true) => {
                ": nodes that have slices are down, and other slices have lost what they knew (`firstseen filter describe`)"
            }
            (Reason::Future, ..) => ": its time is ahead of the others or of the present, which do not bear it out",
            (Reason::Full, ..) => ": the filter is full, new records are not remembered, and their repeats pass too",
            _ => "",
        }
    }

    /// What the user can do about it.
    fn cure(self) -> &'static str {
        UnjudgedReason::from(self.reason).cure()
    }
}

/// A line that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The first undecided answer.
    Began,
    /// Answers are undecided for a reason of another kind.
    Changed,
    /// So many answers were undecided; the next ones are decided.
    Ended(u64),
}

impl Troubles {
    /// Looks at the answers of a chunk; `why` gives the cluster's reason for one that is undecided. Returns the line
    /// that is due, and the event in the chunk with which the change begins.
    pub(super) fn look(
        &mut self,
        answers: &[Answer],
        now: Instant,
        why: impl Fn(usize) -> Option<Why>,
    ) -> Option<(usize, Turn)> {
        let undecided = answers.iter().filter(|answer| **answer == Answer::Undecided).count() as u64;
        if undecided == 0 && self.current.is_none() {
            return None;
        }
        let before = self.total;
        self.total += undecided;
        match (&mut self.current, first(answers, Answer::Undecided)) {
            (None, Some(event)) => {
                self.current = Some(Trouble { before, last: now, shown: vec![why(event).map(Why::kind)] });
                Some((event, Turn::Began))
            }
            (Some(Trouble { last, shown, .. }), Some(event)) => {
                *last = now;
                let kind = why(event).map(Why::kind);
                if shown.contains(&kind) {
                    return None;
                }
                shown.push(kind);
                Some((event, Turn::Changed))
            }
            (Some(Trouble { before, last, .. }), None) if now.saturating_duration_since(*last) >= QUIET => {
                let event = first(answers, Answer::FirstSeen)?;
                let ended = Turn::Ended(self.total - *before);
                self.current = None;
                Some((event, ended))
            }
            _ => None,
        }
    }
}

/// The place of the first of these answers.
fn first(answers: &[Answer], wanted: Answer) -> Option<usize> {
    answers.iter().position(|answer| *answer == wanted)
}

impl Turn {
    /// Whether answers are decided again.
    pub(super) fn is_end(&self) -> bool {
        matches!(self, Self::Ended(_))
    }

    /// The line in words; `why` is the cluster's reason for the event, and none for a filter in this process. `fate` is what
    /// becomes of undecided records.
    pub(super) fn words(&self, place: &str, why: Option<Why>, fate: Fate) -> String {
        let is_dropped = fate == Fate::Dropped;
        match (self, why) {
            (Self::Began | Self::Changed, None) => {
                let fate =
                    if is_dropped { "dropped" } else { "passed on but not remembered, so that their repeats pass too" };
                let cure = UnjudgedReason::Full.cure();
                format!("firstseen: the filter is full at {place}: new records are {fate}; {cure}")
            }
            (Self::Began, Some(why)) => {
                let fate = if is_dropped { "dropped" } else { "passed on" };
                format!(
                    "firstseen: {place} is undecided ({}{}), and so are others: they are {fate}; {}",
                    UnjudgedReason::from(why.reason).name(),
                    why.meaning(),
                    why.cure()
                )
            }
            (Self::Changed, Some(why)) => {
                format!(
                    "firstseen: {place} is undecided for another reason ({}{}), and so are others; {}",
                    UnjudgedReason::from(why.reason).name(),
                    why.meaning(),
                    why.cure()
                )
            }
            (Self::Ended(undecided), _) => {
                format!("firstseen: records are decided again at {place}, after {} undecided ones", grouped(*undecided))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use Answer::{Duplicate, FirstSeen, Undecided};

    use super::*;

    #[test]
    fn a_trouble_has_a_line_when_it_begins_and_one_when_it_has_ended() {
        let start = Instant::now();
        let mut troubles = Troubles::default();
        let mut look = |answers: &[Answer], passed| troubles.look(answers, start + passed, |_| None);
        assert_eq!(look(&[FirstSeen, Duplicate, Answer::Late], Duration::ZERO), None);
        assert_eq!(look(&[FirstSeen, Undecided, Undecided], Duration::ZERO), Some((1, Turn::Began)));
        assert_eq!(look(&[FirstSeen], QUIET / 2), None, "too soon");
        assert_eq!(look(&[Undecided, FirstSeen], QUIET), None, "it goes on");
        assert_eq!(look(&[Duplicate; 3], 3 * QUIET), None, "nothing new was recorded");
        assert_eq!(look(&[Duplicate, FirstSeen], 3 * QUIET), Some((1, Turn::Ended(3))));
        assert_eq!(look(&[FirstSeen], 4 * QUIET), None);
        assert_eq!(look(&[Undecided], 5 * QUIET), Some((0, Turn::Began)));
        assert_eq!(look(&[FirstSeen], 6 * QUIET), Some((0, Turn::Ended(1))));
        assert_eq!(troubles.total, 4);
    }

    /// A node that is down comes back without its memory: an operator who waits for the node would wait for the window.
    #[test]
    fn another_reason_has_one_line_a_trouble() {
        let start = Instant::now();
        let mut troubles = Troubles::default();
        let mut look = |passed, has_down, has_lost| {
            let why = Why { reason: Reason::SlicesDown, has_down, has_lost };
            troubles.look(&[Duplicate, Undecided], start + passed, |_| Some(why))
        };
        assert_eq!(look(Duration::ZERO, false, false), Some((1, Turn::Began)));
        assert_eq!(look(QUIET / 4, true, false), None, "out of reach, and so down");
        assert_eq!(look(QUIET / 2, false, true), Some((1, Turn::Changed)));
        assert_eq!(look(QUIET, false, true), None);
        assert_eq!(look(QUIET, true, false), None, "that reason has had its line");
        assert_eq!(look(QUIET, true, true), Some((1, Turn::Changed)));
        let why = Why { reason: Reason::Overloaded, has_down: true, has_lost: true };
        assert_eq!(troubles.look(&[Undecided], start + QUIET, |_| Some(why)), Some((0, Turn::Changed)));
        let why = Why { has_down: false, has_lost: false, ..why };
        assert_eq!(troubles.look(&[Undecided], start + QUIET, |_| Some(why)), None);
        // A new trouble has a new line.
        assert_eq!(troubles.look(&[FirstSeen], start + 2 * QUIET, |_| None), Some((0, Turn::Ended(8))));
        assert_eq!(troubles.look(&[Undecided], start + 3 * QUIET, |_| Some(why)), Some((0, Turn::Began)));
    }

    #[test]
    fn the_lines_say_where_and_why() {
        let full = Turn::Began.words("log:7", None, Fate::Passed);
        assert!(full.contains("log:7") && full.contains("full") && full.contains("--capacity"), "{full}");
        let cluster = |reason, has_down, has_lost| {
            let line = Turn::Began.words("log:7", Some(Why { reason, has_down, has_lost }), Fate::Passed);
            assert!(line.contains("log:7") && line.contains("passed on"), "{line}");
            line
        };
        for (down, lost, words) in [
            (false, false, "slices_down: nodes that have its slices are out of reach"),
            (true, false, "slices are down)"),
            (false, true, "slices have lost what they knew"),
            (true, true, "are down, and other slices have lost"),
        ] {
            let line = cluster(Reason::SlicesDown, down, lost);
            assert!(line.contains(words), "{line}");
        }
        assert!(cluster(Reason::Overloaded, true, true).contains("(overloaded)"));
        assert!(cluster(Reason::Future, true, true).contains("(future: its time is ahead"));
        assert!(cluster(Reason::Full, false, false).contains("filter alter --capacity"));
        let dropped = Turn::Began.words("log:7", None, Fate::Dropped);
        assert!(dropped.contains("are dropped") && !dropped.contains("pass"), "{dropped}");
        let lost = Why { reason: Reason::SlicesDown, has_down: false, has_lost: true };
        let changed = Turn::Changed.words("log:8", Some(lost), Fate::Passed);
        for words in ["log:8", "another reason", "filter forgive"] {
            assert!(changed.contains(words), "{words}: {changed}");
        }
        let ended = Turn::Ended(1200).words("log:9", None, Fate::Passed);
        assert!(ended.contains("log:9") && ended.contains("1,200"), "{ended}");
    }
}
