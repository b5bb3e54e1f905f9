//! Checks the log lines whose event names are documented as stable, so that programs can rely on them. Every node must
//! log each change of nodes, slices and filters, and the documentation must list all event names.

use std::collections::BTreeSet;

use nix::sys::signal::{Signal, kill};

use crate::local_cluster::{LocalCluster, eventually};
use crate::run::Folder;

/// Event names that a test cannot trigger. They are tested in `map_change.rs`.
const NOT_CAUSED: [&str; 3] = ["further_changes", "move_given_up", "no_leader"];

/// Returns the lines of a node's log that have an event name.
fn lines(folder: &Folder, node: usize) -> Vec<String> {
    let text = std::fs::read_to_string(folder.path(&format!("firstseen-data/node-{node}/log"))).unwrap_or_default();
    text.lines().filter(|line| line.contains(" event=")).map(str::to_owned).collect()
}

fn name(line: &str) -> Option<String> {
    let name = line.split_once(" event=\"")?.1.split('"').next()?;
    Some(name.to_owned())
}

/// Waits until a line of node 1 contains all of these parts.
fn awaits(folder: &Folder, parts: &[&str]) {
    let has_all = |line: &String| parts.iter().all(|part| line.contains(part));
    eventually(&format!("a line with {parts:?}"), || lines(folder, 1).iter().any(has_all));
}

fn documented() -> BTreeSet<String> {
    let text = include_str!("../../docs/reference/metrics.md");
    let (_, section) = text.split_once("### Lines of the log").expect("the section");
    let rows = section.lines().take_while(|line| !line.starts_with("## ") && !line.starts_with("### "));
    rows.filter_map(|row| Some(row.strip_prefix("| `")?.split('`').next()?.to_owned())).collect()
}

#[test]
fn changes_of_nodes_slices_and_filters_have_lines_whose_names_stay() {
    let folder = Folder::with("");
    let cluster = LocalCluster::start(&folder, "--nodes 3");
    let addresses = cluster.addresses();
    let run = |command: &str| {
        let ran = folder.run(command);
        assert_eq!(ran.code, Some(0), "{command}: {}", ran.err);
    };
    let address = addresses.split(',').next().expect("a node");
    awaits(&folder, &[r#"event="leader""#]);
    for name in ["clicks", "views"] {
        let flags = "--window 1h --clock wall --capacity 30k --retry-horizon 2s --slicing horizontal:6";
        assert_eq!(cluster.create(&folder, name, flags).code, Some(0));
        awaits(&folder, &[r#"event="filter_created""#, name]);
    }
    run(&format!("filter alter clicks --capacity 60k --cluster {addresses}"));
    awaits(&folder, &[r#"event="filter_altered""#, "clicks"]);
    run(&format!("filter drop views --yes --cluster {addresses}"));
    awaits(&folder, &[r#"event="filter_dropped""#, "views"]);

    let stopped = cluster.processes()[1];
    kill(stopped, Signal::SIGSTOP).expect("it runs");
    awaits(&folder, &[r#"event="node_down""#, "node-2", "WARN"]);
    awaits(&folder, &[r#"event="slices_incomplete""#, "clicks", "complete=4", "of=6"]);
    kill(stopped, Signal::SIGCONT).expect("it is there");
    awaits(&folder, &[r#"event="node_up""#, "node-2", "starts=2"]);
    awaits(&folder, &[r#"event="slices_complete""#, "clicks"]);

    run(&format!("cluster drain node-3 --addr {address}"));
    awaits(&folder, &[r#"event="move_begun""#, r#"from="node-3""#]);
    awaits(&folder, &[r#"event="move_ended""#, r#"from="node-3""#]);
    run(&format!("cluster leave node-3 --addr {address}"));
    awaits(&folder, &[r#"event="node_left""#, "node-3"]);

    let named: BTreeSet<String> =
        (1..=3).flat_map(|node| lines(&folder, node)).filter_map(|line| name(&line)).collect();
    let known = documented();
    assert_eq!(named.difference(&known).collect::<Vec<_>>(), Vec::<&String>::new(), "the page names all");
    let missing: Vec<&str> = known.difference(&named).map(String::as_str).collect();
    assert!(missing.iter().all(|name| NOT_CAUSED.contains(name)), "{missing:?} never come");
}
