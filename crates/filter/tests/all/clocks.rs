//! Checks that two ways of placing events give the same places. In the first way, a single clock places all events by
//! their times. In the second way, a clock turns the times of the events into units, and several other clocks place the
//! events by these units.

use crate::common::{TestRng, config};
use firstseen_filter::{Jump, Placed, Stamp, Unit, UnitClock, UnitNumber, WindowClock, WindowRule};
use proptest::prelude::*;

/// Time of an event, or its difference from the time of the event before.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ahead(u64),
    Behind(u64),
    /// A time that is at, or beyond, the limit up to which a clock accepts a single event.
    Far(u64),
}

fn units() -> impl Strategy<Value = (Unit, u64)> {
    let calendar = |name: &str, unit_ms: u64| (Unit::Calendar(name.parse().unwrap()), unit_ms);
    prop_oneof![
        Just((Unit::Milliseconds(1), 1_u64)),
        Just((Unit::Milliseconds(70), 70)),
        Just((Unit::Milliseconds(675_000), 675_000)),
        Just(calendar("hour@Europe/Athens", 3_600_000)),
        Just(calendar("day@America/St_Johns", 86_400_000)),
        Just(calendar("week@Pacific/Apia", 7 * 86_400_000)),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..60_u64).prop_map(Step::Ahead),
        1 => (0..4000_u64).prop_map(Step::Ahead),
        3 => (0..300_u64).prop_map(Step::Behind),
        1 => (0..40_u64).prop_map(Step::Far),
    ];
    prop::collection::vec(step, 1..300)
}

/// Returns the times in milliseconds. A unit is ten times the unit of a step.
fn times(steps: &[Step], unit_ms: u64, future_max_ms: u64) -> Vec<u64> {
    // The times start in summer 2026, so that a year of steps crosses the clock changes of the time zones.
    let mut now_ms = 1_790_000_000_000_u64;
    let scaled = |step: u64| (step * unit_ms).div_ceil(10);
    let place = |step: &Step| match *step {
        Step::Ahead(ahead) => {
            now_ms += scaled(ahead).min(future_max_ms);
            now_ms
        }
        Step::Behind(behind) => now_ms.saturating_sub(scaled(behind)),
        Step::Far(beyond) => {
            let time_ms = now_ms + future_max_ms - scaled(20).min(future_max_ms) + scaled(beyond);
            if time_ms <= now_ms + future_max_ms {
                now_ms = time_ms.max(now_ms);
            }
            time_ms
        }
    };
    steps.iter().map(place).collect()
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn ticks_placed_by_several_clocks_are_where_one_clock_places_times(
        (unit, unit_ms) in units(),
        rule in (1..40_u64, 0..10_u64).prop_map(|(span_units, lateness_units)| WindowRule { span_units, lateness_units }),
        future_units in prop_oneof![Just(0_u64), Just(1), Just(30), Just(2000)],
        owners in 1..6_u64,
        steps in steps(),
        seed in any::<u64>(),
    ) {
        let future_max_ms = future_units * unit_ms;
        let step_units = unit.future_units(future_max_ms);
        let mut exact = WindowClock::new(unit.clone(), rule, future_max_ms);
        let mut producer = WindowClock::new(unit, rule, future_max_ms);
        let mut heads = vec![UnitClock::new(rule, step_units); owners as usize];
        let mut rng = TestRng(seed);
        let (mut base_unit, mut told_base) = (UnitNumber::FIRST, vec![false; owners as usize]);
        // A time that the producer's clock has accepted counts as confirmed for the other clocks.
        let believed = |_: Jump| true;
        let times_ms = times(&steps, unit_ms, future_max_ms);
        for event in 0..times_ms.len() {
            // A batch ends at a random event.
            let (before, expected) = (producer.now_unit(), exact.place_nth(&times_ms, event));
            let Some((clock_unit, unit)) = producer.tick_nth(&times_ms, event) else {
                prop_assert_eq!(expected, Placed::Refused);
                continue;
            };
            prop_assert!(unit <= clock_unit);
            if rng.below(20) == 0 {
                base_unit = before;
                told_base.fill(false);
            }
            let owner = rng.below(owners) as usize;
            if !std::mem::replace(&mut told_base[owner], true) {
                heads[owner].catch_up(base_unit, believed);
            }
            prop_assert_eq!(heads[owner].place(clock_unit, unit, believed), expected);
            prop_assert_eq!((producer.now_unit(), producer.now_ms()), (exact.now_unit(), exact.now_ms()));
        }
    }

    #[test]
    fn a_clock_that_catches_up_goes_on_as_if_it_had_seen_the_time((unit, unit_ms) in units(), steps in steps()) {
        let rule = WindowRule { span_units: 10, lateness_units: 2 };
        let (mut seen, mut got) =
            (WindowClock::new(unit.clone(), rule, u64::MAX), WindowClock::new(unit, rule, u64::MAX));
        for (event, time_ms) in times(&steps, unit_ms, 1 << 40).into_iter().enumerate() {
            if event % 3 == 0 {
                seen.place(Some(time_ms));
                got.catch_up_ms(time_ms);
            } else {
                prop_assert_eq!(seen.place(Some(time_ms)), got.place(Some(time_ms)));
            }
            prop_assert_eq!((seen.now_unit(), seen.now_ms()), (got.now_unit(), got.now_ms()));
        }
    }
}

#[test]
fn windows_without_time_tick_with_their_events() {
    let rule = WindowRule { span_units: 5, lateness_units: 0 };
    let mut counting = WindowClock::new(Unit::Events(2), rule, 0);
    let ticks: Vec<_> = (0..5).map(|_| counting.place_tick(None)).collect();
    assert_eq!(ticks, [0, 0, 1, 1, 2].map(|unit| Some((UnitNumber(unit), UnitNumber(unit)))));
    counting.catch_up_ms(1 << 40);
    assert_eq!((counting.now_ms(), counting.place_tick(None)), (None, Some((UnitNumber(2), UnitNumber(2)))));
    let mut endless = WindowClock::new(Unit::Endless, rule, 0);
    assert_eq!(endless.place_tick(Some(77)), Some((UnitNumber::FIRST, UnitNumber::FIRST)));
    let mut timed = WindowClock::new(Unit::Milliseconds(10), rule, 0);
    assert_eq!((timed.place_tick(None), timed.place_tick(Some(u64::MAX))), (None, None));
}

const ALONE: fn(Jump) -> bool = |_| true;
const NOBODY: fn(Jump) -> bool = |_| false;

/// Places an event of `unit` whose producer's clock showed the same unit.
fn place(clock: &mut UnitClock, unit: u64, confirms_jump: impl Fn(Jump) -> bool) -> Placed {
    clock.place(UnitNumber(unit), UnitNumber(unit), confirms_jump)
}

fn at(unit: u64) -> Placed {
    Placed::At(Stamp::on_time(UnitNumber(unit)))
}

fn late(unit: u64, judged: u64) -> Placed {
    Placed::At(Stamp { unit: UnitNumber(unit), judged: UnitNumber(judged) })
}

#[test]
fn units_beyond_all_times_are_refused() {
    let mut clock = UnitClock::new(WindowRule { span_units: 5, lateness_units: 0 }, u64::MAX);
    assert_eq!(clock.place(UnitNumber(3), UnitNumber::NEVER, ALONE), Placed::Refused);
    // The reading of a producer's clock is only a hint.
    assert_eq!(clock.place(UnitNumber::NEVER, UnitNumber(3), ALONE), at(3));
    clock.catch_up(UnitNumber::NEVER, ALONE);
    clock.restore(UnitNumber::NEVER);
    assert_eq!(clock.now_unit(), UnitNumber(3));
    assert_eq!(clock.look_up(UnitNumber::FIRST, UnitNumber::NEVER), Placed::Refused);
}

#[test]
fn nobody_moves_the_clock_far_ahead_of_the_present() {
    let new = || UnitClock::new(WindowRule { span_units: 10, lateness_units: 0 }, 60);
    // These are the first event, and an event behind it.
    let mut clock = new();
    clock.show_present(UnitNumber(1000)..=UnitNumber(1060), true);
    assert_eq!(place(&mut clock, 1061, ALONE), Placed::Refused);
    assert_eq!(place(&mut clock, 1060, NOBODY), at(1060));
    // The upper bound stays the same, however far the clock has come.
    for unit in [1061, 1100, 1120] {
        assert_eq!(place(&mut clock, unit, ALONE), Placed::Refused);
        clock.catch_up(UnitNumber(unit), ALONE);
    }
    assert_eq!(clock.now_unit(), UnitNumber(1060));
    clock.show_present(UnitNumber(1030)..=UnitNumber(1090), true);
    clock.show_present(UnitNumber(1001)..=UnitNumber(1061), true);
    assert_eq!(place(&mut clock, 1091, ALONE), Placed::Refused);
    assert_eq!(place(&mut clock, 1090, NOBODY), at(1090));
}

#[test]
fn a_step_within_a_unit_is_no_unit() {
    let mut clock = UnitClock::new(WindowRule { span_units: 1, lateness_units: 0 }, 1);
    clock.show_present(UnitNumber(1000)..=UnitNumber(1000), true);
    assert_eq!(place(&mut clock, 1000, ALONE), at(1000));
    assert_eq!(place(&mut clock, 1001, ALONE), Placed::Refused);
    clock.show_present(UnitNumber(1000)..=UnitNumber(1001), true);
    assert_eq!(place(&mut clock, 1001, NOBODY), at(1001));
}

#[test]
fn old_events_move_the_clock_as_far_as_they_are_borne_out() {
    let mut clock = UnitClock::new(WindowRule { span_units: 10, lateness_units: 0 }, 60);
    clock.show_present(UnitNumber(10_000)..=UnitNumber(10_060), true);
    assert_eq!(place(&mut clock, 7, NOBODY), Placed::Refused);
    // A doubtful time is checked again with the next run of events.
    assert_eq!(place(&mut clock, 7, ALONE), Placed::Refused);
    clock.catch_up(UnitNumber::FIRST, NOBODY);
    assert_eq!(place(&mut clock, 7, ALONE), at(7));
    assert_eq!(place(&mut clock, 67, NOBODY), at(67));
    // Several steps do not add up.
    assert_eq!(place(&mut clock, 68, NOBODY), Placed::Refused);
    // The anchor moves to the time that the other clocks confirm, which is before the event itself in this case.
    clock.catch_up(UnitNumber::FIRST, NOBODY);
    assert_eq!(place(&mut clock, 3000, |jump: Jump| jump.from <= UnitNumber(2950)), at(3000));
    assert_eq!(place(&mut clock, 3001, NOBODY), Placed::Refused);
    clock.catch_up(UnitNumber::FIRST, NOBODY);
    assert_eq!(place(&mut clock, 3050, |jump: Jump| jump.from <= UnitNumber(3050)), at(3050));
    assert_eq!(place(&mut clock, 3110, NOBODY), at(3110));
    assert_eq!(place(&mut clock, 3111, NOBODY), Placed::Refused);
    // A wrong clock of a producer moves no other clock, and the event is placed by its own unit.
    assert_eq!(clock.place(UnitNumber(9000), UnitNumber(3105), NOBODY), late(3105, 3110));
    assert_eq!(clock.place(UnitNumber(9000), UnitNumber(3106), NOBODY), late(3106, 3110));
    clock.catch_up(UnitNumber(9000), NOBODY);
    assert_eq!(clock.now_unit(), UnitNumber(3110));
    assert!(!clock.is_live());
}

#[test]
fn the_present_takes_old_events_along_unless_others_outweigh_it() {
    let mut clock = UnitClock::new(WindowRule { span_units: 10, lateness_units: 0 }, 60);
    clock.show_present(UnitNumber(10_000)..=UnitNumber(10_060), false);
    clock.catch_up(UnitNumber::FIRST, NOBODY);
    assert_eq!(place(&mut clock, 7, ALONE), at(7));
    assert_eq!(place(&mut clock, 9940, NOBODY), Placed::Refused);
    clock.show_present(UnitNumber(10_000)..=UnitNumber(10_060), true);
    assert_eq!(place(&mut clock, 9940, NOBODY), at(9940));
    assert!(clock.is_live());
}

#[test]
fn events_that_come_late_all_the_time_go_on_with_the_time_of_day() {
    let mut clock = UnitClock::new(WindowRule { span_units: 10, lateness_units: 2 }, 1);
    clock.show_present(UnitNumber(1000)..=UnitNumber(1001), true);
    assert_eq!(place(&mut clock, 950, ALONE), at(950));
    for passed in 0..500 {
        clock.show_present(UnitNumber(1000 + passed)..=UnitNumber(1001 + passed), true);
        clock.catch_up(UnitNumber::FIRST, NOBODY);
        assert_eq!(place(&mut clock, 952 + passed, NOBODY), Placed::Refused, "{passed}");
        assert_eq!(place(&mut clock, 950 + passed, NOBODY), at(950 + passed));
    }
    // A clock that takes over begins with the unit that it is given.
    let mut next = UnitClock::new(WindowRule { span_units: 10, lateness_units: 2 }, 1);
    next.restore(clock.now_unit());
    next.show_present(UnitNumber(9000)..=UnitNumber(9001), true);
    assert_eq!(place(&mut next, 1460, NOBODY), Placed::Refused);
}

#[test]
fn a_clock_that_goes_on_where_another_was_takes_no_step_more() {
    let rule = WindowRule { span_units: 10, lateness_units: 0 };
    let mut clock = UnitClock::new(rule, 60);
    place(&mut clock, 100, ALONE);
    assert_eq!(place(&mut clock, 160, NOBODY), at(160));
    let mut next = UnitClock::new(rule, 60);
    next.restore(clock.now_unit());
    assert_eq!((next.now_unit(), place(&mut next, 161, NOBODY)), (UnitNumber(160), Placed::Refused));
}

#[test]
fn lookups_move_no_clock() {
    let mut clock = UnitClock::new(WindowRule { span_units: 10, lateness_units: 2 }, 60);
    clock.show_present(UnitNumber(1000)..=UnitNumber(1060), true);
    place(&mut clock, 100, ALONE);
    let before = clock.clone();
    assert_eq!(clock.look_up(UnitNumber(100), UnitNumber(105)), late(100, 105));
    assert_eq!(clock.look_up(UnitNumber(100), UnitNumber(5000)), late(100, 5000));
    assert_eq!(clock.look_up(UnitNumber(100), UnitNumber(95)), late(95, 98));
    // The clock of the client may be ahead of this clock, because of events that other nodes own.
    assert_eq!(clock.look_up(UnitNumber(104), UnitNumber(95)), late(95, 102));
    assert_eq!(clock.look_up(UnitNumber(150), UnitNumber(95)), Placed::Late);
    assert_eq!(clock.look_up(UnitNumber(5000), UnitNumber(95)), late(95, 98));
    assert_eq!(clock, before);
}
