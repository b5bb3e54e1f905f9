//! Tests of the replay guard. A retry must always get the same reply. A submission with an idempotency key that the
//! guard may have forgotten must never count as new. The memory of the guard must stay within its limit.

use std::collections::HashMap;

use crate::common::TestRng;
use firstseen_filter::{ProbeShape, Probes};
use firstseen_mesh::plain_submission;
use firstseen_routing::{
    Admission, Decision, MonotonicMs, Operation, Reason, ReplayGuard, Standing, Submission, SubmissionName,
};

fn batch(producer: u128, sequence: u64, events: usize) -> Submission {
    let mut probes = Probes::new(ProbeShape::Spread { cells: 2, hashes: 1 });
    (0..events).for_each(|_| probes.push_positions(&[1]).unwrap());
    Submission {
        reply_to: 1,
        producer,
        deadline_ms: MonotonicMs(0),
        ..plain_submission(sequence, Operation::Observe, probes)
    }
}

fn named(source: u128, numbers: &[u64], sequence: u64) -> Submission {
    let names = numbers.iter().map(|number| SubmissionName { source, number: *number }).collect();
    Submission { names, ..batch(1, sequence, numbers.len()) }
}

/// Returns a submission of event `key` under each `(source, number)`.
fn named_as(events: &[(SubmissionName, u64)], sequence: u64) -> Submission {
    let mut probes = Probes::new(ProbeShape::Spread { cells: 1 << 20, hashes: 1 });
    events.iter().for_each(|(_, key)| probes.push_positions(&[*key]).unwrap());
    Submission { names: events.iter().map(|(name, _)| *name).collect(), probes, ..batch(1, sequence, 0) }
}

fn decide(rng: &mut TestRng) -> Decision {
    match rng.below(8) {
        0 => Decision::Undecided(Reason::Unknown),
        1 => Decision::Undecided(Reason::Full),
        2..=4 => Decision::FirstSeen,
        _ => Decision::Duplicate,
    }
}

fn standing_of(decision: Decision) -> Standing {
    match decision {
        Decision::Undecided(reason) if !reason.may_have_recorded() => Standing::New,
        decision => Standing::Answered(decision),
    }
}

#[test]
fn a_batch_of_1024_takes_about_300_bytes() {
    let mut guard = ReplayGuard::new(60_000, 64 << 20);
    let mut standings = Vec::new();
    let bytes_of = |guard: &ReplayGuard| guard.bytes();
    let mut settle = |guard: &mut ReplayGuard, sequence: u64, decision: Decision| {
        let submission = batch(1, sequence, 1024);
        assert_eq!(guard.admit(&submission, MonotonicMs(0), &mut standings), Admission::New);
        assert_eq!(guard.settle(&submission, &[decision; 1024]), None);
    };
    settle(&mut guard, 0, Decision::FirstSeen);
    let before = bytes_of(&guard);
    (1..=100).for_each(|sequence| settle(&mut guard, sequence, Decision::Duplicate));
    let each = (bytes_of(&guard) - before) / 100;
    assert!((144..=340).contains(&each), "{each} bytes");
    assert_eq!(guard.bytes_per_horizon_second(), bytes_of(&guard) as f64 / 60.0);
}

#[test]
fn undecided_events_are_run_anew_unless_they_may_have_been_recorded() {
    for events in [1, 64, 65, 1000] {
        let mut rng = TestRng(41 + events as u64);
        let mut guard = ReplayGuard::new(1000, 1 << 20);
        let (submission, mut standings) = (batch(1, 1, events), Vec::new());
        let mut known: Vec<Decision> = Vec::new();
        for round in 0..6 {
            let admission = guard.admit(&submission, MonotonicMs(round), &mut standings);
            assert_eq!(admission, if round == 0 { Admission::New } else { Admission::Known });
            if round > 0 {
                let expected: Vec<Standing> = known.iter().copied().map(standing_of).collect();
                assert_eq!(standings, expected, "{events} events, round {round}");
            }
            let run = |event: usize| match known.get(event).copied().map(standing_of) {
                Some(Standing::Answered(decision)) => decision,
                _ => decide(&mut rng),
            };
            known = (0..events).map(run).collect();
            guard.settle(&submission, &known);
        }
        assert_eq!(
            guard.admit(&batch(1, 1, events + 1), MonotonicMs(9), &mut standings),
            Admission::Refused(Reason::Invalid)
        );
    }
}

#[test]
fn a_later_verdict_replaces_unknown() {
    let mut guard = ReplayGuard::new(1000, 1 << 20);
    let (submission, mut standings) = (batch(1, 1, 2), Vec::new());
    guard.admit(&submission, MonotonicMs(0), &mut standings);
    guard.settle(&submission, &[Decision::Undecided(Reason::Unknown), Decision::FirstSeen]);
    guard.settle(&submission, &[Decision::Duplicate, Decision::Duplicate]);
    guard.admit(&submission, MonotonicMs(0), &mut standings);
    assert_eq!(standings, [Decision::Duplicate, Decision::FirstSeen].map(Standing::Answered));
}

#[test]
fn a_retry_attaches_to_the_batch_in_flight() {
    let mut guard = ReplayGuard::new(1000, 1 << 20);
    let mut standings = Vec::new();
    for first in [batch(1, 1, 3), named(8, &[1, 2, 3], 2)] {
        assert_eq!(guard.admit(&first, MonotonicMs(0), &mut standings), Admission::New);
        guard.depart(&first);
        let again = Submission { reply_to: 44, ..first.clone() };
        assert_eq!(guard.admit(&again, MonotonicMs(5), &mut standings), Admission::Attached);
        assert_eq!(guard.settle(&first, &[Decision::FirstSeen; 3]), Some(44));
        assert_eq!(guard.admit(&again, MonotonicMs(6), &mut standings), Admission::Known);
        assert_eq!(standings, [Standing::Answered(Decision::FirstSeen); 3]);
        assert_eq!(guard.settle(&again, &[Decision::FirstSeen; 3]), None);
    }
    // An event whose key is in flight in another batch is answered as in flight.
    let first = named(9, &[64, 65], 3);
    guard.admit(&first, MonotonicMs(0), &mut standings);
    guard.depart(&first);
    assert_eq!(guard.admit(&named(9, &[65, 66], 4), MonotonicMs(0), &mut standings), Admission::Known);
    assert_eq!(standings, [Standing::InFlight, Standing::New]);
    guard.settle(&first, &[Decision::Duplicate; 2]);
    assert_eq!(guard.recall(SubmissionName { source: 9, number: 65 }), Standing::Answered(Decision::Duplicate));
    assert_eq!(guard.recall(SubmissionName { source: 9, number: 66 }), Standing::InFlight);
}

#[test]
fn a_slow_source_is_not_too_old() {
    let mut guard = ReplayGuard::new(1000, 1 << 20);
    let mut standings = Vec::new();
    for number in 0..200 {
        let submission = named(8, &[number], number);
        assert_eq!(guard.admit(&submission, MonotonicMs(number * 2000), &mut standings), Admission::New, "{number}");
        guard.settle(&submission, &[Decision::FirstSeen]);
    }
    // A block that is in use is kept, together with its replies.
    for number in 200..230 {
        let submission = named(8, &[number], number);
        guard.admit(&submission, MonotonicMs(400_000 + number * 90), &mut standings);
        guard.settle(&submission, &[Decision::FirstSeen]);
    }
    let now_ms = 400_000 + 230 * 90;
    assert_eq!(guard.admit(&named(8, &[202, 100, 230], 999), MonotonicMs(now_ms), &mut standings), Admission::Known);
    let too_old = Standing::Answered(Decision::Undecided(Reason::TooOld));
    assert_eq!(standings, [Standing::Answered(Decision::FirstSeen), too_old, Standing::New]);
}

/// Sends batches and events with their own keys from many producers, including retries, with little memory.
#[test]
fn memory_is_bounded_and_no_answered_name_is_new_again() {
    const HORIZON_MS: u64 = 10_000;
    const BYTES_MAX: u64 = 200_000;
    for seed in 50..54 {
        let mut rng = TestRng(seed);
        let mut guard = ReplayGuard::new(HORIZON_MS, BYTES_MAX);
        let mut standings = Vec::new();
        let mut answered: Vec<(u64, Submission, Vec<Decision>)> = Vec::new();
        let mut outcomes: HashMap<&str, u32> = HashMap::new();
        let mut now_ms = 0;
        for sequence in 0..20_000 {
            now_ms += rng.below(4);
            let retry = if rng.below(3) == 0 {
                answered.get(answered.len().saturating_sub(rng.below(4000) as usize))
            } else {
                None
            };
            if let Some((answered_ms, submission, decisions)) = retry.cloned() {
                let admission = guard.admit(&submission, MonotonicMs(now_ms), &mut standings);
                let is_young = now_ms - answered_ms < HORIZON_MS;
                let outcome = match admission {
                    Admission::Refused(reason) => {
                        assert!(matches!(reason, Reason::TooOld | Reason::Overloaded), "seed {seed}: {reason:?}");
                        "refused"
                    }
                    Admission::New => {
                        assert!(!is_young, "seed {seed}: answered at {answered_ms}, new at {now_ms}");
                        guard.settle(&submission, &decisions);
                        "new"
                    }
                    Admission::Known | Admission::Attached => {
                        assert_eq!(standings.len(), decisions.len());
                        for (standing, decision) in standings.iter().zip(&decisions) {
                            let forgotten = matches!(standing, Standing::Answered(Decision::Undecided(_)));
                            let is_told = *standing == standing_of(*decision);
                            assert!(forgotten || is_told || !is_young, "seed {seed}: {decision:?}, {standing:?}");
                        }
                        guard.settle(&submission, &decisions);
                        "known"
                    }
                };
                *outcomes.entry(outcome).or_default() += u32::from(is_young);
            } else {
                let submission = match rng.below(3) {
                    0 => {
                        let first = sequence * 100;
                        let numbers: Vec<u64> = (0..1 + rng.below(90)).map(|step| first + step).collect();
                        named(u128::from(rng.below(2000)), &numbers, sequence)
                    }
                    _ => batch(u128::from(rng.below(2000)) << 64, sequence, 1 + rng.below(200) as usize),
                };
                let admission = guard.admit(&submission, MonotonicMs(now_ms), &mut standings);
                let all_new = standings.iter().all(|standing| *standing == Standing::New);
                if admission == Admission::New && all_new {
                    let decide = |_| if rng.below(2) == 0 { Decision::FirstSeen } else { Decision::Duplicate };
                    let decisions: Vec<Decision> = (0..submission.probes.len()).map(decide).collect();
                    guard.settle(&submission, &decisions);
                    answered.push((now_ms, submission, decisions));
                }
            }
            assert!(guard.bytes() <= BYTES_MAX + 4096, "seed {seed}: {} bytes", guard.bytes());
        }
        assert!(outcomes["known"] > 100 && outcomes["refused"] > 100, "seed {seed}: {outcomes:?}");
        guard.expire(MonotonicMs(now_ms + 10_000 * HORIZON_MS));
        assert_eq!(guard.bytes(), 0, "seed {seed}");
    }
}

const REUSED: Decision = Decision::Undecided(Reason::NameReused);

/// The event and the reply of each idempotency key. The reply is `None` while the event is in flight.
#[derive(Default)]
struct Model(HashMap<SubmissionName, (u64, Option<Decision>)>);

impl Model {
    fn expected(&self, name: SubmissionName, key: u64) -> (Standing, &'static str) {
        match self.0.get(&name) {
            Some((of, None)) if *of == key => (Standing::InFlight, "in flight"),
            Some((of, Some(reply))) if *of == key => (standing_of(*reply), "again"),
            Some((_, Some(reply))) if standing_of(*reply) == Standing::New => (Standing::New, "never answered"),
            Some(_) => (Standing::Answered(REUSED), "another event"),
            None => (Standing::New, "new"),
        }
    }

    fn settle(&mut self, names: &[SubmissionName], decisions: &[Decision]) {
        for (name, decision) in names.iter().zip(decisions).filter(|(_, reply)| **reply != REUSED) {
            self.0.entry(*name).and_modify(|(_, reply)| *reply = reply.or(Some(*decision)));
        }
    }
}

/// Uses idempotency keys several times, for the same event and for other events. Some requests are answered at once and
/// others later. A model tracks the event that each key belongs to. An event must never get the reply of another event
/// that had the same key.
#[test]
fn a_name_answers_no_other_event() {
    let mut seen: HashMap<&str, u32> = HashMap::new();
    for seed in 0..40 {
        let mut rng = TestRng(900 + seed);
        let (mut guard, mut standings) = (ReplayGuard::new(60_000, 64 << 20), Vec::new());
        let mut model = Model::default();
        let mut open: Option<(Submission, Vec<Decision>)> = None;
        for sequence in 0..600 {
            let name = |rng: &mut TestRng| SubmissionName { source: rng.below(2).into(), number: rng.below(100) };
            let events: Vec<_> = (0..6).map(|_| (name(&mut rng), rng.below(4))).collect();
            let submission = named_as(&events, sequence);
            let admission = guard.admit(&submission, MonotonicMs(sequence), &mut standings);
            assert!(matches!(admission, Admission::New | Admission::Known));
            let mut decisions = Vec::new();
            for ((name, key), standing) in events.iter().zip(&standings) {
                let (expected, what) = model.expected(*name, *key);
                assert_eq!(*standing, expected, "seed {seed}, batch {sequence}: {name:?}, {what}");
                *seen.entry(what).or_default() += 1;
                if expected == Standing::New {
                    model.0.insert(*name, (*key, None));
                }
                let of_open = open.iter().flat_map(|(open, reply)| open.names.iter().zip(reply));
                let of_own = submission.names.iter().zip(&decisions);
                let mut of_name = of_open.chain(of_own).filter(|(other, reply)| *other == name && **reply != REUSED);
                decisions.push(match expected {
                    Standing::Answered(decision) => decision,
                    Standing::InFlight => *of_name.next().expect("the one that it waits for").1,
                    Standing::New => decide(&mut rng),
                });
            }
            if open.is_none() && rng.below(2) == 0 {
                open = Some((submission, decisions));
                continue;
            }
            // A submission that waits is settled after the one that it waits for.
            for (submission, decisions) in open.take().into_iter().chain([(submission, decisions)]) {
                guard.settle(&submission, &decisions);
                model.settle(&submission.names, &decisions);
            }
        }
    }
    assert!(seen.len() == 5 && seen.values().all(|times| *times > 40), "{seen:?}");
}

/// Two producers use the same identity, because a machine was cloned while it was running.
#[test]
fn a_batch_of_other_events_under_the_same_name_is_refused() {
    let name = SubmissionName { source: 0, number: 0 };
    let of = |keys: [u64; 3]| Submission { names: Vec::new(), ..named_as(&keys.map(|key| (name, key)), 1) };
    let (mut guard, mut standings) = (ReplayGuard::new(1000, 1 << 20), Vec::new());
    let (first, others) = (of([1, 2, 3]), [of([4, 2, 3]), of([1, 2, 4])]);
    assert_eq!(guard.admit(&first, MonotonicMs(0), &mut standings), Admission::New);
    guard.depart(&first);
    for other in &others {
        assert_eq!(
            guard.admit(other, MonotonicMs(0), &mut standings),
            Admission::Refused(Reason::Invalid),
            "while it is in flight"
        );
    }
    guard.settle(&first, &[Decision::FirstSeen; 3]);
    for other in &others {
        assert_eq!(
            guard.admit(other, MonotonicMs(0), &mut standings),
            Admission::Refused(Reason::Invalid),
            "when it is answered"
        );
    }
    assert_eq!(guard.admit(&first, MonotonicMs(0), &mut standings), Admission::Known);
}
