//! Tests of the checker: every law detects the histories that break it, and no others.

use firstseen_checker::fault_periods::FaultPeriods;
use firstseen_checker::history::{Call, EndOnFullDisk, History, Loss, Outage, Promises, Stamped, Unset, View};
use firstseen_checker::laws::check;
use firstseen_routing::{Decision, Reason, SubmissionName};

fn call(event: u64, time_ms: u64, began_us: u64, verdict: Decision) -> Call {
    Call { returned_us: Some(began_us + 10), verdict: Some(verdict), ..Call::begun(0, event, time_ms, began_us) }
}

/// Returns a call at a site that was undecided because the lease of its node had ended.
fn without_lease(site: usize, began_us: u64) -> Call {
    at_site(site, call(1, 0, began_us, Decision::Undecided(Reason::CutOff)))
}

fn at_site(site: usize, call: Call) -> Call {
    Call { site: Some(site), ..call }
}

fn laws_broken(calls: impl IntoIterator<Item = Call>) -> Vec<&'static str> {
    laws_broken_with(&[], 0, calls)
}

/// Returns guarantees with a window of one second.
fn of_a_second() -> Promises {
    Promises { window_ms: 1000, window_at_most_ms: 1100, ..Promises::default() }
}

/// Returns the laws that are broken if nodes with cells of event 1 were lost, and some verdicts were marked as
/// degraded.
fn laws_broken_with(lost_us: &[u64], degraded_events: u64, calls: impl IntoIterator<Item = Call>) -> Vec<&'static str> {
    let losses = lost_us
        .iter()
        .map(|time_us| Loss { node: 2, time_us: *time_us, since_us: 0, events: [1].into(), most_of: [2].into() })
        .collect();
    let mut history = History {
        losses,
        degraded_events,
        promises: Promises { answers_when_set: true, ..of_a_second() },
        ..History::default()
    };
    for call in calls {
        history.begin(call);
    }
    check(&history).into_iter().map(|violation| violation.name()).collect()
}

#[test]
fn a_first_and_its_duplicates_break_nothing() {
    let verdicts = [Decision::FirstSeen, Decision::Duplicate, Decision::Duplicate];
    assert_eq!(laws_broken(verdicts.map(|verdict| call(1, 5, 7, verdict))), [""; 0]);
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
fn a_retry_gets_the_verdict_of_its_first_attempt() {
    let name = Some(SubmissionName { source: 1, number: 2 });
    let broken = |asked_us: u64| {
        let stamped = Stamped::ByNode { skew_ms: 0 };
        let mut history = History { promises: Promises { stamped, ..of_a_second() }, ..History::default() };
        history.begin(call(1, 0, 0, Decision::FirstSeen));
        history.begin(Call { name, ..call(1, 0, asked_us, Decision::Undecided(Reason::Unknown)) });
        history.begin(Call { name, ..call(1, 0, 3_000_000, Decision::Duplicate) });
        check(&history).into_iter().map(|violation| violation.name()).collect::<Vec<_>>()
    };
    assert_eq!(broken(900_000), [""; 0], "the first attempt came in time");
    assert_eq!(broken(2_000_000), ["no duplicate of itself"]);
}

#[test]
fn one_name_two_verdicts() {
    let name = Some(SubmissionName { source: 1, number: 2 });
    let first = Call { name, ..call(1, 0, 0, Decision::FirstSeen) };
    let again = Call { name, ..call(1, 0, 20, Decision::Duplicate) };
    assert!(laws_broken([first, again]).contains(&"same name, same verdict"));
}

#[test]
fn a_loss_excuses_what_it_concerns() {
    let again = |event| [0, 50].map(|began_us| call(event, 0, began_us, Decision::FirstSeen));
    assert_eq!(laws_broken_with(&[30], 1, again(1)), [""; 0]);
    assert_eq!(laws_broken_with(&[30], 1, again(2)), ["one winner"], "no cells of it were lost");
    assert_eq!(laws_broken_with(&[60], 1, again(1)), ["one winner"], "both had verdicts before the loss");
    assert_eq!(laws_broken_with(&[30], 0, again(1)), ["marked degraded"]);
    let lookup = Call { is_lookup: true, ..call(1, 500, 50, Decision::FirstSeen) };
    assert_eq!(laws_broken_with(&[30], 0, [call(1, 0, 0, Decision::FirstSeen), lookup]), [""; 0]);
    // The first attempt may have recorded the event, and the second attempt got its verdict.
    let name = Some(SubmissionName { source: 1, number: 2 });
    let attempts = [(0, Decision::Undecided(Reason::Unknown)), (40, Decision::FirstSeen)];
    let attempts = attempts.map(|(began_us, verdict)| Call { name, ..call(1, 0, began_us, verdict) });
    let calls = attempts.into_iter().chain([call(1, 0, 60, Decision::FirstSeen)]);
    assert_eq!(laws_broken_with(&[30], 1, calls), [""; 0]);
    assert_eq!(laws_broken_with(&[30], 0, [call(1, 0, 0, Decision::Duplicate)]), ["no duplicate of itself"]);
}

#[test]
fn a_leaf_that_does_not_answer_what_it_knows() {
    let at = |site, call| Call { site: Some(site), ..call };
    let broken_by = |asked_at, until_us, is_claim| {
        let asked = Decision::Undecided(Reason::SlicesDown);
        let mut history = History { promises: of_a_second(), ..History::default() };
        history.outages.push(Outage { site: 1, from_us: 15, until_us, is_silent: false });
        history.begin(at(0, call(1, 0, 0, Decision::FirstSeen)));
        history.begin(at(asked_at, Call { is_claim, ..call(1, 0, 20, asked) }));
        check(&history).into_iter().map(|violation| violation.name()).collect::<Vec<_>>()
    };
    let broken = |asked_at, until_us| broken_by(asked_at, until_us, false);
    assert_eq!(broken(0, 40), ["leaf answers"]);
    assert_eq!(broken_by(0, 40, true), [""; 0], "the root is asked for claims");
    assert_eq!(broken(1, 40), [""; 0], "another leaf need not know");
    assert_eq!(broken(0, 25), [""; 0], "it returned after the outage");
}

#[test]
fn cells_that_are_not_set() {
    let mut history = History::default();
    history.begin(call(1, 0, 0, Decision::FirstSeen));
    history.unset.push(Unset { call: 0, place: "oslo".to_owned() });
    let names: Vec<_> = check(&history).iter().map(|violation| violation.name()).collect();
    assert_eq!(names, ["cells set"]);
}

#[test]
fn an_event_that_a_leaf_alone_called_first_seen_is_known_elsewhere_in_the_end() {
    let alone = Call { degraded: true, ..call(1, 0, 0, Decision::FirstSeen) };
    let broken = |leaves_answer_alone, second: Call| {
        let promises = Promises { leaves_answer_alone, ..of_a_second() };
        let mut history = History { promises, settled_us: 100, ..History::default() };
        history.begin(alone.clone());
        history.begin(second);
        check(&history).into_iter().map(|violation| violation.name()).collect::<Vec<_>>()
    };
    let again = call(1, 500, 50, Decision::FirstSeen);
    assert_eq!(broken(true, again.clone()), [""; 0]);
    assert_eq!(broken(false, again), ["one winner"], "only leaves that answer alone are excused");
    let lookup = |began_us| Call { is_lookup: true, ..call(1, 500, began_us, Decision::FirstSeen) };
    assert_eq!(broken(true, lookup(50)), [""; 0]);
    assert_eq!(broken(true, lookup(150)), ["no false negative"]);
}

/// A site was cut off and decided an event alone, and called the next submission a duplicate. When the site was back,
/// another site got first-seen before the event was reported to the root. This was taken for a violation.
#[test]
fn an_event_that_was_decided_alone_can_be_new_at_another_site_after_a_duplicate() {
    let promises = Promises { leaves_answer_alone: true, ..of_a_second() };
    for (site, settled_us, expected) in [
        (1, 100, vec![]),
        (0, 100, vec!["no first-seen after a duplicate"]),
        (1, 40, vec!["no first-seen after a duplicate"]),
    ] {
        let mut history = History { promises, settled_us, ..History::default() };
        history.begin(at_site(0, Call { degraded: true, ..call(1, 0, 0, Decision::FirstSeen) }));
        history.begin(at_site(0, call(1, 10, 20, Decision::Duplicate)));
        history.begin(at_site(site, call(1, 500, 50, Decision::FirstSeen)));
        let names: Vec<_> = check(&history).iter().map(|violation| violation.name()).collect();
        assert_eq!(names, expected, "site {site}, settled at {settled_us} us");
    }
}

#[test]
fn a_leaf_answers_alone_while_it_is_cut_off_and_at_no_other_time() {
    let promises = Promises { leaves_answer_alone: true, never_forgets: true, ..of_a_second() };
    let alone = Call { degraded: true, ..call(1, 0, 2_000, Decision::FirstSeen) };
    for (unreachable, expected) in [
        (vec![], vec!["alone only if cut off"]),
        (vec![(0, 1_999)], vec!["alone only if cut off"]),
        (vec![(0, 2_000)], vec![]),
    ] {
        let periods = FaultPeriods { unreachable, ..FaultPeriods::default() };
        let mut history = History { promises, periods, ..History::default() };
        history.begin(alone.clone());
        let names: Vec<_> = check(&history).iter().map(|violation| violation.name()).collect();
        assert_eq!(names, expected);
        // If the root replies first-seen although some of its slices are missing, the mark may be the mark of the root.
        history.promises.outlives_a_node = true;
        assert_eq!(check(&history), []);
    }
}

/// Regression test (`--trees 1 --rights`): the reply of the root came too late, so the root had recorded the event and the
/// leaf had not.
#[test]
fn levels_may_refute_an_event_that_nobody_has_delivered() {
    let broken = vec!["no first-seen after a duplicate"];
    for (refutes, first, expected) in [
        (true, Decision::Undecided(Reason::Unknown), vec![]),
        (false, Decision::Undecided(Reason::Unknown), broken.clone()),
        (true, Decision::FirstSeen, vec!["one winner", broken[0]]),
    ] {
        let promises = Promises { levels_refute: refutes, ..of_a_second() };
        let mut history = History { promises, ..History::default() };
        history.begin(call(1, 0, 0, first));
        history.begin(call(1, 10, 20, Decision::Duplicate));
        history.begin(call(1, 20, 50, Decision::FirstSeen));
        let names: Vec<_> = check(&history).iter().map(|violation| violation.name()).collect();
        assert_eq!(names, expected, "{refutes}, {first:?}");
    }
}

#[test]
fn a_leaf_that_is_cut_off_answers_alone_without_a_lease() {
    let promises = Promises { leaves_answer_alone: true, ..of_a_second() };
    let outage = Outage { site: 1, from_us: 0, until_us: 9_000_000, is_silent: true };
    let lookup = Call { is_lookup: true, ..without_lease(1, 8_000_000) };
    for (call, expected) in [
        (without_lease(1, 8_000_000), vec!["alone without lease"]),
        (without_lease(1, 1_000_000), vec![]),
        (without_lease(0, 8_000_000), vec![]),
        (lookup, vec![]),
    ] {
        let mut history = History { promises, outages: vec![outage.clone()], ..History::default() };
        history.begin(call);
        let names: Vec<_> = check(&history).iter().map(|violation| violation.name()).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn two_nodes_remember_what_the_third_has_lost() {
    let broken = |nodes: &[usize], event| {
        let losses = nodes.iter().map(|node| Loss {
            node: *node,
            time_us: 30,
            since_us: 0,
            events: [1, 2].into(),
            most_of: [2].into(),
        });
        let promises = Promises { outlives_a_node: true, answers_when_set: true, ..of_a_second() };
        let losses = losses.collect();
        let mut history = History { promises, losses, degraded_events: 9, ..History::default() };
        for began_us in [0, 50] {
            history.begin(call(event, 0, began_us, Decision::FirstSeen));
        }
        check(&history).into_iter().map(|violation| violation.name()).collect::<Vec<_>>()
    };
    assert_eq!(broken(&[2, 2], 1), ["one winner"]);
    assert_eq!(broken(&[2], 2), [""; 0], "most of its cells were there");
    assert_eq!(broken(&[1, 2], 1), [""; 0], "two nodes are too many");
}

/// Returns the laws that a history with three calls about one event breaks. The first call records the event with the
/// verdict `recorded`, and returns at 10 us if it has a reply. At 100 us, the second call gets the verdict duplicate.
/// At 200 us, the third call gets first-seen.
fn known_and_new_again(is_partial: bool, recorded: Decision, mut history: History) -> Vec<&'static str> {
    let Promises { window_ms, window_at_most_ms, .. } = of_a_second();
    history.promises = Promises { window_ms, window_at_most_ms, answers_when_set: true, ..history.promises };
    history.begin(call(1, 0, 0, recorded));
    history.begin(Call { degraded: is_partial, ..call(1, 0, 100, Decision::Duplicate) });
    history.begin(call(1, 0, 200, Decision::FirstSeen));
    check(&history).into_iter().map(|violation| violation.name()).collect()
}

const UNKNOWN: Decision = Decision::Undecided(Reason::Unknown);
const DENIED: [&str; 1] = ["no first-seen after a duplicate"];

/// Returns the views of a node whose view of the answering nodes changes at these times.
fn views(turns_us: &[u64]) -> Vec<View> {
    let turns = turns_us.iter().enumerate();
    turns.map(|(turn, at_us)| View { node: 0, after_us: *at_us, by_us: *at_us, answering: turn as u64 }).collect()
}

/// Returns a history of a filter whose slices have copies.
fn with_copies() -> History {
    History { promises: Promises { has_copies: true, ..Promises::default() }, ..History::default() }
}

#[test]
fn a_duplicate_is_new_again_only_where_it_may_have_been_recorded_half_way() {
    let half_way = |turns_us: &[u64]| History { views: views(turns_us), ..with_copies() };
    assert_eq!(known_and_new_again(false, UNKNOWN, half_way(&[0, 50, 150])), [""; 0]);
    assert_eq!(
        known_and_new_again(false, UNKNOWN, half_way(&[0, 150])),
        DENIED,
        "nobody gave it up before it was found"
    );
    assert_eq!(known_and_new_again(false, UNKNOWN, half_way(&[0, 50])), DENIED, "the same answer as before");
    assert_eq!(known_and_new_again(false, UNKNOWN, half_way(&[])), DENIED, "nothing has changed");
    let broken = known_and_new_again(false, Decision::FirstSeen, half_way(&[0, 50, 150]));
    assert!(broken.contains(&DENIED[0]), "a producer got first-seen for it: {broken:?}");
}

/// A lookup finds an event that later turns out to be new, because a node's disk was full and its process ended.
#[test]
fn what_a_lookup_finds_on_a_full_disk_may_be_lost() {
    let broken = |(from_us, until_us): (u64, u64), is_lookup: bool, first_us: u64, has_event: bool| {
        let mut found = call(1, 0, 100, Decision::Duplicate);
        found.is_lookup = is_lookup;
        let events = [u64::from(has_event)].into();
        let lost_while_full = vec![EndOnFullDisk { node: 0, from_us, until_us, events }];
        let mut history = History { lost_while_full, promises: of_a_second(), ..History::default() };
        for call in [call(1, 0, 0, UNKNOWN), found, call(1, 0, first_us, Decision::FirstSeen)] {
            history.begin(call);
        }
        check(&history).into_iter().any(|violation| violation.name() == DENIED[0])
    };
    assert!(!broken((50, 200), true, 300, true));
    assert!(broken((50, 200), true, 150, true), "the process has not ended yet");
    assert!(broken((200, 250), true, 300, true), "it was not full yet");
    assert!(broken((50, 200), false, 300, true), "observations wait for the disk");
    assert!(broken((50, 200), true, 300, false), "the node does not have the event");
}

#[test]
fn without_copies_only_a_degraded_duplicate_may_be_new_again() {
    let history = || History { views: views(&[0, 50, 150]), ..History::default() };
    assert_eq!(known_and_new_again(true, UNKNOWN, history()), [""; 0]);
    assert_eq!(known_and_new_again(false, UNKNOWN, history()), DENIED);
}

#[test]
fn nodes_may_answer_by_turns_whose_views_differ() {
    let behind = |by_us| View { node: 1, after_us: 0, by_us, answering: 0 };
    let caught_up = |at_us| View { node: 1, after_us: at_us, by_us: at_us, answering: 1 };
    // One node has the new view at 50 us. The other node has it only at 120 us, after the verdict duplicate.
    let history = |at_us| {
        let views = [views(&[0, 50]), vec![behind(0), caught_up(at_us)]].concat();
        History { views, ..with_copies() }
    };
    assert_eq!(known_and_new_again(false, UNKNOWN, history(120)), [""; 0]);
    assert_eq!(known_and_new_again(false, UNKNOWN, history(60)), DENIED);
}

#[test]
fn a_lost_event_is_new_again_only_where_that_is_the_policy() {
    let losses = || vec![Loss { node: 2, time_us: 150, since_us: 0, events: [1].into(), most_of: [1].into() }];
    let promises = |never_forgets| Promises { never_forgets, ..Promises::default() };
    let history = |never_forgets| {
        let promises = promises(never_forgets);
        History { promises, losses: losses(), degraded_events: 9, ..History::default() }
    };
    assert_eq!(known_and_new_again(false, UNKNOWN, history(false)), [""; 0]);
    assert_eq!(known_and_new_again(false, UNKNOWN, history(true)), DENIED);
}

/// Returns a call that sets a key for `ttl_ms`.
fn set_for(ttl_ms: u64, began_ms: u64, verdict: Decision) -> Call {
    Call { ttl_ms: Some(ttl_ms), ..call(1, 0, began_ms * 1000, verdict) }
}

/// Returns the laws that two calls break if nodes stamp keys, and keys live up to half a second too long.
fn broken_by_keys(calls: [Call; 2]) -> Vec<&'static str> {
    let stamped = Stamped::ByNode { skew_ms: 0 };
    let promises = Promises { stamped, ttl_rounding_ms: 500, ..Promises::within_one_window() };
    let mut history = History { promises, ..History::default() };
    for call in calls {
        history.begin(call);
    }
    check(&history).into_iter().map(|violation| violation.name()).collect()
}

/// Regression test: one client set a key for 20 s, and another client set the same key for 1 s five seconds later. The
/// second client was told that the key is new. The checker must report this as a violation, because the time to live of
/// the first call applies.
#[test]
fn a_key_is_known_for_the_time_of_who_has_set_it() {
    let first = Decision::FirstSeen;
    let again = Decision::Duplicate;
    assert_eq!(broken_by_keys([set_for(20_000, 0, first), set_for(1_000, 5_000, first)]), ["one winner"]);
    assert_eq!(broken_by_keys([set_for(1_000, 0, first), set_for(20_000, 5_000, first)]), [""; 0]);
    assert_eq!(broken_by_keys([set_for(1_000, 0, first), set_for(20_000, 1_499, again)]), [""; 0]);
    assert_eq!(broken_by_keys([set_for(1_000, 0, first), set_for(20_000, 1_502, again)]), ["no duplicate of itself"]);
}

/// Regression test: a machine was suspended for five seconds in which the window of an event ended. Just after that, its
/// node did not know of this yet and called the event a duplicate, which docs/explanation/clocks.md allows for a moment.
#[test]
fn a_node_that_was_suspended_may_know_an_event_for_longer_for_a_moment() {
    assert_eq!(broken_by_a_duplicate_at(5_600), [""; 0]);
    assert_eq!(broken_by_a_duplicate_at(6_001), ["no duplicate of itself"], "a quarter of a second is over");
}

/// Returns the laws that a duplicate breaks if the event was recorded at the start, its window is a second, and a machine
/// was suspended from 0.5 s to 5.5 s.
fn broken_by_a_duplicate_at(asked_ms: u64) -> Vec<&'static str> {
    let promises = Promises { stamped: Stamped::ByNode { skew_ms: 0 }, ..of_a_second() };
    let standstills = vec![(500_000, 5_500_000)];
    let periods = FaultPeriods { standstills, ..FaultPeriods::default() };
    let mut history = History { promises, periods, ..History::default() };
    history.begin(call(1, 0, 0, Decision::FirstSeen));
    history.begin(call(1, 0, asked_ms * 1000, Decision::Duplicate));
    check(&history).into_iter().map(|violation| violation.name()).collect()
}
