//! Tests of trees with the flag `--tree-cut-off local`, on real processes at three sites. With this flag, a site that
//! cannot reach the rest of the tree decides events without it. The site must do so during the whole interruption, and
//! never while it is connected, because events that it decides alone may already be known at other sites.

use firstseen_client::{Filter, Reason, Verdict};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::asking::{ask, count};
use crate::local_cluster::{eventually, eventually_eq};
use crate::own_node::OwnNode;
use crate::three_sites::{SITES, at_site_of, create, nodes_at_sites};

/// Filter without a tree. Its slices show whether the node that owns them has a lease.
const WITHOUT_TREE: &str = "views";

/// Starts a node at each site. Creates a tree whose root has a third of its slices at each of them, and a filter
/// without a tree.
fn cluster() -> [OwnNode; 3] {
    let nodes = nodes_at_sites();
    create(&nodes, "clicks", "--tree dense --tree-cut-off local");
    create(&nodes, WITHOUT_TREE, "");
    nodes
}

/// Returns how many nodes are up and can be reached, as one node sees it. A restarted node counts from its second start.
fn in_reach(node: &OwnNode, restarted: &str) -> usize {
    let status = node.folder.run(&format!("cluster status --json --addr {}", node.address));
    let status: Value = serde_json::from_str(&status.out).unwrap_or_default();
    let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
    let reached = nodes.iter().filter(|node| node["reachable"] == true && node["down"] == false);
    reached.filter(|node| node["name"] != restarted || node["incarnation"].as_u64() > Some(1)).count()
}

/// Returns how many events the leaf of a site has decided alone.
fn decided_alone(filter: &Filter) -> u64 {
    filter.status().degraded.events
}

/// Regression test for a node that was restarted. All nodes were reachable again, but the restarted node's slices of
/// the root had lost their events. In an earlier version, the leaf of another site then decided alone, and reported a
/// third of the known events as first-seen again. It must leave these events undecided.
#[test]
fn a_root_that_was_restarted_does_not_make_events_first_seen_again() {
    let mut nodes = cluster();
    let (_athens, at_athens) = at_site_of(&nodes[0], SITES[0], "clicks");
    eventually("every site answers", || {
        count(&ask(&at_athens, 1_000..1_050), Verdict::Undecided(Reason::NotReady)) == 0
    });
    assert_eq!(count(&ask(&at_athens, 0..100), Verdict::FirstSeen), 100);
    nodes[1].restart();
    for node in &nodes {
        eventually_eq("nodes within reach", 3, || in_reach(node, SITES[1]));
    }
    let (_oslo, at_oslo) = at_site_of(&nodes[2], SITES[2], "clicks");
    let again = ask(&at_oslo, 0..100);
    assert_eq!(count(&again, Verdict::FirstSeen), 0, "delivered twice: {again:?}");
    assert!(count(&again, Verdict::Undecided(Reason::SlicesDown)) > 5, "the slices at Ioannina: {again:?}");
    ask(&at_athens, 200..300);
    let elsewhere = ask(&at_oslo, 200..300);
    assert_eq!(count(&elsewhere, Verdict::FirstSeen), 0, "delivered twice: {elsewhere:?}");
    assert_eq!([decided_alone(&at_athens), decided_alone(&at_oslo)], [0, 0]);
}

/// Regression test for a site that is cut off for longer than a lease. When the lease has ended, the root's slices at
/// this site may record nothing more. In an earlier version, the leaf of the site therefore left the events of these
/// slices undecided. It must decide these events alone, like those of all other slices.
#[test]
fn a_site_that_is_cut_off_for_longer_than_a_lease_decides_every_new_event() {
    let nodes = cluster();
    let (_athens, at_athens) = at_site_of(&nodes[0], SITES[0], "clicks");
    assert_eq!(count(&ask(&at_athens, 0..100), Verdict::FirstSeen), 100);
    let (_beside, without_tree) = at_site_of(&nodes[0], SITES[0], WITHOUT_TREE);
    for node in &nodes[1..] {
        node.signal(Signal::SIGSTOP);
    }
    let mut keys = (0..).step_by(30);
    eventually("the end of the lease at Athens", || {
        // Events that are known are duplicates also without a lease, so each call asks about new ones.
        let from = keys.next().expect("a key");
        count(&ask(&without_tree, from..from + 30), Verdict::Undecided(Reason::CutOff)) > 0
    });
    let before = decided_alone(&at_athens);
    let new = ask(&at_athens, 100..200);
    assert_eq!(count(&new, Verdict::FirstSeen), 100, "{new:?}");
    assert_eq!(decided_alone(&at_athens) - before, 100, "no part of the root has a lease");
    let known = ask(&at_athens, 0..200);
    assert_eq!(count(&known, Verdict::Duplicate), 200, "{known:?}");
    for node in &nodes[1..] {
        node.signal(Signal::SIGCONT);
    }
    // The events reach the root when the other sites are back.
    let (_oslo, at_oslo) = at_site_of(&nodes[2], SITES[2], "clicks");
    eventually("known elsewhere", || count(&ask(&at_oslo, 100..200), Verdict::Duplicate) == 100);
}
