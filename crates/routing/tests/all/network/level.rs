//! The first node of a level of a filter tree, without a network. Tests answer its queries to other levels themselves.

use firstseen_filter::{Probes, UnitNumber};
use firstseen_mesh::plain_submission;
use firstseen_routing::{
    ClusterMap, Command, Decision, FilterId, FilterRecord, FromLevel, GroupOwner, LevelQuery, LevelReply, Moment,
    MonotonicMs, Operation, OwnerLimits, Reason, Submission, Times,
};

use crate::common::digest;
use crate::network::tree::ROOT;

/// The leaf of a tree with one leaf.
pub(crate) const LEAF: FilterId = FilterId(ROOT.0 + 1);
pub(crate) const NOW: Moment = Moment { monotonic_ms: MonotonicMs(0), wall_ms: 1_790_000_000_000 };

/// The first node of a level.
pub(crate) struct Level {
    pub(crate) filter: FilterId,
    pub(crate) map: ClusterMap,
    pub(crate) owner: GroupOwner,
    /// Number of batches that producer 7 has submitted.
    pub(crate) submissions: u64,
}

impl Level {
    pub(crate) fn new(filter: FilterId, map: ClusterMap) -> Self {
        Self::with(filter, map, OwnerLimits::default())
    }

    pub(crate) fn with(filter: FilterId, map: ClusterMap, limits: OwnerLimits) -> Self {
        let node = map.filters[&filter].owners[0].node;
        let owner = GroupOwner::build(filter, &map, 0, node, limits).unwrap();
        Self { filter, map, owner, submissions: 0 }
    }

    /// Returns events that this node heads.
    pub(crate) fn events(&self) -> impl Iterator<Item = Probes> + use<> {
        let prober = self.map.prober(&self.map.filters[&self.filter]).unwrap();
        let probes = (0..).map(move |key| {
            let mut probes = Probes::new(prober.shape());
            prober.push(digest(key), &mut probes);
            (prober.head_slice(0, &probes, 0), probes)
        });
        probes.filter_map(|(slice, probes)| (slice == 0).then_some(probes))
    }

    pub(crate) fn submit(&mut self, probes: &Probes, from: Option<FromLevel>) -> Vec<Command> {
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

    pub(crate) fn follow(&mut self, change: impl FnOnce(&mut FilterRecord)) -> Vec<Command> {
        let record = self.map.filters.get_mut(&self.filter).unwrap();
        change(record);
        record.epoch.rise();
        self.follow_map()
    }

    /// Follows a map in which only other filters have changed.
    pub(crate) fn follow_map(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        self.owner.map_changed(&self.map, NOW);
        self.owner.take_commands(&mut commands);
        commands
    }

    pub(crate) fn answer(&mut self, climb: &LevelQuery, decision: Decision) -> Vec<Command> {
        self.climbed(LevelReply { number: climb.number, decisions: vec![decision], ..LevelReply::default() })
    }

    /// Answers all events of a query in the same way.
    pub(crate) fn answer_all(&mut self, climb: &LevelQuery, decision: Decision) -> Vec<Command> {
        let decisions = vec![decision; climb.probes.len()];
        self.climbed(LevelReply { number: climb.number, decisions, ..LevelReply::default() })
    }

    /// Ends a query because the other level became unreachable after the query was sent.
    pub(crate) fn lose(&mut self, climb: &LevelQuery) -> Vec<Command> {
        self.climbed(climb.unreachable(Reason::Unknown))
    }

    fn climbed(&mut self, climbed: LevelReply) -> Vec<Command> {
        let mut commands = Vec::new();
        self.owner.climbed(&climbed, NOW);
        self.owner.take_commands(&mut commands);
        commands
    }
}

/// Returns the query to another level among these commands.
pub(crate) fn climb(commands: Vec<Command>) -> LevelQuery {
    commands
        .into_iter()
        .find_map(|command| if let Command::LevelQuery(climb) = command { Some(climb) } else { None })
        .unwrap()
}

/// Returns the first decision in the replies among these commands.
pub(crate) fn decided(commands: Vec<Command>) -> Option<Decision> {
    commands.into_iter().find_map(|command| match command {
        Command::Reply(reply) => Some(reply.answers.decisions()[0]),
        _ => None,
    })
}
