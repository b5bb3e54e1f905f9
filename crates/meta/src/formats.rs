//! Decides when the leader may raise the format of the cluster, in which the cluster map is encoded
//! ([`firstseen_routing::Format`]). Raising the format cannot be undone. A program that cannot read the new format is
//! excluded from the cluster, so operators can no longer go back to that program.
//!
//! The format is raised only under two conditions. First, every node must recently have reported that it can read the
//! new format. Second, no operator may have told a node to hold the format, which prevents the change for the whole
//! cluster.
//!
//! This module stores the reports that nodes send about the formats that they can read. A node without a recent report
//! is assumed to be unable to read a new format.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstseen_routing::{ClusterMap, Format, NodeId};
use tokio::time::Instant;

use crate::codec;

/// The newest format that this program reads and writes.
pub const NEWEST_FORMAT: Format = Format(codec::NEWEST);

/// A node's report about formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reads {
    pub(crate) newest: Format,
    /// Whether the operator of the node does not want the format to be raised yet.
    pub(crate) holds: bool,
}

/// The newest report of each node, and whether this node holds the format. Clones share both.
#[derive(Clone, Debug, Default)]
pub(crate) struct Formats {
    heard: Arc<Mutex<BTreeMap<NodeId, (Reads, Instant)>>>,
    holds: Arc<AtomicBool>,
}

impl Formats {
    /// Stores the report of a node.
    pub(crate) fn note(&self, node: NodeId, reads: Reads, now: Instant) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).insert(node, (reads, now));
    }

    /// Returns whether this node holds the format.
    pub(crate) fn holds(&self) -> bool {
        self.holds.load(Ordering::Acquire)
    }

    pub(crate) fn set_holds(&self, holds: bool) {
        self.holds.store(holds, Ordering::Release);
    }

    /// Returns the reason why the cluster cannot raise its format to `goal`, or `None` if it can. Two conditions must
    /// be met. Every node of the map must have reported within the last `lately` that it can read `goal`. No node may
    /// hold the format, as a node does if an operator wants to prevent the change.
    pub(crate) fn obstacle(&self, map: &ClusterMap, goal: Format, now: Instant, lately: Duration) -> Option<Obstacle> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let mut holder = None;
        for (node, record) in &map.nodes {
            let said = heard.get(node).filter(|(_, at)| now.saturating_duration_since(*at) <= lately);
            match said.map(|(reads, _)| *reads) {
                None => return Some(Obstacle::Silent { node: record.name.clone() }),
                Some(Reads { newest, .. }) if newest < goal => {
                    return Some(Obstacle::Old { node: record.name.clone(), newest });
                }
                Some(Reads { holds: true, .. }) => holder = Some(record.name.clone()),
                Some(_) => {}
            }
        }
        holder.map(|node| Obstacle::Held { node })
    }
}

/// Reason why the format of a cluster cannot be raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A node has not answered recently, so it may run any version.
    Silent { node: String },
    /// A node runs a version that reads formats only up to this one.
    Old { node: String, newest: Format },
    /// A node was told to hold the format.
    Held { node: String },
}

/// Tracks since when all nodes have been able to read the next format, so that the leader can raise it on its own.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    since: Option<Instant>,
}

impl Patience {
    /// Returns whether there has been no obstacle for the given time.
    pub(crate) fn is_over(&mut self, obstacle: Option<&Obstacle>, now: Instant, patience: Duration) -> bool {
        if obstacle.is_some() {
            self.since = None;
            return false;
        }
        now.saturating_duration_since(*self.since.get_or_insert(now)) >= patience
    }
}

/// Checks whether a node that reads formats up to `newest` can join a cluster with this format.
pub(crate) fn can_join(newest: Format, format: Format, address: &str) -> Result<(), String> {
    if newest >= format {
        return Ok(());
    }
    Err(format!(
        "the node at {address} runs a version that reads formats up to {newest}, and the cluster writes format {format}: start it \
         with the version of the other nodes"
    ))
}

/// Converts the format fields of a node's reply. Old versions do not send these fields.
pub(crate) fn said(newest: u32, holds: bool) -> Reads {
    let newest = u8::try_from(newest).map_or(Format(u8::MAX), Format).max(Format::FIRST);
    Reads { newest, holds }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstseen_routing::{Incarnation, NodeRecord};

    const LATELY: Duration = Duration::from_secs(10);

    fn map(names: &[&str]) -> ClusterMap {
        let record = |name: &str| NodeRecord {
            name: name.to_owned(),
            site: "here".to_owned(),
            address: name.to_owned(),
            incarnation: Incarnation(1),
            memory_bytes: 1,
            voter: true,
            is_down: false,
        };
        let nodes = (1..).map(NodeId).zip(names.iter().map(|name| record(name))).collect();
        ClusterMap { nodes, ..ClusterMap::default() }
    }

    fn reads(newest: u8, holds: bool) -> Reads {
        Reads { newest: Format(newest), holds }
    }

    #[tokio::test(start_paused = true)]
    async fn every_node_must_have_said_lately_that_it_reads_the_next_format() {
        let (map, formats, start) = (map(&["a", "b"]), Formats::default(), Instant::now());
        let obstacle = |now| formats.obstacle(&map, Format(11), now, LATELY);
        formats.note(NodeId(1), reads(11, false), start);
        assert_eq!(obstacle(start), Some(Obstacle::Silent { node: "b".to_owned() }));
        formats.note(NodeId(2), reads(10, false), start);
        assert_eq!(obstacle(start), Some(Obstacle::Old { node: "b".to_owned(), newest: Format(10) }));
        formats.note(NodeId(2), reads(12, true), start);
        assert_eq!(obstacle(start), Some(Obstacle::Held { node: "b".to_owned() }));
        formats.note(NodeId(2), reads(12, false), start + LATELY);
        assert_eq!(obstacle(start + LATELY), None);
        let later = start + LATELY + Duration::from_millis(1);
        assert_eq!(obstacle(later), Some(Obstacle::Silent { node: "a".to_owned() }), "it may have gone back meanwhile");
        formats.note(NodeId(9), reads(10, true), later);
        formats.note(NodeId(1), reads(11, false), later);
        assert_eq!(obstacle(later), None, "a node that is none of the cluster's says nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn patience_begins_anew_with_every_obstacle() {
        let (mut patience, start, wait) = (Patience::default(), Instant::now(), Duration::from_secs(60));
        let held = Obstacle::Held { node: "a".to_owned() };
        assert!(!patience.is_over(None, start, wait));
        assert!(!patience.is_over(Some(&held), start + wait, wait));
        assert!(!patience.is_over(None, start + wait, wait));
        assert!(!patience.is_over(None, start + 2 * wait - Duration::from_millis(1), wait));
        assert!(patience.is_over(None, start + 2 * wait, wait));
    }

    #[test]
    fn a_version_that_says_nothing_reads_the_first_format_only() {
        assert_eq!(said(0, false).newest, Format::FIRST);
        assert_eq!(said(11, true), Reads { newest: Format(11), holds: true });
        assert_eq!(said(4_000, false).newest, Format(255));
        assert!(can_join(Format(10), Format(10), "a:1").is_ok() && can_join(Format(12), Format(11), "a:1").is_ok());
        assert!(can_join(Format(10), Format(11), "a:1").unwrap_err().contains("formats up to 10"));
    }
}
