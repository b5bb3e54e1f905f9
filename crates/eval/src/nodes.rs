//! The nodes of a filter in one process: production owners of its slices, or of the levels of a tree, and the messages
//! between them.
//!
//! Promises: every slice, or level, is on a node of its own; messages arrive in the order in which they were sent, none
//! is lost, and time stands still, so only the decisions of nodes are measured. Must not know: networks, what is
//! measured.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use firstseen_filter::{Digest, Probes};
use firstseen_routing::Climbed;
use firstseen_routing::{
    Branch, Climb, ClusterMap, Command, Decision, Epoch, FilterId, FilterPolicies, FilterRecord, GroupOwner,
    GroupReply, Heads, HopCounts, Incarnation, Line, Moment, MonotonicMs, NodeId, NodeRecord, Operation, OwnerLimits,
    PeerMessage, Prober, Reason, Seen, SliceOwner, SlicedDefinition, Submission, Times, TreeSpec,
};

use crate::experiment::EvalError;

/// Events that are in flight at once.
const BATCH_EVENTS: usize = 4096;
/// Cells by which a node estimates how full it is; no test here asks for that.
const STATE_BYTES: usize = 64;
/// The filter, or the root of its tree.
const ROOT: FilterId = FilterId(1);

/// A node with slices of a group.
type Seat = (FilterId, u32, NodeId);

/// A message in flight.
enum Parcel {
    Peer { from: NodeId, to: NodeId, message: PeerMessage },
    Climb { from: Seat, climb: Climb },
    Climbed { to: Seat, climbed: Climbed },
}

/// All nodes, and the messages in flight.
pub(crate) struct Nodes {
    experiment: &'static str,
    map: ClusterMap,
    /// The positions of events, by filter.
    probers: BTreeMap<FilterId, Prober>,
    owners: BTreeMap<Seat, GroupOwner>,
    on_the_way: VecDeque<Parcel>,
    /// Replies, by the number of the submission.
    replies: BTreeMap<u64, GroupReply>,
    /// For a submission that a climb has made: the node that awaits its reply, and the number of the climb there.
    climbs: BTreeMap<u64, (Seat, u64)>,
    asked: u64,
    now: Moment,
}

impl Nodes {
    /// Every slice of a filter on a node of its own.
    pub(crate) fn of_slices(
        experiment: &'static str,
        definition: &SlicedDefinition,
        policies: FilterPolicies,
    ) -> Result<Self, EvalError> {
        let mut nodes = Self::empty(experiment);
        let owners = (0..definition.slicing.slices()).map(|slice| NodeId(1 + u64::from(slice))).collect();
        nodes.add(ROOT, (definition, policies), owners, None);
        nodes.start_all()?;
        Ok(nodes)
    }

    /// Every place of a tree on a node of its own, uncut; and the filters of its places, in the order of `tree`.
    pub(crate) fn of_tree(
        experiment: &'static str,
        definition: &SlicedDefinition,
        tree: &TreeSpec,
    ) -> Result<(Self, Vec<FilterId>), EvalError> {
        let sites: BTreeSet<&str> = tree.places.iter().flat_map(|place| &place.sites).map(String::as_str).collect();
        let mut nodes = Self::empty(experiment);
        let id = |index: usize| FilterId(ROOT.0 + index as u64);
        let places = tree.plan(definition, &sites)?;
        for (index, place) in places.iter().enumerate() {
            let branch = Branch {
                root: ROOT,
                parent: place.parent.map(id),
                level: place.level,
                fold: place.fold,
                place: place.name.clone(),
                mode: tree.mode,
                top_down: tree.top_down,
                cut_off: tree.cut_off,
            };
            let owner = vec![NodeId(1 + index as u64)];
            nodes.add(id(index), (&place.definition, FilterPolicies::default()), owner, Some(branch));
        }
        nodes.start_all()?;
        let named = |name: &String| places.iter().position(|place| place.name == *name).map(id);
        Ok((nodes, tree.places.iter().filter_map(|place| named(&place.name)).collect()))
    }

    fn empty(experiment: &'static str) -> Self {
        Self {
            experiment,
            map: ClusterMap { version: 1, ..ClusterMap::default() },
            probers: BTreeMap::new(),
            owners: BTreeMap::new(),
            on_the_way: VecDeque::new(),
            replies: BTreeMap::new(),
            climbs: BTreeMap::new(),
            asked: 0,
            now: Moment { monotonic_ms: MonotonicMs(1), wall_ms: 1 },
        }
    }

    fn add(
        &mut self,
        filter: FilterId,
        (definition, policies): (&SlicedDefinition, FilterPolicies),
        owners: Vec<NodeId>,
        branch: Option<Branch>,
    ) {
        let node = |id: &NodeId| NodeRecord {
            name: format!("node-{id}"),
            site: "here".to_owned(),
            address: String::new(),
            incarnation: Incarnation(1),
            memory_bytes: u64::MAX,
            voter: true,
            is_down: false,
        };
        self.map.nodes.extend(owners.iter().map(|id| (*id, node(id))));
        let owner = |node| SliceOwner { node, complete_since: Incarnation(1), ..SliceOwner::default() };
        let record = FilterRecord {
            name: format!("filter-{filter}"),
            epoch: Epoch::FIRST,
            definition: definition.clone(),
            policies,
            owners: owners.into_iter().map(owner).collect(),
            copies: Vec::new(),
            generations: Vec::new(),
            branch,
            line: Line::default(),
        };
        self.map.filters.insert(filter, record);
    }

    fn start_all(&mut self) -> Result<(), EvalError> {
        for (id, record) in &self.map.filters {
            self.probers.insert(*id, self.map.prober(record)?);
        }
        let nodes: Vec<NodeId> = self.map.nodes.keys().copied().collect();
        nodes.into_iter().try_for_each(|node| self.start(node))
    }

    /// Gives a node empty slices.
    fn start(&mut self, node: NodeId) -> Result<(), EvalError> {
        for (id, record) in &self.map.filters {
            let per_group = record.definition.slicing.slices_per_group().max(1);
            for (slice, _) in (0..).zip(&record.owners).filter(|(_, owner)| owner.node == node) {
                let group: u32 = slice / per_group;
                let owner = GroupOwner::build(*id, &self.map, group, node, OwnerLimits::default())?;
                self.owners.insert((*id, group, node), owner);
            }
        }
        Ok(())
    }

    /// Ends the processes of these slices' nodes, and starts others with empty memory: they can be asked, but their
    /// slices are incomplete.
    pub(crate) fn lose(&mut self, slices: impl IntoIterator<Item = u32>) -> Result<(), EvalError> {
        for slice in slices {
            let node = NodeId(1 + u64::from(slice));
            if let Some(record) = self.map.nodes.get_mut(&node) {
                record.incarnation.0 += 1;
            }
            self.start(node)?;
        }
        self.map.version += 1;
        self.map.filters.values_mut().for_each(|filter| filter.epoch.rise());
        let seats: Vec<Seat> = self.owners.keys().copied().collect();
        let (map, now) = (self.map.clone(), self.now);
        seats.into_iter().for_each(|seat| self.command(seat, |owner| owner.map_changed(&map, now)));
        self.deliver_all();
        Ok(())
    }

    /// Sends events to a place of the tree, or to the filter itself, and returns their verdicts.
    pub(crate) fn ask(
        &mut self,
        place: FilterId,
        digests: &[Digest],
        operation: Operation,
    ) -> Result<Vec<Decision>, EvalError> {
        let mut decisions = Vec::with_capacity(digests.len());
        for batch in digests.chunks(BATCH_EVENTS) {
            decisions.extend(self.ask_batch(place, batch, operation)?.into_iter().map(|(decision, _)| decision));
        }
        Ok(decisions)
    }

    /// Observes one event at a place of the tree. Returns its verdict, and for a duplicate the level at which it was
    /// found.
    pub(crate) fn observe(&mut self, place: FilterId, digest: Digest) -> Result<(Decision, u8), EvalError> {
        let verdicts = self.ask_batch(place, &[digest], Operation::Observe)?;
        Ok(verdicts.first().map_or((Decision::FirstSeen, 0), |(decision, seen)| (*decision, seen.level)))
    }

    /// The counts of the nodes of each level of the tree, from the root down.
    pub(crate) fn hops(&mut self) -> Vec<HopCounts> {
        let mut levels: Vec<HopCounts> = Vec::new();
        for ((filter, ..), owner) in &mut self.owners {
            let branch = self.map.filters.get(filter).and_then(|record| record.branch.as_ref());
            let level = usize::from(branch.map_or(0, |branch| branch.level));
            levels.resize(levels.len().max(level + 1), HopCounts::default());
            let hops = owner.state(STATE_BYTES).hops;
            levels[level].tests += hops.tests;
            levels[level].sets += hops.sets;
        }
        levels
    }

    /// The same as [`Self::ask`], for the filter itself.
    pub(crate) fn ask_filter(&mut self, digests: &[Digest], operation: Operation) -> Result<Vec<Decision>, EvalError> {
        self.ask(ROOT, digests, operation)
    }

    fn ask_batch(
        &mut self,
        place: FilterId,
        digests: &[Digest],
        operation: Operation,
    ) -> Result<Vec<(Decision, Seen)>, EvalError> {
        let unknown = || EvalError::Answer { experiment: self.experiment, answer: format!("no filter {place}") };
        let record = self.map.filters.get(&place).ok_or_else(unknown)?;
        let (prober, heads) = (self.probers.get(&place).ok_or_else(unknown)?, Heads::new(&self.map, record));
        let mut by_head: BTreeMap<(u32, NodeId), (Probes, Vec<usize>)> = BTreeMap::new();
        for (index, digest) in digests.iter().enumerate() {
            let (group, mut probe) = (prober.group(*digest), Probes::new(prober.shape()));
            prober.push(*digest, &mut probe);
            let head = heads.of(prober, group, &probe, 0).ok_or_else(unknown)?;
            let (probes, indices) =
                by_head.entry((group, head)).or_insert_with(|| (Probes::new(prober.shape()), Vec::new()));
            prober.push(*digest, probes);
            indices.push(index);
        }
        let mut asked = Vec::new();
        for ((group, head), (probes, indices)) in by_head {
            asked.push((self.submit((place, group, head), probes, operation), indices));
        }
        self.deliver_all();
        let mut verdicts = vec![(Decision::Undecided(Reason::Unknown), Seen::default()); digests.len()];
        for (number, indices) in asked {
            let Some(GroupReply { decisions, seen, .. }) = self.replies.remove(&number) else { continue };
            let seen = seen.into_iter().chain(std::iter::repeat(Seen::default()));
            let verdicts_here = decisions.into_iter().zip(seen);
            indices.into_iter().zip(verdicts_here).for_each(|(index, here)| verdicts[index] = here);
        }
        match verdicts.iter().find(|(decision, _)| !matches!(decision, Decision::FirstSeen | Decision::Duplicate)) {
            Some((other, _)) => Err(EvalError::Answer { experiment: self.experiment, answer: format!("{other:?}") }),
            None => Ok(verdicts),
        }
    }

    /// Sends a submission, and returns its number.
    fn submit(&mut self, seat: Seat, probes: Probes, operation: Operation) -> u64 {
        self.asked += 1;
        let submission = Submission {
            fences: Vec::new(),
            reply_to: self.asked,
            operation,
            producer: 1,
            sequence: self.asked,
            names: Vec::new(),
            from: None,
            probes,
            times: Times::default(),
            deadline_ms: MonotonicMs::END,
            again: false,
            traceparent: None,
        };
        self.hand_in(seat, submission);
        self.asked
    }

    fn hand_in(&mut self, seat: Seat, submission: Submission) {
        let now = self.now;
        self.command(seat, |owner| owner.submit(submission, now));
    }

    fn command(&mut self, seat: Seat, run: impl FnOnce(&mut GroupOwner)) {
        let mut commands = Vec::new();
        if let Some(owner) = self.owners.get_mut(&seat) {
            run(owner);
            owner.take_commands(&mut commands);
        }
        for command in commands {
            match command {
                Command::Send { to, message } => {
                    self.on_the_way.push_back(Parcel::Peer { from: seat.2, to, message });
                }
                Command::Climb(climb) => self.on_the_way.push_back(Parcel::Climb { from: seat, climb }),
                Command::Reply(reply) => match self.climbs.remove(&reply.reply_to) {
                    Some((to, number)) => {
                        let GroupReply { decisions, seen, degraded, .. } = reply;
                        let climbed = Climbed { number, decisions, seen, degraded };
                        self.on_the_way.push_back(Parcel::Climbed { to, climbed });
                    }
                    None => {
                        self.replies.insert(reply.reply_to, reply);
                    }
                },
                // The reply has early duplicates too; no generation is opened, and no slice becomes complete again.
                Command::EarlyDuplicates(_) | Command::OpenGeneration { .. } | Command::SlicesComplete { .. } => {}
                Command::Persist(_) => {}
            }
        }
    }

    fn deliver_all(&mut self) {
        while let Some(parcel) = self.on_the_way.pop_front() {
            let now = self.now;
            match parcel {
                Parcel::Peer { from, to, message } => {
                    let seat = (message.filter, message.group, to);
                    self.command(seat, |owner| owner.receive(from, message, now));
                }
                Parcel::Climb { from, climb } => self.arrive(from, climb),
                Parcel::Climbed { to, climbed } => {
                    self.command(to, |owner| owner.climbed(&climbed, now));
                }
            }
        }
    }

    /// A climb comes to the one node of another level, which takes it as a submission.
    fn arrive(&mut self, origin: Seat, climb: Climb) {
        let head = self.map.filters.get(&climb.to).and_then(|record| record.owners.first());
        let Some(head) = head.map(|owner| owner.node) else { return };
        self.asked += 1;
        self.climbs.insert(self.asked, (origin, climb.number));
        let submission = Submission {
            fences: Vec::new(),
            reply_to: self.asked,
            operation: climb.operation,
            producer: u128::from(origin.0.0) << 1,
            sequence: self.asked,
            names: Vec::new(),
            from: Some(climb.from),
            probes: climb.probes,
            times: climb.times,
            deadline_ms: climb.deadline_ms,
            again: climb.again,
            traceparent: climb.traceparent,
        };
        self.hand_in((climb.to, climb.group, head), submission);
    }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSecret, Kind, Window};
    use firstseen_routing::{Answer, CutOff, PlaceSpec, SlicedFilter, Thresholds, TreeMode, WhenLost};

    use super::*;
    use crate::measure::shaped;

    const EVENTS: u64 = 2_000;

    fn digests(from: u64) -> Vec<Digest> {
        (from..from + EVENTS).map(|key| FilterSecret::from_seed(3).digest(&key.to_le_bytes())).collect()
    }

    fn definition(slicing: &str) -> SlicedDefinition {
        let spec = shaped(Kind::Bloom, Window::Unbounded, 5 * EVENTS, 4);
        SlicedDefinition::new(&spec, slicing.parse().unwrap()).unwrap()
    }

    #[test]
    fn nodes_decide_as_the_filter_in_one_piece() {
        for slicing in ["horizontal:6", "vertical:6", "horizontal-vertical:2x3", "vertical-horizontal:3x2"] {
            let definition = definition(slicing);
            let mut nodes = Nodes::of_slices("none", &definition, FilterPolicies::default()).unwrap();
            let mut whole = SlicedFilter::build(&definition).unwrap();
            for from in [0, EVENTS / 2, 2 * EVENTS] {
                let digests = digests(from);
                let mut answers = vec![Answer::Undecided; digests.len()];
                whole.observe_batch(&digests, &[], &mut answers);
                for (digest, answer) in digests.into_iter().zip(answers) {
                    // One event at a time: events that are in flight at once may be decided in any order.
                    let verdicts = nodes.ask_filter(&[digest], Operation::Observe).unwrap();
                    assert_eq!(verdicts[0] == Decision::FirstSeen, answer == Answer::FirstSeen, "{slicing}");
                }
            }
        }
    }

    #[test]
    fn events_that_all_nodes_have_lost_get_the_verdict_of_the_policy() {
        for slicing in ["horizontal:4", "vertical:4"] {
            for (when_lost, verdict) in
                [(WhenLost::Duplicate, Decision::Duplicate), (WhenLost::FirstSeen, Decision::FirstSeen)]
            {
                let thresholds = Thresholds { min_live: 1, set_min: 0 };
                let policies = FilterPolicies { when_lost, thresholds, ..FilterPolicies::default() };
                let mut nodes = Nodes::of_slices("none", &definition(slicing), policies).unwrap();
                nodes.ask_filter(&digests(0), Operation::Observe).unwrap();
                nodes.lose(0..4).unwrap();
                let after = nodes.ask_filter(&digests(0), Operation::Lookup).unwrap();
                assert!(after.iter().all(|decision| *decision == verdict), "{slicing}, {when_lost:?}");
            }
        }
    }

    #[test]
    fn levels_decide_as_one_filter_and_name_the_level_that_found() {
        let place = |name: &str, parent: Option<&str>| PlaceSpec {
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            fold: 0,
            slicing: None,
            sites: vec![if parent.is_none() { "a" } else { name }.to_owned()],
        };
        for mode in [TreeMode::Dense, TreeMode::Sparse] {
            let places = vec![place("root", None), place("a", Some("root")), place("b", Some("root"))];
            let tree = TreeSpec { mode, cut_off: CutOff::Undecided, top_down: 0, places };
            let (mut nodes, filters) = Nodes::of_tree("none", &definition("none"), &tree).unwrap();
            let mut one = SlicedFilter::build(&definition("none")).unwrap();
            let mut found = [0, 0];
            for (turn, digest) in [digests(0), digests(EVENTS / 2)].concat().into_iter().enumerate() {
                let (decision, level) = nodes.observe(filters[1 + turn / 3 % 2], digest).unwrap();
                let mut answer = [Answer::Undecided];
                one.observe_batch(&[digest], &[], &mut answer);
                assert_eq!(decision, answer[0].into(), "{mode:?}, {turn}");
                found[usize::from(level)] += u64::from(decision == Decision::Duplicate);
            }
            let (hops, events) = (nodes.hops(), 2 * EVENTS);
            let delivered = events - found[0] - found[1];
            assert!(found[0] > 100 && found[1] > 100, "{mode:?}: {found:?}");
            assert_eq!([hops[0].tests, hops[1].tests], [events - found[1], events], "{mode:?}");
            let set_below = if mode == TreeMode::Dense { events - found[1] } else { delivered };
            assert_eq!([hops[0].sets, hops[1].sets], [delivered, set_below], "{mode:?}");
        }
    }
}
