//! The level of a tree that a group belongs to: its positions from the root's, and the steps of an event that it does
//! not know.
//!
//! Promises: an event that the levels above have decided is recorded here for as long as it counts there, and no
//! longer. Must not know: how events climb.

use firstseen_filter::{ProbeShape, Probes};

use crate::ids::FilterId;
use crate::map::{Branch, ClusterMap, CutOff, FilterRecord, TreeMode};
use crate::plan::{Fold, GroupPlan, SlicedBuildError};

/// A level of a tree.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// Steps from the root.
    pub(super) number: u8,
    /// The level above, which is asked about events that are not known here.
    pub(super) parent: Option<FilterId>,
    pub(super) mode: TreeMode,
    pub(super) cut_off: CutOff,
    /// The levels directly below this one, in the order of their numbers.
    pub(super) children: Vec<FilterId>,
    /// A find above the level of this number is checked below.
    pub(super) top_down: u8,
    fold: Fold,
    /// The shape of the positions that travel.
    root_shape: ProbeShape,
}

impl Level {
    /// The level of a filter as `map` has it; none where it is in no tree.
    ///
    /// # Errors
    /// [`SlicedBuildError`] where the map lacks the root.
    pub(crate) fn of(
        map: &ClusterMap,
        filter: FilterId,
        record: &FilterRecord,
    ) -> Result<Option<Self>, SlicedBuildError> {
        let Some(Branch { parent, level: number, fold, mode, cut_off, top_down, .. }) = record.branch else {
            return Ok(None);
        };
        let children = map.filters.iter().filter(|(_, record)| {
            let parent = record.branch.as_ref().and_then(|branch| branch.parent);
            parent == Some(filter)
        });
        Ok(Some(Self {
            number,
            parent,
            mode,
            cut_off,
            children: children.map(|(id, _)| *id).collect(),
            top_down,
            fold: Fold::new(fold),
            root_shape: map.prober(record)?.shape(),
        }))
    }

    /// The shape of the positions that producers send.
    pub(super) fn root_shape(&self) -> ProbeShape {
        self.root_shape
    }

    /// The positions of events at this level, from those of the root.
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

    /// Whether a find here may be checked in the levels below.
    pub(super) fn checks(&self) -> bool {
        self.number < self.top_down
    }

    /// Whether positions are the root's.
    pub(super) fn is_whole(&self) -> bool {
        self.fold.is_whole()
    }
}
