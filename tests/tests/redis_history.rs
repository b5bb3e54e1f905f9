//! Converts the replies of the Redis endpoint to a history, to which the consistency rules of the simulation are
//! applied.

use firstseen_checker::history::{Call, History, Promises};
use firstseen_checker::laws;
use firstseen_client::{Reason, SubmissionName, Verdict};
use serde_json::Value;

use crate::own_node::OwnNode;

/// How events survive the end of a node's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Mode in which events survive on disk (`--durability durable`). The node sends a reply only after it has written
    /// the event and its idempotency key to disk. While the node is down, the events that only this node can decide are
    /// undecided. After the restart, the node still knows the idempotency keys, so a retry of an event gets the same
    /// verdict as the first attempt.
    OnDisk,
    /// Mode in which events survive in the memory of two nodes (`--copies 1`). If one of the two nodes is down, the
    /// other decides alone. It must then recognize retries of events that the first node has decided. The two nodes
    /// therefore send each other their replies together with the idempotency keys.
    ///
    /// A restarted node fetches its cells from the other node, but not the idempotency keys of earlier replies. If such
    /// a node receives a retry, it finds the event recorded, but cannot tell whether this producer or another one
    /// recorded it. It must therefore reply `TooOld`. It must not reply duplicate, because the producer's own first
    /// attempt may have recorded the event.
    InMemory,
}

impl Kept {
    /// Returns flags for `filter create`. The retry horizon covers the whole test.
    pub(crate) fn flags(self) -> &'static str {
        match self {
            Self::OnDisk => "--retry-horizon 30m --durability durable",
            Self::InMemory => "--retry-horizon 30m --copies 1",
        }
    }
}

/// Reasons, in the order of the negative numbers that `FS` commands reply.
const REASONS: [Reason; 18] = [
    Reason::Full,
    Reason::Late,
    Reason::Future,
    Reason::Overloaded,
    Reason::StaleMap,
    Reason::TooOld,
    Reason::Unknown,
    Reason::NotReady,
    Reason::Invalid,
    Reason::UnknownFilter,
    Reason::SlicesDown,
    Reason::Altered,
    Reason::NameReused,
    Reason::CutOff,
    Reason::ClockSkew,
    Reason::Claimed,
    Reason::Forbidden,
    Reason::ClaimsUnknown,
];

/// Parses a verdict from its number, or from the word after `-UNDECIDED`.
pub(crate) fn verdict_of(said: &str) -> Verdict {
    match said.parse::<i64>() {
        Ok(1) => Verdict::FirstSeen,
        Ok(0) => Verdict::Duplicate,
        Ok(code) => {
            let place = usize::try_from(-code - 1).expect("a number of docs/reference/redis.md");
            Verdict::Undecided(REASONS[place])
        }
        Err(_) => {
            let named = REASONS.into_iter().find(|reason| format!("{reason:?}") == said);
            Verdict::Undecided(named.unwrap_or_else(|| panic!("`{said}` is no reason")))
        }
    }
}

pub(crate) fn is_undecided(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Undecided(_))
}

/// Creates a call that has no answer yet. The tuple says whether the call is a lookup, and gives its idempotency key.
pub(crate) fn asked(source: u64, event: u64, (is_lookup, name): (bool, Option<SubmissionName>), began_us: u64) -> Call {
    Call {
        is_lookup,
        name,
        ..Call::begun(u32::try_from(source).expect("few producers"), event, began_us / 1000, began_us)
    }
}

/// Returns the consistency rules that these calls violate. All calls are within one window.
pub(crate) fn broken(mut calls: Vec<Call>) -> Vec<String> {
    calls.sort_by_key(|call| call.began_us);
    let mut history = History { promises: Promises::within_one_window(), ..History::default() };
    calls.into_iter().for_each(|call| _ = history.begin(call));
    laws::check(&history).iter().map(ToString::to_string).collect()
}

/// Returns whether a restarted node is ready and, according to the cluster map of another node, all slices of the
/// filter are complete.
pub(crate) fn is_back(node: &OwnNode, other: &OwnNode) -> bool {
    if node.folder.run("node health --config node.toml").code != Some(0) {
        return false;
    }
    let described = other.folder.run(&format!("filter describe clicks --json --cluster {}", other.address));
    let described: Value = serde_json::from_str(&described.out).unwrap_or_default();
    let slices = described["slices"].as_array().cloned().unwrap_or_default();
    !slices.is_empty() && slices.iter().all(|slice| slice["complete"] == true)
}
