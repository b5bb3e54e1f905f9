//! What is on its way, in a queue for each link.
//!
//! Promises: what is put on a link comes behind all that is on it. Must not know: which link is next.

use std::collections::{BTreeMap, VecDeque};

use firstseen_routing::{Climb, Climbed, FilterId, NodeId, PeerMessage, Submission};

/// A group of a filter on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seat {
    /// The filter.
    pub filter: FilterId,
    /// The group.
    pub group: u32,
    /// The node.
    pub node: NodeId,
}

/// Something that is on its way.
#[derive(Clone, Debug)]
pub enum Way {
    /// From one node to another: a message.
    Peer(NodeId, NodeId, PeerMessage),
    /// From a group of one level to the heads of another: a climb.
    Climb(Seat, Climb),
    /// From a group to one of these heads, once more: a part of a climb.
    Again(Seat, Seat, Submission),
    /// To a group: the answer to its climb.
    Climbed(Seat, Climbed),
}

impl Way {
    /// Whether it is lost when the process of a node ends. Whom a climb asks is not decided before it arrives.
    pub fn is_lost_with(&self, node: NodeId) -> bool {
        match self {
            Self::Peer(from, to, _) => *from == node || *to == node,
            Self::Climb(asker, _) | Self::Again(asker, ..) | Self::Climbed(asker, _) => asker.node == node,
        }
    }

    fn link(&self) -> Link {
        match self {
            Self::Peer(from, to, _) => Link::between(*from, *to),
            Self::Climb(asker, _) | Self::Again(asker, ..) => Link(asker.filter.0, asker.node.0, 1),
            Self::Climbed(asker, _) => Link(asker.filter.0, asker.node.0, 2),
        }
    }
}

/// What keeps one order: the messages from one node to another; the climbs of a node's level; the answers to these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link(u64, u64, u8);

impl Link {
    /// The link of messages between nodes.
    pub fn between(from: NodeId, to: NodeId) -> Self {
        Self(from.0, to.0, 0)
    }

    /// The nodes of a link of messages.
    pub fn ends(self) -> (NodeId, NodeId) {
        (NodeId(self.0), NodeId(self.1))
    }
}

/// What keeps its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Everything: there is one queue.
    All,
    /// What is on the same link.
    OfLinks,
}

/// All queues.
#[derive(Debug)]
pub struct Links {
    order: Order,
    /// None is empty.
    queues: BTreeMap<Link, VecDeque<Way>>,
}

impl Links {
    pub(crate) fn new(order: Order) -> Self {
        Self { order, queues: BTreeMap::new() }
    }

    fn queue(&mut self, way: &Way) -> &mut VecDeque<Way> {
        let link = if self.order == Order::All { Link::default() } else { way.link() };
        self.queues.entry(link).or_default()
    }

    /// Puts something behind all that is on its link.
    pub fn push(&mut self, way: Way) {
        self.queue(&way).push_back(way);
    }

    pub(crate) fn extend(&mut self, ways: impl IntoIterator<Item = Way>) {
        ways.into_iter().for_each(|way| self.push(way));
    }

    /// Puts something before all that is on its link.
    pub fn put_first(&mut self, way: Way) {
        self.queue(&way).push_front(way);
    }

    /// The links with something on them, in their order.
    pub fn busy(&self) -> Vec<Link> {
        self.queues.keys().copied().collect()
    }

    /// What is on a link, the oldest first.
    pub fn on(&self, link: Link) -> impl ExactSizeIterator<Item = &Way> {
        self.queues.get(&link).map(VecDeque::iter).unwrap_or_default()
    }

    /// Takes what is in this place on a link, which is 0 for the oldest.
    pub fn take(&mut self, link: Link, place: usize) -> Option<Way> {
        let queue = self.queues.get_mut(&link)?;
        let way = queue.remove(place);
        if queue.is_empty() {
            self.queues.remove(&link);
        }
        way
    }

    /// Takes the oldest of the first link.
    pub fn take_first(&mut self) -> Option<Way> {
        self.take(*self.queues.keys().next()?, 0)
    }

    /// Loses all but these.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&Way) -> bool) {
        self.queues.values_mut().for_each(|queue| queue.retain(&mut is_kept));
        self.queues.retain(|_, queue| !queue.is_empty());
    }
}
