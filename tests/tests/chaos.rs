//! Runs failure scenarios with real nodes, and checks which guarantees hold. One of the scenarios violates a guarantee
//! that cannot be kept.

use serde_json::Value;

use crate::run::Folder;

fn judgement(folder: &Folder, flags: &str) -> (Option<i32>, Value) {
    let ran = folder.run_lab(&format!("chaos run {flags} --json"));
    (ran.code, serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err)))
}

/// Returns the guarantees that a scenario has violated, with one exception: the limit on how long events may be
/// undecided. On a busy machine, the nodes need longer to notice that another node has ended. Events can then be
/// undecided for longer than the limit although the program has no error.
fn broken(judgement: &Value) -> Vec<&str> {
    let broken = judgement["broken"].as_array().expect("promises").iter().filter_map(Value::as_str);
    broken.filter(|promise| !promise.starts_with("events were undecided in ")).collect()
}

#[test]
fn a_node_that_is_killed_breaks_no_promise() {
    let (code, judgement) = judgement(&Folder::new(), "kill");
    assert_eq!(broken(&judgement), [""; 0], "{judgement}");
    let has_broken = judgement["broken"].as_array().is_some_and(|broken| !broken.is_empty());
    assert_eq!(code, Some(i32::from(has_broken)), "{judgement}");
    assert!(judgement["undecided"].as_u64() < judgement["calls"].as_u64().map(|calls| calls / 4), "{judgement}");
    assert!(judgement["calls"].as_u64() > Some(300) && judgement["duplicates"].as_u64() > Some(100), "{judgement}");
}

/// Restarts all nodes one after the other. As soon as a restarted node reports that it is ready, the next node is
/// restarted. A node must therefore not report that it is ready before it has fetched the data that it lacks. If nodes
/// reported it earlier, several restarts would soon leave no complete copy of some slice, and all events of this slice
/// would be undecided for the rest of the window.
#[test]
#[ignore = "minutes"]
fn nodes_that_are_restarted_when_the_last_one_is_ready_forget_nothing() {
    let (code, judgement) = judgement(&Folder::new(), "restart-when-ready");
    assert_eq!(broken(&judgement), [""; 0], "{judgement}");
    assert_eq!(code, Some(i32::from(judgement["broken"] != Value::Array(Vec::new()))), "{judgement}");
    // If a restart had lost the last copy of a slice, most events of the rest of the run would be undecided.
    assert!(judgement["undecided"].as_u64() < judgement["calls"].as_u64().map(|calls| calls / 2), "{judgement}");
    assert!(judgement["calls"].as_u64() > Some(300) && judgement["duplicates"].as_u64() > Some(100), "{judgement}");
}

/// Checks that producers with slow clocks do not affect other producers. In this test, some clocks are behind by an
/// hour, which is the window of the filter, and others by three days. The verdicts for all other producers must keep
/// the usual guarantees.
#[test]
fn callers_whose_clocks_are_behind_change_nothing_for_the_others() {
    let folder = Folder::new();
    let scenario = r#"
        about = "Single producers have clocks that are behind by a window, and by days."
        filter = "--slicing vertical:6 --window 1h --capacity 100k --fpr 0.000000001"
        seconds = 6
        broken_clocks = ["-1h", "-3d"]
        steps = []
        [promises]
        undecided_seconds_max = 1
        complete_within_s = 10
    "#;
    folder.write("behind.toml", scenario);
    let (code, judgement) = judgement(&folder, "behind --scenarios .");
    assert_eq!((code, &judgement["broken"]), (Some(0), &Value::Array(Vec::new())), "{judgement}");
    assert!(judgement["broken_clock_calls"].as_u64() > Some(100), "{judgement}");
}

#[test]
fn a_promise_that_is_broken_is_reported() {
    let folder = Folder::new();
    let scenario = r#"
        about = "A slice is lost, and what was in it is first-seen again."
        filter = "--slicing horizontal:3 --window 1h --capacity 10k --when-lost first-seen"
        seconds = 12
        steps = [{ at_s = 4, do = "kill", nodes = [2] }, { at_s = 5, do = "start", nodes = [2] }]
        [promises]
        undecided_seconds_max = 12
        complete_within_s = 0
    "#;
    folder.write("lose.toml", scenario);
    let (code, judgement) = judgement(&folder, "lose --scenarios .");
    let broken = judgement["broken"].as_array().cloned().unwrap_or_default();
    let is_reported =
        |text: &str| broken.iter().any(|promise| promise.as_str().is_some_and(|line| line.contains(text)));
    assert!(code == Some(1) && is_reported("one winner") && is_reported("not complete"), "{judgement}");
}

#[test]
fn a_scenario_that_is_not_there_is_named() {
    let ran = Folder::new().run_lab("chaos run kil");
    assert!(ran.code == Some(2) && ran.err.contains("no scenario `kil`") && ran.err.contains("kill"), "{}", ran.err);
    let ran = Folder::new().run_lab("chaos run disk-full");
    assert!(ran.code == Some(2) && ran.err.contains("--containers"), "{}", ran.err);
    let ran = Folder::new().run_lab("chaos list");
    assert!(ran.code == Some(0) && ran.out.lines().count() >= 8, "{}", ran.out);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 100), "{}", ran.out);
}
