//! Reproduces results of the slides on stable Bloom filters (S24, after Deng and Rafiei 2006). The experiment measures
//! the false-positive rate of the stable filter, the events that it forgets, and its F1 score compared with a Bloom
//! filter.
//!
//! The experiment uses production filters of both kinds.

mod grid;
mod urls;

use std::collections::HashSet;

use firstseen_filter::rates::stable;
use firstseen_filter::{FilterSpec, Kind, Tally, Window};

use self::grid::Scaled;
use self::urls::{Cells, Urls, tally_verdict};
use super::{parameter, s24};
use crate::document::{Axis, Reading, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::measure::{Subject, averaged_with_expected, distinct, pooled, shaped};
use crate::stats::Counts;
use crate::stream::{Event, Keys, StreamSpec};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "stable",
    title: "The stable filter: rate, forgetting, F1",
    paragraph: "A stable filter decrements P cells at every arrival. Its false-positive rate therefore stays the same \
                for streams of any length, but the filter forgets events. A Bloom filter of the same memory forgets \
                nothing and fills up, until it calls every event a duplicate. The F1 score of the duplicates found \
                falls for both filters as the stream grows. The stable filter is better if most arrivals are new and \
                repeats are recent. With more cells (m) it forgets later, and with more decrements (P) earlier. With \
                more positions (K) it has fewer false positives and forgets more.",
    reads_logs: None,
    measure,
};

const HASHES: std::ops::RangeInclusive<u32> = 2..=8;
/// Target rate of the slides.
const RATE: f64 = 0.05;
/// Value of P on the slides, rounded from 3.6 to 4.5.
const DECREMENTS: f64 = 4.0;
/// Gaps after which an event occurs again, in 64ths of the number of cells.
const GAPS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
const GAP_HASHES: u32 = 4;
/// Lengths of streams, in eighths of the number of cells.
const LENGTHS: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Share of new URLs in the stream. The other URLs repeat one of the last new ones, whose number is an eighth of the
/// number of cells.
const DISTINCT_SHARE: f64 = 0.8;
/// Filters that are compared, with their P.
const KINDS: [(&str, f64); 2] = [("stable", DECREMENTS), ("Bloom", 0.0)];

/// Returns the specification of a filter of `cells` bits with the given P, or with the P that follows from the rate.
fn spec(cells: u64, hashes: u32, decrements: Option<f64>, seed: u64) -> FilterSpec {
    FilterSpec {
        rate: RATE,
        stable_max: Some(1),
        stable_decrements: decrements,
        seed,
        ..shaped(Kind::Stable, Window::Unbounded, cells, hashes)
    }
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let cells = run.scale.pick(100_000, 25_000, 16_000);
    let scaled = Scaled(run.scale.pick(40, 400, 400));
    let clock_ns = run.clock_ns;
    let found = run.trials(|seed| {
        Ok(Found {
            rates: rates(cells, seed)?,
            missed: missed(cells, seed)?,
            scores: scores(cells, seed)?,
            on_grid: scaled.found(seed, clock_ns)?,
        })
    })?;
    let rates: Vec<_> = found.iter().map(|found| found.rates.clone()).collect();
    let missed: Vec<_> = found.iter().map(|found| found.missed.clone()).collect();
    let (scores, scores_expected): (Vec<Vec<f64>>, Vec<Vec<f64>>) =
        found.iter().map(|found| found.scores.iter().copied().unzip()).unzip();
    let on_grid: Vec<_> = found.into_iter().map(|found| found.on_grid).collect();
    Ok(Findings {
        source: s24("", "results for combinations of the number of cells (m), positions (K) and decrements (P)"),
        parameters: vec![
            parameter("cells (m), of 1 bit (Max = 1)", cells),
            parameter("requested rate", RATE),
            parameter("P of the slides", DECREMENTS),
            parameter("new events of the stream for F1 by length (share)", DISTINCT_SHARE),
            parameter("factor by which m on the slides is larger than in the grid", scaled.0),
            parameter("URLs of the grid's stream", scaled.events()),
            parameter("new URLs of the grid's stream (share)", grid::NEW_SHARE),
        ],
        sheets: [
            rate_sheet(cells, &rates)?,
            missed_sheet(cells, &missed),
            score_sheet(cells, &scores, &scores_expected),
        ]
        .into_iter()
        .chain(scaled.sheets(&on_grid))
        .collect(),
        notes: vec![
            "The slides state that P = 4 decrements per arrival give a false-positive rate of 5 % for every number K \
             of positions. With K = 4 positions, the rate is in fact 6.25 %."
                .to_owned(),
            "The filters of this experiment are smaller than those of the slides, but show the same results. The \
             false-positive rate depends only on K, P and Max, and forgetting depends only on the number of arrivals \
             divided by the number of cells."
                .to_owned(),
            scaled.note(),
        ],
    })
}

struct Found {
    rates: Vec<Counts>,
    missed: Vec<Counts>,
    /// F1 scores with their expected values.
    scores: Vec<(f64, f64)>,
    on_grid: grid::Found,
}

/// Counts the new events that are called duplicates when the filter has reached its stable point, for each number of
/// positions (K). There are two counts for each K: one with the number of decrements (P) that the slides use, and one
/// with the P that follows from the requested rate.
fn rates(cells: u64, seed: u64) -> Result<Vec<Counts>, EvalError> {
    let mut counts = Vec::new();
    for decrements in [Some(DECREMENTS), None] {
        for hashes in HASHES {
            let mut subject = Subject::new("stable", &spec(cells, hashes, decrements, seed), "none", seed)?;
            // A cell is decremented once in m/P arrivals, and set once in m/K. After eight times m/K arrivals, e^-8 of
            // the start is left.
            let warm = 8 * cells / u64::from(hashes);
            let mut stream = distinct(warm + 2 * cells, seed)?;
            subject.observe(stream.by_ref().take(warm as usize))?;
            counts.push(subject.observe(stream)?);
        }
    }
    Ok(counts)
}

fn rate_sheet(cells: u64, counts: &[Vec<Counts>]) -> Result<Sheet, EvalError> {
    let places = HASHES.count();
    let mut series = Vec::new();
    for (index, name) in ["measured, P = 4 (slides)", "measured, P by the formula for 5 %"].iter().enumerate() {
        let mut points = Vec::new();
        for (place, hashes) in HASHES.enumerate() {
            // The production code chooses P for the rate. The measurement shows whether the filter then has that rate.
            let expected = if index == 0 { stable::rate(cells as f64, hashes, DECREMENTS, 1) } else { RATE };
            let estimate = pooled(counts, index * places + place);
            points.push(Reading::new(f64::from(hashes), estimate, expected));
        }
        let formula = [
            "the false-positive rate of a filter of m cells that sets K cells to Max and decrements P cells for each \
             event. This rate is (1 - (1/(1 + 1/(P (1/K - 1/m))))^Max)^K (Deng and Rafiei 2006, theorem 2)",
            "the requested rate, because P is calculated from this rate",
        ][index];
        series.push(Readings::new(*name, formula, points));
    }
    Ok(Sheet::new(
        "False positives at the stable point, Max = 1",
        Axis::linear("hash functions (K)"),
        Axis::linear("distinct events called duplicates (share)"),
        series,
    ))
}

/// Number of events that are looked up together.
const STEP: u64 = 200;

/// Returns for each gap the events that arrived that long ago and are called new.
fn missed(cells: u64, seed: u64) -> Result<Vec<Counts>, EvalError> {
    let mut subject = Subject::new("stable", &spec(cells, GAP_HASHES, Some(DECREMENTS), seed), "none", seed)?;
    let events: Vec<Event> = distinct(8 * cells, seed)?.collect();
    let mut counts = vec![Counts::default(); GAPS.len()];
    let mut now = 4 * cells;
    subject.observe(events[..now as usize].iter().copied())?;
    while now + STEP <= 8 * cells {
        subject.observe(events[now as usize..(now + STEP) as usize].iter().copied())?;
        now += STEP;
        for (gap, counts) in GAPS.iter().zip(&mut counts) {
            // Half of the events arrived slightly more than the gap ago, and half slightly less.
            let start = (now - gap * cells / 64 - STEP / 2) as usize;
            let found = subject.look_up(events[start..start + STEP as usize].iter().copied())?;
            counts.successes += found.trials - found.successes;
            counts.trials += found.trials;
        }
    }
    Ok(counts)
}

/// Returns the probability that an event is forgotten after `gap` arrivals, for Max = 1.
///
/// In the long run, a cell is set with the stable probability `pi = 1 - 1/(1 + 1/(P (1/K - 1/m)))`. Later arrivals
/// overwrite a cell that an event has set, at the rate `(K + P)/m` per arrival. After g arrivals, the cell is therefore
/// still set with the probability `pi + (1 - pi) e^(-(K + P) g/m)`. The filter has forgotten the event if at least one
/// of its K cells is no longer set.
fn forgotten(cells: f64, gap: f64) -> f64 {
    let taken = stable::rate(cells, GAP_HASHES, DECREMENTS, 1).powf(1.0 / f64::from(GAP_HASHES));
    let faded = (-(f64::from(GAP_HASHES) + DECREMENTS) * gap / cells).exp();
    1.0 - (taken + (1.0 - taken) * faded).powi(GAP_HASHES as i32)
}

/// Returns the probability that an event is forgotten, averaged over [`STEP`] consecutive events that are looked up
/// together. The more arrivals have followed an event, the more likely it is forgotten. The first of these events has
/// been followed by the most arrivals, and each next event by one arrival fewer. `gap` determines the number of
/// arrivals for the event in the middle.
fn forgotten_of_step(cells: u64, gap: u64) -> f64 {
    let longest = gap * cells / 64 + STEP / 2 - 1;
    (0..STEP).map(|later| forgotten(cells as f64, (longest - later) as f64)).sum::<f64>() / STEP as f64
}

fn missed_sheet(cells: u64, counts: &[Vec<Counts>]) -> Sheet {
    let points = GAPS
        .iter()
        .enumerate()
        .map(|(place, gap)| Reading::new(*gap as f64 / 64.0, pooled(counts, place), forgotten_of_step(cells, *gap)));
    Sheet::new(
        "Duplicates missed, by the time since they came (K = 4, P = 4)",
        Axis::linear("arrivals since (in cells, g/m)"),
        Axis::linear("false negatives (share)"),
        vec![Readings::new(
            "measured, stable",
            "the probability that a filter of m cells has forgotten an event that arrived g arrivals ago. This \
             probability is 1 - (pi + (1 - pi) e^(-(K+P) g/m))^K, where pi is the share of set cells. It is averaged \
             over the events that are looked up together",
            points,
        )],
    )
}

/// Returns the F1 scores of the stable and then of the Bloom filter by the length of the stream, each with its expected
/// value.
fn scores(cells: u64, seed: u64) -> Result<Vec<(f64, f64)>, EvalError> {
    let keys = Keys::Repeats { distinct_share: DISTINCT_SHARE, recent_keys: cells / 8 };
    let events: Vec<Event> = StreamSpec::new(lengths(cells, LENGTHS.len() - 1), keys).events(seed)?.collect();
    let mut scores = Vec::new();
    for (_, decrements) in KINDS {
        let of = Cells { cells, hashes: GAP_HASHES, decrements };
        let mut subject = of.subject(seed)?;
        let mut stream = events.iter().copied();
        let mut seen = HashSet::new();
        let mut tally = Tally::default();
        let mut asked = 0;
        for index in 0..LENGTHS.len() {
            let more = (lengths(cells, index) - asked) as usize;
            asked = lengths(cells, index);
            subject.observe_each(stream.by_ref().take(more), |event, is_duplicate| {
                tally_verdict(&mut tally, seen.insert(event.key), is_duplicate);
            })?;
            scores.push((tally.f1(), Urls::of(events[..asked as usize].to_vec()).expected(of).f1));
        }
    }
    Ok(scores)
}

fn lengths(cells: u64, index: usize) -> u64 {
    LENGTHS[index] * cells / 8
}

fn score_sheet(cells: u64, scores: &[Vec<f64>], expected: &[Vec<f64>]) -> Sheet {
    let series = KINDS.iter().enumerate().map(|(index, (name, _))| {
        Readings::new(
            format!("measured, {name}"),
            urls::FORMULA,
            (0..LENGTHS.len()).map(|place| {
                let events = lengths(cells, place);
                averaged_with_expected(scores, expected, index * LENGTHS.len() + place, events)
                    .at(events as f64 / cells as f64)
            }),
        )
    });
    Sheet::new(
        "F1 against the length of the stream, same memory (K = 4)",
        Axis::log("events (in cells, n/m)"),
        Axis::linear("F1 of duplicates"),
        series,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Scale;
    use crate::stats::Judged;

    #[test]
    fn the_stable_filter_is_ahead_on_urls_and_both_errors_are_as_their_gaps_have_it() {
        let document = EXPERIMENT.run(&Run::alone(18, 4, Scale::Tiny)).unwrap();
        assert_eq!(document.count(Judged::Out), 0, "{:?}", document.out().collect::<Vec<_>>());
        let panel = |title: &str| document.panels.iter().find(|panel| panel.title.starts_with(title)).unwrap();
        let means = |title: &str, series: usize| -> Vec<f64> {
            panel(title).series[series].points.iter().map(|point| point.mean).collect()
        };
        for title in ["URLs: F1 against m", "URLs: F1 against K"] {
            let ahead = means(title, 0).into_iter().zip(means(title, 1)).all(|(stable, bloom)| stable > 1.5 * bloom);
            assert!(ahead, "{title}");
        }
        assert!(means("URLs: F1 against m", 0).is_sorted() && means("URLs: F1 against K", 0).is_sorted());
        // More decrements cause fewer false positives and more false negatives. The F1 score is best in between.
        let errors = "URLs: both errors against P";
        assert!(means(errors, 0).is_sorted_by(|a, b| a > b) && means(errors, 2).is_sorted(), "{errors}");
        let f1 = means("URLs: F1 against P", 0);
        assert!(f1[4] > f1[3] && f1[4] > f1[5], "{f1:?}");
        assert!(document.panels.iter().all(|panel| !panel.title.contains("Time")), "the clock stood still");
    }

    #[test]
    fn times_are_shown_where_the_clock_moves() {
        // The clock advances by one millisecond at each reading.
        let now_ms = std::sync::atomic::AtomicU64::new(0);
        let clock_ns = || 1_000_000 * now_ms.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let found = [1, 2].map(|seed| Scaled(4_000).found(seed, &clock_ns).unwrap());
        let sheets = Scaled(4_000).sheets(&found);
        let [.., seconds, ratios] = &sheets[..] else { panic!("no sheets") };
        assert!(seconds.title.contains("Time") && ratios.series[0].points[3].printed.is_some());
        let values = || [seconds, ratios].into_iter().flat_map(|sheet| &sheet.series).flat_map(|series| &series.points);
        assert!(values().all(|point| point.estimate.mean > 0.0));
    }
}
