//! Measures false positives and false negatives on real logs with `--verify exact`, using filters that are nearly full.

use serde_json::Value;

use crate::run::{Folder, example, number};

const NASA: &str = "--format tsv --key host,url --time time nasa_19950801.tsv.gz";
const APACHE: &str = "--format clf --key host,request apache_logs.gz";
const LINKS: &str = "--format tsv --no-header --key 2 --time 1 outlinks_20080430.tsv.gz";
const TARGET: f64 = 0.01;

fn verified(log: &str, filter: &str) -> Value {
    let (flags, file) = log.rsplit_once(' ').expect("flags and a file");
    let file = example(file);
    let flags = format!("{flags} {filter} --fpr {TARGET} --seed 7 --verify exact --report json --out unread {file}");
    Folder::new().dedup(&flags).ok().report()
}

/// Checks on a real log that a filter keeps its promised rate of false positives even when it is nearly full. A full
/// filter is the worst case, because false positives become more frequent as more cells are set. To fill the filter,
/// the test sets its capacity only slightly above the number of events that a window of the log contains.
fn check_false_positive_bound(log: &str, filter: &str, least_rate: f64) {
    let report = verified(log, filter);
    assert_eq!((number(&report, "fn"), number(&report, "undecided")), (0, 0), "{filter}: {report}");
    let first_tests = (number(&report, "fp") + number(&report, "tn")) as f64;
    let rate = number(&report, "fp") as f64 / first_tests;
    let error = 3.29 * (TARGET * (1.0 - TARGET) / first_tests).sqrt();
    assert!(rate <= TARGET + error, "{filter}: {rate} of {first_tests}");
    assert!(rate >= least_rate, "{filter}: {rate} of {first_tests} would not show a bound that is broken");
    let reported = report["fpr"].as_f64().expect("fpr");
    assert!((reported - rate).abs() < 1e-9, "{filter}: {reported} is not fp / (fp + tn)");
}

#[test]
fn unbounded() {
    check_false_positive_bound(NASA, "--window unbounded --capacity 26500", 0.001);
    check_false_positive_bound(LINKS, "--window unbounded --capacity 16800 --layout classic", 0.001);
}

#[test]
fn landmark() {
    check_false_positive_bound(NASA, "--window landmark:day --capacity 26500", 0.001);
    check_false_positive_bound(NASA, "--window landmark:1d --capacity 26500 --layout partitioned", 0.001);
    check_false_positive_bound(NASA, "--window landmark:5000events --capacity 4500", 0.0005);
    check_false_positive_bound(APACHE, "--window landmark:day --capacity 2450 --layout classic", 0.0002);
}

#[test]
fn jumping() {
    check_false_positive_bound(NASA, "--kind generations --window 1h --capacity 3500", 0.0007);
    check_false_positive_bound(NASA, "--kind generations --window 5000events --capacity 4500", 0.0007);
    check_false_positive_bound(
        APACHE,
        "--kind generations --window 5000events --capacity 4100 --layout classic",
        0.0005,
    );
    check_false_positive_bound(NASA, "--kind counting --window 1h --capacity 3500", 0.001);
    check_false_positive_bound(NASA, "--kind counting --window 5000events --sub-windows 5 --capacity 4500", 0.002);
}

#[test]
fn sliding() {
    check_false_positive_bound(NASA, "--window 1h --capacity 3550", 0.002);
    check_false_positive_bound(NASA, "--window 5000events --capacity 4500 --layout classic", 0.003);
    check_false_positive_bound(APACHE, "--window 5000events --capacity 4100", 0.002);
    check_false_positive_bound(LINKS, "--window 5m --capacity 16900 --cell-bits 16", 0.001);
    check_false_positive_bound(NASA, "--kind counting --window 5000events", 0.002);
}

#[test]
fn growth_keeps_the_bound_of_the_whole() {
    check_false_positive_bound(NASA, "--window 1h --capacity 500 --growth equal:16", 0.0001);
    check_false_positive_bound(NASA, "--window unbounded --capacity 500 --growth geometric:2", 0.0001);
}

/// Checks that a filter beyond its capacity refuses events before its error rate rises.
#[test]
fn overload_is_undecided_and_passed_on() {
    for filter in [
        "--window unbounded --capacity 5000",
        "--window 1h --capacity 1000",
        "--window 1h --kind generations --capacity 1000",
        "--window 1h --kind counting --capacity 1000",
    ] {
        let report = verified(NASA, filter);
        assert!(number(&report, "undecided") > 1000, "{filter}: {report}");
        assert_eq!(number(&report, "fn"), 0, "{filter}: {report}");
        // The rate is over all events that were not true positives. Undecided events are included, because they were
        // looked up too.
        let rate = number(&report, "fp") as f64 / (33_996 - number(&report, "tp")) as f64;
        assert!(rate < 0.011, "{filter}: {rate}, {report}");
    }
}

/// Checks that a filter keeps its promised rate of false positives during a burst, when many events arrive within a
/// short time. A filter that recorded all of these events would become too full to keep the rate. It is therefore
/// allowed to leave some of them undecided.
#[test]
fn bursts_keep_the_bound() {
    for (log, filter) in [
        (APACHE, "--kind generations --window 1h --capacity 178"),
        (LINKS, "--kind generations --window 5m --capacity 13956"),
        (APACHE, "--kind counting --window 1h --capacity 178"),
    ] {
        let report = verified(log, filter);
        let rate = report["fpr"].as_f64().expect("fpr");
        assert!(rate <= TARGET * 1.35, "{filter}: {rate}");
    }
}
