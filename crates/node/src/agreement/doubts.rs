//! Reports of the nodes that this node cannot reach (elsewhere: suspects), and of those that it can reach again.
//!
//! Promises: a report names the start of the node that this node sees. Must not know: what follows from a report.

use std::collections::BTreeMap;

use firstseen_meta::{Change, MetaError};
use firstseen_routing::{Incarnation, NodeId};

use super::report::{AGAIN, Report, RoundStep, Wait};
use crate::view::View;

/// Another node, its start, and the start of this node that sees it.
type PeerStart = (NodeId, Incarnation, Incarnation);

/// The nodes that this node has reported as doubted, and as reached.
#[derive(Default)]
pub(crate) struct Doubts {
    reported: BTreeMap<PeerStart, bool>,
}

impl Report for Doubts {
    async fn next(&mut self, view: &View) -> RoundStep {
        let seen = seen(view);
        self.reported.retain(|peer, _| seen.contains_key(peer));
        let news =
            seen.iter().find(|(peer, is_doubted)| self.reported.get(*peer).copied().unwrap_or(false) != **is_doubted);
        let Some(((peer, is_doubted), by)) = news.zip(view.node()) else {
            return RoundStep::Rest(Wait::View);
        };
        let (peer, peer_incarnation, by_incarnation) = *peer;
        let is_reached = !is_doubted;
        RoundStep::Propose(Box::new(Change::PeerReached { by, by_incarnation, peer, peer_incarnation, is_reached }))
    }

    fn proposed(&mut self, change: &Change, error: Option<&MetaError>) -> Option<Wait> {
        match *change {
            Change::PeerReached { by_incarnation, peer, peer_incarnation, is_reached, .. } if error.is_none() => {
                self.reported.insert((peer, peer_incarnation, by_incarnation), !is_reached);
                Some(Wait::Not)
            }
            _ => Some(Wait::For(AGAIN)),
        }
    }
}

/// The other nodes that are not down, and whether they cannot be reached.
fn seen(view: &View) -> BTreeMap<PeerStart, bool> {
    let Some(me) = view.me else { return BTreeMap::new() };
    let others = view.links.keys().filter_map(|peer| Some((peer, view.map.nodes.get(peer)?)));
    let up = others.filter(|(_, record)| !record.is_down);
    up.map(|(peer, record)| ((*peer, record.incarnation, me.incarnation), view.unreachable.contains(peer))).collect()
}
