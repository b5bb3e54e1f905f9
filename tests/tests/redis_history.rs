//! What clients of the door were told, as a history that the laws of the simulation judge.

use firstseen_checker::history::{Call, History, Promises};
use firstseen_checker::laws;
use firstseen_client::{Reason, SubmissionName, Verdict};
use serde_json::Value;

use crate::own_node::OwnNode;

/// How events outlive the process of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// A reply waits for the disk, names stand there, too: while a node is away its events are undecided, and then every retry is
    /// told its first verdict.
    OnDisk,
    /// In the memory of two nodes. One is enough for all verdicts; names go with the replies to the other node, but one that has
    /// come back and fetched its cells does not know them: a retry that it finds recorded is `TooOld`, and never seen.
    InMemory,
}

impl Kept {
    /// Flags of `filter create`. Retries of the whole test are within the horizon.
    pub(crate) fn flags(self) -> &'static str {
        match self {
            Self::OnDisk => "--retry-horizon 30m --durability durable",
            Self::InMemory => "--retry-horizon 30m --copies 1",
        }
    }
}

/// Reasons, by the number that an `FS` command says below 0.
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

/// A verdict by its number, or an undecided one by the word that `-UNDECIDED` begins with.
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

/// A call without an answer; whether it is a lookup, and its name.
pub(crate) fn asked(source: u64, event: u64, (is_lookup, name): (bool, Option<SubmissionName>), began_us: u64) -> Call {
    Call {
        is_lookup,
        name,
        ..Call::begun(u32::try_from(source).expect("few producers"), event, began_us / 1000, began_us)
    }
}

/// The laws that these calls break, all of which are within one window.
pub(crate) fn broken(mut calls: Vec<Call>) -> Vec<String> {
    calls.sort_by_key(|call| call.began_us);
    let mut history = History { promises: Promises::within_one_window(), ..History::default() };
    calls.into_iter().for_each(|call| _ = history.begin(call));
    laws::check(&history).iter().map(ToString::to_string).collect()
}

/// Whether a node that was started again is ready, and by the map of another one all slices of the filter have what they should.
pub(crate) fn is_back(node: &OwnNode, other: &OwnNode) -> bool {
    if node.folder.run("node health --config node.toml").code != Some(0) {
        return false;
    }
    let described = other.folder.run(&format!("filter describe clicks --json --cluster {}", other.address));
    let described: Value = serde_json::from_str(&described.out).unwrap_or_default();
    let slices = described["slices"].as_array().cloned().unwrap_or_default();
    !slices.is_empty() && slices.iter().all(|slice| slice["complete"] == true)
}
