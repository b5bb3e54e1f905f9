//! C05 5: the time to build and to ask extended counters, as a multiple of that with basic ones.
//!
//! Promises: both storages are timed in turns over the same stream, so that other load of the machine falls on both;
//! where the clock stands still no time is shown. Must not know: what the counters hold.

use firstseen_filter::{DecayRule, DecayingFilter};

use super::{EPOCHS, EXPONENTS, RULES, Size, Stream, Way, over_exponents, shape, skew};
use crate::document::{Axis, Line, Reading, Readings, Sheet};
use crate::experiment::EvalError;
use crate::measure::{Clock, averaged, timed};

/// Turns of either storage.
const TURNS: usize = 6;
/// The timed filters have so many times fewer events and keys.
const FEWER: u64 = 4;
const TASKS: [&str; 2] = ["to build", "to ask"];
/// "The creation time of basic TBF is 10% faster than optimized TBF, but the query time seems to be the same level."
const PRINTED: [(&str, f64); 2] = [("the paper, to build: 10 % slower", 1.1), ("the paper, to ask: alike", 1.0)];

/// One run: for every exponent and rule, how many times as long extended counters take to build, and to ask; none where
/// the clock does not move.
pub(super) fn ratios(size: Size, seed: u64, clock_ns: Clock<'_>) -> Result<Option<Vec<f64>>, EvalError> {
    let size = Size { events: size.events / FEWER, keys: size.keys / FEWER, ..size };
    let mut all = Vec::new();
    for exponent in EXPONENTS {
        let stream = Stream::of(size, exponent, seed)?;
        for (rule, _) in RULES {
            let Some(ratios) = ratios_of(size, &stream, rule, clock_ns)? else { return Ok(None) };
            all.extend(ratios);
        }
    }
    Ok(Some(all))
}

fn ratios_of(size: Size, stream: &Stream, rule: DecayRule, clock_ns: Clock<'_>) -> Result<Option<[f64; 2]>, EvalError> {
    // By storage and task. Other load of the machine only adds to a time, so the least of all turns is kept.
    let mut least_ns = [[u64::MAX; TASKS.len()]; 2];
    for turn in 0..TURNS {
        // The second storage may find the caches warm, so the storages take turns at that as well.
        let is_basic_first = turn % 2 == 0;
        for is_basic in [is_basic_first, !is_basic_first] {
            let took_ns = took_ns(size, stream, Way { rule, is_basic }, clock_ns)?;
            let least_ns = &mut least_ns[usize::from(is_basic)];
            *least_ns = std::array::from_fn(|task| least_ns[task].min(took_ns[task]));
        }
    }
    let [extended_ns, basic_ns] = least_ns;
    let is_timed = basic_ns.iter().all(|ns| *ns > 0);
    Ok(is_timed.then(|| std::array::from_fn(|task| extended_ns[task] as f64 / basic_ns[task] as f64)))
}

/// Nanoseconds to build a filter from the stream, and to ask it about every event.
fn took_ns(size: Size, stream: &Stream, way: Way, clock_ns: Clock<'_>) -> Result<[u64; 2], EvalError> {
    let shape = shape(way, size.keys)?;
    let mut estimates = vec![0.0; stream.digests.len()];
    let (filter, build_ns) = timed(clock_ns, || -> Result<_, EvalError> {
        let mut filter = DecayingFilter::new(shape)?;
        filter.observe_batch(&stream.digests, &stream.stamps, &mut estimates);
        Ok(filter)
    });
    let filter = filter?;
    let ((), ask_ns) = timed(clock_ns, || filter.estimate_batch(&stream.digests, &stream.stamps, &mut estimates));
    Ok([build_ns, ask_ns])
}

/// The panel, where all runs have times.
pub(super) fn sheet(runs: &[Option<Vec<f64>>], size: Size) -> Option<Sheet> {
    let runs: Vec<Vec<f64>> = runs.iter().cloned().collect::<Option<_>>()?;
    let mut series = Vec::new();
    for (task, task_name) in TASKS.iter().enumerate() {
        for (rule, (_, name)) in RULES.iter().enumerate() {
            let points = over_exponents(|place, exponent| {
                let at = (place * RULES.len() + rule) * TASKS.len() + task;
                Reading::unjudged(exponent, averaged(&runs, at, TURNS as u64 * size.events / FEWER))
            });
            series.push(Readings::unjudged(format!("measured, {task_name}, {name}"), points));
        }
    }
    let lines = PRINTED.map(|(name, ratio)| Line {
        name: name.to_owned(),
        points: EXPONENTS.map(|exponent| (exponent, ratio)).to_vec(),
    });
    let y = Axis::linear("time (times that of the basic ones)");
    Some(Sheet::new("Time of extended counters, of that of 16 bits each", skew(), y, series).with_lines(lines.to_vec()))
}

/// The note about times, where there are any.
pub(super) fn note() -> String {
    format!(
        "Times are not judged: they depend on the machine. A ratio is that of the least times of {TURNS} turns of one run, in \
         which either storage is built from a stream of 1/{FEWER} of the events and keys, over {EPOCHS} epochs, and then asked \
         about every event. A basic counter is one load from the cache here, beside which the test of BF_0 and the chain \
         of digits are dear; the paper does not say how large its filters were."
    )
}
