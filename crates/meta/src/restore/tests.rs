//! Tests of filters that are restored on other nodes than before.

use std::collections::BTreeMap;

use firstseen_filter::{GenerationNumber, Kind};
use firstseen_routing::{
    ClusterMap, CutOff, Durability, FilterPolicies, Format, NodeId, PlaceSpec, SecretMaterial, TreeMode, TreeSpec,
    WhenLost,
};

use super::*;
use crate::change::{Change, NewFilter};
use crate::state::tests::{Cluster, definition, filter};

const MEMORY_BYTES: u64 = 1 << 30;

/// Returns all filters of a map in the form in which a backup contains them.
fn places(map: &ClusterMap) -> Vec<RestoredPlace> {
    let place = |record: &FilterRecord| RestoredPlace { record: record.clone(), sites: Vec::new() };
    map.filters.values().map(place).collect()
}

fn restore(places: Vec<RestoredPlace>) -> Change {
    Change::RestoreFilter(NewRestore { places, secret: SecretMaterial([7; 32]) })
}

fn created(outcome: Result<Outcome, Refusal>) -> FilterId {
    match outcome {
        Ok(Outcome::FilterCreated { filter, existed: false }) => filter,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_filter_comes_back_incomplete_and_under_another_name_until_it_has_its_cells() {
    let mut former = Cluster::new(3, MEMORY_BYTES);
    let policies = FilterPolicies { when_lost: WhenLost::Duplicate, ..FilterPolicies::default() };
    let wanted = definition(Kind::Timing, 1000, "vertical:6");
    former
        .ask(Change::CreateFilter(NewFilter {
            name: "clicks".into(),
            definition: wanted.clone(),
            policies,
            secret: SecretMaterial([1; 32]),
            if_absent: false,
            tree: None,
        }))
        .unwrap();
    let mut now = Cluster::new(2, MEMORY_BYTES);
    now.ask(filter("other", definition(Kind::Bloom, 1000, "none"), false)).unwrap();
    let number = created(now.ask(restore(places(&former.state.map))));
    assert!(now.state.map.filter_named("clicks").is_none(), "nobody can ask it yet");
    let record = now.state.map.filters[&number].clone();
    assert!(is_restoring(&record.name) && record.definition == wanted && record.policies == policies);
    assert_eq!(now.state.secrets[&number], SecretMaterial([7; 32]));
    let nodes: Vec<u64> = record.owners.iter().map(|owner| owner.node.0).collect();
    assert!(nodes.contains(&1) && nodes.contains(&2) && nodes.iter().all(|node| *node < 3), "{nodes:?}");
    assert!((0..6).all(|slice| !now.state.map.is_complete(&record, slice)), "what came since is unknown");
    assert_eq!(now.ask(Change::FinishRestore { filter: number }), Ok(Outcome::Done));
    let (found, record) = now.state.map.filter_named("clicks").expect("it has its name");
    assert!(found == number && (0..6).all(|slice| !now.state.map.is_complete(record, slice)));
    let again = now.ask(Change::FinishRestore { filter: number });
    assert_eq!(again, Err(Refusal::NotRestoring { filter: number }));
    now.ask(Change::ForgiveFilter { name: "clicks".into(), ended: BTreeMap::new() }).unwrap();
    let (_, record) = now.state.map.filter_named("clicks").unwrap();
    assert!((0..6).all(|slice| now.state.map.is_complete(record, slice)));
}

/// Tests which names the restored levels of a filter tree may have. The rights on a level are found by the name of its
/// tree, which must be the beginning of the level's name. If a level had another name, the rights of other principals
/// could apply to it, so a backup with such a level must be rejected.
#[test]
fn levels_bear_the_name_of_their_tree_and_nobody_gets_a_reserved_one() {
    assert_eq!([check_name("clicks", "clicks", 0), check_name("clicks", "clicks@athens", 1)], [Ok(()), Ok(())]);
    for (name, index) in
        [("views", 1), ("clicks", 1), ("clicks-eu", 1), ("clicks@a~former", 1), ("restoring:clicks", 0)]
    {
        assert!(check_name("clicks", name, index).is_err(), "{name}");
    }
    let mut former = Cluster::new(1, MEMORY_BYTES);
    former.ask(filter("clicks", definition(Kind::Bloom, 1000, "none"), false)).unwrap();
    let mut places = places(&former.state.map);
    "clicks~former".clone_into(&mut places[0].record.name);
    let refused = Cluster::new(1, MEMORY_BYTES).ask(restore(places)).unwrap_err().to_string();
    assert!(refused.contains("no filter of a backup of"), "{refused}");
}

#[test]
fn a_name_that_is_taken_stays_with_who_has_it() {
    let mut former = Cluster::new(1, MEMORY_BYTES);
    former.ask(filter("clicks", definition(Kind::Bloom, 1000, "none"), false)).unwrap();
    let mut now = Cluster::new(1, MEMORY_BYTES);
    let number = created(now.ask(restore(places(&former.state.map))));
    let twice = now.ask(restore(places(&former.state.map)));
    assert!(matches!(&twice, Err(Refusal::FilterExists { name }) if name == "restoring:clicks"), "{twice:?}");
    now.ask(filter("clicks", definition(Kind::Timing, 10, "none"), false)).unwrap();
    let finished = now.ask(Change::FinishRestore { filter: number });
    assert_eq!(finished, Err(Refusal::FilterExists { name: "clicks".into() }));
    now.ask(Change::DropFilter { name: "restoring:clicks".into() }).unwrap();
    let there = now.ask(restore(places(&former.state.map)));
    assert_eq!(there, Err(Refusal::FilterExists { name: "clicks".into() }));
}

fn tree() -> Change {
    let place = |name: &str, parent: Option<&str>| PlaceSpec {
        name: name.to_owned(),
        parent: parent.map(str::to_owned),
        fold: u8::from(parent.is_some()),
        slicing: None,
        sites: vec!["s".to_owned()],
    };
    let places = vec![place("world", None), place("s", Some("world"))];
    let spec = TreeSpec { mode: TreeMode::Dense, cut_off: CutOff::Undecided, top_down: 0, places };
    Change::CreateFilter(NewFilter {
        name: "t".into(),
        definition: classic(),
        policies: FilterPolicies::default(),
        secret: SecretMaterial([2; 32]),
        if_absent: false,
        tree: Some(spec),
    })
}

/// Release 0.1 would refuse such a tree, so its map would differ from those of other nodes.
#[test]
fn trees_with_a_journal_or_copies_need_the_newer_format() {
    for (durability, copies) in [(Durability::Durable, 0), (Durability::Memory, 1)] {
        let Change::CreateFilter(asked) = tree() else { unreachable!("it creates a tree") };
        let policies = FilterPolicies { durability, copies, ..asked.policies };
        let lasting = Change::CreateFilter(NewFilter { policies, ..asked });
        let mut cluster = Cluster::new(2, MEMORY_BYTES);
        let refused = cluster.ask(lasting.clone()).unwrap_err().to_string();
        assert!(refused.contains("requires format 11") && refused.contains("upgrade finalize"), "{refused}");
        cluster.ask(Change::Raise { format: Format(11) }).unwrap();
        cluster.ask(lasting).unwrap();
        let State { map, .. } = &cluster.state;
        let of_root = map.filter_named("t").unwrap().1.policies;
        let of_leaf = map.filter_named("t@s").unwrap().1.policies;
        assert_eq!((of_root.durability, of_root.copies), (durability, copies));
        assert_eq!((of_leaf.durability, of_leaf.copies), (Durability::Memory, 0), "a leaf asks the root");

        // The same holds for a backup that is restored to a cluster with the earlier format.
        let mut earlier = Cluster::new(2, MEMORY_BYTES);
        let refused = earlier.ask(restore(places(&cluster.state.map))).unwrap_err().to_string();
        assert!(refused.contains("requires format 11"), "{refused}");
    }
}

fn classic() -> firstseen_routing::SlicedDefinition {
    let spec = firstseen_filter::FilterSpec {
        capacity_events: Some(1000),
        layout: Some(firstseen_filter::Layout::Classic),
        ..firstseen_filter::FilterSpec::new(Kind::Timing, "1h".parse().unwrap())
    };
    firstseen_routing::SlicedDefinition::new(&spec, "horizontal:2".parse().unwrap()).unwrap()
}

#[test]
fn a_tree_hangs_together_under_other_numbers() {
    let mut former = Cluster::new(2, MEMORY_BYTES);
    former.ask(tree()).unwrap();
    let mut now = Cluster::new(1, MEMORY_BYTES);
    now.ask(filter("other", definition(Kind::Bloom, 1000, "none"), false)).unwrap();
    let root = created(now.ask(restore(places(&former.state.map))));
    assert_eq!(now.ask(Change::FinishRestore { filter: FilterId(root.0 + 1) }), {
        Err(Refusal::NotRestoring { filter: FilterId(root.0 + 1) })
    });
    now.ask(Change::FinishRestore { filter: root }).unwrap();
    let (leaf, record) = now.state.map.filter_named("t@s").expect("the leaf");
    let branch = record.branch.as_ref().expect("in a tree");
    assert_eq!((leaf, branch.root, branch.parent), (FilterId(root.0 + 1), root, Some(root)));
    assert_eq!(now.state.map.filter_named("t").map(|(filter, _)| filter), Some(root));
    // Places that do not form a tree are rejected.
    let whole = places(&former.state.map);
    let mut second = Cluster::new(1, MEMORY_BYTES);
    let wrong = [
        Vec::new(),
        whole[1..].to_vec(),
        vec![whole[0].clone(), whole[0].clone()],
        vec![whole[1].clone(), whole[0].clone()],
    ];
    for places in wrong {
        let refused = second.ask(restore(places));
        assert!(matches!(refused, Err(Refusal::Tree { .. } | Refusal::Definition { .. })), "{refused:?}");
    }
    let mut strange = whole;
    strange[1].record.branch.as_mut().unwrap().parent = Some(FilterId(0));
    assert!(second.ask(restore(strange)).is_err());
    assert!(second.state.map.filters.is_empty(), "nothing of it is there");
}

#[test]
fn sites_and_generations_are_checked() {
    let mut former = Cluster::new(1, MEMORY_BYTES);
    former.ask(filter("clicks", definition(Kind::Timing, 1000, "vertical:2"), false)).unwrap();
    let mut now = Cluster::new(1, MEMORY_BYTES);
    let mut places = places(&former.state.map);
    places[0].sites = vec!["elsewhere".to_owned()];
    assert!(matches!(now.ask(restore(places.clone())), Err(Refusal::Copies { nodes: 0, .. })));
    places[0].sites.clear();
    places[0].record.generations = [1, 2, 3].map(GenerationNumber).to_vec();
    assert!(matches!(now.ask(restore(places.clone())), Err(Refusal::Definition { .. })));
    places[0].record.generations = vec![GenerationNumber(u64::MAX)];
    assert!(matches!(now.ask(restore(places)), Err(Refusal::Definition { .. })), "it cannot grow");
    assert_eq!(now.state.map.nodes.keys().copied().collect::<Vec<_>>(), [NodeId(1)]);
}
