//! A model of a filter tree. Its levels are plain sets of cells, and it processes one event at a time.

use std::collections::BTreeSet;

use firstseen_routing::TreeMode;

/// A place in the tree.
struct Place {
    parent: Option<usize>,
    level: usize,
    fold: u8,
    cells: BTreeSet<u64>,
}

/// The number of events that each level was asked about and the number that it found, from the root down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) accesses: Vec<u64>,
    pub(crate) hits: Vec<u64>,
    pub(crate) delivered: u64,
}

pub(crate) struct Model {
    mode: TreeMode,
    places: Vec<Place>,
    pub(crate) counts: Counts,
}

impl Model {
    /// Creates a tree of places, each given as (parent, fold). The first place is the root.
    pub(crate) fn new(mode: TreeMode, shape: &[(usize, u8)]) -> Self {
        let mut places: Vec<Place> = Vec::new();
        for (place, (parent, fold)) in shape.iter().enumerate() {
            let parent = (place > 0).then_some(*parent);
            let level = parent.map_or(0, |parent| places[parent].level + 1);
            places.push(Place { parent, level, fold: *fold, cells: BTreeSet::new() });
        }
        let levels = 1 + places.iter().map(|place| place.level).max().unwrap_or(0);
        let counts = Counts { accesses: vec![0; levels], hits: vec![0; levels], delivered: 0 };
        Self { mode, places, counts }
    }

    /// Returns whether this place or one above it finds the event with these positions at the root.
    pub(crate) fn observe(&mut self, place: usize, positions: &[u64]) -> bool {
        let mut passed = Vec::new();
        let mut next = Some(place);
        let mut is_found = false;
        while let Some(at) = next {
            let Place { parent, level, fold, cells } = &self.places[at];
            self.counts.accesses[*level] += 1;
            is_found = positions.iter().all(|position| cells.contains(&(position >> fold)));
            if is_found {
                self.counts.hits[*level] += 1;
                break;
            }
            passed.push(at);
            next = *parent;
        }
        self.counts.delivered += u64::from(!is_found);
        if !is_found || self.mode == TreeMode::Dense {
            for at in passed {
                let Place { fold, cells, .. } = &mut self.places[at];
                cells.extend(positions.iter().map(|position| position >> *fold));
            }
        }
        is_found
    }
}
