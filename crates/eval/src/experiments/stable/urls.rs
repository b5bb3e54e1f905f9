//! A stream of URLs, the measured errors of a filter over it, and the expected errors.
//!
//! The expected errors are computed from the stream that was actually drawn, and not from the distribution of its keys.
//! By chance, a drawn stream can have more repeats than average, and its expected errors then differ from the average
//! too.
//!
//! This module does not depend on which filters are compared.

use std::collections::HashMap;

use firstseen_filter::{Kind, Tally, Window};

use super::spec;
use crate::experiment::EvalError;
use crate::measure::{Clock, Subject, median, shaped, timed};
use crate::stats::Counts;
use crate::stream::Event;

/// Description of how the expected values are calculated, in one line.
pub(super) const FORMULA: &str = "calculated from the distances between the occurrences of each key in the stream. \
Every arrival clears a cell with the probability P/m, and every different key sets it with the probability K/m (after \
Deng and Rafiei 2006 and Denning 1968)";
/// Number of pieces of the stream that are timed separately.
const PIECES: usize = 15;

/// Filter parameters: cells of one bit (m), positions (K) and decrements (P). P = 0 stands for a Bloom filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cells {
    pub(super) cells: u64,
    pub(super) hashes: u32,
    pub(super) decrements: f64,
}

impl Cells {
    /// Creates an empty filter with these parameters.
    pub(super) fn subject(self, seed: u64) -> Result<Subject, EvalError> {
        let spec = if self.decrements > 0.0 {
            spec(self.cells, self.hashes, Some(self.decrements), seed)
        } else {
            shaped(Kind::Bloom, Window::Unbounded, self.cells, self.hashes)
        };
        Subject::new("stable", &spec, "none", seed)
    }
}

/// Counts one verdict.
pub(super) fn tally_verdict(tally: &mut Tally, is_new: bool, is_duplicate: bool) {
    match (is_new, is_duplicate) {
        (true, true) => tally.false_positives += 1,
        (true, false) => tally.true_negatives += 1,
        (false, true) => tally.true_positives += 1,
        (false, false) => tally.false_negatives += 1,
    }
}

/// Rates of both errors, and the F1 score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scores {
    pub(super) false_positives: f64,
    pub(super) false_negatives: f64,
    pub(super) f1: f64,
}

/// Errors of a filter over a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// New events that were called duplicates.
    pub(super) false_positives: Counts,
    /// Duplicates that were called new.
    pub(super) false_negatives: Counts,
    pub(super) f1: f64,
    /// Time per event in nanoseconds: the median of all pieces.
    pub(super) ns_per_event: f64,
}

/// Events, each with the number of arrivals since the last occurrence of its key.
pub(super) struct Urls {
    pub(super) events: Vec<Event>,
    /// Gap before each event, in arrivals. 0 stands for a new key.
    gaps: Vec<u32>,
    /// For each j, the probability that an event is the last one of its key among itself and the j arrivals after it.
    unrepeated: Vec<f64>,
}

impl Urls {
    pub(super) fn of(events: Vec<Event>) -> Self {
        let mut last = HashMap::with_capacity(events.len());
        let mut gaps = Vec::with_capacity(events.len());
        for (at, event) in (0u32..).zip(&events) {
            gaps.push(last.insert(event.key, at).map_or(0, |before| at - before));
        }
        let mut of_gap = vec![0u64; events.len()];
        gaps.iter().filter(|gap| **gap > 0).for_each(|gap| of_gap[*gap as usize] += 1);
        let mut repeated = 0;
        let mut unrepeated = Vec::with_capacity(events.len());
        for count in &of_gap {
            repeated += count;
            unrepeated.push(1.0 - repeated as f64 / events.len() as f64);
        }
        Self { events, gaps, unrepeated }
    }

    /// Sends the stream to a filter.
    pub(super) fn observed(&self, mut subject: Subject, clock_ns: Clock<'_>) -> Result<Outcome, EvalError> {
        let mut tally = Tally::default();
        let mut gaps = self.gaps.iter();
        let mut ns_per_event = Vec::with_capacity(PIECES);
        for piece in self.events.chunks(self.events.len().div_ceil(PIECES)) {
            let (observed, took_ns) = timed(clock_ns, || {
                subject.observe_each(piece.iter().copied(), |_, is_duplicate| {
                    tally_verdict(&mut tally, gaps.next() == Some(&0), is_duplicate);
                })
            });
            observed?;
            ns_per_event.push(took_ns as f64 / piece.len() as f64);
        }
        let news = tally.false_positives + tally.true_negatives;
        let duplicates = tally.false_negatives + tally.true_positives;
        Ok(Outcome {
            false_positives: Counts { successes: tally.false_positives, trials: news },
            false_negatives: Counts { successes: tally.false_negatives, trials: duplicates },
            f1: tally.f1(),
            ns_per_event: median(ns_per_event),
        })
    }

    /// Returns the expected errors of a filter with Max = 1 over the stream.
    ///
    /// The derivation calculates the probability that a cell is zero. It looks backwards from the present: a cell is
    /// zero if the last arrival that changed it has cleared it. Two probabilities are needed. Each arrival clears a
    /// given cell with the probability `P/m`. None of the last j arrivals has set the cell with the probability `(1 -
    /// 1/m)^(K D_j)`, where `D_j` is the number of different keys among these arrivals.
    ///
    /// Consider a cell of a key that last arrived g arrivals ago. That arrival set the cell, so only one of the g - 1
    /// arrivals since then can have cleared it. The cell is therefore zero with the probability `Z_g = sum over j from
    /// 1 to g - 1 of P/m (1 - P/m)^(j-1) (1 - 1/m)^(K D_j)`.
    ///
    /// A cell of a new key can be zero for another reason as well: it is possible that no arrival has ever changed it.
    /// After t arrivals of n different keys, each cell of a new key is therefore zero with the probability `Z_(t+1) +
    /// (1 - P/m)^t (1 - 1/m)^(K n)`. The event is called new if at least one of its K cells is zero.
    ///
    /// The number `D_j` of different keys among the last j arrivals varies along the stream, so the derivation uses its
    /// mean. To determine `D_j`, each key is counted only at its last arrival, which is the arrival after which the key
    /// has not occurred again. The mean of `D_j` is therefore a sum over the j arrivals, whose terms are the
    /// probabilities that the key of an arrival has not occurred again (Denning, "The working set model for program
    /// behavior", 1968).
    ///
    /// If all keys are different, then `D_j = j`, and the result converges to the stable point of Deng and Rafiei.
    pub(super) fn expected(&self, of: Cells) -> Scores {
        let cells = of.cells as f64;
        let hashes = of.hashes as i32;
        let cleared = of.decrements / cells;
        let spared_ln = f64::from(of.hashes) * (-1.0 / cells).ln_1p();
        // At time t, these are the probability that a cell was cleared within t arrivals and not set since, and the
        // probability that the last t arrivals left it alone.
        let mut zero: f64 = 0.0;
        let mut alone: f64 = 1.0;
        let mut zeros = Vec::with_capacity(self.events.len());
        let mut positives = 0.0;
        let mut news = 0.0;
        for (arrivals, (gap, unrepeated)) in self.gaps.iter().zip(&self.unrepeated).enumerate() {
            zeros.push(zero);
            if *gap == 0 {
                let never_touched = (arrivals as f64 * (-cleared).ln_1p() + news * spared_ln).exp();
                positives += (1.0 - (zero + never_touched)).powi(hashes);
                news += 1.0;
            }
            let spared = alone * (spared_ln * unrepeated).exp();
            zero += cleared * spared;
            alone = (1.0 - cleared) * spared;
        }
        let of_gaps = self.gaps.iter().filter(|gap| **gap > 0);
        let found: f64 = of_gaps.map(|gap| (1.0 - zeros[*gap as usize - 1]).powi(hashes)).sum();
        let missed = self.events.len() as f64 - news - found;
        Scores {
            false_positives: positives / news,
            false_negatives: missed / (missed + found),
            f1: 2.0 * found / (2.0 * found + positives + missed),
        }
    }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::rates::{plain, stable};

    use super::*;
    use crate::measure::distinct;

    fn near(value: f64, known: f64, allowed: f64) {
        assert!((value / known - 1.0).abs() < allowed, "{value}, known {known}");
    }

    #[test]
    fn distinct_events_fill_a_bloom_filter_and_bring_a_stable_one_to_its_point() {
        let urls = Urls::of(distinct(100_000, 3).unwrap().collect());
        let rate = |cells, decrements| urls.expected(Cells { cells, hashes: 4, decrements }).false_positives;
        near(rate(400_000, 0.0), plain::stream_mean(4e5, 4, 1e5), 1e-3);
        near(rate(1_000, 4.0), stable::rate(1e3, 4, 4.0, 1), 1e-2);
    }

    #[test]
    fn a_key_that_came_long_ago_is_as_good_as_new() {
        let events: Vec<Event> = distinct(40_000, 4).unwrap().collect();
        let of = Cells { cells: 2_000, hashes: 4, decrements: 4.0 };
        // Every event is repeated after `gap` arrivals.
        let missed = |gap: usize| {
            let all = events.chunks(gap).flat_map(|piece| [piece, piece].concat()).collect();
            Urls::of(all).expected(of).false_negatives
        };
        // With g arrivals between the occurrences, the probability that a cell is cleared and not set is 1 - (pi + (1 -
        // pi) e^(-(K + P) g/m))^K, with pi = 1/2.
        near(missed(100), 1.0 - (0.5 + 0.5 * (-0.4f64).exp()).powi(4), 0.02);
        near(missed(4_000), 1.0 - stable::rate(2e3, 4, 4.0, 1), 1e-3);
    }
}
