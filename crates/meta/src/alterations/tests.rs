//! Tests which filters can be altered, when the predecessor ends, and when it is removed.

use firstseen_filter::{FilterSpec, Kind, Refresh, UnitNumber};
use firstseen_routing::{Epoch, FilterId, FilterRecord, Incarnation, NodeId, SecretMaterial, SlicedDefinition};

use crate::change::{AlteredFilter, Change};
use crate::command::{Command, Outcome};
use crate::placement::used_bytes;
use crate::refusal::Refusal;
use crate::state::tests::{Cluster, definition, filter};

const FORMER: FilterId = FilterId(1);
const FOLLOWER: FilterId = FilterId(2);

fn cluster(nodes: u64, slicing: &str) -> Cluster {
    let mut cluster = Cluster::new(nodes, 1 << 30);
    cluster.ask(filter("a", definition(Kind::Timing, 1000, slicing), false)).unwrap();
    cluster
}

fn alteration(filter: FilterId, definition: SlicedDefinition, forgets: bool) -> AlteredFilter {
    AlteredFilter { name: "a".into(), filter, definition, secret: None, forgets }
}

fn altered(filter: FilterId, definition: SlicedDefinition) -> Change {
    Change::AlterFilter(alteration(filter, definition, false))
}

fn restarted_alteration(cluster: &Cluster, filter: FilterId) -> Change {
    Change::AlterFilter(alteration(filter, record(cluster, filter).definition.clone(), true))
}

fn larger(slicing: &str) -> SlicedDefinition {
    definition(Kind::Timing, 5000, slicing)
}

fn record(cluster: &Cluster, filter: FilterId) -> &FilterRecord {
    &cluster.state.map().filters[&filter]
}

fn ended(node: u64, start: u64, newest_unit: u64) -> Change {
    Change::FilterEnded {
        filter: FORMER,
        node: NodeId(node),
        incarnation: Incarnation(start),
        newest_unit: UnitNumber(newest_unit),
    }
}

fn passed(node: u64) -> Change {
    Change::FilterPassed { filter: FORMER, node: NodeId(node), incarnation: Incarnation(1) }
}

fn reason(refused: Result<Outcome, Refusal>) -> String {
    refused.unwrap_err().to_string()
}

#[test]
fn another_filter_follows_under_the_name_and_the_former_goes_when_all_have_said_so() {
    let mut cluster = cluster(2, "horizontal:2");
    let before = used_bytes(cluster.state.map());
    let done = cluster.ask(altered(FORMER, larger("horizontal:4"))).unwrap();
    assert_eq!(done, Outcome::FilterCreated { filter: FOLLOWER, existed: false });
    let map = cluster.state.map();
    assert_eq!(map.filter_named("a").unwrap().0, FOLLOWER);
    assert_eq!(map.filter_named("a~former").unwrap().0, FORMER);
    assert_eq!(map.former_of(FOLLOWER).unwrap().0, FORMER);
    assert_eq!(map.follower_of(FORMER, FORMER).unwrap().0, FOLLOWER);
    assert_eq!((record(&cluster, FORMER).epoch, record(&cluster, FOLLOWER).owners.len()), (Epoch(2), 4));
    assert_eq!(cluster.state.secrets()[&FOLLOWER], SecretMaterial([9; 32]), "it stays unless another is asked for");
    assert!(used_bytes(cluster.state.map())[&NodeId(1)] > before[&NodeId(1)]);
    cluster.ask(passed(1)).unwrap();
    cluster.ask(ended(1, 1, 7)).unwrap();
    cluster.ask(ended(2, 9, 99)).unwrap();
    assert_eq!(record(&cluster, FORMER).epoch, Epoch(2), "another start of node 2 was meant");
    assert_eq!(record(&cluster, FORMER).passes_at_unit(), None);
    cluster.ask(ended(2, 1, 5)).unwrap();
    let former = record(&cluster, FORMER);
    let rule = former.definition.group.rule;
    assert_eq!(former.epoch, Epoch(3), "what was asked before counts no more");
    assert_eq!(former.passes_at_unit(), Some(rule.expiry(UnitNumber(7)).after(rule.lateness_units)));
    cluster.ask(passed(1)).unwrap();
    assert!(cluster.state.map().filters.contains_key(&FORMER), "node 2 has not said so");
    let group = record(&cluster, FORMER).owners.iter().position(|owner| owner.node == NodeId(2)).unwrap() as u32;
    let missing = Change::SlicesMissing { filter: FORMER, group, node: NodeId(2), incarnation: Incarnation(1) };
    cluster.ask(missing).unwrap();
    let closed = record(&cluster, FORMER).line.closed.clone().unwrap();
    assert!(closed.passed.is_empty(), "others may be asked now: all say it again");
    cluster.ask(passed(2)).unwrap();
    assert!(cluster.state.map().filters.contains_key(&FORMER), "node 1 has not said so again");
    cluster.ask(passed(1)).unwrap();
    let map = cluster.state.map();
    assert!(!map.filters.contains_key(&FORMER) && !cluster.state.secrets().contains_key(&FORMER));
    assert_eq!(map.follower_of(FORMER, FORMER).unwrap().0, FOLLOWER, "who has been away finds it");
    cluster.ask(passed(1)).unwrap();
    cluster.ask(ended(1, 1, 7)).unwrap();
}

#[test]
fn one_alteration_at_a_time_and_each_once() {
    let mut cluster = cluster(2, "vertical:2");
    let command = Command::new([77; 16], altered(FORMER, larger("vertical:2")));
    let done = cluster.state.apply(100, command.clone()).unwrap();
    let map = cluster.state.map().clone();
    assert_eq!(cluster.state.apply(101, command), Ok(done));
    assert_eq!(cluster.state.map(), &map, "asked twice, it is done once");
    assert!(
        reason(cluster.ask(altered(FORMER, larger("vertical:3")))).contains("altered or recreated in the meantime")
    );
    assert!(reason(cluster.ask(altered(FOLLOWER, larger("vertical:3")))).contains("being altered: wait"));
    let former = AlteredFilter { name: "a~former".into(), ..alteration(FORMER, larger("vertical:3"), false) };
    assert!(reason(cluster.ask(Change::AlterFilter(former))).contains("alter that filter instead"));
    assert!(reason(cluster.ask(Change::DropFilter { name: "a~former".into() })).contains("--finish"));
    cluster.ask(Change::FinishAlteration { name: "a".into() }).unwrap();
    assert_eq!(cluster.state.map().filters.keys().collect::<Vec<_>>(), [&FOLLOWER]);
    cluster.ask(Change::FinishAlteration { name: "a".into() }).unwrap();
    cluster.ask(altered(FOLLOWER, larger("vertical:3"))).unwrap();
    let third = cluster.state.map().filter_named("a").unwrap();
    assert_eq!((third.0, third.1.line.origin), (FilterId(3), Some(FORMER)), "one line, from its first on");
    cluster.ask(Change::DropFilter { name: "a".into() }).unwrap();
    assert!(cluster.state.map().filters.is_empty() && cluster.state.secrets().is_empty(), "both are dropped");
}

#[test]
fn a_filter_is_altered_from_one_kind_to_another_and_back() {
    let mut cluster = cluster(2, "horizontal:2");
    let mut newest = FORMER;
    for kind in [Kind::Cuckoo, Kind::Generations, Kind::Cuckoo] {
        let wanted = definition(kind, 4000, "horizontal:2");
        cluster.ask(altered(newest, wanted.clone())).unwrap();
        let (next, record) = cluster.state.map().filter_named("a").unwrap();
        assert!(next != newest && record.definition == wanted, "{kind}");
        assert!(cluster.state.map().former_of(next).is_some(), "{kind}: the former is there until its events expire");
        cluster.ask(Change::FinishAlteration { name: "a".into() }).unwrap();
        newest = next;
    }
}

#[test]
fn what_cannot_be_altered_is_refused_and_nothing_has_changed() {
    let counted = |kind, window: &str, refresh| {
        let spec = FilterSpec { capacity_events: Some(500), refresh, ..FilterSpec::new(kind, window.parse().unwrap()) };
        SlicedDefinition::new(&spec, "none".parse().unwrap()).unwrap()
    };
    for (definition, said) in [
        (definition(Kind::Bloom, 1000, "horizontal:2"), "no window"),
        (definition(Kind::Stable, 1000, "none"), "kind stable cannot be altered"),
        (counted(Kind::Timing, "1000events", Refresh::Fixed), "counts events"),
        (counted(Kind::Timing, "1h", Refresh::Refresh), "--rule refresh"),
        (counted(Kind::Cuckoo, "1000events", Refresh::Fixed), "counts events"),
        (counted(Kind::Cuckoo, "1h", Refresh::Refresh), "--rule refresh"),
    ] {
        let mut cluster = Cluster::new(2, 1 << 30);
        cluster.ask(filter("a", definition, false)).unwrap();
        let before = cluster.state.map().clone();
        let refused = reason(cluster.ask(altered(FORMER, larger("none"))));
        assert!(refused.contains(said), "{refused}");
        assert_eq!(cluster.state.map(), &before);
    }
    let mut cluster = cluster(2, "horizontal:2");
    let before = cluster.state.map().clone();
    for (asked, said) in [
        (altered(FORMER, definition(Kind::Timing, 1000, "horizontal:2")), "it is so already"),
        (altered(FORMER, definition(Kind::Stable, 1000, "none")), "kind stable cannot be the new kind"),
        (altered(FORMER, definition(Kind::Timing, 1 << 33, "horizontal:2")), "do not fit on"),
        (altered(FORMER, definition(Kind::Cuckoo, 1 << 36, "horizontal:2")), "do not fit on"),
        (altered(FORMER, counted(Kind::Cuckoo, "1h", Refresh::Refresh)), "cannot replace another filter"),
    ] {
        let refused = reason(cluster.ask(asked));
        assert!(refused.contains(said), "{refused}");
        assert_eq!(cluster.state.map(), &before);
    }
}

/// Tests an alteration to the default number of ticks. The cells stay the same, so the filter is not closed.
#[test]
fn a_filter_whose_cells_stay_the_same_is_not_closed() {
    let asked = |ticks| {
        let spec = FilterSpec::new(Kind::Cuckoo, "24h".parse().unwrap());
        let spec = FilterSpec { capacity_events: Some(1000), ticks, ..spec };
        SlicedDefinition::new(&spec, "horizontal:2".parse().unwrap()).unwrap()
    };
    let mut cluster = Cluster::new(2, 1 << 30);
    cluster.ask(filter("a", asked(None), false)).unwrap();
    let before = cluster.state.map().clone();
    for (ticks, said) in [(None, "it is so already"), (Some(19), "would not change its cells")] {
        let refused = reason(cluster.ask(altered(FORMER, asked(ticks))));
        assert!(refused.contains(said), "{refused}");
        assert_eq!(cluster.state.map(), &before);
    }
    cluster.ask(altered(FORMER, asked(Some(18)))).unwrap();
    cluster.ask(Change::FinishAlteration { name: "a".into() }).unwrap();
    // With a different secret it is a different filter, which records the requested number of ticks.
    let secret = Some(SecretMaterial([7; 32]));
    let anew = AlteredFilter { secret, ..alteration(FOLLOWER, asked(Some(18)), false) };
    cluster.ask(Change::AlterFilter(anew)).unwrap();
    assert_eq!(cluster.state.map().filter_named("a").unwrap().1.definition, asked(Some(18)));
}

#[test]
fn a_node_that_is_down_is_waited_for_until_its_slices_are_elsewhere() {
    let mut cluster = cluster(3, "vertical:3");
    cluster.ask(altered(FORMER, larger("vertical:3"))).unwrap();
    let incarnation = Incarnation(1);
    for by in [1, 2] {
        let (by, peer) = (NodeId(by), NodeId(3));
        let says = Change::PeerReached {
            by,
            by_incarnation: incarnation,
            peer,
            peer_incarnation: incarnation,
            is_reached: false,
        };
        cluster.ask(says).unwrap();
        cluster.ask(ended(by.0, 1, 4)).unwrap();
    }
    assert!(cluster.state.map().is_down(NodeId(3)));
    cluster.ask(ended(3, 1, 4)).unwrap();
    let awaited = |cluster: &Cluster| record(cluster, FORMER).line.closed.clone().unwrap().awaited;
    assert_eq!(awaited(&cluster), [NodeId(3)].into(), "the word of one that is down does not count");
    assert_eq!(record(&cluster, FORMER).line.closed.clone().unwrap().successor, FOLLOWER);
    let slice = record(&cluster, FORMER).owners.iter().position(|owner| owner.node == NodeId(3)).unwrap() as u32;
    let way = firstseen_routing::SliceMove { slice, from: NodeId(3), to: NodeId(1) };
    cluster.ask(Change::MoveSlices { filter: FORMER, moves: vec![way] }).unwrap();
    let epoch = record(&cluster, FORMER).epoch;
    let complete =
        Change::SlicesComplete { filter: FORMER, group: 0, slices: vec![slice], epoch, node: NodeId(1), incarnation };
    cluster.ask(complete).unwrap();
    assert!(awaited(&cluster).is_empty(), "what it had is on node 1 now");
    assert!(record(&cluster, FORMER).epoch > epoch);
    cluster.ask(Change::FinishAlteration { name: "a".into() }).unwrap();
    let refused = reason(cluster.ask(altered(FOLLOWER, larger("vertical:2"))));
    assert!(refused.contains("node n3 has slices of it, and is down"), "{refused}");
}

#[test]
fn a_filter_that_begins_anew_stays_what_it_is_and_its_former_is_gone_at_once() {
    let mut cluster = cluster(2, "horizontal:2");
    let before = record(&cluster, FORMER).clone();
    cluster.ask(restarted_alteration(&cluster, FORMER)).unwrap();
    let map = cluster.state.map();
    assert_eq!(map.filters.keys().collect::<Vec<_>>(), [&FOLLOWER]);
    let after = record(&cluster, FOLLOWER);
    assert_eq!((&after.name, &after.definition, &after.policies), (&before.name, &before.definition, &before.policies));
    assert_eq!(map.follower_of(FORMER, FORMER).unwrap().0, FOLLOWER, "producers find it");
    assert_eq!(cluster.state.secrets().keys().collect::<Vec<_>>(), [&FOLLOWER]);
    assert!(reason(cluster.ask(altered(FORMER, before.definition))).contains("altered or recreated in the meantime"));
    cluster.ask(altered(FOLLOWER, larger("horizontal:2"))).unwrap();
    let again = restarted_alteration(&cluster, FilterId(3));
    assert!(reason(cluster.ask(again)).contains("--finish"));
}

#[test]
fn a_filter_without_a_clock_has_none_to_set() {
    let mut cluster = Cluster::new(1, 1 << 30);
    for (window, expected) in [("unbounded", "no clock"), ("1000events", "counts events")] {
        let kind = if window == "unbounded" { Kind::Bloom } else { Kind::Timing };
        let spec = FilterSpec { capacity_events: Some(1000), ..FilterSpec::new(kind, window.parse().unwrap()) };
        let definition = SlicedDefinition::new(&spec, "none".parse().unwrap()).unwrap();
        cluster.ask(filter("a", definition, false)).unwrap();
        let (number, _) = cluster.state.map().filter_named("a").unwrap();
        let refused = reason(cluster.ask(restarted_alteration(&cluster, number)));
        assert!(refused.contains(expected), "{window}: {refused}");
        cluster.ask(Change::DropFilter { name: "a".into() }).unwrap();
    }
}
