//! Tests that experiments detect errors in the production code. Each test changes one production line in a copy of the
//! sources. It then runs an experiment with two builds of the copy: one with the changed line, and one without the
//! change. With the changed line, the series that depend on it must contain points outside the range that their formula
//! permits. Without the change, they must contain none.
//!
//! Some rules of cuckoo filters cannot be switched off for an experiment. Lines for these rules are changed in the same
//! way, but then tests of the filter must fail.
//!
//! All builds of these tests use a single copy of the sources, one after the other. Two copies would contain packages
//! of the same names and share a target folder, so Cargo could mistake the build of one copy for that of the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Files that a copy of the workspace needs to be built, including the tests of the filter.
const SOURCES: [&str; 8] = ["Cargo.toml", "Cargo.lock", "crates", "docs", "examples", "fuzz", "proto", "tests"];
const SEED: u64 = 1;

/// Line of production code, its replacement, and the series that must notice the change.
struct Fault {
    file: &'static str,
    sound: &'static str,
    broken: &'static str,
    experiment: &'static str,
    runs: u32,
    /// Panels and series that must have points outside the range that their formula permits.
    flagged: &'static [(&'static str, &'static str)],
}

const FAULTS: [Fault; 3] = [
    Fault {
        file: "crates/filter/src/probe.rs",
        sound: "reduce(self.digest.word(index), self.cells)",
        broken: "reduce(self.digest.word(if index == 1 { 0 } else { index }), self.cells)",
        experiment: "landmark",
        runs: 20,
        flagged: &[
            ("Errors over a landmark window", "measured, classic"),
            ("Errors over a landmark window", "measured, partitioned"),
        ],
    },
    Fault {
        file: "crates/filter/src/timing/mod.rs",
        sound: "let refreshes = self.timers.refresh == Refresh::Refresh;",
        broken: "let refreshes = true;",
        experiment: "timers",
        runs: 4,
        flagged: &[("Repeats called duplicates, by age", "measured")],
    },
    Fault {
        file: "crates/routing/src/group/thresholds.rs",
        sound: "voting < policies.thresholds.set_min as usize",
        broken: "voting <= policies.thresholds.set_min as usize",
        experiment: "faults",
        runs: 20,
        flagged: &[
            ("Figure 5(d): errors by threshold", "measured, false positives (strict)"),
            ("Figure 5(d): errors by threshold", "measured, false negatives (strict)"),
            ("Figure 5(d), over a stream", "measured, strict rule (ours)"),
        ],
    },
];

/// A line of code on which a guarantee of cuckoo filters depends, its replacement, and a test of `crates/filter` that
/// must fail with the replacement. The guarantee that an entry never leaves its region is not tested in this way. The
/// code that moves entries has access to only one region, so no single line can break this guarantee.
struct BrokenRule {
    rule: &'static str,
    file: &'static str,
    sound: &'static str,
    broken: &'static str,
    noticed_by: &'static str,
}

const RULES: [BrokenRule; 4] = [
    BrokenRule {
        rule: "an entry moves to its own other bucket",
        file: "crates/filter/src/cuckoo/region.rs",
        sound: "let moves = self.make_room(partner, relocations - 1);",
        broken: "let partner = (partner + 1) % REGION_BUCKETS; let moves = self.make_room(partner, relocations - 1);",
        noticed_by: "cuckoo_regions::a_region_takes_nearly_as_many_entries_as_it_has_slots_and_loses_none",
    },
    BrokenRule {
        rule: "a merge keeps the greater expiry",
        file: "crates/filter/src/cuckoo/merge.rs",
        sound: "region.put(entry.bucket, entry.print, entry.expiry)",
        broken: "region.put(entry.bucket, entry.print, entry.expiry.before(1).max(self.base.after(1)))",
        noticed_by: "cuckoo_copies::copies_that_go_on_between_merges_answer_as_the_models_do",
    },
    BrokenRule {
        rule: "a sweep frees what has expired, and no more",
        file: "crates/filter/src/cuckoo/mod.rs",
        sound: "ring.expire_later(base, next, shape, lanes);",
        broken: "ring.expire_later(base, next.after(1), shape, lanes);",
        noticed_by: "cuckoo::an_event_is_alive_for_exactly_its_span_at_every_base",
    },
    BrokenRule {
        rule: "a copy has the entries of the stash",
        file: "crates/filter/src/cuckoo/view.rs",
        sound: "entries.filter(move |entry| entry.expiry > self.base)",
        broken: "entries.filter(move |entry| entry.expiry > self.base).take(0)",
        noticed_by: "cuckoo_copies::a_merge_without_room_loses_nothing_that_was_there",
    },
];

/// Lock that makes the tests take turns, because they share one folder.
static FOLDER: Mutex<()> = Mutex::new(());

/// Returns a folder for copies and their builds.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("broken").join(name)
}

/// Makes the folder `to` equal to `from`.
fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        let names = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        names(from).for_each(|name| copy(&from.join(&name), &to.join(&name)));
        for gone in names(to).map(|name| (from.join(&name), to.join(&name))).filter(|(from, _)| !from.exists()) {
            if gone.1.is_dir() { fs::remove_dir_all(gone.1) } else { fs::remove_file(gone.1) }.unwrap();
        }
    } else if !fs::read(to).is_ok_and(|already| already == fs::read(from).unwrap()) {
        // A file that is already equal keeps its modification time, so that it is not built again.
        fs::copy(from, to).unwrap();
    }
}

/// Makes the copy equal to the sources, except for one file in which a text is replaced.
fn sources(change: Option<(&str, [&str; 2])>) {
    let (root, copied) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), folder("sources"));
    fs::create_dir_all(&copied).unwrap();
    SOURCES.iter().for_each(|source| copy(&root.join(source), &copied.join(source)));
    let Some((file, [sound, broken])) = change else { return };
    let text = text_with(file, sound);
    fs::write(copied.join(file), text.replace(sound, broken)).unwrap();
}

/// Returns the text of a source file, which must contain the line exactly once.
fn text_with(file: &str, sound: &str) -> String {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap();
    assert_eq!(text.matches(sound).count(), 1, "{file} says once: {sound}");
    text
}

/// Returns the environment variables for the builds of a copy. Builds are incremental to save time, because each
/// differs from the previous one by a single line. The environment of the test binary is cleared where it would change
/// the compiler's fingerprint (see .ci/timed).
fn build_environment() -> [(&'static str, PathBuf); 2] {
    [("CARGO_TARGET_DIR", folder("target")), ("CARGO_INCREMENTAL", PathBuf::from("1"))]
}

/// Returns whether a test of `crates/filter` passes in the copy, and its output.
fn passes(test: &str) -> (bool, String) {
    let output = Command::new(env!("CARGO"))
        .args(["test", "--quiet", "--offline", "--locked", "-p", "firstseen-filter", "--test", "all", "--"])
        .args(["--exact", test])
        .current_dir(folder("sources"))
        .envs(build_environment())
        .env_remove("RUSTC_BOOTSTRAP")
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(printed.contains("running 1 test"), "{test} does not run: {printed}");
    (output.status.success(), printed)
}

/// Returns the points outside their permitted range when the copy runs the experiment of the fault, one line per point.
fn points_out(fault: &Fault) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--offline", "--locked", "--profile", "test", "-p", "firstseen-eval"])
        .args(["--example", "judge", "--", fault.experiment, &SEED.to_string(), &fault.runs.to_string(), "tiny"])
        .current_dir(folder("sources"))
        .envs(build_environment())
        .env_remove("RUSTC_BOOTSTRAP")
        .output()
        .unwrap();
    let (printed, trouble) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{printed}");
    let mut lines: Vec<String> = printed.lines().map(str::to_owned).collect();
    let summary = lines.pop().unwrap_or_default();
    assert!(summary.contains("points are out"), "it does not run: {printed}{trouble}");
    assert_eq!(output.status.success(), lines.is_empty(), "{printed}{trouble}");
    lines
}

/// Checks that the lines which the long tests break still exist. This test is quick, so anyone who changes such a line
/// learns it at once.
#[test]
fn every_line_to_be_broken_is_in_the_sources_once() {
    FAULTS.iter().for_each(|fault| drop(text_with(fault.file, fault.sound)));
    RULES.iter().for_each(|rule| drop(text_with(rule.file, rule.sound)));
}

#[test]
#[ignore = "minutes: it builds five times"]
fn every_broken_rule_of_fingerprints_is_noticed() {
    let _turn = FOLDER.lock().unwrap_or_else(PoisonError::into_inner);
    sources(None);
    for BrokenRule { noticed_by, .. } in &RULES {
        let (is_sound, printed) = passes(noticed_by);
        assert!(is_sound, "the sound build: {printed}");
    }
    for BrokenRule { rule, file, sound, broken, noticed_by } in &RULES {
        sources(Some((file, [sound, broken])));
        assert!(!passes(noticed_by).0, "{noticed_by} does not notice that {rule} no longer");
    }
}

#[test]
#[ignore = "minutes: it builds four times"]
fn every_broken_line_is_flagged_by_the_series_that_rest_on_it() {
    let _turn = FOLDER.lock().unwrap_or_else(PoisonError::into_inner);
    sources(None);
    for fault in &FAULTS {
        let out = points_out(fault);
        assert!(out.is_empty(), "the sound build: {out:#?}");
    }
    for fault in &FAULTS {
        sources(Some((fault.file, [fault.sound, fault.broken])));
        let out = points_out(fault);
        for (panel, series) in fault.flagged {
            let (panel, series) = (format!("{}, {panel}", fault.experiment), format!(", {series}, at "));
            let is_flagged = out.iter().any(|line| line.starts_with(&panel) && line.contains(&series));
            assert!(is_flagged, "{panel}{series} does not notice {}: {out:#?}", fault.broken);
        }
    }
}
