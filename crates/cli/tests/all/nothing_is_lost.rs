//! Runs `dedup` on random inputs that are damaged at random places, to test that no record is lost. Every record must
//! appear in an output, and a record may be reported as a duplicate only if an equal record was passed on before. Each
//! run is generated from a seed. If a run fails, the test prints the seed and a command that repeats this run with
//! `FIRSTSEEN_SEEDS`.

mod damage;
mod shape;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use damage::damaged;
use shape::Shape;

use crate::run::{Folder, Random};

const SEEDS: Range<u64> = 0..140;
const WINDOW_S: u64 = 3600;
/// Tolerance in seconds for the check that a reported duplicate has an equal record within the window. The check also
/// accepts an equal record that lies outside the window by at most this time.
///
/// The tolerance is the sum of three times. The first is one window, because the filter judges a late record as if it
/// had come just in time, so its verdict may be wrong by up to one window. The other two are the lateness of the filter
/// and one step of its time.
const SLACK_S: u64 = WINDOW_S + WINDOW_S / 8 + WINDOW_S / 64 + 1;

/// Counts of what all runs have covered. They show whether every rule was tested at all.
#[derive(Debug, Default)]
struct Shown {
    runs: u64,
    refused_runs: u64,
    lines: u64,
    duplicates: u64,
    /// Number of duplicates whose key and time the model could read.
    checked: u64,
    rejected: u64,
    reasons: BTreeMap<String, u64>,
}

/// One run, generated from a seed.
struct Plan {
    flags: String,
    shape: Shape,
    has_window: bool,
    files: Vec<Vec<u8>>,
}

impl Plan {
    fn draw(seed: u64) -> Self {
        let random = &mut Random(seed.wrapping_mul(0x9e37_79b9).wrapping_add(7));
        let shape = Shape::ALL[(seed % Shape::ALL.len() as u64) as usize];
        let has_window = shape.has_times() && random.below(3) > 0;
        let window = if has_window { "--window 1h" } else { "--window unbounded" };
        let time = if has_window { shape.time_flags() } else { "" };
        let rejected = if random.below(3) == 0 { "--rejected rejected" } else { "" };
        let late = ["", "--late first-seen", "--late undecided"][random.below(3) as usize];
        let flags =
            format!("{} {time} {window} {rejected} {late} --capacity 2k --fpr 1e-9 --seed {seed}", shape.flags());
        let mut serial = 0;
        let files = (0..1 + random.below(3)).map(|_| damaged(shape, &mut serial, random)).collect();
        Self { flags, shape, has_window, files }
    }
}

/// Returns the lines of `bytes`, each without its line feed.
fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    lines
}

fn counted<'a>(lines: impl Iterator<Item = &'a [u8]>) -> BTreeMap<&'a [u8], u64> {
    let mut counts = BTreeMap::new();
    lines.for_each(|line| *counts.entry(line).or_default() += 1);
    counts
}

/// Returns whether `part` is `whole` without some of its lines.
fn is_subsequence(part: &[&[u8]], whole: &[&[u8]]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|line| rest.any(|other| other == line))
}

fn check(seed: u64, shown: &mut Shown) {
    let plan = Plan::draw(seed);
    let folder = Folder::new();
    let mut names = String::new();
    for (number, file) in plan.files.iter().enumerate() {
        folder.write(&format!("input{number}"), file);
        names += &format!(" input{number}");
    }
    let repeat = format!(
        "seed {seed}: FIRSTSEEN_SEEDS={seed}..{} cargo test -p firstseen-cli --no-default-features --test all nothing_is_lost\n\
         firstseen dedup {}{names}",
        seed + 1,
        plan.flags
    );
    let ran = folder.dedup(&format!("{} --out out --duplicates again --report json {names}", plan.flags));
    let read = |name: &str| std::fs::read(folder.path(name)).unwrap_or_default();
    let (out, again, rejected) = (read("out"), read("again"), read("rejected"));
    shown.runs += 1;
    if ran.code == Some(2) {
        assert!(out.is_empty() && again.is_empty() && rejected.is_empty(), "{repeat}: {}", ran.err);
        shown.refused_runs += 1;
        return;
    }
    assert_eq!(ran.code, Some(0), "{repeat}: {}", ran.err);
    for (reason, count) in ran.report()["unjudged"].as_object().expect("an object") {
        *shown.reasons.entry(reason.clone()).or_default() += count.as_u64().expect("a number");
    }
    // Each file with a header repeats it, and each output has it once.
    let header = plan.shape.header().trim_end().as_bytes();
    let is_record = |line: &&&[u8]| header.is_empty() || **line != header;
    let input: Vec<&[u8]> = plan.files.iter().flat_map(|file| lines(file)).collect();
    let [out, again, rejected] = [&out, &again, &rejected].map(|bytes| lines(bytes));
    let expected = counted(input.iter().filter(is_record).copied());
    let found = counted([&out, &again, &rejected].into_iter().flatten().filter(is_record).copied());
    for (line, count) in &expected {
        let passed = found.get(line).copied().unwrap_or(0);
        assert_eq!(passed, *count, "{repeat}\n{:?} is lost, or comes too often", String::from_utf8_lossy(line));
    }
    assert_eq!(found.len(), expected.len(), "{repeat}\nan output has a line that the input lacks");
    for (output, name) in [(&out, "out"), (&again, "again"), (&rejected, "rejected")] {
        assert!(is_subsequence(output, &input), "{repeat}\n{name} is not in the order of the input");
    }
    check_duplicates(&plan, &input, &out, &again, &repeat, shown);
    (shown.lines, shown.rejected) = (shown.lines + input.len() as u64, shown.rejected + rejected.len() as u64);
}

/// Checks that every duplicate whose key can be read has an earlier record with the same key, within the window, that
/// was passed on.
fn check_duplicates(plan: &Plan, input: &[&[u8]], out: &[&[u8]], again: &[&[u8]], repeat: &str, shown: &mut Shown) {
    // A single quote may join lines into one record, so lines are not records then.
    let is_open = |line: &&&[u8]| line.iter().filter(|byte| **byte == b'"').count() % 2 == 1;
    if plan.shape.has_quotes() && input.iter().any(|line| is_open(&line)) {
        return;
    }
    let place: HashMap<&[u8], usize> = input.iter().enumerate().rev().map(|(place, line)| (*line, place)).collect();
    let mut passed: HashMap<u64, Vec<(usize, u64)>> = HashMap::new();
    let mut damaged: Vec<&[u8]> = Vec::new();
    for line in out {
        match plan.shape.read(line) {
            Some((key, time_s)) => passed.entry(key).or_default().push((place[line], time_s)),
            None => damaged.push(line),
        }
    }
    for line in again.iter().filter(|line| **line != plan.shape.header().trim_end().as_bytes()) {
        shown.duplicates += 1;
        let Some((key, time_s)) = plan.shape.read(line) else { continue };
        shown.checked += 1;
        // Equal lines have the same place, because it is not visible which of them was passed on.
        let is_before = |other: usize| other < place[line] || plan.shape == Shape::Lines;
        let is_near = |other_s: u64| !plan.has_window || time_s.abs_diff(other_s) <= WINDOW_S + SLACK_S;
        let is_equal = |(other, other_s): &(usize, u64)| is_before(*other) && is_near(*other_s);
        let may_be_equal = |other: &&[u8]| is_before(place[other]) && plan.shape.may_have(other, key);
        let is_right = passed.get(&key).is_some_and(|passed| passed.iter().any(is_equal));
        assert!(
            is_right || damaged.iter().any(may_be_equal),
            "{repeat}\n{:?} is called a duplicate of nothing",
            String::from_utf8_lossy(line)
        );
    }
}

/// Returns the seeds that the environment variable asks for.
fn asked() -> Option<Range<u64>> {
    let asked = std::env::var("FIRSTSEEN_SEEDS").ok()?;
    let (start, end) = asked.split_once("..").expect("a range such as 0..5000");
    Some(start.parse().expect("a number")..end.parse().expect("a number"))
}

#[test]
fn every_record_comes_out_and_a_duplicate_only_behind_an_equal_one() {
    let mut shown = Shown::default();
    if let Some(seeds) = asked() {
        return seeds.for_each(|seed| check(seed, &mut shown));
    }
    SEEDS.for_each(|seed| check(seed, &mut shown));
    println!("{shown:?}");
    let Shown { runs, refused_runs, lines, duplicates, checked, rejected, reasons } = &shown;
    assert!(refused_runs * 10 < *runs && *lines > 40 * runs && *rejected > 100, "{shown:?}");
    assert!(*duplicates > 10 * runs && checked * 2 > *duplicates, "{shown:?}");
    for reason in ["missing_field", "invalid_json", "invalid_utf8", "not_a_log_line", "bad_time", "future", "late"] {
        assert!(reasons.contains_key(reason), "{reason} never came: {shown:?}");
    }
}
