//! Tests a run that waits for a node which is down. The run must report that it is waiting, and an interrupt must end
//! the wait.

use std::io::{BufRead, BufReader, Read};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::run::{Watchdog, number};

const LINES: u64 = 100;

/// Starts three nodes, each with a slice of a filter, and kills the last. Waits until the other nodes report it as
/// down.
fn without_the_last() -> [OwnNode; 3] {
    let mut nodes = ["a", "b", "c"].map(|name| OwnNode::start(name, ""));
    let form = nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(" ");
    let run = |nodes: &[OwnNode; 3], flags: &str| nodes[0].folder.run(flags);
    eventually("a cluster", || run(&nodes, &format!("cluster form {form}")).code == Some(0));
    let address = nodes[0].address.clone();
    let create = "filter create clicks --if-absent --slicing horizontal:3 --window 1h --clock wall --capacity 10k";
    eventually("a filter", || run(&nodes, &format!("{create} --cluster {address}")).code == Some(0));
    nodes[2].kill();
    eventually("it is down", || {
        let printed = run(&nodes, &format!("cluster status --json --addr {address}"));
        let status: Value = serde_json::from_str(&printed.out).unwrap_or_default();
        status["nodes"].as_array().is_some_and(|nodes| nodes.iter().any(|node| node["down"] == true))
    });
    nodes
}

#[test]
fn a_wait_for_a_node_is_reported_and_ends_with_an_interrupt() {
    let nodes = without_the_last();
    let folder = &nodes[0].folder;
    folder.write("input", (0..LINES).map(|line| format!("line {line}\n")).collect::<String>());
    let mut child =
        folder.start(&format!("--cluster {} --filter clicks --out once --report json input", nodes[0].address));
    let _watchdog = Watchdog::of(&child);
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut said = String::new();
    stderr.read_line(&mut said).expect("text");
    assert_eq!(said, "firstseen: waiting up to 15 s for c, which is down\n");
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a process id")), Signal::SIGINT).expect("it runs");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest}");
    let report = rest.lines().find(|line| line.starts_with('{')).expect("a report");
    let report: Value = serde_json::from_str(report).expect("JSON");
    // If the run had waited until the deadline, the reason would be `slices_down`.
    let reasons = &report["undecided_reasons"];
    assert!(number(reasons, "unknown") > 0 && reasons["slices_down"].is_null(), "{report}");
    assert_eq!(number(&report, "events"), LINES);
    assert_eq!(folder.read("once").lines().count() as u64, LINES, "what is undecided is passed on");
}
