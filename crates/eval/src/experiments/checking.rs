//! The false positives that top-down testing leaves in a tree (K11 6), over cells that are drawn.
//!
//! Nodes of one level of a dense tree have keys in common, so their errors are not independent, and a product over
//! nodes is wrong. So this follows the law event by event: every key has its own cells, which are drawn; nodes are sets
//! of cells.
//!
//! Promises: the rules of the paper, one event after the other, and the mean over several draws. Must not know: hashes,
//! production filters, what was measured.

use std::collections::HashMap;

use firstseen_routing::TreeMode;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::climbing::Shape;
use crate::stats::Counts;
use crate::stream::Event;

/// Draws for the mean: they add a twentieth of the measurement's error.
const DRAWS: u64 = 10;
/// The seed of cells differs in this from the seed of the stream.
const CELLS: u64 = 0x00CE_1150_0000_0000;

/// A tree of equal filters whose events are checked down to a level.
#[derive(Clone, Copy)]
pub(super) struct Checking {
    pub(super) shape: Shape,
    pub(super) mode: TreeMode,
    pub(super) cells: u64,
    pub(super) hashes: u32,
    /// The threshold d.
    pub(super) top_down: u32,
}

/// Which cells are set, by level and node.
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
    /// The share of a stream's new events that are called duplicates.
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

    /// Whether an event is called a duplicate: where a node finds it, and, for a node above level d, a node of level d
    /// below that one has it too; otherwise the event climbs. A new event is set on its whole path; in a dense tree one
    /// that is found is set wherever it has climbed.
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
