//! Tests a node that is started with a wrong clock.

use crate::clock_ahead::AheadClock;
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::run::{Folder, number};

const EVENTS: u64 = 500;
const TWO_HOURS_MS: u64 = 2 * 60 * 60 * 1_000;

/// Returns what `dedup` reports about all events: the number of first-seen events, duplicates, and undecided events.
fn asked(node: &OwnNode) -> [u64; 3] {
    let flags = format!("--report json --out passed --cluster {}", node.address);
    let report = node.folder.run(&format!("dedup --filter clicks events {flags}")).report();
    ["first_seen", "duplicates", "undecided"].map(|name| number(&report, name))
}

/// Regression test. A durable node was started with a clock that was two hours ahead. The node believed its first
/// reading of the clock and moved its slices past their window of 30 minutes, so all events that it knew were new
/// afterwards. (A node without other nodes accepts such a clock after ten seconds, because it cannot distinguish it
/// from a clock that was corrected.)
#[test]
fn a_node_that_is_started_with_a_wrong_clock_forgets_nothing() {
    let library = Folder::new();
    let Some(clock) = AheadClock::build(&library) else { return };
    let mut nodes = ["a", "b", "c"].map(|name| OwnNode::start(name, ""));
    let form = format!("cluster form {} {} {}", nodes[0].address, nodes[1].address, nodes[2].address);
    eventually("a cluster", || nodes[0].folder.run(&form).code == Some(0));
    let create = "filter create clicks --window 30m --capacity 10k --fpr 1e-8 --clock wall --slicing horizontal:3";
    nodes[0].folder.run(&format!("{create} --durability durable --cluster {}", nodes[0].address)).ok();
    nodes[0].folder.write("events", (0..EVENTS).map(|event| format!("event-{event}\n")).collect::<String>());
    eventually("slices", || asked(&nodes[0])[2] == 0);
    assert_eq!(asked(&nodes[0]), [0, EVENTS, 0], "all are recorded");

    nodes[2].stop();
    nodes[2].set_environment(clock.environment(TWO_HOURS_MS));
    nodes[2].start_again();
    let [first_seen, _, undecided] = asked(&nodes[0]);
    assert_eq!(first_seen, 0, "nothing is called new by that clock");
    assert!(undecided > 0, "the node does not answer by it");
    nodes[2].stop();
    nodes[2].set_environment(Vec::new());
    nodes[2].start_again();
    let mut replied = [0; 3];
    eventually("verdicts", || {
        replied = asked(&nodes[0]);
        replied[2] == 0
    });
    assert_eq!(replied, [0, EVENTS, 0], "every event is still known");
}
