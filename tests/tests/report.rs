//! Tests of the report: the names of its fields, where it is written, and its list of conspicuous keys.

use serde_json::Value;

use crate::run::{Folder, example, number};

const NAMES: [&str; 10] = [
    "events",
    "first_seen",
    "duplicates",
    "late",
    "rejected",
    "filter_bytes",
    "bits_per_event",
    "expected_fpr",
    "seconds",
    "events_per_s",
];
const VERIFIED: [&str; 10] = ["tp", "fp", "tn", "fn", "not_compared", "fpr", "fnr", "f1", "fpr_events", "top_keys"];

#[test]
fn json_is_one_document_with_the_promised_names() {
    let folder = Folder::with("a\nb\na\na\n");
    let ran = folder.dedup("--report json --verify exact input").ok();
    assert_eq!(ran.err.lines().count(), 1);
    let report: Value = serde_json::from_str(&ran.err).expect("one JSON document");
    for name in NAMES {
        assert!(report[name].is_number(), "{name} in {report}");
    }
    for name in VERIFIED {
        assert!(!report[name].is_null(), "{name} in {report}");
    }
    assert_eq!(["events", "first_seen", "duplicates"].map(|name| number(&report, name)), [4, 2, 2]);
    assert_eq!((&report["tp"], &report["tn"], &report["f1"]), (&2.into(), &2.into(), &1.0.into()));
    assert_eq!((&report["top_keys"][0]["key"], &report["top_keys"][0]["count"]), (&"a".into(), &2.into()));
    let plain = folder.dedup("--report json input").ok().report();
    assert!(VERIFIED[..9].iter().all(|name| plain.get(name).is_none()), "{plain}");
}

#[test]
fn the_report_goes_where_it_is_sent() {
    let folder = Folder::with("a\nb\na\n");
    let ran = folder.dedup("--report json --report-file report input").ok();
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("a\nb\n", ""));
    let report: Value = serde_json::from_str(&folder.read("report")).expect("one JSON document");
    assert_eq!(number(&report, "events"), 3);
    folder.dedup("--report text --report-file report input").ok();
    assert!(folder.read("report").contains("first seen"), "{}", folder.read("report"));
    assert_eq!(folder.dedup("--report none input").ok().err, "");
}

#[test]
fn the_text_has_the_figures_that_people_need() {
    let log = example("nasa_19950801.tsv.gz");
    let flags = "--format tsv --key host,url --time time --window 1h --source host --verify exact --seed 5 --out out";
    let ran = Folder::new().dedup(&format!("{flags} --report text {log}")).ok();
    for words in [
        "events         33,996",
        "first seen",
        "duplicates",
        "memory",
        "bits an event",
        "expected fpr",
        "events/s",
        "seed 5",
        "UTC",
        "window 1h",
        "fn 0",
        "f1",
        "most repeated keys",
        "edams.ksc.nasa.gov /ksc.html",
        "sources with most duplicates",
        "sources with most first-seen",
    ] {
        assert!(ran.err.contains(words), "`{words}` is not in:\n{}", ran.err);
    }
    let figures = ran.err.lines().take_while(|line| !line.starts_with("most repeated"));
    figures.for_each(|line| assert!(line.chars().count() <= 100, "{line}"));
}

#[test]
fn a_full_filter_says_what_to_do() {
    let input: String = (0..500).map(|event| format!("{event}\n")).collect();
    let ran = Folder::with(input).dedup("--capacity 100 --report text input").ok();
    assert!(ran.err.contains("undecided") && ran.err.contains("--capacity"), "{}", ran.err);
}

/// Checks the report about a client that repeats itself, and about a client that sends a new cookie every time.
#[test]
fn scripts_that_delete_cookies_stand_out_among_the_first_seen() {
    let mut input = "ip,cookie\n".to_owned();
    for event in 0..3000 {
        input += &format!("10.0.{}.{},c{}\n", event % 7, event % 200, event % 1000);
        input += &format!("6.6.6.6,fresh{event}\n");
        input += "7.7.7.7,same\n";
    }
    let folder = Folder::with(input);
    let report = folder.dedup("--format csv --key ip,cookie --source ip --report json input").ok().report();
    let top = |name: &str| (report[name][0]["key"].clone(), report[name][0]["count"].clone());
    assert_eq!(top("top_sources_first_seen"), ("6.6.6.6".into(), 3000.into()));
    assert_eq!(top("top_sources_duplicates"), ("7.7.7.7".into(), 2999.into()));
    assert_eq!(top("top_keys"), ("7.7.7.7 same".into(), 2999.into()));
    for name in ["top_sources_first_seen", "top_sources_duplicates", "top_keys"] {
        let rows = report[name].as_array().expect("a list").len();
        assert!((1..=10).contains(&rows), "{name} has {rows} rows");
    }
    let without = folder.dedup("--format csv --key ip,cookie --report json input").ok().report();
    assert!(without.get("top_sources_duplicates").is_none());
}

#[test]
fn keys_cannot_steer_a_terminal() {
    let ran = Folder::with("\x1b[2Jevil\n\x1b[2Jevil\n").dedup("--out out --report text input").ok();
    assert!(ran.err.contains("evil") && !ran.err.contains('\x1b'), "{:?}", ran.err);
}
