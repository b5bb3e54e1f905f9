//! Checks how many slices and nodes are visited to test and record an event. For every event, the counts must equal
//! those of the simple model in `replay.rs`. The averages over a stream must also agree with the formulas of Koloniari
//! et al. 2011, section 3.1.

use crate::common::{Producer, TestRng, definition, digest, fingerprints, spec, stream};
use crate::network::{Network, random_owners};
use crate::replay::{Visits, replay};
use firstseen_filter::rates::slicing;
use firstseen_filter::{FilterSlice, Kind, Placed, WindowClock};
use firstseen_routing::{
    Decision, FilterPolicies, Lookup, NodeId, OwnerLimits, Route, SlicePlan, SlicedDefinition, Step,
};

/// Sends a stream through nodes, and through the model with separate slices.
fn follows_the_replay(definition: &SlicedDefinition, nodes: u64, lookup: Lookup, seed: u64) {
    let mut rng = TestRng(seed);
    let stream = stream(&mut rng, 1200, 500, 5, 0);
    let owners = random_owners(&mut rng, definition.slicing.slices(), nodes);
    let policies = FilterPolicies { lookup, ..FilterPolicies::default() };
    let mut network = Network::new(definition, policies, &owners, OwnerLimits::default(), TestRng(rng.roll()));
    let mut producer = Producer::new(1, definition);

    let slice = definition.slice().unwrap();
    let mut slices: Vec<FilterSlice> = owners.iter().map(|_| FilterSlice::build(&slice).unwrap()).collect();
    let plan = SlicePlan::new(definition.slicing, *slices[0].geometry()).unwrap();
    let mut clock = WindowClock::new(slice.unit.clone(), slice.rule, slice.future_max_ms);
    let (mut route, mut sum, mut sets) = (Route::default(), Visits::default(), 0);
    for (event, (digest, time_ms)) in stream.digests.iter().zip(&stream.times_ms).enumerate() {
        let records = rng.below(8) > 0;
        let decision = producer.ask_alone(&mut network, *digest, *time_ms, records);
        let Placed::At(stamp) = clock.place(Some(*time_ms)) else {
            assert!(matches!(decision, Decision::Undecided(_)));
            continue;
        };
        plan.route(*digest, &mut route);
        let steps: Vec<Step<'_>> = route.steps().collect();
        let held = |step: &Step<'_>| slices[step.slice as usize].test_at(step.positions, stamp).unwrap().generations;
        let visits = replay(&steps, |slice| owners[slice as usize], lookup, held);
        sum.test_slices += visits.test_slices;
        sum.test_nodes += visits.test_nodes;
        sum.positions_tested += visits.positions_tested;
        if visits.generations == 0 && records {
            sets += 1;
            sum.set_slices += visits.set_slices;
            sum.set_nodes += visits.set_nodes;
            steps.iter().for_each(|step| assert!(slices[step.slice as usize].set_at(step.positions, stamp)));
        }
        assert_eq!(decision == Decision::Duplicate, visits.generations != 0, "seed {seed}, event {event}");
        let hops = network.hops();
        let what = format!("{} on {nodes} nodes, {lookup:?}, seed {seed}, event {event}", definition.slicing);
        assert_eq!((hops.test_slices, hops.test_nodes), (sum.test_slices, sum.test_nodes), "{what}");
        assert_eq!((hops.sets, hops.set_slices, hops.set_nodes), (sets, sum.set_slices, sum.set_nodes), "{what}");
    }
    let positions = network.mesh.owners_mut().values_mut().flat_map(|owner| owner.state(usize::MAX).slices);
    assert_eq!(positions.map(|slice| slice.load.positions_tested).sum::<u64>(), sum.positions_tested);
}

#[test]
fn visits_are_those_of_a_replay() {
    let cuts = ["vertical:1", "vertical:6", "vertical:12", "horizontal-vertical:2x6", "vertical-horizontal:3x3"];
    for (index, cut) in cuts.iter().enumerate() {
        for (kind, window) in [(Kind::Bloom, "unbounded"), (Kind::Timing, "2s"), (Kind::Generations, "2s")] {
            let definition = definition(&spec(kind, window, 900, 5), cut);
            for lookup in [Lookup::Pipelined, Lookup::Parallel] {
                for nodes in [1 + index as u64 % 3, 4] {
                    follows_the_replay(&definition, nodes, lookup, 10 + index as u64);
                }
            }
        }
    }
    for slicing in ["none", "horizontal:5"] {
        let definition = definition(&fingerprints("2s", 900), slicing);
        follows_the_replay(&definition, 3, Lookup::Pipelined, 20);
    }
}

#[test]
fn a_replay_visits_a_node_once_and_stops_at_the_first_zero() {
    let positions = [1, 2, 3];
    let steps: Vec<Step<'_>> = (0..3).map(|slice| Step { slice, positions: &positions[slice as usize..] }).collect();
    let node_of = |slice: u32| NodeId(u64::from(slice % 2));
    let all = replay(&steps, node_of, Lookup::Pipelined, |_| 5);
    assert_eq!((all.test_slices, all.test_nodes, all.positions_tested, all.generations), (3, 2, 6, 5));
    // Slice 2 is tested before slice 1, together with slice 0, because both are on the same node.
    let zero = replay(&steps, node_of, Lookup::Pipelined, |step| u16::from(step.slice != 2));
    assert_eq!((zero.test_slices, zero.test_nodes, zero.set_slices, zero.set_nodes), (2, 1, 3, 2));
    let masks = replay(&steps, node_of, Lookup::Pipelined, |step| 1 << step.slice);
    assert_eq!((masks.test_slices, masks.generations), (2, 0), "no generation holds it all");
}

/// Returns the mean number of slices visited by a test, over a stream in which `duplicates` of ten events have occurred
/// before.
fn mean_visits(hashes: u32, distinct: u64, cells: u64, duplicates: u64) -> f64 {
    const SLICES: u32 = 40;
    let definition = definition(&spec(Kind::Bloom, "unbounded", cells, hashes), "vertical:40");
    let owners: Vec<NodeId> = (0..u64::from(SLICES)).map(NodeId).collect();
    let limits = OwnerLimits::default();
    let mut network = Network::new(&definition, FilterPolicies::default(), &owners, limits, TestRng(1));
    let mut producer = Producer::new(1, &definition);
    let (mut rng, mut keys, mut events) = (TestRng(3), 0, 0u64);
    while keys < distinct {
        let key = if keys > 0 && rng.below(10) < duplicates {
            rng.below(keys)
        } else {
            keys += 1;
            keys - 1
        };
        producer.ask_alone(&mut network, digest(key), 1000, true);
        events += 1;
    }
    let hops = network.hops();
    assert_eq!(hops.test_slices, hops.test_nodes, "a slice a node");
    hops.test_slices as f64 / events as f64
}

#[test]
fn mean_visits_are_those_of_the_formula() {
    for hashes in [4, 8] {
        let distinct = 4000;
        // The filter is half full at the end.
        let cells = (distinct as f64 * f64::from(hashes) / std::f64::consts::LN_2) as u64;
        for duplicates in [2, 5, 8] {
            let share = duplicates as f64 / 10.0;
            let formula = slicing::stream_visits(40, hashes, cells as f64, distinct as f64, share).test;
            let measured = mean_visits(hashes, distinct, cells, duplicates);
            let what = format!("k = {hashes}, {}0 % distinct", 10 - duplicates);
            println!("{what}: {measured:.4} slices, by the formula {formula:.4}");
            assert!((measured / formula - 1.0).abs() < 0.02, "{what}: {measured}, by the formula {formula}");
        }
    }
}
