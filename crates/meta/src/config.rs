//! How a node takes part in the agreement, and how long it waits.
//!
//! Promises: every wait has a limit here. Must not know: the environment that the values come from.

use std::time::Duration;

use firstseen_wire::proto::admin::Setting;
use tokio::sync::mpsc;

use crate::audited::Audited;
use crate::change::NodeProfile;
use crate::mixed::mixed;
use crate::slots::slot;
use crate::store::MetaStorage;

/// The configuration of a node's part in the cluster.
#[derive(Clone, Debug)]
pub struct MetaConfig {
    /// Where the node keeps its part of the agreement.
    pub storage: MetaStorage,
    /// The node's profile.
    pub profile: NodeProfile,
    /// How long it waits; the same on all nodes.
    pub timing: RaftTiming,
    /// Settings of the node that are the same on all nodes, `timing` among them: one that joins with others is refused.
    pub same_on_all: Vec<Setting>,
    /// Who is told of changes that somebody asked for; nobody where it is left out.
    pub audit: Option<mpsc::Sender<Audited>>,
    /// Drawn at random at every start; all random choices follow from it.
    pub seed: u64,
}

/// How long the members of a cluster wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaftTiming {
    /// Between two signs of life of the leader, in milliseconds. Above the round trip between the farthest nodes.
    pub heartbeat_ms: u64,
    /// A silent leader is replaced after about twice this long, in milliseconds.
    pub election_base_ms: u64,
    /// How much longer each node waits than the one before it, so that two do not stand for election at once.
    pub election_width_ms: u64,
    /// For the answer to one message, in milliseconds.
    pub attempt_ms: u64,
    /// For the outcome of a command, in milliseconds; after it the outcome is unknown.
    pub propose_ms: u64,
    /// For a node to join or leave, in milliseconds.
    pub membership_ms: u64,
    /// Entries of the log between two snapshots.
    pub snapshot_entries: u64,
    /// How long all nodes must have read a newer format before the leader raises the cluster's, in milliseconds: the time in
    /// which an operator can go back, or hold it.
    pub raise_after_ms: u64,
}

impl Default for RaftTiming {
    /// For nodes in one region.
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
    /// How long node `node` waits for a leader: in the range of its slot, which no other voter has, and drawn from
    /// `seed` within it.
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

    /// Between two attempts that failed at once.
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
