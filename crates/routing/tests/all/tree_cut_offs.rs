//! Tests when a level of a tree decides events alone (`CutOff::Local`). It must do so while it is cut off from its
//! parent level, for as long as that lasts, and never while the parent level is asked and does not decide.

use std::collections::BTreeSet;

use crate::common::{Producer, TestRng, definition, digest, spec as filter};
use crate::network::Network;
use crate::network::tree::{ROOT, spec};
use firstseen_filter::Kind;
use firstseen_mesh::tree_map;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{
    CutOff, Decision, FilterId, FilterPolicies, Lease, NodeId, OwnerLimits, Reason, SlicedDefinition, Submission,
    Times, TreeMode, TreeSpec,
};

const NOW_MS: u64 = 1_000_000;
const SLICES_DOWN: Decision = Decision::Undecided(Reason::SlicesDown);
const NO_LEASE: Decision = Decision::Undecided(Reason::CutOff);

/// A root over several nodes, and three leaves.
const TWO_LEVELS: &[(usize, u8)] = &[(0, 0), (0, 0), (0, 0), (0, 0)];
/// A root, a region with two leaves, and another leaf.
const THREE_LEVELS: &[(usize, u8)] = &[(0, 0), (0, 0), (1, 0), (1, 0), (0, 0)];

/// A tree whose levels decide alone while they are cut off.
struct Tree {
    network: Network,
    producer: Producer,
}

impl Tree {
    fn new(places: &[(usize, u8)], slicing: &str, rules: Rules) -> Self {
        let definition: SlicedDefinition = definition(&filter(Kind::Timing, "1h", 1 << 16, 5), slicing);
        let levels = if slicing == "horizontal:3" { "horizontal:3" } else { "none" };
        let tree = TreeSpec { cut_off: CutOff::Local, ..spec(TreeMode::Dense, places, &[levels]) };
        let map = tree_map(&tree, &definition, FilterPolicies::default()).unwrap();
        let network = Network::of(map, OwnerLimits { rules, ..OwnerLimits::default() }, TestRng(1));
        Self { network, producer: Producer::new(7, &definition) }
    }

    /// Observes events at a leaf, one after the other.
    fn observe(&mut self, leaf: FilterId, keys: std::ops::Range<u64>) -> Vec<Decision> {
        keys.map(|key| self.producer.ask_in(&mut self.network, leaf, digest(key), NOW_MS, true).0).collect()
    }

    /// Restarts one node of a level. Everything in its slices is lost, and all nodes are reachable again.
    fn restart_node_of(&mut self, level: FilterId) {
        let node: BTreeSet<NodeId> = self.network.nodes_of(level).into_iter().take(1).collect();
        self.network.restart_of(level, &node);
    }

    /// Ends the leases of all nodes of the root.
    fn end_leases_of_root(&mut self) {
        for (_, owner) in self.network.mesh.owners_mut().iter_mut().filter(|(instance, _)| instance.filter == ROOT) {
            owner.set_lease(Lease::NONE);
        }
    }

    /// Returns the leaves below the region of a tree with three levels, and the region.
    fn leaves_of_region(&self) -> (Vec<FilterId>, FilterId) {
        let mut leaves = self.network.leaves();
        leaves.retain(|leaf| self.network.ancestors(*leaf).len() == 2);
        let region = self.network.ancestors(leaves[0])[0];
        (leaves, region)
    }

    fn decided_alone(&mut self, level: FilterId) -> u64 {
        self.network.owed(level).local_events
    }
}

fn count(decisions: &[Decision], decision: Decision) -> usize {
    decisions.iter().filter(|other| **other == decision).count()
}

/// A node of the root restarted, and its slices lacked events. The leaves took the reply of the root, undecided because
/// of these slices, for an outage. They called events first-seen that the root had seen from another leaf.
#[test]
fn a_root_that_lacks_events_is_not_out_of_reach() {
    for slicing in ["vertical:3", "horizontal:3", "none"] {
        let mut tree = Tree::new(TWO_LEVELS, slicing, Rules::default());
        let leaves = tree.network.leaves();
        assert_eq!(tree.observe(leaves[0], 0..50), [Decision::FirstSeen; 50], "{slicing}");
        tree.restart_node_of(ROOT);
        let again = tree.observe(leaves[2], 0..50);
        assert_eq!(count(&again, Decision::FirstSeen), 0, "{slicing}: delivered twice: {again:?}");
        assert!(count(&again, SLICES_DOWN) > 5, "{slicing}: the reason of the root: {again:?}");
        // The leaf also leaves new events undecided, because other leaves would not learn of them.
        let new = tree.observe(leaves[2], 50..100);
        assert_eq!(count(&new, SLICES_DOWN) + count(&new, Decision::FirstSeen), 50, "{slicing}: {new:?}");
        assert_eq!(tree.decided_alone(leaves[2]), 0, "{slicing}");
        // With slicing `vertical`, the root itself marks the verdicts for which it did not ask all slices.
        let is_degraded = tree.network.replies[0].answers.is_degraded();
        assert!(!is_degraded || slicing == "vertical:3", "{slicing}");
    }
}

#[test]
fn without_its_rule_a_leaf_decides_alone_beside_a_root_that_lacks_events() {
    let mut tree = Tree::new(TWO_LEVELS, "vertical:3", Rules::without(Rule::DecidesAloneOnlyIfCutOff));
    let leaves = tree.network.leaves();
    tree.observe(leaves[0], 0..50);
    tree.restart_node_of(ROOT);
    assert!(count(&tree.observe(leaves[2], 0..50), Decision::FirstSeen) > 5);
}

/// A site with a part of the root was cut off. After the lease of its node had ended, the part of the root there
/// replied `CutOff`, and the leaf left these events undecided instead of deciding them alone.
#[test]
fn a_site_that_is_cut_off_decides_alone_after_its_lease_has_ended() {
    for slicing in ["vertical:3", "horizontal:3", "none"] {
        let mut tree = Tree::new(TWO_LEVELS, slicing, Rules::default());
        let leaf = tree.network.leaves()[0];
        tree.end_leases_of_root();
        assert_eq!(tree.observe(leaf, 0..20), [NO_LEASE; 20], "{slicing}: while a majority is within reach");
        tree.network.without_majority.insert(leaf);
        assert_eq!(tree.observe(leaf, 0..20), [Decision::FirstSeen; 20], "{slicing}: cut off");
        assert_eq!(tree.observe(leaf, 0..20), [Decision::Duplicate; 20], "{slicing}: and known from then on");
        assert_eq!(tree.decided_alone(leaf), 20, "{slicing}");
        tree.network.without_majority.clear();
        assert_eq!(tree.observe(leaf, 20..30), [NO_LEASE; 10], "{slicing}: no longer cut off");
    }
}

#[test]
fn without_its_rule_a_site_that_is_cut_off_is_undecided_after_its_lease_has_ended() {
    let mut tree = Tree::new(TWO_LEVELS, "horizontal:3", Rules::without(Rule::DecidesAloneWithoutLease));
    let leaf = tree.network.leaves()[0];
    tree.end_leases_of_root();
    tree.network.without_majority.insert(leaf);
    assert_eq!(tree.observe(leaf, 0..20), [NO_LEASE; 20]);
}

/// A site can lose its majority and still reach the part of the root that it needs. Only the end of a lease then makes
/// it decide alone, and no other reason of the root.
#[test]
fn a_site_without_majority_still_asks_the_root_that_it_reaches() {
    let mut tree = Tree::new(TWO_LEVELS, "none", Rules::default());
    let leaves = tree.network.leaves();
    tree.network.without_majority.insert(leaves[0]);
    assert_eq!(tree.observe(leaves[0], 0..20), [Decision::FirstSeen; 20]);
    assert_eq!(tree.decided_alone(leaves[0]), 0, "the root has decided");
    tree.restart_node_of(ROOT);
    assert_eq!(tree.observe(leaves[0], 20..40), [SLICES_DOWN; 20]);
}

#[test]
fn a_region_that_is_cut_off_decides_for_its_leaves() {
    for has_lease in [true, false] {
        let mut tree = Tree::new(THREE_LEVELS, "vertical:3", Rules::default());
        let (leaves, region) = tree.leaves_of_region();
        if has_lease {
            tree.network.cut_off.insert(region);
        } else {
            tree.end_leases_of_root();
            tree.network.without_majority.extend([region, leaves[0], leaves[1]]);
        }
        assert_eq!(tree.observe(leaves[0], 0..20), [Decision::FirstSeen; 20]);
        assert!(tree.network.replies[0].answers.is_degraded(), "the region has decided without the root");
        assert_eq!(tree.observe(leaves[1], 0..20), [Decision::Duplicate; 20], "the region knows it");
        assert_eq!([tree.decided_alone(region), tree.decided_alone(leaves[0])], [20, 0], "lease {has_lease}");
    }
}

/// A region that is cut off and has lost cells cannot tell whether another of its leaves has delivered an event. Its
/// leaves reach it, so they must not decide in its place.
#[test]
fn leaves_decide_nothing_for_a_region_that_they_reach() {
    for has_lease in [true, false] {
        let mut tree = Tree::new(THREE_LEVELS, "vertical:3", Rules::default());
        let (leaves, region) = tree.leaves_of_region();
        let expected = if has_lease {
            tree.network.cut_off.insert(region);
            SLICES_DOWN
        } else {
            tree.end_leases_of_root();
            tree.network.without_majority.extend([region, leaves[0], leaves[1]]);
            NO_LEASE
        };
        assert_eq!(tree.observe(leaves[0], 0..20), [Decision::FirstSeen; 20]);
        tree.restart_node_of(region);
        let again = tree.observe(leaves[1], 0..20);
        assert_eq!(again, [expected; 20], "lease {has_lease}");
        assert_eq!(tree.decided_alone(leaves[1]), 0, "lease {has_lease}");
        // A leaf that does not reach the region is cut off itself.
        tree.network.cut_off.insert(leaves[1]);
        assert_eq!(tree.observe(leaves[1], 20..40), [Decision::FirstSeen; 20], "lease {has_lease}");
    }
}

/// Only some events of a batch were decided alone, and the whole batch was counted as degraded.
#[test]
fn only_events_that_were_decided_alone_are_degraded() {
    let mut tree = Tree::new(TWO_LEVELS, "vertical:3", Rules::default());
    let leaf = tree.network.leaves()[0];
    tree.observe(leaf, 0..10);
    tree.network.cut_off.insert(leaf);
    let keys = [1, 100, 2, 101, 102, 3];
    let digests = keys.map(digest);
    let submission = tree.producer.ask(NOW_MS, true).unwrap();
    let ticks = vec![submission.times.ticks[0]; keys.len()];
    let times = Times { ticks, ..submission.times.clone() };
    let instance = tree.network.mesh.head_of(leaf, digests[0]).unwrap();
    tree.network.replies.clear();
    tree.network.submit_at(instance, &digests, Submission { times, ..submission });
    tree.network.settle();
    let answers = &tree.network.replies[0].answers;
    let alone = answers.decisions().iter().zip(0_u32..).filter(|(decision, _)| **decision == Decision::FirstSeen);
    assert_eq!(alone.map(|(_, event)| event).collect::<Vec<_>>(), [1, 3, 4]);
    assert_eq!((answers.degraded_events(), answers.degraded_count()), (&[1, 3, 4][..], 3));
}
