//! The levels of one tree in memory: their owners, a queue for each link, and climbs whose answers a test may lose.

mod restart;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use firstseen_filter::{Digest, Probes, WindowClock};
use firstseen_routing::{
    Branch, Climb, ClusterMap, Command, CutOff, Decision, FilterId, FilterPolicies, FilterRecord, GroupOwner,
    GroupReply, Incarnation, Moment, MonotonicMs, NodeId, NodeRecord, Operation, OwnerLimits, PeerMessage, PlaceSpec,
    Prober, Reason, Seen, SliceOwner, SlicedDefinition, Submission, Tick, Times, TreeMode, TreeSpec,
};
use firstseen_routing::{Climbed, OwedCounts};

use crate::common::{Dice, filter_record, node_record};

pub(crate) const ROOT: FilterId = FilterId(1);

/// A group on a node.
type Key = (FilterId, u32, NodeId);

/// A message in flight.
#[derive(Clone, Debug)]
enum Way {
    Peer {
        from: NodeId,
        to: NodeId,
        message: PeerMessage,
    },
    Climb {
        from: Key,
        climb: Climb,
    },
    /// A part of a climb that is sent again.
    Again {
        from: Key,
        to: Key,
        submission: Submission,
    },
    Climbed {
        to: Key,
        climbed: Climbed,
    },
}

/// A part of a climb, which one head of the level above answers.
struct Part {
    origin: Key,
    number: u64,
    /// The indices of its events in the climb.
    indices: Vec<usize>,
    head: Key,
    submission: Submission,
}

impl Part {
    /// The part once more, marked as possibly recorded.
    fn again(&mut self) -> Way {
        self.submission.again = true;
        Way::Again { from: self.origin, to: self.head, submission: self.submission.clone() }
    }
}

/// A climb, and the answers so far.
struct Open {
    climbed: Climbed,
    parts: usize,
    deadline_ms: MonotonicMs,
}

pub(crate) struct Forest {
    pub(crate) map: ClusterMap,
    owners: BTreeMap<Key, GroupOwner>,
    /// The messages in flight. Each link delivers in order; climbs and their answers have links of their own.
    ways: BTreeMap<(u64, u64, u8), VecDeque<Way>>,
    /// The replies to producers.
    pub(crate) replies: Vec<GroupReply>,
    /// Early duplicates, by the number of their reply.
    found: BTreeMap<u64, Vec<u32>>,
    parts: BTreeMap<u64, Part>,
    open: BTreeMap<(Key, u64), Open>,
    next_part: u64,
    /// So many of a hundred answers to parts of climbs are lost, and the part is sent again.
    pub(crate) lost_percent: u64,
    /// Whether a climb whose level starts anew is sent again, instead of ending as unknown.
    pub(crate) tries_again: bool,
    pub(crate) now: Moment,
    /// Levels that are cut off from those above.
    pub(crate) cut_off: BTreeSet<FilterId>,
    pub(crate) dice: Dice,
}

/// A tree over `places` of (parent, fold), the first of which is the root. Every leaf is at a site of its own.
pub(crate) fn spec(mode: TreeMode, places: &[(usize, u8)], slicings: &[&str]) -> TreeSpec {
    let name = |place: usize| format!("place-{place}");
    let is_leaf = |place: usize| places.iter().skip(1).all(|(parent, _)| *parent != place);
    let leaf = (0..places.len()).find(|place| is_leaf(*place)).unwrap_or_default();
    let place = |(place, (parent, fold)): (usize, &(usize, u8))| PlaceSpec {
        name: name(place),
        parent: (place > 0).then(|| name(*parent)),
        fold: *fold,
        slicing: (place > 0).then(|| slicings[place % slicings.len()].parse().unwrap()),
        sites: vec![name(if is_leaf(place) { place } else { leaf })],
    };
    TreeSpec { mode, cut_off: CutOff::Undecided, top_down: 0, places: places.iter().enumerate().map(place).collect() }
}

impl Forest {
    pub(crate) fn new(tree: &TreeSpec, definition: &SlicedDefinition, policies: FilterPolicies, dice: Dice) -> Self {
        let sites = tree.places.iter().flat_map(|place| &place.sites).map(String::as_str).collect();
        let places = tree.plan(definition, &sites).unwrap();
        let mut map = ClusterMap { version: 1, ..ClusterMap::default() };
        let mut next_node = 1;
        for (index, place) in places.iter().enumerate() {
            let slices = place.definition.slicing.slices();
            let nodes: Vec<NodeId> = (0..slices.min(3)).map(|node| NodeId(next_node + u64::from(node))).collect();
            next_node += nodes.len() as u64;
            for node in &nodes {
                let (site, memory_bytes) = (place.name.clone(), u64::MAX);
                let incarnation = Incarnation::default();
                let record = NodeRecord { site, memory_bytes, incarnation, ..node_record(*node) };
                map.nodes.insert(*node, record);
            }
            let owner = |slice: u32| SliceOwner {
                node: nodes[slice as usize % nodes.len()],
                complete_since: Incarnation(0),
                ..SliceOwner::default()
            };
            let branch = Branch {
                root: ROOT,
                parent: place.parent.map(|parent| FilterId(1 + parent as u64)),
                level: place.level,
                fold: place.fold,
                place: place.name.clone(),
                mode: tree.mode,
                top_down: tree.top_down,
                cut_off: tree.cut_off,
            };
            let record = filter_record(&place.definition, policies, (0..slices).map(owner).collect());
            let record = FilterRecord { name: place.name.clone(), branch: Some(branch), ..record };
            map.filters.insert(FilterId(1 + index as u64), record);
        }
        let mut forest = Self {
            owners: BTreeMap::new(),
            ways: BTreeMap::new(),
            replies: Vec::new(),
            found: BTreeMap::new(),
            parts: BTreeMap::new(),
            open: BTreeMap::new(),
            next_part: 1 << 40,
            lost_percent: 0,
            tries_again: false,
            now: Moment { monotonic_ms: MonotonicMs(1000), wall_ms: 1_790_000_000_000 },
            cut_off: BTreeSet::new(),
            dice,
            map,
        };
        let filters: Vec<FilterId> = forest.map.filters.keys().copied().collect();
        filters.into_iter().for_each(|filter| forest.start(filter, &forest.nodes(filter)));
        forest
    }

    /// Answers a climb with what is known of it.
    fn give_up(&mut self, (origin, number): (Key, u64)) {
        let Some(open) = self.open.remove(&(origin, number)) else { return };
        self.parts.retain(|_, part| (part.origin, part.number) != (origin, number));
        self.push(Way::Climbed { to: origin, climbed: open.climbed });
    }

    /// Time passes: climbs that nothing waits for any longer are given up.
    pub(crate) fn pass(&mut self, passed_ms: u64) {
        self.now.monotonic_ms = self.now.monotonic_ms.after(passed_ms);
        self.now.wall_ms += passed_ms;
        let now = self.now;
        let late = self.open.iter().filter(|(_, open)| open.deadline_ms <= now.monotonic_ms);
        let late: Vec<(Key, u64)> = late.map(|(asked, _)| *asked).collect();
        late.into_iter().for_each(|asked| self.give_up(asked));
        let owners: Vec<Key> = self.owners.keys().copied().collect();
        owners.into_iter().for_each(|key| self.command(key, |owner| owner.tick(now)));
    }

    /// The nodes that own slices of a level.
    pub(crate) fn nodes(&self, filter: FilterId) -> BTreeSet<NodeId> {
        self.map.filters[&filter].owners.iter().map(|owner| owner.node).collect()
    }

    fn start(&mut self, filter: FilterId, nodes: &BTreeSet<NodeId>) {
        for group in 0..self.map.filters[&filter].definition.slicing.groups() {
            for node in nodes {
                if let Ok(owner) = GroupOwner::build(filter, &self.map, group, *node, OwnerLimits::default()) {
                    self.owners.insert((filter, group, *node), owner);
                }
            }
        }
    }

    pub(crate) fn leaves(&self) -> Vec<FilterId> {
        let parents: BTreeSet<FilterId> =
            self.map.filters.values().filter_map(|filter| filter.branch.as_ref()?.parent).collect();
        self.map.filters.keys().copied().filter(|filter| !parents.contains(filter)).collect()
    }

    /// The levels above one, the nearest first.
    pub(crate) fn ancestors(&self, filter: FilterId) -> Vec<FilterId> {
        let parent = |filter: &FilterId| self.map.filters[filter].branch.as_ref()?.parent;
        std::iter::successors(parent(&filter), parent).collect()
    }

    pub(crate) fn level(&self, filter: FilterId) -> u8 {
        self.map.filters[&filter].branch.as_ref().unwrap().level
    }

    fn prober(&self, filter: FilterId) -> Prober {
        self.map.prober(&self.map.filters[&filter]).unwrap()
    }

    fn head(&self, filter: FilterId, prober: &Prober, group: u32, probes: &Probes, event: usize) -> Key {
        let slice = prober.head_slice(group, probes, event);
        (filter, group, self.map.filters[&filter].owners[slice as usize].node)
    }

    /// Submits one event at a level.
    pub(crate) fn submit(&mut self, filter: FilterId, digest: Digest, question: Question) {
        let prober = self.prober(filter);
        let group = prober.group(digest);
        let mut probes = Probes::new(prober.shape());
        prober.push(digest, &mut probes);
        let key = self.head(filter, &prober, group, &probes, 0);
        let submission = Submission {
            fences: Vec::new(),
            reply_to: question.number,
            operation: if question.records { Operation::Observe } else { Operation::Lookup },
            producer: question.producer,
            sequence: question.number,
            names: Vec::new(),
            probes,
            times: question.times,
            deadline_ms: question.deadline_ms,
            from: None,
            again: question.again,
            traceparent: None,
        };
        let now = self.now;
        self.command(key, |owner| owner.submit(submission, now));
    }

    fn command(&mut self, key: Key, run: impl FnOnce(&mut GroupOwner)) {
        let mut commands = Vec::new();
        let Some(owner) = self.owners.get_mut(&key) else { return };
        run(owner);
        owner.take_commands(&mut commands);
        for command in commands {
            match command {
                Command::Reply(reply) if self.parts.contains_key(&reply.reply_to) => self.part_answered(reply),
                Command::Reply(reply) => {
                    let is_duplicate = |event: &u32| reply.decisions[*event as usize] == Decision::Duplicate;
                    let found = self.found.remove(&reply.reply_to).unwrap_or_default();
                    assert!(found.iter().all(is_duplicate), "{found:?} came ahead of {:?}", reply.decisions);
                    self.replies.push(reply);
                }
                Command::EarlyDuplicates(found) => {
                    assert!(!self.parts.contains_key(&found.reply_to), "a level gets duplicates ahead of its answer");
                    let before = self.found.insert(found.reply_to, found.events);
                    assert_eq!(before, None, "two early messages ahead of one reply");
                }
                Command::Send { to, message } => self.push(Way::Peer { from: key.2, to, message }),
                Command::Climb(climb) => self.push(Way::Climb { from: key, climb }),
                Command::OpenGeneration { .. } | Command::SlicesComplete { .. } => {}
                Command::Persist(record) => panic!("no journal: {record:?}"),
            }
        }
    }

    fn push(&mut self, way: Way) {
        let link = match &way {
            Way::Peer { from, to, .. } => (from.0, to.0, 0),
            Way::Climb { from, .. } | Way::Again { from, .. } => (from.0.0, from.2.0, 1),
            Way::Climbed { to, .. } => (to.0.0, to.2.0, 2),
        };
        self.ways.entry(link).or_default().push_back(way);
    }

    fn part_answered(&mut self, reply: GroupReply) {
        let Some(mut part) = self.parts.remove(&reply.reply_to) else { return };
        if self.dice.below(100) < self.lost_percent {
            let way = part.again();
            self.push(way);
            self.parts.insert(reply.reply_to, part);
            return;
        }
        let Part { origin, number, indices, submission, .. } = part;
        let Some(open) = self.open.get_mut(&(origin, number)) else { return };
        open.climbed.degraded |= reply.degraded;
        for (of_part, index) in indices.into_iter().enumerate() {
            open.climbed.decisions[index] = match reply.decisions[of_part] {
                Decision::Undecided(_) if submission.again => Decision::Undecided(Reason::Unknown),
                decision => decision,
            };
            open.climbed.seen[index] = reply.seen.get(of_part).copied().unwrap_or_default();
        }
        open.parts -= 1;
        if open.parts == 0 {
            let Some(Open { climbed, .. }) = self.open.remove(&(origin, number)) else { return };
            self.push(Way::Climbed { to: origin, climbed });
        }
    }

    /// Delivers one message that the dice pick; `false` where nothing is in flight.
    pub(crate) fn deliver(&mut self) -> bool {
        let busy: Vec<(u64, u64, u8)> = self.ways.keys().copied().collect();
        if busy.is_empty() {
            return false;
        }
        let link = busy[self.dice.below(busy.len() as u64) as usize];
        let Some(way) = self.ways.get_mut(&link).and_then(VecDeque::pop_front) else { return false };
        self.ways.retain(|_, ways| !ways.is_empty());
        let now = self.now;
        match way {
            Way::Peer { from, to, message } => {
                let key = (message.filter, message.group, to);
                self.command(key, |owner| owner.receive(from, message, now));
            }
            Way::Climb { from, climb } => self.arrive(from, climb),
            Way::Again { to, submission, .. } if self.parts.contains_key(&submission.reply_to) => {
                self.command(to, |owner| owner.submit(submission, now));
            }
            Way::Again { .. } => {}
            Way::Climbed { to, climbed } => {
                self.command(to, |owner| owner.climbed(&climbed, now));
            }
        }
        true
    }

    /// A climb arrives at the heads of the level above.
    fn arrive(&mut self, origin: Key, climb: Climb) {
        if self.cut_off.contains(&climb.from.filter) {
            let decisions = vec![Decision::Undecided(Reason::SlicesDown); climb.probes.len()];
            let climbed = Climbed { number: climb.number, decisions, ..Climbed::default() };
            return self.push(Way::Climbed { to: origin, climbed });
        }
        let prober = self.prober(climb.to);
        let mut by_head: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        for event in 0..climb.probes.len() {
            by_head.entry(self.head(climb.to, &prober, climb.group, &climb.probes, event)).or_default().push(event);
        }
        let events = climb.probes.len();
        let climbed = Climbed {
            number: climb.number,
            decisions: vec![Decision::Undecided(Reason::Unknown); events],
            seen: vec![Seen::default(); events],
            degraded: false,
        };
        let open = Open { climbed, parts: by_head.len(), deadline_ms: climb.deadline_ms };
        self.open.insert((origin, climb.number), open);
        for (key, indices) in by_head {
            let mut probes = Probes::new(climb.probes.shape());
            indices.iter().for_each(|event| probes.push_positions(climb.probes.positions(*event)).unwrap());
            self.next_part += 1;
            let submission = Submission {
                fences: Vec::new(),
                reply_to: self.next_part,
                operation: climb.operation,
                producer: u128::from(origin.2.0) << 64 | u128::from(origin.0.0) << 8 | 1,
                sequence: self.next_part,
                names: Vec::new(),
                probes,
                times: Times {
                    ticks: indices.iter().map(|event| climb.times.ticks[*event]).collect(),
                    ..climb.times.clone()
                },
                deadline_ms: climb.deadline_ms,
                from: Some(climb.from),
                again: climb.again,
                traceparent: None,
            };
            let part = Part { origin, number: climb.number, indices, head: key, submission: submission.clone() };
            self.parts.insert(self.next_part, part);
            let now = self.now;
            self.command(key, |owner| owner.submit(submission, now));
        }
    }

    pub(crate) fn wait(&mut self, ms: u64) {
        self.now = Moment { monotonic_ms: self.now.monotonic_ms.after(ms), wall_ms: self.now.wall_ms + ms };
        let keys: Vec<Key> = self.owners.keys().copied().collect();
        for key in keys {
            let now = self.now;
            self.command(key, |owner| owner.tick(now));
        }
    }

    /// The verdicts that all groups of a level gave without the level above.
    pub(crate) fn owed(&mut self, filter: FilterId) -> OwedCounts {
        let of_level = self.owners.iter_mut().filter(|((of, ..), _)| *of == filter);
        of_level.map(|(_, owner)| owner.state(usize::MAX).owed).fold(OwedCounts::default(), |sum, counts| OwedCounts {
            waiting_events: sum.waiting_events + counts.waiting_events,
            local_events: sum.local_events + counts.local_events,
            double_deliveries: sum.double_deliveries + counts.double_deliveries,
            lost_events: sum.lost_events + counts.lost_events,
        })
    }

    pub(crate) fn settle(&mut self) {
        while self.deliver() {}
    }

    /// Events that were tested at each level so far, from the root on.
    pub(crate) fn accesses(&mut self) -> Vec<u64> {
        let mut accesses = Vec::new();
        for ((filter, ..), owner) in &mut self.owners {
            let level = usize::from(self.map.filters[filter].branch.as_ref().unwrap().level);
            accesses.resize(accesses.len().max(level + 1), 0);
            accesses[level] += owner.state(usize::MAX).hops.tests;
        }
        accesses
    }

    pub(crate) fn inflight(&self) -> u64 {
        self.owners.values().map(GroupOwner::inflight_events).sum()
    }
}

/// A submission of an event, or a lookup.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) number: u64,
    pub(crate) producer: u128,
    pub(crate) records: bool,
    pub(crate) times: Times,
    pub(crate) deadline_ms: MonotonicMs,
    pub(crate) again: bool,
}

/// Producers that share a clock.
pub(crate) struct Producers {
    clock: WindowClock,
    next: u64,
}

impl Producers {
    pub(crate) fn new(definition: &SlicedDefinition) -> Self {
        let group = &definition.group;
        Self { clock: WindowClock::new(group.unit.clone(), group.rule, group.future_max_ms), next: 0 }
    }

    /// The next question, at a time.
    pub(crate) fn ask(&mut self, time_ms: u64, records: bool) -> Option<Question> {
        let base_unit = self.clock.now_unit();
        let tick = if records { self.clock.place_tick(Some(time_ms)) } else { self.clock.look_up_tick(Some(time_ms)) };
        let (clock_unit, unit) = tick?;
        let times =
            Times { base_unit, ticks: vec![Tick { clock_unit, unit }], clock_ms: self.clock.now_ms().unwrap_or(0) };
        self.next += 1;
        Some(Question { number: self.next, producer: 7, records, times, deadline_ms: MonotonicMs::END, again: false })
    }

    /// Sends one event alone, and waits until nothing is in flight.
    pub(crate) fn ask_alone(
        &mut self,
        forest: &mut Forest,
        leaf: FilterId,
        digest: Digest,
        time_ms: u64,
        records: bool,
    ) -> (Decision, Seen) {
        let Some(question) = self.ask(time_ms, records) else {
            return (Decision::Undecided(Reason::Future), Seen::default());
        };
        forest.replies.clear();
        forest.submit(leaf, digest, question);
        forest.settle();
        assert_eq!((forest.replies.len(), forest.inflight()), (1, 0), "one reply, and nothing stays");
        (forest.replies[0].decisions[0], forest.replies[0].seen.first().copied().unwrap_or_default())
    }
}
