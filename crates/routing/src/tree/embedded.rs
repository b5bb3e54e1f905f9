//! A whole tree in one place, one event after the other: for experiments, and as the model of the tree over nodes.
//!
//! Promises: the rules of a level over nodes with one event in flight; and the order of the paper, which sets while it
//! climbs. Must not know: nodes, slices of a level, concurrency.

use std::collections::BTreeSet;

use firstseen_filter::{BuildError, Digest, FilterSlice, Sighting, Stamp, WindowRule};

use super::{Fold, Place, TreeMode, TreeRefusal, TreeSpec};
use crate::{Decision, Prober, SlicedBuildError, SlicedDefinition};

/// When levels are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetWhen {
    /// When the verdict is known, as over nodes: sparse or dense, as the tree says.
    Decided,
    /// While the event climbs (K11 6, test-and-set): a level that is lost in mid-climb makes the retry a duplicate of
    /// itself, and timers get a fresh window with every climb. For bits only.
    Climbing,
}

/// A level in one piece, with what it has done.
struct EmbeddedLevel {
    place: Place,
    cells: FilterSlice,
    fold: Fold,
    accesses: u64,
    hits: u64,
}

/// A tree in one place.
pub struct EmbeddedTree {
    levels: Vec<EmbeddedLevel>,
    mode: TreeMode,
    set_when: SetWhen,
    prober: Prober,
    rule: WindowRule,
}

/// What became of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Climbing {
    /// The verdict.
    pub decision: Decision,
    /// Of a duplicate, the level at which it was found; otherwise 0.
    pub level: u8,
}

/// Why a tree cannot be built in one place.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedTreeError {
    /// There is no such tree.
    #[error(transparent)]
    Tree(#[from] TreeRefusal),
    /// No positions can be told.
    #[error(transparent)]
    Positions(#[from] SlicedBuildError),
    /// A level cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Groups have positions of their own.
    #[error("a tree in one place has one group: use slicing `none`")]
    Groups,
}

impl EmbeddedTree {
    /// The tree of `spec`, empty; top-down testing and policies for a level that is cut off are for nodes only.
    ///
    /// # Errors
    /// [`EmbeddedTreeError`]: what cannot be, and why.
    pub fn new(spec: &TreeSpec, definition: &SlicedDefinition, set_when: SetWhen) -> Result<Self, EmbeddedTreeError> {
        let sites: BTreeSet<&str> = spec.places.iter().flat_map(|place| &place.sites).map(String::as_str).collect();
        if definition.slicing.groups() != 1 {
            return Err(EmbeddedTreeError::Groups);
        }
        let mut levels = Vec::new();
        for place in spec.plan(definition, &sites)? {
            let cells = FilterSlice::build(&place.definition.group)?;
            levels.push(EmbeddedLevel { cells, fold: Fold::new(place.fold), place, accesses: 0, hits: 0 });
        }
        let (mode, rule) = (spec.mode, definition.group.rule);
        Ok(Self { levels, mode, set_when, prober: Prober::new(definition)?, rule })
    }

    /// Where a place of this name stands.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.levels.iter().position(|level| level.place.name == name)
    }

    /// Asks about an event at place `leaf`, and records it.
    pub fn observe(&mut self, leaf: usize, digest: Digest, stamp: Stamp) -> Climbing {
        let mut probes = firstseen_filter::Probes::new(self.prober.shape());
        self.prober.push(digest, &mut probes);
        let positions = probes.positions(0);
        let mut passed = Vec::new();
        let mut at = Some(leaf);
        while let Some(index) = at {
            let level = &mut self.levels[index];
            level.accesses += 1;
            let sighting = level.test(positions, stamp);
            if sighting.is_hit() {
                level.hits += 1;
                let number = level.place.level;
                if self.set_when == SetWhen::Decided && self.mode == TreeMode::Dense {
                    // For as long as it counts there.
                    let unit = sighting.expiry.saturating_sub(self.rule.span_units);
                    passed.iter().for_each(|below: &usize| self.levels[*below].set(positions, Stamp { unit, ..stamp }));
                }
                return Climbing { decision: Decision::Duplicate, level: number };
            }
            if self.set_when == SetWhen::Climbing {
                level.set(positions, stamp);
            }
            passed.push(index);
            at = self.levels[index].place.parent;
        }
        if self.set_when == SetWhen::Decided {
            passed.iter().rev().for_each(|index| self.levels[*index].set(positions, stamp));
        }
        Climbing { decision: Decision::FirstSeen, level: 0 }
    }

    /// Events that were tested at each place, and those found there, in the order of the places.
    pub fn loads(&self) -> impl Iterator<Item = (&Place, u64, u64)> {
        self.levels.iter().map(|level| (&level.place, level.accesses, level.hits))
    }
}

impl EmbeddedLevel {
    fn folded(&self, positions: &[u64]) -> Vec<u64> {
        positions.iter().map(|position| self.fold.of(*position)).collect()
    }

    fn test(&mut self, positions: &[u64], stamp: Stamp) -> Sighting {
        let nothing = Sighting { generations: 0, expiry: u64::MAX };
        self.cells.advance(stamp.unit);
        self.cells.test_at(&self.folded(positions), stamp).unwrap_or(nothing)
    }

    fn set(&mut self, positions: &[u64], stamp: Stamp) {
        let newest = self.cells.newest_generation();
        self.cells.set_generation(newest, &self.folded(positions), stamp);
    }
}
