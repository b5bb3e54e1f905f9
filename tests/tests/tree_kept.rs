//! Durable trees on real processes at three sites. What the root has recorded, and what a site has decided alone,
//! survives the end of the processes.
//!
//! The long run is `FIRSTSEEN_CRASHES=200 cargo test -p firstseen-tests --test all tree_kept`.

use firstseen_client::{Filter, Verdict, Wait};
use nix::sys::signal::Signal;

use crate::asking::{ask, count};
use crate::crash_loop::{Producer, answers, crashes};
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::three_sites::{SITES, at_site_of, create, nodes_at_sites};
use crate::working::Working;

/// Number of keys of each producer. Producers have different keys.
const KEYS_OF_PRODUCER: u64 = 1 << 32;

/// Returns how many of these keys a lookup finds. A lookup records nothing.
fn found(filter: &Filter, keys: std::ops::Range<u64>) -> u64 {
    let keys: Vec<[u8; 8]> = keys.map(u64::to_le_bytes).collect();
    let verdicts = filter.test_batch(&keys).wait().expect("a call");
    count(&verdicts, Verdict::Duplicate)
}

/// Cuts Athens off, and lets it decide these keys alone.
fn decide_alone(nodes: &[OwnNode; 3], at_athens: &Filter, keys: std::ops::Range<u64>) {
    nodes[1..].iter().for_each(|node| node.signal(Signal::SIGSTOP));
    let mut others = (KEYS_OF_PRODUCER..).step_by(30);
    eventually("Athens decides alone", || {
        let from = others.next().expect("a key");
        count(&ask(at_athens, from..from + 30), Verdict::FirstSeen) == 30
    });
    let new = ask(at_athens, keys.clone());
    assert_eq!(count(&new, Verdict::FirstSeen), keys.end - keys.start, "{new:?}");
    assert!(at_athens.status().degraded.events > 0, "two thirds of the root are out of reach");
}

#[test]
fn a_leaf_that_is_killed_while_it_is_cut_off_reports_what_it_has_decided_alone() {
    let mut nodes = nodes_at_sites();
    create(&nodes, "clicks", "--tree dense --tree-cut-off local --durability durable");
    let (_athens, at_athens) = at_site_of(&nodes[0], SITES[0], "clicks");
    eventually("every site answers", || count(&ask(&at_athens, 0..100), Verdict::Duplicate) == 100);
    decide_alone(&nodes, &at_athens, 1_000..1_200);
    nodes[0].kill();
    nodes[1..].iter().for_each(|node| node.signal(Signal::SIGCONT));
    nodes[0].start_again();
    let (_oslo, at_oslo) = at_site_of(&nodes[2], SITES[2], "clicks");
    eventually("Oslo finds what Athens has decided alone", || found(&at_oslo, 1_000..1_200) == 200);
    eventually("Oslo calls all of it duplicates", || {
        let again = ask(&at_oslo, 1_000..1_200);
        assert_eq!(count(&again, Verdict::FirstSeen), 0, "{again:?}");
        count(&again, Verdict::Duplicate) == 200
    });
    let (_athens, at_athens) = at_site_of(&nodes[0], SITES[0], "clicks");
    eventually("Athens finds it too", || found(&at_athens, 1_000..1_200) == 200);
}

#[test]
fn killing_all_nodes_at_once_loses_nothing_of_a_durable_tree() {
    let mut nodes = nodes_at_sites();
    create(&nodes, "clicks", "--tree dense --durability durable");
    let (_athens, at_athens) = at_site_of(&nodes[0], SITES[0], "clicks");
    eventually("every site answers", || count(&ask(&at_athens, 0..200), Verdict::Duplicate) == 200);
    nodes.iter_mut().for_each(OwnNode::kill);
    nodes.iter_mut().for_each(OwnNode::start_again);
    for (node, site) in nodes.iter().zip(SITES) {
        let (_client, filter) = at_site_of(node, site, "clicks");
        eventually("the site knows the events", || {
            let again = ask(&filter, 0..200);
            assert_eq!(count(&again, Verdict::FirstSeen), 0, "{site}: {again:?}");
            count(&again, Verdict::Duplicate) == 200
        });
    }
}

#[test]
fn nodes_of_a_durable_root_that_are_killed_again_and_again_forget_nothing() {
    let mut nodes = nodes_at_sites();
    create(&nodes, "clicks", "--tree dense --durability durable");
    let mut working = Vec::new();
    for (number, (node, site)) in (0..).zip(nodes.iter().zip(SITES)) {
        let (client, filter) = at_site_of(node, site, "clicks");
        working.push(Working::start(Producer::new(client, filter, number * KEYS_OF_PRODUCER)));
    }
    for crash in 0..crashes() {
        working.iter().for_each(|producer| producer.await_replies(1));
        let node = &mut nodes[crash as usize % SITES.len()];
        node.crash();
        answers(node);
    }
    let mut producers: Vec<Producer> = working.into_iter().map(Working::end).collect();
    let keys: Vec<u64> = producers.iter().flat_map(Producer::keys).collect();
    assert!(keys.len() as u64 > 30 * crashes(), "{} keys", keys.len());
    for (producer, site) in producers.iter_mut().zip(SITES) {
        producer.submit_all();
        assert_eq!(producer.forgotten(), 0, "at {site}");
        eventually("every key of any site is known", || {
            let verdicts = producer.verdicts(&keys);
            assert_eq!(count(&verdicts, Verdict::FirstSeen), 0, "at {site}");
            count(&verdicts, Verdict::Duplicate) == keys.len() as u64
        });
    }
}

/// Events that a site decides alone are lost with its process, unless the tree is durable.
#[test]
fn a_tree_that_loses_what_sites_decide_alone_says_so() {
    let nodes = nodes_at_sites();
    for (name, durability, is_lossy) in [("memory", "memory", true), ("durable", "durable", false)] {
        let created = nodes[0].folder.run(&format!(
            "filter create {name} --tree dense --tree-cut-off local --window 1h --capacity 1000 --durability {durability} \
             --cluster {}",
            nodes[0].address
        ));
        assert_eq!(
            created.ok().err.contains("decides alone while it is cut off can be lost"),
            is_lossy,
            "{durability}"
        );
    }
}
