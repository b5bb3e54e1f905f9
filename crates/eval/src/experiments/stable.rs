//! S24 (after Deng and Rafiei 2006): the stable filter, its rate, what it forgets, and F1 beside a Bloom filter's.
//!
//! Promises: production cells of both kinds. Must not know: windows.

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
use crate::measure::{Subject, averaged_beside, distinct, pooled, shaped};
use crate::stats::Counts;
use crate::stream::{Event, Keys, StreamSpec};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "stable",
    title: "The stable filter: rate, forgetting, F1",
    paragraph: "A stable filter decrements P cells at every arrival, so its rate of false positives stays where it is however long \
                the stream; the price is that it forgets. A Bloom filter of the same memory forgets nothing and fills up, until it \
                calls everything a duplicate. F1, of the duplicates found, falls for both as the stream grows; the stable filter is \
                the better one when most arrivals are new and repeats are recent. More cells (m) make it forget later, more \
                decrements (P) earlier; more positions (K) make it err less on new ones and forget more.",
    reads_logs: None,
    measure,
};

const HASHES: std::ops::RangeInclusive<u32> = 2..=8;
/// The rate that the slides ask for.
const RATE: f64 = 0.05;
/// P of the slides, rounded from 3.6 to 4.5.
const DECREMENTS: f64 = 4.0;
/// Gaps after which an event comes again, in 64ths of the cells.
const GAPS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
const GAP_HASHES: u32 = 4;
/// Stream lengths, in eighths of the cells.
const LENGTHS: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// The share of new URLs in the stream; the others repeat one of the last new ones, an eighth as many as there are
/// cells.
const DISTINCT_SHARE: f64 = 0.8;
/// The filters that are compared, with their P.
const KINDS: [(&str, f64); 2] = [("stable", DECREMENTS), ("Bloom", 0.0)];

/// A filter of `cells` bits with this P, or with the P for the rate.
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
        source: s24("after Deng and Rafiei, Stable Bloom filters, 2006", "grid of m, K, P"),
        parameters: vec![
            parameter("cells (m), of 1 bit (Max = 1)", cells),
            parameter("rate asked for", RATE),
            parameter("P of the slides", DECREMENTS),
            parameter("new events of the stream for F1 by length (share)", DISTINCT_SHARE),
            parameter("the slides' m is so many times larger than the grid's", scaled.0),
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
            "The slides take P = 4 for 5 % at every K; with K = 4 that really is 6.25 %.".to_owned(),
            "Rates depend on K, P and Max, and forgetting on the gap in cells, so smaller filters show the same."
                .to_owned(),
            scaled.note(),
        ],
    })
}

struct Found {
    rates: Vec<Counts>,
    missed: Vec<Counts>,
    /// F1, and its expected value.
    scores: Vec<(f64, f64)>,
    on_grid: grid::Found,
}

/// At the stable point, by K: new events that are called duplicates, with P of the slides and with P of the rate.
fn rates(cells: u64, seed: u64) -> Result<Vec<Counts>, EvalError> {
    let mut counts = Vec::new();
    for decrements in [Some(DECREMENTS), None] {
        for hashes in HASHES {
            let mut subject = Subject::new("stable", &spec(cells, hashes, decrements, seed), "none", seed)?;
            // A cell is decremented once in m/P arrivals, and set once in m/K: eight of the latter leave e^-8 of the start.
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
            // Production chooses P for the rate: the measurement shows whether the filter then has that rate.
            let expected = if index == 0 { stable::rate(cells as f64, hashes, DECREMENTS, 1) } else { RATE };
            let estimate = pooled(counts, index * places + place);
            points.push(Reading::new(f64::from(hashes), estimate, expected));
        }
        let formula =
            ["(1 - (1/(1 + 1/(P (1/K - 1/m))))^Max)^K (Deng and Rafiei 2006, theorem 2)", "as asked for"][index];
        series.push(Readings::new(*name, formula, points));
    }
    Ok(Sheet::new(
        "False positives at the stable point, Max = 1",
        Axis::linear("hash functions (K)"),
        Axis::linear("distinct events called duplicates (share)"),
        series,
    ))
}

/// Events that are looked up together.
const STEP: u64 = 200;

/// By gap: events that came so long ago and are called new.
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
            // Half of them came a little more than the gap ago, half a little less.
            let start = (now - gap * cells / 64 - STEP / 2) as usize;
            let found = subject.look_up(events[start..start + STEP as usize].iter().copied())?;
            counts.successes += found.trials - found.successes;
            counts.trials += found.trials;
        }
    }
    Ok(counts)
}

/// The chance that an event is forgotten after `gap` arrivals, for Max = 1. A cell is taken with the stable chance
/// `pi = 1 - 1/(1 + 1/(P (1/K - 1/m)))`, and forgets where it started at the rate `(K + P)/m` an arrival, so it is still
/// set with chance `pi + (1 - pi) e^(-(K + P) g/m)`; forgotten is the event if any of its K cells is not.
fn forgotten(cells: f64, gap: f64) -> f64 {
    let taken = stable::rate(cells, GAP_HASHES, DECREMENTS, 1).powf(1.0 / f64::from(GAP_HASHES));
    let faded = (-(f64::from(GAP_HASHES) + DECREMENTS) * gap / cells).exp();
    1.0 - (taken + (1.0 - taken) * faded).powi(GAP_HASHES as i32)
}

/// The mean over events that are looked up together: the first came the gap and half a [`STEP`] ago, each other one an
/// arrival later; the chance of each depends on the arrivals since its own.
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
            "1 - (pi + (1 - pi) e^(-(K+P) g/m))^K, pi the share of cells that are set; mean over the gaps of those \
                 that are looked up together",
            points,
        )],
    )
}

/// F1 of the stable, then of the Bloom filter, by length of the stream; and its expected value.
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
                averaged_beside(scores, expected, index * LENGTHS.len() + place, events)
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
        // More decrements: fewer false positives and more false negatives; F1 is best in between.
        let errors = "URLs: both errors against P";
        assert!(means(errors, 0).is_sorted_by(|a, b| a > b) && means(errors, 2).is_sorted(), "{errors}");
        let f1 = means("URLs: F1 against P", 0);
        assert!(f1[4] > f1[3] && f1[4] > f1[5], "{f1:?}");
        assert!(document.panels.iter().all(|panel| !panel.title.contains("Time")), "the clock stood still");
    }

    #[test]
    fn times_are_shown_where_the_clock_moves() {
        // Every look at the clock is a millisecond later.
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
