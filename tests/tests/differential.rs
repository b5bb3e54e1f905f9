//! Compares random formats, inputs, windows, kinds, slicings, clocks and states with an exact model that remembers
//! every key.
//!
//! Each run is generated from a seed. If a run fails, the test prints the command that repeats it.
//!
//! By default, the test executes runs for `FIRSTSEEN_DIFFERENTIAL_SECONDS` (15 seconds if not set), and in any case a
//! minimum number of runs. The variable `FIRSTSEEN_RUNS` selects runs by their seeds instead, for example
//! `FIRSTSEEN_RUNS=0..5000`.

mod draw;
mod formats;
mod model;

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::time::{Duration, Instant};

use draw::{Inputs, Plan, Record};
use formats::packed;
use model::{Fate, Model};

use crate::run::{Folder, Random, number};

const SECONDS: u64 = 15;
/// Minimum number of runs, however long they take.
const RUNS_MIN: u64 = 40;

/// Output that is read record by record.
struct Output {
    text: String,
    at: usize,
}

impl Output {
    fn of(folder: &Folder, name: &str, header: &str) -> Self {
        let text = if folder.has(name) { folder.read(name) } else { String::new() };
        let at = if text.starts_with(header) { header.len() } else { 0 };
        Self { text, at }
    }

    /// Returns whether `record` comes next in the output, and consumes it in that case. The record has no line end.
    fn has(&mut self, record: &str) -> bool {
        let Some(rest) = self.text[self.at..].strip_prefix(record) else { return false };
        if !rest.is_empty() && !rest.starts_with('\n') {
            return false;
        }
        self.at += record.len() + usize::from(!rest.is_empty());
        true
    }

    fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }
}

/// Writes the input files of one start, and returns their names.
fn write_inputs(folder: &Folder, plan: &Plan, inputs: &Inputs, random: &mut Random) -> String {
    let mut names = String::new();
    for (number, input) in inputs.iter().enumerate() {
        let records: String = input.iter().map(|record| record.text.as_str()).collect();
        folder
            .write(&format!("input{number}"), packed((plan.format.header().to_owned() + &records).as_bytes(), random));
        names += &format!(" input{number}");
    }
    names
}

/// Counts over all runs, which show whether the runs were varied enough.
#[derive(Debug, Default)]
struct Shown {
    records: u64,
    /// Number of records whose verdict the guarantees leave open.
    open: u64,
    /// Number of records that were passed on, dropped and rejected.
    fates: [u64; 3],
    late: u64,
    killed_runs: u64,
}

impl Shown {
    /// Returns whether every part of the plan was drawn. Rules about a part that was not drawn are not tested.
    fn is_enough(&self) -> bool {
        let Self { records, open, fates, late, killed_runs } = self;
        open * 4 < *records && fates.iter().chain([late]).all(|count| *count > 50) && *killed_runs > 0
    }
}

fn check(seed: u64, shown: &mut Shown) {
    let plan = Plan::draw(seed);
    let repeat = format!(
        "FIRSTSEEN_RUNS={seed}..{} cargo test -p firstseen-tests --test all differential\nfirstseen dedup {}",
        seed + 1,
        plan.flags
    );
    if plan.is_killed {
        check_killed(&plan, seed, &repeat);
        shown.killed_runs += 1;
    } else {
        check_verdicts(&plan, seed, &repeat, shown);
    }
}

fn check_verdicts(plan: &Plan, seed: u64, repeat: &str, shown: &mut Shown) {
    let (folder, random) = (Folder::new(), &mut Random(seed));
    let files = "--out out --duplicates again --rejected rejected --report json";
    let state = if plan.starts.len() > 1 { "--state state" } else { "" };
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for inputs in &plan.starts {
        let names = write_inputs(&folder, plan, inputs, random);
        let ran = folder.dedup(&format!("{} {files} {state} {names}", plan.flags));
        assert_eq!(ran.code, Some(0), "{repeat}: {}", ran.err);
        let report = ran.report();
        for name in ["events", "first_seen", "undecided", "duplicates", "late", "rejected"] {
            *counts.entry(name).or_default() += number(&report, name);
        }
    }
    let mut outputs = [("out", Fate::New), ("again", Fate::Again), ("rejected", Fate::Rejected)]
        .map(|(name, fate)| (Output::of(&folder, name, plan.format.header()), fate, 0u64));
    let mut model = Model::new(plan.window, plan.late);
    for (number, record) in plan.starts.iter().flatten().flatten().enumerate() {
        let expected = match record.event {
            Some((key, time_ms)) => model.expects(key, time_ms),
            None => Some(Fate::Rejected),
        };
        let text = record.text.strip_suffix('\n').unwrap_or(&record.text);
        let may_be = |fate: Fate| expected.map_or(fate != Fate::Rejected, |expected| expected == fate);
        let mut outputs = outputs.iter_mut();
        let found =
            outputs.find_map(|(output, fate, count)| (may_be(*fate) && output.has(text)).then_some((*fate, count)));
        let (fate, count) = found.unwrap_or_else(|| {
            panic!("{repeat}\nrecord {number}, {text:?}, has not the fate {expected:?} of {model:?}")
        });
        *count += 1;
        shown.records += 1;
        shown.open += u64::from(expected.is_none());
        if let Some((key, time_ms)) = record.event {
            model.note(key, time_ms, fate);
        }
    }
    let fates = outputs.map(|(output, fate, count)| {
        assert!(output.is_at_end(), "{repeat}\n{fate:?} has more than went in, from byte {} on", output.at);
        count
    });
    assert_eq!(
        [counts["first_seen"] + counts["undecided"], counts["duplicates"], counts["rejected"]],
        fates,
        "{repeat}"
    );
    assert_eq!(counts["events"], fates[0] + fates[1], "{repeat}");
    shown.late += counts["late"];
    (0..3).for_each(|place| shown.fates[place] += fates[place]);
}

/// Kills a run at a random point, and reads the whole input again. No record may be lost, and afterwards every key must
/// be known.
fn check_killed(plan: &Plan, seed: u64, repeat: &str) {
    let (folder, random) = (Folder::new(), &mut Random(seed));
    let inputs = &plan.starts[0];
    let names = write_inputs(&folder, plan, inputs, random);
    // A record that cannot be parsed is passed on every time it is read, so such records are dropped here.
    let flags = format!("{} --state state --state-every 1ms --out out --report none --unjudged drop", plan.flags);
    let fed: String = inputs[0].iter().map(|record| record.text.as_str()).collect();
    let fed = plan.format.header().to_owned() + &fed;
    let mut child = folder.start(&format!("{flags} -"));
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&fed.as_bytes()[..random.below(fed.len() as u64 + 1) as usize]).expect("a run that listens");
    child.kill().expect("a process");
    child.wait().expect("an end");
    let ran = folder.dedup(&format!("{flags} {names}"));
    assert_eq!(ran.code, Some(0), "{repeat}: {}", ran.err);
    let out = format!("\n{}\n", folder.read("out"));
    let mut passed: BTreeMap<u64, bool> = BTreeMap::new();
    for Record { text, event } in inputs.iter().flatten() {
        let Some((key, _)) = event else { continue };
        let text = format!("\n{}\n", text.strip_suffix('\n').unwrap_or(text));
        *passed.entry(*key).or_default() |= out.contains(&text);
    }
    let lost: Vec<u64> = passed.into_iter().filter_map(|(key, is_passed)| (!is_passed).then_some(key)).collect();
    assert!(lost.is_empty(), "{repeat}\nkeys {lost:?} are lost");
    let ran = folder.dedup(&format!("{flags} {names}"));
    assert_eq!(ran.code, Some(0), "{repeat}: {}", ran.err);
    assert!(out == format!("\n{}\n", folder.read("out")), "{repeat}\nsomething passes that is known");
}

/// Returns the runs that the environment asks for, such as `17..18` or `0..5000`.
fn asked() -> Option<Range<u64>> {
    let asked = std::env::var("FIRSTSEEN_RUNS").ok()?;
    let (start, end) = asked.split_once("..").expect("a range such as 0..5000");
    Some(start.parse().expect("a number")..end.parse().expect("a number"))
}

#[test]
fn random_runs_answer_as_an_exact_model() {
    let mut shown = Shown::default();
    if let Some(runs) = asked() {
        return runs.for_each(|run| check(run, &mut shown));
    }
    let seconds = std::env::var("FIRSTSEEN_DIFFERENTIAL_SECONDS").ok();
    let seconds = seconds.map_or(SECONDS, |seconds| seconds.parse().expect("a number of seconds"));
    let (began, limit) = (Instant::now(), Duration::from_secs(seconds));
    let more = |run: &u64| *run < RUNS_MIN || began.elapsed() < limit;
    let runs = (0..).take_while(more).inspect(|run| check(*run, &mut shown)).count();
    println!("{runs} runs in {} s: {shown:?}", began.elapsed().as_secs());
    assert!(shown.is_enough(), "{shown:?}");
}
