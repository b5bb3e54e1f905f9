//! Tests owners and producers whose clocks or records contain wrong times. The tests use windows of every kind, with
//! their default units.

use std::collections::BTreeMap;

use crate::common::{TestRng, definition, digest, filter_record, fingerprints, node_record, slice_owner, spec};
use firstseen_filter::{Ability, FilterSpec, Kind, Probes, Unit, UnitNumber, Window, WindowClock, WindowRule};
use firstseen_mesh::plain_submission;
use firstseen_routing::{
    ClockSource, ClusterMap, Command, Decision, FilterId, FilterPolicies, GroupOwner, Moment, MonotonicMs, NodeId,
    Operation, OwnerLimits, Prober, Reason, SlicedDefinition, Submission, Tick, Times,
};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
/// A Tuesday at half past noon in UTC. In every time zone used below, this is in the middle of an hour.
const NOW_MS: u64 = 1_789_993_800_000;
const SKEW_MS: u64 = 500;
/// Time in milliseconds after which a producer that sends nothing counts as silent.
const SILENT_MS: u64 = 3_000;

const WINDOWS: [(Kind, &str); 11] = [
    (Kind::Bloom, "landmark:1h"),
    (Kind::Bloom, "landmark:hour@Europe/Athens"),
    (Kind::Bloom, "landmark:day@America/New_York"),
    (Kind::Bloom, "landmark:week@UTC"),
    (Kind::Generations, "6h"),
    (Kind::Counting, "6h"),
    (Kind::Timing, "6h"),
    (Kind::Generations, "30s"),
    (Kind::Timing, "30s"),
    (Kind::Cuckoo, "6h"),
    (Kind::Cuckoo, "30s"),
];

/// One owner of all slices, and producers that look only at their own clocks.
struct World {
    owner: GroupOwner,
    definition: SlicedDefinition,
    sequence: u64,
}

impl World {
    fn new((kind, window): (Kind, &str), slicing: &str) -> Self {
        let step_ms = window.parse::<Window>().unwrap().future_default_ms();
        Self::with((kind, window), slicing, step_ms)
    }

    fn with((kind, window): (Kind, &str), slicing: &str, step_ms: u64) -> Self {
        let mut spec = match (kind, window.parse().unwrap()) {
            // Timers get the lateness that they have by default. Without lateness, only a time one step ahead can be
            // confirmed.
            (Kind::Cuckoo, Window::Duration(ms)) => {
                FilterSpec { lateness_ms: Some(ms / 8), ..fingerprints(window, 200_000) }
            }
            _ => spec(kind, window, 1 << 13, 4),
        };
        spec.future_max_ms = step_ms;
        let definition = definition(&spec, slicing);
        let policies = FilterPolicies { clock: ClockSource::Event, ..FilterPolicies::default() };
        let owners = (0..definition.slicing.slices()).map(|_| slice_owner(NodeId(1))).collect();
        let map = ClusterMap {
            nodes: BTreeMap::from([(NodeId(1), node_record(NodeId(1)))]),
            filters: BTreeMap::from([(FilterId(1), filter_record(&definition, policies, owners))]),
            ..ClusterMap::default()
        };
        let limits = OwnerLimits { clock_skew_max_ms: SKEW_MS, ..OwnerLimits::default() };
        let owner = GroupOwner::build(FilterId(1), &map, 0, NodeId(1), limits).unwrap();
        Self { owner, definition, sequence: 0 }
    }

    fn unit(&self, time_ms: u64) -> UnitNumber {
        unit_of(&self.definition.group.unit, time_ms)
    }

    fn step_ms(&self) -> u64 {
        self.definition.group.future_max_ms
    }

    /// Submits a batch of events and returns the decisions. `producer` sends the batch when the owner's clock shows
    /// `wall_ms`. Each event is given as a key and an event time.
    ///
    /// A producer has an event clock of its own, and a submission also states what that clock showed at each event of
    /// the batch. In this helper, the producer's clock always shows the greatest event time of the batch so far.
    fn observe(&mut self, producer: u128, wall_ms: u64, events: &[(u64, u64)]) -> Vec<Decision> {
        let prober = Prober::new(&self.definition).unwrap();
        let mut probes = Probes::new(prober.shape());
        let (mut ticks, mut clock_unit, mut clock_ms) = (Vec::new(), UnitNumber::FIRST, None);
        for (key, time_ms) in events {
            let unit = self.unit(*time_ms);
            prober.push(digest(*key), &mut probes);
            (clock_unit, clock_ms) = (unit.max(clock_unit), clock_ms.max(Some(*time_ms)));
            ticks.push(Tick { clock_unit, unit });
        }
        self.sequence += 1;
        let submission = Submission {
            producer,
            times: Times { base_unit: clock_unit, ticks, clock_ms, ttl_ms: None },
            ..plain_submission(self.sequence, Operation::Observe, probes)
        };
        let mut commands = Vec::new();
        self.owner.submit(submission, Moment { monotonic_ms: MonotonicMs(5), wall_ms });
        self.owner.take_commands(&mut commands);
        let replies = commands.into_iter().filter_map(|command| match command {
            Command::Reply(reply) => Some(reply.answers.decisions().to_vec()),
            _ => None,
        });
        let mut replies = replies;
        replies.next().expect("a reply")
    }

    fn keys(&mut self, time_ms: u64) -> Vec<Decision> {
        self.observe(1, time_ms, &[1, 2, 3, 4, 5].map(|key| (key, time_ms)))
    }
}

fn unit_of(unit: &Unit, time_ms: u64) -> UnitNumber {
    let mut clock = WindowClock::new(unit.clone(), WindowRule { span_units: 1, lateness_units: 0 }, u64::MAX);
    clock.catch_up_ms(time_ms);
    clock.now_unit()
}

const FIRST_SEEN: [Decision; 5] = [Decision::FirstSeen; 5];
const DUPLICATES: [Decision; 5] = [Decision::Duplicate; 5];
const FUTURE: Decision = Decision::Undecided(Reason::Future);

fn windows() -> impl Iterator<Item = ((Kind, &'static str), &'static str)> {
    WINDOWS.into_iter().flat_map(|window| {
        let slicings: &[&str] = if !window.0.can(Ability::Divide) { &["none"] } else { &["none", "vertical:2"] };
        slicings.iter().map(move |slicing| (window, *slicing))
    })
}

fn each_window(check: impl Fn(World, &str)) {
    for (window, slicing) in windows() {
        check(World::new(window, slicing), &format!("{window:?} {slicing}"));
    }
}

#[test]
fn a_producer_that_is_ahead_ends_no_window_however_long_its_units_are() {
    each_window(|mut world, case| {
        let far_ms = world.step_ms() + SKEW_MS;
        assert_eq!((world.keys(NOW_MS), world.keys(NOW_MS)), (FIRST_SEEN.to_vec(), DUPLICATES.to_vec()), "{case}");
        let aheads_ms = [2 * far_ms, 20 * MINUTE_MS, 40 * MINUTE_MS, HOUR_MS, 3 * HOUR_MS, 28 * HOUR_MS, 400 * HOUR_MS];
        for (producer, ahead_ms) in (10..).zip(aheads_ms) {
            let events: Vec<_> = (0..300).map(|key| (1000 + key, NOW_MS + ahead_ms)).collect();
            let decisions = world.observe(producer, NOW_MS, &events);
            let is_taken = world.unit(NOW_MS + ahead_ms) <= world.unit(NOW_MS + far_ms);
            assert_eq!(!decisions.contains(&FUTURE), is_taken, "{case}: {ahead_ms} ms ahead");
            assert_eq!(world.keys(NOW_MS), DUPLICATES, "{case}: after events {ahead_ms} ms ahead");
        }
    });
}

#[test]
fn one_event_in_a_hundred_may_have_any_time() {
    each_window(|mut world, case| {
        // Every event arrives twice, one step of time apart. Between them are events with broken times, alone and in
        // runs.
        let (mut rng, mut unlike) = (TestRng(7), 0);
        for round in 0..40_u64 {
            let now_ms = NOW_MS + round * world.step_ms() / 4;
            let mut events: Vec<_> = (0..50).map(|key| (round / 2 * 50 + key, now_ms)).collect();
            if round % 4 == 3 {
                events[rng.below(50) as usize] = (1 << 40 | round, now_ms + rng.below(1 << 33));
                events[rng.below(50) as usize] = (1 << 41 | round, now_ms - rng.below(1 << 33));
            }
            let decisions = world.observe((1 + round % 3).into(), now_ms, &events);
            let expected = if round % 2 == 0 { Decision::FirstSeen } else { Decision::Duplicate };
            // A filter of this size has occasional false positives. In the first of two rounds, a broken event is a
            // different event.
            let wrong = |decision: &Decision| *decision != expected && *decision != Decision::Duplicate;
            let right = events.iter().zip(decisions).filter(|((key, _), _)| *key < 1 << 40);
            unlike += right.filter(|(_, decision)| wrong(decision)).count();
        }
        assert_eq!(unlike, 0, "{case}");
    });
}

#[test]
fn an_event_of_now_does_not_end_a_replay_of_others() {
    each_window(|mut world, case| {
        let old_ms = NOW_MS - 1000 * HOUR_MS;
        let batch = |from: u64, time_ms: u64| (0..50).map(|key| (from + key, time_ms)).collect::<Vec<_>>();
        world.observe(2, NOW_MS, &batch(1000, old_ms));
        world.observe(3, NOW_MS, &batch(2000, old_ms));
        assert_eq!(world.observe(9, NOW_MS, &[(7, NOW_MS)]), [FUTURE], "{case}");
        assert_eq!(world.observe(2, NOW_MS, &batch(2000, old_ms)), [Decision::Duplicate; 50], "{case}");
        // Once the replaying producers have been silent for some seconds, no other producer confirms or denies the
        // time.
        assert_eq!(world.observe(9, NOW_MS + SILENT_MS, &[(7, NOW_MS)]), [FUTURE], "{case}");
        assert_eq!(world.observe(9, NOW_MS + SILENT_MS + 1, &[(7, NOW_MS)]), [Decision::FirstSeen], "{case}");
    });
}

/// Replays a log that is `hours` old, as a single process sends it. Each batch contains the hundred lines of one
/// second.
fn replay(world: &mut World, producer: u128, wall_ms: u64, hours: u64, lines: u64) -> Vec<Decision> {
    let from_ms = NOW_MS - hours * HOUR_MS;
    let lines: Vec<_> = (0..lines).map(|line| (hours << 32 | line, from_ms + line / 100 * 1_000)).collect();
    lines.chunks(100).flat_map(|batch| world.observe(producer, wall_ms, batch)).collect()
}

fn unlike(decisions: &[Decision], expected: Decision) -> usize {
    decisions.iter().filter(|decision| **decision != expected && **decision != Decision::Duplicate).count()
}

/// The two ways in which the earlier producer stops: it is silent for long, or it has ended and its node knows that.
const PAUSES_MS: [(u64, bool); 2] = [(SILENT_MS + 1, false), (0, true)];

#[test]
fn after_a_backfill_the_tail_is_served() {
    for (window, slicing) in windows() {
        for (pause_ms, is_told) in PAUSES_MS {
            let (mut world, case) = (World::new(window, slicing), format!("{window:?} {slicing} {pause_ms}"));
            assert_eq!(unlike(&replay(&mut world, 1, NOW_MS, 720, 3_000), Decision::FirstSeen), 0, "{case}");
            if is_told {
                world.owner.end_producer(1);
            }
            for line in 0..20 {
                let now_ms = NOW_MS + pause_ms + line * 500;
                let decisions = world.observe(2, now_ms, &[(line, now_ms)]);
                assert_eq!(unlike(&decisions, Decision::FirstSeen), 0, "{case}: line {line}");
            }
        }
    }
}

#[test]
fn files_that_one_process_each_replays_lose_nothing() {
    for (window, slicing) in windows() {
        for (pause_ms, is_told) in PAUSES_MS {
            for lines in [1, 100, 300] {
                let (mut world, mut wall_ms) = (World::new(window, slicing), NOW_MS);
                for (process, days) in (1..).zip([30, 29, 27]) {
                    let decisions =
                        replay(&mut world, process, wall_ms, 24 * days, if process == 1 { 3_000 } else { lines });
                    let case = format!("{window:?} {slicing} {pause_ms}: process {process}, {lines} lines");
                    assert_eq!(unlike(&decisions, Decision::FirstSeen), 0, "{case}");
                    if is_told {
                        world.owner.end_producer(process);
                    }
                    wall_ms += pause_ms;
                }
            }
        }
    }
}

#[test]
fn a_broken_clock_moves_nothing_while_others_send() {
    each_window(|mut world, case| {
        let old_ms = NOW_MS - 1000 * HOUR_MS;
        let batch: Vec<_> = (0..100).map(|key| (1_000 + key, old_ms)).collect();
        world.observe(2, NOW_MS, &batch);
        for turn in 1..100 {
            // The producer with the right times pauses for the longest time that does not count as silence.
            let now_ms = NOW_MS + turn * SILENT_MS;
            let ahead_ms = [400, 700, 1000][turn as usize % 3] * HOUR_MS;
            let decisions = world.observe(9, now_ms, &[(1 << 40 | turn, old_ms + ahead_ms)]);
            assert_eq!(decisions, [FUTURE], "{case}: turn {turn}");
            assert_eq!(world.observe(2, now_ms, &batch), [Decision::Duplicate; 100], "{case}: turn {turn}");
        }
    });
}

#[test]
fn producers_whose_events_come_late_all_the_time_are_served() {
    each_window(|mut world, case| {
        // The events are many windows away from the present. Each call has one event, and calls are a fiftieth of a
        // step apart.
        let (gap_ms, mut refused) = ((world.step_ms() / 50).max(1), 0);
        let lag_ms = 10 * world.step_ms() + 4 * HOUR_MS;
        for event in 0..2_000 {
            let now_ms = NOW_MS + event * gap_ms;
            let decisions = world.observe(1 + u128::from(event % 3), now_ms, &[(event, now_ms - lag_ms)]);
            refused += decisions.iter().filter(|decision| matches!(decision, Decision::Undecided(_))).count();
        }
        assert_eq!(refused, 0, "{case}");
    });
}

#[test]
fn a_replay_by_many_producers_is_served_with_one_event_a_call() {
    each_window(|mut world, case| {
        let (gap_ms, mut refused) = ((world.step_ms() / 5).max(1), 0);
        for event in 0..2_000 {
            let decisions =
                world.observe(1 + u128::from(event % 3), NOW_MS, &[(event, NOW_MS - 9_000 * HOUR_MS + event * gap_ms)]);
            refused += decisions.iter().filter(|decision| matches!(decision, Decision::Undecided(_))).count();
        }
        assert_eq!(refused, 0, "{case}");
        // A broken time of another producer must not end the replay.
        let last_ms = NOW_MS - 9_000 * HOUR_MS + 1_999 * gap_ms;
        let window_ms = 1_000 * HOUR_MS;
        assert_eq!(world.observe(2, NOW_MS, &[(9_999, last_ms + window_ms)]), [FUTURE], "{case}");
        assert_eq!(world.observe(1, NOW_MS, &[(1_999, last_ms)]), [Decision::Duplicate], "{case}");
    });
}

#[test]
fn old_records_of_one_producer_do_not_refuse_what_occurs_now() {
    each_window(|mut world, case| {
        let evening_ms = NOW_MS - 10 * HOUR_MS;
        world.keys(evening_ms);
        // An uploader sends events that are late or nearly late.
        let late: Vec<_> = (0..200).map(|key| (1_000 + key, evening_ms - HOUR_MS)).collect();
        world.observe(7, NOW_MS, &late);
        for producer in 1..4 {
            let events: Vec<_> = (0..3).map(|key| (2_000 + 10 * key + producer as u64, NOW_MS)).collect();
            assert!(!world.observe(producer, NOW_MS, &events).contains(&FUTURE), "{case}: {producer}");
        }
    });
}

#[test]
fn a_step_without_end_refuses_nothing() {
    let mut world = World::with((Kind::Timing, "6h"), "none", u64::MAX);
    assert_eq!(world.keys(NOW_MS), FIRST_SEEN);
    assert_eq!(world.observe(2, NOW_MS, &[(9, NOW_MS + 400 * HOUR_MS)]), [Decision::FirstSeen]);
}

#[test]
fn a_stream_goes_on_after_a_night_of_silence() {
    each_window(|mut world, case| {
        for (producer, hours) in [(1, 0), (2, 9), (1, 18), (3, 5000)] {
            let now_ms = NOW_MS + hours * HOUR_MS;
            let decisions = world.observe(producer, now_ms, &[(hours, now_ms), (hours, now_ms)]);
            assert_eq!(decisions, [Decision::FirstSeen, Decision::Duplicate], "{case}: after {hours} h");
        }
    });
}
