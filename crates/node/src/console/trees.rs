//! Creates the description of filter trees in the console's overview. For each level of a tree, the description
//! contains the hit rate, which is the share of queries that the level answers with "duplicate" on its own, without a
//! query to its parent. In the list of levels, every level comes after its parent.

use firstseen_routing::{Branch, ClusterMap, FilterId, FilterRecord, TreeMode};
use firstseen_wire::proto::peer::{FilterSample, OwedEvents};

use super::filters::rate;
use super::overview::{PlaceLine, TreeLine};
use super::rates::{Counted, RecentSamples, events};

/// Returns the trees among the filters, which are in the order of the overview.
pub(super) fn trees(map: &ClusterMap, said: &RecentSamples, ordered: &[(FilterId, &FilterRecord)]) -> Vec<TreeLine> {
    let mut trees: Vec<TreeLine> = Vec::new();
    for (id, record) in ordered {
        let Some(branch) = &record.branch else { continue };
        if branch.is_root() {
            let mode = match branch.mode {
                TreeMode::Sparse => "sparse",
                TreeMode::Dense => "dense",
            };
            trees.push(TreeLine { root: record.name.clone(), mode: mode.to_owned(), places: Vec::new() });
        }
        if let Some(tree) = trees.last_mut() {
            tree.places.push(place(map, said, *id, record, branch));
        }
    }
    trees
}

fn place(map: &ClusterMap, said: &RecentSamples, id: FilterId, record: &FilterRecord, branch: &Branch) -> PlaceLine {
    let counted: Vec<Counted<'_>> =
        record.nodes().iter().filter_map(|node| said.filter(*node, id.0)).filter(Counted::has_window).collect();
    let owed = Owed::of(map, said, id);
    let parent = branch.parent.and_then(|parent| map.filters.get(&parent)?.branch.as_ref());
    PlaceLine {
        place: branch.place.clone(),
        filter: record.name.clone(),
        parent: parent.map(|parent| parent.place.clone()),
        level: branch.level,
        asked_per_s: rate(&counted, events),
        found_per_s: rate(&counted, found),
        climbed_per_s: rate(&counted, |sample| sample.climbs.map_or(0, |climbs| climbs.events)),
        owed_events: owed.map(|owed| owed.events),
        owed_oldest_s: owed.map(|owed| owed.oldest_s),
        owed_full: owed.map(|owed| owed.full),
    }
}

/// Events that a place has decided without its parent place and has not reported yet.
#[derive(Clone, Copy, Default)]
struct Owed {
    events: u64,
    oldest_s: u64,
    full: f64,
}

impl Owed {
    /// Returns the sum over all nodes that say it, because a node whose slices have moved away still reports what it has
    /// decided. A node that cannot be reached may have more. Returns `None` if no node says it, as for a root.
    fn of(map: &ClusterMap, said: &RecentSamples, id: FilterId) -> Option<Self> {
        let of_nodes = map.nodes.keys().filter_map(|node| said.filter(*node, id.0)?.now.owed);
        of_nodes.fold(
            None,
            |sum: Option<Self>, OwedEvents { events, oldest_age_ms, group_events, group_events_max }| {
                let sum = sum.unwrap_or_default();
                Some(Self {
                    events: sum.events + events,
                    oldest_s: sum.oldest_s.max(oldest_age_ms / 1000),
                    full: sum.full.max(group_events as f64 / group_events_max.max(1) as f64),
                })
            },
        )
    }
}

/// Returns the number of duplicates that this level has found on its own.
fn found(sample: &FilterSample) -> u64 {
    sample.duplicate.saturating_sub(sample.climbs.map_or(0, |climbs| climbs.duplicate))
}
