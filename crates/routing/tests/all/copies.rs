//! Tests slices that have copies on several nodes. One node after another loses all of its cells and fetches them from
//! the other nodes. Meanwhile cluster maps reach nodes at different times, and messages arrive before the maps under
//! which they were sent.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{TestRng, definition, digest, fingerprints, observation, spec};
use crate::network::{Network, instance};
use firstseen_filter::{CellRun, FilterSpec, Kind, Layout, Unit, UnitNumber};
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{
    AnswerWhen, AskCells, CellParts, ClusterMap, Decision, FilterPolicies, GroupOwner, Lookup, NodeId, OwnerLimits,
    Reason, Submission, SubmissionName,
};

const SEEDS: u64 = 400;
/// Number of seeds within which a broken rule must be detected.
const BROKEN_SEEDS: u64 = 1500;
/// Average number of submissions for each key.
const ASKED_OF_KEY: u64 = 6;
const STEPS: u64 = 900;

/// Slicings whose slices share events, and a slicing in which one slice contains all positions of an event.
const DIVIDED: [(&str, u64); 2] = [("vertical:6", 6), ("horizontal-vertical:2x4", 8)];
const TOGETHER: [(&str, u64); 1] = [("horizontal:3", 3)];
/// Slices of fingerprints. Each slice has several regions, which are fetched one by one.
const FINGERPRINTS: [(&str, u64); 2] = [("horizontal:3", 3), ("horizontal:5", 5)];

struct Run {
    network: Network,
    rng: TestRng,
    /// The newest two cluster maps. Producers use either of them.
    maps: [ClusterMap; 2],
    /// The key of each submission with its number. A submission may be sent again under its number.
    asked: Vec<(u64, u64)>,
    /// Number of times that a node was lost.
    losses: u64,
}

impl Run {
    fn new(seed: u64, limits: OwnerLimits, slicings: &[(&str, u64)]) -> Self {
        // Copies are compared during the run.
        Self::compared(seed, OwnerLimits { rescan_every_ms: Some(20_000), ..limits }, slicings)
    }

    fn compared(seed: u64, limits: OwnerLimits, slicings: &[(&str, u64)]) -> Self {
        let mut rng = TestRng(seed);
        let limits = OwnerLimits { copied_at_once_bytes: 4 << 10, ..limits };
        let (slicing, slices) = slicings[rng.below(slicings.len() as u64) as usize];
        let owners: Vec<NodeId> = (0..slices).map(|slice| NodeId(1 + slice % 3)).collect();
        let policies = FilterPolicies {
            answer: AnswerWhen::Safe,
            lookup: if rng.below(2) == 0 { Lookup::Pipelined } else { Lookup::Parallel },
            ..FilterPolicies::default()
        };
        let kind = [Kind::Timing, Kind::Generations, Kind::Bloom][rng.below(3) as usize];
        let window = if kind == Kind::Bloom { "unbounded" } else { "1h" };
        // If one slice contains all positions of an event, they lie in one block.
        let layout = (slicing == "horizontal:3").then_some(Layout::Blocked { lines: 1 });
        let spec = FilterSpec { layout: layout.or(Some(Layout::Classic)), ..spec(kind, window, 1 << 20, 5) };
        let spec = if slicings == FINGERPRINTS { fingerprints("1h", 100_000) } else { spec };
        let definition = definition(&spec, slicing);
        let mut network = Network::new(&definition, policies, &owners, limits, TestRng(rng.below(u64::MAX)));
        let copies = 1 + rng.below(2);
        let copy = |slice: u64, number: u64| (slice as u32, NodeId(1 + (slice + number) % 3));
        network.add_copies((0..slices).flat_map(|slice| (1..=copies).map(move |number| copy(slice, number))));
        network.nodes().into_iter().for_each(|node| network.deliver_map(node));
        let maps = [network.map().clone(), network.map().clone()];
        Self { network, rng, maps, asked: Vec::new(), losses: 0 }
    }

    fn submit(&mut self, key: u64, map: &ClusterMap) {
        self.submit_as(self.asked.len() as u64 + 1, key, map);
    }

    fn submit_as(&mut self, number: u64, key: u64, map: &ClusterMap) {
        let reply_to = self.asked.len() as u64 + 1;
        self.asked.push((key, number));
        let names = vec![SubmissionName { source: 1, number }];
        let question = Submission { names, again: reply_to > number, ..observation(reply_to) };
        let head = self.network.head_by(map, digest(key));
        if self.network.mesh.owners().contains_key(&head) {
            self.network.submit_at(head, &[digest(key)], question);
        } else {
            // The head's process is gone, so no node accepts the submission.
            self.asked.pop();
        }
    }

    /// If all nodes are complete, one node loses everything. Otherwise a lost node comes back.
    fn change(&mut self) {
        let down: Vec<NodeId> =
            self.network.nodes().into_iter().filter(|node| self.network.map().is_down(*node)).collect();
        let before = self.network.map().clone();
        match down.first() {
            Some(down) => self.network.start_anew(*down),
            None if self.network.is_all_complete() => {
                self.network.lose(NodeId(1 + self.rng.below(3)));
                self.losses += 1;
            }
            None => return,
        }
        self.maps = [before, self.network.map().clone()];
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..15 => {
                let map = self.maps[self.rng.below(2) as usize].clone();
                // Uses new keys, which several producers send at once, and old keys.
                let newest = self.asked.len() as u64 / ASKED_OF_KEY;
                let key = if self.rng.below(2) == 0 { newest + self.rng.below(2) } else { self.rng.below(newest + 1) };
                self.submit(key, &map);
                // Sends one of the last submissions again.
                let last = self.asked.len().checked_sub(1 + self.rng.below(6) as usize);
                if let Some((key, number)) = last.map(|index| self.asked[index]).filter(|_| self.rng.below(3) == 0) {
                    self.submit_as(number, key, &map);
                }
            }
            15..18 => self.change(),
            18..30 => {
                let node = NodeId(1 + self.rng.below(3));
                self.network.deliver_map(node);
            }
            30..33 => {
                let before = self.network.map().clone();
                if self.network.agree_on_complete() {
                    self.maps = [before, self.network.map().clone()];
                }
            }
            33..36 => self.network.wait(1_000),
            _ => drop(self.network.deliver()),
        }
    }

    /// Runs the test. Returns the decisions on the submissions of each key, and how often a node was lost.
    fn run(mut self) -> (BTreeMap<u64, Decisions>, u64) {
        self.network.gathers = self.rng.below(2) == 0;
        (0..STEPS).for_each(|_| self.step());
        // A copy that is not told all replies to idempotency keys waits for as long as submissions may be retried.
        for _ in 0..80 {
            if let Some(down) = self.network.nodes().into_iter().find(|node| self.network.map().is_down(*node)) {
                self.network.start_anew(down);
            }
            self.network.nodes().into_iter().for_each(|node| self.network.deliver_map(node));
            self.network.settle();
            self.network.wait(1_000);
            self.network.agree_on_complete();
        }
        assert!(self.network.is_all_complete(), "copies catch up: {:?}", self.network.record());
        let mut decisions: BTreeMap<u64, Decisions> = BTreeMap::new();
        for reply in &self.network.replies {
            let (key, number) = self.asked[reply.reply_to as usize - 1];
            decisions.entry(key).or_default().push((number, reply.answers.decisions()[0]));
        }
        (decisions, self.losses)
    }
}

/// The decisions on the submissions of one key, each with the number of its submission.
type Decisions = Vec<(u64, Decision)>;

/// Returns the number of different submissions that got first-seen. A submission that was sent again may have got it
/// twice.
fn winners(decisions: &Decisions) -> usize {
    let firsts = decisions.iter().filter(|(_, decision)| *decision == Decision::FirstSeen);
    firsts.map(|(number, _)| number).collect::<BTreeSet<_>>().len()
}

/// Runs the test for this many seeds. `slicings` returns the slicings for a seed.
fn are_handed_over(seeds: u64, slicings: impl Fn(u64) -> &'static [(&'static str, u64)]) {
    let (mut firsts, mut duplicates, mut lost) = (0, 0, 0);
    for seed in 0..seeds {
        let slicings = slicings(seed);
        let (decisions, losses) = Run::new(seed, OwnerLimits::default(), slicings).run();
        lost += losses;
        for (key, decisions) in decisions {
            assert!(winners(&decisions) <= 1, "seed {seed}, key {key}: {decisions:?}");
            firsts += winners(&decisions);
            duplicates += decisions.iter().filter(|(_, decision)| *decision == Decision::Duplicate).count();
        }
    }
    println!("{firsts} first-seen, {duplicates} duplicates, {lost} losses");
    assert!(lost > seeds, "{lost} losses: nothing was handed on");
    assert!(firsts as u64 > 10 * seeds && duplicates > firsts, "{firsts} and {duplicates}");
}

#[test]
fn events_that_one_node_loses_are_known_to_the_others_which_hand_them_over() {
    are_handed_over(SEEDS, |seed| if seed % 2 == 0 { &DIVIDED } else { &TOGETHER });
}

#[test]
fn fingerprints_that_one_node_loses_are_known_to_the_others_which_hand_them_over() {
    are_handed_over(SEEDS / 4, |_| &FINGERPRINTS);
}

#[test]
fn a_rule_of_copies_that_is_broken_is_found() {
    let kept = OwnerLimits::default();
    for (rule, limits) in [
        ("what is missing is fetched to its end", OwnerLimits { rules: Rules::without(Rule::FetchesAll), ..kept }),
        ("what is set by an older map is refused", OwnerLimits { rules: Rules::without(Rule::FencesEpochs), ..kept }),
        (
            "first-seen is the reply when all copies are set",
            OwnerLimits { rules: Rules::without(Rule::AwaitsSets), ..kept },
        ),
    ] {
        for slicings in [&DIVIDED[..], &TOGETHER, &FINGERPRINTS] {
            let breaks = |seed: &u64| {
                let run = std::panic::catch_unwind(|| Run::new(*seed, limits, slicings).run());
                run.map_or(true, |(decisions, _)| decisions.values().any(|decisions| winners(decisions) > 1))
            };
            let seed =
                (0..BROKEN_SEEDS).find(breaks).unwrap_or_else(|| panic!("nobody misses that {rule}: {slicings:?}"));
            println!("{rule}: missed at seed {seed} of {slicings:?}");
        }
    }
}

#[test]
fn an_event_without_a_reply_is_not_answered_by_its_copy_later() {
    let mut run = Run::new(4, OwnerLimits::default(), &TOGETHER);
    let key = (0..).find(|key| head(&run, *key) == NodeId(1)).unwrap();
    let deliver_all = |run: &mut Run| {
        run.network.nodes().into_iter().for_each(|node| run.network.deliver_map(node));
        run.network.settle();
    };
    let last = |run: &Run| run.network.replies.last().map(|reply| reply.answers.decisions()[0]);
    // The event is recorded on this node only, when the other nodes continue without it.
    let map = run.network.map().clone();
    run.submit(key, &map);
    assert_eq!(last(&run), None);
    run.network.take_down(NodeId(1));
    [2, 3].into_iter().for_each(|node| run.network.deliver_map(NodeId(node)));
    let map = run.network.map().clone();
    run.submit(key, &map);
    assert_eq!(last(&run), Some(Decision::FirstSeen), "by the other copy");
    run.network.mark_restarted(NodeId(1));
    deliver_all(&mut run);
    for _ in 0..4 {
        run.network.wait(1_000);
        run.network.settle();
        run.network.agree_on_complete();
        deliver_all(&mut run);
    }
    assert!(run.network.is_all_complete());
    assert_eq!(head(&run, key), NodeId(1), "it answers again");
    // The first submission is sent again with the same idempotency key.
    let map = run.network.map().clone();
    run.submit_as(1, key, &map);
    run.network.settle();
    assert_eq!(last(&run), Some(Decision::Undecided(Reason::TooOld)));
}

fn head(run: &Run, key: u64) -> NodeId {
    run.network.head_by(run.network.map(), digest(key)).node
}

/// Returns a run in which an event was recorded only half-way, together with the key of that event. The slice has three
/// copies. The first copy has recorded the event and the second copy has received the record from it, but the third
/// copy does not know the event.
fn recorded_by_two_of_three() -> (Run, u64) {
    let mut run = with_two_further_copies();
    let key = (0..).find(|key| head(&run, *key) == NodeId(1)).unwrap();
    let map = run.network.map().clone();
    run.submit(key, &map);
    assert!(run.network.deliver_on((NodeId(1), NodeId(2))));
    (run, key)
}

#[test]
fn an_event_that_some_copies_have_is_set_on_all_by_the_next_head() {
    let (mut run, key) = recorded_by_two_of_three();
    run.network.lose(NodeId(1));
    [2, 3].into_iter().for_each(|node| run.network.deliver_map(NodeId(node)));
    assert_eq!(head(&run, key), NodeId(2));
    let map = run.network.map().clone();
    run.submit_as(1, key, &map);
    assert_eq!(run.network.replies, [], "the third copy does not know yet");
    run.network.settle();
    // The second node goes down too.
    run.network.lose(NodeId(2));
    run.network.deliver_map(NodeId(3));
    let map = run.network.map().clone();
    run.submit_as(1, key, &map);
    run.submit(key, &map);
    let decisions: Vec<Decision> = run.network.replies.iter().map(|reply| reply.answers.decisions()[0]).collect();
    assert_eq!(decisions, [Decision::FirstSeen, Decision::FirstSeen, Decision::Duplicate]);
}

#[test]
fn a_reply_under_a_name_is_not_the_next_heads_reply_to_another_event() {
    let (mut run, key) = recorded_by_two_of_three();
    run.network.settle();
    run.network.lose(NodeId(1));
    [2, 3].into_iter().for_each(|node| run.network.deliver_map(NodeId(node)));
    let map = run.network.map().clone();
    let place = |key: u64| run.network.head_by(&map, digest(key));
    let other = (key + 1..).find(|other| place(*other) == place(key)).unwrap();
    run.submit_as(1, other, &map);
    run.submit_as(1, key, &map);
    run.submit_as(2, other, &map);
    run.network.settle();
    let decisions: Vec<Decision> = run.network.replies.iter().map(|reply| reply.answers.decisions()[0]).collect();
    let reused = Decision::Undecided(Reason::NameReused);
    assert_eq!(decisions, [Decision::FirstSeen, reused, Decision::FirstSeen, Decision::FirstSeen]);
}

#[test]
fn an_event_recorded_for_another_head_is_set_on_all_though_a_map_was_missed() {
    let (mut run, key) = recorded_by_two_of_three();
    // The second copy gets two maps at once and does not know which nodes answered by the map between them.
    run.network.lose(NodeId(1));
    run.network.deliver_map(NodeId(3));
    run.network.start_anew(NodeId(1));
    run.network.nodes().into_iter().for_each(|node| run.network.deliver_map(node));
    run.network.settle();
    assert_eq!(head(&run, key), NodeId(2));
    // The first copy's message never reaches the third copy.
    run.network.lose(NodeId(2));
    run.network.nodes().into_iter().for_each(|node| run.network.deliver_map(node));
    run.network.settle();
    assert_eq!(head(&run, key), NodeId(3));
    let map = run.network.map().clone();
    run.submit(key, &map);
    run.submit_as(1, key, &map);
    run.network.settle();
    let decisions: Vec<Decision> = run.network.replies.iter().map(|reply| reply.answers.decisions()[0]).collect();
    assert_eq!(decisions, [Decision::Duplicate, Decision::Undecided(Reason::Unknown)]);
}

#[test]
fn copies_that_have_everything_are_compared() {
    for slicings in [&DIVIDED[..], &TOGETHER] {
        let limits = OwnerLimits::default();
        let is_unbounded = |run: &Run| run.network.record().definition.group.unit == Unit::Endless;
        let new = |seed| Run::compared(seed, limits, slicings);
        let has_two_more = |run: &Run| {
            let slices = run.network.record().owners.len();
            run.network.record().copies.len() == 2 * slices
        };
        let mut run = (0..).map(new).find(|run| is_unbounded(run) && has_two_more(run)).unwrap();
        // The copy on the first node has a cell that the other copies lack.
        let run_of_cells = CellRun { cells: vec![0b101; 64], ..CellRun::default() };
        let parts = CellParts { runs: vec![run_of_cells], ..CellParts::default() };
        let now = run.network.now();
        let written = |owner: &mut GroupOwner| owner.write_cells(parts.clone(), now).unwrap();
        run.network.command(instance(0, NodeId(1)), written);
        let cells_at = |run: &mut Run, node| {
            let mut cells = None;
            let ask = AskCells { slice: 0, unit: UnitNumber::FIRST, from: None };
            run.network.command(instance(0, node), |owner| cells = owner.read_cells(&ask));
            cells.map(|cells| cells.parts.runs).unwrap()
        };
        let nodes = [1, 2, 3].map(NodeId);
        run.network.wait(11 * 3_600_000);
        run.network.settle();
        assert_eq!(nodes.map(|node| cells_at(&mut run, node).len()), [1, 0, 0], "it is not yet time");
        // Each of the other copies is read in turn.
        for _ in 0..2 {
            run.network.wait(12 * 3_600_000);
            for _ in 0..20 {
                run.network.settle();
                run.network.wait(1_000);
            }
        }
        let cells = nodes.map(|node| cells_at(&mut run, node));
        assert_eq!(cells[0].len(), 1);
        assert!(cells.iter().all(|copy| *copy == cells[0]), "{slicings:?}: {cells:?}");
    }
}

#[test]
fn the_cells_of_a_copy_decide_nothing_where_another_has_answered_by_a_map_it_missed() {
    let mut run = with_two_further_copies();
    let (first, second) = (NodeId(1), NodeId(2));
    let key = (0..).find(|key| head(&run, *key) == first).unwrap();
    let decisions =
        |run: &Run| -> Vec<Decision> { run.network.replies.iter().map(|reply| reply.answers.decisions()[0]).collect() };
    // The first node goes down and comes back, so that the second copy answers. The second copy records an event that
    // no other copy has.
    run.network.lose(first);
    run.network.start_anew(first);
    run.network.nodes().into_iter().for_each(|node| run.network.deliver_map(node));
    let map = run.network.map().clone();
    run.submit(key, &map);
    assert_eq!(decisions(&run), []);
    // The first node has fetched everything before that, and answers now. The second node does not get the map with
    // this change.
    run.network.complete(first);
    [1, 3].into_iter().for_each(|node| run.network.deliver_map(NodeId(node)));
    assert_eq!(head(&run, key), first);
    let map = run.network.map().clone();
    run.submit(key, &map);
    while run.network.deliver_on((first, second)) || run.network.deliver_on((first, NodeId(3))) {}
    while run.network.deliver_on((second, first)) || run.network.deliver_on((NodeId(3), first)) {}
    assert_eq!(decisions(&run), [Decision::FirstSeen], "by the first");
    run.network.lose(first);
    [2, 3].into_iter().for_each(|node| run.network.deliver_map(NodeId(node)));
    run.network.settle();
    assert_eq!(decisions(&run), [Decision::FirstSeen, Decision::Undecided(Reason::Unknown)]);
}

#[test]
fn an_event_that_a_copy_recorded_in_vain_is_set_on_all_when_it_answers_again() {
    let mut run = with_two_further_copies();
    let (first, second) = (NodeId(1), NodeId(2));
    let key = (0..).find(|key| head(&run, *key) == first).unwrap();
    run.network.lose(first);
    run.network.start_anew(first);
    run.network.nodes().into_iter().for_each(|node| run.network.deliver_map(node));
    let map = run.network.map().clone();
    run.submit(key, &map);
    // Another copy answers before any other copy has the event, and goes down. Then the second copy answers again and
    // goes down too.
    run.network.complete(first);
    run.network.nodes().into_iter().for_each(|node| run.network.deliver_map(node));
    run.network.settle();
    for node in [first, second] {
        run.network.lose(node);
        run.network.nodes().into_iter().for_each(|node| run.network.deliver_map(node));
        run.network.settle();
    }
    assert_eq!(head(&run, key), NodeId(3));
    let map = run.network.map().clone();
    run.submit(key, &map);
    let decisions: Vec<Decision> = run.network.replies.iter().map(|reply| reply.answers.decisions()[0]).collect();
    assert_eq!(decisions, [Decision::Undecided(Reason::Unknown), Decision::Duplicate]);
}

/// Creates a run with one slice that contains all positions of an event, with copies on three nodes.
fn with_two_further_copies() -> Run {
    let new = |seed| Run::new(seed, OwnerLimits::default(), &TOGETHER);
    (0..).map(new).find(|run| run.network.record().copies.len() == 6).unwrap()
}
