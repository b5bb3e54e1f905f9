//! Compares filters of decaying frequencies that have basic counters with those that have extended counters, as section
//! 5 of Cheng et al. does. The experiment measures the memory, the time, the errors for keys of different skew, and the
//! values that are left after a long time under each rounding rule.
//!
//! The experiment compares the estimates of production filters with exact decayed frequencies.

mod counted;
mod times;

use std::collections::HashMap;

use firstseen_filter::rates::plain;
use firstseen_filter::{
    CellDefinition, DecayRule, DecayingCells, DecayingFilter, DecayingShape, Digest, FilterSecret, FrequencySpec,
    Stamp, UnitNumber, Window,
};

use self::counted::Expected;
use super::parameter;
use crate::document::{Axis, Reading, Readings, Sheet, Source};
use crate::drawn::Drawn;
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::measure::{averaged, count, unseen};
use crate::stats::{Counts, Estimate};
use crate::stream::{Event, Keys, StreamSpec};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "decay",
    title: "Decaying frequencies: memory, time, errors, rounding",
    paragraph: "A decaying filter estimates how often a key occurred, where an occurrence counts less with every \
                epoch. Most counters stay small. Counters of four bits, with extensions from a common pool for \
                counters that need more, therefore take about a third of the memory of 16-bit counters. With the \
                rounding of the paper, estimates are never too low, but counters never return to zero, so that a key \
                is never forgotten. Counters with fractional bits, the remedy of this project, do forget. Their \
                estimates are too low by less than one occurrence, and they take nearly twice the memory.",
    reads_logs: None,
    measure,
};

const LAMBDA: f64 = 0.9;
const EPOCHS: u64 = 60;
const LAST_EPOCH: UnitNumber = UnitNumber(EPOCHS - 1);
const EXPONENTS: [f64; 5] = [0.0, 0.5, 0.8, 1.0, 1.2];
/// Probability that a key that was never seen has an estimate above zero, after all keys have occurred.
const RATE: f64 = 0.01;
const STORAGES: [(bool, &str); 2] = [(true, "basic, 16 bits"), (false, "extended")];
const RULES: [(DecayRule, &str); 2] = [
    (DecayRule::Literal { lambda: LAMBDA }, "the paper's rounding"),
    (DecayRule::Lasting { lambda: LAMBDA, fraction_bits: 4 }, "fractional bits"),
];
const LAMBDAS: [f64; 4] = [0.5, 0.8, 0.9, 0.99];
/// Number of occurrences of a key that does not occur again.
const BURST: usize = 2_000;
/// Number of epochs after which nothing of a burst is left with any of the decay factors: `2000 * 0.99^3000 < 1e-9`.
const SILENCE_EPOCHS: u64 = 3_000;

/// Sizes of a run.
#[derive(Clone, Copy)]
struct Size {
    events: u64,
    keys: u64,
    probes: u64,
}

/// Errors of one rule and storage over a stream.
#[derive(Clone, Copy)]
struct Found {
    bytes: f64,
    /// Keys whose estimate is lower than the rule allows.
    too_low: Counts,
    /// Mean difference between estimate and truth over all keys.
    excess: f64,
    /// Keys that were never seen but have an estimate above zero, and their expected rate by the formula for keys that
    /// are never forgotten.
    ghosts: Counts,
    ghosts_expected: f64,
    /// Expected values for the stream.
    expected: Expected,
}

/// Rounding rule and storage of the counters.
#[derive(Clone, Copy)]
struct Way {
    rule: DecayRule,
    is_basic: bool,
}

fn shape(way: Way, keys: u64) -> Result<DecayingShape, EvalError> {
    let epoch = Window::Duration(1);
    let Way { rule, is_basic } = way;
    let usual = FrequencySpec::new(epoch, rule.lambda());
    let spec = FrequencySpec { rule, capacity_keys: keys, rate: RATE, basic: is_basic, ..usual };
    match spec.resolve()?.cells {
        CellDefinition::Decaying(DecayingCells { shape }) => Ok(shape),
        other => Err(EvalError::Answer { experiment: "decay", answer: format!("{:?}", other.kind()) }),
    }
}

/// Stream that covers all epochs.
struct Stream {
    secret: FilterSecret,
    digests: Vec<Digest>,
    /// Epoch of each event.
    stamps: Vec<Stamp>,
    keys: Vec<u64>,
    /// Exact decayed frequency of every key at the last epoch.
    truths: HashMap<u64, f64>,
}

impl Stream {
    fn of(size: Size, exponent: f64, seed: u64) -> Result<Self, EvalError> {
        let secret = FilterSecret::from_seed(seed);
        let keys = Keys::Zipf { keys: size.keys, exponent };
        let events: Vec<Event> = StreamSpec::new(size.events, keys).events(seed)?.collect();
        let digests = events.iter().map(|event| digest(&secret, event.key)).collect();
        let per_epoch = size.events.div_ceil(EPOCHS);
        let stamps: Vec<Stamp> =
            (0..size.events).map(|number| Stamp::on_time(UnitNumber(number / per_epoch))).collect();
        let mut truths = HashMap::new();
        for (event, stamp) in events.iter().zip(&stamps) {
            *truths.entry(event.key).or_insert(0.0) += LAMBDA.powi(LAST_EPOCH.since(stamp.unit) as i32);
        }
        let keys = events.into_iter().map(|event| event.key).collect();
        Ok(Self { secret, digests, stamps, keys, truths })
    }
}

fn digest(secret: &FilterSecret, key: u64) -> Digest {
    secret.digest(&key.to_le_bytes())
}

fn found(size: Size, stream: &Stream, way: Way, expected: Expected, seed: u64) -> Result<Found, EvalError> {
    let shape = shape(way, size.keys)?;
    let mut filter = DecayingFilter::new(shape)?;
    filter.observe_batch(&stream.digests, &stream.stamps, &mut vec![0.0; stream.digests.len()]);
    let mut too_low = Counts::default();
    let mut excess = 0.0;
    for (key, truth) in &stream.truths {
        let estimate = filter.estimate(digest(&stream.secret, *key), LAST_EPOCH);
        // Sums of powers are exact up to about 1e-12 of an occurrence.
        count(&mut too_low, estimate < truth - counted::loss_max(way.rule) - 1e-9);
        excess += estimate - truth;
    }
    let mut ghosts = Counts::default();
    for event in unseen(size.probes, seed)? {
        count(&mut ghosts, filter.estimate(digest(&stream.secret, event.key), LAST_EPOCH) > 0.0);
    }
    let keys = stream.truths.len() as f64;
    Ok(Found {
        bytes: filter.touched_bytes() as f64,
        too_low,
        excess: excess / keys,
        ghosts,
        ghosts_expected: ghosts_expected(&shape, way.is_basic, keys),
        expected,
    })
}

/// Returns the expected share of unseen keys whose estimated frequency is above zero. For basic counters, this share is
/// the false-positive rate `(1 - (1 - 1/m)^(kn))^k` (Cheng et al., equation 5). Extended counters have an additional
/// filter BF_0, which has half the cells and half the positions. A key must also pass this filter, so the rate is
/// multiplied by the rate of BF_0.
fn ghosts_expected(shape: &DecayingShape, is_basic: bool, keys: f64) -> f64 {
    let counters = plain::rate(shape.cells as f64, shape.hashes, keys);
    let known = plain::rate(shape.cells.div_ceil(2) as f64, shape.hashes.div_ceil(2), keys);
    if is_basic { counters } else { counters * known }
}

/// Returns the estimate of a key that occurred [`BURST`] times, after `after_epochs` epochs.
fn left_over(rule: DecayRule, after_epochs: u64, seed: u64) -> Result<f64, EvalError> {
    let mut filter = DecayingFilter::new(shape(Way { rule, is_basic: false }, 1_000)?)?;
    let digest = FilterSecret::from_seed(seed).digest(b"burst");
    filter.observe_batch(&[digest; BURST], &[Stamp::on_time(UnitNumber::FIRST); BURST], &mut [0.0; BURST]);
    Ok(filter.estimate(digest, UnitNumber::FIRST.after(after_epochs)))
}

fn with_lambda(rule: DecayRule, lambda: f64) -> DecayRule {
    match rule {
        DecayRule::Literal { .. } => DecayRule::Literal { lambda },
        DecayRule::Lasting { fraction_bits, .. } => DecayRule::Lasting { lambda, fraction_bits },
    }
}

/// Performs one run: all combinations of exponent, rule and storage, and then the remainder of a burst by rule and
/// decay factor.
fn run_once(size: Size, seed: u64) -> Result<(Vec<Found>, Vec<f64>), EvalError> {
    let mut all = Vec::new();
    for exponent in EXPONENTS {
        let stream = Stream::of(size, exponent, seed)?;
        for (rule, _) in RULES {
            let shape = shape(Way { rule, is_basic: true }, size.keys)?;
            let expected = counted::expected(&shape, &stream.keys, &stream.truths, !seed);
            for (is_basic, _) in STORAGES {
                all.push(found(size, &stream, Way { rule, is_basic }, expected, seed)?);
            }
        }
    }
    let left = RULES.iter().flat_map(|(rule, _)| LAMBDAS.map(|lambda| with_lambda(*rule, lambda)));
    let left: Result<_, _> = left.map(|rule| left_over(rule, SILENCE_EPOCHS, seed)).collect();
    Ok((all, left?))
}

type Runs = Vec<(Vec<Found>, Vec<f64>)>;

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let size = Size {
        events: run.scale.pick(60_000, 30_000, 20_000),
        keys: run.scale.pick(12_000, 6_000, 4_000),
        probes: run.scale.pick(50_000, 30_000, 10_000),
    };
    let clock_ns = run.clock_ns;
    let both = run.trials(|seed| Ok((run_once(size, seed)?, times::ratios(size, seed, clock_ns)?)))?;
    let (runs, ratios): (Runs, Vec<_>) = both.into_iter().unzip();
    let times = times::sheet(&ratios, size);
    let times_note = times.is_some().then(times::note);
    let basic = shape(Way { rule: RULES[0].0, is_basic: true }, size.keys)?;
    Ok(Findings {
        source: Source {
            paper: "Cheng, Iwaihara, Xiang, Ushijima: Efficient Web Profiling by Time-Decaying Bloom Filters (C05)"
                .to_owned(),
            section: "sections 3, 4 and 5".to_owned(),
            figure: "numbers in the text of section 5".to_owned(),
        },
        parameters: vec![
            parameter("events", size.events),
            parameter("keys (Zipf)", size.keys),
            parameter("epochs", EPOCHS),
            parameter("decay per epoch (lambda)", LAMBDA),
            parameter("cells (m)", basic.cells),
            parameter("hash functions (k)", basic.hashes),
        ],
        sheets: [
            memory_sheet(&runs, size),
            excess_sheet(&runs, size),
            ghosts_sheet(&runs),
            low_sheet(&runs),
            left_sheet(&runs),
        ]
        .into_iter()
        .chain(times)
        .collect(),
        notes: NOTES.map(str::to_owned).into_iter().chain(times_note).collect(),
    })
}

const NOTES: [&str; 3] = [
    "Claim 1 of Cheng et al. is printed the wrong way round: its proof shows that estimates are never too low. The \
     claim holds only if counters are rounded up, and neither down nor to the nearest number. Cheng et al. also \
     multiply the result of a query by 1 - lambda, which belongs to a normalised average. This experiment leaves that \
     factor out.",
    "If counters are rounded up, a counter never falls below ceil(1 / (1 - lambda)) - 1, and so never returns to zero. \
     This floor is 9 for lambda = 0.9 and 99 for lambda = 0.99. On an endless stream, estimates are therefore too high \
     by some occurrences even if few keys share a counter. Counters with 4 fractional bits avoid this, because they \
     return to zero. Their estimates are too low by at most 3.5 sixteenths of an occurrence.",
    "Cheng et al. state that extended counters save a \"factor of 3\" in memory. With their rounding, this holds at \
     every skew of the keys, even if the table of extensions and the filter BF_0 are included in the measurement. \
     Counters with fractional bits save less, because they need 8 bits each.",
];

fn case(exponent: usize, rule: usize, storage: usize) -> usize {
    (exponent * RULES.len() + rule) * STORAGES.len() + storage
}

/// Returns the points of a series over [`EXPONENTS`].
fn over_exponents(reading: impl Fn(usize, f64) -> Reading) -> Vec<Reading> {
    EXPONENTS.iter().enumerate().map(|(place, exponent)| reading(place, *exponent)).collect()
}

fn skew() -> Axis {
    Axis::linear("skew of the keys (Zipf's exponent)")
}

fn memory_sheet(runs: &Runs, size: Size) -> Sheet {
    let series = RULES.iter().enumerate().map(|(rule, (_, name))| {
        let points = over_exponents(|place, exponent| {
            let extended = case(place, rule, 1);
            let basic = case(place, rule, 0);
            let ratios = runs.iter().map(|(found, _)| found[extended].bytes / found[basic].bytes);
            Reading::unjudged(exponent, Estimate::of_values(&ratios.collect::<Vec<_>>(), size.keys))
        });
        Readings::unjudged(format!("measured, {name}"), points)
    });
    Sheet::new(
        "Memory of extended counters, of that of 16 bits each",
        skew(),
        Axis::linear("memory (share of that of basic counters)"),
        series,
    )
    .with_line("the paper: a third", EXPONENTS.map(|exponent| (exponent, 1.0 / 3.0)))
}

/// Combination of a rule and a storage, as indexes into [`RULES`] and [`STORAGES`].
#[derive(Clone, Copy)]
struct Shown {
    rule: usize,
    storage: usize,
}

impl Shown {
    fn all() -> impl Iterator<Item = Self> {
        (0..RULES.len()).flat_map(|rule| (0..STORAGES.len()).map(move |storage| Self { rule, storage }))
    }

    fn name(self) -> String {
        format!("measured, {}, {}", RULES[self.rule].1, STORAGES[self.storage].1)
    }

    /// Returns the values of every run for the exponent with this index.
    fn of<T>(self, runs: &Runs, place: usize, value: impl Fn(&Found) -> T) -> Vec<T> {
        let case = case(place, self.rule, self.storage);
        runs.iter().map(|(found, _)| value(&found[case])).collect()
    }
}

fn excess_sheet(runs: &Runs, size: Size) -> Sheet {
    let series = Shown::all().map(|shown| {
        let points = over_exponents(|place, exponent| {
            let measured = shown.of(runs, place, |found| found.excess);
            let models = shown.of(runs, place, |found| found.expected.excess);
            let expected: Vec<f64> = models.iter().map(|drawn| drawn.mean).collect();
            let (estimate, expected) = Estimate::of_values_with_expected(&measured, &expected, size.keys);
            Reading::new(exponent, estimate.with_error_of(Drawn::error(&models)), expected)
        });
        Readings::new(shown.name(), EXCESS, points)
    });
    Sheet::new(
        "How much estimates are too high",
        skew(),
        Axis::linear("estimate minus truth (occurrences, mean over keys)"),
        series,
    )
}

const EXCESS: &str = "the mean result of several simulations. Each simulation applies the same rounding rule to the \
same stream as the measured filter, but draws the positions of counters at random (after Cheng et al., section 3)";

fn ghosts_sheet(runs: &Runs) -> Sheet {
    // The extended storage has a filter in front of the counters that forgets. Its effect does not depend on the rule,
    // so it is shown only once.
    let shown = Shown::all().filter(|shown| shown.rule == 0 || STORAGES[shown.storage].0);
    let series = shown.map(|shown| {
        let points = over_exponents(|place, exponent| {
            let counts = shown.of(runs, place, |found| found.ghosts);
            if shown.rule == 0 {
                let expected = shown.of(runs, place, |found| found.ghosts_expected);
                let (estimate, expected) = Estimate::of_counts_with_expected(&counts, &expected);
                return Reading::new(exponent, estimate, expected);
            }
            let models = shown.of(runs, place, |found| found.expected.ghosts);
            let expected: Vec<f64> = models.iter().map(|drawn| drawn.mean).collect();
            let (estimate, expected) = Estimate::of_counts_with_expected(&counts, &expected);
            Reading::new(exponent, estimate.with_error_of(Drawn::error(&models)), expected)
        });
        Readings::new(shown.name(), GHOSTS[2 * shown.rule + shown.storage], points)
    });
    Sheet::new(
        "Keys never seen that have an estimate",
        skew(),
        Axis::log("estimate above zero (share of keys never seen)"),
        series,
    )
}

const GHOSTS: [&str; 3] = [
    "the probability that all counters of a key that never occurred are above zero. This probability is (1 - (1 - \
     1/m)^(kn))^k, where m is the number of counters, k is the number of hash functions, and n is the number of \
     different keys that have occurred (Cheng et al., equation 5)",
    "the probability for basic counters, multiplied by the false-positive rate of the filter BF_0. A query reads the \
     extended counters only if BF_0, which lies in front of them, finds the key. BF_0 has half the cells and half the \
     positions of the counters (Cheng et al., section 4)",
    "the probability u^k that all k counters of a key that never occurred are above zero, where u is the share of \
     counters that are not zero. Counters whose occurrences are old have returned to zero, so no formula gives u. It \
     is taken from a simulation of the same rule with randomly drawn positions",
];

fn low_sheet(runs: &Runs) -> Sheet {
    let series = Shown::all().map(|shown| {
        let points = over_exponents(|place, exponent| {
            let counts = shown.of(runs, place, |found| found.too_low);
            Reading::new(exponent, Estimate::of_counts(&counts), 0.0)
        });
        Readings::new(shown.name(), NONE_LOW[shown.rule], points)
    });
    Sheet::new(
        "Estimates below what the rounding allows",
        skew(),
        Axis::linear("keys whose estimate is too low (share)"),
        series,
    )
}

const NONE_LOW: [&str; 2] = [
    "0, because estimates are never too low if counters are rounded up (Cheng et al., Claim 1, corrected)",
    "0, because no estimate is below the true value by more than 2^-f / (1 - lambda^g). Counters have f fractional \
     bits, and are rounded down after every g epochs, where g is the greatest number with lambda^g >= 1/2",
];

fn left_sheet(runs: &Runs) -> Sheet {
    let left: Vec<Vec<f64>> = runs.iter().map(|(_, left)| left.clone()).collect();
    let series = RULES.iter().enumerate().map(|(rule, (_, name))| {
        Readings::new(
            format!("measured, {name}"),
            [
                "ceil(1 / (1 - lambda)) - 1. A counter that is rounded up never falls below this number, however many \
                 epochs pass",
                "0, because counters with fractional bits return to zero",
            ][rule],
            LAMBDAS.iter().enumerate().map(|(place, lambda)| {
                // The small difference makes 1 / (1 - 0.9) equal to 10, and not slightly more.
                let expected = if rule == 0 { (1.0 / (1.0 - lambda) - 1e-9).ceil() - 1.0 } else { 0.0 };
                Reading::new(*lambda, averaged(&left, rule * LAMBDAS.len() + place, 1), expected)
            }),
        )
    });
    Sheet::new(
        format!("What is left of {BURST} occurrences after {SILENCE_EPOCHS} silent epochs"),
        Axis::linear("decay per epoch (lambda)"),
        Axis::linear("estimate (occurrences)"),
        series,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Scale;
    use crate::stats::Judged;

    #[test]
    fn extensions_save_memory_and_fractions_forget() {
        let run = Run::alone(16, 4, Scale::Tiny);
        let document = EXPERIMENT.run(&run).unwrap();
        assert_eq!(document.count(Judged::Out), 0, "{document:#?}");
        let literal = &document.panels[0].series[0].points;
        assert!(literal[3].mean < 0.5, "{literal:?}");
        let left = &document.panels[4].series;
        assert_eq!((left[0].points[2].mean, left[1].points[2].mean), (9.0, 0.0));
    }

    #[test]
    fn times_are_ratios_where_the_clock_moves_and_left_out_where_it_stands() {
        let size = Size { events: 200, keys: 50, probes: 10 };
        // The clock advances by one nanosecond at each reading, so every task takes the same time.
        let now_ns = std::sync::atomic::AtomicU64::new(0);
        let clock_ns = || now_ns.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let moved = times::ratios(size, 1, &clock_ns).unwrap();
        assert_eq!(moved, Some(vec![1.0; EXPONENTS.len() * RULES.len() * 2]));
        assert_eq!(times::sheet(&[moved.clone(), moved], size).unwrap().series.len(), 4);
        let stood = times::ratios(size, 1, &|| 0).unwrap();
        assert!(stood.is_none() && times::sheet(&[stood], size).is_none());
    }
}
