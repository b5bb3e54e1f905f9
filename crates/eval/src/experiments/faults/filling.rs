//! K11 7, Figure 5(d) over a stream: the share of wrong verdicts while a filter fills that has lost slices.
//!
//! Promises: production nodes decide by the strict rule; the paper's literal rule is evaluated on production cells in
//! one place. Must not know: filters that are full.

use std::collections::HashSet;

use firstseen_filter::rates::failures::{self, Rule};
use firstseen_filter::rates::plain;
use firstseen_filter::{Digest, FilterSecret};
use firstseen_routing::{Answer, Decision, Operation, SlicedDefinition, SlicedFilter};

use super::{DOWN, HASHES, SLICES, Size, order_of_loss, strict};
use crate::document::{Axis, Readings, Sheet};
use crate::experiment::EvalError;
use crate::failing::{Belief, is_duplicate_while_down};
use crate::measure::{count, pooled_beside};
use crate::nodes::Nodes;
use crate::stats::Counts;
use crate::stream::{Keys, StreamSpec};

/// K11's web log has 16,860 distinct events of 100,000.
const DISTINCT_SHARE: f64 = 0.168_6;
const SLICING: &str = "vertical:40";

/// The results of one run, by threshold x = 0..=k, for the strict and then the literal rule: wrong verdicts among all,
/// and their expected share.
#[derive(Clone, Default)]
pub(super) struct Found {
    wrong: Vec<Counts>,
    expected: Vec<f64>,
}

/// Events of a stream, and whether they are new.
type Events = [(Digest, bool)];

/// Events that fill a filter of this size.
pub(super) fn events(size: Size) -> u64 {
    (size.keys as f64 / DISTINCT_SHARE).round() as u64
}

/// Every threshold of both rules over one stream.
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

/// Slices are lost before any event is recorded; an event that is first-seen is set on the slices that are left.
fn of_nodes(definition: &SlicedDefinition, set_min: u32, stream: &Events, seed: u64) -> Result<Counts, EvalError> {
    let mut nodes = Nodes::of_slices("faults", definition, strict(set_min))?;
    nodes.lose(order_of_loss(SLICES, seed).into_iter().take(DOWN))?;
    let mut wrong = Counts::default();
    for (digest, is_new) in stream {
        // One event at a time: events that are in flight at once may be decided in any order.
        let verdicts = nodes.ask_filter(&[*digest], Operation::Observe)?;
        count(&mut wrong, (verdicts[0] == Decision::FirstSeen) != *is_new);
    }
    Ok(wrong)
}

/// Cells of lost slices are set too, but never tested.
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

/// The share of wrong verdicts: new events that are called duplicates, at the fill that they meet, and repeats that are
/// called first-seen.
///
/// A key has the same live cells whenever it comes, and once it was called first-seen they are set. A key that was
/// called a duplicate has enough cells that are set for the next time. So a repeat is called first-seen if fewer than x
/// of its cells are live, at any fill.
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

/// The share of the live cells not set yet that a new key sets, where a position is live and set with chance `set`.
///
/// Strict rule: an event that is called a duplicate has no live cell that is not set, so as in any filter `1 - (1 -
/// 1/m)^k`. Literal rule: a cell is set that was not if fewer than x of the other positions are live and set, `k/m
/// P(binomial(k - 1, set) < x)`.
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
            pooled_beside(&wrong, &expected, place).at(set_min)
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
        "mean over events of FP(x) of new ones at the fill that they meet, and FN(x) of repeats",
    ),
    (
        "measured, literal rule (the paper's)",
        "likewise; of a key that comes new, a cell is set if fewer than x others are live and set",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_literal_rule_fills_as_the_strict_one_where_all_cells_count() {
        // At x = k both rules call those events duplicates whose cells are all left and set, and no others.
        for set in [0.1, 0.6] {
            let [strict, literal] = [Rule::Strict, Rule::Literal].map(|rule| set_by_key(1e4, set, HASHES, rule));
            assert!((strict - literal).abs() < 1e-12, "{strict}, {literal}");
        }
        // At x = 0 every event is a duplicate, and no cell is set.
        assert!(set_by_key(1e4, 0.3, 0, Rule::Literal).abs() < 1e-12);
    }
}
