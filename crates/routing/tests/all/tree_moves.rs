//! Levels of a filter tree whose slices move while events are at other levels.

use crate::common::{definition, spec as filter};
use crate::network::level::{LEAF, Level, climb, decided};
use crate::network::tree::{ROOT, spec};
use firstseen_filter::{Kind, Probes};
use firstseen_mesh::tree_map;
use firstseen_routing::{
    ClusterMap, CutOff, Decision, FilterId, FilterPolicies, FromLevel, Incarnation, Operation, Reason, TreeMode,
    TreeSpec,
};

fn levels(tree: &TreeSpec, slicing: &str) -> ClusterMap {
    let definition = definition(&filter(Kind::Timing, "1h", 1 << 16, 5), slicing);
    tree_map(tree, &definition, FilterPolicies::default()).unwrap()
}

fn leaf(cut_off: CutOff) -> Level {
    let tree = TreeSpec { cut_off, ..spec(TreeMode::Dense, &[(0, 0), (0, 0)], &["vertical:2"]) };
    Level::new(LEAF, levels(&tree, "vertical:2"))
}

const UNKNOWN: Decision = Decision::Undecided(Reason::Unknown);

#[test]
fn a_former_head_decides_nothing_alone() {
    let mut leaf = leaf(CutOff::Local);
    let events: Vec<Probes> = leaf.events().take(2).collect();
    let question = climb(leaf.submit(&events[0], None));
    assert_eq!(decided(leaf.lose(&question)), Some(Decision::FirstSeen));
    assert_eq!(leaf.owner.owed_events(), 1);

    let question = climb(leaf.submit(&events[1], None));
    // Together with the slice, the other node gets the events that this node heads.
    let exchanged = leaf.follow(|record| record.owners.swap(0, 1));
    assert_eq!(decided(exchanged), None, "the level above may have recorded it");
    assert_eq!(decided(leaf.lose(&question)), Some(UNKNOWN), "the other node may have decided it alone");
    assert_eq!(leaf.owner.owed_events(), 1);
}

#[test]
fn a_former_head_wins_nothing_where_the_present_one_may_decide_alone() {
    for (cut_off, wins) in [(CutOff::Local, UNKNOWN), (CutOff::Undecided, Decision::FirstSeen)] {
        let mut leaf = leaf(cut_off);
        let event = leaf.events().next().unwrap();
        let question = climb(leaf.submit(&event, None));
        leaf.follow(|record| record.owners.swap(0, 1));
        assert_eq!(decided(leaf.answer(&question, Decision::FirstSeen)), Some(wins), "{cut_off:?}");
    }
}

/// Another node of the leaf may have recorded an event while this node was away.
#[test]
fn a_leaf_decides_nothing_alone_by_a_slice_that_has_lost_something() {
    let mut leaf = leaf(CutOff::Local);
    let events: Vec<Probes> = leaf.events().take(2).collect();
    let complete_since = leaf.map.filters[&LEAF].owners[0].complete_since;
    leaf.follow(|record| record.owners[0].complete_since = Incarnation(complete_since.0 + 9));
    let question = climb(leaf.submit(&events[0], None));
    assert_eq!(decided(leaf.lose(&question)), Some(UNKNOWN));

    // The slice is complete again and contains the events recorded meanwhile, but the empty cell was found before that.
    let question = climb(leaf.submit(&events[0], None));
    leaf.follow(|record| record.owners[0].complete_since = complete_since);
    assert_eq!(decided(leaf.lose(&question)), Some(UNKNOWN));

    let question = climb(leaf.submit(&events[1], None));
    assert_eq!(decided(leaf.lose(&question)), Some(Decision::FirstSeen));
}

#[test]
fn what_the_levels_below_say_means_nothing_by_another_map() {
    let tree = TreeSpec { top_down: 1, ..spec(TreeMode::Dense, &[(0, 0), (0, 0), (0, 0)], &["none"]) };
    let mut root = Level::new(ROOT, levels(&tree, "none"));
    let event = root.events().next().unwrap();
    let from = Some(FromLevel { filter: LEAF, complete: true });
    assert_eq!(decided(root.submit(&event, from)), Some(Decision::FirstSeen));
    let question = climb(root.submit(&event, from));
    assert_eq!(question.operation, Operation::Verify);
    assert_eq!(
        decided(root.follow(|_| {})),
        Some(Decision::Undecided(Reason::StaleMap)),
        "a retry asks the present head"
    );
    // No lower level knows the event, so it would be recorded as a new event.
    assert_eq!(decided(root.answer(&question, Decision::FirstSeen)), None);
    assert_eq!(root.owner.inflight_events(), 0);
}

/// Levels that are added later may know events that the level above checks.
#[test]
fn a_level_that_was_added_later_is_asked_whether_it_knows_an_event() {
    const ADDED: FilterId = FilterId(LEAF.0 + 1);
    let tree = TreeSpec { top_down: 1, ..spec(TreeMode::Dense, &[(0, 0), (0, 0), (0, 0)], &["none"]) };
    let mut map = levels(&tree, "none");
    let added = map.filters.remove(&ADDED).unwrap();
    let mut root = Level::new(ROOT, map);
    let event = root.events().next().unwrap();
    let from = Some(FromLevel { filter: LEAF, complete: true });
    assert_eq!(decided(root.submit(&event, from)), Some(Decision::FirstSeen));
    assert_eq!(decided(root.submit(&event, from)), Some(Decision::Duplicate), "there is no other level below");

    root.map.filters.insert(ADDED, added);
    root.follow_map();
    let question = climb(root.submit(&event, from));
    assert_eq!((question.to, question.operation), (ADDED, Operation::Verify));
    assert_eq!(decided(root.answer(&question, Decision::Duplicate)), Some(Decision::Duplicate));

    root.map.filters.remove(&ADDED);
    root.follow_map();
    assert_eq!(decided(root.submit(&event, from)), Some(Decision::Duplicate), "the level was removed");
}
