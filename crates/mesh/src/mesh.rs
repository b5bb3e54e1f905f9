//! The owners of all groups, by the node that each is on, and how what is on its way comes to them.
//!
//! Promises: an input runs when it is given, and what it sets off is carried out when that is said, in order. Must not
//! know: which input is next.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use firstseen_filter::{Digest, Probes};
use firstseen_routing::{
    Climb, ClusterMap, Command, FilterId, GroupOwner, HopCounts, Moment, NodeId, OwnerLimits, Prober, SlicedBuildError,
};

use crate::climbs::Climbs;
use crate::links::{Links, Order, Seat, Way};

/// Bytes of cells by which an owner estimates how full it is: nobody here asks for that.
const STATE_BYTES: usize = 64;

/// All owners, what is on its way between them, and the map that nodes are told of.
pub struct Mesh {
    map: ClusterMap,
    probers: BTreeMap<FilterId, Prober>,
    owners: BTreeMap<Seat, GroupOwner>,
    links: Links,
    climbs: Climbs,
    limits: OwnerLimits,
    now: Moment,
}

impl Mesh {
    /// Every node of a map with its slices, which are empty.
    ///
    /// # Errors
    /// [`SlicedBuildError`]: no memory, or a definition that no filter has.
    pub fn new(map: ClusterMap, limits: OwnerLimits, order: Order, now: Moment) -> Result<Self, SlicedBuildError> {
        let mut probers = BTreeMap::new();
        for (id, record) in &map.filters {
            probers.insert(*id, map.prober(record)?);
        }
        let links = Links::new(order);
        let mut mesh = Self { map, probers, owners: BTreeMap::new(), links, climbs: Climbs::default(), limits, now };
        let nodes: Vec<NodeId> = mesh.map.nodes.keys().copied().collect();
        nodes.into_iter().try_for_each(|node| mesh.start(node))?;
        Ok(mesh)
    }

    /// The map as it is agreed on; owners know it as it was when they were built, or told of it.
    pub fn map(&self) -> &ClusterMap {
        &self.map
    }

    /// The map, to be changed; no owner hears of that.
    pub fn map_mut(&mut self) -> &mut ClusterMap {
        &mut self.map
    }

    /// The time.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Sets the time, which no owner hears of before its next input.
    pub fn set_now(&mut self, now: Moment) {
        self.now = now;
    }

    /// Lets time pass, of which no owner hears, either: climbs that nothing waits for any longer are given up.
    pub fn pass(&mut self, passed_ms: u64) {
        let Moment { monotonic_ms, wall_ms } = self.now;
        self.now = Moment { monotonic_ms: monotonic_ms.after(passed_ms), wall_ms: wall_ms + passed_ms };
        for climb in self.climbs.late(self.now.monotonic_ms) {
            self.links.extend(self.climbs.give_up(climb));
        }
    }

    /// All owners.
    pub fn owners(&self) -> &BTreeMap<Seat, GroupOwner> {
        &self.owners
    }

    /// All owners, for inputs that set nothing off, and to add some or take some away.
    pub fn owners_mut(&mut self) -> &mut BTreeMap<Seat, GroupOwner> {
        &mut self.owners
    }

    /// Where there are owners, in their order.
    pub fn seats(&self) -> Vec<Seat> {
        self.owners.keys().copied().collect()
    }

    /// What is on its way.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// What is on its way, to deliver it or to have it go wrong.
    pub fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    /// Starts a node with empty slices, in place of those that it has.
    ///
    /// # Errors
    /// As [`Self::follow`].
    pub fn start(&mut self, node: NodeId) -> Result<(), SlicedBuildError> {
        self.owners.retain(|seat, _| seat.node != node);
        self.follow(node)
    }

    /// A node starts groups whose slices have come to it, and ends those whose slices have left, if these are idle.
    ///
    /// # Errors
    /// [`SlicedBuildError`]: no memory.
    pub fn follow(&mut self, node: NodeId) -> Result<(), SlicedBuildError> {
        let own = self.seats_of(node);
        self.owners.retain(|seat, left| seat.node != node || own.contains(seat) || !left.is_idle());
        for seat in own {
            if let Entry::Vacant(place) = self.owners.entry(seat) {
                place.insert(GroupOwner::build(seat.filter, &self.map, seat.group, node, self.limits)?);
            }
        }
        Ok(())
    }

    /// Ends the processes of these nodes: their slices are lost, what is on its way to and from them, and their climbs.
    pub fn end(&mut self, nodes: &BTreeSet<NodeId>) {
        self.owners.retain(|seat, _| !nodes.contains(&seat.node));
        self.links.retain(|way| !nodes.iter().any(|node| way.is_lost_with(*node)));
        self.climbs.forget(nodes);
    }

    /// Ends the processes of these nodes, and starts others, as the map says from now on.
    ///
    /// # Errors
    /// As [`Self::follow`].
    pub fn restart(&mut self, nodes: &BTreeSet<NodeId>) -> Result<(), SlicedBuildError> {
        self.end(nodes);
        let records = self.map.nodes.iter_mut().filter(|(node, _)| nodes.contains(node));
        records.for_each(|(_, record)| record.incarnation.0 += 1);
        nodes.iter().try_for_each(|node| self.follow(*node))
    }

    /// The groups that the map gives to a node.
    fn seats_of(&self, node: NodeId) -> BTreeSet<Seat> {
        let filters = self.map.filters.iter();
        let seats = filters.flat_map(|(filter, record)| {
            let per_group = record.definition.slicing.slices_per_group().max(1);
            let own = record.all_copies().filter(move |(_, copy)| copy.node == node);
            own.map(move |(slice, _)| Seat { filter: *filter, group: slice / per_group, node })
        });
        seats.collect()
    }

    /// Parts of climbs that these nodes were to answer are sent again, or their climbs end as unknown.
    pub fn end_parts(&mut self, nodes: &BTreeSet<NodeId>, are_sent_again: bool) {
        let parts = self.climbs.parts_at(nodes);
        if are_sent_again {
            parts.into_iter().for_each(|(part, _)| self.send_again(part));
        } else {
            let climbs: BTreeSet<(Seat, u64)> = parts.into_iter().map(|(_, climb)| climb).collect();
            self.links.extend(climbs.into_iter().filter_map(|climb| self.climbs.give_up(climb)));
        }
    }

    /// Whether a reply is to the part of a climb.
    pub fn is_part(&self, reply_to: u64) -> bool {
        self.climbs.has_part(reply_to)
    }

    /// Sends the part of a climb once more, as its answer is lost.
    pub fn send_again(&mut self, part: u64) {
        self.links.extend(self.climbs.again(part));
    }

    /// Gives an owner an input, if it is there.
    pub fn input(&mut self, seat: Seat, run: impl FnOnce(&mut GroupOwner)) {
        if let Some(owner) = self.owners.get_mut(&seat) {
            run(owner);
        }
    }

    /// Takes the commands that the inputs to an owner have set off since the last time.
    pub fn take_commands(&mut self, seat: Seat) -> Vec<Command> {
        let mut commands = Vec::new();
        self.input(seat, |owner| owner.take_commands(&mut commands));
        commands
    }

    /// Carries out what a network does: sends messages and climbs, and brings answers to climbs. Gives back what is for
    /// others: replies to producers, proposals to the agreement, records for a disk.
    pub fn carry_out(&mut self, seat: Seat, command: Command) -> Option<Command> {
        match command {
            Command::Send { to, message } => self.links.push(Way::Peer(seat.node, to, message)),
            Command::Climb(climb) => self.links.push(Way::Climb(seat, climb)),
            Command::Reply(reply) if self.is_part(reply.reply_to) => {
                self.links.extend(self.climbs.answered(reply));
            }
            other => return Some(other),
        }
        None
    }

    /// What was on its way arrives. Returns which owners got an input: their commands are to be carried out.
    pub fn deliver(&mut self, way: Way) -> Vec<Seat> {
        let now = self.now;
        match way {
            Way::Peer(from, to, message) => {
                let seat = Seat { filter: message.filter, group: message.group, node: to };
                self.input(seat, |owner| owner.receive(from, message, now));
                vec![seat]
            }
            Way::Climb(from, climb) => self.arrive(from, climb),
            Way::Again(.., submission) if !self.is_part(submission.reply_to) => Vec::new(),
            Way::Again(_, to, submission) => {
                self.input(to, |owner| owner.submit(submission, now));
                vec![to]
            }
            Way::Climbed(to, climbed) => {
                self.input(to, |owner| owner.climbed(&climbed, now));
                vec![to]
            }
        }
    }

    /// A climb comes to the heads of its events at the level that it asks, which take it as submissions.
    fn arrive(&mut self, from: Seat, climb: Climb) -> Vec<Seat> {
        let mut by_head: BTreeMap<Seat, Vec<usize>> = BTreeMap::new();
        for event in 0..climb.probes.len() {
            let Some(head) = self.head(climb.to, climb.group, &climb.probes, event) else { return Vec::new() };
            by_head.entry(head).or_default().push(event);
        }
        let now = self.now;
        let mut heads = Vec::new();
        for (seat, submission) in self.climbs.begin(from, climb, by_head) {
            self.input(seat, |owner| owner.submit(submission, now));
            heads.push(seat);
        }
        heads
    }

    /// What finds the positions of events in a filter, which must be one of the map's.
    pub fn prober(&self, filter: FilterId) -> &Prober {
        &self.probers[&filter]
    }

    /// The positions of events in a filter, which must be one of the map's.
    pub fn probes(&self, filter: FilterId, digests: &[Digest]) -> Probes {
        let mut probes = Probes::new(self.prober(filter).shape());
        digests.iter().for_each(|digest| self.prober(filter).push(*digest, &mut probes));
        probes
    }

    fn head(&self, filter: FilterId, group: u32, probes: &Probes, index: usize) -> Option<Seat> {
        let slice = self.probers.get(&filter)?.head_slice(group, probes, index);
        let owner = self.map.filters.get(&filter)?.owners.get(slice as usize)?;
        Some(Seat { filter, group, node: owner.node })
    }

    /// The head of an event while the first copy of each slice is asked; none where there is no such filter.
    pub fn head_of(&self, filter: FilterId, digest: Digest) -> Option<Seat> {
        let group = self.probers.get(&filter)?.group(digest);
        self.head(filter, group, &self.probes(filter, &[digest]), 0)
    }

    /// What the nodes of each level of a tree have done, from the root on; a filter that is in no tree is one level.
    pub fn hops(&mut self) -> Vec<HopCounts> {
        let mut levels: Vec<HopCounts> = Vec::new();
        for (seat, owner) in &mut self.owners {
            let branch = self.map.filters.get(&seat.filter).and_then(|record| record.branch.as_ref());
            let level = branch.map_or(0, |branch| usize::from(branch.level));
            levels.resize(levels.len().max(level + 1), HopCounts::default());
            let sum = &mut levels[level];
            let hops = owner.state(STATE_BYTES).hops;
            sum.tests += hops.tests;
            sum.test_slices += hops.test_slices;
            sum.test_nodes += hops.test_nodes;
            sum.sets += hops.sets;
            sum.set_slices += hops.set_slices;
            sum.set_nodes += hops.set_nodes;
        }
        levels
    }

    /// Events that are not answered, or not set everywhere.
    pub fn inflight(&self) -> u64 {
        self.owners.values().map(GroupOwner::inflight_events).sum()
    }
}
