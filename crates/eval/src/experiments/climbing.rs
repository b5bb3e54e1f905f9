//! The events that each level of a tree of equal filters finds, in expectation (K11 6).
//!
//! Promises: exact sets of keys, and the rate of each node as it fills. Must not know: cells, verdicts.

use std::collections::HashMap;

use firstseen_filter::rates::plain;
use firstseen_routing::TreeMode;

/// A binary tree: the nodes of level j are numbered `0..2^j` from the left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Levels, the root included; leaves are level `levels - 1`.
    pub(super) levels: u32,
    /// Children of every inner node.
    pub(super) fan: u32,
}

impl Shape {
    pub(super) fn leaves(self) -> u32 {
        self.fan.pow(self.levels - 1)
    }

    /// The node of level `level` above a leaf.
    pub(super) fn above(self, leaf: u32, level: u32) -> u32 {
        leaf / self.fan.pow(self.levels - 1 - level)
    }
}

/// Follows a stream, and adds up the expected finds.
///
/// The cells of a node contain those of its children, so a false positive below is one above: an unseen key that a child
/// of rate `r` has missed is found by its parent of rate `R` with chance `(R - r) / (1 - r)`.
pub(super) struct Climb {
    shape: Shape,
    mode: TreeMode,
    cells: f64,
    hashes: u32,
    /// Expected events set, by level and node.
    set: Vec<Vec<f64>>,
    /// Dense trees: the chance that a key is found at a node, by level.
    known: Vec<HashMap<(u32, u64), f64>>,
    /// Sparse trees: the leaf by which a key first came, and the chance that it was delivered.
    first: HashMap<u64, (u32, f64)>,
    /// Sparse trees: expected false positives so far, by level, of a key at a node.
    stays: Vec<HashMap<(u32, u64), f64>>,
    /// Expected hits by level.
    pub(super) hits: Vec<f64>,
    /// Sparse trees: the variance of the false positives that are found at a level or below it.
    pub(super) variances: Vec<f64>,
}

impl Climb {
    pub(super) fn new(shape: Shape, mode: TreeMode, cells: f64, hashes: u32) -> Self {
        let levels = shape.levels as usize;
        Self {
            shape,
            mode,
            cells,
            hashes,
            set: (0..shape.levels).map(|level| vec![0.0; shape.fan.pow(level) as usize]).collect(),
            known: vec![HashMap::new(); levels],
            first: HashMap::new(),
            stays: vec![HashMap::new(); levels],
            hits: vec![0.0; levels],
            variances: vec![0.0; levels],
        }
    }

    pub(super) fn observe(&mut self, leaf: u32, key: u64) {
        match self.mode {
            TreeMode::Dense => self.climb_dense(leaf, key),
            TreeMode::Sparse => self.climb_sparse(leaf, key),
        }
    }

    fn rate(&self, level: u32, leaf: u32) -> f64 {
        let set = self.set[level as usize][self.shape.above(leaf, level) as usize];
        plain::rate(self.cells, self.hashes, set)
    }

    /// Once an event has come to a node, the node finds it the next time: it was set there, or was a false positive,
    /// which stays one.
    fn climb_dense(&mut self, leaf: u32, key: u64) {
        let mut coming = 1.0;
        let mut below = 0.0;
        for level in (0..self.shape.levels).rev() {
            let rate = self.rate(level, leaf);
            let node = self.shape.above(leaf, level);
            let known = self.known[level as usize].entry((node, key)).or_insert(0.0);
            let found = *known + (1.0 - *known) * beyond(rate, below);
            *known += coming * (1.0 - *known);
            self.hits[level as usize] += coming * found;
            coming *= 1.0 - found;
            self.set[level as usize][node as usize] += coming;
            below = rate;
        }
    }

    /// A false positive stays one, so of a frequent key many events are found wrongly, or none. With the chances `r_i`,
    /// which rise from event to event, its `variance = sum over i of r_i (1 - r_i) + 2 sum over i < j of r_i (1 -
    /// r_j)`.
    fn stay(&mut self, level: u32, node: u32, key: u64, rate: f64) {
        let before = self.stays[level as usize].entry((node, key)).or_insert(0.0);
        self.variances[level as usize] += (1.0 - rate) * (rate + 2.0 * *before);
        *before += rate;
    }

    /// A key that was delivered is on the path from its first leaf. One that was dropped had its cells set at the root
    /// by others, where they stay; at level j they are set with chance `r_j / r_0`.
    fn climb_sparse(&mut self, leaf: u32, key: u64) {
        // Below the leaves nothing is found.
        let rates: Vec<f64> = (0..self.shape.levels).map(|level| self.rate(level, leaf)).chain([0.0]).collect();
        let Some((first, delivered)) = self.first.get(&key).copied() else {
            let delivered = 1.0 - rates[0];
            self.first.insert(key, (leaf, delivered));
            for level in 0..self.shape.levels {
                self.hits[level as usize] += rates[level as usize] - rates[level as usize + 1];
                self.set[level as usize][self.shape.above(leaf, level) as usize] += delivered;
            }
            return;
        };
        let levels = 0..self.shape.levels;
        let common = levels.rev().find(|level| self.shape.above(leaf, *level) == self.shape.above(first, *level));
        let common = common.unwrap_or(0);
        for level in common + 1..self.shape.levels {
            self.stay(level, self.shape.above(leaf, level), key, rates[level as usize]);
        }
        for level in 0..self.shape.levels {
            let unseen = rates[level as usize] - rates[level as usize + 1];
            let of_delivered = match level {
                _ if level < common => 0.0,
                _ if level == common => 1.0 - rates[level as usize + 1],
                _ => unseen,
            };
            let of_dropped = if rates[0] > 0.0 { unseen / rates[0] } else { 0.0 };
            self.hits[level as usize] += delivered * of_delivered + (1.0 - delivered) * of_dropped;
        }
    }
}

/// The chance that a node of rate `above` finds what its child of rate `below` has missed.
fn beyond(above: f64, below: f64) -> f64 {
    ((above - below) / (1.0 - below)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_filters_find_what_sets_would() {
        let shape = Shape { levels: 2, fan: 2 };
        for (mode, hits) in [(TreeMode::Dense, [1.0, 2.0]), (TreeMode::Sparse, [2.0, 1.0])] {
            let mut climb = Climb::new(shape, mode, 1e12, 4);
            // A new key at leaf 0, and its repeat there; then two repeats at leaf 1, the second of which only a dense
            // leaf finds.
            [0, 0, 1, 1].into_iter().for_each(|leaf| climb.observe(leaf, 7));
            assert!(climb.hits.iter().zip(hits).all(|(found, exact)| (found - exact).abs() < 1e-9), "{:?}", climb.hits);
        }
    }
}
