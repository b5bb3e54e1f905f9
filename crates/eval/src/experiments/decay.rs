//! C05 5: decaying frequencies with basic and with extended counters: memory, time, errors by skew, and what each
//! rounding leaves.
//!
//! Promises: production counters, beside exact decayed frequencies. Must not know: how counters are kept.

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
use crate::document::{Axis, Line, Reading, Readings, Sheet, Source};
use crate::drawn::Drawn;
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::measure::{averaged, averaged_beside, count, pooled, pooled_beside, unseen};
use crate::stats::{Counts, Estimate};
use crate::stream::{Event, Keys, StreamSpec};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "decay",
    title: "Decaying frequencies: memory, time, errors, rounding",
    paragraph: "Counters estimate how often a key came, where an occurrence counts less with every epoch. Most counters stay small, so \
                four bits each, and extensions from a common pool for those that need more, take about a third of 16 bits each. \
                Estimates are never too low by the paper's rounding up, but then counters never return \
                to zero: a key that was seen once is never forgotten. Counters with fractional bits (our remedy) are too low \
                by less than an occurrence at most, forget, and take nearly twice as much.",
    reads_logs: None,
    measure,
};

const LAMBDA: f64 = 0.9;
const EPOCHS: u64 = 60;
const LAST_EPOCH: UnitNumber = UnitNumber(EPOCHS - 1);
const EXPONENTS: [f64; 5] = [0.0, 0.5, 0.8, 1.0, 1.2];
/// Chance that a key never seen has an estimate above zero, if all keys have come.
const RATE: f64 = 0.01;
const STORAGES: [(bool, &str); 2] = [(true, "basic, 16 bits"), (false, "extended")];
const RULES: [(DecayRule, &str); 2] = [
    (DecayRule::Literal { lambda: LAMBDA }, "the paper's rounding"),
    (DecayRule::Lasting { lambda: LAMBDA, fraction_bits: 4 }, "fractional bits"),
];
const LAMBDAS: [f64; 4] = [0.5, 0.8, 0.9, 0.99];
/// Occurrences of a key that does not come again.
const BURST: usize = 2_000;
/// Epochs after which nothing is left of them with any decay above: `2000 * 0.99^3000 < 1e-9`.
const SILENCE_EPOCHS: u64 = 3_000;

/// Sizes of a run.
#[derive(Clone, Copy)]
struct Size {
    events: u64,
    keys: u64,
    probes: u64,
}

/// The errors of one rule and storage over a stream.
#[derive(Clone, Copy)]
struct Found {
    bytes: f64,
    /// Keys whose estimate is too low by more than the rule allows.
    too_low: Counts,
    /// Estimate less truth, mean over keys, and its expected value by the rule.
    excess: f64,
    /// Keys never seen that have an estimate above zero, and their expected number by the formula for keys that are
    /// never forgotten.
    ghosts: Counts,
    ghosts_expected: f64,
    /// The expected values for the stream.
    expected: Expected,
}

fn shape(rule: DecayRule, is_basic: bool, keys: u64) -> Result<DecayingShape, EvalError> {
    let epoch = Window::Duration(1);
    let lambda = rule.lambda();
    let spec =
        FrequencySpec { rule, capacity_keys: keys, rate: RATE, basic: is_basic, ..FrequencySpec::new(epoch, lambda) };
    match spec.resolve()?.cells {
        CellDefinition::Decaying(DecayingCells { shape }) => Ok(shape),
        other => Err(EvalError::Answer { experiment: "decay", answer: format!("{:?}", other.kind()) }),
    }
}

/// A stream that runs through all epochs.
struct Stream {
    secret: FilterSecret,
    digests: Vec<Digest>,
    /// The epoch of each event.
    stamps: Vec<Stamp>,
    keys: Vec<u64>,
    /// The exact decayed frequency of every key at the last epoch.
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

fn found(
    size: Size,
    stream: &Stream,
    (rule, is_basic): (DecayRule, bool),
    expected: Expected,
    seed: u64,
) -> Result<Found, EvalError> {
    let shape = shape(rule, is_basic, size.keys)?;
    let mut filter = DecayingFilter::new(shape)?;
    filter.observe_batch(&stream.digests, &stream.stamps, &mut vec![0.0; stream.digests.len()]);
    let digest = |key| digest(&stream.secret, key);
    let (mut too_low, mut excess) = (Counts::default(), 0.0);
    for (key, truth) in &stream.truths {
        let estimate = filter.estimate(digest(*key), LAST_EPOCH);
        // Sums of powers are exact up to some 1e-12 of an occurrence.
        count(&mut too_low, estimate < truth - counted::loss_max(rule) - 1e-9);
        excess += estimate - truth;
    }
    let mut ghosts = Counts::default();
    for event in unseen(size.probes, seed)? {
        count(&mut ghosts, filter.estimate(digest(event.key), LAST_EPOCH) > 0.0);
    }
    let keys = stream.truths.len() as f64;
    Ok(Found {
        bytes: filter.touched_bytes() as f64,
        too_low,
        excess: excess / keys,
        ghosts,
        ghosts_expected: ghosts_expected(&shape, is_basic, keys),
        expected,
    })
}

/// `(1 - (1 - 1/m)^(kn))^k` of the counters (C05 eq. 5), times that of BF_0, which has half the cells and positions.
fn ghosts_expected(shape: &DecayingShape, is_basic: bool, keys: f64) -> f64 {
    let counters = plain::rate(shape.cells as f64, shape.hashes, keys);
    let known = plain::rate(shape.cells.div_ceil(2) as f64, shape.hashes.div_ceil(2), keys);
    if is_basic { counters } else { counters * known }
}

/// The estimate, after so many epochs, of a key that came [`BURST`] times.
fn left_over(rule: DecayRule, after_epochs: u64, seed: u64) -> Result<f64, EvalError> {
    let mut filter = DecayingFilter::new(shape(rule, false, 1_000)?)?;
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

/// One run: for every exponent, rule and storage; then what is left of a burst by rule and decay.
fn run_once(size: Size, seed: u64) -> Result<(Vec<Found>, Vec<f64>), EvalError> {
    let mut all = Vec::new();
    for exponent in EXPONENTS {
        let stream = Stream::of(size, exponent, seed)?;
        for (rule, _) in RULES {
            let DecayingShape { cells, hashes, .. } = shape(rule, true, size.keys)?;
            let expected = counted::expected(rule, (cells, hashes), &stream.keys, &stream.truths, !seed);
            for (is_basic, _) in STORAGES {
                all.push(found(size, &stream, (rule, is_basic), expected, seed)?);
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
    Ok(Findings {
        source: Source {
            paper: "Cheng, Iwaihara, Xiang, Ushijima: Efficient Web Profiling by Time-Decaying Bloom Filters (C05)"
                .to_owned(),
            section: "3, 4 and 5".to_owned(),
            figure: "numbers in the text of 5".to_owned(),
        },
        parameters: vec![
            parameter("events", size.events),
            parameter("keys (Zipf)", size.keys),
            parameter("epochs", EPOCHS),
            parameter("decay an epoch (lambda)", LAMBDA),
            parameter("cells (m)", shape(RULES[0].0, true, size.keys)?.cells),
            parameter("hash functions (k)", shape(RULES[0].0, true, size.keys)?.hashes),
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
    "Claim 1 of the paper is printed the wrong way round (its proof shows that estimates are never too low), and holds only if \
     counters are rounded up, not down or to the nearest. The factor 1 - lambda of its query belongs to a normalised average \
     and is left out.",
    "Rounded up, a counter sticks at ceil(1 / (1 - lambda)) - 1 and never returns to zero: 9 at 0.9, 99 at 0.99. On an endless \
     stream estimates keep that floor, and are too high by some occurrences even where few keys meet in a counter. Counters with 4 fractional bits are too low by at \
     most 3.5 sixteenths of an occurrence, and forget.",
    "\"A factor of 3\" in memory is that of the paper's rounding, at every skew; the table of extensions and BF_0 are counted \
     here. Fractional bits need 8 bits a counter.",
];

fn case(exponent: usize, rule: usize, storage: usize) -> usize {
    (exponent * RULES.len() + rule) * STORAGES.len() + storage
}

fn over_exponents(name: String, formula: Option<&str>, point: impl Fn(usize) -> (Estimate, Option<f64>)) -> Readings {
    let reading = |(place, exponent): (usize, &f64)| {
        let (estimate, expected) = point(place);
        Reading { x: *exponent, estimate, expected, printed: None }
    };
    let points = EXPONENTS.iter().enumerate().map(reading).collect();
    Readings { name, formula: formula.map(str::to_owned), points }
}

fn values(runs: &Runs, number: impl Fn(&[Found]) -> f64, samples: u64) -> Estimate {
    Estimate::of_values(&runs.iter().map(|(found, _)| number(found)).collect::<Vec<_>>(), samples)
}

fn skew() -> Axis {
    Axis::linear("skew of the keys (Zipf's exponent)")
}

fn memory_sheet(runs: &Runs, size: Size) -> Sheet {
    let series = RULES.iter().enumerate().map(|(rule, (_, name))| {
        let ratio = |found: &[Found], place| found[case(place, rule, 1)].bytes / found[case(place, rule, 0)].bytes;
        over_exponents(format!("measured, {name}"), None, |place| {
            (values(runs, |found| ratio(found, place), size.keys), None)
        })
    });
    let third = EXPONENTS.map(|exponent| (exponent, 1.0 / 3.0)).to_vec();
    Sheet {
        title: "Memory of extended counters, of that of 16 bits each".to_owned(),
        x: skew(),
        y: Axis::linear("memory (share of the basic one)"),
        series: series.collect(),
        lines: vec![Line { name: "the paper: a third".to_owned(), points: third }],
    }
}

/// Every rule in every storage: their places in the list of cases of an exponent, and their names.
fn ways() -> impl Iterator<Item = ((usize, usize), String)> {
    let of_rule = |(rule, (_, name)): (usize, &'static (DecayRule, &str))| {
        STORAGES
            .iter()
            .enumerate()
            .map(move |(storage, (_, kept))| ((rule, storage), format!("measured, {name}, {kept}")))
    };
    RULES.iter().enumerate().flat_map(of_rule)
}

fn excess_sheet(runs: &Runs, size: Size) -> Sheet {
    let series = ways().map(|((rule, storage), name)| {
        over_exponents(name, Some(EXCESS), |place| {
            let of = |found: &[Found]| found[case(place, rule, storage)];
            let measured: Vec<_> = runs.iter().map(|(found, _)| vec![of(found).excess]).collect();
            let models: Vec<_> = runs.iter().map(|(found, _)| of(found).expected.excess).collect();
            let expected: Vec<_> = models.iter().map(|drawn| vec![drawn.mean]).collect();
            let (estimate, expected) = averaged_beside(&measured, &expected, 0, size.keys);
            (estimate.with_error_of(Drawn::error(&models)), expected)
        })
    });
    Sheet {
        title: "How much estimates are too high".to_owned(),
        x: skew(),
        y: Axis::linear("estimate less truth (occurrences, mean over keys)"),
        series: series.collect(),
        lines: Vec::new(),
    }
}

const EXCESS: &str = "mean over draws: the same rule over counters whose places are drawn, of the same stream (C05 3)";

fn counts(runs: &Runs, place: usize, number: impl Fn(&Found) -> Counts) -> Vec<Vec<Counts>> {
    runs.iter().map(|(found, _)| vec![number(&found[place])]).collect()
}

fn ghosts_sheet(runs: &Runs) -> Sheet {
    let of_way = |((rule, storage), name): ((usize, usize), String)| {
        over_exponents(name, Some(GHOSTS[2 * rule + storage]), |place| {
            let at = case(place, rule, storage);
            let models: Vec<_> = runs.iter().map(|(found, _)| found[at].expected.ghosts).collect();
            let rate =
                |(found, drawn): (&Found, &Drawn)| vec![if rule == 0 { found.ghosts_expected } else { drawn.mean }];
            let expected: Vec<_> = runs.iter().map(|(found, _)| &found[at]).zip(&models).map(rate).collect();
            let (estimate, expected) = pooled_beside(&counts(runs, at, |found| found.ghosts), &expected, 0);
            (if rule == 0 { estimate } else { estimate.with_error_of(Drawn::error(&models)) }, expected)
        })
    };
    // Extended storage has a filter in front that forgets: its effect is not one of the rule, so it is shown once.
    let shown = ways().filter(|((rule, storage), _)| *rule == 0 || STORAGES[*storage].0);
    Sheet {
        title: "Keys never seen that have an estimate".to_owned(),
        x: skew(),
        y: Axis::log("estimate above zero (share of keys never seen)"),
        series: shown.map(of_way).collect(),
        lines: Vec::new(),
    }
}

const GHOSTS: [&str; 3] = [
    "(1 - (1 - 1/m)^(kn))^k at the n keys that came (C05 eq. 5)",
    "the same, times that of BF_0, with half the cells and positions (C05 4)",
    "u^k, u the counters in use, of which the oldest have returned to zero: the same rule over drawn places",
];

fn low_sheet(runs: &Runs) -> Sheet {
    let series = ways().map(|((rule, storage), name)| {
        over_exponents(name, Some(NONE_LOW[rule]), |place| {
            (pooled(&counts(runs, case(place, rule, storage), |found| found.too_low), 0), Some(0.0))
        })
    });
    Sheet {
        title: "Estimates below what the rounding allows".to_owned(),
        x: skew(),
        y: Axis::linear("keys whose estimate is too low (share)"),
        series: series.collect(),
        lines: Vec::new(),
    }
}

const NONE_LOW: [&str; 2] = [
    "none (C05, Claim 1, the other way round)",
    "none by 2^-f / (1 - lambda^g), f fractional bits that are rounded down after every g epochs, lambda^g >= 1/2",
];

fn left_sheet(runs: &Runs) -> Sheet {
    let left: Vec<Vec<f64>> = runs.iter().map(|(_, left)| left.clone()).collect();
    let series = RULES.iter().enumerate().map(|(rule, (_, name))| Readings {
        name: format!("measured, {name}"),
        formula: Some(["ceil(1 / (1 - lambda)) - 1, for ever", "zero"][rule].to_owned()),
        points: LAMBDAS
            .iter()
            .enumerate()
            .map(|(place, lambda)| Reading {
                x: *lambda,
                estimate: averaged(&left, rule * LAMBDAS.len() + place, 1),
                // A hair less, so that 1 / (1 - 0.9) is 10 and not a little above.
                expected: Some(if rule == 0 { (1.0 / (1.0 - lambda) - 1e-9).ceil() - 1.0 } else { 0.0 }),
                printed: None,
            })
            .collect(),
    });
    Sheet {
        title: format!("What is left of {BURST} occurrences after {SILENCE_EPOCHS} silent epochs"),
        x: Axis::linear("decay an epoch (lambda)"),
        y: Axis::linear("estimate (occurrences)"),
        series: series.collect(),
        lines: Vec::new(),
    }
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
        // Every look at the clock is a nanosecond later: all tasks take one.
        let now_ns = std::sync::atomic::AtomicU64::new(0);
        let clock_ns = || now_ns.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let moved = times::ratios(size, 1, &clock_ns).unwrap();
        assert_eq!(moved, Some(vec![1.0; EXPONENTS.len() * RULES.len() * 2]));
        assert_eq!(times::sheet(&[moved.clone(), moved], size).unwrap().series.len(), 4);
        let stood = times::ratios(size, 1, &|| 0).unwrap();
        assert!(stood.is_none() && times::sheet(&[stood], size).is_none());
    }
}
