//! The status of a cluster, for people and for scripts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use firstseen_filter::duration;
use firstseen_records::printable;
use firstseen_routing::{Branch, ClusterMap, CutOff, FilterId, FilterRecord, NodeId, TreeMode};
use serde::Serialize;

use super::ClusterStatus;
use super::claims::{ByNode, Claims, pending};
use super::upgrade::Versions;
use crate::cluster::places::{in_order, mode_name};
use crate::text::size::ByteSize;
use crate::text::table::Table;

/// Names of the JSON document.
#[derive(Serialize)]
struct StatusDocument<'a> {
    cluster: String,
    map_version: u64,
    /// In which it writes what it agrees on.
    format: u8,
    /// Whether a majority of the voters agrees on a leader now.
    majority: bool,
    leader: Option<u64>,
    term: u64,
    last_applied: u64,
    nodes: Vec<NodeDocument<'a>>,
    filters: Vec<FilterDocument<'a>>,
}

#[derive(Serialize)]
struct NodeDocument<'a> {
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
    /// Whether the cluster has agreed that the node is down: the others go on without it.
    down: bool,
    /// Milliseconds that its clock is ahead of the middle one of all; none where it was not measured lately.
    clock_ahead_ms: Option<i64>,
    /// Of the program that it runs; none where it did not say.
    version: Option<&'a str>,
}

#[derive(Serialize)]
struct FilterDocument<'a> {
    number: u64,
    name: &'a str,
    kind: String,
    epoch: u64,
    window: String,
    slicing: String,
    slices: usize,
    complete_slices: usize,
    /// Copies on their way to other nodes.
    moving_slices: usize,
    /// The filter that has followed it: this one records nothing any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    followed_by: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<BranchDocument<'a>>,
    /// Where events can be claimed, by the nodes that head them; none of a node that did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    claims: Option<BTreeMap<&'a str, Option<Claims>>>,
}

/// The place of a filter in its tree.
#[derive(Serialize)]
struct BranchDocument<'a> {
    root: u64,
    parent: Option<u64>,
    place: &'a str,
    level: u8,
    fold: u8,
    mode: TreeMode,
    cut_off: CutOff,
    top_down: u8,
}

impl<'a> BranchDocument<'a> {
    fn of(branch: &'a Branch) -> Self {
        let Branch { root, parent, level, fold, place, mode, cut_off, top_down } = branch;
        let parent = parent.map(|parent| parent.0);
        let (mode, cut_off, top_down) = (*mode, *cut_off, *top_down);
        Self { root: root.0, parent, place, level: *level, fold: *fold, mode, cut_off, top_down }
    }
}

/// The status as one JSON document.
pub(super) fn json(
    status: &ClusterStatus,
    claims: &BTreeMap<FilterId, ByNode>,
    versions: &Versions,
) -> anyhow::Result<String> {
    let ClusterStatus { map, leader, term, last_applied, unreachable, clocks, .. } = status;
    let version = |number| versions.iter().find(|(node, _)| *node == number)?.1.as_ref();
    let nodes = map.nodes.iter().map(|(number, node)| NodeDocument {
        number: number.0,
        name: &node.name,
        site: &node.site,
        address: &node.address,
        incarnation: node.incarnation.0,
        memory_bytes: node.memory_bytes,
        voter: node.voter,
        leader: Some(*number) == *leader,
        slices: slices_of(map, *number),
        reachable: !unreachable.contains(number),
        down: node.is_down,
        clock_ahead_ms: clocks.get(number).copied(),
        version: version(*number).map(|said| said.version.as_str()),
    });
    let document = StatusDocument {
        cluster: hex(&map.cluster.0),
        map_version: map.version,
        format: map.format.0,
        majority: leader.is_some(),
        leader: leader.map(|NodeId(number)| number),
        term: *term,
        last_applied: *last_applied,
        nodes: nodes.collect(),
        filters: filter_documents(map, claims),
    };
    Ok(serde_json::to_string_pretty(&document)?)
}

fn filter_documents<'a>(map: &'a ClusterMap, claims: &BTreeMap<FilterId, ByNode>) -> Vec<FilterDocument<'a>> {
    let by_name = |nodes: &ByNode| nodes.iter().map(|(node, claims)| (name_of(map, *node), *claims)).collect();
    let documents = in_order(map).into_iter().map(|(number, filter)| FilterDocument {
        number: number.0,
        name: &filter.name,
        kind: filter.definition.group.cells.kind().to_string(),
        epoch: filter.epoch.0,
        window: filter.definition.group.window.to_string(),
        slicing: filter.definition.slicing.to_string(),
        slices: filter.owners.len(),
        complete_slices: complete_slices(map, filter),
        moving_slices: filter.moves().count(),
        followed_by: filter.line.closed.as_ref().map(|closed| closed.successor.0),
        tree: filter.branch.as_ref().map(BranchDocument::of),
        claims: claims.get(&number).map(by_name),
    });
    documents.collect()
}

/// The filters of `map` as one JSON document.
pub(crate) fn filters_json(map: &ClusterMap) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&filter_documents(map, &BTreeMap::new()))?)
}

/// The status as tables.
pub(super) fn text(status: &ClusterStatus, claims: &BTreeMap<FilterId, ByNode>, versions: &Versions) -> String {
    let ClusterStatus { map, leader, term, last_applied, unreachable, .. } = status;
    let mut text = String::new();
    let leads = match leader.and_then(|leader| map.nodes.get(&leader)) {
        Some(node) => format!("led by {}", node.name),
        None => "led by nobody".to_owned(),
    };
    let cluster = hex(&map.cluster.0);
    let _ = writeln!(text, "cluster {cluster}, {leads}");
    let _ = writeln!(
        text,
        "agreed on so far: map {}, applied {last_applied}, term {term}, format {}",
        map.version, map.format
    );
    if leader.is_none() {
        text.push_str(&leaderless(map));
    }
    let mut nodes =
        Table::new(&["node", "number", "address", "site", "starts", "memory", "slices", "votes", "version", "state"]);
    let version = |number| versions.iter().find(|(node, _)| *node == number)?.1.as_ref();
    for (number, node) in &map.nodes {
        nodes.row([
            node.name.clone(),
            number.to_string(),
            node.address.clone(),
            node.site.clone(),
            node.incarnation.0.to_string(),
            ByteSize(node.memory_bytes).to_string(),
            slices_of(map, *number).to_string(),
            yes_or_no(node.voter),
            version(*number).map_or_else(|| "?".to_owned(), |said| said.version.clone()),
            state(node.is_down, unreachable.contains(number)).to_owned(),
        ]);
    }
    text.push_str(&nodes.text());
    text.push_str(&clocks_text(status));
    if !map.filters.is_empty() {
        text.push('\n');
        text.push_str(&filters_text(map));
    }
    for (filter, nodes) in claims {
        text.push_str(&claims_text(map, *filter, nodes));
    }
    text
}

/// A line about the claims of a filter, and one where nodes do not say.
fn claims_text(map: &ClusterMap, filter: FilterId, nodes: &ByNode) -> String {
    let name = map.filters.get(&filter).map_or("?", |filter| filter.name.as_str());
    let known = nodes.iter().filter_map(|(node, claims)| Some((name_of(map, *node), (*claims)?)));
    let silent: Vec<&str> =
        nodes.iter().filter(|(_, claims)| claims.is_none()).map(|(node, _)| name_of(map, *node)).collect();
    let silent = if silent.is_empty() { String::new() } else { format!("; {} did not say", silent.join(", ")) };
    format!("claims of {name}: {}{silent}\n", pending(known))
}

fn name_of(map: &ClusterMap, node: NodeId) -> &str {
    map.nodes.get(&node).map_or("?", |node| node.name.as_str())
}

/// The message where no majority answers.
fn leaderless(map: &ClusterMap) -> String {
    let voters = map.nodes.values().filter(|node| node.voter).count();
    format!(
        "no majority of the {voters} voters ({}) answers: nothing can be changed, and what is shown was agreed on before. Nodes\n\
         answer what they know, and record nothing new once their lease is over. Start the others; where they are lost for\n\
         good, one goes on (firstseen cluster recover)\n",
        voters / 2 + 1
    )
}

/// A line for each node whose clock an operator should look after: it differs from the middle one by more than half of
/// what is allowed.
fn clocks_text(status: &ClusterStatus) -> String {
    let ClusterStatus { map, clocks, clock_skew_max_ms, .. } = status;
    let mut text = String::new();
    for (number, ahead_ms) in clocks.iter().filter(|(_, ahead_ms)| ahead_ms.unsigned_abs() > clock_skew_max_ms / 2) {
        let Some(node) = map.nodes.get(number) else { continue };
        let side = if *ahead_ms < 0 { "behind" } else { "ahead of" };
        let apart_ms = ahead_ms.unsigned_abs();
        let then = if apart_ms > *clock_skew_max_ms {
            "events in windows of time are undecided there until it is set right"
        } else {
            "look after it"
        };
        let name = printable(&node.name);
        let _ = writeln!(
            text,
            "clock of {name}: {} {side} most others, and {} at most it may be: {then}",
            duration(apart_ms),
            duration(*clock_skew_max_ms)
        );
    }
    text
}

/// A node is `down` by agreement; that it cannot be reached is the finding of the node that was asked.
fn state(is_down: bool, is_unreachable: bool) -> &'static str {
    match (is_down, is_unreachable) {
        (true, _) => "down",
        (false, true) => "not reached",
        (false, false) => "up",
    }
}

fn yes_or_no(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}

/// A table of the filters of `map`, the places of a tree below its root.
pub(crate) fn filters_text(map: &ClusterMap) -> String {
    let mut filters = Table::new(&["filter", "kind", "window", "slicing", "complete", "tree"]);
    for (_, filter) in in_order(map) {
        let level = filter.branch.as_ref().map_or(0, |branch| usize::from(branch.level));
        filters.row([
            format!("{:indent$}{}", "", filter.name, indent = 2 * level),
            filter.definition.group.cells.kind().to_string(),
            filter.definition.group.window.to_string(),
            filter.definition.slicing.to_string(),
            completeness(map, filter),
            filter.branch.as_ref().map_or_else(String::new, tree_text),
        ]);
    }
    filters.text()
}

/// `dense, level 1, fold 2`.
fn tree_text(branch: &Branch) -> String {
    let Branch { level, fold, place, mode, .. } = branch;
    if branch.is_root() {
        format!("{}, root, place {place}", mode_name(*mode))
    } else {
        format!("{}, level {level}, place {place}, fold {fold}", mode_name(*mode))
    }
}

fn slices_of(map: &ClusterMap, node: NodeId) -> u64 {
    let copies = map.filters.values().flat_map(FilterRecord::all_copies);
    copies.filter(|(_, owner)| owner.node == node).count() as u64
}

/// How many slices have a complete copy, and how many copies are complete where slices have several.
fn completeness(map: &ClusterMap, filter: &FilterRecord) -> String {
    let mut text = format!("{} of {}", complete_slices(map, filter), filter.owners.len());
    let moving = filter.moves().count();
    if filter.copies.len() > moving {
        let settled = filter.all_copies().filter(|(slice, copy)| filter.arriving_since(*slice, copy.node).is_none());
        let complete = settled.filter(|(_, copy)| map.is_complete_copy(copy)).count();
        let _ = write!(text, ", {complete} of {} copies", filter.owners.len() + filter.copies.len() - moving);
    }
    let incomplete = incomplete_copies(map, filter);
    if !incomplete.is_empty() {
        let _ = write!(text, " ({incomplete})");
    }
    if moving > 0 {
        let _ = write!(text, ", {moving} moving");
    }
    if let Some(closed) = &filter.line.closed {
        let _ = match closed.awaited.len() {
            0 => write!(text, ", closed"),
            nodes => write!(text, ", closing on {nodes} nodes"),
        };
    }
    text
}

/// Returns where the copies are that are not complete, and why: `3 on node-3, down`.
fn incomplete_copies(map: &ClusterMap, filter: &FilterRecord) -> String {
    let mut by_node: BTreeMap<NodeId, usize> = BTreeMap::new();
    let settled = filter.all_copies().filter(|(slice, copy)| filter.arriving_since(*slice, copy.node).is_none());
    for (_, copy) in settled.filter(|(_, copy)| !map.is_complete_copy(copy)) {
        *by_node.entry(copy.node).or_default() += 1;
    }
    let mut parts = Vec::new();
    for (node, copies) in by_node {
        let name = name_of(map, node);
        let why = if map.is_down(node) { "down" } else { "incomplete" };
        parts.push(format!("{copies} on {name}, {why}"));
    }
    parts.join("; ")
}

fn complete_slices(map: &ClusterMap, filter: &FilterRecord) -> usize {
    (0..).zip(&filter.owners).filter(|(slice, _)| map.is_complete(filter, *slice)).count()
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use firstseen_routing::{Incarnation, NodeRecord};

    use super::*;

    #[test]
    fn clocks_that_are_apart_have_a_line_each() {
        let node = |name: &str| NodeRecord {
            name: name.to_owned(),
            site: "here".to_owned(),
            address: "a:1".to_owned(),
            incarnation: Incarnation(1),
            memory_bytes: 0,
            voter: true,
            is_down: false,
        };
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
        let text = clocks_text(&status);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("clock of b: 2h ahead of most others") && lines[0].contains("undecided"));
        assert!(
            lines[1].starts_with("clock of c: 600ms behind most others, and 1s at most")
                && lines[1].ends_with("look after it")
        );
        assert!(json(&status, &BTreeMap::new(), &Versions::new()).unwrap().contains("\"clock_ahead_ms\": 7200000"));
    }
}
