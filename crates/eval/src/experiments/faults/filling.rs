//! Reproduces Figure 5(d) of Koloniari et al. 2011, section 7, as the paper measures it. A filter that has lost slices
//! fills up with a stream, and every wrong verdict over the whole stream counts as an error.
//!
//! The experiment compares the strict rule, by which an event with an empty cell is never a duplicate, with the literal
//! rule of the paper, which lacks this condition. The verdicts by the strict rule come from production nodes. Nodes do
//! not support the literal rule, so it is evaluated on the cells of a production filter in a single process.

use std::collections::HashSet;

use firstseen_filter::rates::failures::{self, Rule};
use firstseen_filter::rates::plain;
use firstseen_filter::{Digest, FilterSecret};
use firstseen_routing::{Answer, Decision, Operation, SlicedDefinition, SlicedFilter};

use super::{DOWN, HASHES, SLICES, Size, order_of_loss, strict};
use crate::document::{Axis, Readings, Sheet};
use crate::experiment::EvalError;
use crate::failing::{Belief, is_duplicate_while_down};
use crate::measure::{count, pooled_with_expected};
use crate::nodes::Nodes;
use crate::stats::Counts;
use crate::stream::{Keys, StreamSpec};

/// Share of distinct events: the web log of Koloniari et al. has 16,860 distinct events among 100,000.
const DISTINCT_SHARE: f64 = 0.168_6;
const SLICING: &str = "vertical:40";

/// Results of one run. The first half of each list is for the strict rule, and the second half is for the literal rule.
/// Each half has one entry for every threshold x = 0..=k. For each threshold, `wrong` contains the number of wrong
/// verdicts among all verdicts, and `expected` contains the expected share of wrong verdicts.
#[derive(Clone, Default)]
pub(super) struct Found {
    wrong: Vec<Counts>,
    expected: Vec<f64>,
}

/// Events of a stream, each with a flag that tells whether it is new.
type Events = [(Digest, bool)];

/// Returns the number of events that fill a filter of this size.
pub(super) fn events(size: Size) -> u64 {
    (size.keys as f64 / DISTINCT_SHARE).round() as u64
}

/// Returns the results of every threshold of both rules over one stream.
pub(super) fn found(size: Size, seed: u64) -> Result<Found, EvalError> {
    let keys = Keys::Repeats { distinct_share: DISTINCT_SHARE, recent_keys: u64::MAX };
    let secret = FilterSecret::from_seed(seed);
    let mut seen = HashSet::new();
    let stream = StreamSpec::new(events(size), keys).events(seed)?;
    let stream: Vec<(Digest, bool)> =
        stream.map(|event| (secret.digest(&event.key.to_le_bytes()), seen.insert(event.key))).collect();
    let mut found = Found::default();
    let definition = size.definition(SLICING)?;
    for rule in [Rule::Strict, Rule::Literal] {
        for set_min in 0..=HASHES {
            found.wrong.push(match rule {
                Rule::Strict => of_nodes(&definition, set_min, &stream, seed)?,
                Rule::Literal => of_literal(&definition, set_min, &stream, seed)?,
            });
            found.expected.push(expected(size.cells() as f64, set_min, rule, &stream));
        }
    }
    Ok(found)
}

/// Counts the wrong verdicts of production nodes over a stream. The slices are lost before the first event, so an event
/// that is first-seen is set only on the remaining slices.
fn of_nodes(definition: &SlicedDefinition, set_min: u32, stream: &Events, seed: u64) -> Result<Counts, EvalError> {
    let mut nodes = Nodes::of_slices("faults", definition, strict(set_min))?;
    nodes.lose(order_of_loss(SLICES, seed).into_iter().take(DOWN))?;
    let mut wrong = Counts::default();
    for (digest, is_new) in stream {
        // Events are sent one at a time, because events that are in flight at once may be decided in any order.
        let verdicts = nodes.ask_filter(&[*digest], Operation::Observe)?;
        count(&mut wrong, (verdicts[0] == Decision::FirstSeen) != *is_new);
    }
    Ok(wrong)
}

/// Counts the wrong verdicts of the literal rule. Cells of lost slices are set as well, but never tested.
fn of_literal(definition: &SlicedDefinition, set_min: u32, stream: &Events, seed: u64) -> Result<Counts, EvalError> {
    let mut filter = SlicedFilter::build(definition)?;
    let lost: Vec<u32> = order_of_loss(SLICES, seed).into_iter().take(DOWN).collect();
    let mut wrong = Counts::default();
    let belief = Belief { set_min, rule: Rule::Literal };
    for (digest, is_new) in stream {
        let verdict = is_duplicate_while_down(&filter, *digest, |slice| lost.contains(&slice), belief);
        let Some(is_duplicate) = verdict else {
            return Err(EvalError::Answer { experiment: "faults", answer: "nothing".to_owned() });
        };
        if !is_duplicate {
            filter.observe_batch(&[*digest], &[], &mut [Answer::Undecided]);
        }
        count(&mut wrong, is_duplicate == *is_new);
    }
    Ok(wrong)
}

/// Returns the expected share of wrong verdicts over a stream. Two kinds of verdicts are wrong: a new event that is
/// called a duplicate, and a repeat that is called first-seen. The probability of the first error depends on the share
/// of cells that are set when the event arrives, so it increases along the stream.
///
/// The probability that a repeat is called first-seen is the same along the whole stream, because the same cells of a
/// key are lost at every occurrence. If the first occurrence was called first-seen, it set all cells that remain. If it
/// was called a duplicate, enough of them were already set. A repeat is therefore called first-seen only if fewer than
/// x of its cells remain.
fn expected(cells: f64, set_min: u32, rule: Rule, stream: &Events) -> f64 {
    let down = DOWN as f64 / f64::from(SLICES);
    let mut fill = 0.0;
    let mut wrong = 0.0;
    for (_, is_new) in stream {
        let errors = failures::x_of_k(down, fill, HASHES, set_min, rule);
        wrong += if *is_new { errors.false_positives } else { errors.false_negatives };
        if *is_new {
            fill += (1.0 - fill) * set_by_key(cells, (1.0 - down) * fill, set_min, rule);
        }
    }
    wrong / stream.len() as f64
}

/// Returns the share of the unset live cells that a new key sets, if a position is live and set with the probability
/// `set`.
///
/// By the strict rule, an event with an unset live cell is never a duplicate, so it is always recorded. The share is
/// therefore `1 - (1 - 1/m)^k`, as in any filter.
///
/// By the literal rule, an event with an unset cell may be called a duplicate. It is then not recorded, so fewer cells
/// are set. An unset cell of a new key is set only if fewer than x of the key's other positions are live and set,
/// because the event is then called first-seen. The share is therefore `k/m P(binomial(k - 1, set) < x)`.
fn set_by_key(cells: f64, set: f64, set_min: u32, rule: Rule) -> f64 {
    let of_key = plain::fill(cells, HASHES, 1.0);
    match rule {
        Rule::Strict => of_key,
        Rule::Literal => of_key * (1.0 - failures::x_of_k(0.0, set, HASHES - 1, set_min, rule).false_positives),
    }
}

pub(super) fn sheet(found: &[Found]) -> Sheet {
    let wrong: Vec<_> = found.iter().map(|found| found.wrong.clone()).collect();
    let expected: Vec<_> = found.iter().map(|found| found.expected.clone()).collect();
    let series = (0..).zip(SERIES).map(|(index, (name, formula))| {
        let points = (0..=HASHES).map(|set_min| {
            let place = (index * (HASHES + 1) + set_min) as usize;
            pooled_with_expected(&wrong, &expected, place).at(set_min)
        });
        Readings::new(name, formula, points)
    });
    Sheet::new(
        "Figure 5(d), over a stream that fills the filter, 83 % repeats",
        Axis::linear("threshold x: cells that must be left and set, of 8"),
        Axis::log("wrong answers (share of all events)"),
        series,
    )
}

const SERIES: [(&str, &str); 2] = [
    (
        "measured, strict rule (ours)",
        "the probability of a wrong answer, averaged over all events of the stream. For a new event, this probability \
         is the false-positive rate FP(x), which depends on the threshold x and on the fill of the filter when the \
         event arrives. For a repeat, it is the false-negative rate FN(x)",
    ),
    (
        "measured, literal rule (the paper's)",
        "the probability of a wrong answer, calculated as for the strict rule, but with a lower fill of the filter. \
         The fill is lower because the literal rule sets an unset cell of a new key only if fewer than x of the other \
         cells of the key are set and on slices that are not lost",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_literal_rule_fills_as_the_strict_one_where_all_cells_count() {
        // At x = k, both rules call exactly those events duplicates whose cells are all alive and set.
        for set in [0.1, 0.6] {
            let [strict, literal] = [Rule::Strict, Rule::Literal].map(|rule| set_by_key(1e4, set, HASHES, rule));
            assert!((strict - literal).abs() < 1e-12, "{strict}, {literal}");
        }
        // At x = 0 every event is a duplicate, and no cell is set.
        assert!(set_by_key(1e4, 0.3, 0, Rule::Literal).abs() < 1e-12);
    }
}
