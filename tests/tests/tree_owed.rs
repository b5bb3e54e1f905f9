//! Black-box tests of what operators see of events that a site has decided alone: `cluster safe-to-stop`, `cluster
//! backup`, `top` and the metrics tell that these events are missing at the root, until the site has reported them.

use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::local_cluster::{LocalCluster, eventually};
use crate::run::{Folder, Ran, number};

/// Number of events that Athens decides alone.
const ALONE: u32 = 60;

/// Creates a tree whose root is at Oslo only, so that Athens is cut off from it when Oslo stands still.
fn create_tree(folder: &Folder, cluster: &LocalCluster, flags: &str) {
    let leaf = |site: &str| format!("[[place]]\nname = \"{site}\"\nparent = \"root\"\nsites = [\"{site}\"]\n");
    let root = "[[place]]\nname = \"root\"\nsites = [\"oslo\"]\n";
    let leaves = ["athens", "oslo", "ioannina"].map(leaf).concat();
    let tree = format!("mode = \"dense\"\ncut_off = \"local\"\n{root}{leaves}");
    folder.write("tree.toml", tree);
    cluster
        .create(folder, "clicks", &format!("--window 1h --clock wall --capacity 10k --tree-file tree.toml {flags}"))
        .ok();
}

/// Submits new events at Athens, and returns the number of those that are first-seen.
fn first_seen(folder: &Folder, cluster: &LocalCluster, keys: std::ops::Range<u32>) -> u64 {
    folder.write("input", keys.map(|key| format!("{key}\n")).collect::<String>());
    let of =
        format!("--cluster {} --filter clicks --site athens --report json --out /dev/null input", cluster.addresses());
    number(&folder.dedup(&of).ok().report(), "first_seen")
}

/// Returns the address and the HTTP address of the first node, which is at Athens.
fn athens(cluster: &LocalCluster) -> (String, String) {
    let node = &cluster.ready["nodes"][0];
    let text = |name: &str| node[name].as_str().unwrap_or_else(|| panic!("no {name} in {node}")).to_owned();
    (text("address"), text("http"))
}

fn safe_to_stop(folder: &Folder, at: &str, name: &str, flags: &str) -> Ran {
    folder.run(&format!("cluster safe-to-stop {name} {flags} --addr {at}"))
}

#[test]
fn events_that_a_site_has_decided_alone_stand_against_stopping_its_node_until_they_are_reported() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--sites athens,oslo,ioannina");
    create_tree(&folder, &cluster, "");
    let (at, http) = athens(&cluster);
    let name = cluster.ready["nodes"][0]["name"].as_str().expect("a name");
    let oslo = cluster.processes()[1];
    assert_eq!(first_seen(&folder, &cluster, 0..10), 10);
    let before = safe_to_stop(&folder, &at, name, "").ok();
    assert!(!before.out.contains("first-seen"), "{before:?}");

    kill(oslo, Signal::SIGSTOP).expect("a process");
    eventually("Athens decides alone", || first_seen(&folder, &cluster, 1_000..1_000 + ALONE) > 0);
    let alone = safe_to_stop(&folder, &at, name, "--json");
    assert_eq!(alone.code, Some(1), "{alone:?}");
    let document: Value = serde_json::from_str(&alone.out).expect("JSON");
    let reasons = document["reasons"].as_array().expect("reasons");
    let owed = reasons.iter().find(|reason| reason["filter"] == "clicks@athens").expect("the leaf");
    let text = owed["text"].as_str().expect("a text");
    assert!(text.contains("events first-seen without the level above") && text.contains("--wait"), "{text}");
    assert!(owed["loss"] == true && owed["may_pass"] == true, "{owed}");

    let top = folder.run(&format!("top --once --http {http}")).ok();
    assert!(top.out.contains("decided alone and not reported"), "{top:?}");

    kill(oslo, Signal::SIGCONT).expect("a process");
    safe_to_stop(&folder, &at, name, "--wait --accept-loss").ok();
    eventually("they are reported", || !safe_to_stop(&folder, &at, name, "").out.contains("clicks@athens"));
    let backup = folder.run(&format!("cluster backup --out backup --json --addr {at}")).ok();
    let document: Value = serde_json::from_str(&backup.out).expect("JSON");
    assert_eq!(document["owed_events"], 0, "{document}");
}
