//! A simulated cluster, which consists of the owners of the slice groups on all nodes and the messages between them.
//! The caller chooses the next input, and the mesh passes it to the owner immediately. When the caller requests it, the
//! mesh also executes the commands that result from the input, in order.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use firstseen_filter::{Digest, Probes};
use firstseen_routing::{
    ClusterMap, Command, FilterId, GroupOwner, HopCounts, LevelQuery, Moment, NodeId, OwnerLimits, Prober,
    SlicedBuildError,
};

use crate::level_queries::Climbs;
use crate::links::{GroupInstance, Links, Order, Way};

/// Number of bytes of cells that an owner of slices reads to estimate how full its slices are. A small sample gives an
/// imprecise estimate. The number is small here, because simulated clusters do not use the estimate.
const STATE_BYTES: usize = 64;

/// All owners, the messages between them, and the cluster map.
pub struct Mesh {
    map: ClusterMap,
    probers: BTreeMap<FilterId, Prober>,
    owners: BTreeMap<GroupInstance, GroupOwner>,
    links: Links,
    climbs: Climbs,
    limits: OwnerLimits,
    now: Moment,
}

impl Mesh {
    /// Creates all nodes of a map, with empty slices.
    ///
    /// # Errors
    /// Returns [`SlicedBuildError`] if memory is not available, or if a definition is invalid.
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

    /// Returns the current cluster map. An owner uses the map that was current when the owner was created, or the last
    /// one that it was given.
    pub fn map(&self) -> &ClusterMap {
        &self.map
    }

    /// Returns the cluster map for changes. Owners are not informed about the changes.
    pub fn map_mut(&mut self) -> &mut ClusterMap {
        &mut self.map
    }

    /// Returns the current time.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Sets the time. An owner sees the new time with its next input.
    pub fn set_now(&mut self, now: Moment) {
        self.now = now;
    }

    /// Advances the time by `passed_ms` milliseconds, and abandons the queries to other levels whose deadline has
    /// passed. An owner learns the new time only when it receives its next input.
    pub fn pass(&mut self, passed_ms: u64) {
        let Moment { monotonic_ms, wall_ms } = self.now;
        self.now = Moment { monotonic_ms: monotonic_ms.after(passed_ms), wall_ms: wall_ms + passed_ms };
        for climb in self.climbs.late(self.now.monotonic_ms) {
            self.links.extend(self.climbs.abandon(climb));
        }
    }

    /// Returns all owners.
    pub fn owners(&self) -> &BTreeMap<GroupInstance, GroupOwner> {
        &self.owners
    }

    /// Returns all owners for changes. The caller may add and remove owners, and may give an owner inputs that do not
    /// result in commands.
    pub fn owners_mut(&mut self) -> &mut BTreeMap<GroupInstance, GroupOwner> {
        &mut self.owners
    }

    /// Returns the identities of all owners, in ascending order.
    pub fn instances(&self) -> Vec<GroupInstance> {
        self.owners.keys().copied().collect()
    }

    /// Returns the messages in transit.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Returns the messages in transit for changes, for example to deliver or to lose a message.
    pub fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    /// Starts a node with empty slices, which replace its former slices.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::follow`].
    pub fn start(&mut self, node: NodeId) -> Result<(), SlicedBuildError> {
        self.owners.retain(|instance, _| instance.node != node);
        self.follow(node)
    }

    /// Starts the groups whose slices have moved to a node, and ends the groups whose slices have left the node and
    /// that are idle.
    ///
    /// # Errors
    /// Returns [`SlicedBuildError`] if memory is not available.
    pub fn follow(&mut self, node: NodeId) -> Result<(), SlicedBuildError> {
        let own = self.seats_of(node);
        self.owners.retain(|instance, left| instance.node != node || own.contains(instance) || !left.is_idle());
        for instance in own {
            if let Entry::Vacant(place) = self.owners.entry(instance) {
                place.insert(GroupOwner::build(instance.filter, &self.map, instance.group, node, self.limits)?);
            }
        }
        Ok(())
    }

    /// Ends the processes of these nodes. Their slices, the messages from and to them, and their queries are lost.
    pub fn end(&mut self, nodes: &BTreeSet<NodeId>) {
        self.owners.retain(|instance, _| !nodes.contains(&instance.node));
        self.links.retain(|way| !nodes.iter().any(|node| way.is_lost_with(*node)));
        self.climbs.forget(nodes);
    }

    /// Ends the processes of these nodes, and starts them again according to the current map.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::follow`].
    pub fn restart(&mut self, nodes: &BTreeSet<NodeId>) -> Result<(), SlicedBuildError> {
        self.end(nodes);
        let records = self.map.nodes.iter_mut().filter(|(node, _)| nodes.contains(node));
        records.for_each(|(_, record)| record.incarnation.0 += 1);
        nodes.iter().try_for_each(|node| self.follow(*node))
    }

    /// Returns the groups that the map assigns to a node.
    fn seats_of(&self, node: NodeId) -> BTreeSet<GroupInstance> {
        let filters = self.map.filters.iter();
        let instances = filters.flat_map(|(filter, record)| {
            let per_group = record.definition.slicing.slices_per_group().max(1);
            let own = record.all_copies().filter(move |(_, copy)| copy.node == node);
            own.map(move |(slice, _)| GroupInstance { filter: *filter, group: slice / per_group, node })
        });
        instances.collect()
    }

    /// Handles queries to other levels that will not be answered completely, because the given nodes have not answered
    /// their parts. For example, the processes of these nodes may have ended. If `are_sent_again` is set, the
    /// unanswered parts are sent again. Otherwise the queries end, and the verdicts of the unanswered parts are
    /// unknown.
    pub fn end_parts(&mut self, nodes: &BTreeSet<NodeId>, are_sent_again: bool) {
        let parts = self.climbs.parts_at(nodes);
        if are_sent_again {
            parts.into_iter().for_each(|(part, _)| self.send_again(part));
        } else {
            let climbs: BTreeSet<(GroupInstance, u64)> = parts.into_iter().map(|(_, climb)| climb).collect();
            self.links.extend(climbs.into_iter().filter_map(|climb| self.climbs.abandon(climb)));
        }
    }

    /// Returns whether a reply answers a part of a query.
    pub fn is_part(&self, reply_to: u64) -> bool {
        self.climbs.has_part(reply_to)
    }

    /// Sends a part of a query again, because its answer was lost.
    pub fn send_again(&mut self, part: u64) {
        self.links.extend(self.climbs.again(part));
    }

    /// Passes an input to an owner, if the owner exists.
    pub fn input(&mut self, instance: GroupInstance, run: impl FnOnce(&mut GroupOwner)) {
        if let Some(owner) = self.owners.get_mut(&instance) {
            run(owner);
        }
    }

    /// Takes the commands that have resulted from the inputs to an owner since the last call.
    pub fn take_commands(&mut self, instance: GroupInstance) -> Vec<Command> {
        let mut commands = Vec::new();
        self.input(instance, |owner| owner.take_commands(&mut commands));
        commands
    }

    /// Executes a command if it concerns the network: it sends a message or a query, or it contains an answer to a
    /// query of another level. Returns all other commands to the caller without executing them. Such commands are, for
    /// example, replies to producers, proposals to the consensus group, and records to persist.
    pub fn execute(&mut self, instance: GroupInstance, command: Command) -> Option<Command> {
        match command {
            Command::Send { to, message } => self.links.push(Way::Peer(instance.node, to, message)),
            Command::LevelQuery(climb) => self.links.push(Way::LevelQuery(instance, climb)),
            Command::Reply(reply) if self.is_part(reply.reply_to) => {
                self.links.extend(self.climbs.answered(reply));
            }
            other => return Some(other),
        }
        None
    }

    /// Delivers a message. Returns the owners that have received an input, so that the caller can execute their
    /// commands.
    pub fn deliver(&mut self, way: Way) -> Vec<GroupInstance> {
        let now = self.now;
        match way {
            Way::Peer(from, to, message) => {
                let instance = GroupInstance { filter: message.filter, group: message.group, node: to };
                self.input(instance, |owner| owner.receive(from, message, now));
                vec![instance]
            }
            Way::LevelQuery(from, climb) => self.arrive(from, climb),
            Way::Again(.., submission) if !self.is_part(submission.reply_to) => Vec::new(),
            Way::Again(_, to, submission) => {
                self.input(to, |owner| owner.submit(submission, now));
                vec![to]
            }
            Way::LevelReply(to, climbed) => {
                self.input(to, |owner| owner.climbed(&climbed, now));
                vec![to]
            }
        }
    }

    /// Delivers a query to the heads of its events at the level that is asked. The heads receive it as batches.
    fn arrive(&mut self, from: GroupInstance, climb: LevelQuery) -> Vec<GroupInstance> {
        let mut by_head: BTreeMap<GroupInstance, Vec<usize>> = BTreeMap::new();
        for event in 0..climb.probes.len() {
            let Some(head) = self.head(climb.to, climb.group, &climb.probes, event) else { return Vec::new() };
            by_head.entry(head).or_default().push(event);
        }
        let now = self.now;
        let mut heads = Vec::new();
        for (instance, submission) in self.climbs.begin(from, climb, by_head) {
            self.input(instance, |owner| owner.submit(submission, now));
            heads.push(instance);
        }
        heads
    }

    /// Returns the prober of a filter, which determines the positions of events. Panics if the map does not contain the
    /// filter.
    pub fn prober(&self, filter: FilterId) -> &Prober {
        &self.probers[&filter]
    }

    /// Returns the positions of events in a filter. Panics if the map does not contain the filter.
    pub fn probes(&self, filter: FilterId, digests: &[Digest]) -> Probes {
        let mut probes = Probes::new(self.prober(filter).shape());
        digests.iter().for_each(|digest| self.prober(filter).push(*digest, &mut probes));
        probes
    }

    fn head(&self, filter: FilterId, group: u32, probes: &Probes, index: usize) -> Option<GroupInstance> {
        let slice = self.probers.get(&filter)?.head_slice(group, probes, index);
        let owner = self.map.filters.get(&filter)?.owners.get(slice as usize)?;
        Some(GroupInstance { filter, group, node: owner.node })
    }

    /// Returns the head of an event under the assumption that the first copy of each slice is asked. Returns `None` if
    /// the filter does not exist.
    pub fn head_of(&self, filter: FilterId, digest: Digest) -> Option<GroupInstance> {
        let group = self.probers.get(&filter)?.group(digest);
        self.head(filter, group, &self.probes(filter, &[digest]), 0)
    }

    /// Returns the work that the nodes have done to test and record events, summed up for each level of a filter tree.
    /// The first element belongs to the root. A filter that is not part of a tree counts as a single level.
    pub fn hops(&mut self) -> Vec<HopCounts> {
        let mut levels: Vec<HopCounts> = Vec::new();
        for (instance, owner) in &mut self.owners {
            let branch = self.map.filters.get(&instance.filter).and_then(|record| record.branch.as_ref());
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

    /// Returns the number of events that are not answered, or not yet set on all nodes.
    pub fn inflight(&self) -> u64 {
        self.owners.values().map(GroupOwner::inflight_events).sum()
    }
}
