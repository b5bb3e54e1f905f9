//! The level of a filter tree to which a slice group belongs. The levels exchange positions of the root, and this
//! module converts them to positions of this level. If a higher level has decided an event, this level remembers the
//! event for exactly as long as the higher level does.
//!
//! This module does not handle restarts of nodes: a level that has lost cells asks its parent level again (`decide.rs`).

use firstseen_filter::{ProbeShape, Probes};

use crate::ids::FilterId;
use crate::map::{Branch, ClusterMap, CutOff, FilterRecord, TreeMode};
use crate::plan::{Fold, GroupPlan, SlicedBuildError};

/// A level of a filter tree.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// Number of steps from the root.
    pub(super) number: u8,
    /// The parent level, which is queried about events that are not known here.
    pub(super) parent: Option<FilterId>,
    pub(super) mode: TreeMode,
    pub(super) cut_off: CutOff,
    /// The levels directly below this level, sorted by their filter numbers.
    pub(super) children: Vec<FilterId>,
    /// Finds at levels with a smaller number than this are checked at the lower levels.
    pub(super) top_down: u8,
    fold: Fold,
    /// Shape of the positions that are sent between levels.
    root_shape: ProbeShape,
}

impl Level {
    /// Returns the level of a filter according to `map`, or `None` if it belongs to no tree.
    ///
    /// # Errors
    /// Returns a [`SlicedBuildError`] if the map lacks the root.
    pub(crate) fn of(
        map: &ClusterMap,
        filter: FilterId,
        record: &FilterRecord,
    ) -> Result<Option<Self>, SlicedBuildError> {
        let Some(Branch { parent, level: number, fold, mode, cut_off, top_down, .. }) = record.branch else {
            return Ok(None);
        };
        Ok(Some(Self {
            number,
            parent,
            mode,
            cut_off,
            children: children(map, filter),
            top_down,
            fold: Fold::new(fold),
            root_shape: map.prober(record)?.shape(),
        }))
    }

    /// Applies a new cluster map. `filter` is the filter of this level.
    pub(super) fn follow(&mut self, map: &ClusterMap, filter: FilterId) {
        self.children = children(map, filter);
    }

    /// Returns the shape of the positions that producers send.
    pub(super) fn root_shape(&self) -> ProbeShape {
        self.root_shape
    }

    /// Converts positions of events at the root to positions at this level.
    pub(super) fn fold(&self, probes: &Probes, plan: &GroupPlan) -> Probes {
        let mut folded = Probes::new(plan.shape());
        let mut positions = Vec::new();
        for event in 0..probes.len() {
            positions.clear();
            positions.extend(probes.positions(event).iter().map(|position| self.fold.of(*position)));
            let pushed = folded.push_positions(&positions);
            debug_assert!(pushed.is_ok(), "a level has room for every folded position");
        }
        folded
    }

    /// Returns whether a find at this level may be checked at the lower levels.
    pub(super) fn checks(&self) -> bool {
        self.number < self.top_down
    }

    /// Returns whether the positions at this level are those of the root.
    pub(super) fn is_whole(&self) -> bool {
        self.fold.is_whole()
    }
}

/// Returns the levels directly below filter `parent`, sorted by their filter numbers.
fn children(map: &ClusterMap, parent: FilterId) -> Vec<FilterId> {
    let below = map.filters.iter().filter(|(_, record)| {
        let branch = record.branch.as_ref();
        branch.is_some_and(|branch| branch.parent == Some(parent))
    });
    below.map(|(id, _)| *id).collect()
}
