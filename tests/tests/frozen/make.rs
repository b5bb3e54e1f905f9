//! Writes the data set of a release.

use std::fs;

use firstseen_client::{Verdict, Wait};
use serde_json::{Map, Value, json};

use super::folders::{self, FrozenNode, NODES, frozen, pack};
use super::{FILTERS, KEYS, RUN, WINDOW, answers, client};
use crate::asking::opened;
use crate::local_cluster::eventually;
use crate::run::Folder;

/// Filters that keep nothing on disk.
const FILTERS_IN_MEMORY: [&str; 2] = ["memory", "tree"];

#[test]
#[ignore = "writes files that are kept in the repository"]
fn the_set_of_this_version_is_written() {
    let Ok(release) = std::env::var("FIRSTSEEN_FREEZE") else {
        return eprintln!("skipped: FIRSTSEEN_FREEZE names no release");
    };
    let set = frozen().join(&release);
    assert!(!set.exists(), "{} is there: a set is written once", set.display());
    let mut nodes = folders::empty_nodes(folders::DATA_SET_SUBNET);
    nodes.iter_mut().for_each(FrozenNode::start);
    let form = nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(" ");
    eventually("a cluster", || nodes[0].folder.run(&format!("cluster form {form}")).code == Some(0));
    for (name, flags) in FILTERS {
        let create = format!("filter create {name} --if-absent {flags} {WINDOW} --cluster {}", nodes[0].address);
        eventually("a filter", || nodes[0].folder.run(&create).code == Some(0));
    }
    record(&nodes);
    let backup = Folder::new();
    let out = backup.path("backup");
    nodes[0].folder.run(&format!("cluster backup --out {} --addr {}", out.display(), nodes[0].address)).ok();
    // An alteration lasts as long as the predecessor's window, which is forever in practice.
    let alter = format!("filter alter altered --capacity 4k --yes --cluster {}", nodes[0].address);
    nodes[0].folder.run(&alter).ok();
    nodes.iter_mut().for_each(FrozenNode::stop);
    nodes.iter().zip(NODES).for_each(|(node, (name, _))| pack(&node.folder.path("data"), &set.join(name)));
    pack(&out, &set.join("backup"));
    // These are the answers after a restart, when the contents of memory are lost.
    nodes.iter_mut().for_each(FrozenNode::start);
    fs::write(set.join("answers.json"), serde_json::to_string_pretty(&answered(&nodes)).expect("JSON"))
        .expect("a file");
    let format = status_format(&nodes[0]);
    fs::write(set.join("about.json"), format!("{}\n", json!({ "format": format }))).expect("a file");
    run_of_dedup(&set.join("run"));
}

fn record(nodes: &[FrozenNode]) {
    let client = client(&nodes[0]);
    for (name, _) in FILTERS {
        let filter = opened(&client, name);
        for key in 0..KEYS {
            let observe = || filter.observe(&key.to_le_bytes()).wait().expect("a call");
            eventually("every key is recorded", || !matches!(observe(), Verdict::Undecided(_)));
        }
    }
}

/// Returns the answers of each filter, once they no longer change.
fn answered(nodes: &[FrozenNode]) -> Value {
    let client = client(&nodes[0]);
    let mut all = Map::new();
    for (name, _) in FILTERS {
        let filter = opened(&client, name);
        let mut given = answers(&filter);
        let mut steady = 0;
        eventually(&format!("{name} answers"), || {
            let next = answers(&filter);
            steady = if next == given { steady + 1 } else { 0 };
            given = next;
            // What was in memory is lost, so such keys stay undecided.
            steady > 10 && (FILTERS_IN_MEMORY.contains(&name) || !given.contains('?'))
        });
        all.insert(name.to_owned(), Value::String(given));
    }
    Value::Object(all)
}

/// Returns the format of the cluster. Versions that do not report a format have the first format.
fn status_format(node: &FrozenNode) -> u64 {
    let ran = node.folder.run(&format!("cluster status --json --addr {}", node.address)).ok();
    let status: Value = serde_json::from_str(&ran.out).expect("JSON");
    status["format"].as_u64().unwrap_or(10)
}

fn run_of_dedup(to: &std::path::Path) {
    let folder = Folder::new();
    folder.write("log", (0..KEYS).map(|line| format!("line {line}\n")).collect::<String>());
    folder.dedup(&format!("--out /dev/null {RUN}")).ok();
    let kept = Folder::new();
    for name in ["log", "seen.state"] {
        fs::copy(folder.path(name), kept.path(name)).expect("a copy");
    }
    pack(&kept.path(""), to);
}
