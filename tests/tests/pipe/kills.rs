//! Kills pipes at each step of a batch, and starts them again until the input is drained.
//!
//! A run is generated from a seed, and a failure prints the command that repeats it. The variable
//! `FIRSTSEEN_PIPE_SEEDS` selects runs, for example `FIRSTSEEN_PIPE_SEEDS=17..18`.

use std::fmt::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::run::Random;

use super::broker::Kafka;
use super::case::Case;
use super::workload::{Shape, Workload};

/// Steps of a batch after which a pipe can kill itself.
pub(super) const POINTS: [&str; 6] =
    ["after-test", "after-produce", "after-offsets", "after-commit", "after-record", "after-checkpoint"];

/// Runs of the quick test, with two for each point.
const QUICK: Range<u64> = 0..12;
/// Runs of the long test.
const LONG: Range<u64> = 1_000..1_200;
/// Runs at the same time. A run mostly waits for sessions of killed pipes to expire.
const AT_ONCE: u64 = 4;

/// Run with several kills.
#[derive(Debug)]
struct Plan {
    shape: Shape,
    batch: u64,
    has_state: bool,
    /// Where each process is killed, in the form of `FIRSTSEEN_PIPE_KILL_AT`.
    kills: Vec<String>,
}

impl Plan {
    /// The first kill of six consecutive seeds is at each of the points.
    fn draw(seed: u64) -> Self {
        let random = &mut Random(seed);
        let first = usize::try_from(seed % POINTS.len() as u64).expect("a small number");
        let has_state = POINTS[first] == "after-checkpoint" || random.below(2) == 0;
        let records = 300 + random.below(500);
        let shape = Shape {
            partitions: 1 + u32::try_from(random.below(3)).expect("a small number"),
            records,
            keys: 20 + random.below(200),
            epochs: 1 + u32::try_from(random.below(2)).expect("a small number"),
        };
        let batch = 20 + random.below(60);
        let mut kills = Vec::new();
        for kill in 0..=random.below(4) {
            let points = if has_state { POINTS.len() } else { POINTS.len() - 1 };
            let other = usize::try_from(random.below(points as u64)).expect("a small number");
            let point = POINTS[if kill == 0 { first } else { other }];
            kills.push(format!("{point}:{}", 1 + random.below(4)));
        }
        Self { shape, batch, has_state, kills }
    }

    fn case(&self, kafka: &Kafka) -> Case {
        let case = Case::new(kafka, self.shape.partitions).with(&format!("--batch {}", self.batch));
        if self.has_state { case.with("--state state") } else { case }
    }
}

/// Runs pipes with kills until the input is drained. Returns a description of what is wrong with the output.
fn run(case: &mut Case, plan: &Plan, seed: u64) -> Option<String> {
    case.write(&Workload::new(seed, plan.shape).rest());
    let mut log = String::new();
    for kill in plan.kills.iter().map(Some).chain([None]) {
        let variables: Vec<(&str, String)> =
            kill.iter().map(|kill| ("FIRSTSEEN_PIPE_KILL_AT", (*kill).clone())).collect();
        let ended = case.start_with(&["--until-end"], &variables).wait();
        let end = if ended.is_killed() { "killed" } else { "drained" };
        let _ = writeln!(log, "{kill:?}: {end}\n{}", ended.err);
        if !ended.is_killed() && ended.code != Some(0) {
            return Some(format!("a pipe failed: {ended:?}\n{log}"));
        }
    }
    let faults = case.judge();
    let repeat = format!(
        "again: FIRSTSEEN_PIPE_SEEDS={seed}..{} cargo test -p firstseen-tests --features kafka --test all pipe::kills",
        seed + 1
    );
    (!faults.is_empty()).then(|| format!("seed {seed}, {plan:?}: {faults}\n{log}\n{repeat}"))
}

/// Executes several runs at the same time.
fn run_all(kafka: &Kafka, seeds: &Range<u64>) {
    let next = AtomicU64::new(seeds.start);
    let failed: Vec<String> = std::thread::scope(|scope| {
        let run_some = || {
            let mut failed = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return failed;
                }
                let plan = Plan::draw(seed);
                let fault = run(&mut plan.case(kafka), &plan, seed);
                // A fault is shown at once, because a later run may end the whole test.
                fault.iter().for_each(|fault| eprintln!("{fault}"));
                failed.extend(fault);
            }
        };
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(run_some)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("runs")).collect()
    });
    assert!(failed.is_empty(), "{} of {seeds:?} failed:\n{}", failed.len(), failed.join("\n"));
}

/// Returns the runs that the environment asks for.
fn asked() -> Option<Range<u64>> {
    let asked = std::env::var("FIRSTSEEN_PIPE_SEEDS").ok()?;
    let (start, end) = asked.split_once("..").expect("a range such as 0..200");
    Some(start.parse().expect("a number")..end.parse().expect("a number"))
}

#[test]
fn killed_pipes_deliver_every_record_once() {
    let Some(kafka) = Kafka::shared() else { return };
    run_all(kafka, &asked().unwrap_or(QUICK));
}

#[test]
#[ignore = "200 runs with kills take minutes"]
fn pipes_that_are_killed_in_200_runs_deliver_every_record_once() {
    let Some(kafka) = Kafka::shared() else { return };
    run_all(kafka, &LONG);
}
