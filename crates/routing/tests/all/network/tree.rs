//! Filter trees in the test network. Each level is a filter with separate nodes.

use std::collections::BTreeSet;

use firstseen_mesh::tree_map;
use firstseen_routing::{
    CutOff, FilterId, FilterPolicies, NodeId, OwedCounts, OwnerLimits, PlaceSpec, SlicedDefinition, TreeMode, TreeSpec,
};

use super::Network;
use crate::common::TestRng;

pub(crate) use firstseen_mesh::ROOT;

/// Returns the specification of a filter tree over `places`. Each place is given as a pair of its parent's index and
/// its fold. The first place is the root. Every leaf has a site of its own.
pub(crate) fn spec(mode: TreeMode, places: &[(usize, u8)], slicings: &[&str]) -> TreeSpec {
    let name = |place: usize| format!("place-{place}");
    let is_leaf = |place: usize| places.iter().skip(1).all(|(parent, _)| *parent != place);
    let leaf = (0..places.len()).find(|place| is_leaf(*place)).unwrap_or_default();
    let place = |(place, (parent, fold)): (usize, &(usize, u8))| PlaceSpec {
        name: name(place),
        parent: (place > 0).then(|| name(*parent)),
        fold: *fold,
        slicing: (place > 0).then(|| slicings[place % slicings.len()].parse().unwrap()),
        sites: vec![name(if is_leaf(place) { place } else { leaf })],
    };
    TreeSpec { mode, cut_off: CutOff::Undecided, top_down: 0, places: places.iter().enumerate().map(place).collect() }
}

impl Network {
    pub(crate) fn of_tree(
        tree: &TreeSpec,
        definition: &SlicedDefinition,
        policies: FilterPolicies,
        rng: TestRng,
    ) -> Self {
        Self::of(tree_map(tree, definition, policies).unwrap(), OwnerLimits::default(), rng)
    }

    /// Returns the nodes that own slices of a level.
    pub(crate) fn nodes_of(&self, level: FilterId) -> BTreeSet<NodeId> {
        self.map().filters[&level].owners.iter().map(|owner| owner.node).collect()
    }

    pub(crate) fn leaves(&self) -> Vec<FilterId> {
        let filters = &self.map().filters;
        let parents: BTreeSet<FilterId> =
            filters.values().filter_map(|filter| filter.branch.as_ref()?.parent).collect();
        filters.keys().copied().filter(|filter| !parents.contains(filter)).collect()
    }

    /// Returns the levels above a level, nearest first.
    pub(crate) fn ancestors(&self, level: FilterId) -> Vec<FilterId> {
        let parent = |filter: &FilterId| self.map().filters[filter].branch.as_ref()?.parent;
        std::iter::successors(parent(&level), parent).collect()
    }

    /// Gives a level empty slices, as if all of its nodes had restarted.
    pub(crate) fn restart_level(&mut self, level: FilterId) {
        self.restart_of(level, &self.nodes_of(level));
    }

    /// Returns the counts of verdicts that all groups of a level gave without the parent level.
    pub(crate) fn owed(&mut self, level: FilterId) -> OwedCounts {
        let of_level = self.mesh.owners_mut().iter_mut().filter(|(instance, _)| instance.filter == level);
        of_level.map(|(_, owner)| owner.state(usize::MAX).owed).fold(OwedCounts::default(), |sum, counts| OwedCounts {
            oldest_since_ms: sum.oldest_since_ms.into_iter().chain(counts.oldest_since_ms).min(),
            waiting_events: sum.waiting_events + counts.waiting_events,
            local_events: sum.local_events + counts.local_events,
            double_deliveries: sum.double_deliveries + counts.double_deliveries,
            lost_events: sum.lost_events + counts.lost_events,
        })
    }

    /// Returns the number of events that were tested at each level so far, from the root down.
    pub(crate) fn accesses(&mut self) -> Vec<u64> {
        self.mesh.hops().into_iter().map(|hops| hops.tests).collect()
    }
}
