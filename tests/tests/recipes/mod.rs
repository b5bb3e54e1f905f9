//! Runs the recipes of `docs/how-to/claims.md` with consumers that die at any step, and checks what has been delivered
//! in the end.
//!
//! The code blocks on the page are the code that is run here.

mod database;
mod queue;

use std::time::Duration;

use firstseen_client::{Client, Filter, Wait};

use crate::asking::opened;
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;

/// Lease of a claim, within which a consumer delivers what it has claimed.
const LEASE: Duration = Duration::from_secs(2);

/// Starts a node with a filter that allows claims.
fn stage() -> OwnNode {
    let node = OwnNode::start("a", "");
    let run = |command: &str| node.folder.run(&format!("{command} {}", node.address)).code == Some(0);
    eventually("a cluster", || run("cluster init --addr"));
    let create = "filter create clicks --if-absent --window 1h --clock wall --capacity 10k --fpr 1e-6 --claims 2s";
    eventually("a filter", || run(&format!("{create} --retry-horizon 5s --cluster")));
    node
}

fn filter(node: &OwnNode) -> (Client, Filter) {
    let client = Client::connect([node.address.clone()]).wait().expect("a client");
    let filter = opened(&client, "clicks");
    (client, filter)
}

/// Decides at which steps a consumer dies. The numbers are pseudo-random with a fixed seed, so that a run can be
/// repeated.
struct Fate(u64);

impl Fate {
    /// Returns whether the consumer dies at this step, which happens in one of `one_in` cases.
    fn ends(&mut self, one_in: u64) -> bool {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33).is_multiple_of(one_in)
    }
}

/// Checks that the code blocks of the page which name a file equal lines of that file.
#[test]
fn the_page_shows_what_is_run() {
    let page = include_str!("../../../docs/how-to/claims.md");
    let plain = |text: &str| text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    let sources = [("queue.rs", include_str!("queue.rs")), ("database.rs", include_str!("database.rs"))];
    for (name, source) in sources {
        let mark = format!("<!-- from tests/tests/recipes/{name} -->\n```rust,ignore\n");
        let blocks: Vec<&str> = page.split(&mark).skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(!blocks.is_empty(), "the page shows nothing of {name}");
        for block in blocks {
            assert!(plain(source).contains(&plain(block)), "{name} has no such lines:\n{block}");
        }
    }
}
