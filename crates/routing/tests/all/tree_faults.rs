//! Tests filter trees that check duplicates at lower levels, whose leaves answer alone, or that lose a part of a level.

use crate::common::{Producer, TestRng, definition, digest, spec as filter};
use crate::network::Network;
use crate::network::tree::spec;
use firstseen_filter::{FilterSpec, Kind, Layout};
use firstseen_routing::{
    Answer, CutOff, Decision, FilterId, FilterPolicies, Seen, SlicedDefinition, SlicedFilter, Submission, TreeMode,
    TreeSpec,
};

const MODES: [TreeMode; 2] = [TreeMode::Sparse, TreeMode::Dense];
const NOW_MS: u64 = 1_000_000;

fn grow(tree: &TreeSpec, definition: &SlicedDefinition) -> (Network, Producer, Vec<FilterId>) {
    let forest = Network::of_tree(tree, definition, FilterPolicies::default(), TestRng(1));
    let leaves = forest.leaves();
    (forest, Producer::new(7, definition), leaves)
}

#[test]
fn a_leaf_that_has_lost_a_part_cannot_deny_an_event_found_above() {
    for mode in MODES {
        let definition = definition(&filter(Kind::Timing, "1h", 1 << 16, 5), "none");
        let tree = TreeSpec { top_down: 1, ..spec(mode, &[(0, 0), (0, 0), (0, 0)], &["vertical:2"]) };
        let (mut forest, mut producers, leaves) = grow(&tree, &definition);
        let mut observe = |forest: &mut Network| -> Vec<Decision> {
            (0..200).map(|key| producers.ask_in(forest, leaves[0], digest(key), NOW_MS, true).0).collect()
        };
        assert_eq!(observe(&mut forest), [Decision::FirstSeen; 200], "{mode:?}");
        let second = forest.map().filters[&leaves[0]].owners[1].node;
        forest.restart_of(leaves[0], &[second].into());
        assert_eq!(observe(&mut forest), [Decision::Duplicate; 200], "{mode:?}");
    }
}

/// Checks Proposition 4 of Koloniari et al. 2011, section 6, which states that an event that is first-seen in a single
/// filter is also first-seen in a tree of filters. The proposition must also hold for trees that check found duplicates
/// at their lower levels.
#[test]
fn an_event_that_is_new_in_one_filter_is_new_in_a_tree_that_checks() {
    let shape: &[(usize, u8)] = &[(0, 0), (0, 0), (0, 0), (1, 0), (1, 0), (2, 0)];
    for (mode, slicing) in MODES.into_iter().flat_map(|mode| ["none", "vertical:4"].map(|slicing| (mode, slicing))) {
        let mut false_positives = Vec::new();
        for top_down in 0..=2 {
            let definition = definition(&filter(Kind::Bloom, "unbounded", 3000, 4), slicing);
            let tree = TreeSpec { top_down, ..spec(mode, shape, &["none"]) };
            let (mut forest, mut producers, leaves) = grow(&tree, &definition);
            let mut one = SlicedFilter::build(&definition).unwrap();
            let (mut rng, mut seen, mut wrong) = (TestRng(77), std::collections::HashSet::new(), 0);
            for event in 0..2000 {
                let key = rng.below(1200);
                let leaf = leaves[rng.below(leaves.len() as u64) as usize];
                let decision = producers.ask_in(&mut forest, leaf, digest(key), 0, true).0;
                let mut answer = [Answer::default()];
                one.observe_batch(&[digest(key)], &[0], &mut answer);
                let is_new_to_one = Decision::from(answer[0]) == Decision::FirstSeen;
                assert!(!is_new_to_one || decision == Decision::FirstSeen, "{mode:?}, {slicing}, event {event}");
                let is_new = seen.insert(key);
                assert!(is_new || decision == Decision::Duplicate, "{mode:?}, {slicing}, event {event}");
                wrong += u64::from(is_new && decision == Decision::Duplicate);
            }
            false_positives.push(wrong);
        }
        println!("{mode:?}, {slicing}: false positives by top-down level {false_positives:?}");
        assert!(
            false_positives[0] > false_positives[1] && false_positives[1] > false_positives[2],
            "{false_positives:?}"
        );
    }
}

#[test]
fn a_leaf_without_room_decides_nothing_alone() {
    let one_filter = FilterSpec {
        capacity_events: Some(800),
        layout: Some(Layout::Classic),
        ..FilterSpec::new(Kind::Timing, "1h".parse().unwrap())
    };
    let definition = definition(&one_filter, "none");
    let tree = TreeSpec { cut_off: CutOff::Local, ..spec(TreeMode::Dense, &[(0, 0), (0, 3), (0, 3)], &["none"]) };
    let (mut forest, mut producers, leaves) = grow(&tree, &definition);
    for key in 0..150 {
        producers.ask_in(&mut forest, leaves[0], digest(key), NOW_MS, true);
    }
    forest.cut_off.insert(leaves[0]);
    for _ in 0..5 {
        let decision = producers.ask_in(&mut forest, leaves[0], digest(9999), NOW_MS, true).0;
        assert!(matches!(decision, Decision::Undecided(_)), "{decision:?}");
    }
    assert_eq!(forest.owed(leaves[0]).local_events, 0);
}

#[test]
fn an_event_that_a_leaf_decided_alone_counts_for_a_whole_window_everywhere() {
    for (slicing, mode) in
        [("none", TreeMode::Sparse), ("vertical:4", TreeMode::Dense), ("horizontal:3", TreeMode::Dense)]
    {
        let definition = definition(&filter(Kind::Timing, "10s", 1 << 16, 5), slicing);
        let levels = if slicing == "horizontal:3" { ["horizontal:3"] } else { ["none"] };
        let shape: &[(usize, u8)] = &[(0, 0), (0, 0), (1, 1), (1, 0), (0, 0)];
        let tree = TreeSpec { cut_off: CutOff::Local, ..spec(mode, shape, &levels) };
        let (mut forest, mut producers, leaves) = grow(&tree, &definition);
        let (cut, elsewhere) = (leaves[0], leaves[2]);
        let mut ask = |forest: &mut Network, leaf, time_ms| producers.ask_in(forest, leaf, digest(1), time_ms, true).0;
        assert_eq!(ask(&mut forest, elsewhere, NOW_MS), Decision::FirstSeen);
        forest.cut_off.insert(cut);
        assert_eq!(ask(&mut forest, cut, NOW_MS + 6_000), Decision::FirstSeen, "{slicing}");
        forest.cut_off.clear();
        forest.wait(2_000);
        forest.settle();
        assert_eq!(forest.owed(cut).double_deliveries, 1, "{slicing}");
        assert_eq!(
            ask(&mut forest, elsewhere, NOW_MS + 12_000),
            Decision::Duplicate,
            "{slicing}: of the one that a leaf decided alone"
        );
        assert_eq!(ask(&mut forest, elsewhere, NOW_MS + 17_000), Decision::FirstSeen, "{slicing}: its window is over");
    }
}

#[test]
fn a_retry_is_found_at_no_level() {
    let definition = definition(&filter(Kind::Timing, "1h", 1 << 16, 5), "none");
    let (mut forest, mut producers, leaves) = grow(&spec(TreeMode::Dense, &[(0, 0), (0, 0)], &["none"]), &definition);
    producers.ask_in(&mut forest, leaves[0], digest(1), NOW_MS, true);
    let question = producers.ask(NOW_MS, true).unwrap();
    let mut decide = |question: Submission| {
        forest.replies.clear();
        forest.submit_in(leaves[0], digest(1), question);
        forest.settle();
        (forest.replies[0].answers.decisions()[0], forest.replies[0].answers.seen()[0].level)
    };
    assert_eq!(decide(question.clone()), (Decision::Duplicate, 1));
    assert_eq!(decide(Submission { again: true, ..question }), (Decision::Duplicate, Seen::LEVEL_FORGOTTEN));
}
