//! Tests filter trees in three ways. A tree over several nodes must give the same verdicts as the same tree in one
//! process. A tree must also agree with a single filter. Specifications of invalid trees must be rejected.

mod model;

use crate::common::{Producer, TestRng, definition, digest, fingerprints, spec as filter, stream};
use crate::network::Network;
use crate::network::tree::spec;
use firstseen_filter::{FilterSpec, Kind, Refresh};
use firstseen_routing::{Answer, Decision, FilterPolicies, SlicedDefinition, SlicedFilter, TreeMode, TreeSpec};
use model::EmbeddedTree;

const MODES: [TreeMode; 2] = [TreeMode::Sparse, TreeMode::Dense];

/// Parents and folds of the places, for trees of two, three and five levels, and for folded trees.
const SHAPES: [&[(usize, u8)]; 4] = [
    &[(0, 0), (0, 0), (0, 0), (0, 0)],
    &[(0, 0), (0, 0), (0, 0), (1, 0), (1, 0), (2, 0)],
    &[(0, 0), (0, 0), (1, 0), (2, 0), (3, 0), (3, 0), (0, 0)],
    &[(0, 0), (0, 2), (0, 1), (1, 3), (1, 2), (2, 4)],
];

#[test]
fn a_tree_over_nodes_decides_as_one_in_one_process() {
    let kinds = [(Kind::Timing, "10s"), (Kind::Generations, "10s"), (Kind::Bloom, "landmark:10s")];
    let fingerprinted = [(Kind::Cuckoo, "10s"); 4];
    for (seed, (kind, window)) in (0..).zip(kinds.iter().cycle().take(12).chain(&fingerprinted)) {
        // In the kind `generations`, slices that share events report an expiry that is slightly early, but never late.
        let (slicing, levels) = match (kind, seed % 2) {
            (Kind::Generations, _) | (Kind::Cuckoo, _) | (_, 0) => ("none", ["none"]),
            _ => ("vertical:4", ["vertical:2"]),
        };
        let (shape, mode) = match kind {
            // These trees are not folded.
            Kind::Cuckoo => (SHAPES[seed as usize % 3], MODES[seed as usize % 2]),
            _ => (SHAPES[seed as usize % 4], MODES[seed as usize / 6]),
        };
        // The filter is so small that levels have occasional false positives.
        let definition = match kind {
            Kind::Cuckoo => definition(&FilterSpec { lateness_ms: Some(600), ..fingerprints(window, 3_000) }, slicing),
            _ => definition(&filter(*kind, window, 1 << 12, 4), slicing),
        };
        let tree = spec(mode, shape, &levels);
        let mut forest = Network::of_tree(&tree, &definition, FilterPolicies::default(), TestRng(seed));
        let mut one_place = EmbeddedTree::new(&tree, &definition);
        let (mut producers, mut rng, leaves) = (Producer::new(7, &definition), TestRng(seed), forest.leaves());
        let stream = stream(&mut rng, 2_000, 1, 20, 300);
        let mut found = [0; 5];
        for (event, time_ms) in stream.times_ms.iter().enumerate() {
            let key = digest(rng.below(400));
            let leaf = leaves[rng.below(leaves.len() as u64) as usize];
            let Some(question) = producers.ask(*time_ms, true) else { continue };
            let tick = question.times.ticks[0];
            let Some(stamp) = definition.group.rule.stamp(tick.unit, tick.clock_unit) else { continue };
            forest.replies.clear();
            forest.submit_in(leaf, key, question);
            forest.settle();
            let reply = (forest.replies[0].answers.decisions()[0], forest.replies[0].answers.seen()[0].level);
            let place = one_place.place(&forest.map().filters[&leaf].name).unwrap();
            let expected = one_place.observe(place, key, stamp);
            assert_eq!(reply.0, expected.decision, "seed {seed}, {kind:?}, {mode:?}, event {event}");
            if reply.0 == Decision::Duplicate {
                assert_eq!(reply.1, expected.level, "seed {seed}, event {event}");
                found[usize::from(reply.1)] += 1;
            }
        }
        let mut accesses = vec![0; 5];
        one_place.loads().for_each(|(place, tested)| accesses[usize::from(place.level)] += tested);
        assert!(forest.accesses().iter().zip(&accesses).all(|(nodes, one)| nodes == one), "seed {seed}");
        assert!(found.iter().sum::<u64>() > 300, "seed {seed}: {found:?}");
    }
}

#[test]
fn with_timers_a_tree_differs_little_from_one_filter() {
    for mode in MODES {
        let definition = definition(&filter(Kind::Timing, "10s", 6_000, 4), "none");
        let tree = spec(mode, SHAPES[1], &["none"]);
        let mut tree = EmbeddedTree::new(&tree, &definition);
        let mut one = SlicedFilter::build(&definition).unwrap();
        let (mut rng, mut clock) = (TestRng(8), Producer::new(7, &definition));
        let leaves: Vec<usize> =
            tree.loads().enumerate().filter(|(_, (place, _))| place.level == 2).map(|(at, _)| at).collect();
        let stream = stream(&mut rng, 20_000, 1, 5, 300);
        let (mut differ, mut events) = (0, 0);
        for time_ms in &stream.times_ms {
            let (key, leaf) = (digest(rng.below(3_000)), leaves[rng.below(leaves.len() as u64) as usize]);
            let Some(question) = clock.ask(*time_ms, true) else { continue };
            let tick = question.times.ticks[0];
            let Some(stamp) = definition.group.rule.stamp(tick.unit, tick.clock_unit) else { continue };
            let mut answer = [Answer::default()];
            one.observe_batch(&[key], &[*time_ms], &mut answer);
            events += 1;
            differ += u64::from(tree.observe(leaf, key, stamp).decision != answer[0].into());
        }
        println!("{mode:?}: {differ} of {events} verdicts differ from those of one filter");
        assert!(differ * 20 < events, "{mode:?}: {differ} of {events}");
    }
}

#[test]
fn invalid_trees_are_refused_with_the_fault() {
    let plain = definition(&filter(Kind::Timing, "1h", 1 << 12, 4), "none");
    let folded: &[(usize, u8)] = &[(0, 0), (0, 3), (1, 2)];
    let refusal = |tree: &TreeSpec, definition: &SlicedDefinition| {
        let sites = tree.places.iter().flat_map(|place| &place.sites).map(String::as_str).collect();
        tree.plan(definition, &sites).unwrap_err().to_string()
    };
    let dense = |shape: &[(usize, u8)]| spec(TreeMode::Dense, shape, &["none"]);
    assert!(
        refusal(&dense(folded), &plain).contains("`place-2` with fold 2 would be larger than its parent `place-1`")
    );
    assert!(refusal(&dense(&[(0, 0), (0, 40)]), &plain).contains("fold 40 leaves no cells"));
    let deep: Vec<(usize, u8)> = (0..7).map(|place: usize| (place.saturating_sub(1), 0)).collect();
    assert!(refusal(&dense(&deep), &plain).contains("7 levels deep: at most 6"));
    let checking = TreeSpec { top_down: 2, ..dense(SHAPES[0]) };
    assert!(refusal(&checking, &plain).contains("choose 0 to 1"));
    let refreshing = FilterSpec { refresh: Refresh::Refresh, ..filter(Kind::Timing, "1h", 1 << 12, 4) };
    assert!(refusal(&dense(SHAPES[0]), &definition(&refreshing, "none")).contains("cannot refresh windows"));
    let blocked = FilterSpec { layout: None, ..filter(Kind::Timing, "1h", 1 << 12, 4) };
    assert!(refusal(&dense(SHAPES[0]), &definition(&blocked, "none")).contains("--layout classic"));
    let prints = definition(&fingerprints("1h", 1_000), "none");
    let whole = dense(SHAPES[0]);
    let places = whole.plan(&prints, &whole.places.iter().flat_map(|place| &place.sites).map(String::as_str).collect());
    assert!(places.is_ok_and(|places| places.iter().all(|place| place.definition.group == prints.group)));
    assert!(refusal(&dense(folded), &prints).contains("fold 0"));
    let divided = spec(TreeMode::Dense, SHAPES[0], &["vertical:2"]);
    assert!(refusal(&divided, &prints).contains("kind cuckoo cannot be sliced `vertical:2` at a place"));
    let refreshing = FilterSpec { refresh: Refresh::Refresh, ..fingerprints("1h", 1_000) };
    assert!(refusal(&dense(SHAPES[0]), &definition(&refreshing, "none")).contains("cannot refresh windows"));
    let counted = filter(Kind::Bloom, "landmark:1000events", 1 << 12, 4);
    assert!(refusal(&dense(SHAPES[0]), &definition(&counted, "none")).contains("counts events"));
}

#[test]
fn a_folded_leaf_has_room_for_its_share_only() {
    let spec = FilterSpec {
        capacity_events: Some(8_000),
        layout: Some(firstseen_filter::Layout::Classic),
        ..FilterSpec::new(Kind::Generations, "10s".parse().unwrap())
    };
    let root = definition(&spec, "none");
    let leaf = firstseen_routing::folded(&root, 3, firstseen_routing::Slicing::NONE).unwrap();
    let jumps = |definition: &SlicedDefinition| match definition.group.cells {
        firstseen_filter::CellDefinition::Generations(firstseen_filter::GenerationCells {
            growth: Some(growth),
            ..
        }) => growth.jumps.map(|jumps| jumps.events),
        _ => None,
    };
    let (root, leaf) = (jumps(&root).unwrap(), jumps(&leaf).unwrap());
    assert!((root - 8.0 * leaf).abs() < 1e-6 * root, "{root} at the root, {leaf} at the leaf");
}
