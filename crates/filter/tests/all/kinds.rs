//! Checks that every kind of [`Kind::ALL`] has exactly its declared properties. A new kind is tested without changes to
//! this file.

use std::ops::Range;

use firstseen_filter::snapshot::{self, UnverifiedSnapshot};
use firstseen_filter::{
    Ability, FilterDefinition, FilterSlice, FilterSpec, FrequencySpec, GrowthSpec, Kind, Lateness, Layout, Limit,
    MergeError, Refresh, Stamp, UnitNumber, Verdict, Window,
};

use crate::common::{body, digests};

/// Capacity of the filters.
const CAPACITY_EVENTS: u64 = 1000;

fn with_verdicts() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| !kind.estimates_frequencies())
}

/// Returns a filter specification of `kind` with its default window.
fn spec(kind: Kind) -> FilterSpec {
    FilterSpec { capacity_events: Some(CAPACITY_EVENTS), ..FilterSpec::new(kind, kind.default_window()) }
}

fn definition(kind: Kind) -> FilterDefinition {
    if kind.estimates_frequencies() {
        return FrequencySpec::new(kind.default_window(), 0.5).resolve().unwrap();
    }
    spec(kind).resolve().unwrap()
}

/// Unit of the last events of [`observe`].
const LAST_UNIT: u64 = 11;

/// Observes new events. They are spread evenly over five units if the window has that many, so that no jump is
/// overloaded.
fn observe(slice: &mut FilterSlice, definition: &FilterDefinition, events: Range<u64>) -> Vec<Verdict> {
    let units = if definition.rule.span_units > 4 { 5 } else { 1 };
    let count = events.end - events.start;
    let stamps: Vec<Stamp> =
        (0..count).map(|event| Stamp::on_time(UnitNumber(LAST_UNIT + 1 - units + event * units / count))).collect();
    let mut verdicts = vec![Verdict::Undecided; count as usize];
    slice.observe_batch(&digests(events.start, count), &stamps, &mut verdicts);
    verdicts
}

/// Returns whether all events are found.
fn finds(slice: &mut FilterSlice, events: Range<u64>) -> bool {
    let count = events.end - events.start;
    let mut verdicts = vec![Verdict::Undecided; count as usize];
    let stamps = vec![Stamp::on_time(UnitNumber(LAST_UNIT)); count as usize];
    slice.lookup_batch(&digests(events.start, count), &stamps, &mut verdicts);
    verdicts.iter().all(|verdict| *verdict == Verdict::Duplicate)
}

#[test]
fn names_are_those_of_definitions() {
    for kind in Kind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.to_string(), "the name in definitions");
        let definition = definition(kind);
        assert_eq!(definition.cells.kind(), kind);
        let json = serde_json::to_string(&definition).unwrap();
        assert_eq!(serde_json::from_str::<FilterDefinition>(&json).unwrap(), definition, "{kind}");
    }
}

#[test]
fn windows_that_are_nearest_to_one_asked_for_exist() {
    for kind in with_verdicts() {
        let asked = ["1h", "1000events", "unbounded", "landmark:1h", "landmark:1000events", "landmark:day"];
        let asked = asked.map(|window| window.parse::<Window>().unwrap());
        assert!(asked.iter().any(|window| kind.nearest_window(window).is_some()), "{kind}");
        for window in asked {
            let is_own = kind.nearest_window(&window).as_ref() == Some(&window);
            let made = FilterSpec { window: window.clone(), ..spec(kind) }.resolve();
            assert_eq!(made.is_ok(), is_own, "kind {kind}, window {window}: {made:?}");
        }
    }
}

#[test]
fn a_definition_says_what_its_slice_takes() {
    for kind in Kind::ALL {
        let definition = definition(kind);
        definition.check().unwrap();
        let slice = FilterSlice::build(&definition).unwrap();
        assert_eq!(slice.kind(), kind);
        assert!(definition.bytes() <= definition.bytes_max(), "{kind}");
        assert!(slice.bytes() <= definition.bytes_max(), "{kind}: {} of {}", slice.bytes(), definition.bytes_max());
        if !kind.estimates_frequencies() {
            assert!(definition.bytes() <= slice.bytes(), "{kind}: {} of {}", definition.bytes(), slice.bytes());
        }
        assert_eq!(definition.cells.geometry().is_some(), slice.kept_units().is_some(), "{kind}");
    }
}

#[test]
fn events_are_found_after_they_were_recorded_and_after_a_restart() {
    for kind in with_verdicts() {
        let definition = definition(kind);
        let mut slice = FilterSlice::build(&definition).unwrap();
        let new = observe(&mut slice, &definition, 0..500);
        assert!(new.iter().filter(|verdict| **verdict == Verdict::FirstSeen).count() > 480, "{kind}");
        let mut bytes = Vec::new();
        snapshot::write(&mut bytes, &definition, |sink| slice.write_body(sink)).unwrap();
        let mut read = FilterSlice::build(&definition).unwrap();
        let saved = UnverifiedSnapshot::<_, FilterDefinition>::open(&bytes[..]).unwrap();
        saved.verify(|source| read.read_body(source)).unwrap();
        assert_eq!(body(&read), body(&slice), "{kind}");
        if definition.cells.misses_nothing() {
            assert!(finds(&mut read, 0..500), "{kind}");
        }
    }
}

#[test]
fn a_full_filter_refuses_forgets_or_has_room() {
    for kind in with_verdicts() {
        let definition = definition(kind);
        let mut slice = FilterSlice::build(&definition).unwrap();
        let verdicts = observe(&mut slice, &definition, 0..20 * CAPACITY_EVENTS);
        let refuses = verdicts.contains(&Verdict::Undecided);
        assert_eq!(refuses, definition.cells.refuses(), "{kind}");
        assert!(!(refuses && kind.forgets_early()), "{kind}");
    }
}

#[test]
fn rates_are_as_asked_for() {
    for kind in with_verdicts() {
        let definition = definition(kind);
        let rates = definition.rates(CAPACITY_EVENTS as f64);
        assert!(rates.worst <= definition.rate * 1.0001 && rates.mean <= rates.worst, "{kind}: {rates:?}");
        let mut slice = FilterSlice::build(&definition).unwrap();
        observe(&mut slice, &definition, 0..CAPACITY_EVENTS);
        // These events fill fewer jumps than the window has, so the rate may be above that of an even load.
        assert!(slice.expected_rate() <= 1.5 * definition.rate, "{kind}: {} of {rates:?}", slice.expected_rate());
    }
}

#[test]
fn abilities_are_there_exactly_where_they_are_named() {
    let growth = GrowthSpec { limit: Limit::Cardinality, generations_max: 4, ratio: 1.0 };
    for kind in with_verdicts() {
        let spec = spec(kind);
        let of = |name: &str, ability, asked: FilterSpec| {
            let made = asked.resolve();
            assert_eq!(made.is_ok(), kind.can(ability), "kind {kind}, {name}: {made:?}");
        };
        of("growth", Ability::Grow, FilterSpec { growth: Some(growth), ..spec.clone() });
        of("no capacity", Ability::StartSmall, FilterSpec { capacity_events: None, ..spec.clone() });
        of("ticks", Ability::Ticks, FilterSpec { ticks: Some(10), ..spec.clone() });
        of("refresh", Ability::Refresh, FilterSpec { refresh: Refresh::Refresh, ..spec.clone() });
        of("equal timers", Ability::EqualTimers, FilterSpec { equal_timers: 1, ..spec.clone() });
        let late = FilterSpec { lateness_ms: Some(1000), ..spec.clone() }.resolve();
        let is_timed = matches!(spec.window, Window::Duration(_));
        if is_timed {
            assert_eq!(late.is_ok(), kind.properties().lateness != Lateness::Refused, "{kind}: {late:?}");
        }
        let mut definition = spec.resolve().unwrap();
        assert_eq!(definition.ttl_units().is_ok(), kind.can(Ability::Ttl) && is_timed, "{kind}");
        assert_eq!(definition.cells.divided_geometry_mut().is_some(), kind.can(Ability::Divide), "{kind}");
        for bits in [8, 16] {
            let made = FilterSpec { cell_bits: Some(bits), ..spec.clone() }.resolve();
            assert_eq!(made.is_ok(), kind.properties().cell_bits.contains(&bits), "{kind}: {made:?}");
        }
        let blocked = FilterSpec { layout: Some(Layout::Blocked { lines: 2 }), ..spec.clone() }.resolve();
        assert_eq!(blocked.is_ok(), kind.properties().block_lines > 0, "{kind}: {blocked:?}");
    }
}

#[test]
fn kinds_with_parts_are_copied_and_merged_and_no_others() {
    for kind in with_verdicts() {
        let definition = definition(kind);
        let mut slice = FilterSlice::build(&definition).unwrap();
        observe(&mut slice, &definition, 0..300);
        let mut copy = FilterSlice::build(&definition).unwrap();
        let Some(outline) = slice.outline() else {
            assert!(!kind.can(Ability::Parts), "{kind} cannot be copied in parts");
            assert_eq!(copy.merge(&mut slice), Err(MergeError::Definition), "{kind}");
            continue;
        };
        assert!(kind.can(Ability::Parts), "{kind} can be copied in parts");
        copy.put_outline(&outline).unwrap();
        copy.put_cells(&slice.cell_run(slice.newest_generation(), 0, usize::MAX / 2).unwrap()).unwrap();
        copy.recount();
        assert!(finds(&mut copy, 0..300), "{kind}");
        let mut merged = FilterSlice::build(&definition).unwrap();
        observe(&mut merged, &definition, 300..400);
        merged.merge(&mut slice).unwrap();
        assert!(finds(&mut merged, 0..400), "{kind}");
    }
}
