//! Tests of `--slicing`: the slices together give the verdicts of a single filter, or plausible ones.

use serde_json::Value;

use crate::run::{Folder, example, number};

fn run(flags: &str) -> (String, Value) {
    let log = example("nasa_19950801.tsv.gz");
    let fixed = "--format tsv --key host,url --time time --seed 7 --verify exact --report json --duplicates again";
    let folder = Folder::new();
    let ran = folder.dedup(&format!("{fixed} {flags} {log}")).ok();
    let report = ran.report();
    (ran.out + &folder.read("again"), report)
}

/// Checks vertical slicing, in which the positions are the same and only their owners differ.
#[test]
fn vertical_slices_decide_like_the_whole() {
    for filter in [
        "--window unbounded --cells 240k -k 6",
        "--window 1h --cells 32k -k 6",
        "--window 1h --kind generations --cells 9600 -k 6",
    ] {
        let (whole, report) = run(&format!("{filter} --layout classic"));
        assert!(number(&report, "fp") > 10, "a filter without collisions proves nothing: {report}");
        let (sliced, sliced_report) = run(&format!("{filter} --slicing vertical:8"));
        assert!(whole == sliced, "{filter}: {report} {sliced_report}");
    }
}

#[test]
fn sliced_filters_keep_the_bound_and_miss_nothing() {
    for slicing in ["horizontal:8", "vertical:8", "horizontal-vertical:4x2", "vertical-horizontal:2x4"] {
        for filter in ["--window unbounded --capacity 30000", "--window 1h --capacity 5000"] {
            let (_, report) = run(&format!("{filter} --slicing {slicing}"));
            assert_eq!(number(&report, "fn"), 0, "{slicing} {filter}: {report}");
            assert!(report["fpr"].as_f64().is_some_and(|rate| rate < 0.012), "{slicing} {filter}: {report}");
            assert_eq!(number(&report, "events"), 33_996);
            assert!(number(&report, "undecided") < 400, "{slicing} {filter}: {report}");
            assert!(report["filter"].as_str().is_some_and(|text| text.contains(slicing)), "{report}");
        }
    }
}

/// Checks windows that are counted in events, for example the last ten events. Such a window must count all events of
/// the filter. If a slicing divides the events among the slices, each slice receives only its own events and cannot
/// count the others. Such slicings must therefore be rejected for these windows.
///
/// In this test, the key X occurs twice, nine records apart. The second X must be a duplicate, because it is still
/// within a window of ten events.
#[test]
fn windows_of_events_are_those_of_all_events() {
    let between: String = (1000..1008).map(|number| format!("{number}\n")).collect();
    let folder = Folder::with(format!("X\n{between}X\n"));
    let flags = "--window 10events --capacity 100 --seed 53 --verify exact --report json input";
    assert_eq!(folder.dedup(flags).ok().out, format!("X\n{between}"));
    for slicing in ["horizontal:3", "horizontal-vertical:3x2"] {
        let ran = folder.dedup(&format!("{flags} --slicing {slicing}"));
        assert_eq!(ran.fails(2, &["10events", slicing, "--slicing none"]).out, "");
    }
}

#[test]
fn kinds_that_cannot_be_sliced_so_say_it() {
    let folder = Folder::with("a\n");
    for kind in ["--kind counting --window 100events", "--kind stable --capacity 100"] {
        for slicing in ["vertical:4", "horizontal-vertical:2x2"] {
            let ran = folder.dedup(&format!("{kind} --slicing {slicing} input"));
            ran.fails(2, &["horizontal"]);
        }
    }
    folder.dedup("--kind stable --capacity 1000 --slicing horizontal:4 input").ok();
}
