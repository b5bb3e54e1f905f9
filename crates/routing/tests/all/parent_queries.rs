//! Tests how often a level of a filter tree queries its parent level. The level may have only a few queries in flight
//! at once. While it waits for replies, it must collect the events that it does not know, and send them together in the
//! next query.

use std::collections::VecDeque;

use crate::common::{definition, digest, spec as filter};
use crate::network::tree::{ROOT, spec};
use firstseen_filter::{Kind, Probes, UnitNumber};
use firstseen_mesh::{plain_submission, tree_map};
use firstseen_routing::LevelReply;
use firstseen_routing::{
    Command, Decision, EarlyDuplicates, FilterId, FilterPolicies, GroupOwner, GroupReply, LevelQuery, Moment,
    MonotonicMs, Operation, OwnerLimits, Prober, Seen, Submission, Times, TreeMode,
};

/// Maximum number of queries that a group has in flight, and of events in one query.
const PIPELINE_DEPTH: u64 = 32;
const CLIMB_EVENTS_MAX: u64 = 1 << 12;
const ROUND_TRIP_US: u64 = 50_000;

/// A leaf whose parent calls every event new and replies after one round trip.
struct Leaf {
    owner: GroupOwner,
    prober: Prober,
    now_us: u64,
    in_progress: VecDeque<(u64, LevelQuery)>,
    climbs: u64,
    events: u64,
    found: Vec<EarlyDuplicates>,
    replies: Vec<GroupReply>,
}

impl Leaf {
    fn new() -> Self {
        let definition = definition(&filter(Kind::Timing, "1h", 1 << 22, 5), "none");
        let tree = spec(TreeMode::Dense, &[(0, 0), (0, 1)], &["none"]);
        let map = tree_map(&tree, &definition, FilterPolicies::default()).unwrap();
        let leaf = FilterId(ROOT.0 + 1);
        let node = map.filters[&leaf].owners[0].node;
        Self {
            owner: GroupOwner::build(leaf, &map, 0, node, OwnerLimits::default()).unwrap(),
            prober: map.prober(&map.filters[&leaf]).unwrap(),
            now_us: 0,
            in_progress: VecDeque::new(),
            climbs: 0,
            events: 0,
            found: Vec::new(),
            replies: Vec::new(),
        }
    }

    fn now(&self) -> Moment {
        let monotonic_ms = self.now_us / 1000;
        Moment { monotonic_ms: MonotonicMs(monotonic_ms), wall_ms: 1_790_000_000_000 + monotonic_ms }
    }

    fn execute(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::LevelQuery(climb) => {
                    self.climbs += 1;
                    self.events += climb.probes.len() as u64;
                    self.in_progress.push_back((self.now_us + ROUND_TRIP_US, climb));
                }
                Command::EarlyDuplicates(early) => self.found.push(early),
                Command::Reply(reply) => self.replies.push(reply),
                other => panic!("{other:?}"),
            }
        }
        let is_full = |(_, climb): &&(u64, LevelQuery)| climb.probes.len() as u64 == CLIMB_EVENTS_MAX;
        let in_progress = self.in_progress.len() - self.in_progress.iter().filter(is_full).count();
        assert!(in_progress as u64 <= PIPELINE_DEPTH, "{in_progress} climbs under way that are not full");
    }

    /// Advances the time and delivers the parent's replies that are due by then.
    fn pass(&mut self, until_us: u64) {
        while let Some((at_us, climb)) = self.in_progress.pop_front_if(|(at_us, _)| *at_us <= until_us) {
            self.now_us = at_us;
            let events = climb.probes.len();
            let seen = climb.times.ticks.iter().map(|tick| Seen { unit: Some(tick.unit), level: 0 }).collect();
            let decisions = vec![Decision::FirstSeen; events];
            let climbed = LevelReply { number: climb.number, decisions, seen, ..LevelReply::default() };
            let (now, mut commands) = (self.now(), Vec::new());
            self.owner.climbed(&climbed, now);
            self.owner.take_commands(&mut commands);
            self.execute(commands);
        }
        self.now_us = until_us;
    }

    fn submit(&mut self, keys: std::ops::Range<u64>) {
        let mut probes = Probes::new(self.prober.shape());
        keys.clone().for_each(|key| self.prober.push(digest(key), &mut probes));
        let submission = Submission {
            producer: 7,
            times: Times { base_unit: UnitNumber(1_000_000), ..Times::default() },
            ..plain_submission(keys.start, Operation::Observe, probes)
        };
        let (now, mut commands) = (self.now(), Vec::new());
        self.owner.submit(submission, now);
        self.owner.take_commands(&mut commands);
        self.execute(commands);
    }
}

#[test]
fn climbs_are_at_most_those_of_the_pipeline_and_full_ones() {
    // Events per batch, number of batches, and microseconds between batches. The cases are a trickle, a stream that
    // fills the pipeline, and a flood.
    for (batch_events, batches, step_us) in [(1, 40, 20_000), (1, 20_000, 50), (64, 2_000, 500), (500, 200, 1_250)] {
        let mut leaf = Leaf::new();
        for batch in 0..batches {
            leaf.pass(batch * step_us);
            leaf.submit(batch * batch_events..(batch + 1) * batch_events);
        }
        leaf.pass(u64::MAX / 2);
        let (misses, duration_us) = (leaf.events, batches * step_us);
        let decisions = leaf.replies.iter().flat_map(|reply| reply.answers.decisions());
        let new = decisions.filter(|decision| **decision == Decision::FirstSeen).count() as u64;
        assert_eq!((misses, leaf.replies.len() as u64), (new, batches), "every miss climbs once");
        // The remaining events are false positives of the leaf.
        assert!(misses > batch_events * batches * 9 / 10, "only {misses} misses");
        assert_eq!(leaf.owner.inflight_events(), 0);
        let carried = PIPELINE_DEPTH * duration_us.div_ceil(ROUND_TRIP_US) + misses / CLIMB_EVENTS_MAX;
        // The bound consists of the queries in flight at the end, and of the events collected by then.
        let at_most = misses.min(carried + 2 * PIPELINE_DEPTH);
        println!(
            "{misses} misses in {} ms, {batch_events} a batch: {} climbs, at most {at_most}",
            duration_us / 1000,
            leaf.climbs
        );
        assert!(leaf.climbs <= at_most, "{} climbs", leaf.climbs);
    }
}

#[test]
fn events_that_the_leaf_knows_do_not_wait_for_events_that_climb() {
    let mut leaf = Leaf::new();
    leaf.submit(0..4);
    leaf.pass(ROUND_TRIP_US);
    assert_eq!((leaf.found.len(), leaf.replies.len()), (0, 1), "nothing of it was known");
    let begun_us = leaf.now_us;
    leaf.submit(2..7);
    let early: Vec<&[u32]> = leaf.found.iter().map(|found| &found.events[..]).collect();
    assert_eq!((early, leaf.found[0].reply_to), (vec![&[0, 1][..]], 2));
    assert_eq!((leaf.now_us, leaf.replies.len()), (begun_us, 1), "the others are on their way");
    leaf.pass(begun_us + ROUND_TRIP_US);
    let (duplicate, new) = (Decision::Duplicate, Decision::FirstSeen);
    assert_eq!(leaf.replies[1].answers.decisions(), [duplicate, duplicate, new, new, new]);
    leaf.submit(0..2);
    assert_eq!((leaf.found.len(), leaf.replies.len()), (1, 3), "a batch that is known as a whole is answered as one");
}
