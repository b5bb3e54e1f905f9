//! The overview of a cluster as a JSON document, which `docs/how-to/console.md` describes. A value that is unknown is
//! `None`, which is `null` in JSON, so that readers can distinguish it from zero. The field `version` identifies the
//! format of the document. Within one version, fields may be added, but existing fields keep their names and meanings.

use serde::{Deserialize, Serialize};

/// Version of the document format.
pub const OVERVIEW_VERSION: u32 = 1;

/// A cluster, as one of its nodes knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overview {
    /// Version of the document format, [`OVERVIEW_VERSION`].
    pub version: u32,
    /// Time at which the overview was collected, in milliseconds since 1970 by the node's clock.
    pub at_ms: u64,
    /// The cluster, and the node that created the overview.
    pub cluster: ClusterLine,
    /// Problems that an operator should handle, with the most severe ones first.
    pub alarms: Vec<Alarm>,
    /// Verdicts of the nodes that answer.
    pub verdicts: Verdicts,
    /// Values of the last ten minutes. `None` means that they have not changed since they were last sent.
    pub history: Option<History>,
    /// Nodes, ordered by number.
    pub nodes: Vec<NodeLine>,
    /// Number of nodes that are missing in `nodes` because there are too many.
    pub nodes_left_out: usize,
    /// Filters, ordered by number. The places of a filter tree follow their root.
    pub filters: Vec<FilterLine>,
    /// Number of filters that are missing in `filters` because there are too many. Their alarms are included.
    pub filters_left_out: usize,
    /// Numbers of slices of all filters by state.
    pub slices: SliceCounts,
    /// Moves, restores and alterations in progress.
    pub work: Vec<WorkLine>,
    /// Filter trees.
    pub trees: Vec<TreeLine>,
}

/// The cluster, and the node that created the overview.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterLine {
    /// Identifier of the cluster, in hexadecimal digits. The string is empty while the node belongs to no cluster.
    pub id: String,
    /// Name of the node that created the overview.
    pub node: String,
    /// Address under which operators reach the node.
    pub address: String,
    /// Whether the node requires certificates.
    pub tls: bool,
    /// Name of the consensus leader. `None` means that no majority agrees on a leader.
    pub leader: Option<String>,
    /// Version of the cluster map that the node acts on.
    pub map_version: u64,
    /// Version of the format in which the cluster writes its consensus log.
    pub format: u8,
    /// Maximum difference between the clocks of two nodes, in milliseconds.
    pub clock_skew_max_ms: u64,
}

/// Severity of an alarm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Events are lost, rejected or undecided, or will soon be.
    Critical,
    /// An operator should look into the problem.
    #[default]
    Warning,
}

/// A problem that an operator should handle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Alarm {
    /// Severity of the alarm.
    pub severity: Severity,
    /// Kind of the alarm for programs, such as `node_down`.
    pub kind: String,
    /// Name of the affected node or filter.
    pub subject: String,
    /// Description of the problem as a sentence.
    pub text: String,
    /// Command that solves the problem or shows more about it.
    pub command: String,
    /// Node on which the command must be executed. `None` means that it can be executed on any machine.
    pub on: Option<String>,
}

/// Rates of verdicts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Verdicts {
    /// New events per second.
    pub first_seen_per_s: Option<f64>,
    /// Duplicates per second.
    pub duplicate_per_s: Option<f64>,
    /// Number of events per second that are left undecided for a reason that may indicate a problem of the cluster.
    /// Events with a harmless reason are not counted. For example, the reason is harmless if another consumer has
    /// claimed the event, or if the caller must repeat its request with a newer cluster map.
    pub undecided_per_s: Option<f64>,
    /// All undecided events by reason, including harmless reasons. Reasons that do not occur are omitted.
    pub undecided: Vec<Undecided>,
}

/// Returns whether a reason does not indicate a problem of the cluster.
pub(super) fn is_harmless(reason: &str) -> bool {
    ["claimed", "altered", "stale_map", "unknown_filter"].contains(&reason)
}

impl Verdicts {
    /// Returns the rate of all events per second.
    pub fn events_per_s(&self) -> Option<f64> {
        Some(self.first_seen_per_s? + self.duplicate_per_s? + self.undecided_per_s?)
    }
}

/// Undecided events with the same reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Undecided {
    /// The reason, such as `slices_down`.
    pub reason: String,
    /// Events per second.
    pub per_s: Option<f64>,
    /// Number of events since the nodes were started.
    pub events: u64,
    /// Whether this reason is harmless, which means that it does not indicate a problem of the cluster. For example,
    /// the reason is harmless if another consumer has claimed the event, or if the caller must repeat its request with
    /// a newer cluster map.
    pub harmless: bool,
}

/// The last ten minutes of a time series, with the newest step last. A step without data is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct History {
    /// Duration of a step in seconds.
    pub step_s: u64,
    /// Events per second, as the mean of each step.
    pub events_per_s: Vec<Option<f64>>,
    /// Undecided events per second, as the mean of each step. The list is empty if there were none.
    pub undecided_per_s: Vec<Option<f64>>,
}

/// A node of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeLine {
    /// Name of the node.
    pub name: String,
    /// Number of the node.
    pub number: u64,
    /// Site of the node.
    pub site: String,
    /// Address under which other nodes and clients reach the node.
    pub address: String,
    /// State of the node, which has one of four values. `down` means that the cluster map lists the node as down.
    /// `not_reached` means that the node that created this overview cannot reach it. `silent` means that the node did
    /// not answer the request for its status. In all other cases the state is `up`.
    pub state: String,
    /// Whether the node is the consensus leader.
    pub leader: bool,
    /// Version of the software that the node runs.
    pub version: Option<String>,
    /// The newest format of the consensus log that the node can read.
    pub newest_format: Option<u32>,
    /// Whether the node is fully ready.
    pub ready: Option<bool>,
    /// Reason why the node is not fully ready.
    pub not_ready: Option<String>,
    /// Memory that its cells currently take, in bytes.
    pub memory_used_bytes: Option<u64>,
    /// Memory that its slices take when they are full, in bytes.
    pub memory_reserved_bytes: u64,
    /// Memory limit for its cells, in bytes.
    pub memory_limit_bytes: u64,
    /// Milliseconds that its clock is ahead of the median clock.
    pub clock_ahead_ms: Option<i64>,
    /// Time at which the first of its certificates expires, in milliseconds since 1970. `None` also means that it has
    /// no certificates.
    pub certificate_ends_ms: Option<u64>,
    /// Number of slice copies that it has according to the cluster map.
    pub slices: u64,
    /// Events per second that it answers.
    pub events_per_s: Option<f64>,
    /// Time, in milliseconds, until this node knows all active claims again. When a node becomes the head node of
    /// events, it cannot see the claims that the previous head node granted on these events. The node must assume that
    /// such claims are active until the longest possible lease has ended. `None` means that this time is unknown.
    pub claims_unsure_ms: Option<u64>,
}

/// A filter of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FilterLine {
    /// Name of the filter.
    pub name: String,
    /// Number of the filter.
    pub number: u64,
    /// Kind of the filter, such as `bloom` or `timing`.
    pub kind: String,
    /// Window of the filter, such as `24h` or `unbounded`.
    pub window: String,
    /// Slicing of the filter, such as `horizontal:3`.
    pub slicing: String,
    /// Number of events that the filter has room for. `None` means that only its memory was configured.
    pub capacity_events: Option<u64>,
    /// Number of unexpired events in the filter, as the sum over the nodes that have answered. `None` means that this
    /// kind of filter does not count its events.
    pub live_events: Option<u64>,
    /// Fullness of its fullest slice, from 0 to 1.
    pub full: Option<f64>,
    /// Target false-positive rate: the probability that the filter was sized for that a new event is called a
    /// duplicate.
    pub made_for_rate: f64,
    /// Expected false-positive rate according to the current state of the cells.
    pub expected_rate: Option<f64>,
    /// Measured false-positive rate. `None` means that no producer audits the filter.
    pub measured_rate: Option<f64>,
    /// Verdicts of the nodes that answer.
    pub verdicts: Verdicts,
    /// Median latency of batches, from their arrival at a node to the reply, in milliseconds.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the latency of batches, in milliseconds.
    pub p99_ms: Option<f64>,
    /// Numbers of its slices by state.
    pub slices: SliceCounts,
    /// Nodes with slices of the filter that do not answer. Their part is missing in the sums.
    pub silent_nodes: Vec<String>,
    /// Claimed events, if the filter supports claims.
    pub claims: Option<ClaimsLine>,
    /// Values of the filter's last ten minutes, as in `Overview`.
    pub history: Option<History>,
}

/// Events that consumers have claimed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimsLine {
    /// Number of claimed events. `None` means that no node answers.
    pub open: Option<u64>,
    /// Memory that the claims take, in bytes.
    pub bytes: Option<u64>,
    /// Maximum time for which former head nodes may still hold events, in milliseconds.
    pub unsure_ms: Option<u64>,
}

/// Numbers of slices by their state in the cluster map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SliceCounts {
    /// Number of all slices.
    pub all: u64,
    /// Number of slices with at least one complete copy.
    pub complete: u64,
    /// Number of slices without a complete copy. Events are recorded in these slices, but an empty cell does not prove
    /// that an event is new.
    pub set_only: u64,
    /// Number of slices without any available copy.
    pub down: u64,
    /// Number of slices with a complete copy, of which another copy is down or incomplete.
    pub copy_lacks: u64,
    /// Number of copies that are being moved to another node.
    pub moving: u64,
}

impl SliceCounts {
    /// Adds the numbers of another filter.
    pub(super) fn add(&mut self, more: &Self) {
        self.all += more.all;
        self.complete += more.complete;
        self.set_only += more.set_only;
        self.down += more.down;
        self.copy_lacks += more.copy_lacks;
        self.moving += more.moving;
    }
}

/// A move, a restore or an alteration in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkLine {
    /// Kind of the work: `move`, `restore` or `alteration`.
    pub kind: String,
    /// The affected filter.
    pub filter: String,
    /// Description of the work as a sentence.
    pub text: String,
    /// Remaining amount of work, in `unit`. `None` means that the amount is unknown.
    pub left: Option<u64>,
    /// Unit of the remaining work: `slices` or `nodes`.
    pub unit: String,
    /// Size of the remaining slices when they are full, in bytes. Slices that are being moved have already been
    /// transferred in part.
    pub bytes_left: Option<u64>,
    /// Time without any progress, in seconds, as far as it was observed.
    pub unchanged_s: u64,
}

/// A filter tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeLine {
    /// The filter at the root of the tree.
    pub root: String,
    /// Mode of the tree: `sparse` or `dense`.
    pub mode: String,
    /// Places of the tree. Each place follows its parent.
    pub places: Vec<PlaceLine>,
}

/// A place of a filter tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlaceLine {
    /// Name of the place, which producers use.
    pub place: String,
    /// Filter at this place.
    pub filter: String,
    /// The parent place. `None` for the root.
    pub parent: Option<String>,
    /// Number of steps from the root.
    pub level: u8,
    /// Events per second that producers or child levels ask this place about.
    pub asked_per_s: Option<f64>,
    /// Events per second that this place already knows.
    pub found_per_s: Option<f64>,
    /// Events per second that this place asks its parent about.
    pub climbed_per_s: Option<f64>,
    /// Events that this place has decided without its parent and has not reported yet, on the nodes that say it.
    /// `None` if none does.
    pub owed_events: Option<u64>,
    /// Time in seconds for which the oldest of these events has waited.
    pub owed_oldest_s: Option<u64>,
    /// These events in the fullest slice group, as a share of the limit of a group.
    pub owed_full: Option<f64>,
}
