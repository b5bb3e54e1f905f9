//! Checks that each alert fires in runs that cause it, and is silent in all other runs. The test runs real nodes and
//! records their metrics. The tool promtool then evaluates the alert rules on the recorded metrics.

use std::net::TcpStream;
use std::time::Duration;

use firstseen_client::{Claiming, Client, Wait};

use super::names;
use super::recording::{Recording, has_promtool};
use super::scrape::scrape;
use crate::asking::opened;
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::ports::free_ports;
use crate::run::Folder;

/// Starts three nodes. Returns the nodes, and the addresses at which they serve their metrics.
pub(super) fn nodes() -> ([OwnNode; 3], Vec<String>) {
    let first = free_ports(3);
    let ports = [first, first + 1, first + 2];
    let settings = |port: u16| format!("http_listen = \"127.0.0.1:{port}\"\n");
    let names = ["a", "b", "c"];
    let nodes = [0, 1, 2].map(|at| OwnNode::start(names[at], &settings(ports[at])));
    let form = nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(" ");
    eventually("a cluster", || nodes[0].folder.run(&format!("cluster form {form}")).code == Some(0));
    (nodes, ports.map(|port| format!("127.0.0.1:{port}")).to_vec())
}

/// Returns the path of the file with the alert rules.
pub(super) fn rules() -> String {
    names::path("contrib/alerts.yaml").canonicalize().expect("a file").display().to_string()
}

/// Returns the greatest value of a metric at a node.
pub(super) fn greatest(address: &str, metric: &str) -> f64 {
    let samples = scrape(address).unwrap_or_default();
    samples.iter().filter(|((name, _), _)| name == metric).map(|(_, value)| *value).fold(0.0, f64::max)
}

/// Submits events with `firstseen dedup`.
pub(super) fn ask(nodes: &[OwnNode; 3], filter: &str, keys: std::ops::Range<u32>) {
    let folder = &nodes[0].folder;
    folder.write("input", keys.map(|key| format!("{filter} {key}\n")).collect::<String>());
    let at = nodes[0].address.as_str();
    folder.dedup(&format!("--cluster {at} --filter {filter} --out /dev/null input"));
}

#[test]
fn alerts_fire_when_a_filter_is_full_and_a_node_is_killed_and_comes_back_empty() {
    if !has_promtool() {
        return;
    }
    let (mut nodes, scraped) = nodes();
    let run =
        |nodes: &[OwnNode; 3], flags: &str| nodes[0].folder.run(&format!("{flags} --cluster {}", nodes[0].address));
    for (name, capacity) in [("full", "1k"), ("wide", "1M")] {
        let create =
            format!("filter create {name} --slicing horizontal:3 --window 1h --clock wall --capacity {capacity}");
        eventually("a filter", || run(&nodes, &format!("{create} --if-absent")).code == Some(0));
    }
    let mut recording = Recording::of(&scraped);
    eventually("all are ready", || scraped.iter().all(|node| greatest(node, "firstseen_ready") == 1.0));
    let received = || greatest(&scraped[0], "firstseen_producer_received_events_total");
    ask(&nodes, "wide", 0..1_000);
    eventually("events", || received() > 0.0);
    recording.scrape(0);
    let before = received();
    ask(&nodes, "wide", 1_000..2_000);
    eventually("more events", || received() > before);
    recording.scrape(20);
    let mut keys = 0;
    eventually("it is nearly full", || {
        ask(&nodes, "full", keys..keys + 200);
        keys += 200;
        greatest(&scraped[0], "firstseen_filter_used_max_ratio") > 0.8
    });
    // None of the node's slices has a copy.
    nodes[2].kill();
    eventually("it is down", || {
        greatest(&scraped[0], "firstseen_nodes_down") == 1.0
            && scraped[..2].iter().all(|node| greatest(node, "firstseen_peer_unreachable") == 1.0)
    });
    ask(&nodes, "wide", 2_000..3_000);
    recording.scrape(21);
    let before = received();
    ask(&nodes, "wide", 3_000..4_000);
    eventually("more events", || received() > before);
    recording.scrape(60);
    nodes[2].start_again();
    eventually("it is ready", || greatest(&scraped[2], "firstseen_ready") == 1.0);
    eventually("it is up", || greatest(&scraped[0], "firstseen_nodes_down") == 0.0);
    recording.scrape(61);
    recording.scrape(90);
    let down =
        ["FirstseenNodeDown", "FirstseenNodeNotScraped", "FirstseenPeerUnreachable", "FirstseenFilterNearlyFull"];
    let back = ["FirstseenSlicesIncomplete", "FirstseenFilterNearlyFull"];
    recording.assert_alerts(&rules(), &[(19, &[]), (59, &down), (89, &back)]);
}

#[test]
fn an_alert_fires_before_a_certificate_ends() {
    if !has_promtool() {
        return;
    }
    for (days, alerts) in [(5, &["FirstseenCertificateEnds"][..]), (60, &[])] {
        let (folder, port) = (Folder::new(), free_ports(1));
        folder.run(&format!("certs --out certs --nodes a --admin --days {days}")).ok();
        let settings = format!(
            "http_listen = \"127.0.0.1:{port}\"\n[tls]\nca = \"certs/ca.pem\"\ncert = \"certs/a.node.pem\"\nkey = \"certs/a.node.key\"\n"
        );
        let node = OwnNode::start_in(folder, "a", &settings);
        let admin = "--tls-ca certs/ca.pem --tls-cert certs/admin.pem --tls-key certs/admin.key";
        let init = format!("cluster init --addr {} {admin}", node.address);
        eventually("a cluster", || node.folder.run(&init).code == Some(0));
        let address = format!("127.0.0.1:{port}");
        eventually("the end of its certificate", || {
            greatest(&address, "firstseen_certificate_expiry_timestamp_seconds") > 0.0
                && greatest(&address, "firstseen_raft_leader_id") > 0.0
        });
        let mut recording = Recording::of(&[address]);
        recording.scrape(0);
        recording.scrape(20);
        recording.assert_alerts(&rules(), &[(19, alerts)]);
    }
}

#[test]
fn alerts_fire_when_most_voters_are_gone_and_nobody_leads() {
    if !has_promtool() {
        return;
    }
    let (mut nodes, scraped) = nodes();
    let mut recording = Recording::of(&scraped);
    let here = |metric: &str| greatest(&scraped[0], metric);
    eventually("all are ready", || scraped.iter().all(|node| greatest(node, "firstseen_ready") == 1.0));
    recording.scrape(0);
    recording.scrape(20);
    nodes[1].kill();
    nodes[2].kill();
    eventually("nobody leads", || {
        here("firstseen_raft_leader_id") == 0.0
            && here("firstseen_ready") == 0.0
            && here("firstseen_peer_unreachable") == 1.0
    });
    recording.scrape(21);
    recording.scrape(40);
    let gone = ["FirstseenNoLeader", "FirstseenNodeNotReady", "FirstseenNodeNotScraped", "FirstseenPeerUnreachable"];
    recording.assert_alerts(&rules(), &[(19, &[]), (39, &gone)]);
}

#[test]
fn alerts_fire_when_memory_is_given_leases_run_out_and_the_endpoint_has_no_room() {
    if !has_promtool() {
        return;
    }
    let (http, redis) = (free_ports(1), free_ports(1));
    let settings =
        format!("http_listen = \"127.0.0.1:{http}\"\n[redis]\nlisten = \"127.0.0.1:{redis}\"\nconnections_max = 2\n");
    let (node, scraped) = (OwnNode::start("a", &settings), format!("127.0.0.1:{http}"));
    let run = |flags: &str| node.folder.run(&format!("{flags} --cluster {}", node.address));
    eventually("a cluster", || node.folder.run(&format!("cluster form {}", node.address)).code == Some(0));
    let claims = "filter create jobs --window 1h --clock wall --capacity 1k --claims 10s --if-absent";
    eventually("a filter", || run(claims).code == Some(0));
    eventually("it is ready", || greatest(&scraped, "firstseen_ready") == 1.0);
    let mut recording = Recording::of(std::slice::from_ref(&scraped));
    recording.scrape(0);
    recording.scrape(20);
    run("filter create large --window 1h --clock wall --kind timing --memory 250MiB").ok();
    let client = Client::connect([node.address.as_str()]).wait().expect("a client");
    let jobs = opened(&client, "jobs");
    for job in 0..20_u32 {
        let claim = || jobs.claim(&job.to_le_bytes(), Duration::from_millis(100)).wait().expect("an answer");
        let Claiming::Claimed(first) = claim() else { panic!("nobody holds it") };
        // The consumer hangs, so its lease ends, and another consumer is granted the event.
        let delivery = first.deliver();
        eventually("the lease is over", || matches!(claim(), Claiming::Claimed(_)));
        drop(delivery);
    }
    let callers: Vec<_> = (0..8).filter_map(|_| TcpStream::connect(("127.0.0.1", redis)).ok()).collect();
    eventually("some are turned away", || greatest(&scraped, "firstseen_redis_turned_away_total") > 0.0);
    recording.scrape(40);
    recording.scrape(60);
    drop(callers);
    let fire = ["FirstseenMemoryNearlyGiven"];
    let growing = ["FirstseenClaimsExpire", "FirstseenDoorTurnsAway"];
    recording.assert_alerts(&rules(), &[(19, &[]), (39, &growing), (59, &fire)]);
}
