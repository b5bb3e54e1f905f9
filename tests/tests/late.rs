//! Tests of records whose time is far behind or far ahead of the clock.

use serde_json::Value;

use crate::local_cluster::LocalCluster;
use crate::run::{Folder, example, number};

const YEAR_S: u64 = 365 * 86_400;
const NOW_S: u64 = 1_700_000_000;

fn counts(report: &Value) -> [u64; 5] {
    ["events", "first_seen", "duplicates", "undecided", "late"].map(|name| number(report, name))
}

fn record(time_s: u64, key: &str) -> String {
    format!("{time_s},{key}\n")
}

#[test]
fn time_that_falls_back_by_a_year_is_late() {
    let input = ["t,k\n".to_owned(), record(NOW_S, "a"), record(NOW_S - YEAR_S, "a"), record(NOW_S + 1, "a")].concat();
    let folder = Folder::with(&input);
    for (late, kept, expected) in
        [("first-seen", 2, [3, 2, 1, 0, 1]), ("duplicate", 1, [3, 1, 2, 0, 1]), ("undecided", 2, [3, 1, 1, 1, 1])]
    {
        for window in ["--window 1h", "--window 1h --kind generations --capacity 100", "--window landmark:day"] {
            let ran =
                folder.dedup(&format!("--format csv --key k --time t {window} --late {late} --report json input"));
            let ran = ran.ok();
            assert_eq!(counts(&ran.report()), expected, "{window} --late {late}");
            assert_eq!(ran.out.lines().count(), 1 + kept, "{window} --late {late}");
        }
    }
    let ran = folder.dedup("--format csv --key k --time t --window 1h --report json input").ok();
    assert_eq!(counts(&ran.report()), [3, 2, 1, 0, 1], "first-seen is what nobody need ask for");
}

/// Regression test for a saved state that is continued with the same input file. For the second run, all records of the
/// file are late, and late records are passed on by default, so the output contained every record a second time. In an
/// earlier version, the message advised to sort the file, which does not help. The message must now recommend `--late
/// duplicate`, which drops these records.
#[test]
fn records_that_an_earlier_run_has_read_can_be_dropped() {
    let input: String = (0..50).map(|day| record(NOW_S + day * 86_400, &format!("key{day}"))).collect();
    let folder = Folder::with(&input);
    let flags = "--format csv --no-header --key 2 --time 1 --window 1h --capacity 1k --state seen.fs input";
    assert_eq!(folder.dedup(flags).ok().out, input);
    let again = folder.dedup(flags).ok();
    assert!(
        again.err.contains("if an earlier run has read these records, drop them with --late duplicate"),
        "{}",
        again.err
    );
    assert!(!again.err.contains("oldest"), "the order of the file is not the reason: {}", again.err);
    assert_eq!(folder.dedup(&format!("--late duplicate {flags}")).ok().out, "");
}

/// Regression test. The same log was sent to a filter of a cluster a second time. The message advised to feed the
/// oldest records first, and with `--late duplicate` a notice advised to sort the log or to use a filter with a
/// lateness of 59 s, although the filter has a lateness of 3 hours.
#[test]
fn a_log_that_a_cluster_has_read_before_is_named_as_the_reason() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 1");
    cluster.create(&folder, "clicks", "--window 24h --capacity 40k").ok();
    let at = cluster.addresses();
    let flags = format!("--cluster {at} --filter clicks --format clf {}", example("apache_logs.gz"));
    folder.dedup(&format!("--out once {flags}")).ok();
    let said = [
        "an earlier run, or another producer, has moved the clock of the filter",
        "--late duplicate",
        "--late first-seen",
        "a filter of their own",
    ];
    let again = folder.dedup(&format!("--out twice {flags}")).fails(2, &said);
    assert!(!folder.has("twice"), "nothing is written");
    assert!(!again.err.contains("oldest") && !again.err.contains("--lateness"), "{}", again.err);
    for (late, lines) in [("duplicate", 0), ("first-seen", 1)] {
        let ran = folder.dedup(&format!("--out twice --late {late} --report text {flags}")).ok();
        let helps = ["oldest", "sort", "greater --lateness"].iter().any(|word| ran.err.contains(word));
        assert!(!helps, "{late}: {}", ran.err);
        assert!(folder.read("twice").lines().count() >= lines, "{late}");
    }
}

#[test]
fn nothing_is_set_by_a_late_record() {
    let late = NOW_S - YEAR_S;
    let input = [record(NOW_S, "a"), record(late, "b"), record(late, "b"), record(NOW_S, "b")].concat();
    let ran = Folder::with(input).dedup("--format csv --no-header --key 2 --time 1 --window 1h --report json input");
    assert_eq!(counts(&ran.ok().report()), [4, 4, 0, 0, 2]);
}

#[test]
fn records_out_of_order_within_the_lateness_are_judged_exactly() {
    let input =
        [record(NOW_S, "a"), record(NOW_S - 240, "b"), record(NOW_S - 200, "b"), record(NOW_S - 120, "a")].concat();
    let folder = Folder::with(input);
    let ran = folder.dedup("--format csv --no-header --key 2 --time 1 --window 1h --lateness 5m --report json input");
    assert_eq!(counts(&ran.ok().report()), [4, 2, 2, 0, 0]);
}

/// Checks a record that is later than the lateness allows and therefore gets a wrong verdict. The record repeats a key
/// that occurred less than an hour earlier, so within a window of an hour it should be a duplicate.
///
/// However, the filter cannot go back further than the lateness. It treats the record as if its time were the earliest
/// that the lateness allows. Measured from this wrong time, the first occurrence of the key is more than an hour ago,
/// so the verdict is first-seen. The report must explain this.
#[test]
fn what_comes_later_than_the_lateness_allows_is_counted_and_explained() {
    let times = [("a", NOW_S - 5000), ("z", NOW_S), ("a", NOW_S - 1500)];
    let input: String = times.iter().map(|(key, time_s)| record(*time_s, key)).collect();
    let folder = Folder::with(&input);
    let flags = "--format csv --no-header --key 2 --time 1 --window 1h --future-max 2h input";
    for (lateness, expected, past) in [("", [3, 3, 0, 0, 0], 1), ("--lateness 30m", [3, 2, 1, 0, 0], 0)] {
        let report = folder.dedup(&format!("{flags} {lateness} --report json")).ok().report();
        assert_eq!((counts(&report), number(&report, "past_lateness")), (expected, past), "{lateness}");
    }
    let got = folder.dedup(&format!("{flags} --report text")).ok().err;
    let got = got.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        got.contains("past lateness 1: later than --lateness allows, the latest about 25m 18s after younger"),
        "{got}"
    );
    assert!(got.contains("repeats may have passed as first-seen; a greater --lateness judges them exactly"), "{got}");
    let got = folder.dedup(&format!("{flags} --lateness 30m --report text")).ok().err;
    assert!(!got.contains("past lateness"), "{got}");
}

#[test]
fn the_report_says_what_became_of_late_records_and_which_flag_helps() {
    let folder = Folder::with([record(NOW_S, "a"), record(NOW_S - YEAR_S, "b")].concat());
    for (flags, words) in [
        (
            "--window 1h",
            ["window and --lateness together: passed on and not remembered", "a greater --lateness judges"],
        ),
        (
            "--window 1h --late duplicate",
            ["dropped, also where they had never been seen", "a greater --lateness judges"],
        ),
        (
            "--window 1h --late undecided",
            ["passed on, not remembered, and counted as undecided", "a greater --lateness"],
        ),
        (
            "--window 1h --kind counting --capacity 100",
            ["passed on and not remembered", "--kind timing with a sufficient"],
        ),
        ("--window landmark:day", ["late 1: of before the last landmark: passed on", "(--late first-seen)"]),
    ] {
        let got =
            folder.dedup(&format!("--format csv --no-header --key 2 --time 1 {flags} --report text input")).ok().err;
        let got = got.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.iter().all(|words| got.contains(words)), "{flags}: {got}");
        assert_eq!(got.contains("judges more of them"), !flags.contains("landmark"), "{flags}: {got}");
    }
}

#[test]
fn a_record_far_in_the_future_is_rejected_with_its_place() {
    let far = NOW_S + 8 * 86_400;
    let lines = [record(NOW_S, "a"), record(far, "b"), record(NOW_S + 5, "a"), record(NOW_S + 5, "c")];
    let folder = Folder::with(lines.concat());
    let flags = "--format csv --no-header --key 2 --time 1 --window 1h --report json --rejected rejected input";
    let ran = folder.dedup(flags).ok();
    assert!(ran.err.contains("input:2: rejected: ") && ran.err.contains("--future-max"), "{}", ran.err);
    assert_eq!(counts(&ran.report()), [3, 2, 1, 0, 0], "the clock was not moved by it");
    assert_eq!((number(&ran.report(), "rejected"), folder.read("rejected")), (1, lines[1].clone()));
    let ran = folder.dedup(&format!("--future-max 9d {flags}")).ok();
    assert_eq!(number(&ran.report(), "rejected"), 0);
    folder.dedup(&format!("--strict {flags}")).fails(2, &["input:2"]);
}
