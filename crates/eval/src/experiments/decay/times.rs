//! Measures the time to build and to query extended counters, as a multiple of the time with basic counters (Cheng et
//! al., section 5).
//!
//! The experiment measures extended and basic counters alternately over the same stream, so that other load on the
//! machine affects both. The clock of a run can be fixed, as it is in tests. In that case there is nothing to measure,
//! and the experiment shows no times.

use firstseen_filter::{DecayRule, DecayingFilter};

use super::{EPOCHS, EXPONENTS, RULES, Size, Stream, Way, over_exponents, shape, skew};
use crate::document::{Axis, Line, Reading, Readings, Sheet};
use crate::experiment::EvalError;
use crate::measure::{Clock, averaged, timed};

/// Number of turns of each storage.
const TURNS: usize = 6;
/// Factor by which the timed filters have fewer events and keys.
const FEWER: u64 = 4;
const TASKS: [&str; 2] = ["to build", "to ask"];
/// Printed statement of the paper: "The creation time of basic TBF is 10% faster than optimized TBF, but the query time
/// seems to be the same level."
const PRINTED: [(&str, f64); 2] = [("the paper, to build: 10 % slower", 1.1), ("the paper, to ask: alike", 1.0)];

/// Performs one run, and returns ratios of times for every exponent and rounding rule. There is one ratio for building
/// a filter and one for querying it. Each ratio is the time of extended counters, divided by the time of basic
/// counters. Returns `None` if no time has passed, because the clock of the run is fixed.
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
    // Times by storage and task. Other load on the machine only adds to a time, so the smallest time of all turns is
    // used.
    let mut least_ns = [[u64::MAX; TASKS.len()]; 2];
    for turn in 0..TURNS {
        // The second storage may find warm caches, so the storages alternate in this respect as well.
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

/// Returns the time to build a filter from the stream, and the time to query it about every event, in nanoseconds.
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

/// Returns the panel, if all runs have times.
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
    let y = Axis::linear("time (multiple of that of basic counters)");
    Some(Sheet::new("Time of extended counters, of that of 16 bits each", skew(), y, series).with_lines(lines.to_vec()))
}

/// Returns the note about times.
pub(super) fn note() -> String {
    format!(
        "Times are not judged, because they depend on the machine. Each ratio compares the shortest times of {TURNS} \
         turns of one run. In each turn both storages are built from a stream of 1/{FEWER} of the events and keys, \
         over {EPOCHS} epochs, and are then queried for every event. Reading a basic counter is one load from the \
         cache, so the test of BF_0 and the chain of digits of an extended counter are expensive in comparison. Cheng \
         et al. do not say how large their filters were."
    )
}
