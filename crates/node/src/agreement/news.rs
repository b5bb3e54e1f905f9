//! What a new map changes, as lines of the log with names that stay: operators search for them, and alert on them.
//!
//! Promises: each change of a node's or filter's state has one line; of a map that changes much, the first are written, and how many
//! more there were. Must not know: why it changed.

use std::collections::{BTreeMap, BTreeSet};

use firstseen_routing::{ClusterMap, FilterId, FilterRecord, NodeId};

/// Lines of one map.
const LINES_MAX: usize = 64;

/// A change that has a line. `event=` is its name in the log, in lower case with underscores.
#[derive(Clone, Debug, PartialEq, Eq)]
enum News<'map> {
    NodeJoined {
        node: &'map str,
    },
    NodeLeft {
        node: &'map str,
    },
    NodeDown {
        node: &'map str,
    },
    /// Also where it has started anew before it was called down.
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
    /// Events are recorded in another filter of the name from here on.
    FilterAltered {
        filter: &'map str,
    },
    /// Some slices are set, and not asked: events that need them are undecided.
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

/// Slices that go from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MovedSlices<'map> {
    filter: &'map str,
    from: &'map str,
    to: &'map str,
    slices: usize,
}

/// Writes what `after` changes; nothing where `before` is no map yet.
pub(super) fn log(before: &ClusterMap, after: &ClusterMap) {
    if before.version == 0 || before.version == after.version {
        return;
    }
    let news = news(before, after);
    news.iter().take(LINES_MAX).for_each(News::log);
    if let Some(further) = news.len().checked_sub(LINES_MAX).filter(|further| *further > 0) {
        tracing::info!(event = "further_changes", changes = further, "the map has changed further");
    }
}

impl News<'_> {
    fn log(&self) {
        match *self {
            Self::NodeJoined { node } => tracing::info!(event = "node_joined", node, "a node belongs to the cluster"),
            Self::NodeLeft { node } => {
                tracing::info!(event = "node_left", node, "a node belongs to the cluster no more")
            }
            Self::NodeDown { node } => {
                tracing::warn!(event = "node_down", node, "a node is down: the others go on without it");
            }
            Self::NodeUp { node, starts } => tracing::info!(event = "node_up", node, starts, "a node is up"),
            Self::FilterCreated { filter } => tracing::info!(event = "filter_created", filter, "a filter is created"),
            Self::FilterDropped { filter } => tracing::info!(event = "filter_dropped", filter, "a filter is gone"),
            Self::FilterAltered { filter } => {
                tracing::info!(event = "filter_altered", filter, "a filter is altered: what it remembers still counts");
            }
            Self::SlicesIncomplete { filter, complete, of } => {
                tracing::warn!(event = "slices_incomplete", filter, complete, of, "slices are set, and not asked");
            }
            Self::SlicesComplete { filter, of } => {
                tracing::info!(event = "slices_complete", filter, of, "all slices are asked");
            }
            Self::MoveBegun(MovedSlices { filter, from, to, slices }) => {
                tracing::info!(event = "move_begun", filter, from, to, slices, "slices move");
            }
            Self::MoveEnded(MovedSlices { filter, from, to, slices }) => {
                tracing::info!(event = "move_ended", filter, from, to, slices, "slices have moved");
            }
            Self::MoveGivenUp(MovedSlices { filter, from, to, slices }) => {
                tracing::warn!(event = "move_given_up", filter, from, to, slices, "slices stay where they are");
            }
        }
    }
}

fn news<'map>(before: &'map ClusterMap, after: &'map ClusterMap) -> Vec<News<'map>> {
    let mut news = Vec::new();
    of_nodes(before, after, &mut news);
    let gone = before.filters.iter().filter(|(id, _)| !after.filters.contains_key(id));
    // A filter that another one has followed goes in silence: that line was written when it was altered.
    let dropped = gone.filter(|(_, record)| !record.is_closed());
    news.extend(dropped.map(|(_, record)| News::FilterDropped { filter: &record.name }));
    for (id, record) in &after.filters {
        of_filter(before, after, *id, record, &mut news);
    }
    news
}

fn of_nodes<'map>(before: &'map ClusterMap, after: &'map ClusterMap, news: &mut Vec<News<'map>>) {
    for (id, record) in &before.nodes {
        if !after.nodes.contains_key(id) {
            news.push(News::NodeLeft { node: &record.name });
        }
    }
    for (id, record) in &after.nodes {
        let node = record.name.as_str();
        let Some(former) = before.nodes.get(id) else {
            news.push(News::NodeJoined { node });
            continue;
        };
        if record.is_down && !former.is_down {
            news.push(News::NodeDown { node });
        }
        if !record.is_down && (former.is_down || former.incarnation != record.incarnation) {
            news.push(News::NodeUp { node, starts: record.incarnation.0 });
        }
    }
}

fn of_filter<'map>(
    before: &ClusterMap,
    after: &'map ClusterMap,
    id: FilterId,
    record: &'map FilterRecord,
    news: &mut Vec<News<'map>>,
) {
    let filter = record.name.as_str();
    let of = record.owners.len();
    let Some(former) = before.filters.get(&id) else {
        let follows = record.line.former.is_some();
        news.push(if follows { News::FilterAltered { filter } } else { News::FilterCreated { filter } });
        return;
    };
    let complete = complete_slices(after, record);
    if complete != complete_slices(before, former) {
        news.push(if complete == of {
            News::SlicesComplete { filter, of }
        } else {
            News::SlicesIncomplete { filter, complete, of }
        });
    }
    let begun = moving(former);
    let under_way = moving(record);
    for ((from, to), slices) in &under_way {
        let slices = slices.difference(begun.get(&(*from, *to)).unwrap_or(&BTreeSet::new())).count();
        if slices > 0 {
            let from = node_name(after, from);
            let to = node_name(after, to);
            news.push(News::MoveBegun(MovedSlices { filter, from, to, slices }));
        }
    }
    for ((from, to), slices) in &begun {
        let still = under_way.get(&(*from, *to));
        let over = slices.iter().copied().filter(|slice| !still.is_some_and(|still| still.contains(slice)));
        let (ended, given_up): (Vec<u32>, Vec<u32>) =
            over.partition(|slice| record.copies_of(*slice).any(|copy| copy.node == *to));
        let moved = MovedSlices { filter, from: node_name(after, from), to: node_name(after, to), slices: ended.len() };
        if !ended.is_empty() {
            news.push(News::MoveEnded(moved));
        }
        if !given_up.is_empty() {
            news.push(News::MoveGivenUp(MovedSlices { slices: given_up.len(), ..moved }));
        }
    }
}

fn node_name<'map>(map: &'map ClusterMap, node: &NodeId) -> &'map str {
    map.nodes.get(node).map_or("a node that is gone", |record| record.name.as_str())
}

fn complete_slices(map: &ClusterMap, record: &FilterRecord) -> usize {
    (0..record.owners.len() as u32).filter(|slice| map.is_complete(record, *slice)).count()
}

/// The slices that are on their way, by the nodes between which they move.
fn moving(record: &FilterRecord) -> BTreeMap<(NodeId, NodeId), BTreeSet<u32>> {
    let mut moving: BTreeMap<_, BTreeSet<u32>> = BTreeMap::new();
    for slice_move in record.moves() {
        moving.entry((slice_move.from, slice_move.to)).or_default().insert(slice_move.slice);
    }
    moving
}

#[cfg(test)]
#[path = "news/tests.rs"]
mod tests;
