//! Levels of a filter tree whose slices move while events are at other levels.

use crate::common::{definition, digest, spec as filter};
use crate::network::tree::{ROOT, spec};
use firstseen_filter::{Kind, Probes, UnitNumber};
use firstseen_mesh::{plain_submission, tree_map};
use firstseen_routing::{
    ClusterMap, Command, CutOff, Decision, FilterId, FilterPolicies, FilterRecord, FromLevel, GroupOwner, Incarnation,
    LevelQuery, LevelReply, Moment, MonotonicMs, Operation, OwnerLimits, Reason, Submission, Times, TreeMode, TreeSpec,
};

const LEAF: FilterId = FilterId(ROOT.0 + 1);
const NOW: Moment = Moment { monotonic_ms: MonotonicMs(0), wall_ms: 1_790_000_000_000 };

/// The first node of a level.
struct Level {
    filter: FilterId,
    map: ClusterMap,
    owner: GroupOwner,
    submissions: u64,
}

impl Level {
    fn new(filter: FilterId, map: ClusterMap) -> Self {
        let node = map.filters[&filter].owners[0].node;
        let owner = GroupOwner::build(filter, &map, 0, node, OwnerLimits::default()).unwrap();
        Self { filter, map, owner, submissions: 0 }
    }

    /// Returns events that this node heads.
    fn events(&self) -> impl Iterator<Item = Probes> + use<> {
        let prober = self.map.prober(&self.map.filters[&self.filter]).unwrap();
        let probes = (0..).map(move |key| {
            let mut probes = Probes::new(prober.shape());
            prober.push(digest(key), &mut probes);
            (prober.head_slice(0, &probes, 0), probes)
        });
        probes.filter_map(|(slice, probes)| (slice == 0).then_some(probes))
    }

    fn submit(&mut self, probes: &Probes, from: Option<FromLevel>) -> Vec<Command> {
        self.submissions += 1;
        let submission = Submission {
            producer: 7,
            times: Times { base_unit: UnitNumber(1_000_000), ..Times::default() },
            deadline_ms: MonotonicMs(1_000),
            from,
            ..plain_submission(self.submissions, Operation::Observe, probes.clone())
        };
        let mut commands = Vec::new();
        self.owner.submit(submission, NOW);
        self.owner.take_commands(&mut commands);
        commands
    }

    fn follow(&mut self, change: impl FnOnce(&mut FilterRecord)) -> Vec<Command> {
        let record = self.map.filters.get_mut(&self.filter).unwrap();
        change(record);
        record.epoch.rise();
        let mut commands = Vec::new();
        self.owner.map_changed(&self.map, NOW);
        self.owner.take_commands(&mut commands);
        commands
    }

    fn answer(&mut self, climb: &LevelQuery, decision: Decision) -> Vec<Command> {
        self.climbed(LevelReply { number: climb.number, decisions: vec![decision], ..LevelReply::default() })
    }

    /// Ends a query because the other level became unreachable after the query was sent.
    fn lose(&mut self, climb: &LevelQuery) -> Vec<Command> {
        self.climbed(climb.unreachable(Reason::Unknown))
    }

    fn climbed(&mut self, climbed: LevelReply) -> Vec<Command> {
        let mut commands = Vec::new();
        self.owner.climbed(&climbed, NOW);
        self.owner.take_commands(&mut commands);
        commands
    }
}

fn climb(commands: Vec<Command>) -> LevelQuery {
    commands
        .into_iter()
        .find_map(|command| if let Command::LevelQuery(climb) = command { Some(climb) } else { None })
        .unwrap()
}

fn decided(commands: Vec<Command>) -> Option<Decision> {
    commands.into_iter().find_map(|command| match command {
        Command::Reply(reply) => Some(reply.answers.decisions()[0]),
        _ => None,
    })
}

fn levels(tree: &TreeSpec, slicing: &str) -> ClusterMap {
    let definition = definition(&filter(Kind::Timing, "1h", 1 << 16, 5), slicing);
    tree_map(tree, &definition, FilterPolicies::default()).unwrap()
}

fn leaf(cut_off: CutOff) -> Level {
    let tree = TreeSpec { cut_off, ..spec(TreeMode::Dense, &[(0, 0), (0, 0)], &["vertical:2"]) };
    Level::new(LEAF, levels(&tree, "vertical:2"))
}

const UNKNOWN: Decision = Decision::Undecided(Reason::Unknown);

#[test]
fn a_former_head_decides_nothing_alone() {
    let mut leaf = leaf(CutOff::Local);
    let events: Vec<Probes> = leaf.events().take(2).collect();
    let question = climb(leaf.submit(&events[0], None));
    assert_eq!(decided(leaf.lose(&question)), Some(Decision::FirstSeen));
    assert_eq!(leaf.owner.owed_events(), 1);

    let question = climb(leaf.submit(&events[1], None));
    // Together with the slice, the other node gets the events that this node heads.
    let exchanged = leaf.follow(|record| record.owners.swap(0, 1));
    assert_eq!(decided(exchanged), None, "the level above may have recorded it");
    assert_eq!(decided(leaf.lose(&question)), Some(UNKNOWN), "the other node may have decided it alone");
    assert_eq!(leaf.owner.owed_events(), 1);
}

#[test]
fn a_former_head_wins_nothing_where_the_present_one_may_decide_alone() {
    for (cut_off, wins) in [(CutOff::Local, UNKNOWN), (CutOff::Undecided, Decision::FirstSeen)] {
        let mut leaf = leaf(cut_off);
        let event = leaf.events().next().unwrap();
        let question = climb(leaf.submit(&event, None));
        leaf.follow(|record| record.owners.swap(0, 1));
        assert_eq!(decided(leaf.answer(&question, Decision::FirstSeen)), Some(wins), "{cut_off:?}");
    }
}

/// Another node of the leaf may have recorded an event while this node was away.
#[test]
fn a_leaf_decides_nothing_alone_by_a_slice_that_has_lost_something() {
    let mut leaf = leaf(CutOff::Local);
    let events: Vec<Probes> = leaf.events().take(2).collect();
    let complete_since = leaf.map.filters[&LEAF].owners[0].complete_since;
    leaf.follow(|record| record.owners[0].complete_since = Incarnation(complete_since.0 + 9));
    let question = climb(leaf.submit(&events[0], None));
    assert_eq!(decided(leaf.lose(&question)), Some(UNKNOWN));

    // The slice is complete again and contains the events recorded meanwhile, but the empty cell was found before that.
    let question = climb(leaf.submit(&events[0], None));
    leaf.follow(|record| record.owners[0].complete_since = complete_since);
    assert_eq!(decided(leaf.lose(&question)), Some(UNKNOWN));

    let question = climb(leaf.submit(&events[1], None));
    assert_eq!(decided(leaf.lose(&question)), Some(Decision::FirstSeen));
}

#[test]
fn what_the_levels_below_say_means_nothing_by_another_map() {
    let tree = TreeSpec { top_down: 1, ..spec(TreeMode::Dense, &[(0, 0), (0, 0), (0, 0)], &["none"]) };
    let mut root = Level::new(ROOT, levels(&tree, "none"));
    let event = root.events().next().unwrap();
    let from = Some(FromLevel { filter: LEAF, complete: true });
    assert_eq!(decided(root.submit(&event, from)), Some(Decision::FirstSeen));
    let question = climb(root.submit(&event, from));
    assert_eq!(question.operation, Operation::Verify);
    assert_eq!(
        decided(root.follow(|_| {})),
        Some(Decision::Undecided(Reason::StaleMap)),
        "a retry asks the present head"
    );
    // No lower level knows the event, so it would be recorded as a new event.
    assert_eq!(decided(root.answer(&question, Decision::FirstSeen)), None);
    assert_eq!(root.owner.inflight_events(), 0);
}
