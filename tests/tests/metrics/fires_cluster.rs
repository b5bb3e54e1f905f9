//! Checks that alerts fire for frequent changes of the leader, and for slices that are being fetched or moved.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::exposition::Labels;
use super::fires::{greatest, nodes, rules};
use super::recording::{Recording, has_promtool};
use super::scrape::scrape;
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;

/// Time for which a restarted node is observed.
const LOOK: Duration = Duration::from_secs(8);

/// Waits until all nodes are up, ready, and reach each other.
fn wait_until_healthy(scraped: &[String]) {
    eventually("all are well", || {
        scraped.iter().all(|node| {
            let is_none = |metric: &str| greatest(node, metric) == 0.0;
            greatest(node, "firstseen_ready") == 1.0
                && is_none("firstseen_nodes_down")
                && is_none("firstseen_peer_unreachable")
        })
    });
}

/// Returns the number of slice copies that fetch missing data.
fn fetching_copies(address: &str) -> f64 {
    let samples = scrape(address).unwrap_or_default();
    let is_meant = |name: &str, labels: &Labels| {
        name == "firstseen_filter_copies" && labels.get("state").is_some_and(|state| state == "fetching")
    };
    samples.iter().filter(|((name, labels), _)| is_meant(name, labels)).map(|(_, value)| value).sum()
}

#[test]
fn an_alert_fires_when_the_leader_changes_again_and_again() {
    if !has_promtool() {
        return;
    }
    let (nodes, scraped) = nodes();
    wait_until_healthy(&scraped);
    let mut recording = Recording::of(&scraped);
    recording.scrape(0);
    recording.scrape(20);
    let elections = || greatest(&scraped[0], "firstseen_raft_elections_total");
    let before = elections();
    // This is the number of the leader's node, as far as the queried node knows.
    let leader = |at: usize| greatest(&scraped[at], "firstseen_raft_leader_id") as usize;
    while elections() < before + 6.0 {
        eventually("all know who leads", || leader(0) > 0 && leader(0) == leader(1) && leader(0) == leader(2));
        let led = leader(0);
        nodes[led - 1].signal(Signal::SIGSTOP);
        eventually("another one leads", || ![0, led].contains(&leader(led % 3)));
        nodes[led - 1].signal(Signal::SIGCONT);
    }
    wait_until_healthy(&scraped);
    recording.scrape(21);
    recording.scrape(22);
    recording.assert_alerts(&rules(), &[(19, &[]), (21, &["FirstseenElectionsRepeat"])]);
}

#[test]
fn alerts_fire_when_slices_are_long_on_their_way_and_copies_do_not_get_what_they_lack() {
    if !has_promtool() {
        return;
    }
    let (mut nodes, scraped) = nodes();
    let run =
        |nodes: &[OwnNode; 3], flags: &str| nodes[0].folder.run(&format!("{flags} --cluster {}", nodes[0].address));
    let create = "filter create copied --slicing horizontal:3 --window 1h --clock wall --memory 24MiB --copies 1";
    eventually("a filter", || run(&nodes, &format!("{create} --if-absent")).code == Some(0));
    wait_until_healthy(&scraped);
    // The third node does not answer while it is stopped, so only two nodes are scraped.
    let mut recording = Recording::of(&scraped[..2]);
    recording.scrape(0);
    recording.scrape(20);
    eventually("it fetches", || {
        // Another node owns a slice of this node, and sends nothing while it is stopped. Until the stopped node is
        // marked down, that slice is being fetched.
        nodes[2].signal(Signal::SIGSTOP);
        nodes[1].crash();
        let begun = Instant::now();
        while begun.elapsed() < LOOK && fetching_copies(&scraped[0]) == 0.0 {
            std::thread::yield_now();
        }
        let fetches = fetching_copies(&scraped[0]) > 0.0;
        if fetches {
            recording.scrape(21);
            recording.scrape(59);
        }
        nodes[2].signal(Signal::SIGCONT);
        wait_until_healthy(&scraped);
        fetches
    });
    // The node is stopped while its slices are to move away, so it cannot report that they have moved.
    nodes[2].signal(Signal::SIGSTOP);
    run(&nodes, "cluster drain c --no-wait").ok();
    nodes[2].kill();
    eventually("it is down", || greatest(&scraped[0], "firstseen_nodes_down") == 1.0);
    assert!(greatest(&scraped[0], "firstseen_moves_under_way") > 0.0);
    recording.scrape(60);
    recording.scrape(200);
    recording.assert_only_alert(&rules(), "FirstseenSlicesFetch", 19, 58);
    recording.assert_only_alert(&rules(), "FirstseenMovesTakeLong", 59, 199);
}
