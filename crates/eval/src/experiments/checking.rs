//! Expected false positives of top-down testing in a tree (Koloniari et al. 2011, section 6), by simulation with
//! randomly drawn cells.
//!
//! The error rates of a dense tree have no simple formula. The nodes of one level have keys in common, so their errors
//! are not independent, and the rates of the nodes cannot be multiplied. The simulation therefore follows the rules of
//! the tree event by event. Every key has its own random cells, and every node is a set of cells.
//!
//! The result is the mean over several draws of the cells. The simulation uses no hashes and no production filters, so
//! the expected values are independent of the measurement.

use std::collections::HashMap;

use firstseen_routing::TreeMode;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::climbing::Shape;
use crate::stats::Counts;
use crate::stream::Event;

/// Number of draws for the mean. They add a twentieth of the error of the measurement.
const DRAWS: u64 = 10;
/// Difference between the seed of the cells and the seed of the stream.
const CELLS: u64 = 0x00CE_1150_0000_0000;

/// Tree of equal filters whose duplicates are checked down to a given level.
#[derive(Clone, Copy)]
pub(super) struct Checking {
    pub(super) shape: Shape,
    pub(super) mode: TreeMode,
    pub(super) cells: u64,
    pub(super) hashes: u32,
    /// Threshold d of top-down testing.
    pub(super) top_down: u32,
}

/// Set cells, by level and node.
struct Cells {
    shape: Shape,
    nodes: Vec<Vec<Vec<bool>>>,
}

impl Cells {
    fn has(&self, level: u32, node: u32, places: &[usize]) -> bool {
        let cells = &self.nodes[level as usize][node as usize];
        places.iter().all(|place| cells[*place])
    }

    fn set(&mut self, level: u32, leaf: u32, places: &[usize]) {
        let cells = &mut self.nodes[level as usize][self.shape.above(leaf, level) as usize];
        places.iter().for_each(|place| cells[*place] = true);
    }
}

impl Checking {
    /// Returns the share of a stream's new events that are called duplicates.
    pub(super) fn rate(self, stream: &[Event], seed: u64) -> f64 {
        let mut errors = Counts::default();
        for draw in 0..DRAWS {
            let drawn = self.drawn(stream, &mut ChaCha8Rng::seed_from_u64(seed ^ CELLS ^ draw));
            errors.successes += drawn.successes;
            errors.trials += drawn.trials;
        }
        errors.successes as f64 / errors.trials as f64
    }

    fn drawn(self, stream: &[Event], random: &mut ChaCha8Rng) -> Counts {
        let levels = 0..self.shape.levels;
        let nodes = levels.map(|level| vec![vec![false; self.cells as usize]; self.shape.fan.pow(level) as usize]);
        let mut cells = Cells { shape: self.shape, nodes: nodes.collect() };
        let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut errors = Counts::default();
        for event in stream {
            let is_new = !places.contains_key(&event.key);
            let places = &*places
                .entry(event.key)
                .or_insert_with(|| (0..self.hashes).map(|_| random.random_range(0..self.cells) as usize).collect());
            let is_duplicate = self.observe(&mut cells, event.site, places);
            errors.trials += u64::from(is_new);
            errors.successes += u64::from(is_new && is_duplicate);
        }
        errors
    }

    /// Observes an event, and returns whether it is called a duplicate.
    ///
    /// The query of the event starts at the event's leaf and goes upwards from parent to parent. A node finds the event
    /// if all cells of the event are set at this node. What follows depends on the level of the node:
    ///
    /// - If the node is at level d or below, the event is a duplicate.
    /// - If the node is above level d, top-down testing must confirm the result. A node of level d below this node must
    ///   also find the event. If none does, the query continues at the parent.
    ///
    /// - If the node is at level d or below, the event is a duplicate.
    /// - If the node is above level d, top-down testing must confirm the result. A node of level d below this node must
    ///   also find the event. If none does, the query continues at the parent.
    ///
    /// A new event is set at all levels of its path. In a dense tree, an event that a node finds is also set at all
    /// levels below that node.
    fn observe(self, cells: &mut Cells, leaf: u32, places: &[usize]) -> bool {
        let found = (0..self.shape.levels).rev().find(|level| {
            let node = self.shape.above(leaf, *level);
            cells.has(*level, node, places) && self.is_confirmed(cells, *level, node, places)
        });
        let climbed = match (found, self.mode) {
            (Some(level), TreeMode::Dense) => level + 1..self.shape.levels,
            (Some(_), TreeMode::Sparse) => 0..0,
            (None, _) => 0..self.shape.levels,
        };
        climbed.for_each(|level| cells.set(level, leaf, places));
        found.is_some()
    }

    fn is_confirmed(self, cells: &Cells, level: u32, node: u32, places: &[usize]) -> bool {
        let below = self.shape.fan.pow(self.top_down.saturating_sub(level));
        level >= self.top_down || (node * below..(node + 1) * below).any(|node| cells.has(self.top_down, node, places))
    }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::rates::plain;

    use super::*;
    use crate::stream::{Keys, StreamSpec};

    #[test]
    fn without_checks_both_modes_err_as_one_filter_and_checks_leave_less() {
        let (shape, cells, hashes, keys) = (Shape { levels: 3, fan: 2 }, 2_000, 4, 400);
        let spec = StreamSpec { sites: shape.leaves(), ..StreamSpec::new(keys, Keys::Distinct) };
        let stream: Vec<Event> = spec.events(5).unwrap().collect();
        let one: f64 = (0..keys).map(|set| plain::rate(cells as f64, hashes, set as f64)).sum::<f64>() / keys as f64;
        for mode in [TreeMode::Dense, TreeMode::Sparse] {
            let rates = [0, 1, 2].map(|top_down| {
                let rate = |seed| Checking { shape, mode, cells, hashes, top_down }.rate(&stream, seed);
                (0..10).map(rate).sum::<f64>() / 10.0
            });
            assert!((rates[0] / one - 1.0).abs() < 0.1, "{mode:?}: {rates:?}, {one}");
            assert!(rates[1] < 0.5 * rates[0] && rates[2] < rates[1], "{mode:?}: {rates:?}");
        }
    }
}
