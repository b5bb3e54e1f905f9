//! Reproduces Figure 12(c) of Koloniari et al. 2011, section 6. An event that a tree finds above level d is checked
//! again at the levels below, down to level d. The experiment measures the false positives that this top-down testing
//! leaves.
//!
//! The tree consists of production nodes, one per filter of the tree.

use std::collections::{HashMap, HashSet};

use firstseen_filter::rates::plain;
use firstseen_filter::{FilterSecret, Kind, Window};
use firstseen_routing::{Decision, Operation, SlicedDefinition, TreeMode};

use super::super::checking::Checking;
use super::super::climbing::Shape;
use super::{Size, tree_spec};
use crate::document::{Axis, Readings, Sheet};
use crate::experiment::EvalError;
use crate::measure::{count, pooled_with_expected, shaped};
use crate::nodes::Nodes;
use crate::stats::Counts;
use crate::stream::Event;

const HASHES: u32 = super::HASHES;
/// Trees of the paper: the tree of Table 1, and the tree of Figure 12.
pub(super) const SHAPES: [Shape; 2] = [Shape { levels: 2, fan: 24 }, Shape { levels: 5, fan: 2 }];
const MODES: [(TreeMode, &str, &str); 2] =
    [(TreeMode::Dense, "measured, dense", DENSE), (TreeMode::Sparse, "measured, sparse", SPARSE)];

/// Results of one run for one shape of the tree. The first half of each list is for dense trees, and the second half is
/// for sparse trees. Each half has one entry for every threshold d. An entry consists of the number of new events that
/// were called duplicates, and of the share of new events for which this error is expected.
#[derive(Clone, Default)]
pub(super) struct Found {
    errors: Vec<Counts>,
    expected: Vec<f64>,
}

/// Returns the results for each shape, with every threshold of both modes over one stream.
pub(super) fn found(size: Size, seed: u64) -> Result<Vec<Found>, EvalError> {
    SHAPES.iter().map(|shape| found_in(*shape, size, seed)).collect()
}

fn found_in(shape: Shape, size: Size, seed: u64) -> Result<Found, EvalError> {
    let mut found = Found::default();
    let stream: Vec<Event> = size.stream(shape).events(seed)?.collect();
    for (mode, ..) in MODES {
        for top_down in 0..shape.levels {
            let checking = Checking { shape, mode, cells: size.cells, hashes: HASHES, top_down };
            found.errors.push(checked(checking, &stream, seed)?);
            // The nodes of a dense level have keys in common, so their errors are not independent. At the root there is
            // only one node.
            let has_formula = mode == TreeMode::Sparse || top_down == 0;
            found.expected.push(if has_formula {
                Level::over(&stream, checking)
            } else {
                checking.rate(&stream, seed)
            });
        }
    }
    Ok(found)
}

fn checked(of: Checking, stream: &[Event], seed: u64) -> Result<Counts, EvalError> {
    let spec = shaped(Kind::Bloom, Window::Unbounded, of.cells, of.hashes);
    let definition = SlicedDefinition::new(&spec, "none".parse()?)?;
    let tree = tree_spec(of.shape, of.mode, of.top_down as u8);
    let (mut nodes, places) = Nodes::of_tree("tree", &definition, &tree)?;
    let leaves = &places[places.len() - of.shape.leaves() as usize..];
    let secret = FilterSecret::from_seed(seed);
    let mut errors = Counts::default();
    let mut seen = HashSet::new();
    for event in stream {
        let digest = secret.digest(&event.key.to_le_bytes());
        // Events are sent one at a time, as in the paper. An event is sent when the previous one has been set
        // everywhere.
        let verdicts = nodes.ask(leaves[event.site as usize], &[digest], Operation::Observe)?;
        if seen.insert(event.key) {
            count(&mut errors, verdicts[0] == Decision::Duplicate);
        }
    }
    Ok(errors)
}

/// Expected number of keys at each node of level d, from which the false-positive rates of these nodes are computed.
/// The rates of level d are needed because top-down testing checks events there: an event that is found above level d
/// is a duplicate only if a node of level d confirms it.
///
/// A new event that is found above level d remains a false positive if at least one node of level d confirms it. A node
/// confirms the event if all cells of the event are set at this node. The nodes above level d need not be considered,
/// because they contain all cells of the nodes of level d.
///
/// The probability that a false positive remains is therefore `P = 1 - product of (1 - r_i)`. Here r_i is the
/// false-positive rate of node i of level d, which depends on the number of keys that the node has received so far.
struct Level {
    of: Checking,
    /// Expected number of events that are set, by node.
    set: HashMap<u32, f64>,
    sum: f64,
    keys: f64,
}

impl Level {
    /// Returns the mean over the keys of a stream.
    fn over(stream: &[Event], of: Checking) -> f64 {
        let mut level = Self { of, set: HashMap::new(), sum: 0.0, keys: 0.0 };
        let mut seen = HashSet::new();
        stream.iter().filter(|event| seen.insert(event.key)).for_each(|event| level.deliver(event.site));
        level.sum / level.keys
    }

    /// Adds a new key that arrives at `leaf`.
    fn deliver(&mut self, leaf: u32) {
        let set = (0..self.of.shape.fan.pow(self.of.top_down)).map(|node| self.set.get(&node).copied().unwrap_or(0.0));
        let missed = set.map(|set| 1.0 - plain::rate(self.of.cells as f64, self.of.hashes, set));
        let told_new: f64 = missed.product();
        *self.set.entry(self.of.shape.above(leaf, self.of.top_down)).or_insert(0.0) += told_new;
        self.sum += 1.0 - told_new;
        self.keys += 1.0;
    }
}

/// Returns a panel for each shape, with the results of all runs.
pub(super) fn sheets(runs: &[Vec<Found>]) -> Vec<Sheet> {
    let sheets = SHAPES.iter().enumerate().map(|(place, shape)| {
        let found: Vec<&Found> = runs.iter().map(|run| &run[place]).collect();
        sheet(*shape, &found)
    });
    sheets.collect()
}

fn sheet(shape: Shape, found: &[&Found]) -> Sheet {
    let figure = if shape.levels == SHAPES[1].levels { "Figure 12(c)" } else { "The same in the tree of Table 1" };
    let errors: Vec<_> = found.iter().map(|found| found.errors.clone()).collect();
    let expected: Vec<_> = found.iter().map(|found| found.expected.clone()).collect();
    let series = MODES.iter().enumerate().map(|(index, (_, name, formula))| {
        Readings::new(
            *name,
            *formula,
            (0..shape.levels).map(|top_down| {
                let place = index * shape.levels as usize + top_down as usize;
                pooled_with_expected(&errors, &expected, place).at(top_down)
            }),
        )
    });
    Sheet::new(
        format!("{figure}: false positives left by top-down testing, {} levels", shape.levels),
        Axis::linear("threshold d: events found above this level are checked down to it"),
        Axis::linear("false positives (share of new events)"),
        series,
    )
}

const SPARSE: &str = "the probability that at least one node of level d finds a new event, averaged while the filters \
fill. This probability is 1 - product over the nodes i of level d of (1 - r_i), where r_i is the false-positive rate \
of a filter with the keys that were delivered through node i";
const DENSE: &str = "equal to that of the sparse tree for the threshold d = 0. For other thresholds, it is the mean \
over simulated trees that receive the same stream as the measured tree. In a simulated tree, the cells of each key \
are drawn at random";
