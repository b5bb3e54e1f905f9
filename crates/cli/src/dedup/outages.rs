//! Decides when a run prints a message about undecided answers. The run prints a message when a problem begins, when
//! the problem gets a reason of a different kind, and when the problem ends. A problem ends only after a quiet period,
//! so a problem that comes and goes quickly causes few messages.
//!
//! A problem begins with the first undecided answer. It ends when no answer was undecided for [`QUIET`] and the filter
//! has recorded a new event since.

use std::time::{Duration, Instant};

use firstseen_routing::{Answer, Reason};

use crate::text::numbers::grouped;
use crate::unjudged::{Disposition, UnjudgedReason};

/// A problem has ended if no answer was undecided for this time and a new event was recorded since.
const QUIET: Duration = Duration::from_secs(10);

/// Counts of undecided answers, and the problem that causes them at present.
#[derive(Debug, Default)]
pub(super) struct Outages {
    total: u64,
    current: Option<Trouble>,
}

/// A problem that has not ended.
#[derive(Debug)]
struct Trouble {
    /// Number of undecided answers before this problem.
    before: u64,
    /// Moment of the last undecided answer.
    last: Instant,
    /// Kinds of reason for which a message was printed.
    shown: Vec<Option<Kind>>,
}

/// Kind of reason. All reasons of one kind have the same remedy.
type Kind = (Reason, bool, bool);

/// Why an event is undecided by a filter of a cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Why {
    /// Reason that the cluster gave.
    pub(super) reason: Reason,
    /// Whether slices of the filter are down, and whether some slices have lost their content.
    pub(super) has_down: bool,
    pub(super) has_lost: bool,
}

impl Why {
    /// Returns a value that identifies the kind of reason why an event is undecided. While a problem lasts, the user
    /// gets another message only if the kind changes. Similar reasons therefore have the same kind.
    ///
    /// For example, the reason may first be an unreachable node, and soon afterwards the same node marked as down by
    /// the cluster. Both reasons have the same kind, because a second message would tell the user nothing new.
    fn kind(self) -> Kind {
        let has_lost = self.reason == Reason::SlicesDown && self.has_lost;
        (self.reason, has_lost, has_lost && self.has_down)
    }

    /// Returns the meaning of the reason as text.
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
            (Reason::Future, ..) => ": its time is ahead of the others or of the present, which do not confirm it",
            (Reason::Full, ..) => ": the filter is full, new records are not remembered, and their repeats pass too",
            _ => "",
        }
    }

    /// Returns what the user can do about the reason.
    fn cure(self) -> &'static str {
        UnjudgedReason::from(self.reason).cure()
    }
}

/// A message that must be printed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// An answer is undecided for the first time.
    Began,
    /// Answers are undecided for another kind of reason than before.
    Changed,
    /// The problem has ended, after this number of undecided answers.
    Ended(u64),
}

impl Outages {
    /// Updates the state of the problem with the answers to a chunk of events. If the problem begins, ends or gets a
    /// reason of a different kind, the function returns this change and the index of the first event that shows it.
    /// Otherwise it returns `None`.
    ///
    /// The callback `why` receives the index of an undecided event, and returns the reason that the cluster gave.
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

/// Returns the index of the first answer that equals `wanted`.
fn first(answers: &[Answer], wanted: Answer) -> Option<usize> {
    answers.iter().position(|answer| *answer == wanted)
}

impl Turn {
    /// Returns whether answers are decided again.
    pub(super) fn is_end(&self) -> bool {
        matches!(self, Self::Ended(_))
    }

    /// Returns the text of a message about undecided events. `why` is the reason that the cluster gave for the first of
    /// these events, or `None` if the filter is in this process. `fate` says what happens to the records of undecided
    /// events, for example whether they are passed on.
    pub(super) fn message(&self, place: &str, why: Option<Why>, fate: Disposition) -> String {
        let is_dropped = fate == Disposition::Dropped;
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
        let mut troubles = Outages::default();
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

    /// Tests the messages about a node that goes down and then returns without the events that it knew before. When the
    /// node returns, the operator needs a second message, because the remedy has changed. Before, it was enough to wait
    /// until the node is back. Now the filter is complete again only after a whole window.
    #[test]
    fn another_reason_has_one_line_a_trouble() {
        let start = Instant::now();
        let mut troubles = Outages::default();
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
        // A new problem has a new message.
        assert_eq!(troubles.look(&[FirstSeen], start + 2 * QUIET, |_| None), Some((0, Turn::Ended(8))));
        assert_eq!(troubles.look(&[Undecided], start + 3 * QUIET, |_| Some(why)), Some((0, Turn::Began)));
    }

    #[test]
    fn the_lines_say_where_and_why() {
        let full = Turn::Began.message("log:7", None, Disposition::Passed);
        assert!(full.contains("log:7") && full.contains("full") && full.contains("--capacity"), "{full}");
        let cluster = |reason, has_down, has_lost| {
            let line = Turn::Began.message("log:7", Some(Why { reason, has_down, has_lost }), Disposition::Passed);
            assert!(line.contains("log:7") && line.contains("passed on"), "{line}");
            line
        };
        for (down, lost, message) in [
            (false, false, "slices_down: nodes that have its slices are out of reach"),
            (true, false, "slices are down)"),
            (false, true, "slices have lost what they knew"),
            (true, true, "are down, and other slices have lost"),
        ] {
            let line = cluster(Reason::SlicesDown, down, lost);
            assert!(line.contains(message), "{line}");
        }
        assert!(cluster(Reason::Overloaded, true, true).contains("(overloaded)"));
        assert!(cluster(Reason::Future, true, true).contains("(future: its time is ahead"));
        assert!(cluster(Reason::Full, false, false).contains("filter alter --capacity"));
        let dropped = Turn::Began.message("log:7", None, Disposition::Dropped);
        assert!(dropped.contains("are dropped") && !dropped.contains("pass"), "{dropped}");
        let lost = Why { reason: Reason::SlicesDown, has_down: false, has_lost: true };
        let changed = Turn::Changed.message("log:8", Some(lost), Disposition::Passed);
        for message in ["log:8", "another reason", "filter forgive"] {
            assert!(changed.contains(message), "{message}: {changed}");
        }
        let ended = Turn::Ended(1200).message("log:9", None, Disposition::Passed);
        assert!(ended.contains("log:9") && ended.contains("1,200"), "{ended}");
    }
}
