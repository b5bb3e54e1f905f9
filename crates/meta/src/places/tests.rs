//! Tests of places that are added to trees and removed from them.

use std::num::NonZeroU64;

use firstseen_filter::{FilterSpec, Kind, Layout};
use firstseen_routing::{
    CutOff, Durability, FilterPolicies, FiltersQuota, Incarnation, NodeId, PlaceSpec, SecretMaterial, SlicedDefinition,
    TreeMode, TreeSpec,
};

use super::*;
use crate::access_change::AccessChange;
use crate::change::{Change, NewFilter, NodeProfile, PLACES_SINCE};
use crate::placement::slice_bytes;
use crate::state::tests::{Cluster, profile};

const MEMORY_BYTES: u64 = 1 << 24;

/// Adds node `number` at a site, and starts it.
fn start(cluster: &mut Cluster, number: u64, site: &str) {
    let profile = NodeProfile { site: site.to_owned(), ..profile(number, MEMORY_BYTES) };
    let NodeProfile { address, site, .. } = profile.clone();
    cluster.ask(Change::AddNode { profile }).unwrap();
    cluster.ask(Change::NodeStarted { node: NodeId(number), address, site, memory_bytes: MEMORY_BYTES }).unwrap();
}

/// Returns a cluster with nodes at the sites `a`, `b` and `c`, and a tree with leaves at `a` and `b`.
fn cluster(cut_off: CutOff, top_down: u8) -> Cluster {
    let mut cluster = Cluster::new(1, MEMORY_BYTES);
    start(&mut cluster, 2, "a");
    start(&mut cluster, 3, "b");
    cluster.ask(Change::RemoveNode { node: NodeId(1) }).unwrap();
    cluster.ask(Change::Raise { format: PLACES_SINCE }).unwrap();
    let world = place("world", None, &["a", "b"]);
    let places = vec![world, place("a", Some("world"), &["a"]), place("b", Some("world"), &["b"])];
    cluster.ask(created(TreeSpec { mode: TreeMode::Dense, cut_off, top_down, places })).unwrap();
    start(&mut cluster, 4, "c");
    cluster
}

/// Creates filter `t` unless it exists.
fn created(tree: TreeSpec) -> Change {
    let spec = FilterSpec {
        capacity_events: Some(1000),
        layout: Some(Layout::Classic),
        ..FilterSpec::new(Kind::Timing, "1h".parse().unwrap())
    };
    Change::CreateFilter(NewFilter {
        name: "t".into(),
        definition: SlicedDefinition::new(&spec, "horizontal:2".parse().unwrap()).unwrap(),
        policies: FilterPolicies { durability: Durability::Durable, ..FilterPolicies::default() },
        secret: SecretMaterial([2; 32]),
        if_absent: true,
        tree: Some(tree),
    })
}

fn place(name: &str, parent: Option<&str>, sites: &[&str]) -> PlaceSpec {
    PlaceSpec {
        name: name.to_owned(),
        parent: parent.map(str::to_owned),
        fold: u8::from(parent.is_some()),
        slicing: None,
        sites: sites.iter().map(|site| (*site).to_owned()).collect(),
    }
}

fn add(cluster: &mut Cluster, place: PlaceSpec) -> Result<Outcome, Refusal> {
    cluster.ask(Change::AddPlace(NewPlace { filter: "t".into(), place }))
}

fn remove(cluster: &mut Cluster, name: &str) -> Result<Outcome, Refusal> {
    cluster.ask(Change::RemovePlace { name: name.to_owned() })
}

#[test]
fn a_new_place_is_a_filter_below_its_parent_with_the_secret_of_the_tree() {
    let mut cluster = cluster(CutOff::Local, 0);
    let added = add(&mut cluster, place("c", Some("world"), &["c"])).unwrap();
    let State { map, secrets, .. } = &cluster.state;
    let (id, record) = map.filter_named("t@c").unwrap();
    let (root, of_root) = map.filter_named("t").unwrap();
    let (_, sibling) = map.filter_named("t@b").unwrap();
    assert_eq!(added, Outcome::FilterCreated { filter: id, existed: false });
    let branch = record.branch.as_ref().unwrap();
    assert_eq!((branch.root, branch.parent, branch.level, branch.fold), (root, Some(root), 1, 1));
    assert_eq!(record.definition, sibling.definition);
    assert_eq!(record.policies, sibling.policies);
    assert_eq!(record.policies.durability, of_root.policies.durability, "it may decide alone");
    assert_eq!(record.nodes(), BTreeSet::from([NodeId(4)]));
    assert_eq!(secrets.get(&id), secrets.get(&root));
}

#[test]
fn a_place_that_does_not_fit_its_tree_is_refused() {
    let mut cluster = cluster(CutOff::Undecided, 0);
    for (place, words) in [
        (place("b", Some("world"), &["c"]), "two places are called `b`"),
        (place("c", Some("moon"), &["c"]), "no place of the tree"),
        (place("c", None, &["c"]), "two roots"),
        (place("c", Some("world"), &["d"]), "site `d` has no running nodes"),
        (place("c", Some("world"), &[]), "at no site"),
        (place("c@d", Some("world"), &["c"]), "no name for a place"),
        (place("c~former", Some("world"), &["c"]), "a reserved name"),
        (PlaceSpec { fold: 0, ..place("c", Some("a"), &["a"]) }, "larger than its parent"),
    ] {
        let before = cluster.state.map.clone();
        let refused = add(&mut cluster, place).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
        assert_eq!(cluster.state.map.filters, before.filters);
    }
    add(&mut cluster, place("c", Some("a"), &["a", "c"])).unwrap();
    assert_eq!(cluster.state.map.filter_named("t@c").unwrap().1.branch.as_ref().unwrap().level, 2);
}

/// Regression test. A place was refused if another site had no leaf, for example because nodes had joined there.
#[test]
fn sites_of_other_places_do_not_matter() {
    let mut cluster = cluster(CutOff::Undecided, 0);
    start(&mut cluster, 5, "d");
    let (root, _) = cluster.state.map.filter_named("t").unwrap();
    let map = Arc::make_mut(&mut cluster.state.map);
    map.filters.get_mut(&root).unwrap().owners[0].node = NodeId(5);
    add(&mut cluster, place("c", Some("world"), &["c"])).unwrap();
}

#[test]
fn a_leaf_of_a_tree_that_verifies_duplicates_gets_no_place_below_it() {
    let mut cluster = cluster(CutOff::Undecided, 1);
    let refused = add(&mut cluster, place("c", Some("a"), &["a"])).unwrap_err().to_string();
    assert!(refused.contains("would have none"), "{refused}");
    add(&mut cluster, place("c", Some("world"), &["c"])).unwrap();
}

/// Regression test. A limit of a group of filters did not count the cells of new places.
#[test]
fn a_place_counts_towards_the_limits_of_its_tree() {
    let mut cluster = cluster(CutOff::Undecided, 0);
    let (_, sibling) = cluster.state.map.filter_named("t@a").unwrap();
    let of_place = slice_bytes(&sibling.definition).unwrap() * u64::from(sibling.definition.slicing.slices());
    let quota = FiltersQuota { filters: None, cell_bytes: NonZeroU64::new(4 * of_place + of_place / 2) };
    cluster.ask(Change::Access(AccessChange::LimitFilters { names: "t".parse().unwrap(), quota })).unwrap();
    let refused = add(&mut cluster, place("c", Some("world"), &["c"])).unwrap_err();
    assert!(matches!(refused, Refusal::FiltersQuota { .. }), "{refused}");
    add(&mut cluster, PlaceSpec { fold: 3, ..place("c", Some("world"), &["c"]) }).unwrap();
}

/// Regression test. A tree with a place that was added later, below an earlier one than the last, counted as another
/// tree.
#[test]
fn a_tree_with_added_places_exists_already() {
    let mut cluster = cluster(CutOff::Undecided, 0);
    add(&mut cluster, place("c", Some("world"), &["c"])).unwrap();
    add(&mut cluster, place("a2", Some("a"), &["a"])).unwrap();
    let world = place("world", None, &["a", "b"]);
    let places = vec![
        place("a2", Some("a"), &["a"]),
        place("c", Some("world"), &["c"]),
        place("b", Some("world"), &["b"]),
        world,
        place("a", Some("world"), &["a"]),
    ];
    let tree = TreeSpec { mode: TreeMode::Dense, cut_off: CutOff::Undecided, top_down: 0, places };
    let (root, _) = cluster.state.map.filter_named("t").unwrap();
    let outcome = cluster.ask(created(tree.clone()));
    assert_eq!(outcome, Ok(Outcome::FilterCreated { filter: root, existed: true }));
    // The site of a removed place still has nodes.
    remove(&mut cluster, "t@c").unwrap();
    let mut without = tree.clone();
    without.places.remove(1);
    assert_eq!(cluster.ask(created(without)), Ok(Outcome::FilterCreated { filter: root, existed: true }));
    let mut other = tree;
    other.places[0].fold = 2;
    assert!(matches!(cluster.ask(created(other)), Err(Refusal::FilterDiffers { .. })));
}

#[test]
fn only_roots_of_trees_get_places() {
    let mut cluster = cluster(CutOff::Undecided, 0);
    let Change::CreateFilter(tree) =
        created(TreeSpec { mode: TreeMode::Dense, cut_off: CutOff::Undecided, top_down: 0, places: Vec::new() })
    else {
        unreachable!("it creates a filter")
    };
    cluster.ask(Change::CreateFilter(NewFilter { name: "flat".into(), tree: None, ..tree })).unwrap();
    for (name, words) in [("t@a", "it is a place itself"), ("flat", "it has no places"), ("none", "no filter `none`")] {
        let asked = NewPlace { filter: name.to_owned(), place: place("c", Some("world"), &["c"]) };
        let refused = cluster.ask(Change::AddPlace(asked)).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
}

#[test]
fn a_place_is_removed_if_no_other_level_depends_on_it() {
    let mut plain = cluster(CutOff::Undecided, 0);
    add(&mut plain, place("c", Some("a"), &["a", "c"])).unwrap();
    assert!(remove(&mut plain, "t@a").unwrap_err().to_string().contains("place `c` is below it"));
    assert!(remove(&mut plain, "t").unwrap_err().to_string().contains("not a place below the root"));
    remove(&mut plain, "t@c").unwrap();
    assert!(plain.state.map.filter_named("t@c").is_none());
    // The name is free again.
    add(&mut plain, place("c", Some("world"), &["c"])).unwrap();
    // The root has lost a slice, so only the place may know some of the events.
    let (root, _) = plain.state.map.filter_named("t").unwrap();
    let map = Arc::make_mut(&mut plain.state.map);
    map.filters.get_mut(&root).unwrap().owners[1].complete_since = Incarnation(0);
    let refused = remove(&mut plain, "t@c").unwrap_err().to_string();
    assert!(refused.contains("root of its tree has incomplete slices"), "{refused}");
    // A region that has lost events does not matter, because the root knows them.
    let (region, _) = plain.state.map.filter_named("t@a").unwrap();
    let map = Arc::make_mut(&mut plain.state.map);
    let complete_since = map.filters[&root].owners[0].complete_since;
    map.filters.get_mut(&root).unwrap().owners[1].complete_since = complete_since;
    map.filters.get_mut(&region).unwrap().owners[0].complete_since = Incarnation(0);
    add(&mut plain, place("d", Some("a"), &["a"])).unwrap();
    remove(&mut plain, "t@d").unwrap();

    for (cut_off, top_down, words) in
        [(CutOff::Local, 0, "decided events alone"), (CutOff::Undecided, 1, "verify duplicates with it")]
    {
        let mut cluster = cluster(cut_off, top_down);
        let refused = remove(&mut cluster, "t@b").unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
}
