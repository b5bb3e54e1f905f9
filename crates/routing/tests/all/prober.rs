//! Probes contain the slices and positions of the slice plan, in the same order.

use crate::common::{TestRng, definition, digest, spec};
use firstseen_filter::{FilterSpec, Kind, Layout, ProbeShape, Probes, positions_of};
use firstseen_routing::{GroupPlan, Prober, Route, SlicePlan, SlicedDefinition, Step};
use proptest::prelude::*;

/// Returns the steps of the filter's slice plan.
fn planned(definition: &SlicedDefinition, prober: &Prober, key: u64) -> Vec<(u32, Vec<u64>)> {
    let slice = definition.slice().unwrap();
    let geometry = *firstseen_filter::FilterSlice::build(&slice).unwrap().geometry();
    let plan = SlicePlan::new(definition.slicing, geometry).unwrap();
    let mut route = Route::default();
    plan.route(digest(key), &mut route);
    assert_eq!(plan.group(digest(key)), prober.group(digest(key)));
    route.steps().map(|Step { slice, positions }| (slice, positions.to_vec())).collect()
}

fn check_divided(definition: &SlicedDefinition, keys: impl Iterator<Item = u64>) {
    let prober = Prober::new(definition).unwrap();
    let plan = GroupPlan::new(definition).unwrap().expect("cells are divided");
    assert_eq!(prober.shape(), plan.shape());
    let mut route = Route::default();
    for key in keys {
        let mut probes = Probes::new(prober.shape());
        prober.push(digest(key), &mut probes);
        let group = prober.group(digest(key));
        plan.route(probes.positions(0), &mut route);
        let first = group * plan.slices_per_group();
        let steps: Vec<_> = route.steps().map(|step| (first + step.slice, step.positions.to_vec())).collect();
        assert_eq!(steps, planned(definition, &prober, key), "{} key {key}", definition.slicing);
        assert_eq!(prober.head_slice(group, &probes, 0), steps[0].0);
        for (position, at) in probes.positions(0).iter().zip(0..) {
            let (slice, offset) = plan.place(*position);
            assert_eq!(u64::from(slice) * plan.slice_cells() + offset, *position, "position {at}");
        }
    }
}

#[test]
fn divided_probes_are_the_routes_of_the_plan() {
    let mut rng = TestRng(21);
    for slicing in [
        "vertical:1",
        "vertical:8",
        "vertical:13",
        "horizontal-vertical:4x5",
        "vertical-horizontal:3x4",
        "vertical-horizontal:1x7",
        "vertical-horizontal:7x1",
    ] {
        for (kind, cells, hashes) in [(Kind::Bloom, 10_007, 4), (Kind::Timing, 100, 7), (Kind::Generations, 999, 16)] {
            let window = if kind == Kind::Bloom { "unbounded" } else { "2s" };
            check_divided(&definition(&spec(kind, window, cells, hashes), slicing), (0..300).map(|_| rng.roll()));
        }
    }
}

#[test]
fn positions_at_the_edges_of_slices_are_placed_as_division_places_them() {
    let mut rng = TestRng(22);
    for (slicing, cells) in [("vertical:1", 2), ("vertical:7", 10_007), ("vertical:30", 1 << 20), ("vertical:3", 999)] {
        let definition = definition(&spec(Kind::Bloom, "unbounded", cells, 4), slicing);
        let plan = GroupPlan::new(&definition).unwrap().expect("cells are divided");
        let (slice_cells, all) = (plan.slice_cells(), plan.group_cells());
        let edges = (0..=u64::from(plan.slices_per_group())).map(|slice| slice * slice_cells);
        let around = edges.flat_map(|edge| [edge.saturating_sub(1), edge, edge + 1]);
        for position in around.chain((0..1000).map(|_| rng.below(all))) {
            let placed = plan.place(position);
            assert_eq!((u64::from(placed.0), placed.1), (position / slice_cells, position % slice_cells), "{position}");
        }
    }
}

proptest! {
    #[test]
    fn any_cut_agrees(outer in 1u32..9, inner in 1u32..9, cells in 64u64..1 << 20, hashes in 1u32..17, key: u64) {
        let spec = spec(Kind::Timing, "1h", cells, hashes);
        for form in ["horizontal-vertical", "vertical-horizontal"] {
            check_divided(&definition(&spec, &format!("{form}:{outer}x{inner}")), [key].into_iter());
        }
        check_divided(&definition(&spec, &format!("vertical:{}", outer * inner)), [key].into_iter());
    }
}

#[test]
fn one_slice_gets_the_probe_of_its_geometry() {
    let sized = |kind, window: &str| FilterSpec {
        capacity_events: Some(3000),
        ..FilterSpec::new(kind, window.parse().unwrap())
    };
    for spec in [
        sized(Kind::Bloom, "unbounded"),
        FilterSpec { layout: Some(Layout::Partitioned), ..sized(Kind::Timing, "1h") },
        sized(Kind::Timing, "1h"),
        FilterSpec { jumps: Some(6), ..sized(Kind::Generations, "1h") },
        FilterSpec { jumps: Some(6), ..sized(Kind::Counting, "1h") },
        sized(Kind::Stable, "unbounded"),
        sized(Kind::Cuckoo, "1h"),
        FilterSpec { rate: 1e-8, capacity_events: Some(100_000), ..sized(Kind::Cuckoo, "1h") },
    ] {
        for slicing in ["none", "horizontal:6"] {
            let definition = definition(&spec, slicing);
            let prober = Prober::new(&definition).unwrap();
            assert_eq!(GroupPlan::new(&definition).unwrap(), None);
            let slice = firstseen_filter::FilterSlice::build(&definition.slice().unwrap()).unwrap();
            assert_eq!(prober.shape(), slice.probe_shape(), "{:?} {slicing}", spec.kind);
            let mut positions = Vec::new();
            for key in 0..200 {
                let mut probes = Probes::new(prober.shape());
                prober.push(digest(key), &mut probes);
                let group = prober.group(digest(key));
                assert_eq!(planned(&definition, &prober, key)[0].0, group);
                assert_eq!(prober.head_slice(group, &probes, 0), group);
                positions_of(digest(key), slice.geometry(), &mut positions);
                match prober.shape() {
                    ProbeShape::Spread { .. } => assert_eq!(probes.positions(0), positions),
                    ProbeShape::Blocked { offset_bits, .. } => {
                        assert_eq!(probes.block(0).unwrap().block, positions[0] >> offset_bits);
                    }
                }
            }
        }
    }
}
