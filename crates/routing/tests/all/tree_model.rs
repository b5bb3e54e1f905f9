//! Tests random filter trees against an exact record of first-seen events. Messages arrive in random order, and nodes
//! restart. The tests check four properties: no event is a false negative, only one submission of an event wins, no
//! submission is a duplicate of itself, and nothing is left in flight at the end.
//!
//! A failure prints its seed: `TREE_SEED=17 cargo test -p firstseen-routing --test all tree_model`. `TREE_CASES=20000`
//! makes a long run.

mod record;

use std::collections::BTreeMap;

use crate::common::{Producer, TestRng, definition, digest, fingerprints, spec as filter};
use crate::network::Network;
use crate::network::tree::{ROOT, spec as tree_spec};
use firstseen_filter::{FilterSpec, Kind, Stamp, WindowRule};
use firstseen_routing::{
    AnswerWhen, Decision, FilterId, FilterPolicies, Lookup, MonotonicMs, Reason, Submission, TreeMode, TreeSpec,
};
use record::{Attempt, Record, Submitted};

/// Number of cases in each test, unless the environment sets another number.
const CASES: u64 = 400;
/// Maximum number of seeds of a test, so that no two tests share a seed.
const SEEDS_MAX: u64 = 1_000_000;
const KEYS: u64 = 12;
const STEPS: u64 = 150;
const LATE_MS: u64 = 300;

/// Slicings of a root, each with slicings of levels that have the same number of groups.
const SLICINGS: [(&str, &[&str]); 6] = [
    ("none", &["none", "vertical:3"]),
    ("vertical:2", &["none"]),
    ("vertical:4", &["none", "vertical:2"]),
    ("vertical-horizontal:2x2", &["none", "vertical:2"]),
    ("horizontal:3", &["horizontal:3", "horizontal-vertical:3x2"]),
    ("horizontal-vertical:2x3", &["horizontal:2", "horizontal-vertical:2x2"]),
];

const WINDOWS: [(Kind, &str); 4] =
    [(Kind::Timing, "10s"), (Kind::Generations, "10s"), (Kind::Bloom, "landmark:10s"), (Kind::Bloom, "unbounded")];

/// Slicings in which each slice contains all positions of its events.
const WHOLE_SLICINGS: [(&str, &[&str]); 2] = [("none", &["none"]), ("horizontal:3", &["horizontal:3"])];

/// Whether cells hold single positions of events, or fingerprints, which cannot be folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cells {
    Folded,
    Fingerprints,
}

/// Returns random places of a filter tree, each as a pair of its parent's index and its fold. With a fold of `s`, `2^s`
/// cells of the root share one cell of the level. The tree has two to six levels, and a fold is at most 3. At most
/// eight root cells therefore share a cell, so few that the tests need not expect any false positive.
fn shape(rng: &mut TestRng) -> Vec<(usize, u8)> {
    let (mut places, mut levels) = (vec![(0, 0)], vec![0]);
    let depth_max = 1 + rng.below(5);
    for _ in 0..2 + rng.below(6) {
        let parent = rng.below(places.len() as u64) as usize;
        let (_, fold) = places[parent];
        if levels[parent] < depth_max {
            places.push((parent, (fold + rng.below(3) as u8).min(3)));
            levels.push(levels[parent] + 1);
        }
    }
    if places.len() == 1 {
        places.push((0, 0));
    }
    places
}

/// Returns the number of levels below the root.
fn depth(shape: &[(usize, u8)]) -> u8 {
    let mut levels = vec![0];
    shape.iter().skip(1).for_each(|(parent, _)| levels.push(levels[*parent] + 1));
    levels.into_iter().max().unwrap_or_default()
}

/// Faults that may happen in addition to submissions and deliveries.
#[derive(Clone, Copy, Debug)]
struct Faults {
    /// Whether a level, or some of its nodes, may restart with empty slices.
    restarts: bool,
    /// Whether replies to queries may be lost, and deadlines may pass before replies arrive.
    losses: bool,
}

struct Case {
    forest: Network,
    producers: Producer,
    rng: TestRng,
    leaves: Vec<FilterId>,
    rule: WindowRule,
    record: Record,
    /// Submissions by their number.
    questions: BTreeMap<u64, (Submission, FilterId)>,
    faults: Faults,
    now_ms: u64,
    step: u64,
}

impl Case {
    fn new(seed: u64, faults: Faults, cells: Cells) -> (Self, String) {
        let mut rng = TestRng(seed);
        let (mut kind, mut window) = WINDOWS[rng.below(4) as usize];
        let (mut slicing, mut levels) = SLICINGS[rng.below(6) as usize];
        let mode = if rng.below(2) == 0 { TreeMode::Dense } else { TreeMode::Sparse };
        let mut shape = shape(&mut rng);
        if cells == Cells::Fingerprints {
            (kind, window) = (Kind::Cuckoo, "10s");
            (slicing, levels) = WHOLE_SLICINGS[seed as usize % 2];
            shape.iter_mut().for_each(|(_, fold)| *fold = 0);
        }
        let policies = FilterPolicies {
            lookup: if rng.below(2) == 0 { Lookup::Pipelined } else { Lookup::Parallel },
            answer: if rng.below(2) == 0 { AnswerWhen::Early } else { AnswerWhen::Safe },
            ..FilterPolicies::default()
        };
        // Half of the late events are within the lateness, and half are beyond it.
        let late = FilterSpec { lateness_ms: Some(LATE_MS / 2), ..fingerprints(window, 1_000) };
        let spec = if kind == Kind::Cuckoo { late } else { filter(kind, window, 1 << 14, 5) };
        let definition = definition(&spec, slicing);
        let tree = tree_spec(mode, &shape, levels);
        let top_down = rng.below(u64::from(depth(&shape)) + 1) as u8;
        let what = format!(
            "seed {seed}: {kind:?} {window}, {slicing}, {mode:?}, {shape:?}, top-down {top_down}, {policies:?}, {faults:?}"
        );
        let mut forest = Network::of_tree(&TreeSpec { top_down, ..tree }, &definition, policies, TestRng(seed ^ 1));
        (forest.tries_again, forest.lost_percent) = (rng.below(2) == 0, if faults.losses { 15 } else { 0 });
        let case = Self {
            leaves: forest.leaves(),
            producers: Producer::new(7, &definition),
            rule: definition.group.rule,
            record: Record { has_all_marks: !faults.losses, ..Record::default() },
            questions: BTreeMap::new(),
            forest,
            rng,
            faults,
            now_ms: 1_000_000,
            step: 0,
        };
        (case, what)
    }

    fn run(&mut self) {
        for _ in 0..STEPS {
            self.step += 1;
            match self.rng.below(20) {
                0..=6 => self.ask(),
                7..=9 => self.ask_again(),
                10 if self.faults.restarts && self.rng.below(3) == 0 => self.restart(),
                11 if self.faults.losses => self.forest.wait(self.rng.below(400)),
                12 if self.rng.below(6) == 0 => self.now_ms += 3_000 + self.rng.below(12_000),
                _ => (0..self.rng.below(12)).for_each(|_| _ = self.forest.deliver()),
            }
            self.note_replies();
        }
        self.forest.lost_percent = 0;
        self.forest.settle();
        // A query that was abandoned ends when its time has passed.
        self.forest.wait(1_000);
        self.forest.settle();
        self.note_replies();
    }

    fn ask(&mut self) {
        let key = self.rng.below(KEYS);
        let records = self.rng.below(5) > 0;
        self.now_ms += self.rng.below(200);
        let late_ms = if self.rng.below(4) == 0 { self.rng.below(LATE_MS) } else { 0 };
        let leaf = self.leaves[self.rng.below(self.leaves.len() as u64) as usize];
        let Some(mut question) = self.producers.ask(self.now_ms - late_ms, records) else { return };
        let tick = question.times.ticks[0];
        let Some(stamp) = self.rule.stamp(tick.unit, tick.clock_unit) else { return };
        if self.faults.losses && self.rng.below(3) == 0 {
            question.deadline_ms = self.forest.now().monotonic_ms.after(1 + self.rng.below(300));
        }
        self.record.clock_unit = self.record.clock_unit.max(tick.clock_unit);
        self.record.submitted.insert(question.reply_to, Submitted { key, stamp, records, attempts: Vec::new() });
        self.questions.insert(question.reply_to, (question.clone(), leaf));
        self.send(question, leaf);
    }

    /// Lets a producer retry that got no reply or no definite reply, or that has lost the reply.
    fn ask_again(&mut self) {
        let numbers: Vec<u64> = self.questions.keys().copied().collect();
        let recent = numbers.len().min(15) as u64;
        if recent == 0 {
            return;
        }
        let number = numbers[numbers.len() - 1 - self.rng.below(recent) as usize];
        let (question, leaf) = self.questions[&number].clone();
        if self.record.submitted[&number].records {
            self.send(Submission { again: true, deadline_ms: MonotonicMs::END, ..question }, leaf);
        }
    }

    fn send(&mut self, question: Submission, leaf: FilterId) {
        let Some(submitted) = self.record.submitted.get_mut(&question.reply_to) else { return };
        let (began, clock_unit) = (self.step, self.record.clock_unit);
        submitted.attempts.push(Attempt { began, ended: None, decision: None, degraded: false, clock_unit });
        self.forest.submit_in(leaf, digest(submitted.key), question);
    }

    fn restart(&mut self) {
        let filters: Vec<FilterId> = self.forest.map().filters.keys().copied().collect();
        let filter = filters[self.rng.below(filters.len() as u64) as usize];
        let nodes = self.forest.nodes_of(filter);
        let some = nodes.iter().copied().filter(|_| self.rng.below(3) > 0).collect();
        self.forest.restart_of(filter, if self.rng.below(2) == 0 { &nodes } else { &some });
        if filter == ROOT {
            self.record.root_losses.push(self.step);
        }
        // Submissions in flight at this leaf will not be answered any more.
        let of_leaf = self.questions.iter().filter(|(_, (_, leaf))| *leaf == filter);
        of_leaf.for_each(|(number, _)| self.record.lose(*number));
    }

    /// Notes the replies in the record.
    fn note_replies(&mut self) {
        for reply in std::mem::take(&mut self.forest.replies) {
            self.record.note(reply.reply_to, self.step, reply.answers.decisions()[0], reply.answers.is_degraded());
        }
    }

    /// Looks up every key at every leaf at the end.
    fn ask_for_all(&mut self) {
        for key in 0..KEYS {
            for leaf in self.leaves.clone() {
                self.step += 1;
                let Some(question) = self.producers.ask(self.now_ms, false) else { continue };
                let tick = question.times.ticks[0];
                let stamp = Stamp { unit: tick.unit, judged: tick.clock_unit.max(tick.unit) };
                self.record.clock_unit = self.record.clock_unit.max(tick.clock_unit);
                let asked = Submitted { key, stamp, records: false, attempts: Vec::new() };
                self.record.submitted.insert(question.reply_to, asked);
                self.send(question, leaf);
                self.forest.settle();
                self.note_replies();
            }
        }
    }
}

/// Runs the cases. Returns how many replies were first-seen, duplicate, and undecided for each reason.
fn check_cases(test: u64, faults: Faults, cells: Cells) -> (u64, u64, BTreeMap<Reason, u64>) {
    let asked = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let (chosen, count) = (asked("TREE_SEED"), asked("TREE_CASES").unwrap_or(CASES));
    let own = test * SEEDS_MAX..(test + 1) * SEEDS_MAX;
    let seeds = match chosen {
        Some(seed) if own.contains(&seed) => seed..seed + 1,
        Some(_) => 0..0,
        None => own.start..own.start + count,
    };
    let (mut first_seen, mut duplicates, mut undecided) = (0, 0, BTreeMap::new());
    for seed in seeds {
        let (mut case, what) = Case::new(seed, faults, cells);
        case.run();
        assert_eq!(case.forest.inflight(), 0, "{what}");
        case.ask_for_all();
        if let Some(fault) = case.record.fault(&case.rule) {
            let losses = &case.record.root_losses;
            panic!(
                "{what}\nthe root was lost at {losses:?}; {fault}\nagain: TREE_SEED={seed} cargo test -p \
                 firstseen-routing --test all tree_model"
            );
        }
        for decision in case.record.all_decisions() {
            match decision {
                Decision::FirstSeen => first_seen += 1,
                Decision::Duplicate => duplicates += 1,
                Decision::Undecided(reason) => *undecided.entry(reason).or_insert(0) += 1,
            }
        }
    }
    println!("{cells:?}, {faults:?}: {first_seen} first-seen, {duplicates} duplicates, undecided {undecided:?}");
    (first_seen, duplicates, undecided)
}

/// The cells of both tests with the same faults, and the number of each test.
const BOTH: [(Cells, u64); 2] = [(Cells::Folded, 0), (Cells::Fingerprints, 4)];

#[test]
fn where_nothing_is_lost_every_event_is_decided() {
    for (cells, test) in BOTH {
        let counts = check_cases(test, Faults { restarts: false, losses: false }, cells);
        let (first_seen, duplicates, mut undecided) = counts;
        assert!(first_seen > 3_000 && duplicates > 10_000, "{cells:?}: {first_seen} and {duplicates}");
        // Time leaps while events are in flight. Their window may then have ended, or a landmark may have passed on
        // some nodes.
        let late = [Reason::Late, Reason::Unknown].iter().filter_map(|reason| undecided.remove(reason)).sum::<u64>();
        assert!(late < duplicates / 100 && undecided.is_empty(), "{cells:?}: {late} late, {undecided:?}");
    }
}

/// Runs cases with these faults. More than a hundred events must be undecided for this reason.
fn are_undecided(test: u64, faults: Faults, reason: Reason) {
    for (cells, first) in BOTH {
        let (.., undecided) = check_cases(first + test, faults, cells);
        assert!(undecided.get(&reason) > Some(&100), "{cells:?}: {undecided:?}");
    }
}

#[test]
fn answers_that_are_lost_or_late_make_nothing_wrong() {
    are_undecided(1, Faults { restarts: false, losses: true }, Reason::Unknown);
}

#[test]
fn levels_that_start_anew_make_nothing_wrong() {
    are_undecided(2, Faults { restarts: true, losses: false }, Reason::TooOld);
}

#[test]
fn levels_that_start_anew_while_answers_are_lost_make_nothing_wrong() {
    are_undecided(3, Faults { restarts: true, losses: true }, Reason::Unknown);
}
