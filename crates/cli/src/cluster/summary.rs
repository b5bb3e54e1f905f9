//! The contents of `cluster status` and `filter list`, as text for users and as JSON for scripts. The structs of this
//! module are computed from the cluster map and the answers of nodes. The JSON document is the serialized struct, and
//! the text is written from the same fields. Fields that only the text needs are not part of the JSON document.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use firstseen_filter::duration;
use firstseen_records::printable;
use firstseen_routing::{Branch, ClusterMap, CutOff, FilterId, FilterRecord, NodeId, TreeMode};
use serde::{Serialize, Serializer};

use super::ClusterStatus;
use super::claims::{ByNode, Claims, pending};
use super::upgrade::Versions;
use crate::cluster::places::mode_name;
use crate::text::size::ByteSize;
use crate::text::table::Table;

/// State of a cluster as one of its nodes knows it.
#[derive(Serialize)]
pub(super) struct ClusterSummary<'a> {
    cluster: String,
    map_version: u64,
    /// Format in which the cluster writes its committed state.
    format: u8,
    /// Whether a majority of the voters confirms a leader at present.
    majority: bool,
    leader: Option<u64>,
    term: u64,
    last_applied: u64,
    nodes: Vec<NodeSummary<'a>>,
    filters: FilterSummaries<'a>,
    /// Maximum allowed difference between two clocks.
    #[serde(skip)]
    clock_skew_max_ms: u64,
}

#[derive(Serialize)]
struct NodeSummary<'a> {
    number: u64,
    name: &'a str,
    site: &'a str,
    address: &'a str,
    incarnation: u64,
    memory_bytes: u64,
    voter: bool,
    leader: bool,
    slices: u64,
    reachable: bool,
    /// Whether the cluster has marked the node as down, so that the other nodes continue without it.
    down: bool,
    /// Milliseconds by which its clock is ahead of the median of all clocks. `None` means that it was not measured
    /// recently.
    clock_ahead_ms: Option<i64>,
    /// Version of the program that the node runs. `None` means that the node did not report it.
    version: Option<&'a str>,
}

/// The filters of a cluster, ordered by number. The levels of a tree follow their root.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct FilterSummaries<'a>(Vec<FilterSummary<'a>>);

#[derive(Serialize)]
struct FilterSummary<'a> {
    number: u64,
    name: &'a str,
    kind: String,
    epoch: u64,
    window: String,
    slicing: String,
    slices: usize,
    complete_slices: usize,
    /// Number of copies that are moving to other nodes.
    moving_slices: usize,
    /// Number of the filter that has replaced this one, which therefore records no further events.
    #[serde(skip_serializing_if = "Option::is_none")]
    followed_by: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<BranchSummary<'a>>,
    /// Claims by the nodes that hold them, if events can be claimed. `None` in an entry stands for a node that did not
    /// answer.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "by_name")]
    claims: Option<Vec<(&'a str, Option<Claims>)>>,
    #[serde(skip)]
    copies: CopyCounts<'a>,
    /// Number of nodes that an alteration waits for before it closes the filter.
    #[serde(skip)]
    closing_on: usize,
}

/// Numbers of copies of a filter's slices, without copies that are moving to other nodes.
struct CopyCounts<'a> {
    all: usize,
    complete: usize,
    /// Nodes with incomplete copies, and the number of these copies on each node.
    incomplete: Vec<IncompleteCopies<'a>>,
}

struct IncompleteCopies<'a> {
    node: &'a str,
    is_down: bool,
    copies: usize,
}

/// Position of a filter in its tree.
#[derive(Serialize)]
struct BranchSummary<'a> {
    root: u64,
    parent: Option<u64>,
    place: &'a str,
    level: u8,
    fold: u8,
    mode: TreeMode,
    cut_off: CutOff,
    top_down: u8,
}

impl<'a> ClusterSummary<'a> {
    pub(super) fn new(status: &'a ClusterStatus, claims: &BTreeMap<FilterId, ByNode>, versions: &'a Versions) -> Self {
        let map = &status.map;
        let nodes = map.nodes.iter().map(|(number, node)| NodeSummary {
            number: number.0,
            name: &node.name,
            site: &node.site,
            address: &node.address,
            incarnation: node.incarnation.0,
            memory_bytes: node.memory_bytes,
            voter: node.voter,
            leader: Some(*number) == status.leader,
            slices: slices_of(map, *number),
            reachable: !status.unreachable.contains(number),
            down: node.is_down,
            clock_ahead_ms: status.clocks.get(number).copied(),
            version: version_of(versions, *number),
        });
        Self {
            cluster: map.cluster.to_string(),
            map_version: map.version,
            format: map.format.0,
            majority: status.leader.is_some(),
            leader: status.leader.map(|NodeId(number)| number),
            term: status.term,
            last_applied: status.last_applied,
            nodes: nodes.collect(),
            filters: FilterSummaries::new(map, claims),
            clock_skew_max_ms: status.clock_skew_max_ms,
        }
    }

    /// Returns the summary as tables.
    pub(super) fn text(&self) -> String {
        let leader = self.nodes.iter().find(|node| node.leader).map_or("nobody", |node| node.name);
        let mut text = format!(
            "cluster {}, led by {leader}\nagreed on so far: map {}, applied {}, term {}, format {}\n",
            self.cluster, self.map_version, self.last_applied, self.term, self.format
        );
        if !self.majority {
            text.push_str(&self.leaderless());
        }
        let heading = ["node", "number", "address", "site", "starts", "memory", "slices", "votes", "version", "state"];
        let mut nodes = Table::new(&heading);
        for node in &self.nodes {
            nodes.row([
                node.name.to_owned(),
                node.number.to_string(),
                node.address.to_owned(),
                node.site.to_owned(),
                node.incarnation.to_string(),
                ByteSize(node.memory_bytes).to_string(),
                node.slices.to_string(),
                if node.voter { "yes" } else { "no" }.to_owned(),
                node.version.unwrap_or("?").to_owned(),
                node.state().to_owned(),
            ]);
        }
        text.push_str(&nodes.text());
        text.push_str(&self.clocks_text());
        if !self.filters.0.is_empty() {
            text.push('\n');
            text.push_str(&self.filters.text());
        }
        text.push_str(&self.filters.claims_text());
        text
    }

    /// Returns the message for a cluster in which no majority answers.
    fn leaderless(&self) -> String {
        let voters = self.nodes.iter().filter(|node| node.voter).count();
        format!(
            "no majority of the {voters} voters ({}) answers: nothing can be changed, and the state shown here may be \
             outdated. Nodes\nanswer what they know, and record nothing new once their lease is over. Start the \
             others; where they are lost for\ngood, one goes on (firstseen cluster recover)\n",
            voters / 2 + 1
        )
    }

    /// Returns a line for each node whose clock needs attention, because it differs from the median by more than half
    /// of the allowed difference.
    fn clocks_text(&self) -> String {
        let skew_max_ms = self.clock_skew_max_ms;
        let mut text = String::new();
        for node in &self.nodes {
            let Some(ahead_ms) = node.clock_ahead_ms else { continue };
            let apart_ms = ahead_ms.unsigned_abs();
            if apart_ms <= skew_max_ms / 2 {
                continue;
            }
            let side = if ahead_ms < 0 { "behind" } else { "ahead of" };
            let then = if apart_ms > skew_max_ms {
                "events in windows of time are undecided there until it is set right"
            } else {
                "look after it"
            };
            let _ = writeln!(
                text,
                "clock of {}: {} {side} most others, and {} at most it may be: {then}",
                printable(node.name),
                duration(apart_ms),
                duration(skew_max_ms)
            );
        }
        text
    }
}

impl NodeSummary<'_> {
    /// Returns the state of a node in one word: `down`, `not reached` or `up`. A node is `down` if the cluster map says
    /// so, which is a decision of the whole cluster. A node is `not reached` if it is not marked down, but the node
    /// that answered this command cannot connect to it.
    fn state(&self) -> &'static str {
        match (self.down, self.reachable) {
            (true, _) => "down",
            (false, false) => "not reached",
            (false, true) => "up",
        }
    }
}

impl<'a> FilterSummaries<'a> {
    pub(crate) fn new(map: &'a ClusterMap, claims: &BTreeMap<FilterId, ByNode>) -> Self {
        let filters = map.filters_in_order().into_iter();
        Self(filters.map(|(number, filter)| FilterSummary::new(map, number, filter, claims.get(&number))).collect())
    }

    /// Returns the filters as a table, with the levels of a tree indented.
    pub(crate) fn text(&self) -> String {
        let mut filters = Table::new(&["filter", "kind", "window", "slicing", "complete", "tree"]);
        for filter in &self.0 {
            let level = filter.tree.as_ref().map_or(0, |tree| usize::from(tree.level));
            filters.row([
                format!("{:indent$}{}", "", filter.name, indent = 2 * level),
                filter.kind.clone(),
                filter.window.clone(),
                filter.slicing.clone(),
                filter.completeness(),
                filter.tree.as_ref().map_or_else(String::new, BranchSummary::text),
            ]);
        }
        filters.text()
    }

    /// Returns a line about the claims of each filter, which also names the nodes that did not report theirs.
    fn claims_text(&self) -> String {
        let mut filters: Vec<&FilterSummary<'_>> = self.0.iter().collect();
        filters.sort_by_key(|filter| filter.number);
        let mut text = String::new();
        for filter in filters {
            let Some(claims) = &filter.claims else { continue };
            let known = claims.iter().filter_map(|(node, claims)| Some((*node, (*claims)?)));
            let _ = write!(text, "claims of {}: {}", filter.name, pending(known));
            let silent: Vec<&str> =
                claims.iter().filter(|(_, claims)| claims.is_none()).map(|(node, _)| *node).collect();
            if !silent.is_empty() {
                let _ = write!(text, "; {} did not say", silent.join(", "));
            }
            text.push('\n');
        }
        text
    }
}

impl<'a> FilterSummary<'a> {
    fn new(map: &'a ClusterMap, number: FilterId, filter: &'a FilterRecord, claims: Option<&ByNode>) -> Self {
        let complete = (0..).zip(&filter.owners).filter(|(slice, _)| map.is_complete(filter, *slice));
        let claims = claims.map(|nodes| nodes.iter().map(|(node, claims)| (map.node_name(*node), *claims)).collect());
        let closed = filter.line.closed.as_ref();
        Self {
            number: number.0,
            name: &filter.name,
            kind: filter.definition.group.cells.kind().to_string(),
            epoch: filter.epoch.0,
            window: filter.definition.group.window.to_string(),
            slicing: filter.definition.slicing.to_string(),
            slices: filter.owners.len(),
            complete_slices: complete.count(),
            moving_slices: filter.moves().count(),
            followed_by: closed.map(|closed| closed.successor.0),
            tree: filter.branch.as_ref().map(BranchSummary::of),
            claims,
            copies: CopyCounts::of(map, filter),
            closing_on: closed.map_or(0, |closed| closed.awaited.len()),
        }
    }

    /// Returns how many slices have a complete copy. If slices have several copies, the text also says how many copies
    /// are complete.
    fn completeness(&self) -> String {
        let mut text = format!("{} of {}", self.complete_slices, self.slices);
        let CopyCounts { all, complete, incomplete } = &self.copies;
        if *all > self.slices {
            let _ = write!(text, ", {complete} of {all} copies");
        }
        if !incomplete.is_empty() {
            let _ = write!(text, " ({})", incomplete.iter().map(IncompleteCopies::text).collect::<Vec<_>>().join("; "));
        }
        if self.moving_slices > 0 {
            let _ = write!(text, ", {} moving", self.moving_slices);
        }
        if self.followed_by.is_some() {
            let _ = match self.closing_on {
                0 => write!(text, ", closed"),
                nodes => write!(text, ", closing on {nodes} nodes"),
            };
        }
        text
    }
}

impl<'a> CopyCounts<'a> {
    fn of(map: &'a ClusterMap, filter: &FilterRecord) -> Self {
        let mut counts = Self { all: 0, complete: 0, incomplete: Vec::new() };
        let mut incomplete: BTreeMap<NodeId, usize> = BTreeMap::new();
        for (slice, copy) in filter.all_copies() {
            if filter.arriving_since(slice, copy.node).is_some() {
                continue;
            }
            counts.all += 1;
            if map.is_complete_copy(copy) {
                counts.complete += 1;
            } else {
                *incomplete.entry(copy.node).or_default() += 1;
            }
        }
        for (node, copies) in incomplete {
            counts.incomplete.push(IncompleteCopies { node: map.node_name(node), is_down: map.is_down(node), copies });
        }
        counts
    }
}

impl IncompleteCopies<'_> {
    /// Returns a text such as `3 on node-3, down`.
    fn text(&self) -> String {
        let why = if self.is_down { "down" } else { "incomplete" };
        format!("{} on {}, {why}", self.copies, self.node)
    }
}

impl<'a> BranchSummary<'a> {
    fn of(branch: &'a Branch) -> Self {
        Self {
            root: branch.root.0,
            parent: branch.parent.map(|parent| parent.0),
            place: &branch.place,
            level: branch.level,
            fold: branch.fold,
            mode: branch.mode,
            cut_off: branch.cut_off,
            top_down: branch.top_down,
        }
    }

    /// Returns a text such as `dense, level 1, fold 2`.
    fn text(&self) -> String {
        let Self { level, fold, place, .. } = self;
        let mode = mode_name(self.mode);
        match self.parent {
            None => format!("{mode}, root, place {place}"),
            Some(_) => format!("{mode}, level {level}, place {place}, fold {fold}"),
        }
    }
}

/// Writes claims as a map whose keys are the names of nodes.
fn by_name<S: Serializer>(claims: &Option<Vec<(&str, Option<Claims>)>>, serializer: S) -> Result<S::Ok, S::Error> {
    let claims: BTreeMap<&str, Option<Claims>> = claims.iter().flatten().copied().collect();
    claims.serialize(serializer)
}

fn slices_of(map: &ClusterMap, node: NodeId) -> u64 {
    let copies = map.filters.values().flat_map(FilterRecord::all_copies);
    copies.filter(|(_, owner)| owner.node == node).count() as u64
}

fn version_of(versions: &Versions, number: NodeId) -> Option<&str> {
    let (_, version) = versions.iter().find(|(node, _)| *node == number)?;
    version.as_ref().map(|version| version.version.as_str())
}

#[cfg(test)]
mod tests {
    use firstseen_routing::{Incarnation, NodeRecord};

    use super::*;

    fn node(name: &str) -> NodeRecord {
        NodeRecord {
            name: name.to_owned(),
            site: "here".to_owned(),
            address: "a:1".to_owned(),
            incarnation: Incarnation(1),
            memory_bytes: 0,
            voter: true,
            is_down: false,
        }
    }

    #[test]
    fn clocks_that_are_apart_have_a_line_each() {
        let names = ["a", "b", "c"];
        let nodes = (1..).map(NodeId).zip(names.map(node)).collect();
        let clocks = BTreeMap::from([(NodeId(1), 0), (NodeId(2), 7_200_000), (NodeId(3), -600)]);
        let map = ClusterMap { nodes, ..ClusterMap::default() };
        let status = ClusterStatus {
            map,
            leader: None,
            term: 1,
            last_applied: 1,
            unreachable: Vec::new(),
            not_answering: Vec::new(),
            clocks,
            clock_skew_max_ms: 1_000,
        };
        let versions = Versions::new();
        let summary = ClusterSummary::new(&status, &BTreeMap::new(), &versions);
        let text = summary.clocks_text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("clock of b: 2h ahead of most others") && lines[0].contains("undecided"));
        assert!(
            lines[1].starts_with("clock of c: 600ms behind most others, and 1s at most")
                && lines[1].ends_with("look after it")
        );
        assert!(serde_json::to_string_pretty(&summary).unwrap().contains("\"clock_ahead_ms\": 7200000"));
    }
}
