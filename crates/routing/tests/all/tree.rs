//! Tests trees of filters. A tree must give the same verdicts as a single filter (Koloniari et al. 2011, section 6,
//! Propositions 3 and 4). It must have no false negatives, and only one submission of an event may get the verdict
//! first-seen.

use std::collections::{HashMap, HashSet};

use crate::common::{Producer, TestRng, definition, digest, spec as filter, stream};
use crate::network::Network;
use crate::network::tree::{ROOT, spec};
use firstseen_filter::{Kind, UnitNumber};
use firstseen_routing::OwedCounts;
use firstseen_routing::{
    Answer, AnswerWhen, CutOff, Decision, FilterId, FilterPolicies, Lookup, Reason, Seen, SlicedDefinition,
    SlicedFilter, Submission, TreeMode, TreeSpec, WhenLost,
};

const MODES: [TreeMode; 2] = [TreeMode::Sparse, TreeMode::Dense];

/// Parents and folds of the places, for trees of two, three and five levels.
const SHAPES: [&[(usize, u8)]; 4] = [
    &[(0, 0), (0, 0), (0, 0), (0, 0)],
    &[(0, 0), (0, 0), (0, 0), (1, 0), (1, 0), (2, 0)],
    &[(0, 0), (0, 0), (1, 0), (2, 0), (3, 0), (3, 0), (0, 0)],
    &[(0, 0), (0, 2), (0, 1), (1, 3), (1, 2), (2, 4)],
];

/// Slicings of a root, each with slicings of levels that have the same number of groups.
const SLICINGS: [(&str, &[&str]); 4] = [
    ("none", &["none", "vertical:3"]),
    ("vertical:4", &["none", "vertical:2"]),
    ("vertical-horizontal:2x2", &["none"]),
    ("horizontal:3", &["horizontal:3", "horizontal-vertical:3x2"]),
];

fn policies(rng: &mut TestRng) -> FilterPolicies {
    FilterPolicies {
        lookup: if rng.below(2) == 0 { Lookup::Pipelined } else { Lookup::Parallel },
        answer: if rng.below(2) == 0 { AnswerWhen::Early } else { AnswerWhen::Safe },
        when_lost: WhenLost::FirstSeen,
        ..FilterPolicies::default()
    }
}

fn forest(mode: TreeMode, shape: &[(usize, u8)], definition: &SlicedDefinition, levels: &[&str], seed: u64) -> Network {
    checking_forest(0, mode, shape, definition, levels, seed)
}

/// Creates a tree in which an event found above level `top_down` is checked at the lower levels.
fn checking_forest(
    top_down: u8,
    mode: TreeMode,
    shape: &[(usize, u8)],
    definition: &SlicedDefinition,
    levels: &[&str],
    seed: u64,
) -> Network {
    let mut rng = TestRng(seed);
    let tree = TreeSpec { top_down, ..spec(mode, shape, levels) };
    Network::of_tree(&tree, definition, policies(&mut rng), rng)
}

#[test]
fn bits_without_folds_give_the_verdicts_of_one_filter_event_by_event() {
    for (seed, (slicing, levels)) in (0..).zip(SLICINGS) {
        for (shape, mode) in SHAPES[..3].iter().flat_map(|shape| MODES.map(|mode| (shape, mode))) {
            // The filter is so small that there are many false positives.
            let definition = definition(&filter(Kind::Bloom, "unbounded", 3000, 4), slicing);
            let mut forest = forest(mode, shape, &definition, levels, seed);
            let (mut producers, mut one) = (Producer::new(7, &definition), SlicedFilter::build(&definition).unwrap());
            let (leaves, mut rng, mut counts) = (forest.leaves(), TestRng(77 + seed), [0, 0]);
            for event in 0..1500 {
                let key = digest(rng.below(900));
                let leaf = leaves[rng.below(leaves.len() as u64) as usize];
                let (decision, seen) = producers.ask_in(&mut forest, leaf, key, 0, true);
                let mut answer = [Answer::default()];
                one.observe_batch(&[key], &[0], &mut answer);
                assert_eq!(decision, answer[0].into(), "{slicing}, {mode:?}, event {event}, seen {seen:?}");
                counts[usize::from(decision == Decision::Duplicate)] += 1;
            }
            assert!(counts.iter().all(|count| *count > 300), "{counts:?}");
        }
    }
}

#[test]
fn every_event_is_tested_where_it_comes_by_until_it_is_found() {
    const EVENTS: u64 = 3_000;
    for mode in MODES {
        let definition = definition(&filter(Kind::Bloom, "unbounded", 1 << 16, 4), "vertical:2");
        let mut forest = forest(mode, SHAPES[2], &definition, &["none"], 3);
        let (mut producers, mut rng, leaves) = (Producer::new(7, &definition), TestRng(4), forest.leaves());
        let deepest: Vec<FilterId> = leaves.iter().copied().filter(|leaf| forest.ancestors(*leaf).len() == 4).collect();
        let levels = 5;
        let (mut hits, mut delivered) = (vec![0; levels], 0);
        for _ in 0..EVENTS {
            let leaf = deepest[rng.below(deepest.len() as u64) as usize];
            match producers.ask_in(&mut forest, leaf, digest(rng.below(700)), 0, true) {
                (Decision::Duplicate, seen) => hits[usize::from(seen.level)] += 1,
                (Decision::FirstSeen, _) => delivered += 1,
                other => panic!("{other:?}"),
            }
        }
        // The counts satisfy accesses(j - 1) = accesses(j) - hits(j), accesses(leaf) = N, and hits + delivered = N. A
        // sparse tree tests the same levels, and also sets delivered events at each level.
        let accesses = forest.accesses();
        assert_eq!(accesses[levels - 1], EVENTS, "{mode:?}");
        for level in 1..levels {
            assert_eq!(accesses[level - 1], accesses[level] - hits[level], "{mode:?}, level {level}");
        }
        assert_eq!(hits.iter().sum::<u64>() + delivered, EVENTS);
        // If siblings share a parent, a dense tree finds at the leaf the events that a sparse tree finds above.
        assert!(hits[levels - 1] > 1_000, "{mode:?}: {hits:?}");
        let above: u64 = hits[..levels - 1].iter().sum();
        assert!(if mode == TreeMode::Dense { above < 800 } else { above > 1_000 }, "{mode:?}: {hits:?}");
    }
}

#[test]
fn nothing_is_first_seen_twice_within_the_window() {
    let kinds = [(Kind::Timing, "10s"), (Kind::Generations, "10s"), (Kind::Bloom, "landmark:10s")];
    for (seed, (kind, window)) in (0..).zip(kinds.iter().cycle().take(12)) {
        let (slicing, levels) = SLICINGS[seed as usize % 4];
        let (shape, mode) = (SHAPES[seed as usize / 3], MODES[seed as usize % 2]);
        let definition = definition(&filter(*kind, window, 1 << 14, 5), slicing);
        let mut forest = forest(mode, shape, &definition, levels, seed);
        let (mut producers, mut rng, leaves) = (Producer::new(7, &definition), TestRng(seed), forest.leaves());
        let stream = stream(&mut rng, 3_000, 1, 20, 300);
        let rule = definition.group.rule;
        // For each key, the unit of the occurrence that counts because it was first-seen.
        let (mut delivered, mut duplicates, mut late) = (HashMap::<u64, UnitNumber>::new(), 0, 0);
        for (event, time_ms) in stream.times_ms.iter().enumerate() {
            let key = rng.below(300);
            let leaf = leaves[rng.below(leaves.len() as u64) as usize];
            let Some(question) = producers.ask(*time_ms, true) else { continue };
            let tick = question.times.ticks[0];
            let place = rule.stamp(tick.unit, tick.clock_unit);
            forest.replies.clear();
            forest.submit_in(leaf, digest(key), question);
            forest.settle();
            let reply = &forest.replies[0];
            match (reply.answers.decisions()[0], place) {
                (Decision::FirstSeen, Some(stamp)) => {
                    let seen = reply.answers.seen()[0];
                    assert_eq!(seen.unit, Some(stamp.unit), "the event's own time counts");
                    let before = delivered.insert(key, stamp.unit);
                    let is_new = before.is_none_or(|unit| rule.expiry(unit) <= stamp.judged);
                    assert!(is_new, "seed {seed}, {kind:?}, event {event}: {before:?} and again at {stamp:?}");
                }
                (Decision::Duplicate, Some(stamp)) => {
                    duplicates += 1;
                    // A find never lasts longer than the window of the first-seen event.
                    let unit = delivered.get(&key).copied().unwrap_or_default();
                    let seen = reply.answers.seen()[0].unit.unwrap_or_default();
                    assert!(rule.expiry(seen) > stamp.judged, "seed {seed}, event {event}: seen {seen} at {stamp:?}");
                    // A folded level is so small that it may have false positives.
                    assert!(
                        seen <= unit || shape == SHAPES[3],
                        "seed {seed}, event {event}: seen {seen}, delivered {unit}"
                    );
                }
                (Decision::Undecided(Reason::Late), None) => late += 1,
                other => panic!("seed {seed}, event {event}: {other:?}"),
            }
        }
        assert!(duplicates > 500 && delivered.len() > 250, "seed {seed}: {duplicates} duplicates, {late} late");
    }
}

#[test]
fn a_leaf_forgets_an_event_of_the_root_when_the_root_does() {
    for kind in [Kind::Timing, Kind::Generations] {
        let definition = definition(&filter(kind, "10s", 1 << 14, 5), "vertical:3");
        let mut forest = forest(TreeMode::Dense, SHAPES[0], &definition, &["none"], 1);
        let (mut producers, leaves) = (Producer::new(7, &definition), forest.leaves());
        let mut ask = |leaf: usize, time_ms: u64| producers.ask_in(&mut forest, leaves[leaf], digest(1), time_ms, true);
        let (span, start_ms) = (definition.group.rule.span_units, 1_000_000);
        let (first, at_a) = ask(0, start_ms);
        assert_eq!(first, Decision::FirstSeen);
        let found = |level, seen: Seen| (Decision::Duplicate, Seen { level, unit: seen.unit });
        assert_eq!(ask(1, start_ms + 8_000), found(0, at_a), "{kind:?}: found at the root");
        assert_eq!(ask(1, start_ms + 8_500), found(1, at_a), "{kind:?}: and then at the leaf, for as long as there");
        let unit_ms = 10_000 / span.saturating_sub(1).max(1);
        let (again, _) = ask(1, start_ms + 10_000 + 2 * unit_ms);
        assert_eq!(again, Decision::FirstSeen, "{kind:?}: its window is over at both");
    }
}

#[test]
fn a_sparse_leaf_does_not_set_events_that_are_known_above() {
    let definition = definition(&filter(Kind::Timing, "10s", 1 << 14, 5), "none");
    let mut forest = forest(TreeMode::Sparse, SHAPES[0], &definition, &["none"], 1);
    let (mut producers, leaves) = (Producer::new(7, &definition), forest.leaves());
    let mut ask = |leaf: usize| producers.ask_in(&mut forest, leaves[leaf], digest(1), 1_000_000, true);
    assert_eq!(ask(0).0, Decision::FirstSeen);
    let levels: Vec<u8> = [0, 1, 1].map(|leaf| ask(leaf).1.level).to_vec();
    assert_eq!(levels, [1, 0, 0]);
}

#[test]
fn of_submissions_at_several_leaves_one_wins() {
    let mut winners = 0;
    for seed in 0..300 {
        let (slicing, levels) = SLICINGS[seed as usize % 4];
        let (shape, mode) = (SHAPES[seed as usize / 4 % 4], MODES[seed as usize % 2]);
        let definition = definition(&filter(Kind::Timing, "1h", 1 << 16, 5), slicing);
        let mut forest = forest(mode, shape, &definition, levels, seed);
        let (mut producers, mut rng, leaves) = (Producer::new(7, &definition), TestRng(seed), forest.leaves());
        for _ in 0..6 {
            let leaf = leaves[rng.below(leaves.len() as u64) as usize];
            let question = producers.ask(1_000_000, true).unwrap();
            forest.submit_in(leaf, digest(1), question);
            (0..rng.below(6)).for_each(|_| _ = forest.deliver());
        }
        forest.settle();
        let decisions = forest.replies.iter().map(|reply| reply.answers.decisions()[0]);
        let first = decisions.clone().filter(|decision| *decision == Decision::FirstSeen).count();
        assert_eq!((first, decisions.count(), forest.inflight()), (1, 6, 0), "seed {seed}, {mode:?}, {slicing}");
        winners += first;
    }
    assert_eq!(winners, 300);
}

#[test]
fn a_level_that_is_lost_in_mid_climb_makes_nothing_a_duplicate_of_itself() {
    let mut lost = 0;
    for seed in 0..400 {
        let (slicing, levels) = SLICINGS[seed as usize % 4];
        let (shape, mode) = (SHAPES[1], MODES[seed as usize % 2]);
        let definition = definition(&filter(Kind::Timing, "1h", 1 << 16, 5), slicing);
        let mut forest = forest(mode, shape, &definition, levels, seed);
        let (mut producers, mut rng, leaves) = (Producer::new(7, &definition), TestRng(seed), forest.leaves());
        let leaf = leaves[rng.below(leaves.len() as u64) as usize];
        let question = producers.ask(1_000_000, true).unwrap();
        forest.submit_in(leaf, digest(1), question.clone());
        (0..rng.below(12)).for_each(|_| _ = forest.deliver());
        // Restarts the root or the level between.
        let above = forest.ancestors(leaf);
        forest.restart_level(above[rng.below(above.len() as u64) as usize]);
        forest.settle();
        let first = forest.replies.pop().map(|reply| reply.answers.decisions()[0]);
        let first = first.expect("an answer");
        assert!(matches!(first, Decision::FirstSeen | Decision::Undecided(Reason::Unknown)), "seed {seed}: {first:?}");
        forest.submit_in(leaf, digest(1), Submission { again: true, ..question });
        forest.settle();
        let again = forest.replies.pop().map(|reply| reply.answers.decisions()[0]).expect("an answer");
        let is_promised = match (first, again) {
            (Decision::FirstSeen, again) => again == Decision::FirstSeen,
            (_, again) => !matches!(again, Decision::Duplicate),
        };
        assert!(is_promised, "seed {seed}, {slicing}, {mode:?}: {first:?}, then {again:?}");
        lost += usize::from(first != Decision::FirstSeen);
        assert_eq!(forest.inflight(), 0);
    }
    assert!(lost > 25, "only {lost} of 400 were lost");
}

#[test]
fn a_leaf_that_is_started_again_makes_nothing_a_duplicate_of_itself() {
    for seed in 0..200 {
        let (mode, shape) = (MODES[seed as usize % 2], SHAPES[1]);
        let definition = definition(&filter(Kind::Timing, "1h", 1 << 16, 5), "vertical:3");
        let mut forest = forest(mode, shape, &definition, &["none"], seed);
        let (mut producers, mut rng, leaves) = (Producer::new(7, &definition), TestRng(seed), forest.leaves());
        let leaf = leaves[rng.below(leaves.len() as u64) as usize];
        let question = producers.ask(1_000_000, true).unwrap();
        forest.submit_in(leaf, digest(1), question.clone());
        (0..rng.below(14)).for_each(|_| _ = forest.deliver());
        forest.restart_level(leaf);
        forest.settle();
        forest.replies.clear();
        forest.submit_in(leaf, digest(1), Submission { again: true, ..question });
        // A producer that has not asked before gets a definite reply.
        let other = producers.ask(1_000_000, true).unwrap();
        forest.submit_in(leaf, digest(2), other);
        forest.settle();
        let decisions: Vec<Decision> = forest.replies.iter().map(|reply| reply.answers.decisions()[0]).collect();
        assert_eq!(decisions.len(), 2);
        assert!(
            !decisions.contains(&Decision::Duplicate) && decisions.contains(&Decision::FirstSeen),
            "seed {seed}: {decisions:?}"
        );
    }
}

#[test]
fn lookups_climb_and_leave_nothing() {
    let definition = definition(&filter(Kind::Timing, "1h", 1 << 14, 5), "vertical:3");
    let mut forest = forest(TreeMode::Dense, SHAPES[1], &definition, &["none"], 1);
    let (mut producers, leaves) = (Producer::new(7, &definition), forest.leaves());
    let mut ask = |leaf: usize, records| {
        let (decision, seen) = producers.ask_in(&mut forest, leaves[leaf], digest(1), 1_000_000, records);
        (decision, seen.level)
    };
    assert_eq!(ask(0, false).0, Decision::FirstSeen);
    assert_eq!(ask(1, true).0, Decision::FirstSeen);
    assert_eq!(ask(1, false), (Decision::Duplicate, 2));
    // A sibling of the leaf finds the event one level up and does not set it.
    assert_eq!([ask(0, false), ask(0, false)], [(Decision::Duplicate, 1); 2]);
    assert_eq!(ROOT, FilterId(1));
}

/// Places of a tree with five levels and siblings at each level.
const DEEP: &[(usize, u8)] =
    &[(0, 0), (0, 0), (0, 0), (1, 0), (1, 0), (2, 0), (3, 0), (3, 0), (5, 0), (6, 0), (6, 0), (8, 0)];

#[test]
fn the_deeper_findings_are_checked_the_fewer_are_false() {
    for (number, mode) in (0..).zip(MODES) {
        let mut false_positives = Vec::new();
        for top_down in 0..=4 {
            let definition = definition(&filter(Kind::Bloom, "unbounded", 4000, 4), "vertical:2");
            let mut forest = checking_forest(top_down, mode, DEEP, &definition, &["none", "vertical:2"], number);
            let (mut producers, mut rng, leaves) = (Producer::new(7, &definition), TestRng(9), forest.leaves());
            let (mut delivered, mut wrong, mut lost) = (HashSet::new(), 0, 0);
            for event in 0..3_000 {
                if event == 1_000 || event == 2_000 {
                    // A level that has lost its cells cannot deny that an event is there.
                    let levels: Vec<FilterId> = forest.map().filters.keys().copied().filter(|id| *id != ROOT).collect();
                    forest.restart_level(levels[rng.below(levels.len() as u64) as usize]);
                }
                let key = rng.below(1_500);
                let leaf = leaves[rng.below(leaves.len() as u64) as usize];
                match producers.ask_in(&mut forest, leaf, digest(key), 0, true).0 {
                    Decision::FirstSeen => lost += u64::from(!delivered.insert(key)),
                    Decision::Duplicate => wrong += u64::from(!delivered.contains(&key)),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(lost, 0, "{mode:?}, down to {top_down}: delivered twice");
            false_positives.push(wrong);
        }
        println!(
            "{mode:?}: false positives of 3,000 events, by the level down to which findings are checked: {false_positives:?}"
        );
        assert!(false_positives.windows(2).all(|pair| pair[1] <= pair[0] + pair[0] / 10), "{false_positives:?}");
        assert!(false_positives[4] * 4 < false_positives[0] * 3, "{false_positives:?}");
    }
}

#[test]
fn a_finding_is_not_false_while_its_event_is_being_set_below() {
    for seed in 0..400 {
        let (slicing, levels) = SLICINGS[seed as usize % 4];
        let definition = definition(&filter(Kind::Timing, "1h", 1 << 16, 5), slicing);
        let mut forest = checking_forest(2, MODES[seed as usize % 2], SHAPES[1], &definition, levels, seed);
        let (mut producers, mut rng, leaves) = (Producer::new(7, &definition), TestRng(seed), forest.leaves());
        for _ in 0..5 {
            let leaf = leaves[rng.below(leaves.len() as u64) as usize];
            let question = producers.ask(1_000_000, true).unwrap();
            forest.submit_in(leaf, digest(1), question);
            (0..rng.below(9)).for_each(|_| _ = forest.deliver());
        }
        forest.settle();
        let decisions = forest.replies.iter().map(|reply| reply.answers.decisions()[0]);
        let first = decisions.clone().filter(|decision| *decision == Decision::FirstSeen).count();
        assert_eq!((first, decisions.count(), forest.inflight()), (1, 5, 0), "seed {seed}, {slicing}");
    }
}

#[test]
fn where_findings_are_checked_events_come_from_leaves() {
    let definition = definition(&filter(Kind::Bloom, "unbounded", 4000, 4), "none");
    let mut forest = checking_forest(1, TreeMode::Dense, SHAPES[0], &definition, &["none"], 1);
    let mut producers = Producer::new(7, &definition);
    let (decision, _) = producers.ask_in(&mut forest, ROOT, digest(1), 0, true);
    assert_eq!(decision, Decision::Undecided(Reason::Invalid));
    assert_eq!(producers.ask_in(&mut forest, ROOT, digest(1), 0, false).0, Decision::FirstSeen);
}

#[test]
fn a_site_that_is_cut_off_decides_as_it_may_and_brings_events_up_afterwards() {
    for (seed, (slicing, levels)) in (0..).zip(SLICINGS) {
        for cut_off in [CutOff::Undecided, CutOff::Local] {
            let definition = definition(&filter(Kind::Timing, "1h", 1 << 16, 5), slicing);
            let tree = TreeSpec { cut_off, ..spec(MODES[seed as usize % 2], SHAPES[1], levels) };
            let mut forest = Network::of_tree(&tree, &definition, FilterPolicies::default(), TestRng(seed));
            let (mut producers, leaves) = (Producer::new(7, &definition), forest.leaves());
            let (cut, other) = (leaves[0], leaves[leaves.len() - 1]);
            let mut ask = |forest: &mut Network, leaf, keys: std::ops::Range<u64>| {
                let observe = |key| producers.ask_in(forest, leaf, digest(key), 1_000_000, true).0;
                keys.map(observe).collect::<Vec<_>>()
            };
            assert_eq!(ask(&mut forest, cut, 0..10), [Decision::FirstSeen; 10]);
            forest.cut_off.insert(cut);
            assert_eq!(ask(&mut forest, cut, 0..10), [Decision::Duplicate; 10], "what the leaf knows");
            assert_eq!(ask(&mut forest, other, 10..15), [Decision::FirstSeen; 5]);
            let alone = ask(&mut forest, cut, 10..30);
            let is_degraded = forest.replies[0].answers.is_degraded();
            forest.wait(5_000);
            forest.settle();
            let expected = match cut_off {
                CutOff::Undecided => Decision::Undecided(Reason::SlicesDown),
                CutOff::Local => Decision::FirstSeen,
            };
            assert_eq!((alone, is_degraded), (vec![expected; 20], cut_off == CutOff::Local), "{slicing}");
            let local_events = if cut_off == CutOff::Local { 20 } else { 0 };
            let counts = forest.owed(cut);
            assert_eq!((counts.local_events, counts.waiting_events), (local_events, local_events));
            forest.cut_off.clear();
            for _ in 0..3 {
                forest.wait(1_500);
                forest.settle();
            }
            let counts = forest.owed(cut);
            let double_deliveries = local_events / 4;
            assert_eq!(counts, OwedCounts { local_events, double_deliveries, ..OwedCounts::default() }, "{slicing}");
            let got = if cut_off == CutOff::Local { Decision::Duplicate } else { Decision::FirstSeen };
            assert_eq!(ask(&mut forest, other, 15..30), [got; 15], "{slicing}, {cut_off:?}");
            assert_eq!(ask(&mut forest, cut, 0..30), [Decision::Duplicate; 30], "{slicing}, {cut_off:?}");
        }
    }
}

/// Tests a retry at a restarted leaf of a filter tree. A first producer submits an event, and its cells are set at the
/// root. Then the leaf restarts, and a second producer submits the same event. Finally the first producer retries its
/// submission, either after the second submission has ended or while it is in flight. The retry must not be called a
/// duplicate, because its own first attempt has set the cells.
#[test]
fn a_retry_at_a_restarted_leaf_is_no_duplicate_of_an_event_that_its_first_try_set() {
    for (mode, waits) in MODES.into_iter().flat_map(|mode| [(mode, true), (mode, false)]) {
        let definition = definition(&filter(Kind::Timing, "1h", 1 << 16, 5), "none");
        let mut forest = forest(mode, SHAPES[0], &definition, &["none"], 5);
        let (mut producers, leaf) = (Producer::new(7, &definition), forest.leaves()[0]);
        let first = producers.ask(1_000_000, true).unwrap();
        forest.submit_in(leaf, digest(1), first.clone());
        forest.settle();
        forest.restart_level(leaf);
        forest.replies.clear();
        let other = producers.ask(1_000_000, true).unwrap();
        forest.submit_in(leaf, digest(1), other);
        if waits {
            forest.settle();
        }
        forest.submit_in(leaf, digest(1), Submission { again: true, ..first.clone() });
        forest.settle();
        let decision =
            |number: u64| forest.replies.iter().find(|reply| reply.reply_to == number).unwrap().answers.decisions()[0];
        assert_eq!(decision(first.reply_to + 1), Decision::Duplicate, "{mode:?}, {waits}: of the first one");
        assert_eq!(decision(first.reply_to), Decision::Undecided(Reason::TooOld), "{mode:?}, {waits}: not of itself");
    }
}
