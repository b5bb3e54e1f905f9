//! Writes to the log how a new cluster map differs from the previous one. Each change of the state of a node or a
//! filter has one line with an event name. Event names never change, because operators search for them and configure
//! alerts on them. If a new map contains very many changes, only the first ones are logged, followed by the number of
//! changes that were left out.

use std::collections::{BTreeMap, BTreeSet};

use firstseen_routing::{ClusterMap, FilterId, FilterRecord, NodeId};

/// Maximum number of log lines for one cluster map.
const LINES_MAX: usize = 64;

/// A change that is logged. The value of `event=` in the log is the name of the variant in snake case.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MapChange<'map> {
    NodeJoined {
        node: &'map str,
    },
    NodeLeft {
        node: &'map str,
    },
    NodeDown {
        node: &'map str,
    },
    /// A node is up. This includes a node that restarted before it was marked down.
    NodeUp {
        node: &'map str,
        starts: u64,
    },
    FilterCreated {
        filter: &'map str,
    },
    FilterDropped {
        filter: &'map str,
    },
    /// New events are recorded in a new filter with the same name from now on.
    FilterAltered {
        filter: &'map str,
    },
    /// Some slices record events but are not used for lookups, because they are incomplete. Events that need them are
    /// undecided.
    SlicesIncomplete {
        filter: &'map str,
        complete: usize,
        of: usize,
    },
    SlicesComplete {
        filter: &'map str,
        of: usize,
    },
    MoveBegun(MovedSlices<'map>),
    MoveEnded(MovedSlices<'map>),
    MoveGivenUp(MovedSlices<'map>),
}

/// Slices that move from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MovedSlices<'map> {
    filter: &'map str,
    from: &'map str,
    to: &'map str,
    slices: usize,
}

/// Logs the differences between `before` and `after`. Nothing is logged if `before` is the initial empty map.
pub(super) fn log(before: &ClusterMap, after: &ClusterMap) {
    if before.version == 0 || before.version == after.version {
        return;
    }
    let news = news(before, after);
    news.iter().take(LINES_MAX).for_each(MapChange::log);
    if let Some(further) = news.len().checked_sub(LINES_MAX).filter(|further| *further > 0) {
        tracing::info!(
            event = "further_changes",
            changes = further,
            "the cluster map has further changes, which are not logged"
        );
    }
}

impl MapChange<'_> {
    fn log(&self) {
        match *self {
            Self::NodeJoined { node } => tracing::info!(event = "node_joined", node, "a node has joined the cluster"),
            Self::NodeLeft { node } => {
                tracing::info!(event = "node_left", node, "a node has left the cluster")
            }
            Self::NodeDown { node } => {
                tracing::warn!(event = "node_down", node, "a node is down: the other nodes continue without it");
            }
            Self::NodeUp { node, starts } => tracing::info!(event = "node_up", node, starts, "a node is up"),
            Self::FilterCreated { filter } => tracing::info!(event = "filter_created", filter, "a filter is created"),
            Self::FilterDropped { filter } => tracing::info!(event = "filter_dropped", filter, "a filter is gone"),
            Self::FilterAltered { filter } => {
                tracing::info!(event = "filter_altered", filter, "a filter is altered: its events still count");
            }
            Self::SlicesIncomplete { filter, complete, of } => {
                tracing::warn!(
                    event = "slices_incomplete",
                    filter,
                    complete,
                    of,
                    "some slices are incomplete: they record events but do not answer lookups"
                );
            }
            Self::SlicesComplete { filter, of } => {
                tracing::info!(event = "slices_complete", filter, of, "all slices are complete");
            }
            Self::MoveBegun(MovedSlices { filter, from, to, slices }) => {
                tracing::info!(event = "move_begun", filter, from, to, slices, "slices are being moved");
            }
            Self::MoveEnded(MovedSlices { filter, from, to, slices }) => {
                tracing::info!(event = "move_ended", filter, from, to, slices, "slices have moved");
            }
            Self::MoveGivenUp(MovedSlices { filter, from, to, slices }) => {
                tracing::warn!(event = "move_given_up", filter, from, to, slices, "a move of slices was cancelled");
            }
        }
    }
}

fn news<'map>(before: &'map ClusterMap, after: &'map ClusterMap) -> Vec<MapChange<'map>> {
    let mut news = Vec::new();
    of_nodes(before, after, &mut news);
    let gone = before.filters.iter().filter(|(id, _)| !after.filters.contains_key(id));
    // The removal of a filter that was replaced is not logged. The log already contains a line about the replacement.
    let dropped = gone.filter(|(_, record)| !record.is_closed());
    news.extend(dropped.map(|(_, record)| MapChange::FilterDropped { filter: &record.name }));
    for (id, record) in &after.filters {
        of_filter(before, after, *id, record, &mut news);
    }
    news
}

fn of_nodes<'map>(before: &'map ClusterMap, after: &'map ClusterMap, news: &mut Vec<MapChange<'map>>) {
    for (id, record) in &before.nodes {
        if !after.nodes.contains_key(id) {
            news.push(MapChange::NodeLeft { node: &record.name });
        }
    }
    for (id, record) in &after.nodes {
        let node = record.name.as_str();
        let Some(former) = before.nodes.get(id) else {
            news.push(MapChange::NodeJoined { node });
            continue;
        };
        if record.is_down && !former.is_down {
            news.push(MapChange::NodeDown { node });
        }
        if !record.is_down && (former.is_down || former.incarnation != record.incarnation) {
            news.push(MapChange::NodeUp { node, starts: record.incarnation.0 });
        }
    }
}

fn of_filter<'map>(
    before: &ClusterMap,
    after: &'map ClusterMap,
    id: FilterId,
    record: &'map FilterRecord,
    news: &mut Vec<MapChange<'map>>,
) {
    let filter = record.name.as_str();
    let of = record.owners.len();
    let Some(former) = before.filters.get(&id) else {
        let follows = record.line.former.is_some();
        news.push(if follows { MapChange::FilterAltered { filter } } else { MapChange::FilterCreated { filter } });
        return;
    };
    let complete = complete_slices(after, record);
    if complete != complete_slices(before, former) {
        news.push(if complete == of {
            MapChange::SlicesComplete { filter, of }
        } else {
            MapChange::SlicesIncomplete { filter, complete, of }
        });
    }
    let begun = moving(former);
    let in_progress = moving(record);
    for ((from, to), slices) in &in_progress {
        let slices = slices.difference(begun.get(&(*from, *to)).unwrap_or(&BTreeSet::new())).count();
        if slices > 0 {
            let from = node_name(after, from);
            let to = node_name(after, to);
            news.push(MapChange::MoveBegun(MovedSlices { filter, from, to, slices }));
        }
    }
    for ((from, to), slices) in &begun {
        let still = in_progress.get(&(*from, *to));
        let over = slices.iter().copied().filter(|slice| !still.is_some_and(|still| still.contains(slice)));
        let (ended, given_up): (Vec<u32>, Vec<u32>) =
            over.partition(|slice| record.copies_of(*slice).any(|copy| copy.node == *to));
        let moved = MovedSlices { filter, from: node_name(after, from), to: node_name(after, to), slices: ended.len() };
        if !ended.is_empty() {
            news.push(MapChange::MoveEnded(moved));
        }
        if !given_up.is_empty() {
            news.push(MapChange::MoveGivenUp(MovedSlices { slices: given_up.len(), ..moved }));
        }
    }
}

fn node_name<'map>(map: &'map ClusterMap, node: &NodeId) -> &'map str {
    map.nodes.get(node).map_or("a node that has left", |record| record.name.as_str())
}

fn complete_slices(map: &ClusterMap, record: &FilterRecord) -> usize {
    (0..record.owners.len() as u32).filter(|slice| map.is_complete(record, *slice)).count()
}

/// Returns the slices that are being moved, by the pair of nodes between which they move.
fn moving(record: &FilterRecord) -> BTreeMap<(NodeId, NodeId), BTreeSet<u32>> {
    let mut moving: BTreeMap<_, BTreeSet<u32>> = BTreeMap::new();
    for slice_move in record.moves() {
        moving.entry((slice_move.from, slice_move.to)).or_default().insert(slice_move.slice);
    }
    moving
}

#[cfg(test)]
#[path = "map_change/tests.rs"]
mod tests;
