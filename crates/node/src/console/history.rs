//! Time series that the console keeps for the last ten minutes. A series has at most [`STEPS_MAX`] steps, each of which
//! covers [`STEP_S`] seconds. A step for which no value was received is `None`. A series that receives no more values,
//! for example because its filter was deleted, is dropped.

use std::collections::{BTreeMap, VecDeque};

use super::overview::{History, Verdicts};

/// Duration of a step in seconds.
const STEP_S: u64 = 5;

/// Maximum number of steps, which cover ten minutes.
const STEPS_MAX: usize = 120;

/// The time series of a cluster: one for all filters together, and one for each displayed filter.
#[derive(Default)]
pub(super) struct Histories {
    seconds: u64,
    series: BTreeMap<Option<u64>, Series>,
}

#[derive(Default)]
struct Series {
    /// Mean values of the current step.
    open: [Mean; 2],
    events: VecDeque<Option<f64>>,
    undecided: VecDeque<Option<f64>>,
}

#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.sum += value;
            self.count += 1;
        }
    }

    fn take(&mut self) -> Option<f64> {
        let Self { sum, count } = std::mem::take(self);
        (count > 0).then(|| rounded(sum / f64::from(count)))
    }
}

/// Rounds a rate to a readable number of digits.
pub(super) fn rounded(rate: f64) -> f64 {
    if rate.abs() < 100.0 { (rate * 100.0).round() / 100.0 } else { rate.round() }
}

impl Histories {
    /// Adds the current values of each series. The series of all filters together has no number. Returns whether a step
    /// has ended.
    pub(super) fn take<'a>(&mut self, shown: impl Iterator<Item = (Option<u64>, &'a Verdicts)>) -> bool {
        self.seconds += 1;
        let ends = self.seconds.is_multiple_of(STEP_S);
        let mut before = std::mem::take(&mut self.series);
        for (name, verdicts) in shown {
            let mut series = before.remove(&name).unwrap_or_default();
            let [events, undecided] = &mut series.open;
            events.add(verdicts.events_per_s());
            undecided.add(verdicts.undecided_per_s);
            if ends {
                let means = series.open.each_mut().map(Mean::take);
                for (steps, mean) in [&mut series.events, &mut series.undecided].into_iter().zip(means) {
                    steps.push_back(mean);
                    if steps.len() > STEPS_MAX {
                        steps.pop_front();
                    }
                }
            }
            self.series.insert(name, series);
        }
        ends
    }

    /// Returns the history of a series.
    pub(super) fn of(&self, name: Option<u64>) -> History {
        let Some(series) = self.series.get(&name) else { return History { step_s: STEP_S, ..History::default() } };
        let has_undecided = series.undecided.iter().flatten().any(|rate| *rate > 0.0);
        History {
            step_s: STEP_S,
            events_per_s: series.events.iter().copied().collect(),
            undecided_per_s: series.undecided.iter().copied().filter(|_| has_undecided).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(rate: f64) -> Verdicts {
        let rate = Some(rate);
        Verdicts { first_seen_per_s: rate, duplicate_per_s: rate, undecided_per_s: Some(0.0), undecided: Vec::new() }
    }

    #[test]
    fn ten_minutes_are_kept_and_gaps_stay_gaps() {
        let mut histories = Histories::default();
        let ended = (1..=10).filter(|second| {
            let verdicts = if *second <= 5 { verdicts(f64::from(*second)) } else { Verdicts::default() };
            histories.take([(None, &verdicts)].into_iter())
        });
        assert_eq!(ended.collect::<Vec<_>>(), [5, 10]);
        let history = histories.of(None);
        assert_eq!((history.events_per_s, history.undecided_per_s), (vec![Some(6.0), None], Vec::new()));
        let ended = (0..2_000).filter(|_| histories.take([(Some(1), &verdicts(1.0))].into_iter())).count();
        assert_eq!(ended, 400);
        assert_eq!(histories.of(Some(1)).events_per_s.len(), 120);
        assert!(histories.of(None).events_per_s.is_empty(), "a series that is told nothing is forgotten");
    }

    #[test]
    fn rates_have_digits_that_can_be_read() {
        assert_eq!([1.0 / 3.0, 123.456, 0.0].map(rounded), [0.33, 123.0, 0.0]);
    }
}
