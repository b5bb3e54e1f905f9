//! The laws that every history must keep, one file each.
//!
//! A law is an invariant of a history. If a history violates a law, the check names the calls that are responsible. The
//! filters of checked runs are so large that no false positive is to be expected, so every violation indicates a fault
//! of the system.

mod alone;
mod cells_exact;
mod cells_set;
mod claims;
mod copies_catch_up;
mod hung_disks;
mod leaf_answers;
mod liveness;
mod marked_degraded;
mod no_false_negative;
mod no_first_after_duplicate;
mod no_own_duplicate;
mod one_winner;
mod own_times;
mod ready_when_whole;
mod rights;
mod same_name_same_verdict;
mod wrong_clocks;

use std::collections::BTreeMap;
use std::fmt;

use crate::history::{Call, History};
pub use hung_disks::judged as judged_of_hung_disks;
pub use rights::lacked_right;

/// A violation of a law.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// The law, as its short name, a colon and a description.
    pub law: &'static str,
    /// The calls that break the law.
    pub calls: Vec<Call>,
    /// A finding in addition to the calls.
    pub what: Option<String>,
}

impl Violation {
    /// Creates a violation by these calls.
    fn of(law: &'static str, calls: Vec<Call>) -> Self {
        Self { law, calls, what: None }
    }

    /// Creates a violation by a finding.
    fn found(law: &'static str, what: String) -> Self {
        Self { law, calls: Vec::new(), what: Some(what) }
    }

    /// Returns the short name of the law.
    pub fn name(&self) -> &'static str {
        self.law.split(':').next().unwrap_or_default()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.law, self.what.as_deref().unwrap_or_default())?;
        self.calls.iter().try_for_each(|call| write!(f, "\n  {call}"))
    }
}

/// Returns all violations in `history`.
pub fn check(history: &History) -> Vec<Violation> {
    let mut by_event: BTreeMap<u64, Vec<&Call>> = BTreeMap::new();
    for call in &history.calls {
        by_event.entry(call.event).or_default().push(call);
    }
    let mut violations = Vec::new();
    for calls in by_event.values() {
        one_winner::check(history, calls, &mut violations);
        no_false_negative::check(history, calls, &mut violations);
        no_own_duplicate::check(history, calls, &mut violations);
        no_first_after_duplicate::check(history, calls, &mut violations);
        leaf_answers::check(history, calls, &mut violations);
    }
    alone::check(history, &mut violations);
    claims::check(history, &by_event, &mut violations);
    cells_exact::check(history, &mut violations);
    cells_set::check(history, &mut violations);
    copies_catch_up::check(history, &mut violations);
    hung_disks::check(history, &mut violations);
    liveness::check(history, &mut violations);
    own_times::check(history, &mut violations);
    ready_when_whole::check(history, &mut violations);
    rights::check(history, &mut violations);
    same_name_same_verdict::check(history, &mut violations);
    marked_degraded::check(history, &by_event, &mut violations);
    wrong_clocks::check(history, &mut violations);
    violations
}

/// Returns all pairs of different calls.
fn pairs<'c, 'a>(calls: &'c [&'a Call]) -> impl Iterator<Item = (&'a Call, &'a Call)> + use<'c, 'a> {
    calls.iter().enumerate().flat_map(|(index, first)| calls[index + 1..].iter().map(|second| (*first, *second)))
}
