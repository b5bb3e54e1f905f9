//! Checks the alerts that concern a single machine. They fire in three situations: the machine lacks resources such as
//! open files, the Redis endpoint of the node could not execute commands, or work waits for a node that is down.

use std::process::Command;

use nix::sys::signal::Signal;
use redis::Value;

use super::fires::{ask as ask_filter, greatest, nodes, rules};
use super::recording::{Recording, has_promtool};
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::ports::free_ports;
use crate::redis_chaos::connect;
use crate::redis_endpoint::ask;
use crate::run::Folder;

/// Starts a node with these settings. Returns the node, and the address at which it serves its metrics.
pub(super) fn node(folder: Folder, settings: &str) -> (OwnNode, String) {
    let http = free_ports(1);
    let node = OwnNode::start_in(folder, "a", &format!("http_listen = \"127.0.0.1:{http}\"\n{settings}"));
    eventually("a cluster", || node.folder.run(&format!("cluster form {}", node.address)).code == Some(0));
    let scraped = format!("127.0.0.1:{http}");
    eventually("it is ready", || greatest(&scraped, "firstseen_ready") == 1.0);
    (node, scraped)
}

#[test]
fn alerts_fire_when_files_are_short_a_filter_is_full_and_claims_lose_their_filter() {
    if !has_promtool() {
        return;
    }
    let redis = free_ports(1);
    let endpoint =
        format!("[redis]\nlisten = \"127.0.0.1:{redis}\"\n[[redis.prefix]]\nmatch = \"job:\"\nfilter = \"jobs\"\n");
    let rule = "[[redis.filter]]\nname = \"jobs\"\nclaim = \"on-expiry-confirm\"\n";
    let (node, scraped) = node(Folder::new(), &(endpoint + rule));
    let run = |flags: &str| node.folder.run(&format!("{flags} --cluster {}", node.address)).ok();
    let make_jobs = || run("filter create jobs --window 1h --clock wall --capacity 1k --claims 2s");
    make_jobs();
    run("filter create full --window unbounded --kind bloom --capacity 100");
    let mut recording = Recording::of(std::slice::from_ref(&scraped));
    let client = &mut connect(redis);
    eventually("a claim", || ask(client, "SET job:first x NX EX 600") != Ok(Value::Nil));
    recording.scrape(0);
    recording.scrape(20);
    assert_eq!(ask(client, "SET job:1 x NX EX 600"), Ok(Value::Okay));
    // The filter that is created again knows no claims of the old filter.
    run("filter drop jobs --yes");
    make_jobs();
    let mut fill = |round: &str| {
        let events = (0..2_000).map(|event| format!(" {round}-{event}")).collect::<String>();
        let codes: Vec<i64> = ask(client, &format!("FS.OBSERVE full ITEMS{events}")).expect("a code for each");
        assert!(codes.iter().any(|code| *code < 0), "there is room");
    };
    fill("first");
    eventually("claims are not confirmed", || greatest(&scraped, "firstseen_redis_unconfirmed_total") > 0.0);
    let files_max = greatest(&scraped, "process_open_fds") + 4.0;
    let limits = [format!("--pid={}", node.process()), format!("--nofile={files_max}:")];
    assert!(Command::new("prlimit").args(limits).status().expect("prlimit of util-linux").success());
    eventually("the limit", || greatest(&scraped, "process_max_fds") == files_max);
    recording.scrape(21);
    recording.scrape(22);
    let decided = || greatest(&scraped, "firstseen_filter_decisions_total");
    let before = decided();
    fill("second");
    eventually("what the full filter has said", || decided() > before);
    recording.scrape(40);
    let now = ["FirstseenConfirmsFail"];
    let later = ["FirstseenEventsUndecided", "FirstseenFilesNearlyAllOpen", "FirstseenFilterNearlyFull"];
    recording.assert_alerts(&rules(), &[(19, &[]), (21, &now), (39, &later)]);
}

#[test]
fn alerts_fire_when_answers_are_degraded_and_an_alteration_waits_for_a_node() {
    if !has_promtool() {
        return;
    }
    let (mut nodes, scraped) = nodes();
    let run =
        |nodes: &[OwnNode; 3], flags: &str| nodes[0].folder.run(&format!("{flags} --cluster {}", nodes[0].address));
    for name in ["shared", "altered"] {
        let create =
            format!("filter create {name} --slicing vertical:3 --min-live 1 --kind timing --window 1h --clock wall");
        eventually("a filter", || run(&nodes, &format!("{create} --capacity 10k --if-absent")).code == Some(0));
    }
    eventually("all are ready", || scraped.iter().all(|node| greatest(node, "firstseen_ready") == 1.0));
    let mut recording = Recording::of(&scraped);
    recording.scrape(0);
    recording.scrape(20);
    // The node is stopped and not yet marked down. If it were marked down, the alteration would be rejected.
    nodes[2].signal(Signal::SIGSTOP);
    run(&nodes, "filter alter altered --capacity 20k --no-wait --yes").ok();
    nodes[2].kill();
    eventually("it is down", || greatest(&scraped[0], "firstseen_nodes_down") == 1.0);
    eventually("a node is waited for", || greatest(&scraped[0], "firstseen_alterations_waiting") == 1.0);
    let degraded = || scraped[..2].iter().map(|node| greatest(node, "firstseen_degraded_events_total")).sum::<f64>();
    let more = || {
        let before = degraded();
        eventually("answers that are degraded", || {
            ask_filter(&nodes, "shared", 0..1_000);
            degraded() > before
        });
    };
    more();
    recording.scrape(21);
    more();
    recording.scrape(60);
    recording.scrape(61);
    let away = ["FirstseenNodeDown", "FirstseenNodeNotScraped", "FirstseenPeerUnreachable"];
    let waits = ["FirstseenAlterationWaits", "FirstseenEventsDegraded"];
    recording.assert_alerts(&rules(), &[(19, &[]), (59, &[&away[..], &waits].concat())]);
}
