//! Configuration of a node's part in the consensus, including all timeouts. Every operation of this crate that waits
//! for another node has a time limit, and all of these limits are defined here.

use std::time::Duration;

use firstseen_wire::proto::admin::Setting;
use tokio::sync::mpsc;

use crate::audited::Audited;
use crate::change::NodeProfile;
use crate::mixed::mixed;
use crate::slots::slot;
use crate::store::MetaStorage;

/// Configuration of a node's membership in its cluster.
#[derive(Clone, Debug)]
pub struct MetaConfig {
    /// Storage of the consensus log.
    pub storage: MetaStorage,
    /// Profile of the node.
    pub profile: NodeProfile,
    /// Timeouts, which must be the same on all nodes.
    pub timing: RaftTiming,
    /// Settings that must be the same on all nodes, including `timing`. A node with different settings cannot join.
    pub same_on_all: Vec<Setting>,
    /// Channel for changes that a principal requested. `None` means that they are not recorded.
    pub audit: Option<mpsc::Sender<Audited>>,
    /// Seed that is drawn at random at every start. All random choices of this crate follow from it.
    pub seed: u64,
}

/// Timeouts between the members of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaftTiming {
    /// Interval between two heartbeats that the leader sends to each follower, in milliseconds. The interval must be
    /// longer than the round trip between the two nodes that are farthest apart, so that a heartbeat is answered before
    /// the next one is sent.
    pub heartbeat_ms: u64,
    /// Base of the election timeout, in milliseconds. A silent leader is replaced after about twice this time.
    pub election_base_ms: u64,
    /// Difference between the election timeouts of consecutive slots, in milliseconds. A slot is a range of election
    /// timeouts, and each voter has a slot of its own. The timeouts of two voters therefore always differ, so that the
    /// voters do not become candidates at the same time.
    pub election_width_ms: u64,
    /// Maximum time for the answer to one message, in milliseconds.
    pub attempt_ms: u64,
    /// Maximum time for the outcome of a command, in milliseconds. Afterwards the outcome is unknown.
    pub propose_ms: u64,
    /// Maximum time for a node to join or leave, in milliseconds.
    pub membership_ms: u64,
    /// Number of log entries between two snapshots.
    pub snapshot_entries: u64,
    /// Waiting time before the leader automatically raises the format of the cluster, in milliseconds. The waiting time
    /// begins when all nodes can read the newer format. While the leader waits, an operator can still prevent the
    /// change, or go back to the previous version of the program.
    pub raise_after_ms: u64,
}

impl Default for RaftTiming {
    /// Returns timeouts for nodes in one region.
    fn default() -> Self {
        Self {
            heartbeat_ms: 100,
            election_base_ms: 500,
            election_width_ms: 75,
            attempt_ms: 2_000,
            propose_ms: 10_000,
            membership_ms: 30_000,
            snapshot_entries: 1_000,
            raise_after_ms: 600_000,
        }
    }
}

impl RaftTiming {
    /// Returns the election timeout of node `node`, in milliseconds. A node that receives no message from a leader for
    /// this time becomes a candidate. The timeout lies in the range of the node's slot, and `seed` selects it within
    /// this range. No two voters have the same slot, so no two voters have the same timeout.
    pub(crate) fn election_timeout_ms(&self, node: u64, seed: u64) -> u64 {
        let spread = (self.election_width_ms / 4).max(1);
        self.election_base_ms + slot(node) * self.election_width_ms + mixed(seed) % spread
    }

    pub(crate) fn attempt(&self) -> Duration {
        Duration::from_millis(self.attempt_ms)
    }

    pub(crate) fn raise_after(&self) -> Duration {
        Duration::from_millis(self.raise_after_ms)
    }

    /// Returns the pause after an attempt that failed at once.
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::SLOTS;

    #[test]
    fn ranges_of_different_slots_do_not_meet_whatever_is_drawn() {
        for election_width_ms in [1, 3, 75, 60_000] {
            let timing = RaftTiming { election_width_ms, ..RaftTiming::default() };
            let drawn = |node| (0..200).map(move |seed| timing.election_timeout_ms(node, seed));
            for node in 1..3 * SLOTS {
                let (longest, next) = (drawn(node).max(), drawn(node + 1).min());
                assert!(node % SLOTS == 0 || longest < next, "node {node}: {longest:?}, the next {next:?}");
                assert_eq!(slot(node), slot(node + SLOTS));
            }
        }
    }
}
