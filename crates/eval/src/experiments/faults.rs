//! K11 3.2 and 7, Figures 1 and 5(d): what is wrong while slices are down.
//!
//! Promises: production cells, slicings and lookups past slices that are down. Must not know: nodes.

use std::collections::HashSet;

use firstseen_filter::rates::failures::{self, Errors, Rule};
use firstseen_filter::rates::{plain, slicing};
use firstseen_filter::{Kind, Window};
use firstseen_routing::Belief;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::{k11, parameter};
use crate::document::{Axis, Line, Reading, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::measure::{Subject, count, distinct, pooled, shaped, unseen};
use crate::stats::Counts;
use crate::stream::{Keys, StreamSpec};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "faults",
    title: "Slices that are down: false positives, thresholds, slices needed",
    paragraph: "A slice that is down cannot be asked. If its answer counts as \"seen\", a horizontal filter calls every event of \
                that slice a duplicate, and a vertical one only those whose other cells are all set. The threshold x says how \
                many of the k cells must be alive and set; the paper's literal rule also believes x cells where another one \
                that is alive is not set, the strict rule does not, and has fewer false positives at every x.",
    reads_logs: false,
    measure,
};

const HASHES: u32 = 8;
const SLICES: u32 = 40;
const RATE: f64 = 0.02;
/// The greatest rate that Figure 1(b) allows.
const RATE_MAX: f64 = 0.15;
/// Slices that are down in Figure 5(d).
const DOWN: usize = 8;
const DOWN_COUNTS: [usize; 7] = [0, 2, 4, 8, 12, 16, 20];
const DOWN_MAX: u32 = 8;
/// K11's web log has 16,860 distinct events of 100,000.
const DISTINCT_SHARE: f64 = 0.168_6;
const REPEATING: Keys = Keys::Repeats { distinct_share: DISTINCT_SHARE, recent_keys: u64::MAX };
const AS_DUPLICATE: Belief = Belief { set_min: 0, rule: Rule::Strict };
const RULES: [(Rule, &str); 2] = [(Rule::Literal, "literal (the paper's)"), (Rule::Strict, "strict (ours)")];
const CUTS: [(&str, &str, &str); 3] = [
    ("horizontal:40", "measured, horizontal", "phi + (1 - phi) P, P the mean over binomial slice loads (K11 eq. 5)"),
    ("vertical:40", "measured, vertical", "(phi + (1 - phi) p)^k (K11 eq. 6)"),
    (
        "horizontal-vertical:5x8",
        "measured, diced 5 x 8",
        "mean over groups of (f_g/S' + (1 - f_g/S') p)^k, f_g hypergeometric (K11 eq. 7 is of another filter)",
    ),
];

/// Sizes of a run.
#[derive(Clone, Copy)]
struct Size {
    keys: u64,
    probes: u64,
}

impl Size {
    fn cells(self) -> u64 {
        plain::cells(self.keys as f64, RATE, HASHES) as u64
    }

    /// Events of a stream that brings so many different ones.
    fn events(self) -> u64 {
        (self.keys as f64 / DISTINCT_SHARE) as u64
    }

    fn fill(self) -> f64 {
        plain::fill(self.cells() as f64, HASHES, self.keys as f64)
    }

    /// A full filter.
    fn filled(self, slicing: &str, seed: u64) -> Result<Subject, EvalError> {
        let spec = shaped(Kind::Bloom, Window::Unbounded, self.cells(), HASHES);
        let mut subject = Subject::new("faults", &spec, slicing, seed)?;
        subject.observe(distinct(self.keys, seed)?)?;
        Ok(subject)
    }
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let keys = run.scale.pick(16_860, 6_000, 4_000);
    let size = Size { keys, probes: run.scale.pick(20_000, 10_000, 4_000) };
    let found = run.trials(|seed| {
        Ok(Found {
            failed: shares_down(size, seed)?,
            needed: slices_needed(size, seed)?,
            told: thresholds(size, seed)?,
        })
    })?;
    let failed: Vec<_> = found.iter().map(|found| found.failed.clone()).collect();
    let needed: Vec<_> = found.iter().map(|found| found.needed.clone()).collect();
    let told: Vec<_> = found.iter().map(|found| found.told.clone()).collect();
    let mut sheets = vec![failed_sheet(size, &failed)];
    sheets.extend(needed_sheets(size, &needed));
    sheets.extend(threshold_sheets(size, &told));
    Ok(Findings {
        source: k11("3.2 and 7", "Figures 1(a), 1(b), 5(d)"),
        parameters: vec![
            parameter("distinct events held (n)", size.keys),
            parameter("cells (m)", size.cells()),
            parameter("hash functions (k)", HASHES),
            parameter("slices (S)", SLICES),
            parameter("slices down for thresholds", DOWN as u64),
            parameter("false-positive rate allowed (for S_f)", RATE_MAX),
        ],
        sheets,
        notes: vec![
            "The paper prints the false negatives of the threshold as q^x without C(k,i), and S_f of vertical filters with a \
             root missing; the formulas here have both."
                .to_owned(),
            "\"3 or 4 of 8 is best\" is of the literal rule, counted over all events of a stream that fills the filter. By the \
             strict rule the lowest thresholds are best, and wrong twenty times less often."
                .to_owned(),
            "S_f of horizontal filters takes all slices as equally full; they are not, so the rate may come out a little \
             above what is allowed."
                .to_owned(),
        ],
    })
}

/// What one run has counted.
struct Found {
    failed: Vec<Counts>,
    needed: Vec<Counts>,
    told: Vec<Counts>,
}

/// Which slices are down: `down` of `slices`, at random.
fn drawn_down(slices: u32, down: usize, seed: u64) -> Vec<bool> {
    let mut is_down: Vec<bool> = (0..slices as usize).map(|slice| slice < down).collect();
    is_down.shuffle(&mut ChaCha8Rng::seed_from_u64(seed ^ down as u64));
    is_down
}

/// How many of the events are told to be duplicates while slices are down.
fn told_duplicate(
    subject: &Subject,
    keys: impl Iterator<Item = u64>,
    is_down: &[bool],
    belief: Belief,
) -> Result<Counts, EvalError> {
    let mut counts = Counts::default();
    for key in keys {
        let is_down = |slice: u32| is_down[slice as usize];
        match subject.filter.is_duplicate_while_down(subject.digest(key), is_down, belief) {
            Some(is_duplicate) => count(&mut counts, is_duplicate),
            None => return Err(EvalError::Answer { experiment: "faults", told: "nothing".to_owned() }),
        }
    }
    Ok(counts)
}

/// Figure 1(a): false positives of every cut by slices down, failed = duplicate.
fn shares_down(size: Size, seed: u64) -> Result<Vec<Counts>, EvalError> {
    let mut counts = Vec::new();
    for (slicing, ..) in CUTS {
        let subject = size.filled(slicing, seed)?;
        for down in DOWN_COUNTS {
            let keys = unseen(size.probes, seed)?.map(|event| event.key);
            counts.push(told_duplicate(&subject, keys, &drawn_down(SLICES, down, seed), AS_DUPLICATE)?);
        }
    }
    Ok(counts)
}

fn failed_sheet(size: Size, counts: &[Vec<Counts>]) -> Sheet {
    let expected = |cut: usize, down: usize| {
        let phi = down as f64 / f64::from(SLICES);
        match cut {
            0 => {
                let rate = slicing::horizontal_rate(size.cells() as f64, HASHES, size.keys as f64, SLICES);
                failures::horizontal_as_duplicate(phi, rate.powf(1.0 / f64::from(HASHES)), HASHES)
            }
            1 => failures::vertical_as_duplicate(phi, size.fill(), HASHES),
            _ => failures::diced_as_duplicate(5, 8, down as u32, size.fill(), HASHES),
        }
    };
    let series = CUTS.iter().enumerate().map(|(cut, (_, name, formula))| Readings {
        name: (*name).to_owned(),
        formula: Some((*formula).to_owned()),
        points: DOWN_COUNTS
            .iter()
            .enumerate()
            .map(|(place, down)| Reading {
                x: 100.0 * *down as f64 / f64::from(SLICES),
                estimate: pooled(counts, cut * DOWN_COUNTS.len() + place),
                expected: Some(expected(cut, *down)),
                printed: None,
            })
            .collect(),
    });
    Sheet {
        title: "Figure 1(a): false positives, failed = duplicate".to_owned(),
        x: Axis::linear("slices down (% of 40)"),
        y: Axis::log("false positives (share of new events)"),
        series: series.collect(),
        lines: Vec::new(),
    }
}

/// The slices (S_f) that keep the rate while so many are down: horizontal, vertical.
fn needed(down: u32) -> [u32; 2] {
    let down = f64::from(down);
    let [horizontal, vertical] =
        [failures::slices_horizontal(down, RATE, RATE_MAX), failures::slices_vertical(down, RATE, RATE_MAX, HASHES)];
    [horizontal, vertical].map(|slices| slices.ceil() as u32)
}

/// Figure 1(b): false positives with S_f slices.
fn slices_needed(size: Size, seed: u64) -> Result<Vec<Counts>, EvalError> {
    let mut counts = Vec::new();
    for (index, name) in ["horizontal", "vertical"].iter().enumerate() {
        for down in 1..=DOWN_MAX {
            let slices = needed(down)[index];
            let subject = size.filled(&format!("{name}:{slices}"), seed)?;
            let keys = unseen(size.probes / 2, seed)?.map(|event| event.key);
            counts.push(told_duplicate(&subject, keys, &drawn_down(slices, down as usize, seed), AS_DUPLICATE)?);
        }
    }
    Ok(counts)
}

fn needed_sheets(size: Size, counts: &[Vec<Counts>]) -> [Sheet; 2] {
    let expected = |index: usize, down: u32| {
        let slices = needed(down)[index];
        let phi = f64::from(down) / f64::from(slices);
        match index {
            0 => {
                let rate = slicing::horizontal_rate(size.cells() as f64, HASHES, size.keys as f64, slices);
                failures::horizontal_as_duplicate(phi, rate.powf(1.0 / f64::from(HASHES)), HASHES)
            }
            _ => failures::vertical_as_duplicate(phi, size.fill(), HASHES),
        }
    };
    let series = CUTS[..2].iter().enumerate().map(|(index, (_, name, formula))| Readings {
        name: (*name).to_owned(),
        formula: Some(format!("{formula}, at phi = f / S_f")),
        points: (1..=DOWN_MAX)
            .enumerate()
            .map(|(place, down)| Reading {
                x: f64::from(down),
                estimate: pooled(counts, index * DOWN_MAX as usize + place),
                expected: Some(expected(index, down)),
                printed: None,
            })
            .collect(),
    });
    let bound = vec![(1.0, RATE_MAX), (f64::from(DOWN_MAX), RATE_MAX)];
    let curve = |index: usize| (1..=DOWN_MAX).map(|down| (f64::from(down), f64::from(needed(down)[index]))).collect();
    [
        Sheet {
            title: "Figure 1(b): slices that keep the rate under 0.15".to_owned(),
            x: Axis::linear("slices down (f)"),
            y: Axis::linear("slices needed (S_f)"),
            series: Vec::new(),
            lines: vec![
                Line { name: "horizontal: f (1 - P) / (Pmax - P)".to_owned(), points: curve(0) },
                Line { name: "vertical: f (1 - P^(1/k)) / (Pmax^(1/k) - P^(1/k))".to_owned(), points: curve(1) },
            ],
        },
        Sheet {
            title: "Figure 1(b), tried: false positives with S_f slices".to_owned(),
            x: Axis::linear("slices down (f)"),
            y: Axis::linear("false positives (share of new events)"),
            series: series.collect(),
            lines: vec![Line { name: "allowed".to_owned(), points: bound }],
        },
    ]
}

/// Figure 5(d), over a whole stream that fills the filter: by rule and threshold x = 0..=k the new events that are told
/// duplicate, the repeats that are told new, and both of all events.
fn thresholds(size: Size, seed: u64) -> Result<Vec<Counts>, EvalError> {
    let spec = shaped(Kind::Bloom, Window::Unbounded, size.cells(), HASHES);
    let mut subject = Subject::new("faults", &spec, "vertical:40", seed)?;
    let is_down = drawn_down(SLICES, DOWN, seed);
    let beliefs = RULES.iter().flat_map(|(rule, _)| (0..=HASHES).map(|set_min| Belief { set_min, rule: *rule }));
    let beliefs: Vec<Belief> = beliefs.collect();
    let mut counts = vec![Counts::default(); 3 * beliefs.len()];
    let mut seen = HashSet::new();
    for event in StreamSpec::new(size.events(), REPEATING).events(seed)? {
        let is_new = seen.insert(event.key);
        for (belief, counts) in beliefs.iter().zip(counts.chunks_mut(3)) {
            let told = told_duplicate(&subject, std::iter::once(event.key), &is_down, *belief)?;
            let is_wrong = (told.successes > 0) == is_new;
            count(&mut counts[if is_new { 0 } else { 1 }], is_wrong);
            count(&mut counts[2], is_wrong);
        }
        subject.observe(std::iter::once(event))?;
    }
    Ok(counts)
}

/// The errors over a stream that fills the filter from empty: the mean over its filling.
fn expected_over_stream(size: Size, set_min: u32, rule: Rule) -> Errors {
    const STEPS: u32 = 1000;
    let phi = DOWN as f64 / f64::from(SLICES);
    let at = |step: u32| {
        let keys = (f64::from(step) + 0.5) / f64::from(STEPS) * size.keys as f64;
        let fill = plain::fill(size.cells() as f64, HASHES, keys);
        failures::x_of_k(phi, fill, HASHES, set_min, rule)
    };
    let false_positives = (0..STEPS).map(|step| at(step).false_positives).sum::<f64>() / f64::from(STEPS);
    Errors { false_positives, ..at(0) }
}

fn threshold_sheets(size: Size, counts: &[Vec<Counts>]) -> [Sheet; 2] {
    let place = |rule: usize, set_min: u32, error: usize| 3 * (rule * (HASHES as usize + 1) + set_min as usize) + error;
    let series = |name: String, formula: &str, (rule, error): (usize, usize)| Readings {
        name,
        formula: Some(formula.to_owned()),
        points: (0..=HASHES)
            .map(|set_min| {
                let errors = expected_over_stream(size, set_min, RULES[rule].0);
                let wrong = DISTINCT_SHARE * errors.false_positives + (1.0 - DISTINCT_SHARE) * errors.false_negatives;
                Reading {
                    x: f64::from(set_min),
                    estimate: pooled(counts, place(rule, set_min, error)),
                    expected: Some([errors.false_positives, errors.false_negatives, wrong][error]),
                    printed: None,
                }
            })
            .collect(),
    };
    let mut errors = Vec::new();
    let mut wrong = Vec::new();
    for (rule, (_, name)) in RULES.iter().enumerate() {
        errors.push(series(format!("false positives, {name}"), FALSE_POSITIVES[rule], (rule, 0)));
        wrong.push(series(format!("wrong events, {name}"), WRONG, (rule, 2)));
    }
    errors.push(series("false negatives, both rules".to_owned(), FALSE_NEGATIVES, (0, 1)));
    let x = || Axis::linear("threshold x: cells that must be alive and set, of 8");
    let sheet = |title: &str, y: Axis, series| Sheet { title: title.to_owned(), x: x(), y, series, lines: Vec::new() };
    [
        sheet(
            "Figure 5(d): errors by threshold, 8 of 40 slices down",
            Axis::linear("share of new, or repeated, events"),
            errors,
        ),
        sheet(
            "The same, over all events, 83 % of which are repeats",
            Axis::log("wrong answers (share of all events)"),
            wrong,
        ),
    ]
}

const FALSE_POSITIVES: [&str; 2] = [
    "sum over i >= x of C(k,i) q^i (1-q)^(k-i), q = (1 - phi) p, mean over the filling p (K11 3.2)",
    "sum over i >= x of C(k,i) q^i phi^(k-i), q = (1 - phi) p, mean over the filling p (K11 3.2)",
];
const FALSE_NEGATIVES: &str = "sum over i >= k-x+1 of C(k,i) phi^i (1-phi)^(k-i) (K11 3.2)";
const WRONG: &str = "0.1686 false positives + 0.8314 false negatives";
