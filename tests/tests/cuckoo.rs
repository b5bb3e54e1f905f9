//! Tests of filters of kind `cuckoo`. Runs on real logs check the rate of false positives, and that no duplicate within
//! the window is missed. Other tests cover the default choice of the kind, saved states, the flags that the kind
//! rejects, and the output of `plan`.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::local_cluster::eventually;
use crate::run::{Folder, dedup, example, example_text, number};

const NASA: &str = "--format tsv --key host,url --time time --seed 7 --verify exact --report json --out unread";

fn verified(filter: &str) -> Value {
    let log = example("nasa_19950801.tsv.gz");
    Folder::new().dedup(&format!("{NASA} {filter} {log}")).ok().report()
}

fn text(report: &Value, name: &str) -> String {
    report[name].as_str().unwrap_or_else(|| panic!("no {name} in {report}")).to_owned()
}

/// Returns the kind that a run over two records chooses.
fn kind_of(flags: &str) -> String {
    let folder = Folder::with("k,t\na,1\nb,2\n");
    let ran = folder.dedup(&format!("--format csv --key k --time t {flags} --report json input")).ok();
    let filter = text(&ran.report(), "filter");
    filter.split(',').next().expect("a kind").to_owned()
}

#[test]
fn it_keeps_its_rate_and_misses_nothing() {
    for filter in [
        "--window 1h --capacity 3550",
        "--window 1h --capacity 3550 --rule refresh",
        "--window 1h --capacity 3550 --ticks 60",
        "--window 1h --capacity 3550 --lateness 10m",
        "--window 1h --capacity 3550 --slicing horizontal:2",
        "--window 1h --capacity 500 --growth equal:16",
        "--window 5000events --capacity 4500",
        "--window 1h --memory 70KiB",
    ] {
        let report = verified(&format!("--kind cuckoo {filter}"));
        assert_eq!((number(&report, "fn"), number(&report, "undecided")), (0, 0), "{filter}: {report}");
        assert!(text(&report, "filter").starts_with("cuckoo, "), "{report}");
        let first_tests = (number(&report, "fp") + number(&report, "tn")) as f64;
        let rate = number(&report, "fp") as f64 / first_tests;
        assert!(rate <= 0.01 + 3.29 * (0.01 * 0.99 / first_tests).sqrt(), "{filter}: {rate}");
        assert!(report["expected_fpr"].as_f64().is_some_and(|rate| rate <= 0.01), "{report}");
    }
}

/// Checks filters with 32-bit fingerprints, which call hardly one new event in 10^8 a duplicate.
#[test]
fn nearly_exact_is_a_rate_like_others() {
    for kind in ["", "--kind cuckoo"] {
        let report = verified(&format!("--window 1h --capacity 30k --fpr 1e-8 {kind}"));
        assert_eq!((number(&report, "fp"), number(&report, "fn"), number(&report, "undecided")), (0, 0, 0), "{report}");
        assert!(text(&report, "filter").contains("fingerprints of 32 bits"), "{report}");
        let expected = report["expected_fpr"].as_f64().expect("a rate");
        assert!(expected > 0.0 && expected < 1e-8, "{expected}");
    }
    let log = example("nasa_19950801.tsv.gz");
    let flags = "--format tsv --key host,url --time time --window 1h --capacity 30k --fpr 1e-8 --verify exact --seed 7";
    let ran = Folder::new().dedup(&format!("{flags} --out out --report text {log}")).ok();
    let line = ran.err.lines().find(|line| line.starts_with("expected fpr")).expect("a line");
    assert!(line.contains("e-") && !ran.err.contains("0.0000 %"), "{}", ran.err);
    assert!(ran.err.contains("fpr 0 %"), "{}", ran.err);
    ran.err.lines().for_each(|line| assert!(line.chars().count() <= 100, "{line}"));
}

#[test]
fn the_smaller_kind_is_the_default() {
    for (flags, kind) in [
        ("--window 24h --capacity 1M", "cuckoo"),
        ("--window 24h --capacity 1M --fpr 1e-8", "cuckoo"),
        ("--window 24h --memory 16MiB", "cuckoo"),
        ("--window 24h --capacity 1M --growth equal:4", "cuckoo"),
        ("--window 24h --capacity 1M --rule refresh", "cuckoo"),
        ("--window 24h --capacity 1M --slicing horizontal:4", "cuckoo"),
        ("--window 1000000events", "cuckoo"),
        ("--window 24h --capacity 1k --ticks 16", "cuckoo"),
        ("--window 24h --capacity 1k", "timing"),
        ("--window 24h --capacity 1M --fpr 1e-9", "timing"),
        ("--window 24h", "timing"),
        ("--window 24h --cells 1M", "timing"),
        ("--window 24h --capacity 1M -k 6", "timing"),
        ("--window 24h --capacity 1M --layout classic", "timing"),
        ("--window 24h --capacity 1M --cell-bits 16", "timing"),
        ("--window 24h --capacity 1M --equal-timers 2", "timing"),
        ("--window 24h --capacity 1M --slicing vertical:4", "timing"),
        ("--window 24h --capacity 1M --growth geometric:2", "timing"),
        ("--window unbounded --capacity 1M", "bloom"),
        ("--window landmark:day --capacity 1M", "bloom"),
    ] {
        assert_eq!(kind_of(flags), kind, "{flags}");
    }
}

/// Checks how late records may be if `--lateness` is not given. If the user leaves the choice of the kind to the
/// program, records may be late by an eighth of the window. This holds for every kind that the program may choose. If
/// the user names a kind, the default of that kind applies instead. For example, `--kind cuckoo` then accepts no late
/// records.
#[test]
fn a_default_kind_takes_late_records() {
    let records = |late_ms: u64| format!("t,k\n{},a\n{},b\n{},a\n", 100_000_000, 100_080_000, 100_080_000 - late_ms);
    let passed = |flags: &str, late_ms: u64| {
        let folder = Folder::with(records(late_ms));
        let ran = folder.dedup(&format!("--format csv --key k --time t --window 80s {flags} --report json input")).ok();
        number(&ran.report(), "first_seen")
    };
    // The repetition is 79 s after the first occurrence. It is 10 s late, or not late at all.
    for flags in ["--capacity 1M", "--capacity 1k", "--kind cuckoo --lateness 10s --capacity 1M"] {
        assert_eq!(passed(flags, 10_000), 2, "{flags}");
    }
    let filter = |flags: &str| {
        let folder = Folder::with("t,k\n1,a\n");
        let ran = folder.dedup(&format!("--format csv --key k --time t --window 80s {flags} --report json input")).ok();
        text(&ran.report(), "filter")
    };
    assert!(filter("--capacity 1M").contains(" late"), "{}", filter("--capacity 1M"));
    assert!(!filter("--kind cuckoo --capacity 1M").contains(" late"));
    let stamped = Folder::new().dedup_from("--window 80s --capacity 1M --report json", b"a\na\n").ok();
    assert!(!text(&stamped.report(), "filter").contains(" late"), "what is stamped as it comes is never late");
}

#[test]
fn what_it_has_not_is_refused_with_a_remedy() {
    let folder = Folder::with("k,t\na,1\n");
    for (flags, words) in [
        ("--window 1h --cells 1M", ["no size in cells", "give a capacity"]),
        ("--window 1h --capacity 1k -k 4", ["no number of positions", "leave it out"]),
        ("--window 1h --capacity 1k --layout classic", ["no choice of layout", "leave it out"]),
        ("--window 1h --capacity 1k --cell-bits 16", ["no choice of cell width", "leave it out"]),
        ("--window 1h --capacity 1k --equal-timers 2", ["no equal timers", "use kind timing"]),
        ("--window 1h --capacity 1k --sub-windows 4", ["no sub-windows", "use kind generations"]),
        ("--window 1h --capacity 1k --slicing vertical:4", ["cannot be sliced", "horizontal:S"]),
        ("--window 1h --capacity 1k --slicing horizontal-vertical:2x2", ["cannot be sliced", "horizontal:S"]),
        ("--window unbounded --capacity 1k", ["no window `unbounded`", "use kind bloom"]),
        ("--window landmark:day --capacity 1k", ["no window `landmark:day", "use kind bloom"]),
        ("--window 1h --capacity 1k --fpr 1e-9", ["rate of 1e-9", "give 5.87e-9"]),
        ("--window 1h --capacity 1k --ticks 1000", ["1000 ticks (89 ticks at most)", "choose fewer ticks"]),
        ("--window 1h --capacity 1k --ticks 0", ["window of 0 ticks", "at least 1"]),
        ("--window 1h --capacity 1k --lateness 7d", ["a lateness of 7d", "less lateness"]),
        ("--window 1h", ["does not start small", "how many events a window brings"]),
        ("--window 1h --memory 1KiB", ["too little memory", "at least"]),
        ("--window 1h --capacity 1k --growth geometric:2", ["no growth by density, or in size", "of one size"]),
    ] {
        let ran = folder.dedup(&format!("--kind cuckoo --format csv --key k --time t {flags} --out out input"));
        let ran = ran.fails(2, &words);
        assert_eq!(ran.err.trim_end().lines().count(), 1, "{flags}: {}", ran.err);
        assert!(!folder.has("out"), "{flags}");
    }
    let other = folder.dedup("--kind timing --format csv --key k --time t --window 1h --ticks 9 --out out input");
    other.fails(2, &["kind timing has no choice of ticks", "use kind cuckoo"]);
}

const STATE: &str =
    "--format csv --key k --time t --seed 5 --window 1h --capacity 20k --state state --report json input";

/// Checks that a state keeps the kind with which it was created, even if the same flags would now choose another kind.
#[test]
fn a_state_of_another_kind_is_opened_by_flags_that_name_none() {
    for made in ["--kind timing", "--kind cuckoo", "--kind cuckoo --lateness 450s", ""] {
        let folder = Folder::with("k,t\na,1000\n");
        let first = text(&folder.dedup(&format!("{made} {STATE}")).ok().report(), "filter");
        folder.write("input", "k,t\na,1001\nb,1002\n");
        let report = folder.dedup(STATE).ok().report();
        assert_eq!((number(&report, "duplicates"), text(&report, "filter")), (1, first), "{made}");
        // The error names the other differences, but not the kind.
        let refused = folder.dedup(&STATE.replace("20k", "30k")).fails(2, &["made with --capacity 20000"]);
        assert!(!refused.err.contains("--kind"), "{}", refused.err);
        folder.dedup(&format!("--kind generations {STATE}")).fails(2, &["--kind generations"]);
    }
    let folder = Folder::with("k,t\na,1000\n");
    folder.dedup(&format!("--kind generations {STATE}")).ok();
    folder.dedup(STATE).fails(2, &["made with --kind generations", "here --kind cuckoo"]);
    folder.dedup(&format!("--kind cuckoo --ticks 12 {STATE}")).fails(2, &["made with --kind generations"]);
}

/// Processes the requests of a real log in a run that is killed, and then reads the log again from its beginning.
#[test]
fn a_run_that_is_killed_goes_on_from_its_state() {
    let log = example_text("nasa_19950801.tsv.gz");
    let lines: Vec<&str> = log.lines().skip(1).take(6000).collect();
    let folder = Folder::with(lines.join("\n") + "\n");
    let flags = "--format tsv --no-header --key 1,5 --time 3 --seed 5 --window 30m --capacity 6k --fpr 1e-6 --kind cuckoo \
                 --late duplicate --report none";
    let whole = folder.dedup(&format!("{flags} input")).ok().out;
    let saved = format!("{flags} --state state");
    for cut in [500, 2500, 5000] {
        let out = OpenOptions::new().create(true).append(true).open(folder.path("out")).expect("a file");
        let mut command = dedup(&format!("{saved} --state-every 1ms"));
        let command = command.current_dir(folder.path("")).stdin(Stdio::piped()).stdout(out).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary");
        let fed = lines[..cut].join("\n") + "\n";
        child.stdin.as_mut().expect("a pipe").write_all(fed.as_bytes()).expect("a run that listens");
        let last = lines[..cut].iter().rev().find(|line| whole.contains(**line)).expect("a line that passes");
        eventually("a line that was fed", || folder.read("out").contains(last));
        child.kill().expect("a process");
        child.wait().expect("an end");
    }
    let rest = folder.dedup(&format!("{saved} input")).ok().out;
    let out = folder.read("out") + &rest;
    let mut all = out.lines();
    assert!(whole.lines().all(|line| all.any(|other| other == line)), "something is lost");
}

#[test]
fn a_plan_compares_kinds_and_recommends_one() {
    let folder = Folder::new();
    let plan = |flags: &str| -> Value {
        serde_json::from_str(&folder.run(&format!("plan {flags} --json")).ok().out).expect("one JSON document")
    };
    for (rate, most_bits) in [("0.005", 18.5), ("0.001", 21.0), ("1e-8", 43.0)] {
        let plan = plan(&format!("--capacity 10M --window 24h --fpr {rate}"));
        let filters = plan["filters"].as_array().expect("kinds");
        let row = |kind: &str| filters.iter().find(|row| row["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"));
        for kind in ["bloom", "cuckoo", "generations", "timing", "counting"] {
            let row = row(kind);
            assert!(row["memory_bytes"].as_u64() > Some(0) && row["speed"].is_string(), "{row}");
            assert!(row["when_full"] == "refuses" && row["retention"].is_object(), "{row}");
        }
        let bits = row("cuckoo")["bits_per_event"].as_f64().expect("bits");
        assert!(bits <= most_bits && bits > most_bits - 2.0, "{rate}: {bits}");
        // The command from the plan has the planned properties.
        let command = text(&plan["recommended"], "command");
        let flags = command.strip_prefix("firstseen dedup ").expect("a command");
        let report = folder.dedup_from(&format!("{flags} --report json"), b"a\n").ok().report();
        assert!(text(&report, "filter").starts_with("cuckoo, ") && text(&plan["recommended"], "kind") == "cuckoo");
        assert_eq!(
            report["filter_bytes"].as_u64().map(|bytes| bytes >> 12),
            row("cuckoo")["memory_bytes"].as_u64().map(|bytes| bytes >> 12)
        );
    }
    let shown = folder.run("plan --capacity 10M --window 24h --fpr 0.005").ok().out;
    for words in ["Recommended: kind cuckoo.", "firstseen dedup --kind cuckoo", "18.", "kept too long", "says so"] {
        assert!(shown.contains(words), "no `{words}` in\n{shown}");
    }
    let nodes = folder.run("plan --capacity 10M --window 24h --nodes 3 --failures 1").ok().out;
    assert!(nodes.contains("--kind cuckoo") && nodes.contains("--copies 1"), "{nodes}");
    assert_eq!(
        plan("--capacity 10M --window 24h --kind cuckoo --ticks 60 --lateness 1h")["filters"][0]["kind"],
        "cuckoo"
    );
    folder.run("plan --capacity 10M --window 24h --kind timing --ticks 60").fails(2, &["use kind cuckoo"]);
}

/// Checks that no help text calls this kind exact. Only `--verify exact` and `--confirm exact` are exact.
#[test]
fn no_help_calls_it_exact() {
    for command in ["dedup --help", "dedup -h", "filter create --help", "plan --help"] {
        let help = Folder::new().run(command).ok().out;
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("cuckoo"), "{command}: {help}");
        assert!(!help.contains("cuckoo exact") && !help.contains("exact filter"), "{command}: {help}");
    }
}
