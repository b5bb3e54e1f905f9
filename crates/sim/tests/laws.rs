//! A test of the tester: every law finds the history that breaks it, and only that.

use firstseen_routing::{Decision, Reason, SubmissionName};
use firstseen_sim::history::{Call, History};
use firstseen_sim::laws::check;

fn call(event: u64, time_ms: u64, began_us: u64, told: Decision) -> Call {
    Call {
        id: 0,
        producer: 0,
        event,
        time_ms,
        is_lookup: false,
        name: None,
        began_us,
        returned_us: Some(began_us + 10),
        told: Some(told),
    }
}

fn laws_broken(calls: impl IntoIterator<Item = Call>) -> Vec<&'static str> {
    let mut history = History { calls: Vec::new(), window_ms: 1000, window_at_most_ms: 1100 };
    for call in calls {
        history.begin(call);
    }
    check(&history).into_iter().map(|violation| violation.law.split(':').next().unwrap_or_default()).collect()
}

#[test]
fn a_first_and_its_duplicates_break_nothing() {
    let told = [Decision::FirstSeen, Decision::Duplicate, Decision::Duplicate];
    assert_eq!(laws_broken(told.map(|told| call(1, 5, 7, told))), [""; 0]);
}

#[test]
fn two_winners_within_a_window() {
    let calls = [call(1, 0, 0, Decision::FirstSeen), call(1, 999, 50, Decision::FirstSeen)];
    assert_eq!(laws_broken(calls), ["one winner"]);
    let calls = [call(1, 0, 0, Decision::FirstSeen), call(1, 1000, 50, Decision::FirstSeen)];
    assert_eq!(laws_broken(calls), [""; 0]);
}

#[test]
fn a_lookup_that_misses() {
    let lookup = Call { is_lookup: true, ..call(1, 500, 20, Decision::FirstSeen) };
    assert_eq!(laws_broken([call(1, 0, 0, Decision::FirstSeen), lookup.clone()]), ["no false negative"]);
    let concurrent = Call { began_us: 5, ..lookup };
    assert_eq!(laws_broken([call(1, 0, 0, Decision::FirstSeen), concurrent]), [""; 0]);
}

#[test]
fn a_duplicate_of_nothing_and_of_itself() {
    assert_eq!(laws_broken([call(1, 0, 0, Decision::Duplicate)]), ["no duplicate of itself"]);
    let lost = call(1, 0, 0, Decision::Undecided(Reason::Unknown));
    assert_eq!(laws_broken([lost.clone(), call(1, 0, 20, Decision::Duplicate)]), [""; 0]);
    let refused = call(1, 0, 0, Decision::Undecided(Reason::Overloaded));
    assert_eq!(laws_broken([refused, call(1, 0, 20, Decision::Duplicate)]), ["no duplicate of itself"]);
    let name = Some(SubmissionName { source: 1, number: 2 });
    let retried = Call { name, ..call(1, 0, 20, Decision::Duplicate) };
    assert_eq!(laws_broken([Call { name, ..lost }, retried]), ["no duplicate of itself"]);
}

#[test]
fn one_name_two_verdicts() {
    let name = Some(SubmissionName { source: 1, number: 2 });
    let first = Call { name, ..call(1, 0, 0, Decision::FirstSeen) };
    let again = Call { name, ..call(1, 0, 20, Decision::Duplicate) };
    assert!(laws_broken([first, again]).contains(&"same name, same verdict"));
}
