//! Tests with streams whose producers have clocks that are far apart, or deliver events late. The filter must not
//! mistake an event that is on time for the event of a broken clock.
//!
//! The tests were written after a failure with three log shippers, two of which were 15 minutes behind. The filter
//! rejected every event of the third shipper, although that shipper was on time. The reason was that fewer than half of
//! the following events were as recent as the events of that shipper.

use crate::common::TestRng;
use firstseen_filter::{FilterSpec, Kind, Placed, WindowClock};

const MINUTE_MS: u64 = 60_000;
const START_MS: u64 = 1_431_000_000_000;
const EVENTS: u64 = 12_000;

fn clock() -> WindowClock {
    let window = "10m".parse().unwrap();
    let spec = FilterSpec { cells: Some(1 << 18), hashes: Some(7), ..FilterSpec::new(Kind::Timing, window) };
    let definition = spec.resolve().unwrap();
    WindowClock::new(definition.unit.clone(), definition.rule, definition.future_max_ms)
}

/// Returns the indexes of rejected events. The events come `known` at a time, and `ahead` further events are known at
/// each time.
fn refused(clock: &mut WindowClock, times_ms: &[u64], known: usize, ahead: usize) -> Vec<usize> {
    let mut refused = Vec::new();
    for start in (0..times_ms.len()).step_by(known) {
        let seen = &times_ms[start..times_ms.len().min(start + known + ahead)];
        let is_refused = |event: &usize| clock.place_nth(seen, *event) == Placed::Refused;
        refused.extend((0..known.min(times_ms.len() - start)).filter(is_refused).map(|event| start + event));
    }
    refused
}

/// Returns the times of shippers that send `block` events each in turn. All shippers but the last are 15 minutes
/// behind.
fn shippers(count: u64, block: u64, gap_ms: u64) -> Vec<u64> {
    let mut rng = TestRng(count + block);
    let time_ms = |event: u64| {
        // With blocks of length 0, a random shipper sends each event.
        let shipper = event.checked_div(block).unwrap_or_else(|| rng.below(count)) % count;
        START_MS + event * gap_ms - if shipper == count - 1 { 0 } else { 15 * MINUTE_MS }
    };
    (0..EVENTS).map(time_ms).collect()
}

#[test]
fn a_third_of_all_events_from_one_shipper_is_no_broken_clock() {
    for gap_ms in [10, 100, 333, 1_000] {
        for block in [0, 1, 2, 5, 10, 20, 32, 50, 64, 100, 128] {
            let times_ms = shippers(3, block, gap_ms);
            let refused = refused(&mut clock(), &times_ms, 4096, 4096).len();
            assert!(refused <= 64, "{refused} refused of {EVENTS}, {gap_ms} ms apart in blocks of {block}");
        }
    }
}

#[test]
fn longer_blocks_and_smaller_shares_are_borne_out_as_well() {
    for gap_ms in [10, 100, 1_000] {
        for (count, block) in [(3, 150), (3, 200), (4, 1), (4, 20), (4, 100), (5, 1), (5, 50), (6, 10), (6, 64)] {
            let times_ms = shippers(count, block, gap_ms);
            let refused = refused(&mut clock(), &times_ms, 4096, 4096).len() as u64;
            let on_time = EVENTS / count;
            let what = format!("{gap_ms} ms apart in blocks of {block} by {count} shippers");
            assert!(refused * 3 < on_time, "{refused} refused of {on_time}, {what}");
        }
    }
}

/// A client that calls with few events does not know the following events. It learns the distance from the events that
/// it has rejected.
#[test]
fn small_calls_learn_how_far_apart_a_stream_is() {
    for known in [40, 100, 255] {
        for block in [1, 10, 50, 100] {
            let times_ms = shippers(3, block, 1_000);
            let refused = refused(&mut clock(), &times_ms, known, 0).len() as u64;
            assert!(refused < EVENTS / 6, "{refused} refused of {}, {known} a call, blocks of {block}", EVENTS / 3);
        }
    }
}

#[test]
fn events_that_are_delivered_late_refuse_none_that_is_on_time() {
    for gap_ms in [10, 100, 333, 1_000, 5_000] {
        let mut rng = TestRng(gap_ms);
        let times_ms: Vec<u64> =
            (0..EVENTS).map(|event| START_MS + event * gap_ms - rng.below(10 * MINUTE_MS)).collect();
        let refused = refused(&mut clock(), &times_ms, 4096, 4096).len() as u64;
        assert!(refused * 12 < EVENTS, "{refused} refused of {EVENTS}, {gap_ms} ms apart");
    }
}

/// The distance between the shippers is no sign of a broken clock, but a time that is further ahead is.
#[test]
fn broken_times_in_such_a_stream_end_no_window() {
    for block in [1, 10, 100] {
        for (burst, first) in [(1, 50), (100, 4_000)] {
            let mut times_ms = shippers(3, block, 1_000);
            let is_broken = |event: usize| event >= first && (event - first) % (burst * 100) < burst;
            let events: Vec<usize> = (0..times_ms.len()).filter(|event| is_broken(*event)).collect();
            events.iter().for_each(|event| times_ms[*event] += 5 * 60 * MINUTE_MS);
            let mut clock = clock();
            let refused = refused(&mut clock, &times_ms, 4096, 4096);
            let last_ms = START_MS + EVENTS * 1_000;
            assert!(clock.now_ms().is_some_and(|now_ms| now_ms <= last_ms), "blocks of {block}, {burst} in a row");
            assert!(events.iter().all(|event| refused.contains(event)), "blocks of {block}, {burst} in a row");
        }
    }
}

/// Checks that a clock becomes strict again after a stream whose producers were far apart. In that stream, the clock
/// has measured the distance between the producers and accepts times that are ahead by this distance. Later events
/// arrive in order, one per second. The clock must reject none of these events while it forgets the distance.
/// Afterwards it must reject a wrong time again.
#[test]
fn a_stream_that_is_in_order_again_is_as_strict_as_before() {
    let mut clock = clock();
    refused(&mut clock, &shippers(3, 100, 1_000), 4096, 4096);
    let from_ms = START_MS + EVENTS * 1_000;
    let mut times_ms: Vec<u64> = (0..100_000).map(|event| from_ms + event * 1_000).collect();
    times_ms[90_000] += 16 * MINUTE_MS;
    assert_eq!(refused(&mut clock, &times_ms, 4096, 4096), [90_000]);
}
