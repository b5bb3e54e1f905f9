//! Faults for tests of crash safety. Only builds with debug assertions contain them, so a build for users has no
//! environment variable that ends the process or breaks a rule.
//!
//! - `FIRSTSEEN_PIPE_KILL_AT=POINT:N` kills the process with SIGKILL when it passes a point for the N-th time.
//! - `FIRSTSEEN_PIPE_STOP_AT=POINT:N` suspends it there with SIGSTOP, until somebody sends SIGCONT.
//! - `FIRSTSEEN_PIPE_BREAK=RULE` breaks one rule on which a guarantee depends. A test must then find a violation.

/// Point of the loop at which a test can kill the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// A batch is decided, and nothing is written.
    Tested,
    /// All messages of a batch are written, and the positions are not added.
    Produced,
    /// The positions are added, and the transaction is not committed.
    OffsetsAdded,
    /// The transaction is committed, and the filters do not know it yet.
    Committed,
    /// The filters know that the batch is delivered.
    Recorded,
    /// A checkpoint was saved.
    Saved,
}

/// Rule that a test can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Decided events count as delivered, and a checkpoint with them is saved, before they are committed.
    RecordBeforeCommit,
    /// A filter starts empty when a partition is assigned.
    NoRebuild,
    /// Positions are committed without the membership of the group, so the log cannot refuse a former owner.
    #[cfg_attr(not(feature = "kafka"), expect(dead_code))]
    NoFencing,
}

#[cfg(debug_assertions)]
mod active {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;
    use std::{env, process, thread};

    use super::{Point, Rule};

    static KILL_PASSES: AtomicU64 = AtomicU64::new(0);
    static STOP_PASSES: AtomicU64 = AtomicU64::new(0);

    fn name(point: Point) -> &'static str {
        match point {
            Point::Tested => "after-test",
            Point::Produced => "after-produce",
            Point::OffsetsAdded => "after-offsets",
            Point::Committed => "after-commit",
            Point::Recorded => "after-record",
            Point::Saved => "after-checkpoint",
        }
    }

    /// Kills or suspends the process if a test asks for it at this point.
    pub(crate) fn pass(point: Point) {
        if is_due("FIRSTSEEN_PIPE_KILL_AT", point, &KILL_PASSES) {
            signal("-KILL");
            thread::sleep(Duration::from_secs(60));
        }
        if is_due("FIRSTSEEN_PIPE_STOP_AT", point, &STOP_PASSES) {
            signal("-STOP");
        }
    }

    /// Counts the passes of the point that a variable names, and returns whether this is the wanted one.
    fn is_due(variable: &str, point: Point, passes: &AtomicU64) -> bool {
        let Ok(wanted) = env::var(variable) else { return false };
        let Some((at, nth)) = wanted.split_once(':') else { return false };
        at == name(point) && nth.parse() == Ok(passes.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn signal(signal: &str) {
        let id = process::id().to_string();
        let _ = process::Command::new("kill").args([signal, &id]).status();
    }

    /// Returns whether a test has broken this rule.
    pub(crate) fn is_broken(rule: Rule) -> bool {
        let name = match rule {
            Rule::RecordBeforeCommit => "record-before-commit",
            Rule::NoRebuild => "no-rebuild",
            Rule::NoFencing => "no-fencing",
        };
        env::var("FIRSTSEEN_PIPE_BREAK").is_ok_and(|broken| broken == name)
    }
}

#[cfg(debug_assertions)]
pub(crate) use active::{is_broken, pass};

/// Does nothing in a build for users.
#[cfg(not(debug_assertions))]
pub(crate) fn pass(_: Point) {}

/// Returns false in a build for users.
#[cfg(not(debug_assertions))]
pub(crate) fn is_broken(_: Rule) -> bool {
    false
}
