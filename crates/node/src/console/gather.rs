//! Creates the overview from the cluster map and from the samples of the nodes.
//!
//! # Guarantees
//! - The same input produces the same overview.
//! - A sum over nodes is `None` if none of these nodes answers. It lists the nodes that did not answer.
//!
//! This module does not depend on how and when nodes are asked.

use std::collections::{BTreeMap, BTreeSet};

use firstseen_meta::slice_bytes;
use firstseen_routing::{ClusterMap, FilterId, FilterRecord, NodeId, NodeRecord};

use super::filters;
use super::history::rounded;
use super::overview::{
    ClusterLine, NodeLine, OVERVIEW_VERSION, Overview, SliceCounts, Undecided, Verdicts, is_harmless,
};
use super::rates::RecentSamples;
use super::trees::trees;
use super::work::Work;

/// What one node knows about its cluster at one time.
pub(super) struct Known<'a> {
    pub(super) map: &'a ClusterMap,
    pub(super) cluster: ClusterLine,
    /// Time of day in milliseconds since 1970.
    pub(super) now_ms: u64,
    /// The node that creates the overview.
    pub(super) me: Option<NodeId>,
    pub(super) leader: Option<NodeId>,
    /// Nodes that the node has not reached for a while.
    pub(super) unreachable: &'a BTreeSet<NodeId>,
    /// Milliseconds that the clock of each node is ahead of the median clock.
    pub(super) clocks: BTreeMap<NodeId, i64>,
    pub(super) said: &'a RecentSamples,
}

/// Creates the overview of all nodes, filters and trees, without alarms and history.
pub(super) fn gather(known: &Known<'_>, work: &mut Work, now_s: u64) -> Overview {
    let Known { map, said, .. } = known;
    let ordered = map.filters_in_order();
    let filters: Vec<_> = ordered.iter().map(|(id, record)| filters::line(map, said, *id, record)).collect();
    let mut slices = SliceCounts::default();
    filters.iter().for_each(|filter| slices.add(&filter.slices));
    Overview {
        version: OVERVIEW_VERSION,
        at_ms: known.now_ms,
        cluster: known.cluster.clone(),
        verdicts: without_climbs(sum(filters.iter().map(|filter| &filter.verdicts)), &ordered, said),
        nodes: nodes(known),
        slices,
        work: work.lines(map, now_s),
        trees: trees(map, said, &ordered),
        filters,
        ..Overview::default()
    }
}

/// Corrects a sum of verdicts in which events of filter trees were counted twice. If a tree level cannot decide an
/// event, it asks its parent level, and both levels then count a verdict for this event. This function subtracts the
/// verdicts that tree levels received from their parent levels, so that each event counts once.
fn without_climbs(sum: Verdicts, filters: &[(FilterId, &FilterRecord)], said: &RecentSamples) -> Verdicts {
    let climbed = filters.iter().map(|(id, record)| filters::climbed_per_s(said, *id, record));
    let [new, again] =
        climbed.fold([0.0; 2], |[new, again], [more_new, more_again]| [new + more_new, again + more_again]);
    Verdicts {
        first_seen_per_s: sum.first_seen_per_s.map(|rate| rounded((rate - new).max(0.0))),
        duplicate_per_s: sum.duplicate_per_s.map(|rate| rounded((rate - again).max(0.0))),
        ..sum
    }
}

/// Adds up the known verdicts.
fn sum<'a>(all: impl Iterator<Item = &'a Verdicts> + Clone) -> Verdicts {
    let mut reasons: BTreeMap<&str, (Option<f64>, u64)> = BTreeMap::new();
    for Undecided { reason, per_s, events, .. } in all.clone().flat_map(|verdicts| &verdicts.undecided) {
        let (rate, sum) = reasons.entry(reason).or_default();
        *sum += events;
        if let Some(per_s) = per_s {
            *rate = Some(rate.unwrap_or(0.0) + per_s);
        }
    }
    let undecided = reasons.into_iter();
    Verdicts {
        first_seen_per_s: sum_of(all.clone().map(|verdicts| verdicts.first_seen_per_s)),
        duplicate_per_s: sum_of(all.clone().map(|verdicts| verdicts.duplicate_per_s)),
        undecided_per_s: sum_of(all.map(|verdicts| verdicts.undecided_per_s)),
        undecided: undecided
            .map(|(reason, (per_s, events))| Undecided {
                harmless: is_harmless(reason),
                reason: reason.to_owned(),
                per_s: per_s.map(rounded),
                events,
            })
            .collect(),
    }
}

/// Adds up the known rates.
fn sum_of(rates: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    rates.flatten().reduce(|sum, rate| sum + rate).map(rounded)
}

fn nodes(known: &Known<'_>) -> Vec<NodeLine> {
    let mut held: BTreeMap<NodeId, Held> = BTreeMap::new();
    for record in known.map.filters.values() {
        let bytes = slice_bytes(&record.definition).unwrap_or(0);
        for (_, copy) in record.all_copies() {
            let held = held.entry(copy.node).or_default();
            held.slices += 1;
            held.reserved_bytes = held.reserved_bytes.saturating_add(bytes);
        }
    }
    let nodes = known.map.nodes.iter();
    nodes.map(|(id, record)| node(known, *id, record, held.get(id).copied().unwrap_or_default())).collect()
}

/// The copies of slices that a node has according to the cluster map.
#[derive(Clone, Copy, Default)]
struct Held {
    slices: u64,
    /// Memory that the copies take when they are full, in bytes.
    reserved_bytes: u64,
}

fn node(known: &Known<'_>, id: NodeId, record: &NodeRecord, held: Held) -> NodeLine {
    let said = known.said.of(id);
    let state = match () {
        () if record.is_down => "down",
        () if known.unreachable.contains(&id) && known.me != Some(id) => "not_reached",
        () if said.is_none() => "silent",
        () => "up",
    };
    NodeLine {
        name: record.name.clone(),
        number: id.0,
        site: record.site.clone(),
        address: record.address.clone(),
        state: state.to_owned(),
        leader: known.leader == Some(id),
        version: said.map(|said| said.version.clone()),
        newest_format: said.map(|said| said.newest_format),
        ready: said.map(|said| said.not_ready.is_empty()),
        not_ready: said.map(|said| said.not_ready.clone()).filter(|reason| !reason.is_empty()),
        memory_used_bytes: said.map(|said| said.cells_bytes),
        memory_reserved_bytes: held.reserved_bytes,
        memory_limit_bytes: record.memory_bytes,
        clock_ahead_ms: known.clocks.get(&id).copied(),
        certificate_ends_ms: said.map(|said| said.certificate_ends_ms).filter(|ends| *ends > 0),
        slices: held.slices,
        events_per_s: known.said.events_per_s(id).map(rounded),
        claims_unsure_ms: said
            .map(|said| said.filters.iter().filter_map(|it| Some(it.claims?.unsure_ms)).max().unwrap_or(0)),
    }
}
