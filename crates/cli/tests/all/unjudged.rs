//! Tests that records which cannot be judged are passed on in their place, counted by reason, and reported together
//! with what helps.

use serde_json::{Value, json};

use crate::run::{Folder, number};

/// An input with a record that cannot be judged between judged records, its flags, and the name of the reason.
struct Case {
    reason: &'static str,
    flags: &'static str,
    input: &'static str,
    /// Lines of the records that cannot be judged.
    unjudged: &'static [&'static str],
}

/// Test cases. Each input has one judged record before and one after the record that cannot be judged, and one repeat
/// at its end.
const CASES: &[Case] = &[
    Case {
        reason: "missing_field",
        flags: "--format csv --no-header --key 2",
        input: "1,a\nx\n2,b\n3,a\n",
        unjudged: &["x"],
    },
    Case {
        reason: "missing_field",
        flags: "--format jsonl --key id",
        input: "{\"id\":1}\n{\"other\":1}\n{}\n{\"id\":2}\n{\"id\":1}\n",
        unjudged: &["{\"other\":1}", "{}"],
    },
    Case {
        reason: "no_key",
        flags: "--format jsonl --key id",
        input: "{\"id\":1}\n{\"id\":\"\"}\n{\"id\":null}\n{\"id\":2}\n{\"id\":1}\n",
        unjudged: &["{\"id\":\"\"}", "{\"id\":null}"],
    },
    Case {
        reason: "missing_field",
        flags: "--format tsv --no-header --key 1 --time 2 --window 1h",
        input: "a\t1700000000\nb\nc\t1700000001\na\t1700000002\n",
        unjudged: &["b"],
    },
    Case {
        reason: "bad_time",
        flags: "--format csv --no-header --key 1 --time 2 --window 1h",
        input: "a,1700000000\nb,soon\nc,1700000001\na,1700000002\n",
        unjudged: &["b,soon"],
    },
    Case {
        reason: "bad_time",
        flags: "--format jsonl --key k --time t --window 1h",
        input: "{\"k\":1,\"t\":1700000000}\n{\"k\":2,\"t\":\"2024-13-01T00:00:00Z\"}\n{\"k\":3,\"t\":1700000001}\n{\"k\":1,\"t\":1700000002}\n",
        unjudged: &["{\"k\":2,\"t\":\"2024-13-01T00:00:00Z\"}"],
    },
    Case {
        reason: "invalid_json",
        flags: "--format jsonl --key id",
        input: "{\"id\":1}\nplain text\n{\"id\":\n{\"id\":2}\n{\"id\":1}\n",
        unjudged: &["plain text", "{\"id\":"],
    },
    Case {
        reason: "not_an_object",
        flags: "--format jsonl --key id",
        input: "{\"id\":1}\n[1]\n7\n{\"id\":2}\n{\"id\":1}\n",
        unjudged: &["[1]", "7"],
    },
    Case {
        reason: "not_a_log_line",
        flags: "--format clf --window 1h",
        input: "h - - [10/Oct/2024:13:55:36 +0000] \"GET / HTTP/1.1\" 200 1\n[error] no log line\n\
                g - - [10/Oct/2024:13:55:37 +0000] \"GET / HTTP/1.1\" 200 1\n\
                h - - [10/Oct/2024:13:55:38 +0000] \"GET / HTTP/1.1\" 200 1\n",
        unjudged: &["[error] no log line"],
    },
    Case {
        reason: "not_an_index_line",
        flags: "--format cdxj",
        input: "com,a)/ 20240101000000 {}\nnothing\ncom,b)/ 20240101000000 {}\ncom,a)/ 20240101000001 {}\n",
        unjudged: &["nothing"],
    },
    Case {
        reason: "unclosed_quote",
        flags: "--format csv --no-header --key 1",
        input: "a,1\n\"b,1\nc,1\na,2\n",
        unjudged: &["\"b,1"],
    },
    Case {
        reason: "future",
        flags: "--format csv --no-header --key 1 --time 2 --window 1h",
        input: "a,1700000000\nb,1800000000\nc,1700000001\na,1700000002\n",
        unjudged: &["b,1800000000"],
    },
    Case {
        reason: "late",
        flags: "--format csv --no-header --key 1 --time 2 --window 1h",
        input: "a,1700000000\nb,1600000000\nb,1600000000\nc,1700000001\na,1700000002\n",
        unjudged: &["b,1600000000", "b,1600000000"],
    },
    Case {
        reason: "late",
        flags: "--format csv --no-header --key 1 --time 2 --window landmark:day",
        input: "a,1700000000\nb,1690000000\nc,1700000001\na,1700000002\n",
        unjudged: &["b,1690000000"],
    },
];

fn report(err: &str) -> Value {
    let line = err.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("no report in {err}"));
    serde_json::from_str(line).expect("JSON")
}

/// Returns the input without its last record, which repeats the first record.
fn without_repeat(input: &str) -> String {
    let lines: Vec<&str> = input.lines().collect();
    lines[..lines.len() - 1].iter().map(|line| format!("{line}\n")).collect()
}

/// Returns the judged records of `input`, without the repeat at its end.
fn judged(case: &Case) -> String {
    let is_judged = |line: &&str| !case.unjudged.contains(line);
    without_repeat(case.input).lines().filter(is_judged).map(|line| format!("{line}\n")).collect()
}

/// Such records used to be removed from the output, and later were not in the right order relative to judged records.
#[test]
fn what_cannot_be_judged_is_passed_on_in_its_place() {
    for case in CASES {
        let folder = Folder::with(case.input);
        let ran = folder.dedup(&format!("{} --duplicates again --report json input", case.flags)).ok();
        assert_eq!(ran.out, without_repeat(case.input), "{}: {}", case.reason, ran.err);
        assert_eq!(folder.read("again").lines().count(), 1, "{}", case.reason);
        let count = case.unjudged.len() as u64;
        assert_eq!(report(&ran.err)["unjudged"], json!({ case.reason: count }), "{}", case.reason);
        let first = case.input.lines().position(|line| case.unjudged.contains(&line)).expect("one") + 1;
        let lines: Vec<&str> =
            ran.err.lines().filter(|line| line.contains(&format!("input:{first}: passed on unjudged: "))).collect();
        assert_eq!(lines.len(), 1, "{}: {}", case.reason, ran.err);
        assert!(lines[0].contains(&format!("({}); ", case.reason)), "the reason and its cure: {}", lines[0]);
        let summary = format!("firstseen: {count} records were not judged: {count} {}; passed on", case.reason);
        assert_eq!(ran.err.contains(&summary), count > 1, "{}", ran.err);
    }
}

#[test]
fn flags_take_them_aside_drop_them_or_end_the_run() {
    for case in CASES {
        let folder = Folder::with(case.input);
        let ran = folder.dedup(&format!("{} --unjudged drop --report json input", case.flags)).ok();
        assert_eq!(ran.out, judged(case), "{}: {}", case.reason, ran.err);
        assert!(ran.err.contains(": dropped: "), "{}", ran.err);
        assert_eq!(number(&report(&ran.err)["unjudged"], case.reason), case.unjudged.len() as u64, "{}", ran.err);
        // The records before the first unjudged record are written. That record and all records after it are not
        // written.
        let ran =
            folder.dedup(&format!("{} --unjudged fail --report none input", case.flags)).fails(2, &["--unjudged fail"]);
        let before: String = case
            .input
            .lines()
            .take_while(|line| !case.unjudged.contains(line))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(ran.out, before, "{}", case.reason);
        folder.dedup(&format!("{} --strict --report none input", case.flags)).fails(2, &[case.reason]);
        // The flag for late records decides about late records, if it is given.
        if case.reason == "late" {
            for late in ["first-seen", "duplicate"] {
                let flags = format!("{} --late {late} --strict --unjudged fail --report json input", case.flags);
                let ran = folder.dedup(&flags).ok();
                assert_eq!(report(&ran.err)["unjudged"], json!({}));
                assert!(ran.err.contains("input:2: "), "it is named all the same: {}", ran.err);
            }
            folder.dedup(&format!("{} --late undecided --strict input", case.flags)).fails(2, &["late"]);
            continue;
        }
        for more in ["", "--unjudged drop"] {
            let ran = folder.dedup(&format!("{} --rejected aside {more} --report json input", case.flags)).ok();
            assert_eq!(ran.out, judged(case), "{}: {}", case.reason, ran.err);
            let aside: Vec<String> = folder.read("aside").lines().map(str::to_owned).collect();
            assert_eq!(aside, case.unjudged, "{}", case.reason);
            assert!(ran.err.contains(": rejected: "), "{}", ran.err);
            assert_eq!(number(&report(&ran.err), "rejected"), case.unjudged.len() as u64);
        }
    }
}

#[test]
fn a_filter_that_is_full_passes_on_what_it_cannot_remember() {
    let input: String = (0..200).map(|number| format!("{number}\n")).collect();
    let folder = Folder::with(&input);
    let flags = "--capacity 20 --fpr 1e-8 --seed 1 --report json";
    let ran = folder.dedup(&format!("{flags} input")).ok();
    assert_eq!(ran.out, input);
    let counts = report(&ran.err);
    assert_eq!(number(&counts["unjudged"], "full"), number(&counts, "undecided"), "{counts}");
    assert!(number(&counts, "undecided") > 100 && ran.err.contains("--capacity"), "{}", ran.err);
    let ran = folder.dedup(&format!("{flags} --unjudged drop input")).ok();
    assert_eq!(ran.out.lines().count() as u64, number(&report(&ran.err), "first_seen"));
    assert!(ran.err.contains("new records are dropped"), "{}", ran.err);
    let ran =
        folder.dedup("--capacity 20 --fpr 1e-8 --seed 1 --report none --unjudged fail --state state --out out input");
    let ran = ran.fails(2, &["(full)", "--capacity", "the state state is as it was"]);
    assert!(input.starts_with(&folder.read("out")) && folder.read("out").lines().count() >= 20, "{}", ran.err);
    assert!(!folder.has("state"), "records behind the one that ended the run may be in the filter");
}

#[test]
fn every_reason_has_one_line_and_all_are_counted() {
    let mut input = String::from("{\"id\":0}\n");
    for number in 0..1000 {
        input += &format!("broken {number}\n[{number}]\n{{\"no\":{number}}}\n");
    }
    let folder = Folder::with(&input);
    let ran = folder.dedup("--format jsonl --key id --report json input").ok();
    assert_eq!(ran.out, input);
    let expected = json!({ "invalid_json": 1000, "missing_field": 1000, "not_an_object": 1000 });
    assert_eq!(report(&ran.err)["unjudged"], expected);
    assert_eq!(ran.err.lines().count(), 5, "one line a reason, the numbers, and the report: {}", ran.err);
    let summary =
        "3,000 records were not judged: 1,000 missing_field, 1,000 invalid_json, 1,000 not_an_object; passed on";
    assert!(!ran.err.contains("rejected:"), "{}", ran.err);
    let said: std::collections::BTreeSet<&str> = summary.split([':', ',', ';']).map(str::trim).collect();
    assert!(said.iter().all(|words| ran.err.contains(words)), "{}", ran.err);
    let text = folder.dedup("--format jsonl --key id --report text --out out input").ok().err;
    assert!(text.contains("not judged     3,000: 1,000 "), "{text}");
}

/// A blank line is not a record. Files that end with a blank line, or have blank lines between parts, are valid.
#[test]
fn blank_lines_pass_silently_and_fail_nothing() {
    for (flags, input) in [
        ("--format csv --key k", "k,v\na,1\n\nb,2\n\r\n\n"),
        ("--format jsonl --key k", "\n{\"k\":1}\n\n\n{\"k\":2}\n"),
        ("--format tsv --no-header --key 1", "a\t1\n\nb\t2\n\n"),
        ("--format cdxj", "com,a)/ 20240101000000 {}\n\ncom,b)/ 20240101000000 {}\n"),
    ] {
        let folder = Folder::with(input);
        let ran = folder.dedup(&format!("{flags} --strict --unjudged fail --report json input")).ok();
        assert_eq!(ran.out, input, "{flags}");
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
        let counts = report(&ran.err);
        let blank = input.lines().filter(|line| line.is_empty()).count() as u64;
        assert_eq!((number(&counts, "blank_lines"), &counts["unjudged"]), (blank, &json!({})), "{flags}");
        assert_eq!(number(&counts, "rejected"), 0);
    }
}

/// Of a line of more than 16 MiB, only the first 64 KiB used to reach the output, which then contained a record that
/// the input lacks.
#[test]
fn a_line_that_is_too_long_is_passed_on_whole() {
    let long = "x".repeat(18 << 20);
    for input in [format!("a\n{long}\nb\na\n"), format!("a\nb\n{long}"), format!("a\n{long}\n{long}y\nb\n")] {
        let folder = Folder::with(&input);
        let ran = folder.dedup("--report json input").ok();
        let expected = input.strip_suffix("b\na\n").map_or(input.clone(), |start| format!("{start}b\n"));
        assert!(ran.out == expected, "{} bytes of {}", ran.out.len(), expected.len());
        assert!(ran.err.contains(": passed on unjudged: it is longer than 16777216 bytes (too_long)"), "{}", ran.err);
        let ran = folder.dedup("--report none --rejected aside input").ok();
        assert_eq!(ran.out, "a\nb\n");
        assert!(folder.read("aside").lines().all(|line| line.len() >= long.len()));
        assert_eq!(folder.dedup("--report none --unjudged drop input").ok().out, "a\nb\n");
    }
}

#[test]
fn what_is_not_judged_is_not_remembered() {
    let flags = "--format csv --no-header --key 1 --time 2 --window 1h --state state --report json input";
    let folder = Folder::with("a,1700000000\nb,1600000000\nc,1800000000\nd,1700000001\n");
    folder.dedup(flags).ok();
    folder.write("input", "b,1700000002\nc,1700000003\na,1700000004\n");
    let ran = folder.dedup(flags).ok();
    assert_eq!(ran.out, "b,1700000002\nc,1700000003\n", "{}", ran.err);
}

/// With several output files, each file keeps the order of the input.
#[test]
fn each_output_keeps_the_order_of_the_input() {
    let input = "k,t\na,1700000000\nx\nb,never\na,1700000001\nc,1800000000\ny\nd,1700000002\na,1700000003\nz\n";
    let folder = Folder::with(input);
    let flags = "--format csv --key k --time t --window 1h --report none --duplicates again";
    let ran = folder.dedup(&format!("{flags} input")).ok();
    assert_eq!(ran.out, "k,t\na,1700000000\nx\nb,never\nc,1800000000\ny\nd,1700000002\nz\n");
    assert_eq!(folder.read("again"), "k,t\na,1700000001\na,1700000003\n");
    let ran = folder.dedup(&format!("{flags} --rejected aside input")).ok();
    assert_eq!(ran.out, "k,t\na,1700000000\nd,1700000002\n");
    assert_eq!(folder.read("aside"), "k,t\nx\nb,never\nc,1800000000\ny\nz\n");
}

#[test]
fn estimate_follows_the_same_rule() {
    let input = "1700000000,a\nnoon,b\n1800000000,c\n1700000001,a\nx\n1700000002,d\n";
    let folder = Folder::with(input);
    let flags = "estimate --format csv --no-header --key 2 --time 1 --epoch 1h --capacity 100 --report json";
    let ran = folder.run(&format!("{flags} --min-estimate 2 input")).ok();
    assert_eq!(ran.out, "noon,b\n1800000000,c\n1700000001,a\nx\n", "what has no estimate stays among the chosen");
    let counts = report(&ran.err);
    assert_eq!(counts["unjudged"], json!({ "bad_time": 1, "future": 1, "missing_field": 1 }), "{counts}");
    let ran = folder.run(&format!("{flags} --min-estimate 2 --unjudged drop input")).ok();
    assert_eq!(ran.out, "1700000001,a\n");
    let ran = folder.run(&format!("{flags} --min-estimate 1 --unjudged fail input")).fails(2, &["input:2: "]);
    assert_eq!(ran.out, "1700000000,a\n");
    let ran = folder.run(&format!("{flags} --min-estimate 2 --rejected aside input")).ok();
    assert_eq!((ran.out.as_str(), folder.read("aside").as_str()), ("1700000001,a\n", "noon,b\n1800000000,c\nx\n"));
    let ran = folder.run(&format!("{flags} --strict input")).fails(2, &["input:2: not counted: "]);
    assert_eq!(ran.out, "");
    folder.write("input", "x\ny\n");
    folder.run(&format!("{flags} --min-estimate 1 --out out input")).fails(2, &["no record has the field"]);
    assert!(!folder.has("out"));
}
