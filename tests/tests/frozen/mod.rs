//! Checks that this version opens the data that earlier releases have written, and gives the same answers.
//!
//! `tests/frozen/RELEASE` contains the folders of three nodes that were stopped, a backup of their cluster, and the
//! state of a `dedup` run. The release itself has written these files, which are stored compressed. The folder also
//! contains its answers about keys. This command writes the data set of the current version:
//!
//! ```text
//! FIRSTSEEN_FREEZE=0.2 cargo test -p firstseen-tests --test all frozen::make -- --ignored
//! ```
//!
//! `FIRSTSEEN_BINARY` selects the binary of another version, which then writes its own data set.

mod folders;
mod make;

use std::path::Path;

use firstseen_client::{Client, ConnectOptions, Filter, Verdict, Wait};
use serde_json::Value;

use self::folders::{FrozenNode, Set, sets, unpack};
use crate::asking::opened;
use crate::local_cluster::{eventually, eventually_eq};
use crate::run::Folder;

/// Filters of a data set, with the flags that created them. Windows are so long that the data set can be used for
/// years.
const FILTERS: [(&str, &str); 7] = [
    ("memory", "--slicing horizontal:3 --kind timing"),
    ("durable", "--slicing vertical:3 --kind generations --durability durable"),
    ("copies", "--slicing horizontal:3 --copies 1 --kind cuckoo --durability durable"),
    ("claimed", "--slicing vertical:3 --kind timing --claims 10s --durability durable"),
    ("tree", "--tree dense --tree-fold 1 --kind timing"),
    ("lasting", "--tree dense --tree-cut-off local --kind timing --durability durable"),
    ("altered", "--slicing horizontal:3 --kind timing --durability durable"),
];
const WINDOW: &str = "--window 10000d --clock wall --capacity 2k --fpr 0.001";
/// Number of keys that are recorded in each filter, and number of keys that are looked up.
const KEYS: u64 = 300;
const KEYS_ASKED: u64 = 500;
const DEADLINE_MS: u64 = 5_000;
/// Log that the `dedup` run has read, and the flags of the run.
const RUN: &str = "--window 5000events --state seen.state log";

fn client(node: &FrozenNode) -> Client {
    let site = Some(node.site.to_owned());
    let options = ConnectOptions { deadline_ms: DEADLINE_MS, site, ..ConnectOptions::from([node.address.clone()]) };
    Client::connect(options).wait().expect("a client")
}

/// Returns one letter for each key: `d` for a duplicate, `n` for an unknown key, and `?` for an undecided key.
fn answers(filter: &Filter) -> String {
    let letter = |key: u64| match filter.test(&key.to_le_bytes()).wait().expect("a call") {
        Verdict::Duplicate => 'd',
        Verdict::FirstSeen => 'n',
        Verdict::Undecided(_) => '?',
    };
    (0..KEYS_ASKED).map(letter).collect()
}

/// Waits until the nodes give these answers, which shows that their slices have been loaded.
fn give(nodes: &[FrozenNode], wanted: &Value) {
    let client = client(&nodes[0]);
    for (name, wanted) in wanted.as_object().expect("answers by filter") {
        let filter = opened(&client, name);
        eventually_eq(name, wanted.as_str().expect("answers").to_owned(), || answers(&filter));
    }
}

fn upgrade(node: &FrozenNode, command: &str) -> crate::run::Ran {
    node.folder.run(&format!("cluster upgrade {command} --addr {}", node.address))
}

/// Returns the format of the cluster, according to a node.
fn format(node: &FrozenNode) -> Option<u64> {
    let status: Value = serde_json::from_str(&upgrade(node, "status --json").out).ok()?;
    status["format"].as_u64()
}

#[test]
#[ignore = "minutes"]
fn nodes_of_every_release_are_opened_and_give_their_answers() {
    let sets = sets();
    assert!(!sets.is_empty(), "no set is kept");
    for Set { release, path, first_format } in sets {
        println!("{release}");
        let mut nodes = folders::nodes(&path);
        let wanted = folders::answers(&path);
        nodes.iter_mut().for_each(FrozenNode::start);
        eventually("a leader", || {
            nodes[0].folder.run(&format!("cluster status --addr {}", nodes[0].address)).code == Some(0)
        });
        give(&nodes, &wanted);
        eventually("the format as it was", || format(&nodes[1]) == Some(first_format));
        assert_continues(&nodes[0]);
        // After this step, the upgrade cannot be undone.
        if format(&nodes[0]) < Some(11) {
            upgrade(&nodes[1], "hold").ok();
            let held: Value = serde_json::from_str(&upgrade(&nodes[2], "status --json").ok().out).expect("JSON");
            assert_eq!(held["held_by"], serde_json::json!(["a", "b", "c"]));
        }
        eventually("a newer format", || upgrade(&nodes[2], "finalize").code == Some(0));
        assert!(format(&nodes[2]) >= Some(11));
        nodes.iter_mut().for_each(FrozenNode::restart);
        eventually("a leader", || {
            nodes[0].folder.run(&format!("cluster status --addr {}", nodes[0].address)).code == Some(0)
        });
        assert!(format(&nodes[0]) >= Some(11), "it is on the disk");
        give(&nodes, &wanted);
    }
}

/// Checks that earlier events are kept, and that new events are recorded with them.
fn assert_continues(node: &FrozenNode) {
    let client = client(node);
    let filter = opened(&client, "durable");
    let key = b"a key of this version";
    let mut verdict = filter.observe(key).wait().expect("a call");
    eventually("it is recorded", || {
        if matches!(verdict, Verdict::Undecided(_)) {
            verdict = filter.observe(key).wait().expect("a call");
        }
        !matches!(verdict, Verdict::Undecided(_))
    });
    assert_eq!(filter.observe(key).wait().expect("a call"), Verdict::Duplicate);
}

#[test]
fn backups_of_every_release_can_be_restored() {
    for Set { release, path, .. } in sets() {
        println!("{release}");
        let backup = Folder::new();
        unpack(&path.join("backup"), &backup.path("backup"));
        let mut nodes = folders::empty_nodes(folders::OTHER_SUBNET);
        nodes.iter_mut().for_each(FrozenNode::start);
        let form = nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(" ");
        eventually("a cluster", || nodes[0].folder.run(&format!("cluster form {form}")).code == Some(0));
        let restore =
            format!("cluster restore {} --addr {} --yes --json", backup.path("backup").display(), nodes[0].address);
        let restored = nodes[0].folder.run(&restore).ok();
        assert!(restored.out.contains("\"done\": true"), "{}", restored.out);
        // The backup contains cells that were only in memory, because it was written before the nodes were stopped.
        let client = client(&nodes[0]);
        for name in ["memory", "durable", "copies", "altered"] {
            let filter = opened(&client, name);
            let known = || answers(&filter)[..KEYS as usize].chars().filter(|letter| *letter == 'd').count() as u64;
            eventually(&format!("{name} knows its keys"), || known() == KEYS);
        }
    }
}

#[test]
fn states_of_every_release_go_on() {
    for Set { release, path, .. } in sets() {
        println!("{release}");
        let folder = Folder::new();
        unpack(&path.join("run"), &folder.path("run"));
        folder.write("log", folder.read("run/log"));
        std::fs::copy(folder.path("run/seen.state"), folder.path("seen.state")).expect("a copy");
        let report = folder.dedup(&format!("--report json --out /dev/null {RUN}")).ok().report();
        assert_eq!((&report["first_seen"], &report["duplicates"]), (&0.into(), &KEYS.into()), "{report}");
    }
}

/// Runs nodes of two versions in one cluster, under load. `FIRSTSEEN_OLDER` names the earlier version.
#[test]
fn nodes_of_two_versions_keep_every_promise_together() {
    let Some(older) = std::env::var_os("FIRSTSEEN_OLDER") else {
        eprintln!("skipped: FIRSTSEEN_OLDER names no binary of an earlier version");
        return;
    };
    let folder = Folder::new();
    let ran = folder.run_lab(&format!("chaos run upgrade --json --older {}", Path::new(&older).display()));
    let judgement: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err));
    assert_eq!((ran.code, &judgement["broken"]), (Some(0), &Value::Array(Vec::new())), "{judgement}");
}

#[test]
fn a_cluster_of_this_version_has_its_newest_format_and_no_step_to_take() {
    let cluster = crate::local_cluster::LocalCluster::start(&Folder::new(), "--nodes 1");
    let folder = Folder::new();
    let addresses = cluster.addresses();
    let shown = folder.run(&format!("cluster upgrade status --addr {addresses}")).ok();
    assert!(shown.out.contains("nothing is to be done") && shown.out.contains("11"), "{}", shown.out);
    let held = folder.run(&format!("cluster upgrade hold --addr {addresses}")).ok();
    assert!(held.out.contains("holds the format"), "{}", held.out);
    folder.run(&format!("cluster upgrade finalize --addr {addresses}")).ok();
    let status: Value =
        serde_json::from_str(&folder.run(&format!("cluster status --json --addr {addresses}")).ok().out).expect("JSON");
    assert_eq!((&status["format"], &status["nodes"][0]["version"]), (&11.into(), &env!("CARGO_PKG_VERSION").into()));
}
