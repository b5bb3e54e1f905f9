//! Expected number of events that each level of a tree of equal filters finds (Koloniari et al. 2011, section 6).
//!
//! The calculation uses exact sets of keys, and the rate of each node as the node fills up.
//!
//! This module does not depend on cells or verdicts.

use std::collections::HashMap;

use firstseen_filter::rates::plain;
use firstseen_routing::TreeMode;

/// Shape of a tree. The nodes of each level are numbered from the left, starting with 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Number of levels, including the root. The leaves are at level `levels - 1`.
    pub(super) levels: u32,
    /// Number of children of every inner node.
    pub(super) fan: u32,
}

impl Shape {
    pub(super) fn leaves(self) -> u32 {
        self.fan.pow(self.levels - 1)
    }

    /// Returns the node of level `level` above a leaf.
    pub(super) fn above(self, leaf: u32, level: u32) -> u32 {
        leaf / self.fan.pow(self.levels - 1 - level)
    }
}

/// Follows a stream, and adds up the expected finds.
///
/// The false positives of a child and of its parent are not independent. The cells of the parent contain the cells of
/// its children, so every false positive of a child is also a false positive of the parent. Let `r` be the
/// false-positive rate of the child, and `R` that of the parent. If the child has not found an unseen key, the parent
/// finds the key with the probability `(R - r) / (1 - r)`.
pub(super) struct Climb {
    shape: Shape,
    mode: TreeMode,
    cells: f64,
    hashes: u32,
    /// Expected number of events that are set, by level and node.
    set: Vec<Vec<f64>>,
    /// In dense trees: probability that a key is found at a node, by level.
    known: Vec<HashMap<(u32, u64), f64>>,
    /// In sparse trees: leaf at which a key first arrived, and the probability that it was delivered.
    first: HashMap<u64, (u32, f64)>,
    /// In sparse trees: expected number of false positives so far of a key at a node, by level.
    stays: Vec<HashMap<(u32, u64), f64>>,
    /// Expected number of hits, by level.
    pub(super) hits: Vec<f64>,
    /// In sparse trees: variance of the number of false positives that are found at a level or below it.
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

    /// Follows an event in a dense tree, from its leaf upwards.
    ///
    /// When an event has reached a node once, the node finds all later events with the same key. There are two possible
    /// reasons: the node has set the cells of the first event, or it has found that other events had already set them.
    /// In both cases, the cells stay set.
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

    /// Adds the contribution of one event to the variance of the number of false positives.
    ///
    /// The events of one key are not independent: a key that was a false positive once stays a false positive. If the
    /// key is frequent, either many of its events are therefore false positives or none. Let `r_i` be the probability
    /// that the i-th event of the key is a false positive. This probability increases from event to event. The variance
    /// of the number of false positives of the key is then `sum over i of r_i (1 - r_i) + 2 sum over i < j of r_i (1 -
    /// r_j)`.
    fn stay(&mut self, level: u32, node: u32, key: u64, rate: f64) {
        let before = self.stays[level as usize].entry((node, key)).or_insert(0.0);
        self.variances[level as usize] += (1.0 - rate) * (rate + 2.0 * *before);
        *before += rate;
    }

    /// Follows an event in a sparse tree. A key that was delivered is set on the path from its first leaf to the root.
    ///
    /// A key whose first event is a false positive of the root is a special case, because the tree never sets its
    /// cells. Later events of the key can nevertheless be found at lower levels, because other keys may have set the
    /// same cells there. At the root, other keys have set all these cells. At level j, they have set all of them with
    /// the probability `r_j / r_0`, where `r_j` is the false-positive rate at level j, and `r_0` is that of the root.
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

/// Returns the probability that a node of rate `above` finds a key that its child of rate `below` has missed.
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
            // The events are a new key at leaf 0, its repeat there, and two repeats at leaf 1. Only a dense leaf finds
            // the second of these.
            [0, 0, 1, 1].into_iter().for_each(|leaf| climb.observe(leaf, 7));
            assert!(climb.hits.iter().zip(hits).all(|(found, exact)| (found - exact).abs() < 1e-9), "{:?}", climb.hits);
        }
    }
}
