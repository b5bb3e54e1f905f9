//! An in-memory network of the nodes of one filter or one filter tree. Random numbers determine which link delivers its
//! next message. The tests determine when cluster maps reach nodes, and when messages, replies and processes are lost.

mod copies;
mod gathering;
pub(crate) mod level;
mod moves;
pub(crate) mod tree;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use firstseen_filter::{Digest, GenerationNumber, Probes};
use firstseen_mesh::{GroupInstance, Link, Mesh, Order, Way, filter_map};
use firstseen_routing::{
    Closed, ClusterMap, Command, Decision, FilterId, FilterPolicies, FilterRecord, GroupReply, Heads, HopCounts,
    Incarnation, LevelContact, Moment, NodeId, OwnerLimits, PeerBody, PeerMessage, Reason, Seen, SetAcks,
    SlicedDefinition, Submission, refuse,
};

use crate::common::{NOW, Producer, TestRng};

pub(crate) const FILTER: FilterId = FilterId(7);
/// The predecessor of [`FILTER`], if there is one.
pub(crate) const FORMER: FilterId = FilterId(6);

/// Faults of the network that tests must detect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// A link may deliver any of its messages next, not only the oldest.
    NoOrder,
    /// Sets are acknowledged when they are sent, and executed when they arrive, in any order.
    EarlyAcks,
    /// Sets to nodes that have passed the event on are acknowledged but never executed.
    SetsTheRestOnly,
}

/// All nodes, and the messages in flight.
pub(crate) struct Network {
    pub(crate) mesh: Mesh,
    /// The last map that each node has received.
    views: BTreeMap<NodeId, ClusterMap>,
    pub(crate) replies: Vec<GroupReply>,
    /// Generations that nodes have requested.
    pub(crate) asked: Vec<(u32, GenerationNumber)>,
    /// Groups that nodes have reported as complete.
    pub(crate) complete: Vec<(u32, NodeId, Incarnation, Vec<u32>)>,
    pub(crate) fault: Fault,
    pub(crate) rng: TestRng,
    /// Whether nodes send at random times instead of after every input.
    pub(crate) gathers: bool,
    /// Groups that have collected commands and not sent them yet.
    gathering: BTreeSet<GroupInstance>,
    /// Nodes that have passed on the current event.
    passed_on: Vec<NodeId>,
    /// Early duplicates, by the number of their reply.
    found: BTreeMap<u64, Vec<u32>>,
    /// Percentage of replies to parts of queries between levels that are lost. The part is then sent again.
    pub(crate) lost_percent: u64,
    /// Whether a query whose level restarts is sent again instead of ending as unknown.
    pub(crate) tries_again: bool,
    /// Levels that are cut off from the levels above.
    pub(crate) cut_off: BTreeSet<FilterId>,
    /// Levels whose nodes reach no majority of the cluster, although they reach the nodes of their parent level.
    pub(crate) without_majority: BTreeSet<FilterId>,
}

/// Returns random owners of all slices among `nodes` nodes. Every node gets at least one slice if there are enough.
pub(crate) fn random_owners(rng: &mut TestRng, slices: u32, nodes: u64) -> Vec<NodeId> {
    let mut owners: Vec<NodeId> =
        (0..u64::from(slices)).map(|slice| NodeId(1 + if slice < nodes { slice } else { rng.below(nodes) })).collect();
    for last in (1..owners.len()).rev() {
        owners.swap(last, rng.below(last as u64 + 1) as usize);
    }
    owners
}

/// Returns the seat of a group on a node.
pub(crate) fn instance(group: u32, node: NodeId) -> GroupInstance {
    GroupInstance { filter: FILTER, group, node }
}

/// Returns the map of a filter that has replaced [`FORMER`], which still exists.
pub(crate) fn follower_map(definition: &SlicedDefinition, policies: FilterPolicies, owners: &[NodeId]) -> ClusterMap {
    let mut map = filter_map(FILTER, definition, policies, owners);
    if let Some(record) = map.filters.get_mut(&FILTER) {
        let mut former = record.clone();
        former.line.closed = Some(Closed { successor: FILTER, ..Closed::default() });
        record.line.former = Some(FORMER);
        map.filters.insert(FORMER, former);
    }
    map
}

/// Returns the map of a filter without a predecessor.
pub(crate) fn lone_map(definition: &SlicedDefinition, policies: FilterPolicies, owners: &[NodeId]) -> ClusterMap {
    filter_map(FILTER, definition, policies, owners)
}

impl Network {
    pub(crate) fn new(
        definition: &SlicedDefinition,
        policies: FilterPolicies,
        owners: &[NodeId],
        limits: OwnerLimits,
        rng: TestRng,
    ) -> Self {
        firstseen_routing::check::check_definition(definition).unwrap();
        Self::of(filter_map(FILTER, definition, policies, owners), limits, rng)
    }

    pub(crate) fn of(map: ClusterMap, limits: OwnerLimits, rng: TestRng) -> Self {
        Self {
            mesh: Mesh::new(map, limits, Order::OfLinks, NOW).unwrap(),
            views: BTreeMap::new(),
            replies: Vec::new(),
            asked: Vec::new(),
            complete: Vec::new(),
            fault: Fault::None,
            rng,
            gathers: false,
            gathering: BTreeSet::new(),
            passed_on: Vec::new(),
            found: BTreeMap::new(),
            lost_percent: 0,
            tries_again: false,
            cut_off: BTreeSet::new(),
            without_majority: BTreeSet::new(),
        }
    }

    pub(crate) fn map(&self) -> &ClusterMap {
        self.mesh.map()
    }

    pub(crate) fn now(&self) -> Moment {
        self.mesh.now()
    }

    pub(crate) fn record(&self) -> &FilterRecord {
        &self.map().filters[&FILTER]
    }

    pub(crate) fn record_mut(&mut self) -> &mut FilterRecord {
        self.mesh.map_mut().filters.get_mut(&FILTER).unwrap()
    }

    /// Returns the next map for changes. No node gets it yet.
    pub(crate) fn next_map(&mut self) -> &mut ClusterMap {
        let map = self.mesh.map_mut();
        map.version += 1;
        map
    }

    /// Returns the filter's record in the next map, with the next epoch. No node gets that map yet.
    pub(crate) fn next_record(&mut self) -> &mut FilterRecord {
        self.mesh.map_mut().version += 1;
        let record = self.record_mut();
        record.epoch.rise();
        record
    }

    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        self.map().nodes.keys().copied().collect()
    }

    fn seats_at(&self, node: NodeId) -> Vec<GroupInstance> {
        self.mesh.instances().into_iter().filter(|instance| instance.node == node).collect()
    }

    /// Ends a node's process and starts another one. Cells, memory and messages in flight are lost.
    pub(crate) fn restart(&mut self, node: NodeId) {
        self.send_gathered();
        // The machine's clock was set right, to an earlier time.
        let Moment { monotonic_ms, wall_ms } = self.now();
        self.mesh.set_now(Moment { monotonic_ms: monotonic_ms.after(1), wall_ms: wall_ms - 100 });
        self.restart_of(FILTER, &[node].into());
    }

    /// Restarts some nodes of a filter like [`Self::restart`]. The other nodes of the filter get the map with the
    /// change.
    pub(crate) fn restart_of(&mut self, filter: FilterId, nodes: &BTreeSet<NodeId>) {
        self.mesh.restart(nodes).unwrap();
        self.mesh.end_parts(nodes, self.tries_again);
        let (map, now) = (self.map().clone(), self.now());
        let is_other = |instance: &GroupInstance| instance.filter == filter && !nodes.contains(&instance.node);
        for instance in self.mesh.instances().into_iter().filter(is_other) {
            nodes.iter().for_each(|node| self.command(instance, |owner| owner.peer_lost(*node, now)));
            self.command(instance, |owner| owner.map_changed(&map, now));
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, message: PeerMessage) {
        assert_ne!(from, to, "nothing is sent to oneself: {message:?}");
        if let (PeerBody::Test(test), true) = (&message.body, self.fault == Fault::SetsTheRestOnly)
            && test.runs.iter().all(|run| run.head != from)
        {
            self.passed_on.push(from);
        }
        if let PeerBody::Set(set) = &message.body {
            let drops = self.fault == Fault::SetsTheRestOnly && self.passed_on.contains(&to);
            if drops || self.fault == Fault::EarlyAcks {
                let acks = SetAcks { set_numbers: vec![set.set_number], ..SetAcks::default() };
                let message = PeerMessage { body: PeerBody::SetAcks(acks), ..message.clone() };
                self.mesh.links_mut().push(Way::Peer(to, from, message));
            }
            if drops {
                return;
            }
        }
        // This set was already acknowledged when it was sent.
        if self.fault == Fault::EarlyAcks && matches!(message.body, PeerBody::SetAcks(_)) {
            return;
        }
        self.mesh.links_mut().push(Way::Peer(from, to, message));
    }

    /// Returns the head of an event.
    pub(crate) fn head_of(&self, digest: Digest) -> GroupInstance {
        self.mesh.head_of(FILTER, digest).unwrap()
    }

    pub(crate) fn probes(&self, digests: &[Digest]) -> Probes {
        self.mesh.probes(FILTER, digests)
    }

    /// Adds events of one group and head to a submission and sends it to that head.
    pub(crate) fn submit(&mut self, digests: &[Digest], submission: Submission) {
        self.submit_at(self.head_of(digests[0]), digests, submission);
    }

    /// Submits one event like [`Self::submit`], in a network with several filters.
    pub(crate) fn submit_in(&mut self, filter: FilterId, digest: Digest, submission: Submission) {
        self.submit_at(self.mesh.head_of(filter, digest).unwrap(), &[digest], submission);
    }

    /// Submits events like [`Self::submit`], to a given node.
    pub(crate) fn submit_at(&mut self, instance: GroupInstance, digests: &[Digest], submission: Submission) {
        let probes = self.mesh.probes(instance.filter, digests);
        self.take_up(instance, Submission { probes, ..submission });
    }

    /// Passes a submission to a node.
    pub(crate) fn take_up(&mut self, instance: GroupInstance, submission: Submission) {
        self.passed_on.clear();
        let now = self.now();
        self.command(instance, |owner| owner.submit(submission, now));
    }

    /// Delivers the next message of a random link, or lets a random group send what it has collected. Returns `false`
    /// if nothing is in flight.
    pub(crate) fn deliver(&mut self) -> bool {
        let busy = self.mesh.links().busy();
        let choices = busy.len() + self.gathering.len();
        if choices == 0 {
            return false;
        }
        let choice = self.rng.below(choices as u64) as usize;
        let Some(link) = busy.get(choice).copied() else {
            self.gathering
                .iter()
                .nth(choice - busy.len())
                .copied()
                .into_iter()
                .for_each(|instance| self.execute(instance));
            return true;
        };
        let waiting = self.mesh.links().on(link).len() as u64;
        let is_unordered = matches!(self.fault, Fault::NoOrder | Fault::EarlyAcks);
        let place = if is_unordered { self.rng.below(waiting) as usize } else { 0 };
        self.deliver_at(link, place)
    }

    /// Delivers the oldest message of one link. Returns `false` if none is in flight there.
    pub(crate) fn deliver_on(&mut self, (from, to): (NodeId, NodeId)) -> bool {
        self.deliver_at(Link::between(from, to), 0)
    }

    /// Removes the oldest message of one link and returns it.
    pub(crate) fn take(&mut self, (from, to): (NodeId, NodeId)) -> Option<PeerMessage> {
        match self.mesh.links_mut().take(Link::between(from, to), 0)? {
            Way::Peer(.., message) => Some(message),
            way => panic!("no tree: {way:?}"),
        }
    }

    /// Puts a message on a link, before all other messages.
    pub(crate) fn put(&mut self, (from, to): (NodeId, NodeId), message: PeerMessage) {
        self.mesh.links_mut().put_first(Way::Peer(from, to, message));
    }

    fn deliver_at(&mut self, link: Link, place: usize) -> bool {
        let (from, to, message) = match self.mesh.links_mut().take(link, place) {
            None => return false,
            Some(Way::Peer(from, to, message)) => (from, to, message),
            Some(way) => return self.arrive(way),
        };
        match self.passage(from, to, &message) {
            Passage::Open => {}
            Passage::Waits => {
                self.put((from, to), message);
                return self.mesh.links().busy().len() > 1 || !self.gathering.is_empty();
            }
            Passage::Gone => return true,
        }
        let instance = GroupInstance { filter: message.filter, group: message.group, node: to };
        if self.mesh.owners().contains_key(&instance) {
            return self.arrive(Way::Peer(from, to, message));
        }
        let epoch = self.views.get(&to).map_or(message.epoch, |view| view.filters[&instance.filter].epoch);
        for command in refuse(from, PeerMessage { epoch, ..message }, Reason::NotReady) {
            if let Command::Send { to: head, message } = command {
                self.send(to, head, message);
            }
        }
        true
    }

    fn arrive(&mut self, way: Way) -> bool {
        match way {
            Way::LevelQuery(from, climb) if self.cut_off.contains(&climb.from.filter) => {
                self.mesh.links_mut().push(Way::LevelReply(from, climb.unreachable(Reason::SlicesDown)));
            }
            Way::LevelReply(to, mut climbed) if self.without_majority.contains(&to.filter) => {
                climbed.contact = climbed.contact.max(LevelContact::WithoutMajority);
                self.mesh
                    .deliver(Way::LevelReply(to, climbed))
                    .into_iter()
                    .for_each(|instance| self.send_soon(instance));
            }
            way => self.mesh.deliver(way).into_iter().for_each(|instance| self.send_soon(instance)),
        }
        true
    }

    /// Returns whether a message can be delivered. A link connects two starts of nodes that know each other.
    fn passage(&self, from: NodeId, to: NodeId, message: &PeerMessage) -> Passage {
        let is_ahead = |view: &ClusterMap| message.epoch > view.filters[&FILTER].epoch;
        if matches!(message.body, PeerBody::Test(_) | PeerBody::ClaimTests(_) | PeerBody::AskCells(_))
            && self.views.get(&to).is_some_and(is_ahead)
        {
            return Passage::Waits;
        }
        let (Some(sender), Some(receiver)) = (self.views.get(&from), self.views.get(&to)) else { return Passage::Open };
        let start = |view: &ClusterMap, node: NodeId| view.nodes[&node].incarnation;
        let meant = start(sender, to).cmp(&start(receiver, to));
        let known = start(sender, from).cmp(&start(receiver, from));
        match (meant, known) {
            (Ordering::Equal, Ordering::Equal) => Passage::Open,
            (Ordering::Less, _) | (_, Ordering::Less) => Passage::Gone,
            (Ordering::Greater, _) | (_, Ordering::Greater) => Passage::Waits,
        }
    }

    /// Treats a node that is down as restarted. It is the first node to get that map.
    pub(crate) fn mark_restarted(&mut self, node: NodeId) {
        let (incarnation, now) = (self.count_start(node), self.now());
        self.send_gathered();
        self.mesh.links_mut().retain(|way| !matches!(way, Way::Peer(from, ..) if *from == node));
        for instance in self.seats_at(node) {
            self.command(instance, |owner| owner.mark_restarted(incarnation, now));
        }
        self.deliver_map(node);
    }

    /// Marks a node as up, in another process, in the next map.
    fn count_start(&mut self, node: NodeId) -> Incarnation {
        self.next_record();
        let record = self.mesh.map_mut().nodes.get_mut(&node).unwrap();
        (record.is_down, record.incarnation.0) = (false, record.incarnation.0 + 1);
        record.incarnation
    }

    /// Returns the head of an event according to `map`.
    pub(crate) fn head_by(&self, map: &ClusterMap, digest: Digest) -> GroupInstance {
        let prober = self.mesh.prober(FILTER);
        let (group, heads) = (prober.group(digest), Heads::new(map, &map.filters[&FILTER]));
        instance(group, heads.of(prober, group, &self.probes(&[digest]), 0).unwrap())
    }

    /// Delivers all messages.
    pub(crate) fn settle(&mut self) {
        while self.deliver() {}
    }

    pub(crate) fn wait(&mut self, ms: u64) {
        self.mesh.pass(ms);
        let now = self.now();
        self.mesh.instances().into_iter().for_each(|instance| self.command(instance, |owner| owner.tick(now)));
    }

    /// Makes exactly these nodes unreachable from all other nodes.
    pub(crate) fn reach_changed(&mut self, unreachable: &[NodeId]) {
        self.nodes().into_iter().for_each(|node| self.reach_changed_at(node, unreachable));
    }

    /// Makes exactly these nodes unreachable from one node.
    pub(crate) fn reach_changed_at(&mut self, node: NodeId, unreachable: &[NodeId]) {
        let unreachable = unreachable.iter().copied().filter(|other| *other != node).collect();
        let now = self.now();
        for instance in self.seats_at(node) {
            self.command(instance, |owner| owner.reach_changed(&unreachable, now));
        }
    }

    /// Delivers the present map to one node.
    pub(crate) fn deliver_map(&mut self, node: NodeId) {
        self.send_gathered();
        let (map, now) = (self.map().clone(), self.now());
        let before = self.views.insert(node, map.clone());
        let is_lost = |other: &NodeId| {
            let start = |map: &ClusterMap| map.nodes[other].incarnation;
            before.as_ref().is_some_and(|before| start(before) != start(&map))
        };
        let lost: Vec<NodeId> = self.nodes().into_iter().filter(|other| *other != node).filter(is_lost).collect();
        let is_over = |way: &Way| matches!(way, Way::Peer(from, to, _) if *from == node && lost.contains(to));
        self.mesh.links_mut().retain(|way| !is_over(way));
        for instance in self.seats_at(node) {
            for other in &lost {
                self.command(instance, |owner| owner.peer_lost(*other, now));
            }
            self.command(instance, |owner| owner.map_changed(&map, now));
        }
        self.mesh.follow(node).unwrap();
    }

    /// Opens the generations that were requested.
    pub(crate) fn agree(&mut self) {
        for (group, number) in std::mem::take(&mut self.asked) {
            let newest = &mut self.record_mut().generations[group as usize];
            if newest.after(1) == number {
                *newest = number;
                self.mesh.map_mut().version += 1;
            }
        }
        self.nodes().into_iter().for_each(|node| self.deliver_map(node));
    }

    /// Returns the sums over all nodes.
    pub(crate) fn hops(&mut self) -> HopCounts {
        self.mesh.hops()[0]
    }

    pub(crate) fn inflight(&self) -> u64 {
        self.mesh.inflight()
    }
}

/// What happens to a message.
enum Passage {
    Open,
    /// One end does not know the other's start yet, or the receiver does not have the sender's map.
    Waits,
    /// The process at one end has ended.
    Gone,
}

impl Producer {
    /// Sends one event alone, and waits until nothing is in flight.
    pub(crate) fn ask_alone(&mut self, network: &mut Network, digest: Digest, time_ms: u64, records: bool) -> Decision {
        self.ask_in(network, FILTER, digest, time_ms, records).0
    }

    /// Sends one event like [`Self::ask_alone`], in a network with several filters. Also returns where the event was
    /// seen.
    pub(crate) fn ask_in(
        &mut self,
        network: &mut Network,
        filter: FilterId,
        digest: Digest,
        time_ms: u64,
        records: bool,
    ) -> (Decision, Seen) {
        let Some(submission) = self.ask(time_ms, records) else {
            return (Decision::Undecided(Reason::Future), Seen::default());
        };
        network.replies.clear();
        network.submit_in(filter, digest, submission);
        network.settle();
        let [reply] = &network.replies[..] else { panic!("{} replies", network.replies.len()) };
        assert_eq!((reply.answers.decisions().len(), network.inflight()), (1, 0), "one decision, and nothing stays");
        (reply.answers.decisions()[0], reply.answers.seen().first().copied().unwrap_or_default())
    }
}
