//! The overview of a cluster as JSON (`docs/how-to/console.md`).
//!
//! Promises: what is not known is none, which is `null` in JSON, and never zero; names are added and keep their meaning as long
//! as `version` is the same. Must not know: where the figures come from, who looks at them.

use serde::{Deserialize, Serialize};

/// The version of the document.
pub const OVERVIEW_VERSION: u32 = 1;

/// A cluster as one of its nodes knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overview {
    /// [`OVERVIEW_VERSION`].
    pub version: u32,
    /// When it was gathered, in milliseconds since 1970 by the node's clock.
    pub at_ms: u64,
    /// The cluster, and the node that was asked.
    pub cluster: ClusterLine,
    /// What somebody should look after, the worst first.
    pub alarms: Vec<Alarm>,
    /// Verdicts of the nodes that answer.
    pub verdicts: Verdicts,
    /// The last ten minutes; none where they are as they were when they were sent last.
    pub history: Option<History>,
    /// Nodes, by number.
    pub nodes: Vec<NodeLine>,
    /// Nodes that are not among these, as there are too many.
    pub nodes_left_out: usize,
    /// Filters, by number, the places of a tree below its root.
    pub filters: Vec<FilterLine>,
    /// Filters that are not among these, as there are too many; their alarms are.
    pub filters_left_out: usize,
    /// Slices of all filters by state.
    pub slices: SliceCounts,
    /// What is under way.
    pub work: Vec<WorkLine>,
    /// Trees of filters.
    pub trees: Vec<TreeLine>,
}

/// The cluster, and the node that was asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterLine {
    /// The cluster's id, in hexadecimal digits; empty while the node belongs to none.
    pub id: String,
    /// The name of the node that was asked.
    pub node: String,
    /// Where operators reach it.
    pub address: String,
    /// Whether it asks for certificates.
    pub tls: bool,
    /// The name of the leader; none where no majority agrees on one.
    pub leader: Option<String>,
    /// The version of the map that the node acts on.
    pub map_version: u64,
    /// In which the cluster writes what it agrees on.
    pub format: u8,
    /// How far the clocks of two nodes may differ.
    pub clock_skew_max_ms: u64,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Events are lost, refused or undecided, or soon will be.
    Critical,
    /// Somebody should look after it.
    #[default]
    Warning,
}

/// What somebody should look after.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Alarm {
    /// How bad it is.
    pub severity: Severity,
    /// A word for programs, such as `node_down`.
    pub kind: String,
    /// The node, or the filter.
    pub subject: String,
    /// A sentence for people.
    pub text: String,
    /// The command that helps, or shows more.
    pub command: String,
    /// The node on which it is to be typed; any machine where there is none.
    pub on: Option<String>,
}

/// Verdicts a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Verdicts {
    /// Events that are new.
    pub first_seen_per_s: Option<f64>,
    /// Events that were seen.
    pub duplicate_per_s: Option<f64>,
    /// Events without a verdict, those of reasons aside that say nothing bad of the cluster: consumers wait for each other, and
    /// callers ask again by a newer map.
    pub undecided_per_s: Option<f64>,
    /// All of these by reason; reasons that do not occur are left out.
    pub undecided: Vec<Undecided>,
}

/// Whether a reason says nothing bad of the cluster.
pub(super) fn is_harmless(reason: &str) -> bool {
    ["claimed", "altered", "stale_map", "unknown_filter"].contains(&reason)
}

impl Verdicts {
    /// All events a second.
    pub fn events_per_s(&self) -> Option<f64> {
        Some(self.first_seen_per_s? + self.duplicate_per_s? + self.undecided_per_s?)
    }
}

/// Events without a verdict for one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Undecided {
    /// Such as `slices_down`.
    pub reason: String,
    /// Events a second.
    pub per_s: Option<f64>,
    /// Events since the nodes were started.
    pub events: u64,
    /// Whether the reason says nothing bad of the cluster: consumers wait for each other, or callers ask again by a newer map.
    pub harmless: bool,
}

/// The last ten minutes of a series, the newest last; none where nothing is known of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct History {
    /// The length of a step.
    pub step_s: u64,
    /// Events a second, the mean of each step.
    pub events_per_s: Vec<Option<f64>>,
    /// Of these, events without a verdict; empty where there were none.
    pub undecided_per_s: Vec<Option<f64>>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeLine {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u64,
    /// Its site.
    pub site: String,
    /// Where others reach it.
    pub address: String,
    /// `up`; `down`, by the map; `not_reached`, by the node that was asked; `silent`: it does not say how it fares.
    pub state: String,
    /// Whether it leads the agreement.
    pub leader: bool,
    /// Of the program that it runs.
    pub version: Option<String>,
    /// The newest format that it reads.
    pub newest_format: Option<u32>,
    /// Whether it serves all that it should.
    pub ready: Option<bool>,
    /// Why it does not.
    pub not_ready: Option<String>,
    /// Memory of its cells now.
    pub memory_used_bytes: Option<u64>,
    /// Memory that its slices take when they are full.
    pub memory_reserved_bytes: u64,
    /// Memory that it may use for cells.
    pub memory_limit_bytes: u64,
    /// Milliseconds that its clock is ahead of the middle one.
    pub clock_ahead_ms: Option<i64>,
    /// When the first of its certificates ends, in milliseconds since 1970; none also where it has none.
    pub certificate_ends_ms: Option<u64>,
    /// Copies of slices that it has by the map.
    pub slices: u64,
    /// Events a second that it answers.
    pub events_per_s: Option<f64>,
    /// For how long former heads may hold events that are claimed here, at most; none where it may not be known.
    pub claims_unsure_ms: Option<u64>,
}

/// A filter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FilterLine {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u64,
    /// `bloom`, `timing`, ...
    pub kind: String,
    /// `24h`, `unbounded`, ...
    pub window: String,
    /// `horizontal:3`, ...
    pub slicing: String,
    /// Events that it has room for; none where only its memory was given.
    pub capacity_events: Option<u64>,
    /// Events in it that have not expired, by the nodes that answer; none where its kind does not count them.
    pub live_events: Option<u64>,
    /// How full its fullest slice is, from 0 to 1.
    pub full: Option<f64>,
    /// The chance, for which it was made, that an event never seen is called a duplicate.
    pub made_for_rate: f64,
    /// The same as its cells are now.
    pub expected_rate: Option<f64>,
    /// The same as it was found by checks; none where nobody checks.
    pub measured_rate: Option<f64>,
    /// Verdicts of the nodes that answer.
    pub verdicts: Verdicts,
    /// Half of the batches, and 99 of 100, take no longer than this from coming in at a node to the reply.
    pub p50_ms: Option<f64>,
    /// As `p50_ms`.
    pub p99_ms: Option<f64>,
    /// Its slices by state.
    pub slices: SliceCounts,
    /// Nodes of the filter that do not answer: sums lack their part.
    pub silent_nodes: Vec<String>,
    /// Events that are held, where events can be claimed.
    pub claims: Option<ClaimsLine>,
    /// Its last ten minutes, as in `Overview`.
    pub history: Option<History>,
}

/// Events that are held by consumers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimsLine {
    /// Events; none where no node answers.
    pub open: Option<u64>,
    /// Bytes that they take.
    pub bytes: Option<u64>,
    /// For how long former heads may hold events, at most.
    pub unsure_ms: Option<u64>,
}

/// Slices by state, by the map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SliceCounts {
    /// All of them.
    pub all: u64,
    /// A copy has all that counts.
    pub complete: u64,
    /// None has; events are recorded there, and a zero proves nothing.
    pub set_only: u64,
    /// No copy is there.
    pub down: u64,
    /// Of those that are complete, slices of which another copy is down or lacks something.
    pub copy_lacks: u64,
    /// Copies that are on their way to another node.
    pub moving: u64,
}

impl SliceCounts {
    /// Adds those of another filter.
    pub(super) fn add(&mut self, more: &Self) {
        self.all += more.all;
        self.complete += more.complete;
        self.set_only += more.set_only;
        self.down += more.down;
        self.copy_lacks += more.copy_lacks;
        self.moving += more.moving;
    }
}

/// Something under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkLine {
    /// `move`, `restore` or `alteration`.
    pub kind: String,
    /// The filter.
    pub filter: String,
    /// A sentence for people.
    pub text: String,
    /// What is left, in `unit`; none where that is not known.
    pub left: Option<u64>,
    /// `slices` or `nodes`.
    pub unit: String,
    /// Bytes of the slices that are left, when they are full; those on their way have come a part of it.
    pub bytes_left: Option<u64>,
    /// For how long nothing has changed, as far as somebody has looked.
    pub unchanged_s: u64,
}

/// A tree of filters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeLine {
    /// The filter at its root.
    pub root: String,
    /// `sparse` or `dense`.
    pub mode: String,
    /// Its places, each below its parent.
    pub places: Vec<PlaceLine>,
}

/// A place of a tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlaceLine {
    /// The name that producers use.
    pub place: String,
    /// Its filter.
    pub filter: String,
    /// The place above; none for the root.
    pub parent: Option<String>,
    /// Steps from the root.
    pub level: u8,
    /// Events a second that it is asked about.
    pub asked_per_s: Option<f64>,
    /// Of these, events that it knows.
    pub found_per_s: Option<f64>,
    /// Of these, events that it asks the level above about.
    pub climbed_per_s: Option<f64>,
}
