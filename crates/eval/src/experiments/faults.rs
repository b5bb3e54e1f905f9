//! K11 3.2 and 7, Figures 1 and 5(d): the errors where slices have been lost.
//!
//! Promises: production nodes decide, by their policies for lost slices; the paper's literal rule, which nodes do not
//! offer, is evaluated on production cells in one place. Must not know: how nodes ask each other.

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
    paragraph: "A node that has lost its slice cannot say of an event that it has not come. If that counts as \"seen\", a \
                horizontal filter calls every event of that slice a duplicate, and a vertical one only those whose other cells \
                are all set. The threshold x says how many of the k cells must be left and set for a duplicate. Nodes keep the \
                strict rule: a cell that is left and not set proves the event distinct. The paper's literal rule believes x \
                cells even then, and has more false positives at every x below k.",
    reads_logs: None,
    measure,
};

pub(super) const HASHES: u32 = 8;
pub(super) const SLICES: u32 = 40;
const RATE: f64 = 0.02;
/// The greatest rates that Figure 1(b) allows, and the one that is measured.
const RATES_MAX: [f64; 3] = [0.05, 0.1, RATE_MAX];
const RATE_MAX: f64 = 0.15;
/// Slices that are down in Figure 5(d).
pub(super) const DOWN: usize = 8;
const DOWN_COUNTS: [usize; 7] = [0, 2, 4, 8, 12, 16, 20];
/// Slices lost, for each of which the slices are counted that keep the rate.
const LOST: [u32; 5] = [1, 2, 4, 6, 8];
const CUTS: [(&str, &str, &str); 3] = [
    ("horizontal:40", "measured, horizontal", "phi + (1 - phi) P, P the mean over binomial slice loads (K11 eq. 5)"),
    ("vertical:40", "measured, vertical", "(phi + (1 - phi) p)^k (K11 eq. 6)"),
    (
        "horizontal-vertical:5x8",
        "measured, diced 5 x 8",
        "mean over groups of (f_g/S' + (1 - f_g/S') p)^k, f_g hypergeometric (K11 eq. 7 is of another filter)",
    ),
];

/// Policies by which one cell that is left is enough for a verdict, and `set_min` (x) cells for a duplicate.
fn policies(when_lost: WhenLost, set_min: u32) -> FilterPolicies {
    FilterPolicies { thresholds: Thresholds { min_live: 1, set_min }, when_lost, ..FilterPolicies::default() }
}

/// Policies by which nodes keep the strict rule: `set_min` (x) cells are required for a duplicate.
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

/// A full filter over nodes, one a slice.
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
    /// How many events of these keys get the verdict `wanted`.
    fn with_verdict(&mut self, keys: Range<u64>, wanted: Decision) -> Result<Counts, EvalError> {
        let mut counts = Counts::default();
        let verdicts = self.nodes.ask_filter(&digests(&self.secret, keys), Operation::Lookup)?;
        verdicts.iter().for_each(|decision| count(&mut counts, *decision == wanted));
        Ok(counts)
    }

    /// How many of so many new events are called duplicates.
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
        source: k11("3.2 and 7", "Figures 1(a), 1(b), 5(d)"),
        parameters: vec![
            parameter("distinct events held (n)", size.keys),
            parameter("false-positive rate when full (P)", RATE),
            parameter("cells (m)", size.cells()),
            parameter("hash functions (k)", HASHES),
            parameter("slices (S)", SLICES),
            parameter("slices lost for thresholds", DOWN as u64),
            parameter("events of the stream that fills a filter", filling::events(small)),
            parameter("false-positive rate allowed (Pmax) where S_f is tried", RATE_MAX),
        ],
        sheets,
        notes: vec![
            "The paper prints the false negatives of the threshold as q^x without C(k,i), and S_f of vertical filters with a \
             root missing; the formulas here have both."
                .to_owned(),
            "Figure 5(d) is of a stream that fills the filter, and counts over all events; a full filter has false positives at \
             their highest, so both are shown. \"3 or 4 of 8 is best\" is of the literal rule, by which 4 is best here, and 3 comes next. Nodes do not keep that rule: it is \
             measured on the same cells in one place. By the strict rule the lowest thresholds are best, and wrong many times \
             less often."
                .to_owned(),
            "S_f of horizontal filters takes all slices as equally full; they are not, so the rate may come out a little \
             above what is allowed."
                .to_owned(),
            "The paper's example, 4 slices lost at Pmax = 0.15, needs \"less than 20\" vertical and \"more than 30\" horizontal \
             slices; here it is 9 and 31, with the 8 hash functions of Figure 5(d)."
                .to_owned(),
        ],
    })
}

/// The counts of one run.
struct Found {
    failed: Vec<Counts>,
    needed: Vec<Counts>,
    by_threshold: Vec<Counts>,
    filling: filling::Found,
}

/// The order in which slices are lost.
pub(super) fn order_of_loss(slices: u32, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..slices).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    order
}

/// Figure 1(a): false positives of every cut by slices lost, failed = duplicate.
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

/// The expected false positives of the cut of this index in [`CUTS`], where lost slices count as "seen".
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

/// The slices (S_f) that keep the rate while so many are down, by the planner: horizontal, vertical.
fn needed(down: u32, rate_max: f64) -> [u32; 2] {
    let down = f64::from(down);
    let [horizontal, vertical] =
        [failures::slices_horizontal(down, RATE, rate_max), failures::slices_vertical(down, RATE, rate_max, HASHES)];
    [horizontal, vertical].map(|slices| slices.ceil() as u32)
}

/// Figure 1(b): false positives with S_f slices.
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
            format!("{formula}, at phi = f / S_f"),
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

/// The least number of slices that the equation of this index allows.
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

/// The slices by the planner, beside the least number that eq. 5 and 6 allow.
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
    "the least S with phi + (1 - phi) P <= Pmax, phi = f/S, tried one by one (K11 eq. 5)",
    "the least S with (phi + (1 - phi) P^(1/k))^k <= Pmax, phi = f/S, tried one by one (K11 eq. 6)",
];

/// Figure 5(d): by threshold x = 0..=k, the new events that are called duplicates, the known ones that are called
/// first-seen, and the new ones that are duplicates by the literal rule.
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

/// The same filter in one place, for the literal rule, which nodes do not have.
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

/// The errors of a filter with this fill.
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

/// A series of [`threshold_sheet`].
struct ThresholdSeries {
    name: &'static str,
    formula: &'static str,
    rule: Rule,
    error: fn(&Errors) -> f64,
    /// The place of its counts among those of a threshold.
    place: usize,
}

const THRESHOLD_SERIES: [ThresholdSeries; 3] = [
    ThresholdSeries {
        name: "measured, false positives (strict)",
        formula: "sum over i >= x of C(k,i) q^i phi^(k-i), q = (1 - phi) p (K11 3.2, strict)",
        rule: Rule::Strict,
        error: |errors| errors.false_positives,
        place: 0,
    },
    ThresholdSeries {
        name: "measured, false positives (literal)",
        formula: "sum over i >= x of C(k,i) q^i (1-q)^(k-i), q = (1 - phi) p (K11 3.2, literal)",
        rule: Rule::Literal,
        error: |errors| errors.false_positives,
        place: 2,
    },
    ThresholdSeries {
        name: "measured, false negatives (strict)",
        formula: "sum over i >= k-x+1 of C(k,i) phi^i (1-phi)^(k-i) (K11 3.2)",
        rule: Rule::Strict,
        error: |errors| errors.false_negatives,
        place: 1,
    },
];
