//! Processes that end without notice, and others in their place.

use std::collections::BTreeSet;

use firstseen_routing::{FilterId, NodeId};

use super::{Forest, Key, Part, Way};

impl Forest {
    /// Gives a level empty slices, as if all of its nodes had been started again.
    pub(crate) fn restart_level(&mut self, filter: FilterId) {
        self.restart(filter, &self.nodes(filter));
    }

    /// Gives these nodes of a level empty slices, as if they had been started again.
    pub(crate) fn restart(&mut self, filter: FilterId, nodes: &BTreeSet<NodeId>) {
        for node in nodes {
            self.map.nodes.get_mut(node).unwrap().incarnation.0 += 1;
        }
        self.owners.retain(|(.., node), _| !nodes.contains(node));
        self.start(filter, nodes);
        let is_lost = |way: &Way| match way {
            Way::Peer { from, to, .. } => nodes.contains(from) || nodes.contains(to),
            Way::Climb { from, .. } | Way::Again { from, .. } => nodes.contains(&from.2),
            Way::Climbed { to, .. } => nodes.contains(&to.2),
        };
        self.ways.values_mut().for_each(|ways| ways.retain(|way| !is_lost(way)));
        self.ways.retain(|_, ways| !ways.is_empty());
        // Their climbs no longer have anything that waits for them.
        self.open.retain(|(origin, _), _| !nodes.contains(&origin.2));
        self.parts.retain(|_, part| !nodes.contains(&part.origin.2));
        self.end_parts(nodes);
        self.notify_loss(filter, nodes);
    }

    /// Parts of climbs that were sent to these nodes are sent again, or end as unknown.
    fn end_parts(&mut self, nodes: &BTreeSet<NodeId>) {
        if self.tries_again {
            let lost = self.parts.values_mut().filter(|part| nodes.contains(&part.head.2));
            let lost: Vec<Way> = lost.map(Part::again).collect();
            return lost.into_iter().for_each(|way| self.push(way));
        }
        let lost = self.parts.values().filter(|part| nodes.contains(&part.head.2));
        let asked: BTreeSet<(Key, u64)> = lost.map(|part| (part.origin, part.number)).collect();
        asked.into_iter().for_each(|asked| self.give_up(asked));
    }

    /// The other nodes of the level get the map with the new starts.
    fn notify_loss(&mut self, filter: FilterId, nodes: &BTreeSet<NodeId>) {
        let (map, now) = (self.map.clone(), self.now);
        let is_other = |(of, _, node): &Key| *of == filter && !nodes.contains(node);
        let others: Vec<Key> = self.owners.keys().copied().filter(is_other).collect();
        for key in others {
            for node in nodes {
                self.command(key, |owner| owner.peer_lost(*node, now));
            }
            self.command(key, |owner| owner.map_changed(&map, now));
        }
    }
}
