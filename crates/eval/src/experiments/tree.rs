//! Reproduces Table 1 and Figure 12 of Koloniari et al. 2011, section 7. The experiment counts the hits and the
//! accesses at each level of a tree of filters, for dense and for sparse trees.
//!
//! The tree consists of production nodes, with one filter per node. The nodes decide the events and count their own
//! work. The experiment compares their verdicts with those of a single filter over the same stream.

mod top_down;

use firstseen_filter::rates::plain;
use firstseen_filter::{FilterSecret, FilterSlice, Kind, Stamp, UnitNumber, Verdict, Window};
use firstseen_routing::{CutOff, Decision, PlaceSpec, SlicedDefinition, TreeMode, TreeSpec};

use top_down::SHAPES;

use super::climbing::{Climb, Shape};
use super::{k11, parameter};
use crate::document::{Axis, Reading, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, Run, Scale};
use crate::measure::{Compared, averaged_with_expected, count, pooled, shaped};
use crate::nodes::Nodes;
use crate::stats::Counts;
use crate::stream::{Event, Keys, StreamSpec};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tree",
    title: "Trees of filters: hits and accesses by level",
    paragraph: "In a tree of filters, a site first asks its own filter, and then the filter above for events that its \
                own filter does not know. A dense tree sets an event in every filter that was asked, so that the leaf \
                finds the next occurrence. A sparse tree sets an event only if no filter knows it, on the path from \
                the leaf to the root, so that most repeats are found at the root. A dense tree needs fewer accesses. \
                If all filters have the same size, both trees give the same verdicts as a single filter.",
    reads_logs: None,
    measure,
};

pub(super) const HASHES: u32 = 4;
const RATE: f64 = 0.02;
/// Number of keys and exponent of the Zipf distribution of the stream. They were chosen so that the stream has as many
/// distinct keys as the log of Koloniari et al., which has 100,000 requests for about 16,860 pages.
const ZIPF: (u64, f64) = (24_500, 0.92);
const DISTINCT: f64 = 16_860.0;
const EVENTS_OF_LOG: f64 = 100_000.0;
/// Printed values of Table 1: hits and accesses of levels 0 and 1, for dense and sparse trees.
const PRINTED: [[[f64; 2]; 2]; 2] = [[[34e3, 49e3], [77e3, 5e3]], [[50e3, 100e3], [111e3, 116e3]]];
const MODES: [(TreeMode, &str); 2] = [(TreeMode::Dense, "dense"), (TreeMode::Sparse, "sparse")];
/// Indexes of the series.
const HITS: usize = 0;
const ACCESSES: usize = 1;
const STOPS: usize = 2;
/// Share of a key's events that come from its home leaf.
const HOME_SHARE: f64 = 0.07;

/// Results of one tree over one stream.
struct Found {
    /// For each level, the number of events found, and the number of accessed filters, including those that a sparse
    /// tree sets.
    hits: Vec<f64>,
    accesses: Vec<f64>,
    /// For each level, the expected number of hits.
    hits_expected: Vec<f64>,
    accesses_expected: Vec<f64>,
    /// For each level, the variance of both numbers that is caused by repeated false positives.
    hits_variance: Vec<f64>,
    accesses_variance: Vec<f64>,
    /// For each level, the number of events that climb to this level and no further. They are found there, or are new
    /// at the root.
    stops: Vec<f64>,
    stops_expected: Vec<f64>,
    stops_variance: Vec<f64>,
    climbed: Climbed,
    /// Number of verdicts that differ from those of a single filter.
    other: Counts,
}

/// Mean number of levels that the events of one run have climbed beyond the leaf: the number of tests above the leaves
/// per event.
struct Climbed {
    mean: f64,
    expected: f64,
    /// Variance of the mean that is caused by repeated false positives.
    variance: f64,
}

fn name_of(level: u32, node: u32) -> String {
    format!("level{level}-{node}")
}

/// Returns the specification of a tree, with its filters level by level.
pub(super) fn tree_spec(shape: Shape, mode: TreeMode, top_down: u8) -> TreeSpec {
    let nodes = (0..shape.levels).flat_map(|level| (0..shape.fan.pow(level)).map(move |node| (level, node)));
    let places = nodes.map(|(level, node)| PlaceSpec {
        name: name_of(level, node),
        parent: level.checked_sub(1).map(|above| name_of(above, node / shape.fan)),
        fold: 0,
        slicing: None,
        sites: vec![format!("site{}", node * shape.fan.pow(shape.levels - 1 - level))],
    });
    TreeSpec { mode, cut_off: CutOff::Undecided, top_down, places: places.collect() }
}

/// Sizes of a run.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) events: u64,
    keys: u64,
    pub(super) cells: u64,
}

fn observed(size: Size, shape: Shape, mode: TreeMode, seed: u64) -> Result<Found, EvalError> {
    let spec = shaped(Kind::Bloom, Window::Unbounded, size.cells, HASHES);
    let definition = SlicedDefinition::new(&spec, "none".parse()?)?;
    let (mut nodes, places) = Nodes::of_tree("tree", &definition, &tree_spec(shape, mode, 0))?;
    let leaves = &places[places.len() - shape.leaves() as usize..];
    let mut one = FilterSlice::build(&definition.slice()?)?;
    let mut climb = Climb::new(shape, mode, size.cells as f64, HASHES);
    let secret = FilterSecret::from_seed(seed);
    let mut other = Counts::default();
    let mut hits = vec![0.0; shape.levels as usize];
    for Event { key, site, .. } in size.stream(shape).events(seed)? {
        let digest = secret.digest(&key.to_le_bytes());
        let mut verdict = [Verdict::Undecided];
        one.observe_batch(&[digest], &[Stamp::on_time(UnitNumber::FIRST)], &mut verdict);
        // Events are sent one at a time, as in the paper. An event is sent when the previous one has been set
        // everywhere.
        let (verdict_here, level) = nodes.observe(leaves[site as usize], digest)?;
        if verdict_here == Decision::Duplicate {
            hits[usize::from(level)] += 1.0;
        }
        count(&mut other, (verdict_here == Decision::FirstSeen) != (verdict[0] == Verdict::FirstSeen));
        climb.observe(site, key);
    }
    let levels = hits.len();
    let all = size.events as f64;
    // An event that the levels below do not find comes to this level. An event that no level finds is delivered.
    let coming: Vec<f64> = (0..=levels).map(|level| all - climb.hits[level..].iter().sum::<f64>()).collect();
    // These are the variances of a level together with the levels below it. Below the leaves nothing is found.
    let mut variances = climb.variances;
    variances.push(0.0);
    // A level finds only events that the levels below have not found.
    let hits_variance: Vec<f64> = (0..levels).map(|level| variances[level] + variances[level + 1]).collect();
    // A sparse tree sets a new event after its verdict, with separate messages.
    let is_set_after = mode == TreeMode::Sparse;
    let set = if is_set_after { coming[0] } else { 0.0 };
    let tested = nodes.hops();
    let above = &tested[..levels - 1];
    let climbed = Climbed {
        mean: above.iter().map(|hops| hops.tests as f64).sum::<f64>() / all,
        expected: coming[1..levels].iter().sum::<f64>() / all,
        // A false positive of a node is also one of the nodes above it, so the errors of levels are not independent.
        variance: (variances[1..levels].iter().map(|variance| variance.sqrt()).sum::<f64>() / all).powi(2),
    };
    let at_root = tested[0].tests as f64;
    let accesses = tested.iter().map(|hops| (hops.tests + if is_set_after { hops.sets } else { 0 }) as f64);
    Ok(Found {
        stops: [&[at_root], &hits[1..]].concat(),
        stops_expected: [&[coming[1]], &climb.hits[1..]].concat(),
        stops_variance: [&[variances[1]], &hits_variance[1..]].concat(),
        climbed,
        hits_variance,
        accesses_variance: variances[1..].to_vec(),
        accesses: accesses.collect(),
        accesses_expected: coming[1..].iter().map(|coming| coming + set).collect(),
        hits,
        hits_expected: climb.hits,
        other,
    })
}

impl Size {
    fn of(scale: Scale) -> Self {
        Self::of_events(scale.pick(100_000, 20_000, 10_000))
    }

    fn of_events(events: u64) -> Self {
        let part = events as f64 / EVENTS_OF_LOG;
        let cells = plain::cells(DISTINCT * part, RATE, HASHES) as u64;
        Self { events, keys: (ZIPF.0 as f64 * part) as u64, cells }
    }

    pub(super) fn stream(self, shape: Shape) -> StreamSpec {
        let keys = Keys::Zipf { keys: self.keys, exponent: ZIPF.1 };
        StreamSpec { sites: shape.leaves(), home_share: HOME_SHARE, ..StreamSpec::new(self.events, keys) }
    }
}

/// Returns the stream of the tree with two levels.
pub(super) fn leaf_stream(scale: Scale) -> StreamSpec {
    Size::of(scale).stream(SHAPES[0])
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let size = Size::of(run.scale);
    let checked = Size::of_events(run.scale.pick(30_000, 8_000, 2_000));
    let cases: Vec<(Shape, TreeMode)> = SHAPES.iter().flat_map(|shape| MODES.map(|(mode, _)| (*shape, mode))).collect();
    let runs = run.trials(|seed| {
        let found = cases.iter().map(|(shape, mode)| observed(size, *shape, *mode, seed));
        Ok((found.collect::<Result<Vec<_>, _>>()?, top_down::found(checked, seed)?))
    })?;
    let (runs, checks): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
    let mut sheets = Vec::new();
    for (place, shape) in SHAPES.iter().enumerate() {
        let figures = [["Table 1: hits", "Table 1: accesses"], ["Hits", "Figure 12(b): accesses"]][place];
        for (number, figure) in figures.iter().enumerate() {
            sheets.push(Sheet::new(
                format!("{figure}, {} levels", shape.levels),
                Axis::linear("level (0 is the root)"),
                Axis::linear(["events found", "filters accessed, to test or to set"][number]),
                (0..MODES.len()).map(|mode| series(&runs, Case { shape: place, mode }, number, size)),
            ));
        }
    }
    sheets.push(stops_sheet(&runs, size));
    sheets.push(climbed_sheet(&runs, size));
    sheets.push(other_sheet(&runs));
    sheets.extend(top_down::sheets(&checks));
    Ok(Findings {
        source: k11("sections 6 and 7", "Table 1, Figure 12"),
        parameters: vec![
            parameter("events", size.events),
            parameter("keys (Zipf)", size.keys),
            parameter("exponent", ZIPF.1),
            parameter("cells (m) of every filter", size.cells),
            parameter("hash functions (k)", HASHES),
            parameter("leaves of 2 and of 5 levels", SHAPES.map(Shape::leaves).to_vec()),
            parameter("events for top-down testing", checked.events),
            parameter("share of a key's events that come from its home leaf", HOME_SHARE),
        ],
        sheets,
        notes: NOTES.map(str::to_owned).to_vec(),
    })
}

/// Tree, as indexes into [`SHAPES`] and [`MODES`].
#[derive(Clone, Copy)]
struct Case {
    shape: usize,
    mode: usize,
}

impl Case {
    /// Returns the numbers of the tree from every run.
    fn of(self, runs: &[Vec<Found>], numbers: impl Fn(&Found) -> &Vec<f64>) -> Vec<Vec<f64>> {
        let index = self.shape * MODES.len() + self.mode;
        runs.iter().map(|run| numbers(&run[index]).clone()).collect()
    }

    fn name(self) -> String {
        format!("measured, {}", MODES[self.mode].1)
    }
}

fn series(runs: &[Vec<Found>], case: Case, number: usize, size: Size) -> Readings {
    let [measured, expected, variance] = match number {
        HITS => [
            case.of(runs, |found| &found.hits),
            case.of(runs, |found| &found.hits_expected),
            case.of(runs, |found| &found.hits_variance),
        ],
        ACCESSES => [
            case.of(runs, |found| &found.accesses),
            case.of(runs, |found| &found.accesses_expected),
            case.of(runs, |found| &found.accesses_variance),
        ],
        _ => [
            case.of(runs, |found| &found.stops),
            case.of(runs, |found| &found.stops_expected),
            case.of(runs, |found| &found.stops_variance),
        ],
    };
    let Case { shape, mode } = case;
    let part = size.events as f64 / EVENTS_OF_LOG;
    let leaf = SHAPES[shape].levels as usize - 1;
    let points = (0..=leaf).map(|level| {
        let Compared { estimate, expected } = averaged_with_expected(&measured, &expected, level, size.events);
        // It is rare that a node falsely knows a frequent key, and few runs have met such a key. The variance between
        // runs therefore does not show this error.
        let stays: f64 = variance.iter().map(|run| run[level]).sum();
        let estimate = estimate.with_error_of(stays.sqrt() / variance.len() as f64);
        let printed = (shape == 0).then(|| PRINTED[number][mode][level] * part);
        let x = if number == STOPS { leaf - level } else { level };
        // In addition to repeats, a level finds false positives, and there may be less than one per run.
        Reading::new(x as f64, estimate.of_rare(), expected).printed(printed)
    });
    let mut points: Vec<Reading> = points.collect();
    points.sort_by(|one, other| one.x.total_cmp(&other.x));
    Readings::new(case.name(), FORMULAS[mode][number], points)
}

/// Returns Figure 12(a): the number of events by the number of levels that they climb.
fn stops_sheet(runs: &[Vec<Found>], size: Size) -> Sheet {
    Sheet::new(
        "Figure 12(a): events by levels climbed, 5 levels",
        Axis::linear("levels climbed beyond the leaf"),
        Axis::linear("events that climb so far and no further"),
        (0..MODES.len()).map(|mode| series(runs, Case { shape: 1, mode }, STOPS, size)),
    )
}

/// Returns how far events climb on average, by the height of the tree.
fn climbed_sheet(runs: &[Vec<Found>], size: Size) -> Sheet {
    let means: Vec<Vec<f64>> = runs.iter().map(|run| run.iter().map(|found| found.climbed.mean).collect()).collect();
    let expected: Vec<Vec<f64>> =
        runs.iter().map(|run| run.iter().map(|found| found.climbed.expected).collect()).collect();
    let formula = "the mean number of levels that the query of an event climbs. It is the sum of tests(j) / N over \
                   all levels j above the leaves, where tests(j) is the expected number of events that are tested at \
                   level j, and N is the number of all events";
    let series = by_height(formula, |case| {
        let stays: f64 = runs.iter().map(|run| run[case].climbed.variance).sum();
        // As with hits, there may be less than one false positive per run.
        let one_test = 1.0 / size.events as f64 / (runs.len() as f64).sqrt();
        let compared = averaged_with_expected(&means, &expected, case, size.events);
        compared.with_error_of(stays.sqrt() / runs.len() as f64).with_error_of(one_test)
    });
    let y = Axis::linear("levels beyond the leaf (mean of all events)");
    Sheet::new("Levels climbed, mean", Axis::linear("levels of the tree"), y, series)
}

/// Returns the verdicts of trees that differ from those of a single filter.
fn other_sheet(runs: &[Vec<Found>]) -> Sheet {
    let counts: Vec<Vec<Counts>> = runs.iter().map(|run| run.iter().map(|found| found.other).collect()).collect();
    let formula = "0, because a tree gives the same verdicts as a single filter. The reason is that all cells that \
                   are set in a child node are also set in its parent node (Koloniari et al. 2011, section 6, \
                   Propositions 3 and 4)";
    let series = by_height(formula, |case| Compared { estimate: pooled(&counts, case), expected: 0.0 });
    let x = Axis::linear("levels of the tree");
    let y = Axis::linear("different verdicts (share of events)");
    Sheet::new("Verdicts that are not those of one filter", x, y, series)
}

/// Returns a series for each mode, with a point for each shape. `compared` gives the point of a case by its index.
fn by_height(formula: &str, compared: impl Fn(usize) -> Compared) -> Vec<Readings> {
    let series = MODES.iter().enumerate().map(|(mode, (_, name))| {
        let shapes = SHAPES.iter().enumerate();
        let points = shapes.map(|(place, shape)| compared(place * MODES.len() + mode).at(shape.levels));
        Readings::new(format!("measured, {name}"), formula, points)
    });
    series.collect()
}

const STOPPED: &str = "the number of events whose query ends at a given level because this level finds the event. At \
the root, the number also includes the new events, which no level finds";
const FORMULAS: [[&str; 3]; 2] = [
    [
        "the number of events whose key has reached the node before, plus the number of false positives. A key that \
         has not reached the node before is a false positive at level j with the probability (r_j - r_j+1)/(1 - \
         r_j+1), where r_j is the false-positive rate of a node of level j",
        "the number of accesses to level j, which is calculated level by level from the leaves to the root. N events \
         access the leaves. An event that is found at level j (a hit) is not passed on to the parent level j-1, so \
         accesses(j-1) = accesses(j) - hits(j)",
        STOPPED,
    ],
    [
        "the number of events whose key was delivered through the node, plus the number of false positives. A key \
         that was not delivered through the node is a false positive at level j with the probability r_j - r_j+1, \
         where r_j is the false-positive rate of a node of level j",
        "the number tests(j) of events that are tested at level j, plus the number of delivered events. Delivered \
         events count twice, because each is first tested and then set at every level. Each level tests the events \
         that the level below has not found, so tests(j-1) = tests(j) - hits(j). The delivered events are those of \
         the N events of the stream that no level finds",
        STOPPED,
    ],
];

const NOTES: [&str; 4] = [
    "The printed numbers belong to the log of Koloniari et al., whose client addresses and popularity of keys are not \
     known. The stream of this experiment has the same number of events and about the same number of keys. Its \
     locality was chosen so that a dense tree finds about as many events at its leaves as printed. With this locality, \
     a sparse tree finds a third fewer events at its leaves than printed. Accesses are counted as in the printed \
     table: for a dense tree, the accesses at the root are the accesses at the leaves minus the hits there, and for a \
     sparse tree, a delivered event counts twice.",
    "Koloniari et al. say that their log has about 4,300 distinct addresses, and that 14,300 cells suffice for a \
     false-positive rate of 2 %. However, their table has 17,000 delivered events, which need 143,000 cells at this \
     rate. The filters of this experiment have the larger number of cells.",
    "Propositions 3 and 4 of Koloniari et al. say that a tree has the same false-positive rate as a single filter. \
     This experiment shows more: if all filters have the same size and consist of bits, the verdicts are equal for \
     every single event.",
    "If top-down testing finds that a match was false, Koloniari et al. call the event distinct and stop. Below the \
     root this causes false negatives, so in this project the search continues at the next level. In a dense tree \
     several nodes of a level have the same keys, so their errors are not independent. A product over nodes is \
     therefore wrong for thresholds d above 0, and the expected values come from a simulation with randomly drawn \
     cells. The nodes of a dense tree are also fuller than those of a sparse tree, so top-down testing leaves more \
     false positives. The statement \"d = 2 suffices\" of Koloniari et al. therefore does not hold for dense trees.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Judged;

    #[test]
    fn dense_leaves_find_most_and_sparse_roots_do() {
        let run = Run::alone(14, 4, Scale::Tiny);
        let document = EXPERIMENT.run(&run).unwrap();
        assert_eq!(document.count(Judged::Out), 0, "{document:#?}");
        let [dense, sparse] = [0, 1].map(|mode| &document.panels[0].series[mode].points);
        assert!(dense[1].mean > dense[0].mean && sparse[0].mean > 3.0 * sparse[1].mean, "{dense:?} {sparse:?}");
        assert!(document.panels[6].series.iter().flat_map(|series| &series.points).all(|point| point.mean == 0.0));
    }
}
