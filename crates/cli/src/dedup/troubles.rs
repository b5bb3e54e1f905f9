//! When answers begin to be undecided, and when they are decided again: one line each, while the run goes on.
//!
//! Promises: a run is told of its troubles as they begin; where they come and go quickly, not more often than every
//! [`QUIET`]. Must not know: clocks (moments are passed in), where the lines go.

use std::time::{Duration, Instant};

use firstseen_routing::{Answer, Reason};

use crate::filter_report::reason_name;
use crate::report::grouped;

/// A trouble has ended when nothing was undecided for so long, and something new was recorded since.
const QUIET: Duration = Duration::from_secs(10);

/// Undecided answers so far.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    total: u64,
    /// Of the trouble that goes on: what was undecided before it, and when the last one was.
    current: Option<(u64, Instant)>,
}

/// Why an event of a cluster's filter is undecided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Why {
    /// What the cluster says.
    pub(super) reason: Reason,
    /// Whether slices of the filter are down, and whether some have lost what they knew.
    pub(super) has_down: bool,
    pub(super) has_lost: bool,
}

impl Why {
    /// What the reason means here, where its name does not say that.
    fn meaning(self) -> &'static str {
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
            _ => "",
        }
    }
}

/// What is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The first undecided answer.
    Began,
    /// So many were undecided; what comes now is decided.
    Ended(u64),
}

impl Troubles {
    /// Looks at the answers of a chunk; the event in it from which on something else holds.
    pub(super) fn look(&mut self, answers: &[Answer], now: Instant) -> Option<(usize, Turn)> {
        let undecided = answers.iter().filter(|answer| **answer == Answer::Undecided).count() as u64;
        let first = |wanted: Answer| answers.iter().position(|answer| *answer == wanted);
        let before = self.total;
        self.total += undecided;
        match &mut self.current {
            None if undecided > 0 => {
                self.current = Some((before, now));
                first(Answer::Undecided).map(|event| (event, Turn::Began))
            }
            Some((_, last)) if undecided > 0 => {
                *last = now;
                None
            }
            Some((before, last)) if now.saturating_duration_since(*last) >= QUIET => {
                let (event, ended) = (first(Answer::FirstSeen)?, Turn::Ended(self.total - *before));
                self.current = None;
                Some((event, ended))
            }
            _ => None,
        }
    }

    /// Undecided answers so far, those to late events not counted.
    pub(super) fn total(&self) -> u64 {
        self.total
    }
}

impl Turn {
    /// One line; `why` is what the cluster says of the event there, and none of a filter in this process.
    pub(super) fn words(&self, place: &str, why: Option<Why>) -> String {
        match (self, why) {
            (Self::Began, None) => format!(
                "firstseen: the filter is full at {place}: new records are passed on but not remembered, so that their repeats \
                 pass too (--capacity, --growth)"
            ),
            (Self::Began, Some(why)) => {
                let (reason, meaning) = (reason_name(why.reason), why.meaning());
                format!("firstseen: {place} is undecided ({reason}{meaning}), and so are others: they are passed on")
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
    fn a_trouble_is_told_when_it_begins_and_when_it_has_ended() {
        let start = Instant::now();
        let mut troubles = Troubles::default();
        assert_eq!(troubles.look(&[FirstSeen, Duplicate, Answer::Late], start), None);
        assert_eq!(troubles.look(&[FirstSeen, Undecided, Undecided], start), Some((1, Turn::Began)));
        assert_eq!(troubles.look(&[FirstSeen], start + QUIET / 2), None, "too soon");
        assert_eq!(troubles.look(&[Undecided, FirstSeen], start + QUIET), None, "it goes on");
        assert_eq!(troubles.look(&[Duplicate; 3], start + 3 * QUIET), None, "nothing new was recorded");
        assert_eq!(troubles.look(&[Duplicate, FirstSeen], start + 3 * QUIET), Some((1, Turn::Ended(3))));
        assert_eq!(troubles.look(&[FirstSeen], start + 4 * QUIET), None);
        assert_eq!(troubles.look(&[Undecided], start + 5 * QUIET), Some((0, Turn::Began)));
        assert_eq!(troubles.look(&[FirstSeen], start + 6 * QUIET), Some((0, Turn::Ended(1))));
        assert_eq!(troubles.total(), 4);
    }

    #[test]
    fn the_lines_say_where_and_why() {
        let full = Turn::Began.words("log:7", None);
        assert!(full.contains("log:7") && full.contains("full") && full.contains("--capacity"), "{full}");
        let cluster = |reason, has_down, has_lost| {
            let told = Turn::Began.words("log:7", Some(Why { reason, has_down, has_lost }));
            assert!(told.contains("log:7") && told.contains("passed on"), "{told}");
            told
        };
        for (down, lost, words) in [
            (false, false, "slices_down: nodes that have its slices are out of reach"),
            (true, false, "slices are down)"),
            (false, true, "slices have lost what they knew"),
            (true, true, "are down, and other slices have lost"),
        ] {
            let told = cluster(Reason::SlicesDown, down, lost);
            assert!(told.contains(words), "{told}");
        }
        assert!(cluster(Reason::Overloaded, true, true).contains("(overloaded)"));
        assert!(cluster(Reason::Future, true, true).contains("(future: its time is ahead"));
        let ended = Turn::Ended(1200).words("log:9", None);
        assert!(ended.contains("log:9") && ended.contains("1,200"), "{ended}");
    }
}
