//! Queues of the messages in transit between simulated nodes. Each link has its own queue, which delivers messages in
//! the order in which they were sent. The caller decides which link delivers its next message.

use std::collections::{BTreeMap, VecDeque};

use firstseen_routing::{FilterId, LevelQuery, LevelReply, NodeId, PeerMessage, Submission};

/// Slice group of a filter on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupInstance {
    /// The filter.
    pub filter: FilterId,
    /// Number of the group.
    pub group: u32,
    /// The node.
    pub node: NodeId,
}

/// Message in transit.
#[derive(Clone, Debug)]
pub enum Way {
    /// Message from the first node to the second one.
    Peer(NodeId, NodeId, PeerMessage),
    /// Query from a group of one level of a filter tree to the heads at another level.
    LevelQuery(GroupInstance, LevelQuery),
    /// Retry of a part of a query, from the first group to the second one.
    Again(GroupInstance, GroupInstance, Submission),
    /// Answer to a query, for the group that has asked.
    LevelReply(GroupInstance, LevelReply),
}

impl Way {
    /// Returns whether the message in transit is lost when the process of `node` ends. This depends on the kind of the
    /// message:
    ///
    /// - A message from one node to another is lost if `node` is its sender or its receiver.
    /// - A query to another level of a filter tree is lost only if `node` has sent it, because the receivers of a query
    ///   are not determined before it arrives.
    /// - An answer to a query is lost if `node` has sent the query.
    pub fn is_lost_with(&self, node: NodeId) -> bool {
        match self {
            Self::Peer(from, to, _) => *from == node || *to == node,
            Self::LevelQuery(asker, _) | Self::Again(asker, ..) | Self::LevelReply(asker, _) => asker.node == node,
        }
    }

    fn link(&self) -> Link {
        match self {
            Self::Peer(from, to, _) => Link::between(*from, *to),
            Self::LevelQuery(asker, _) | Self::Again(asker, ..) => Link(asker.filter.0, asker.node.0, 1),
            Self::LevelReply(asker, _) => Link(asker.filter.0, asker.node.0, 2),
        }
    }
}

/// Identifier of a link, which is a queue of messages that stay in order. All messages from one node to another node
/// use the same link. Queries between the levels of a filter tree have separate links: on each node, each level has one
/// link for the queries that it sends, and another link for the answers that it receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link(u64, u64, u8);

impl Link {
    /// Returns the link for messages from one node to another.
    pub fn between(from: NodeId, to: NodeId) -> Self {
        Self(from.0, to.0, 0)
    }

    /// Returns the two nodes of a link for messages between nodes.
    pub fn ends(self) -> (NodeId, NodeId) {
        (NodeId(self.0), NodeId(self.1))
    }
}

/// Rule that determines which messages stay in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All messages stay in order, because there is a single queue.
    All,
    /// Messages on the same link stay in order.
    OfLinks,
}

/// Queues of all links.
#[derive(Debug)]
pub struct Links {
    order: Order,
    /// Queues with at least one message.
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

    /// Queues a message behind all messages on its link.
    pub fn push(&mut self, way: Way) {
        self.queue(&way).push_back(way);
    }

    pub(crate) fn extend(&mut self, ways: impl IntoIterator<Item = Way>) {
        ways.into_iter().for_each(|way| self.push(way));
    }

    /// Queues a message before all messages on its link.
    pub fn put_first(&mut self, way: Way) {
        self.queue(&way).push_front(way);
    }

    /// Returns the links with at least one message, in ascending order.
    pub fn busy(&self) -> Vec<Link> {
        self.queues.keys().copied().collect()
    }

    /// Returns the messages on a link, oldest first.
    pub fn on(&self, link: Link) -> impl ExactSizeIterator<Item = &Way> {
        self.queues.get(&link).map(VecDeque::iter).unwrap_or_default()
    }

    /// Takes the message at this position of a link. Position 0 is the oldest message.
    pub fn take(&mut self, link: Link, place: usize) -> Option<Way> {
        let queue = self.queues.get_mut(&link)?;
        let way = queue.remove(place);
        if queue.is_empty() {
            self.queues.remove(&link);
        }
        way
    }

    /// Takes the oldest message of the first link.
    pub fn take_first(&mut self) -> Option<Way> {
        self.take(*self.queues.keys().next()?, 0)
    }

    /// Drops all messages for which `is_kept` returns `false`.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&Way) -> bool) {
        self.queues.values_mut().for_each(|queue| queue.retain(&mut is_kept));
        self.queues.retain(|_, queue| !queue.is_empty());
    }
}
