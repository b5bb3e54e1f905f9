//! Moves the database file of a node away while the node runs. The node still has the file open, so its writes succeed,
//! but after a restart the node would not find the file. An earlier version continued to confirm events of durable
//! filters, and these events were lost at the next start.
//!
//! The node must now report that the file is missing. It must leave events of durable filters undecided until the file
//! is back.

use std::fs;

use firstseen_client::{Reason, Verdict};

use crate::asking::{ask, client, count, knows, opened, record};
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;

#[test]
fn a_node_whose_database_was_moved_away_acknowledges_nothing_durable_until_it_is_back() {
    let mut node = OwnNode::start("a", "");
    let address = node.address.clone();
    eventually("a cluster", || node.folder.run(&format!("cluster form {address}")).code == Some(0));
    let create = format!(
        "filter create clicks --window 1h --clock wall --capacity 10k --durability durable --slicing none --cluster {address}"
    );
    eventually("a filter", || node.folder.run(&format!("{create} --if-absent")).code == Some(0));
    let (clients, keys) = (client(&node, 2_000), 0..100);
    let filter = opened(&clients, "clicks");
    record(&filter, keys.clone());
    let (database, aside) = (node.folder.path("data/meta.redb"), node.folder.path("aside"));
    fs::rename(&database, &aside).expect("it is there");
    let reason = "meta.redb was deleted or replaced while the node runs";
    eventually("the node says so", || node.log().contains(reason));
    let refused = ask(&filter, 1_000..1_010);
    assert_eq!(count(&refused, Verdict::Undecided(Reason::Overloaded)), 10, "{refused:?}");
    fs::rename(&aside, &database).expect("it is there");
    eventually("the node says that it is back", || node.log().contains("has everything again"));
    record(&filter, 1_000..1_010);
    node.crash();
    knows(&filter, keys);
    knows(&filter, 1_000..1_010);
}
