//! Repeats the measurements of the slides on stable Bloom filters (S24) with smaller filters. The grid consists of
//! combinations of the number of cells (m), the positions (K) and the decrements (P). The experiment measures the F1
//! score and both kinds of errors for each combination, and the time by K.
//!
//! The stable filter and the Bloom filter have the same memory and see the same stream.

use super::urls::{Cells, FORMULA, Outcome, Scores, Urls};
use super::{DECREMENTS, GAP_HASHES, KINDS};
use crate::document::{Axis, Reading, Readings, Sheet};
use crate::experiment::EvalError;
use crate::measure::{Clock, Compared, averaged, averaged_with_expected, pooled_with_expected};
use crate::stats::Counts;
use crate::stream::{Keys, StreamSpec};

/// Values of m on the slides.
const SLIDES_CELLS: [u64; 5] = [500_000, 1_000_000, 5_000_000, 10_000_000, 40_000_000];
/// Values of K, with the F1 score and the seconds on the slides for the largest m.
const HASHES: [(u32, Option<f64>, Option<f64>); 4] =
    [(2, None, None), (4, Some(0.666), Some(103.1)), (6, Some(0.730), Some(123.5)), (8, Some(0.748), Some(136.5))];
const DECREMENTS_TRIED: [f64; 6] = [1.0, 2.0, 3.0, 4.0, 8.0, 16.0];
/// Index of the m for which P is varied. Both errors are visible at this m.
const CELLS_FOR_DECREMENTS: usize = 3;
/// Share of new URLs in the stream. The slides do not state theirs.
pub(super) const NEW_SHARE: f64 = 0.956;
/// Divisor for the recent part of the stream. A repeat repeats one of the last URLs, from this part of the stream.
const RECENT_PART: u64 = 200;

/// Factor by which all sizes are smaller than on the slides.
#[derive(Clone, Copy)]
pub(super) struct Scaled(pub(super) u64);

/// Position on an axis.
#[derive(Clone, Copy)]
struct Place {
    x: f64,
    cells: Cells,
    /// F1 score on the slides.
    printed: Option<f64>,
}

/// Parameter that is varied, for the stable and for the Bloom filter.
struct Sweep {
    title: String,
    x: Axis,
    kinds: [Vec<Place>; 2],
}

/// Results of one run, for all positions of all sweeps in their order.
pub(super) struct Found {
    outcomes: Vec<Outcome>,
    expected: Vec<Scores>,
}

impl Place {
    fn new(x: f64, cells: u64, hashes: u32, decrements: f64) -> Self {
        Self { x, cells: Cells { cells, hashes, decrements }, printed: None }
    }
}

impl Scaled {
    fn cells(self) -> [u64; 5] {
        SLIDES_CELLS.map(|cells| cells / self.0)
    }

    /// Returns the number of events, which is the number of cells of the largest filter.
    pub(super) fn events(self) -> u64 {
        self.cells()[4]
    }

    /// Returns the note about the parameters.
    pub(super) fn note(self) -> String {
        format!(
            "The filters of the grid have the numbers of cells (m) of the slides divided by {}, and the stream has as \
             many URLs as the largest filter has cells. The slides do not say how many of their URLs repeat, nor how \
             soon. In this experiment {:.1} % of the URLs are new, and a repeat comes from the last {RECENT_PART}th \
             part of the stream. These values were chosen so that the F1 scores come close to the printed ones. The \
             printed scores therefore show only that such a stream exists, and the real test is the comparison with \
             the formulas. Times are not judged, and only their ratios are compared, because machines differ.",
            self.0,
            100.0 * NEW_SHARE
        )
    }

    fn sweeps(self) -> [Sweep; 3] {
        let all = self.cells();
        let largest = all[4];
        let middle = all[CELLS_FOR_DECREMENTS];
        [
            Sweep {
                title: "m (K = 4, P = 4)".to_owned(),
                x: Axis::log("cells (m)"),
                kinds: [DECREMENTS, 0.0].map(|decrements| {
                    let places = all.iter().map(|cells| Place::new(*cells as f64, *cells, GAP_HASHES, decrements));
                    places.collect()
                }),
            },
            Sweep {
                title: format!("K (m = {largest}, P = 4)"),
                x: Axis::linear("hash functions (K)"),
                kinds: [DECREMENTS, 0.0].map(|decrements| {
                    let places = HASHES.iter().map(|(hashes, f1, _)| Place {
                        printed: f1.filter(|_| decrements > 0.0),
                        ..Place::new(f64::from(*hashes), largest, *hashes, decrements)
                    });
                    places.collect()
                }),
            },
            Sweep {
                title: format!("P (m = {middle}, K = 4)"),
                x: Axis::linear("cells decremented per arrival (P; 0 is the Bloom filter)"),
                kinds: [
                    DECREMENTS_TRIED.map(|tried| Place::new(tried, middle, GAP_HASHES, tried)).to_vec(),
                    vec![Place::new(0.0, middle, GAP_HASHES, 0.0)],
                ],
            },
        ]
    }

    fn places(self) -> Vec<Place> {
        self.sweeps().into_iter().flat_map(|sweep| sweep.kinds).flatten().collect()
    }

    /// Measures all positions with one stream.
    pub(super) fn found(self, seed: u64, clock_ns: Clock<'_>) -> Result<Found, EvalError> {
        let keys = Keys::Repeats { distinct_share: NEW_SHARE, recent_keys: self.events() / RECENT_PART };
        let urls = Urls::of(StreamSpec::new(self.events(), keys).events(seed)?.collect());
        let places = self.places();
        let outcomes = places.iter().map(|place| urls.observed(place.cells.subject(seed)?, clock_ns));
        let outcomes = outcomes.collect::<Result<_, _>>()?;
        Ok(Found { outcomes, expected: places.iter().map(|place| urls.expected(place.cells)).collect() })
    }

    /// Returns the panels with the F1 score and the errors of every sweep, followed by the times if the clock moves.
    pub(super) fn sheets(self, found: &[Found]) -> Vec<Sheet> {
        let mut sheets = Vec::new();
        let mut first = 0;
        for sweep in self.sweeps() {
            let next = first + sweep.kinds[0].len();
            sheets.push(f1_sheet(&sweep, [first, next], found));
            sheets.push(errors_sheet(&sweep, [first, next], found));
            first = next + sweep.kinds[1].len();
        }
        sheets.extend(self.time_sheets(found));
        sheets
    }

    /// Returns the panels with the seconds per million events by K, and their ratios to those of K = 4.
    fn time_sheets(self, found: &[Found]) -> Vec<Sheet> {
        let first = self.sweeps()[0].kinds.iter().map(Vec::len).sum::<usize>();
        // Nanoseconds per event equal milliseconds per million events.
        let seconds: Vec<Vec<f64>> = found
            .iter()
            .map(|found| &found.outcomes[first..first + KINDS.len() * HASHES.len()])
            .map(|outcomes| outcomes.iter().map(|outcome| outcome.ns_per_event / 1e3).collect())
            .collect();
        if seconds.iter().flatten().any(|seconds| *seconds <= 0.0) {
            return Vec::new();
        }
        // The second entry of each kind is K = 4.
        let of_kinds = seconds.iter().map(|run| run.chunks(HASHES.len()));
        let ratios: Vec<Vec<f64>> =
            of_kinds.map(|kinds| kinds.flat_map(|kind| kind.iter().map(|s| s / kind[1])).collect()).collect();
        let x = Axis::linear("hash functions (K)");
        vec![
            Sheet::new(
                "Time to observe the stream",
                x.clone(),
                Axis::linear("seconds for a million events"),
                self.time_series(&seconds, |_| None),
            ),
            Sheet::new(
                "Time by K, of that of K = 4",
                x,
                Axis::linear("time (multiple of that of K = 4)"),
                self.time_series(&ratios, |slides_s| slides_s.zip(HASHES[1].2).map(|(s, four_s)| s / four_s)),
            ),
        ]
    }

    /// Returns a series for each kind. `printed` gives the value of the slides, if the slides have a time.
    fn time_series(self, runs: &[Vec<f64>], printed: impl Fn(Option<f64>) -> Option<f64>) -> Vec<Readings> {
        let series = KINDS.iter().enumerate().map(|(kind, (name, _))| {
            let points = HASHES.iter().enumerate().map(|(place, (hashes, _, slides_s))| {
                let estimate = averaged(runs, kind * HASHES.len() + place, self.events());
                Reading::unjudged(*hashes, estimate).printed(printed(*slides_s).filter(|_| kind == 0))
            });
            Readings::unjudged(format!("measured, {name}"), points)
        });
        series.collect()
    }
}

fn readings(name: String, places: &[Place], has_printed: bool, compared: impl Fn(usize) -> Compared) -> Readings {
    let points = places
        .iter()
        .enumerate()
        .map(|(at, place)| compared(at).at(place.x).printed(place.printed.filter(|_| has_printed)));
    Readings::new(name, FORMULA, points)
}

fn f1_sheet(sweep: &Sweep, first: [usize; 2], found: &[Found]) -> Sheet {
    let values: Vec<Vec<f64>> =
        found.iter().map(|found| found.outcomes.iter().map(|outcome| outcome.f1).collect()).collect();
    let expected = expected(found, |scores| scores.f1);
    let series = KINDS.iter().zip(&sweep.kinds).zip(first).map(|(((kind, _), places), first)| {
        let samples = found.first().map_or(0, |found| found.outcomes[first].false_positives.trials);
        readings(format!("measured, {kind}"), places, true, |at| {
            averaged_with_expected(&values, &expected, first + at, samples)
        })
    });
    Sheet::new(format!("URLs: F1 against {}", sweep.title), sweep.x.clone(), Axis::linear("F1 of duplicates"), series)
}

fn errors_sheet(sweep: &Sweep, first: [usize; 2], found: &[Found]) -> Sheet {
    type Error = (&'static str, fn(&Outcome) -> Counts, fn(&Scores) -> f64);
    const ERRORS: [Error; 2] = [
        ("false positives, of new", |outcome| outcome.false_positives, |scores| scores.false_positives),
        ("false negatives, of duplicates", |outcome| outcome.false_negatives, |scores| scores.false_negatives),
    ];
    let series = ERRORS.iter().flat_map(|(error, counted, scored)| {
        let counts: Vec<Vec<Counts>> = found.iter().map(|found| found.outcomes.iter().map(counted).collect()).collect();
        let expected = expected(found, scored);
        KINDS.iter().zip(&sweep.kinds).zip(first).map(move |(((kind, _), places), first)| {
            readings(format!("{error}: {kind}"), places, false, |at| {
                pooled_with_expected(&counts, &expected, first + at)
            })
        })
    });
    Sheet::new(
        format!("URLs: both errors against {}", sweep.title),
        sweep.x.clone(),
        Axis::linear("wrong answers (share)"),
        series,
    )
}

fn expected(found: &[Found], score: impl Fn(&Scores) -> f64) -> Vec<Vec<f64>> {
    found.iter().map(|found| found.expected.iter().map(&score).collect()).collect()
}
