//! Reports to the consensus group which other nodes this node cannot reach, and which of them it can reach again. A
//! report names the incarnation of the unreachable node, a number that changes with every start. If that node has
//! restarted in the meantime, the report does not apply to its new process.

use std::collections::BTreeMap;

use firstseen_meta::{Change, MetaError};
use firstseen_routing::{Incarnation, NodeId};

use super::report::{RETRY_PAUSE, Report, RoundStep, Wait};
use crate::view::View;

/// Another node, its start, and the start of this node.
type PeerStart = (NodeId, Incarnation, Incarnation);

/// The nodes that this node has reported, and whether the last report of each said that it cannot be reached.
#[derive(Default)]
pub(crate) struct UnreachableReports {
    reported: BTreeMap<PeerStart, bool>,
}

impl Report for UnreachableReports {
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
            _ => Some(Wait::For(RETRY_PAUSE)),
        }
    }
}

/// Returns the other nodes that are not down, and whether each of them cannot be reached.
fn seen(view: &View) -> BTreeMap<PeerStart, bool> {
    let Some(me) = view.me else { return BTreeMap::new() };
    let others = view.links.keys().filter_map(|peer| Some((peer, view.map.nodes.get(peer)?)));
    let up = others.filter(|(_, record)| !record.is_down);
    up.map(|(peer, record)| ((*peer, record.incarnation, me.incarnation), view.unreachable.contains(peer))).collect()
}
