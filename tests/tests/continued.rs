//! Tests of `--state` over several runs: which output files may be continued, how, and by which runs.

use std::io::Write;

use crate::local_cluster::eventually;
use crate::run::{Folder, Watchdog};

const CSV: &str = "--format csv --key k --seed 1 --report none --state state --out out.csv";

/// Checks that a run appends correctly to an output file that ends in the middle of a CSV record. The next record must
/// begin on a line of its own. If the incomplete record ends within quotes, a line break would be part of the quoted
/// text, so the run must close the quotes before it writes the line break.
#[test]
fn a_file_that_ends_between_quotes_is_continued_behind_them() {
    for (torn, closed) in [
        ("k,v\n1,\"a\n", "k,v\n1,\"a\n\"\n"),
        ("k,v\n1,\"a\"\"\n", "k,v\n1,\"a\"\"\n\"\n"),
        ("k,v\n1,\"a\n\n", "k,v\n1,\"a\n\n\"\n"),
        ("k,v\n1,\"a\n\"\"", "k,v\n1,\"a\n\"\"\"\n"),
        ("k,v\n1,\"a\n\"\n", "k,v\n1,\"a\n\"\n"),
        ("k,v\n1,a\"\n", "k,v\n1,a\"\n"),
        ("\u{feff}\"k\",v\n1,\"", "\u{feff}\"k\",v\n1,\"\"\n"),
    ] {
        let folder = Folder::with("k,v\n2,\"b\"\n");
        folder.write("out.csv", torn);
        if torn.starts_with('\u{feff}') {
            folder.write("input", "\"k\",v\n2,\"b\"\n");
        }
        folder.dedup(&format!("{CSV} input")).ok();
        assert_eq!(folder.read("out.csv"), format!("{closed}2,\"b\"\n"), "{torn:?}");
    }
}

#[test]
fn a_file_with_another_header_is_not_continued() {
    let folder = Folder::with("k,t\na,1\n");
    folder.dedup(&format!("{CSV} --duplicates again.csv input")).ok();
    folder.write("other", "t,k\n2,b\n");
    let kept = folder.read("out.csv");
    let state = std::fs::read(folder.path("state")).expect("a state");
    let refused = folder.dedup(&format!("{CSV} --duplicates new.csv other")).fails(2, &["out.csv", "`k,t`", "`t,k`"]);
    assert_eq!(refused.err.lines().count(), 1, "there is nothing to report: {}", refused.err);
    folder
        .dedup(&format!("{CSV} --duplicates new.csv other").replace("out.csv", "fresh.csv").replace("new", "again"))
        .fails(2, &["again.csv", "`k,t`", "`t,k`"]);
    assert!(!folder.has("new.csv") && !folder.has("fresh.csv"), "all are looked at before one is written");
    assert_eq!(folder.read("out.csv"), kept);
    assert!(state == std::fs::read(folder.path("state")).expect("a state"));
    // Neither the line end nor a byte order mark belongs to the header.
    folder.write("other", "\u{feff}k,t\r\nb,2\r\n");
    folder.dedup(&format!("{CSV} other")).ok();
    assert_eq!(folder.read("out.csv"), "k,t\na,1\nb,2\r\n");
    // The previous run was killed while it wrote the header.
    folder.write("out.csv", "k,");
    folder.write("other", "k,t\nc,3\n");
    folder.dedup(&format!("{CSV} other")).ok();
    assert_eq!(folder.read("out.csv"), "k,\nk,t\nc,3\n");
    let estimate =
        "estimate --epoch 9events --capacity 100 --format csv --key k --seed 1 --min-estimate 1 --report none";
    folder.write("out.csv", "t,k\n");
    folder.run(&format!("{estimate} --state e --out out.csv other")).fails(2, &["out.csv", "`t,k`", "`k,t`"]);
    assert_eq!((folder.read("out.csv"), folder.has("e")), ("t,k\n".to_owned(), false));
}

/// Checks that two runs cannot use the same state at the same time, because each would overwrite the results of the
/// other.
#[test]
fn a_state_is_kept_by_one_run_at_a_time() {
    let folder = Folder::with("b\n");
    std::os::unix::fs::symlink("state", folder.path("linked")).expect("a link");
    let mut first = folder.start("--state state --out once --report none");
    let _watchdog = Watchdog::of(&first);
    let mut stdin = first.stdin.take().expect("a pipe");
    stdin.write_all(b"a\n").and_then(|()| stdin.flush()).expect("a run that listens");
    eventually("a record", || folder.has("once") && folder.read("once") == "a\n");
    for flags in [
        "dedup --state state",
        "dedup --state ./linked",
        "estimate --epoch 9events --capacity 9 --min-estimate 1 --state state",
    ] {
        let second = folder.run(&format!("{flags} --out twice input"));
        second.fails(2, &["another run keeps this state", "state"]);
    }
    assert!(!folder.has("twice"), "the error comes before anything is written");
    drop(stdin);
    assert!(first.wait().expect("an end").success());
    folder.dedup("--state linked --out once input").ok();
    assert_eq!(folder.read("once"), "a\nb\n");
    assert_eq!(folder.names(), ["input", "linked", "once", "state"], "no lock is left");
}

/// Checks that a lookup can use a state while another run holds it, because a lookup changes nothing.
#[test]
fn a_state_may_be_asked_while_a_run_keeps_it() {
    let folder = Folder::with("a\nb\n");
    folder.write("earlier", "a\n");
    folder.dedup("--state state earlier").ok();
    // With a known format, the run creates its output before the first bytes arrive.
    let mut keeping = folder.start("--format lines --state state --out once");
    let _watchdog = Watchdog::of(&keeping);
    eventually("a run under way", || folder.has("once"));
    assert_eq!(folder.dedup("--lookup --state state input").ok().out, "b\n");
    drop(keeping.stdin.take());
    assert!(keeping.wait().expect("an end").success());
}

/// Checks that an unrelated file with the name of the lock is not changed.
#[test]
fn a_file_with_the_name_of_the_lock_stays() {
    let folder = Folder::with("a\n");
    folder.write("state.lock", "precious\n");
    folder.dedup("--state state input").ok();
    assert_eq!(folder.read("state.lock"), "precious\n");
    folder.dedup("--state new --out new.lock input").fails(2, &["new.lock", "is written twice"]);
}
