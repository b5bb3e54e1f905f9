//! Replies to Redis clients in cluster mode. Such clients ask which server owns which keys before they send a command.
//! The endpoint of every node replies that it owns all keys itself, so a client can send any command to any node.
//!
//! This module does not depend on the other nodes of the cluster.

use std::net::SocketAddr;

use firstseen_resp::{ClusterQuery, Replies};

/// Greatest slot number of Redis Cluster.
const LAST_SLOT: i64 = 16_383;

/// Endpoint as it appears to a client in cluster mode.
pub(super) struct ClusterEndpoint<'a> {
    /// Name of the endpoint's node.
    pub(super) node: &'a str,
    /// Address to which the client has connected.
    pub(super) at: SocketAddr,
}

impl ClusterEndpoint<'_> {
    /// Replies to a `CLUSTER` command.
    pub(super) fn reply(&self, replies: &mut Replies, query: ClusterQuery) {
        match query {
            ClusterQuery::Info => replies.bulk(
                b"cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\ncluster_slots_pfail:0\r\n\
                  cluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\n",
            ),
            ClusterQuery::MyId => replies.bulk(self.id().as_bytes()),
            ClusterQuery::Nodes => {
                let id = self.id();
                let port = self.at.port();
                let line = format!("{id} {}:{}@{} myself,master - 0 0 1 connected 0-{LAST_SLOT}\n", self.ip(), port, port);
                replies.bulk(line.as_bytes());
            }
            ClusterQuery::Slots => {
                replies.array(1);
                replies.array(3);
                replies.integer(0);
                replies.integer(LAST_SLOT);
                replies.array(3);
                replies.bulk(self.ip().as_bytes());
                replies.integer(self.at.port().into());
                replies.bulk(self.id().as_bytes());
            }
            ClusterQuery::Shards => self.shards(replies),
        }
    }

    fn shards(&self, replies: &mut Replies) {
        replies.array(1);
        replies.map(2);
        replies.bulk(b"slots");
        replies.array(2);
        replies.integer(0);
        replies.integer(LAST_SLOT);
        replies.bulk(b"nodes");
        replies.array(1);
        replies.map(7);
        for (key, text) in [
            ("id", self.id()),
            ("ip", self.ip()),
            ("endpoint", self.ip()),
            ("role", "master".to_owned()),
            ("health", "online".to_owned()),
        ] {
            replies.bulk(key.as_bytes());
            replies.bulk(text.as_bytes());
        }
        for (key, number) in [("port", self.at.port().into()), ("replication-offset", 0)] {
            replies.bulk(key.as_bytes());
            replies.integer(number);
        }
    }

    fn ip(&self) -> String {
        self.at.ip().to_canonical().to_string()
    }

    /// Returns the node id of 40 hexadecimal digits. The id is derived from the node's name, so it survives a restart.
    fn id(&self) -> String {
        format!("{:040x}", xxhash_rust::xxh3::xxh3_128(self.node.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use firstseen_resp::Protocol;

    use super::*;

    #[test]
    fn all_slots_are_at_the_address_to_which_the_client_has_connected() {
        let endpoint = ClusterEndpoint { node: "node-1", at: "[::ffff:10.0.0.7]:6379".parse().unwrap() };
        let text = |query| {
            let mut replies = Replies::new(Protocol::Resp2);
            endpoint.reply(&mut replies, query);
            String::from_utf8(replies.as_bytes().to_vec()).unwrap()
        };
        let slots = text(ClusterQuery::Slots);
        assert!(slots.starts_with("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$8\r\n10.0.0.7\r\n:6379\r\n$40\r\n"), "{slots}");
        assert!(text(ClusterQuery::Shards).contains("$8\r\nendpoint\r\n$8\r\n10.0.0.7\r\n"));
        let other = ClusterEndpoint { node: "node-2", at: endpoint.at };
        assert_ne!(other.id(), endpoint.id());
        assert!(text(ClusterQuery::Nodes).contains(&endpoint.id()));
    }
}
