//! Builds that are broken on purpose: one production line of a copy of the sources is changed, the copy is built, and an
//! experiment of that build has points that are out. The sound build has none.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use firstseen_eval::{Run, Scale, named};

/// What a copy of the workspace needs in order to be built.
const SOURCES: [&str; 5] = ["Cargo.toml", "Cargo.lock", "crates", "proto", "tests"];
const SEED: u64 = 1;

/// One line of production code, and what it becomes.
struct Fault {
    file: &'static str,
    sound: &'static str,
    broken: &'static str,
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            copy(&from.join(&name), &to.join(&name));
        }
    } else if !fs::read(to).is_ok_and(|already| already == fs::read(from).unwrap()) {
        // What is the same keeps its time, so that it is not built again.
        fs::copy(from, to).unwrap();
    }
}

/// A copy of the sources with the fault, in a folder of its own.
fn broken_sources(name: &str, fault: &Fault) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let copied = Path::new(env!("CARGO_TARGET_TMPDIR")).join("broken").join(name);
    fs::create_dir_all(&copied).unwrap();
    SOURCES.iter().for_each(|source| copy(&root.join(source), &copied.join(source)));
    let path = copied.join(fault.file);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches(fault.sound).count(), 1, "{} says once: {}", fault.file, fault.sound);
    fs::write(&path, text.replace(fault.sound, fault.broken)).unwrap();
    copied
}

/// What the broken build says of an experiment; `None` where it finds nothing out.
fn judged(sources: &Path, experiment: &str, runs: u32) -> Option<String> {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--offline", "--locked", "--profile", "test", "-p", "firstseen-eval"])
        .args(["--example", "judge", "--", experiment, &SEED.to_string(), &runs.to_string(), "tiny"])
        .current_dir(sources)
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("broken/target"))
        .output()
        .unwrap();
    let (told, trouble) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("points are out"), "it does not run: {told}{trouble}");
    (!output.status.success()).then(|| told.into_owned())
}

#[track_caller]
fn is_flagged(experiment: &str, runs: u32, fault: &Fault) {
    let sound = named(experiment).unwrap().run(&Run::alone(SEED, runs, Scale::Tiny)).unwrap();
    let out: Vec<_> = sound.out().collect();
    assert!(out.is_empty(), "the sound build: {out:#?}");
    let told = judged(&broken_sources(experiment, fault), experiment, runs);
    println!("{}", told.as_deref().unwrap_or_default());
    assert!(told.is_some(), "{experiment} does not notice {}", fault.broken);
}

#[test]
fn a_hash_position_that_is_reused_is_flagged() {
    let fault = Fault {
        file: "crates/filter/src/probe.rs",
        sound: "reduce(self.digest.word(index), self.cells)",
        broken: "reduce(self.digest.word(if index == 1 { 0 } else { index }), self.cells)",
    };
    is_flagged("landmark", 20, &fault);
}

#[test]
fn timers_that_duplicates_refresh_are_flagged() {
    let fault = Fault {
        file: "crates/filter/src/timing/mod.rs",
        sound: "let refreshes = self.timers.refresh == Refresh::Refresh;",
        broken: "let refreshes = true;",
    };
    is_flagged("timers", 4, &fault);
}

#[test]
fn a_threshold_that_is_off_by_one_is_flagged() {
    let fault = Fault {
        file: "crates/routing/src/divided/thresholds.rs",
        sound: "live < policies.thresholds.set_min as usize",
        broken: "live <= policies.thresholds.set_min as usize",
    };
    is_flagged("faults", 20, &fault);
}
