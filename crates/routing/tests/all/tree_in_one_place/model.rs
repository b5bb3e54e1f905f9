//! A whole filter tree in one process, which handles one event after the other. It is the model for the tree over
//! nodes.
//!
//! The model follows the rules of a level over nodes while one event is in flight.

use std::collections::BTreeSet;

use firstseen_filter::{Digest, FilterSlice, Probes, Stamp, TestResult, UnitNumber, WindowRule};
use firstseen_routing::{Decision, Fold, Prober, SlicedDefinition, TreeMode, TreePlace, TreeSpec};

/// A level that is not divided, with counts of its work.
struct EmbeddedLevel {
    place: TreePlace,
    cells: FilterSlice,
    fold: Fold,
    accesses: u64,
}

/// A filter tree in one process.
pub(crate) struct EmbeddedTree {
    levels: Vec<EmbeddedLevel>,
    mode: TreeMode,
    prober: Prober,
    rule: WindowRule,
}

/// The result of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Climbing {
    /// The verdict.
    pub(crate) decision: Decision,
    /// For a duplicate, the level at which it was found. Otherwise 0.
    pub(crate) level: u8,
}

impl EmbeddedTree {
    /// Creates the model of the tree that `spec` describes, without any events. The filter must consist of one slice
    /// group. The model does not contain top-down testing, or the policies for a level that cannot reach its parent.
    pub(crate) fn new(spec: &TreeSpec, definition: &SlicedDefinition) -> Self {
        let sites: BTreeSet<&str> = spec.places.iter().flat_map(|place| &place.sites).map(String::as_str).collect();
        assert_eq!(definition.slicing.groups(), 1, "groups have positions of their own");
        let level = |place: TreePlace| EmbeddedLevel {
            cells: FilterSlice::build(&place.definition.group).unwrap(),
            fold: Fold::new(place.fold),
            place,
            accesses: 0,
        };
        let levels = spec.plan(definition, &sites).unwrap().into_iter().map(level).collect();
        let (mode, rule) = (spec.mode, definition.group.rule);
        Self { levels, mode, prober: Prober::new(definition).unwrap(), rule }
    }

    /// Returns the index of the place with this name.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.levels.iter().position(|level| level.place.name == name)
    }

    /// Decides an event at place `leaf` and records it.
    pub(crate) fn observe(&mut self, leaf: usize, digest: Digest, stamp: Stamp) -> Climbing {
        let mut probes = Probes::new(self.prober.shape());
        self.prober.push(digest, &mut probes);
        let positions = probes.positions(0);
        let mut passed = Vec::new();
        let mut at = Some(leaf);
        while let Some(index) = at {
            let level = &mut self.levels[index];
            level.accesses += 1;
            let sighting = level.test(positions, stamp);
            if sighting.is_hit() {
                let number = level.place.level;
                if self.mode == TreeMode::Dense {
                    // With this unit, the event counts equally long at both levels.
                    let unit = sighting.expiry.before(self.rule.span_units);
                    passed.iter().for_each(|below: &usize| self.levels[*below].set(positions, Stamp { unit, ..stamp }));
                }
                return Climbing { decision: Decision::Duplicate, level: number };
            }
            passed.push(index);
            at = self.levels[index].place.parent;
        }
        passed.iter().rev().for_each(|index| self.levels[*index].set(positions, stamp));
        Climbing { decision: Decision::FirstSeen, level: 0 }
    }

    /// Returns the number of events that were tested at each place, in the order of the places.
    pub(crate) fn loads(&self) -> impl Iterator<Item = (&TreePlace, u64)> {
        self.levels.iter().map(|level| (&level.place, level.accesses))
    }
}

impl EmbeddedLevel {
    fn folded(&self, positions: &[u64]) -> Vec<u64> {
        positions.iter().map(|position| self.fold.of(*position)).collect()
    }

    fn test(&mut self, positions: &[u64], stamp: Stamp) -> TestResult {
        let nothing = TestResult { generations: 0, expiry: UnitNumber::NEVER };
        self.cells.advance(stamp.unit);
        self.cells.test_at(&self.folded(positions), stamp).unwrap_or(nothing)
    }

    fn set(&mut self, positions: &[u64], stamp: Stamp) {
        let newest = self.cells.newest_generation();
        self.cells.set_generation(newest, &self.folded(positions), stamp);
    }
}
