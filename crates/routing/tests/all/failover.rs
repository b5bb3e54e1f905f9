//! Tests nodes that go down and come back, while cluster maps reach the other nodes at different times and messages
//! overtake the maps.

use std::collections::BTreeMap;

use crate::common::{TestRng, definition, digest, observation, spec};
use crate::network::{FILTER, Network};
use firstseen_filter::Kind;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{
    AnswerWhen, ClusterMap, Decision, FilterPolicies, Lookup, NodeId, OwnerLimits, Reason, Submission, SubmissionName,
    Thresholds,
};

const SEEDS: u64 = 1500;
const KEYS: u64 = 3;
const STEPS: u64 = 160;

/// The decisions on the submissions of each key.
type Decisions = BTreeMap<u64, Vec<Decision>>;

struct Run {
    network: Network,
    rng: TestRng,
    /// The newest two cluster maps. Producers use either of them.
    maps: [ClusterMap; 2],
    asked: Vec<u64>,
    named: bool,
}

impl Run {
    fn new(seed: u64, limits: OwnerLimits) -> Self {
        let mut rng = TestRng(seed);
        let (slicing, owners) = [("vertical:6", 6), ("horizontal-vertical:2x4", 8)][rng.below(2) as usize];
        let owners: Vec<NodeId> = (0..owners).map(|slice| NodeId(1 + slice % 3)).collect();
        let policies = FilterPolicies {
            answer: AnswerWhen::Safe,
            lookup: if rng.below(2) == 0 { Lookup::Pipelined } else { Lookup::Parallel },
            thresholds: Thresholds { min_live: 1, set_min: 0 },
            ..FilterPolicies::default()
        };
        // The filter is so large that two events rarely share a cell.
        let definition = definition(&spec(Kind::Timing, "1h", 1 << 20, 5), slicing);
        let mut network = Network::new(&definition, policies, &owners, limits, TestRng(rng.below(u64::MAX)));
        network.gathers = rng.below(2) == 0;
        network.nodes().into_iter().for_each(|node| network.deliver_map(node));
        let (maps, named) = ([network.map().clone(), network.map().clone()], rng.below(2) == 0);
        Self { network, rng, maps, asked: Vec::new(), named }
    }

    fn submit(&mut self, key: u64, map: &ClusterMap) {
        let number = self.asked.len() as u64 + 1;
        self.asked.push(key);
        let names = if self.named { vec![SubmissionName { source: 1, number }] } else { Vec::new() };
        let question = Submission { names, ..observation(number) };
        let head = self.network.head_by(map, digest(key));
        self.network.submit_at(head, &[digest(key)], question);
    }

    /// Takes a node down in the cluster map, or brings it back.
    fn change(&mut self) {
        // The third node is always up. It has the events that the other two nodes lose in turn.
        let node = NodeId(1 + self.rng.below(2));
        let down: Vec<NodeId> =
            self.network.nodes().into_iter().filter(|node| self.network.map().is_down(*node)).collect();
        self.maps[0] = self.network.map().clone();
        match down.first() {
            None => self.network.take_down(node),
            Some(down) => self.network.mark_restarted(*down),
        }
        self.maps[1] = self.network.map().clone();
    }

    /// Delivers the newest map to every node, and all messages in flight.
    fn deliver_to_all(&mut self) -> ClusterMap {
        self.network.nodes().into_iter().for_each(|node| self.network.deliver_map(node));
        self.network.settle();
        self.network.map().clone()
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..25 => {
                let map = self.maps[self.rng.below(2) as usize].clone();
                let key = self.rng.below(KEYS);
                self.submit(key, &map);
            }
            25..28 => self.change(),
            28..38 => {
                let node = NodeId(1 + self.rng.below(3));
                self.network.deliver_map(node);
            }
            _ => drop(self.network.deliver()),
        }
    }

    fn run(mut self) -> (Decisions, Network) {
        (0..STEPS).for_each(|_| self.step());
        for node in self.network.nodes() {
            self.network.deliver_map(node);
        }
        self.network.settle();
        let mut decisions = Decisions::new();
        for reply in &self.network.replies {
            decisions.entry(self.asked[reply.reply_to as usize - 1]).or_default().push(reply.answers.decisions()[0]);
        }
        assert_eq!(
            self.network.replies.len(),
            self.asked.len(),
            "every submission is answered, once; in flight {}",
            self.network.inflight()
        );
        // The cluster continues meanwhile.
        let map = self.network.map().clone();
        self.network.replies.clear();
        self.submit(KEYS, &map);
        self.network.settle();
        let told_new = self.network.replies[0].answers.decisions()[0];
        let is_decided = matches!(told_new, Decision::FirstSeen | Decision::Undecided(Reason::SlicesDown));
        assert!(is_decided, "a new event is {told_new:?}");
        (decisions, self.network)
    }
}

fn is_first(decision: &&Decision) -> bool {
    **decision == Decision::FirstSeen
}

#[test]
fn only_one_of_the_heads_before_and_after_calls_an_event_new() {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let (mut firsts, mut lost) = (0, 0);
    for seed in 0..SEEDS {
        let (decisions, network) = Run::new(seed, OwnerLimits::default()).run();
        for (key, decisions) in decisions {
            let first = decisions.iter().filter(is_first).count();
            assert!(first <= 1, "seed {seed}, key {key}: {decisions:?}");
            firsts += first;
            // A producer may have got first-seen in a reply that was lost.
            let unknown = decisions.contains(&Decision::Undecided(Reason::Unknown));
            lost += usize::from(first == 0 && !unknown && decisions.contains(&Decision::Duplicate));
            decisions.iter().for_each(|decision| *counts.entry(format!("{decision:?}")).or_default() += 1);
        }
        assert_eq!(network.inflight(), 0, "seed {seed}");
    }
    println!("{counts:?}");
    assert!(firsts as u64 > SEEDS * KEYS * 3 / 4, "{firsts} are first-seen");
    assert_eq!(lost, 0, "an event is known, and no submission got first-seen");
    let reason = |reason: Reason| counts.get(&format!("{:?}", Decision::Undecided(reason))).copied().unwrap_or(0);
    assert!([Reason::Unknown, Reason::StaleMap].into_iter().all(|of| reason(of) > 100), "nothing overtook a map");
}

#[test]
fn without_the_fence_two_heads_find_the_same_zero() {
    let limits = OwnerLimits { rules: Rules::without(Rule::FencesEpochs), ..OwnerLimits::default() };
    let broken = (0..SEEDS).filter(|seed| {
        let run = std::panic::catch_unwind(|| Run::new(*seed, limits).run());
        run.map_or(true, |(decisions, _)| {
            decisions.values().any(|decisions| decisions.iter().filter(is_first).count() > 1)
        })
    });
    let broken = broken.count();
    println!("{broken} of {SEEDS} seeds");
    assert!(broken > 0, "the test shows nothing");
}

#[test]
fn a_node_that_is_down_is_neither_asked_nor_set() {
    let mut run = Run::new(3, OwnerLimits::default());
    run.named = false;
    run.network.take_down(NodeId(2));
    run.network.nodes().into_iter().for_each(|node| run.network.deliver_map(node));
    let map = run.network.map().clone();
    (0..40).for_each(|key| run.submit(key, &map));
    run.network.settle();
    assert!(run.network.replies.iter().all(|reply| reply.answers.decisions() == [Decision::FirstSeen]));
    let partial = run.network.replies.iter().filter(|reply| reply.answers.is_degraded()).count();
    assert!((20..=40).contains(&partial), "{partial} rest on fewer positions");
    let visits: u64 = {
        let states = run.network.mesh.owners_mut().iter_mut().filter(|(instance, _)| instance.node == NodeId(2));
        states.map(|(_, owner)| owner.state(usize::MAX).hops).map(|hops| hops.test_nodes + hops.set_nodes).sum()
    };
    assert_eq!(visits, 0);
    run.network.replies.clear();
    (0..40).for_each(|key| run.submit(key, &map));
    run.network.settle();
    assert!(
        run.network.replies.iter().all(|reply| reply.answers.decisions() == [Decision::Duplicate]),
        "the others know them"
    );
    let rates: Vec<f32> = run.network.replies.iter().map(|reply| reply.answers.expected_rate()).collect();
    assert!(rates.iter().all(|rate| *rate < 1e-3), "{rates:?}");
    assert!(map.filters[&FILTER].owners.iter().all(|owner| owner.has_gap == (owner.node == NodeId(2))));
}

/// Returns the nodes that have reported their slices as complete.
fn claims(network: &Network) -> Vec<NodeId> {
    network.complete.iter().map(|(_, node, ..)| *node).collect()
}

#[test]
fn a_node_that_was_only_away_gets_the_events_that_it_missed() {
    let mut run = Run::new(3, OwnerLimits::default());
    run.named = false;
    run.network.take_down(NodeId(2));
    let map = run.deliver_to_all();
    (0..40).for_each(|key| run.submit(key, &map));
    run.network.settle();
    run.network.mark_restarted(NodeId(2));
    run.deliver_to_all();
    assert_eq!(claims(&run.network).iter().filter(|node| **node != NodeId(2)).count(), 0);
    assert!(claims(&run.network).contains(&NodeId(2)), "all that it lacked was handed over");
    run.network.forgive(NodeId(2));
    // While it is the only node, it knows all events.
    run.network.take_down(NodeId(1));
    run.network.take_down(NodeId(3));
    let map = run.deliver_to_all();
    run.network.replies.clear();
    (0..40).for_each(|key| run.submit(key, &map));
    run.network.settle();
    let decisions: Vec<Decision> = run.network.replies.iter().map(|reply| reply.answers.decisions()[0]).collect();
    let here = decisions.iter().filter(|decision| **decision == Decision::Duplicate).count();
    assert!(here > 30 && !decisions.contains(&Decision::FirstSeen), "{decisions:?}");
}

/// If all nodes start at once on a busy machine, a node may be marked down before the cluster map calls its slices
/// complete.
#[test]
fn a_node_that_had_just_read_everything_back_gets_the_events_that_it_missed() {
    let mut run = Run::new(3, OwnerLimits::default());
    run.named = false;
    run.network.restart(NodeId(2));
    let instances = run.network.mesh.instances().into_iter().filter(|instance| instance.node == NodeId(2));
    // Nothing was recorded so far.
    instances.for_each(|instance| run.network.command(instance, |owner| owner.end_restore(true)));
    assert!(!run.network.is_all_complete());
    run.network.take_down(NodeId(2));
    let map = run.deliver_to_all();
    (0..40).for_each(|key| run.submit(key, &map));
    run.network.settle();
    run.network.complete.clear();
    run.network.mark_restarted(NodeId(2));
    run.deliver_to_all();
    assert!(claims(&run.network).contains(&NodeId(2)), "all that it lacked was handed over");
}

#[test]
fn missed_events_beyond_the_limit_are_not_handed_over() {
    let limits = OwnerLimits { missed_events_max: 10, ..OwnerLimits::default() };
    let mut run = Run::new(3, limits);
    run.network.take_down(NodeId(2));
    run.network.nodes().into_iter().for_each(|node| run.network.deliver_map(node));
    let map = run.network.map().clone();
    (0..40).for_each(|key| run.submit(key, &map));
    run.network.settle();
    run.network.mark_restarted(NodeId(2));
    run.network.nodes().into_iter().for_each(|node| run.network.deliver_map(node));
    run.network.settle();
    assert_eq!(claims(&run.network), []);
}
