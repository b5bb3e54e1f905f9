//! Memory per event of alternatives to cuckoo filters, by formulas.
//!
//! Every line of the picture names the alternative to which it belongs. The lines do not depend on what was measured.

use firstseen_filter::figures::{Alternative, EXACT_MAP, REDIS_KEY};
use firstseen_filter::rates::cuckoo;
use firstseen_filter::{BucketShape, FilterSpec, Kind, REGION_BUCKETS, Window};

use super::churn::ticks;
use super::{design_rate, shapes_of};
use crate::document::Line;
use crate::theory::AgePartitioned;

/// Number of events in the window for which filters of timers and generations are planned.
const PLANNED_EVENTS: u64 = 1_000_000;
const WINDOW_MS: u64 = 3_600_000;
/// Memory of a key in a map, and of a key in a Redis server.
const KEYS: [(&Alternative, &str); 2] = [(&EXACT_MAP, "an exact key in a map"), (&REDIS_KEY, "an exact key in Redis")];
const LINE_BITS: f64 = 512.0;

/// Returns all lines, over the rates of fingerprints with 64 bits for times.
pub(super) fn lines() -> Vec<Line> {
    let mut lines = vec![
        line("fingerprints by formula, large windows", |shape| Some(planned_bits(shape))),
        line("the least of all: log2(1/P) + log2(T - 1)", |shape| {
            Some(ticks(shape).log2() - design_rate(shape).log2())
        }),
        line("age-partitioned Bloom filter with the same edge", |shape| {
            AgePartitioned::with_edge(design_rate(shape), ticks(shape) as usize).map(AgePartitioned::bits)
        }),
        line("age-partitioned Bloom filter at its least", |shape| {
            AgePartitioned::least(design_rate(shape)).map(AgePartitioned::bits)
        }),
        line("words of generations, 8 bits", |shape| of_kind(Kind::Generations, design_rate(shape))),
        line("timers, 8 bits", |shape| of_kind(Kind::Timing, design_rate(shape))),
    ];
    lines.extend(KEYS.map(|(key, name)| line(name, |_| Some(8.0 * key.bytes_per_event as f64))));
    lines
}

/// Returns the values of a formula for the measured shapes.
fn line(name: &str, bits: impl Fn(BucketShape) -> Option<f64>) -> Line {
    let shapes = shapes_of(64).collect::<Vec<_>>();
    let points = shapes.into_iter().rev().filter_map(|shape| Some((design_rate(shape), bits(shape)?)));
    Line { name: name.to_owned(), points: points.collect() }
}

/// Returns `512 T / ((T - 1) S load)` bits, plus the share of the stash, which is one line per 1,024 buckets.
fn planned_bits(shape: BucketShape) -> f64 {
    let kept = (ticks(shape) + 1.0) / ticks(shape);
    let stash = 1.0 + 1.0 / REGION_BUCKETS as f64;
    LINE_BITS * stash * kept / (f64::from(shape.slots()) * cuckoo::load(shape))
}

/// Returns the bits per event that the planner computes, or `None` if the kind cannot achieve this rate.
fn of_kind(kind: Kind, rate: f64) -> Option<f64> {
    let spec = FilterSpec {
        rate,
        capacity_events: Some(PLANNED_EVENTS),
        ..FilterSpec::new(kind, Window::Duration(WINDOW_MS))
    };
    let definition = spec.resolve().ok()?;
    Some(8.0 * definition.cells.geometry()?.bytes() as f64 / PLANNED_EVENTS as f64)
}
