//! Nodes of one filter in memory: a queue for each link, and dice that decide which link delivers next.

mod copies;
mod gathering;
mod moves;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use firstseen_filter::{Digest, GenerationNumber, Probes, WindowClock};
use firstseen_routing::{
    ClusterMap, Command, Decision, FilterId, FilterPolicies, FilterRecord, GroupOwner, GroupReply, Heads, HopCounts,
    Incarnation, Moment, MonotonicMs, NodeId, NodeRecord, Operation, OwnerLimits, PeerBody, PeerMessage, Prober,
    Reason, SetAcks, SliceOwner, SlicedDefinition, Submission, SubmissionName, Tick, Times, refuse,
};

use crate::common::{Dice, filter_record, node_record};

pub(crate) const FILTER: FilterId = FilterId(7);

/// The time of day when a test begins: events of tests lie before it.
const NOW_WALL_MS: u64 = 1_790_000_000_000;

/// Faults of the network, which tests must find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// Any message of a link is delivered next, not the oldest.
    NoOrder,
    /// Sets are acknowledged when they are sent, and done when they arrive, in any order.
    EarlyAcks,
    /// Sets to nodes that have passed the event on are acknowledged and never done.
    SetsTheRestOnly,
}

/// All nodes, and the messages in flight.
pub(crate) struct Network {
    pub(crate) map: ClusterMap,
    /// The last map that each node has got.
    views: BTreeMap<NodeId, ClusterMap>,
    pub(crate) prober: Prober,
    pub(crate) owners: BTreeMap<(u32, NodeId), GroupOwner>,
    pub(crate) links: BTreeMap<(NodeId, NodeId), VecDeque<PeerMessage>>,
    pub(crate) replies: Vec<GroupReply>,
    /// Generations that nodes have asked for.
    pub(crate) asked: Vec<(u32, GenerationNumber)>,
    /// Groups that nodes have said to be complete on them.
    pub(crate) complete: Vec<(u32, NodeId, Incarnation, Vec<u32>)>,
    pub(crate) now: Moment,
    pub(crate) limits: OwnerLimits,
    pub(crate) fault: Fault,
    pub(crate) dice: Dice,
    /// Whether nodes send when the dice say so, and not after every input.
    pub(crate) gathers: bool,
    /// Groups that have not sent yet.
    gathering: BTreeSet<(u32, NodeId)>,
    /// Nodes that have passed on the event at hand.
    passed_on: Vec<NodeId>,
}

/// Owners of all slices, drawn among `nodes` nodes; every node has at least one where there are enough.
pub(crate) fn random_owners(dice: &mut Dice, slices: u32, nodes: u64) -> Vec<NodeId> {
    let mut owners: Vec<NodeId> =
        (0..u64::from(slices)).map(|slice| NodeId(1 + if slice < nodes { slice } else { dice.below(nodes) })).collect();
    for last in (1..owners.len()).rev() {
        owners.swap(last, dice.below(last as u64 + 1) as usize);
    }
    owners
}

impl Network {
    pub(crate) fn new(
        definition: &SlicedDefinition,
        policies: FilterPolicies,
        owners: &[NodeId],
        limits: OwnerLimits,
        dice: Dice,
    ) -> Self {
        firstseen_routing::check::check_definition(definition).unwrap();
        let owner = |node: &NodeId| SliceOwner { node: *node, ..SliceOwner::default() };
        let generations = vec![GenerationNumber::FIRST; definition.slicing.groups() as usize];
        let record = filter_record(definition, policies, owners.iter().map(owner).collect());
        let record = FilterRecord { generations, ..record };
        let mut map = ClusterMap { version: 1, ..ClusterMap::default() };
        let node = |id: &NodeId| NodeRecord {
            incarnation: Incarnation::default(),
            memory_bytes: u64::MAX,
            ..node_record(*id)
        };
        map.nodes = owners.iter().map(|id| (*id, node(id))).collect();
        map.filters.insert(FILTER, record);
        let mut network = Self {
            prober: Prober::new(definition).unwrap(),
            owners: BTreeMap::new(),
            links: BTreeMap::new(),
            replies: Vec::new(),
            asked: Vec::new(),
            complete: Vec::new(),
            now: Moment { monotonic_ms: MonotonicMs(1000), wall_ms: NOW_WALL_MS },
            limits,
            fault: Fault::None,
            dice,
            gathers: false,
            gathering: BTreeSet::new(),
            passed_on: Vec::new(),
            views: BTreeMap::new(),
            map,
        };
        for node in network.nodes() {
            network.start(node);
        }
        network
    }

    pub(crate) fn record(&self) -> &FilterRecord {
        &self.map.filters[&FILTER]
    }

    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        self.map.nodes.keys().copied().collect()
    }

    /// Gives a node empty slices.
    fn start(&mut self, node: NodeId) {
        for group in 0..self.prober.groups() {
            if let Ok(owner) = GroupOwner::build(FILTER, &self.map, group, node, self.limits) {
                self.owners.insert((group, node), owner);
            }
        }
    }

    /// A node's process ends and another starts: cells, memory and messages in flight are lost.
    pub(crate) fn restart(&mut self, node: NodeId) {
        self.send_gathered();
        self.links.retain(|(from, to), _| *from != node && *to != node);
        // The machine's clock was set right, to an earlier time.
        self.now = Moment { monotonic_ms: self.now.monotonic_ms.after(1), wall_ms: self.now.wall_ms - 100 };
        if let Some(record) = self.map.nodes.get_mut(&node) {
            record.incarnation.0 += 1;
        }
        self.start(node);
        let groups: Vec<(u32, NodeId)> = self.owners.keys().copied().filter(|(_, other)| *other != node).collect();
        for key in groups {
            let (now, map) = (self.now, self.map.clone());
            self.command(key, |owner| owner.peer_lost(node, now));
            self.command(key, |owner| owner.map_changed(&map, now));
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
                let ack = PeerMessage { body: PeerBody::SetAcks(acks), ..message.clone() };
                self.links.entry((to, from)).or_default().push_back(ack);
            }
            if drops {
                return;
            }
        }
        // Such a set was acknowledged when it was sent.
        if self.fault == Fault::EarlyAcks && matches!(message.body, PeerBody::SetAcks(_)) {
            return;
        }
        self.links.entry((from, to)).or_default().push_back(message);
    }

    /// The group and head of an event.
    pub(crate) fn head_of(&self, digest: Digest) -> (u32, NodeId) {
        let (group, probes) = (self.prober.group(digest), self.probes(&[digest]));
        let slice = self.prober.head_slice(group, &probes, 0);
        (group, self.record().owners[slice as usize].node)
    }

    pub(crate) fn probes(&self, digests: &[Digest]) -> Probes {
        let mut probes = Probes::new(self.prober.shape());
        digests.iter().for_each(|digest| self.prober.push(*digest, &mut probes));
        probes
    }

    /// Submits events of one group and head.
    pub(crate) fn submit(&mut self, digests: &[Digest], question: Question) {
        self.submit_at(self.head_of(digests[0]), digests, question);
    }

    /// Submits events of one group to a node.
    pub(crate) fn submit_at(&mut self, key: (u32, NodeId), digests: &[Digest], question: Question) {
        let submission = Submission {
            fences: Vec::new(),
            reply_to: question.reply_to,
            operation: if question.records { Operation::Observe } else { Operation::Lookup },
            producer: question.producer,
            sequence: question.sequence,
            names: question.names,
            probes: self.probes(digests),
            times: question.times,
            deadline_ms: question.deadline_ms,
            from: None,
            again: question.again,
            traceparent: None,
        };
        self.take_up(key, submission);
    }

    /// A node takes up a submission.
    pub(crate) fn take_up(&mut self, key: (u32, NodeId), submission: Submission) {
        self.passed_on.clear();
        let now = self.now;
        self.command(key, |owner| owner.submit(submission, now));
    }

    /// Delivers one message of a link, or has a group send what it has gathered, as the dice pick; `false` where nothing
    /// is in flight.
    pub(crate) fn deliver(&mut self) -> bool {
        let busy: Vec<(NodeId, NodeId)> = self.links.keys().copied().collect();
        let choices = busy.len() + self.gathering.len();
        if choices == 0 {
            return false;
        }
        let choice = self.dice.below(choices as u64) as usize;
        if let Some(key) = choice.checked_sub(busy.len()).and_then(|place| self.gathering.iter().nth(place).copied()) {
            self.carry_out(key);
            return true;
        }
        let ends = busy[choice];
        let waiting = self.links[&ends].len() as u64;
        let is_unordered = matches!(self.fault, Fault::NoOrder | Fault::EarlyAcks);
        let place = if is_unordered { self.dice.below(waiting) as usize } else { 0 };
        self.deliver_at(ends, place)
    }

    /// Delivers the oldest message of one link; `false` where none is in flight there.
    pub(crate) fn deliver_on(&mut self, ends: (NodeId, NodeId)) -> bool {
        self.deliver_at(ends, 0)
    }

    /// Loses the oldest message of one link, and returns it.
    pub(crate) fn take(&mut self, ends: (NodeId, NodeId)) -> Option<PeerMessage> {
        let message = self.links.get_mut(&ends)?.pop_front();
        self.links.retain(|_, link| !link.is_empty());
        message
    }

    /// Puts a message on a link, before all others.
    pub(crate) fn put(&mut self, ends: (NodeId, NodeId), message: PeerMessage) {
        self.links.entry(ends).or_default().push_front(message);
    }

    fn deliver_at(&mut self, ends: (NodeId, NodeId), place: usize) -> bool {
        let Some(message) = self.links.get_mut(&ends).and_then(|link| link.remove(place)) else { return false };
        let ((from, to), group, now) = (ends, message.group, self.now);
        match self.passage(from, to, &message) {
            Passage::Open => self.links.retain(|_, link| !link.is_empty()),
            Passage::Waits => {
                self.links.entry(ends).or_default().push_front(message);
                return self.links.len() > 1 || !self.gathering.is_empty();
            }
            Passage::Gone => {
                self.links.retain(|_, link| !link.is_empty());
                return true;
            }
        }
        if !self.owners.contains_key(&(group, to)) {
            let epoch = self.views.get(&to).map_or(message.epoch, |view| view.filters[&FILTER].epoch);
            let message = PeerMessage { epoch, ..message };
            for command in refuse(from, message, Reason::NotReady) {
                if let Command::Send { to: head, message } = command {
                    self.send(to, head, message);
                }
            }
            return true;
        }
        self.command((group, to), |owner| owner.receive(from, message, now));
        true
    }

    /// Whether a message can be delivered: a link is between two starts that know each other.
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

    /// A node that is down counts as started anew, and is the first to get that map.
    pub(crate) fn begin_anew(&mut self, node: NodeId) {
        self.map.version += 1;
        let record = self.map.nodes.get_mut(&node).unwrap();
        (record.is_down, record.incarnation.0) = (false, record.incarnation.0 + 1);
        let incarnation = record.incarnation;
        self.map.filters.get_mut(&FILTER).unwrap().epoch.rise();
        self.send_gathered();
        self.links.retain(|(from, _), _| *from != node);
        let now = self.now;
        for group in 0..self.prober.groups() {
            self.command((group, node), |owner| owner.begin_anew(incarnation, now));
        }
        self.deliver_map(node);
    }

    /// A node counts as complete though it has lost cells; no node has the new map yet.
    pub(crate) fn forgive(&mut self, node: NodeId) {
        self.map.version += 1;
        let incarnation = self.map.nodes[&node].incarnation;
        let record = self.map.filters.get_mut(&FILTER).unwrap();
        let own = record.owners.iter_mut().filter(|owner| owner.node == node);
        own.for_each(|owner| (owner.complete_since, owner.has_gap) = (incarnation, false));
    }

    /// The group and head of an event by `map`.
    pub(crate) fn head_by(&self, map: &ClusterMap, digest: Digest) -> (u32, NodeId) {
        let (group, probes) = (self.prober.group(digest), self.probes(&[digest]));
        let heads = Heads::new(map, &map.filters[&FILTER]);
        (group, heads.of(&self.prober, group, &probes, 0).unwrap())
    }

    /// Delivers everything.
    pub(crate) fn settle(&mut self) {
        while self.deliver() {}
    }

    pub(crate) fn wait(&mut self, ms: u64) {
        self.now = Moment { monotonic_ms: self.now.monotonic_ms.after(ms), wall_ms: self.now.wall_ms + ms };
        let keys: Vec<(u32, NodeId)> = self.owners.keys().copied().collect();
        for key in keys {
            let now = self.now;
            self.command(key, |owner| owner.tick(now));
        }
    }

    /// All nodes find that these are out of reach, and no others.
    pub(crate) fn reach_changed(&mut self, unreachable: &[NodeId]) {
        self.nodes().into_iter().for_each(|node| self.reach_changed_at(node, unreachable));
    }

    /// One node finds that these are out of reach, and no others.
    pub(crate) fn reach_changed_at(&mut self, node: NodeId, unreachable: &[NodeId]) {
        let unreachable = unreachable.iter().copied().filter(|other| *other != node).collect();
        let now = self.now;
        for group in 0..self.prober.groups() {
            self.command((group, node), |owner| owner.reach_changed(&unreachable, now));
        }
    }

    /// Sends one node the present map.
    pub(crate) fn deliver_map(&mut self, node: NodeId) {
        self.send_gathered();
        let (map, now) = (self.map.clone(), self.now);
        let before = self.views.insert(node, map.clone());
        let is_lost = |other: &NodeId| {
            let start = |map: &ClusterMap| map.nodes[other].incarnation;
            before.as_ref().is_some_and(|before| start(before) != start(&map))
        };
        let lost: Vec<NodeId> = self.nodes().into_iter().filter(|other| *other != node).filter(is_lost).collect();
        self.links.retain(|(from, to), _| *from != node || !lost.contains(to));
        for group in 0..self.prober.groups() {
            for other in &lost {
                self.command((group, node), |owner| owner.peer_lost(*other, now));
            }
            self.command((group, node), |owner| owner.map_changed(&map, now));
        }
        self.follow_slices(node);
    }

    /// Opens the generations that were asked for.
    pub(crate) fn agree(&mut self) {
        for (group, number) in std::mem::take(&mut self.asked) {
            let Some(record) = self.map.filters.get_mut(&FILTER) else { continue };
            if record.generations[group as usize].after(1) == number {
                record.generations[group as usize] = number;
                self.map.version += 1;
            }
        }
        self.nodes().into_iter().for_each(|node| self.deliver_map(node));
    }

    /// The sums over all nodes.
    pub(crate) fn hops(&mut self) -> HopCounts {
        self.owners.values_mut().map(|owner| owner.state(usize::MAX).hops).fold(HopCounts::default(), |sum, hops| {
            HopCounts {
                tests: sum.tests + hops.tests,
                test_slices: sum.test_slices + hops.test_slices,
                test_nodes: sum.test_nodes + hops.test_nodes,
                sets: sum.sets + hops.sets,
                set_slices: sum.set_slices + hops.set_slices,
                set_nodes: sum.set_nodes + hops.set_nodes,
            }
        })
    }

    pub(crate) fn inflight(&self) -> u64 {
        self.owners.values().map(|owner| owner.inflight_events()).sum()
    }
}

/// The fate of a message.
enum Passage {
    Open,
    /// One of its ends does not know the other's start yet, or the receiver not the map of the sender.
    Waits,
    /// The process at one of its ends is over.
    Gone,
}

/// A submission or lookup, beside its events.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) reply_to: u64,
    pub(crate) records: bool,
    pub(crate) producer: u128,
    pub(crate) sequence: u64,
    pub(crate) names: Vec<SubmissionName>,
    pub(crate) times: Times,
    pub(crate) deadline_ms: MonotonicMs,
    pub(crate) again: bool,
}

/// A producer that sends one event after the other.
pub(crate) struct Producer {
    pub(crate) id: u128,
    pub(crate) sequence: u64,
    clock: WindowClock,
}

impl Producer {
    pub(crate) fn new(id: u128, definition: &SlicedDefinition) -> Self {
        let group = &definition.group;
        let clock = WindowClock::new(group.unit.clone(), group.rule, group.future_max_ms);
        Self { id, sequence: 0, clock }
    }

    /// The next question, of one event; none where the clock refuses its time.
    pub(crate) fn ask(&mut self, time_ms: u64, records: bool) -> Option<Question> {
        let base_unit = self.clock.now_unit();
        let tick = if records { self.clock.place_tick(Some(time_ms)) } else { self.clock.look_up_tick(Some(time_ms)) };
        let (clock_unit, unit) = tick?;
        let ticks = vec![Tick { clock_unit, unit }];
        let times = Times { base_unit, ticks, clock_ms: self.clock.now_ms().unwrap_or(0) };
        self.sequence += 1;
        let (producer, sequence) = (self.id, self.sequence);
        Some(Question {
            reply_to: sequence,
            records,
            producer,
            sequence,
            names: Vec::new(),
            times,
            deadline_ms: MonotonicMs::END,
            again: false,
        })
    }

    /// Sends one event alone, and waits until nothing is in flight.
    pub(crate) fn ask_alone(&mut self, network: &mut Network, digest: Digest, time_ms: u64, records: bool) -> Decision {
        let Some(question) = self.ask(time_ms, records) else { return Decision::Undecided(Reason::Future) };
        network.replies.clear();
        network.submit(&[digest], question);
        network.settle();
        assert_eq!(network.replies.len(), 1, "one reply");
        assert_eq!(network.replies[0].decisions.len(), 1, "one decision");
        network.replies[0].decisions[0]
    }
}
