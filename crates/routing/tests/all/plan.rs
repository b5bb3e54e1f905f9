//! Tests of slice plans. A slice plan computes, for each position of an event, the slice that contains the position.
//! The tests compare the slices and positions of a plan with the positions in a filter that is not divided into slices.
//!
//! A statistical test checks the first position of each event. The slices of these positions must be uniformly
//! distributed, and the place of a position within its slice must not depend on which slice it is.

use std::collections::HashMap;

use crate::common::digest;
use firstseen_filter::{Geometry, Layout, positions_of, reduce};
use firstseen_routing::{PlanError, Route, SlicePlan};

fn classic(cells: u64, hashes: u32) -> Geometry {
    Geometry::new(cells, hashes, 1, Layout::Classic).unwrap()
}

fn plan(slicing: &str, slice: Geometry) -> SlicePlan {
    SlicePlan::new(slicing.parse().unwrap(), slice).unwrap()
}

#[test]
fn vertical_steps_are_the_positions_of_the_uncut_filter_in_hash_order() {
    let (mut route, mut whole) = (Route::default(), Vec::new());
    for (slices, cells, hashes) in [(1, 1000, 5), (8, 1000, 7), (40, 77, 16), (4096, 1, 3), (3, 1 << 30, 10)] {
        let plan = plan(&format!("vertical:{slices}"), classic(cells, hashes));
        for key in 0..2000 {
            positions_of(digest(key), &classic(cells * slices, hashes), &mut whole);
            plan.route(digest(key), &mut route);
            let mut order: Vec<u64> = Vec::new();
            whole.iter().map(|position| position / cells).for_each(|slice| {
                if !order.contains(&slice) {
                    order.push(slice);
                }
            });
            let visited: Vec<u64> = route.steps().map(|step| u64::from(step.slice)).collect();
            assert_eq!(visited, order, "each slice once, in the order of first visit");
            for step in route.steps() {
                let expected: Vec<u64> = whole
                    .iter()
                    .filter(|position| **position / cells == u64::from(step.slice))
                    .map(|position| position % cells)
                    .collect();
                assert_eq!(step.positions, expected);
            }
        }
    }
}

#[test]
fn horizontal_steps_are_the_positions_of_a_filter_of_the_slice() {
    let (mut route, mut alone) = (Route::default(), Vec::new());
    for layout in [Layout::Classic, Layout::Partitioned, Layout::Blocked { lines: 1 }] {
        let slice = Geometry::new(5000, 6, 8, layout).unwrap();
        let plan = plan("horizontal:9", slice);
        for key in 0..500 {
            plan.route(digest(key), &mut route);
            positions_of(digest(key), &slice, &mut alone);
            let step = route.step(0).unwrap();
            assert_eq!((route.len(), step.positions, step.slice), (1, &alone[..], plan.group(digest(key))));
            assert_eq!(u64::from(step.slice), reduce(digest(key).word(31), 9));
        }
    }
}

#[test]
fn a_group_of_horizontal_vertical_is_a_vertical_filter() {
    let (mut route, mut vertical_route) = (Route::default(), Route::default());
    let (diced, vertical) = (plan("horizontal-vertical:5x8", classic(100, 6)), plan("vertical:8", classic(100, 6)));
    assert_eq!(diced.groups(), 5);
    for key in 0..1000 {
        diced.route(digest(key), &mut route);
        vertical.route(digest(key), &mut vertical_route);
        let group = diced.group(digest(key));
        for (step, vertical_step) in route.steps().zip(vertical_route.steps()) {
            assert_eq!((step.slice, step.positions), (group * 8 + vertical_step.slice, vertical_step.positions));
        }
        assert_eq!(route.len(), vertical_route.len());
    }
}

#[test]
fn a_range_of_vertical_horizontal_picks_one_part_with_a_hash_of_its_own() {
    let (mut route, mut vertical_route) = (Route::default(), Route::default());
    let (diced, vertical) = (plan("vertical-horizontal:4x6", classic(100, 6)), plan("vertical:4", classic(100, 6)));
    let (mut pairs, mut same_part) = (0, 0);
    for key in 0..20_000 {
        diced.route(digest(key), &mut route);
        vertical.route(digest(key), &mut vertical_route);
        for (step, vertical_step) in route.steps().zip(vertical_route.steps()) {
            assert_eq!((step.slice / 6, step.positions), (vertical_step.slice, vertical_step.positions));
        }
        let parts: Vec<u32> = route.steps().map(|step| step.slice % 6).collect();
        pairs += parts.len() - 1;
        same_part += parts.windows(2).filter(|pair| pair[0] == pair[1]).count();
    }
    // Parts of two ranges agree as often as independent picks of one in six. 99.9 % of such counts lie within this
    // band.
    let (expected, deviation) = (pairs as f64 / 6.0, (pairs as f64 * 5.0 / 36.0).sqrt());
    assert!((same_part as f64 - expected).abs() < 3.3 * deviation, "{same_part} of {pairs}");
}

#[test]
fn first_steps_are_spread_evenly_and_independently_of_positions() {
    const EVENTS: u64 = 60_000;
    let mut route = Route::default();
    for (slicing, slices) in [
        ("horizontal:30", 30u32),
        ("vertical:30", 30),
        ("horizontal-vertical:5x6", 30),
        ("vertical-horizontal:5x6", 30),
    ] {
        let plan = plan(slicing, classic(1000, 4));
        let mut counts: HashMap<(u32, u64), u64> = HashMap::new();
        for key in 0..EVENTS {
            plan.route(digest(key), &mut route);
            let step = route.step(0).unwrap();
            // Each slice has five parts, which makes 150 of 400 buckets in all.
            *counts.entry((step.slice, step.positions[0] / 200)).or_default() += 1;
        }
        let buckets = f64::from(slices) * 5.0;
        let expected = EVENTS as f64 / buckets;
        let chi_square: f64 = counts.values().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
        let empty = (buckets - counts.len() as f64) * expected;
        // With 149 degrees of freedom, 99.9 % of the values lie below 207.
        assert!(chi_square + empty < 207.0, "{slicing}: {chi_square}");
    }
}

#[test]
fn general_slicing_chooses_slices_first() {
    let (mut route, slice) = (Route::default(), classic(1000, 12));
    for choices in [1, 2, 3, 4, 6, 12] {
        let plan = SlicePlan::general(50, choices, slice).unwrap();
        let mut steps = 0;
        for key in 0..5000 {
            plan.route(digest(key), &mut route);
            assert_eq!(route.steps().map(|step| step.positions.len()).sum::<usize>(), 12);
            let each = 12 / choices as usize;
            assert!(route.steps().all(|step| step.slice < 50 && step.positions.len() % each == 0));
            steps += route.len();
        }
        let expected = firstseen_filter::rates::slicing::slices_touched(50, choices);
        let mean = steps as f64 / 5000.0;
        assert!((mean / expected - 1.0).abs() < 0.01, "{choices} choices: {mean}, expected {expected}");
    }
    // With one choice, general slicing picks the same slice as horizontal slicing.
    let (general, horizontal) = (SlicePlan::general(50, 1, slice).unwrap(), plan("horizontal:50", slice));
    let mut other = Route::default();
    general.route(digest(1), &mut route);
    horizontal.route(digest(1), &mut other);
    assert_eq!(route.step(0), other.step(0));
}

#[test]
fn impossible_plans_are_refused() {
    let blocked = Geometry::new(1000, 4, 8, Layout::Blocked { lines: 1 }).unwrap();
    assert_eq!(SlicePlan::new("vertical:4".parse().unwrap(), blocked), Err(PlanError::Layout));
    assert_eq!(SlicePlan::general(4, 2, blocked), Err(PlanError::Layout));
    let slice = classic(100, 6);
    assert_eq!(SlicePlan::general(0, 2, slice), Err(PlanError::Slices(0)));
    assert_eq!(SlicePlan::general(4097, 2, slice), Err(PlanError::Slices(4097)));
    for choices in [0, 4, 5, 7, 12] {
        assert_eq!(SlicePlan::general(8, choices, slice), Err(PlanError::Choices { choices, hashes: 6 }));
    }
}

#[test]
fn one_word_falls_into_one_slice_whatever_the_size() {
    let (mut small, mut large) = (Route::default(), Route::default());
    for slicing in ["vertical:7", "horizontal-vertical:3x7", "vertical-horizontal:7x3"] {
        let (fewer, more) = (plan(slicing, classic(13, 4)), plan(slicing, classic(99_991, 9)));
        for key in 0..2000 {
            fewer.route(digest(key), &mut small);
            more.route(digest(key), &mut large);
            let steps: Vec<u32> = small.steps().map(|step| step.slice).collect();
            let first: Vec<u32> = large.steps().map(|step| step.slice).take(steps.len()).collect();
            assert_eq!(steps, first, "{slicing}: generations of different sizes must be visited together");
        }
    }
}
