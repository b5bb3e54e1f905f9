//! A cluster of three nodes at three sites, in processes of their own.

use firstseen_client::{Client, ConnectOptions, Filter, Wait};

use crate::asking::opened;
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;

pub(crate) const SITES: [&str; 3] = ["athens", "ioannina", "oslo"];
const DEADLINE_MS: u64 = 3_000;

/// Starts a node at each site, and forms a cluster of these nodes.
pub(crate) fn nodes_at_sites() -> [OwnNode; 3] {
    let nodes = SITES.map(|site| OwnNode::start(site, &format!("site = \"{site}\"\n")));
    let form = nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(" ");
    eventually("a cluster", || nodes[0].folder.run(&format!("cluster form {form}")).code == Some(0));
    nodes
}

/// Creates a filter that has a third of its slices at each site.
pub(crate) fn create(nodes: &[OwnNode; 3], name: &str, flags: &str) {
    let create = format!(
        "filter create {name} --if-absent --slicing horizontal:3 --window 24h --clock wall --capacity 1M \
         --fpr 0.000001 {flags} --cluster {}",
        nodes[0].address
    );
    eventually("a filter", || nodes[0].folder.run(&create).code == Some(0));
}

/// Connects a client at the site of a node, which asks the leaf of that site.
pub(crate) fn at_site_of(node: &OwnNode, site: &str, filter: &str) -> (Client, Filter) {
    let options = ConnectOptions {
        deadline_ms: DEADLINE_MS,
        site: Some(site.into()),
        ..ConnectOptions::from([node.address.clone()])
    };
    let client = Client::connect(options).wait().expect("a client");
    let filter = opened(&client, filter);
    (client, filter)
}
