//! Reproduces Figures 1 and 5(d) of Koloniari et al. 2011 (sections 3.2 and 7): the error rates of a filter that has
//! lost slices.
//!
//! The verdicts come from production nodes, which apply their policies for lost slices. Nodes do not support the
//! literal rule of the paper, which may call an event a duplicate although one of its remaining cells is empty. The
//! experiment therefore evaluates this rule on the cells of a production filter in a single process.

mod filling;

use std::ops::Range;

use firstseen_filter::rates::failures::{self, Errors, Rule};
use firstseen_filter::rates::{plain, slicing};
use firstseen_filter::{Digest, FilterSecret, Kind, Window};
use firstseen_routing::{
    Answer, Decision, FilterPolicies, Operation, SlicedDefinition, SlicedFilter, Thresholds, WhenLost,
};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::{k11, parameter};
use crate::document::{Axis, Reading, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::failing::{Belief, is_duplicate_while_down};
use crate::measure::{count, pooled, shaped};
use crate::nodes::Nodes;
use crate::stats::{Counts, Estimate};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "faults",
    title: "Slices that are down: false positives, thresholds, slices needed",
    paragraph: "A node that has lost its slice cannot tell that an event is new. If lost cells count as \"seen\", a \
                horizontal filter calls every event of the lost slice a duplicate. A vertical filter does so only for \
                events whose other cells are all set. The threshold x says how many of the k cells must be left and \
                set for a duplicate. Nodes follow the strict rule: a cell that is left and not set proves that the \
                event is distinct. The literal rule of the paper ignores such cells, and has more false positives for \
                every x below k.",
    reads_logs: None,
    measure,
};

pub(super) const HASHES: u32 = 8;
pub(super) const SLICES: u32 = 40;
const RATE: f64 = 0.02;
/// Maximum rates that Figure 1(b) allows, and the rate that is measured.
const RATES_MAX: [f64; 3] = [0.05, 0.1, RATE_MAX];
const RATE_MAX: f64 = 0.15;
/// Number of slices that are down in Figure 5(d).
pub(super) const DOWN: usize = 8;
const DOWN_COUNTS: [usize; 7] = [0, 2, 4, 8, 12, 16, 20];
/// Numbers of lost slices. For each of them, the experiment calculates how many slices keep the rate.
const LOST: [u32; 5] = [1, 2, 4, 6, 8];
const CUTS: [(&str, &str, &str); 3] = [
    (
        "horizontal:40",
        "measured, horizontal",
        "the false-positive rate phi + (1 - phi) P. Here phi is the share of lost slices, and P is the false-positive \
         rate without lost slices, averaged over the binomial loads of the slices (Koloniari et al. 2011, equation 5)",
    ),
    (
        "vertical:40",
        "measured, vertical",
        "the false-positive rate (phi + (1 - phi) p)^k. Here phi is the share of lost slices, p is the share of set \
         cells, and k is the number of hash functions (Koloniari et al. 2011, equation 6)",
    ),
    (
        "horizontal-vertical:5x8",
        "measured, diced 5 x 8",
        "the false-positive rate (f_g/S' + (1 - f_g/S') p)^k of a group of slices, averaged over all groups. Here p \
         is the share of set cells, and f_g of the S' slices of a group are lost. The number f_g has a hypergeometric \
         distribution. Equation 7 of Koloniari et al. 2011 describes another filter",
    ),
];

/// Returns policies under which one live cell is enough for a verdict, and `set_min` (x) set cells are needed for a
/// duplicate.
fn policies(when_lost: WhenLost, set_min: u32) -> FilterPolicies {
    FilterPolicies { thresholds: Thresholds { min_live: 1, set_min }, when_lost, ..FilterPolicies::default() }
}

/// Returns policies under which nodes follow the strict rule: `set_min` (x) set cells are needed for a duplicate.
pub(super) fn strict(set_min: u32) -> FilterPolicies {
    policies(if set_min == 0 { WhenLost::Duplicate } else { WhenLost::FirstSeen }, set_min)
}

/// Sizes of a run.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) keys: u64,
    probes: u64,
}

fn digests(secret: &FilterSecret, keys: Range<u64>) -> Vec<Digest> {
    keys.map(|key| secret.digest(&key.to_le_bytes())).collect()
}

/// Full filter over several nodes, with one slice per node.
struct Full {
    nodes: Nodes,
    secret: FilterSecret,
    size: Size,
}

impl Size {
    pub(super) fn cells(self) -> u64 {
        plain::cells(self.keys as f64, RATE, HASHES) as u64
    }

    fn fill(self) -> f64 {
        plain::fill(self.cells() as f64, HASHES, self.keys as f64)
    }

    fn filled(self, slicing: &str, policies: FilterPolicies, seed: u64) -> Result<Full, EvalError> {
        let nodes = Nodes::of_slices("faults", &self.definition(slicing)?, policies)?;
        let mut full = Full { nodes, secret: FilterSecret::from_seed(seed), size: self };
        full.nodes.ask_filter(&digests(&full.secret, 0..self.keys), Operation::Observe)?;
        Ok(full)
    }

    pub(super) fn definition(self, slicing: &str) -> Result<SlicedDefinition, EvalError> {
        let spec = shaped(Kind::Bloom, Window::Unbounded, self.cells(), HASHES);
        Ok(SlicedDefinition::new(&spec, slicing.parse()?)?)
    }
}

impl Full {
    /// Counts the events of these keys that get the verdict `wanted`.
    fn with_verdict(&mut self, keys: Range<u64>, wanted: Decision) -> Result<Counts, EvalError> {
        let mut counts = Counts::default();
        let verdicts = self.nodes.ask_filter(&digests(&self.secret, keys), Operation::Lookup)?;
        verdicts.iter().for_each(|decision| count(&mut counts, *decision == wanted));
        Ok(counts)
    }

    /// Counts the new events, out of `probes`, that are called duplicates.
    fn false_positives(&mut self, probes: u64) -> Result<Counts, EvalError> {
        self.with_verdict(self.size.keys..self.size.keys + probes, Decision::Duplicate)
    }
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let keys = run.scale.pick(16_860, 3_000, 2_000);
    let size = Size { keys, probes: run.scale.pick(20_000, 3_000, 2_000) };
    let small = Size { keys: run.scale.pick(3_000, 700, 400), ..size };
    let found = run.trials(|seed| {
        Ok(Found {
            failed: shares_down(size, seed)?,
            needed: slices_needed(size, seed)?,
            by_threshold: thresholds(size, seed)?,
            filling: filling::found(small, seed)?,
        })
    })?;
    let failed: Vec<_> = found.iter().map(|found| found.failed.clone()).collect();
    let needed: Vec<_> = found.iter().map(|found| found.needed.clone()).collect();
    let by_threshold: Vec<_> = found.iter().map(|found| found.by_threshold.clone()).collect();
    let mut sheets = vec![failed_sheet(size, &failed)];
    sheets.push(planned_sheet(run.seeds));
    sheets.push(needed_sheet(size, &needed));
    sheets.push(threshold_sheet(size, &by_threshold));
    sheets.push(filling::sheet(&found.into_iter().map(|found| found.filling).collect::<Vec<_>>()));
    Ok(Findings {
        source: k11("sections 3.2 and 7", "Figures 1(a), 1(b), 5(d)"),
        parameters: vec![
            parameter("distinct events held (n)", size.keys),
            parameter("false-positive rate when full (P)", RATE),
            parameter("cells (m)", size.cells()),
            parameter("hash functions (k)", HASHES),
            parameter("slices (S)", SLICES),
            parameter("slices lost for thresholds", DOWN as u64),
            parameter("events of the stream that fills a filter", filling::events(small)),
            parameter("allowed false-positive rate (Pmax) for which S_f is tested", RATE_MAX),
        ],
        sheets,
        notes: vec![
            "Two formulas of this experiment differ from those that Koloniari et al. print. The formula for the false \
             negatives of a threshold has the factor C(k,i), where they print q^x without it. The formula for the \
             number of slices S_f of a vertical filter has a root that they leave out."
                .to_owned(),
            "Figure 5(d) of Koloniari et al. shows the errors by threshold. A threshold of x means that at least x of \
             the 8 cells of an event must be left and set for a duplicate. The errors are counted over all events of a \
             stream that fills the filter. This experiment also shows the errors of a full filter, which has the most \
             false positives."
                .to_owned(),
            "Koloniari et al. state that a threshold of \"3 or 4 of 8 is best\". The measurement agrees for their \
             literal rule, by which an event may be a duplicate although one of the cells that are left is not set: \
             errors are rarest with threshold 4, and second rarest with 3. Nodes do not support the literal rule, so \
             it is measured on the same cells in a single process."
                .to_owned(),
            "Nodes follow the strict rule, by which an event is distinct if one of the cells that are left is not set. \
             With the strict rule, the lowest thresholds are best, and errors are then many times rarer than with \
             the best threshold of the literal rule."
                .to_owned(),
            "The formula for the number of slices S_f of a horizontal filter assumes that all slices are equally full. \
             In fact slices fill unevenly, so the measured false-positive rate may be slightly above the allowed rate."
                .to_owned(),
            "Koloniari et al. give an example with 4 lost slices and an allowed rate of Pmax = 0.15. They state that \
             such a filter needs \"less than 20\" vertical or \"more than 30\" horizontal slices. With the 8 hash \
             functions of Figure 5(d), the formulas give 9 vertical or 31 horizontal slices."
                .to_owned(),
        ],
    })
}

/// Counts of one run.
struct Found {
    failed: Vec<Counts>,
    needed: Vec<Counts>,
    by_threshold: Vec<Counts>,
    filling: filling::Found,
}

/// Returns the order in which slices are lost.
pub(super) fn order_of_loss(slices: u32, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..slices).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    order
}

/// Measures Figure 1(a): the false positives of every slicing by the number of lost slices. Lost slices are treated as
/// duplicates.
fn shares_down(size: Size, seed: u64) -> Result<Vec<Counts>, EvalError> {
    let mut counts = Vec::new();
    let order = order_of_loss(SLICES, seed);
    for (slicing, ..) in CUTS {
        let mut full = size.filled(slicing, policies(WhenLost::Duplicate, 0), seed)?;
        let mut lost = 0;
        for down in DOWN_COUNTS {
            full.nodes.lose(order[lost..down].iter().copied())?;
            lost = down;
            counts.push(full.false_positives(size.probes)?);
        }
    }
    Ok(counts)
}

/// Returns the expected false positives of the slicing with this index in [`CUTS`], if lost slices count as "seen".
fn expected_rate(size: Size, cut: usize, down: u32, slices: u32) -> f64 {
    let phi = f64::from(down) / f64::from(slices);
    match cut {
        0 => {
            let rate = slicing::horizontal_rate(size.cells() as f64, HASHES, size.keys as f64, slices);
            failures::horizontal_as_duplicate(phi, rate.powf(1.0 / f64::from(HASHES)), HASHES)
        }
        1 => failures::vertical_as_duplicate(phi, size.fill(), HASHES),
        _ => failures::diced_as_duplicate(5, 8, down, size.fill(), HASHES),
    }
}

fn failed_sheet(size: Size, counts: &[Vec<Counts>]) -> Sheet {
    let series = CUTS.iter().enumerate().map(|(cut, (_, name, formula))| {
        Readings::new(
            *name,
            *formula,
            DOWN_COUNTS.iter().enumerate().map(|(place, down)| {
                let expected = expected_rate(size, cut, *down as u32, SLICES);
                let x = 100.0 * *down as f64 / f64::from(SLICES);
                Reading::new(x, pooled(counts, cut * DOWN_COUNTS.len() + place), expected)
            }),
        )
    });
    Sheet::new(
        "Figure 1(a): false positives, failed = duplicate",
        Axis::linear("slices lost (% of 40)"),
        Axis::log("false positives (share of new events)"),
        series,
    )
}

/// Returns the number of slices (S_f) that keep the rate while `down` slices are down, according to the planner:
/// horizontal and vertical.
fn needed(down: u32, rate_max: f64) -> [u32; 2] {
    let down = f64::from(down);
    let [horizontal, vertical] =
        [failures::slices_horizontal(down, RATE, rate_max), failures::slices_vertical(down, RATE, rate_max, HASHES)];
    [horizontal, vertical].map(|slices| slices.ceil() as u32)
}

/// Measures Figure 1(b): the false positives with S_f slices.
fn slices_needed(size: Size, seed: u64) -> Result<Vec<Counts>, EvalError> {
    let mut counts = Vec::new();
    for (index, name) in ["horizontal", "vertical"].iter().enumerate() {
        for down in LOST {
            let slices = needed(down, RATE_MAX)[index];
            let mut full = size.filled(&format!("{name}:{slices}"), policies(WhenLost::Duplicate, 0), seed)?;
            full.nodes.lose(order_of_loss(slices, seed).into_iter().take(down as usize))?;
            counts.push(full.false_positives(size.probes / 2)?);
        }
    }
    Ok(counts)
}

fn needed_sheet(size: Size, counts: &[Vec<Counts>]) -> Sheet {
    let series = CUTS[..2].iter().enumerate().map(|(index, (_, name, formula))| {
        Readings::new(
            *name,
            format!("{formula}. If f of S_f slices are lost, then phi = f / S_f"),
            LOST.into_iter().enumerate().map(|(place, down)| {
                let expected = expected_rate(size, index, down, needed(down, RATE_MAX)[index]);
                Reading::new(down, pooled(counts, index * LOST.len() + place), expected)
            }),
        )
    });
    let bound = LOST.map(|down| (f64::from(down), RATE_MAX)).to_vec();
    Sheet::new(
        "Figure 1(b), tried: false positives with S_f slices",
        Axis::linear("slices lost (f)"),
        Axis::linear("false positives (share of new events)"),
        series,
    )
    .with_line("allowed", bound)
}

/// Returns the smallest number of slices that the equation with this index allows.
fn least_slices(index: usize, down: u32, rate_max: f64) -> Option<u32> {
    let root = RATE.powf(1.0 / f64::from(HASHES));
    (down..).find(|slices| {
        let phi = f64::from(down) / f64::from(*slices);
        let rate = match index {
            0 => phi + (1.0 - phi) * RATE,
            _ => (phi + (1.0 - phi) * root).powi(HASHES as i32),
        };
        rate <= rate_max
    })
}

/// Returns the planned numbers of slices, compared with the smallest number that equations 5 and 6 allow.
fn planned_sheet(runs: u32) -> Sheet {
    let mut series = Vec::new();
    for (index, name) in ["horizontal", "vertical"].into_iter().enumerate() {
        for rate_max in RATES_MAX {
            let points = LOST.map(|down| {
                let planned = f64::from(needed(down, rate_max)[index]);
                let estimate = Estimate::of_values(&vec![planned; runs as usize], 1);
                let expected = least_slices(index, down, rate_max).map(f64::from);
                Reading { expected, ..Reading::unjudged(down, estimate) }
            });
            series.push(Readings::new(format!("planned, {name}, Pmax = {rate_max}"), LEAST[index], points));
        }
    }
    Sheet::new(
        "Figure 1(b): slices that keep the rate under Pmax",
        Axis::linear("slices lost (f)"),
        Axis::log("slices needed (S_f)"),
        series,
    )
}

const LEAST: [&str; 2] = [
    "the smallest number of slices S for which phi + (1 - phi) P <= Pmax, where phi = f/S is the share of lost slices, \
     and P is the false-positive rate without losses. The number is found by trying one S after the other (Koloniari \
     et al. 2011, equation 5)",
    "the smallest number of slices S for which (phi + (1 - phi) P^(1/k))^k <= Pmax, where phi = f/S is the share of \
     lost slices, and P is the false-positive rate without losses. The number is found by trying one S after the other \
     (Koloniari et al. 2011, equation 6)",
];

/// Measures the errors of Figure 5(d) for each threshold x = 0..=k, where x is the number of remaining cells that must
/// be set for a duplicate. For each threshold, there are three results:
///
/// - new events that are called duplicates,
/// - known events that are called first-seen,
/// - new events that the literal rule of the paper calls duplicates.
fn thresholds(size: Size, seed: u64) -> Result<Vec<Counts>, EvalError> {
    let mut counts = Vec::new();
    let literal = Literal::filled(size, seed)?;
    for set_min in 0..=HASHES {
        let mut full = size.filled("vertical:40", strict(set_min), seed)?;
        full.nodes.lose(order_of_loss(SLICES, seed).into_iter().take(DOWN))?;
        counts.push(full.false_positives(size.probes)?);
        counts.push(full.with_verdict(0..size.keys, Decision::FirstSeen)?);
        counts.push(literal.false_positives(set_min)?);
    }
    Ok(counts)
}

/// The same filter in one process, for the literal rule, which nodes do not support.
struct Literal {
    filter: SlicedFilter,
    secret: FilterSecret,
    size: Size,
    lost: Vec<u32>,
}

impl Literal {
    fn filled(size: Size, seed: u64) -> Result<Self, EvalError> {
        let mut filter = SlicedFilter::build(&size.definition("vertical:40")?)?;
        let secret = FilterSecret::from_seed(seed);
        let digests = digests(&secret, 0..size.keys);
        filter.observe_batch(&digests, &[], &mut vec![Answer::Undecided; digests.len()]);
        let lost = order_of_loss(SLICES, seed).into_iter().take(DOWN).collect();
        Ok(Self { filter, secret, size, lost })
    }

    fn false_positives(&self, set_min: u32) -> Result<Counts, EvalError> {
        let mut counts = Counts::default();
        let belief = Belief { set_min, rule: Rule::Literal };
        for digest in digests(&self.secret, self.size.keys..self.size.keys + self.size.probes) {
            match is_duplicate_while_down(&self.filter, digest, |slice| self.lost.contains(&slice), belief) {
                Some(is_duplicate) => count(&mut counts, is_duplicate),
                None => return Err(EvalError::Answer { experiment: "faults", answer: "nothing".to_owned() }),
            }
        }
        Ok(counts)
    }
}

/// Returns the error rates of a filter with this fill.
fn errors(fill: f64, set_min: u32, rule: Rule) -> Errors {
    failures::x_of_k(DOWN as f64 / f64::from(SLICES), fill, HASHES, set_min, rule)
}

fn threshold_sheet(size: Size, counts: &[Vec<Counts>]) -> Sheet {
    let series = THRESHOLD_SERIES.into_iter().map(|ThresholdSeries { name, formula, rule, error, place }| {
        let points = (0..=HASHES).map(|set_min| {
            let expected = error(&errors(size.fill(), set_min, rule));
            Reading::new(set_min, pooled(counts, 3 * set_min as usize + place), expected)
        });
        Readings::new(name, formula, points)
    });
    Sheet::new(
        "Figure 5(d): errors by threshold, 8 of 40 slices lost, of a full filter",
        Axis::linear("threshold x: cells that must be left and set, of 8"),
        Axis::linear("share of new, or repeated, events"),
        series,
    )
}

/// Series of [`threshold_sheet`].
struct ThresholdSeries {
    name: &'static str,
    formula: &'static str,
    rule: Rule,
    error: fn(&Errors) -> f64,
    /// Index of its counts among those of a threshold.
    place: usize,
}

const THRESHOLD_SERIES: [ThresholdSeries; 3] = [
    ThresholdSeries {
        name: "measured, false positives (strict)",
        formula: "the false-positive rate by the strict rule of this project: the sum over i >= x of C(k,i) q^i \
                  phi^(k-i). Here k is the number of cells of an event, x is the threshold, and i is the number of \
                  cells that are set on slices that are not lost. phi is the share of lost slices, and q = (1 - phi) \
                  p is the probability that a cell is set and its slice is not lost (after Koloniari et al. 2011, \
                  section 3.2)",
        rule: Rule::Strict,
        error: |errors| errors.false_positives,
        place: 0,
    },
    ThresholdSeries {
        name: "measured, false positives (literal)",
        formula: "the false-positive rate by the literal rule of Koloniari et al. 2011, section 3.2: the sum over i \
                  >= x of C(k,i) q^i (1-q)^(k-i). Here k is the number of cells of an event, x is the threshold, and \
                  i is the number of cells that are set on slices that are not lost. phi is the share of lost slices, \
                  and q = (1 - phi) p is the probability that a cell is set and its slice is not lost",
        rule: Rule::Literal,
        error: |errors| errors.false_positives,
        place: 2,
    },
    ThresholdSeries {
        name: "measured, false negatives (strict)",
        formula: "the false-negative rate, which is the probability that fewer than x of the k cells of a known event \
                  lie on slices that are not lost. It equals the sum over i >= k-x+1 of C(k,i) phi^i (1-phi)^(k-i). \
                  Here x is the threshold, i is the number of the event's cells on lost slices, and phi is the share \
                  of lost slices (Koloniari et al. 2011, section 3.2)",
        rule: Rule::Strict,
        error: |errors| errors.false_negatives,
        place: 1,
    },
];
