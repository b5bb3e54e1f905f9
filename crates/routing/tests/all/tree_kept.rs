//! The journal of a leaf that decides events alone while it is cut off: the next process reports them.

use firstseen_filter::{Kind, Probes};
use firstseen_mesh::tree_map;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{
    Command, CutOff, Decision, Durability, Entry, FilterPolicies, GroupOwner, LevelQuery, Moment, MonotonicMs,
    Operation, OwnerLimits, Record, TreeMode, TreeSpec,
};

use crate::common::{definition, spec as filter};
use crate::network::level::{LEAF, Level, NOW, climb, decided};
use crate::network::tree::spec;

/// Fold of the leaf, so that it has other positions than the root.
const FOLD: u8 = 2;
/// Moment at which a report is due, whatever the pause between two reports.
const LATER: Moment = Moment { monotonic_ms: MonotonicMs(60_000), ..NOW };

/// Returns the leaf of a durable tree, and the records that it has written when it begins.
fn durable_leaf(limits: OwnerLimits) -> (Level, Vec<Record>) {
    let tree = TreeSpec { cut_off: CutOff::Local, ..spec(TreeMode::Dense, &[(0, 0), (0, FOLD)], &["none"]) };
    let definition = definition(&filter(Kind::Timing, "1h", 1 << 16, 5), "none");
    let policies = FilterPolicies { durability: Durability::Durable, ..FilterPolicies::default() };
    let leaf = Level::with(LEAF, tree_map(&tree, &definition, policies).unwrap(), limits);
    let mut kept = leaf.owner.checkpoint(true);
    kept.push(leaf.owner.checkpoint_end());
    (leaf, kept)
}

/// Moves the records among these commands into `kept`. Returns the other commands.
fn keep(commands: Vec<Command>, kept: &mut Vec<Record>) -> Vec<Command> {
    let mut others = Vec::new();
    for command in commands {
        match command {
            Command::Persist(record) => kept.push(record),
            command => others.push(command),
        }
    }
    others
}

/// Lets the leaf decide events alone.
fn decide_alone(leaf: &mut Level, events: &[Probes], kept: &mut Vec<Record>) {
    for event in events {
        let question = climb(keep(leaf.submit(event, None), kept));
        assert_eq!(decided(keep(leaf.lose(&question), kept)), Some(Decision::FirstSeen));
    }
}

/// Returns the leaf of the next process, which has read these records.
fn next_process(leaf: &Level, kept: &[Record], limits: OwnerLimits) -> Level {
    let mut next = Level::with(LEAF, leaf.map.clone(), limits);
    for entry in kept.iter().flat_map(|record| record.entries.clone()) {
        next.owner.restore(entry, NOW).unwrap();
    }
    next.owner.end_restore(true);
    next.submissions = leaf.submissions;
    next
}

/// Returns the query that reports events to the parent level.
fn report(owner: &mut GroupOwner, kept: &mut Vec<Record>) -> Option<LevelQuery> {
    let mut commands = Vec::new();
    owner.tick(LATER);
    owner.take_commands(&mut commands);
    let query = keep(commands, kept).into_iter().find_map(|command| match command {
        Command::LevelQuery(query) => Some(query),
        _ => None,
    })?;
    assert_eq!(query.operation, Operation::BringUp);
    Some(query)
}

fn positions(probes: &Probes) -> Vec<Vec<u64>> {
    (0..probes.len()).map(|event| probes.positions(event).to_vec()).collect()
}

#[test]
fn events_that_were_decided_alone_are_on_disk_before_their_cells_and_before_the_reply() {
    let (mut leaf, _) = durable_leaf(OwnerLimits::default());
    let event = leaf.events().next().unwrap();
    let question = climb(leaf.submit(&event, None));
    let commands = leaf.lose(&question);
    let kinds: Vec<&str> = commands
        .iter()
        .filter_map(|command| match command {
            Command::Persist(Record { entries, .. }) if matches!(entries[0], Entry::Owed { .. }) => Some("owed"),
            Command::Persist(Record { entries, .. }) if matches!(entries[0], Entry::Set { .. }) => Some("cells"),
            Command::Reply(_) => Some("reply"),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["owed", "cells", "reply"]);
}

#[test]
fn the_next_process_knows_and_reports_what_the_last_one_decided_alone() {
    let (mut leaf, mut kept) = durable_leaf(OwnerLimits::default());
    let events: Vec<Probes> = leaf.events().take(3).collect();
    decide_alone(&mut leaf, &events, &mut kept);

    let mut next = next_process(&leaf, &kept, OwnerLimits::default());
    assert_eq!(next.owner.owed_events(), 3);
    assert_eq!(decided(keep(next.submit(&events[0], None), &mut kept)), Some(Decision::Duplicate));
    let query = report(&mut next.owner, &mut kept).unwrap();
    let of_root: Vec<Vec<u64>> = events.iter().flat_map(positions).collect();
    assert_eq!(positions(&query.probes), of_root, "the positions are those of the root");

    // A process that ends before the answer reports once more.
    let mut next = next_process(&leaf, &kept, OwnerLimits::default());
    let query = report(&mut next.owner, &mut kept).unwrap();
    keep(next.answer_all(&query, Decision::FirstSeen), &mut kept);
    assert_eq!(next.owner.owed_events(), 0);
    assert!(next.owner.is_idle());

    let mut last = next_process(&leaf, &kept, OwnerLimits::default());
    assert_eq!(last.owner.owed_events(), 0, "the parent has answered");
    assert!(report(&mut last.owner, &mut kept).is_none());
}

/// Regression test. A producer that lost the reply of a leaf asked again after the leaf had restarted, and got the same
/// verdict without the mark that another site may have seen the event.
#[test]
fn a_verdict_that_is_repeated_after_a_restart_is_still_marked_as_decided_alone() {
    let (mut leaf, mut kept) = durable_leaf(OwnerLimits::default());
    let event = leaf.events().next().unwrap();
    decide_alone(&mut leaf, std::slice::from_ref(&event), &mut kept);

    let mut next = next_process(&leaf, &kept, OwnerLimits::default());
    next.submissions -= 1;
    let repeated = keep(next.submit(&event, None), &mut kept).into_iter().find_map(|command| match command {
        Command::Reply(reply) => Some((reply.answers.decisions()[0], reply.answers.is_degraded())),
        _ => None,
    });
    assert_eq!(repeated, Some((Decision::FirstSeen, true)));
}

#[test]
fn a_checkpoint_contains_events_that_have_not_been_reported() {
    let (mut leaf, mut kept) = durable_leaf(OwnerLimits::default());
    let events: Vec<Probes> = leaf.events().take(4).collect();
    decide_alone(&mut leaf, &events[..2], &mut kept);
    // Records before the checkpoint may be gone. Those from its beginning on are kept.
    kept = leaf.owner.checkpoint(true);
    decide_alone(&mut leaf, &events[2..3], &mut kept);
    kept.push(leaf.owner.checkpoint_end());
    decide_alone(&mut leaf, &events[3..], &mut kept);

    let mut next = next_process(&leaf, &kept, OwnerLimits::default());
    assert_eq!(next.owner.owed_events(), 4);
    let query = report(&mut next.owner, &mut kept).unwrap();
    keep(next.answer_all(&query, Decision::Duplicate), &mut kept);
    assert_eq!(next_process(&leaf, &kept, OwnerLimits::default()).owner.owed_events(), 0);
}

/// Regression test. If the slices of a group leave a node and come back, the group starts again with the first number. In
/// an earlier version, the next process took its events for those of the former group, and did not report them.
#[test]
fn events_of_a_group_that_has_come_back_are_reported_although_the_former_group_used_their_numbers() {
    let (mut former, mut kept) = durable_leaf(OwnerLimits::default());
    let events: Vec<Probes> = former.events().take(5).collect();
    decide_alone(&mut former, &events[..3], &mut kept);
    let query = report(&mut former.owner, &mut kept).unwrap();
    keep(former.answer_all(&query, Decision::FirstSeen), &mut kept);

    let (mut returned, begun) = durable_leaf(OwnerLimits::default());
    returned.submissions = former.submissions;
    kept.extend(begun);
    decide_alone(&mut returned, &events[3..], &mut kept);
    let mut next = next_process(&returned, &kept, OwnerLimits::default());
    assert_eq!(next.owner.owed_events(), 2);
    let query = report(&mut next.owner, &mut kept).unwrap();
    let of_root: Vec<Vec<u64>> = events[3..].iter().flat_map(positions).collect();
    assert_eq!(positions(&query.probes), of_root);
}

#[test]
fn without_its_rules_a_process_forgets_what_the_last_one_decided_alone() {
    for rule in [Rule::PersistsOwedEvents, Rule::RestoresOwedEvents] {
        let limits = OwnerLimits { rules: Rules::without(rule), ..OwnerLimits::default() };
        let (mut leaf, mut kept) = durable_leaf(limits);
        let events: Vec<Probes> = leaf.events().take(3).collect();
        decide_alone(&mut leaf, &events, &mut kept);
        assert_eq!(next_process(&leaf, &kept, limits).owner.owed_events(), 0, "{rule:?}");
    }
    let limits = OwnerLimits { rules: Rules::without(Rule::ReportsUntilAnswered), ..OwnerLimits::default() };
    let (mut leaf, mut kept) = durable_leaf(limits);
    let event = leaf.events().next().unwrap();
    decide_alone(&mut leaf, &[event], &mut kept);
    report(&mut leaf.owner, &mut kept).unwrap();
    assert_eq!(leaf.owner.owed_events(), 0, "nobody has answered");
}

#[test]
fn entries_of_other_trees_are_refused() {
    let (leaf, kept) = durable_leaf(OwnerLimits::default());
    let mut next = next_process(&leaf, &kept, OwnerLimits::default());
    let mut positions = firstseen_routing::PositionLists::default();
    positions.push([u64::MAX; 5]);
    let entry = Entry::Owed { numbers: vec![1], positions, stamps: vec![Default::default()] };
    next.owner.restore(entry, NOW).unwrap_err();
    assert_eq!(next.owner.owed_events(), 0);
}
