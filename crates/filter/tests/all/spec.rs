//! Resolution of a filter specification to a definition: which specifications are rejected with which message, and how
//! large the filters are.

use firstseen_filter::rates::plain;
use firstseen_filter::{
    CellDefinition, FilterDefinition, FilterSlice, FilterSpec, Geometry, GrowthSpec, Kind, Layout, Limit, Refresh,
    TimingCells, Unit, UnitNumber, Window, WindowRule,
};

use crate::common::{self, assert_refused};

const MILLION: u64 = 1_000_000;

fn spec(kind: Kind, window: &str) -> FilterSpec {
    FilterSpec { capacity_events: Some(MILLION), ..FilterSpec::new(kind, window.parse().unwrap()) }
}

fn geometry(definition: &FilterDefinition) -> Geometry {
    *definition.cells.geometry().unwrap_or_else(|| panic!("{definition:?} has no geometry"))
}

#[test]
fn impossible_numbers_are_refused_by_name() {
    for rate in [0.0, 1.0, -0.1, 1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for kind in [Kind::Bloom, Kind::Stable] {
            assert_refused(FilterSpec { rate, ..spec(kind, "unbounded") }, &["rate", &rate.to_string(), "0.01"]);
        }
    }
    let timing = || spec(Kind::Timing, "1h");
    assert_refused(FilterSpec { capacity_events: Some(0), ..timing() }, &["capacity of 0", "at least 1"]);
    assert_refused(FilterSpec { hashes: Some(0), ..timing() }, &["0 positions"]);
    assert_refused(FilterSpec { hashes: Some(17), ..timing() }, &["positions"]);
    assert_refused(FilterSpec { cell_bits: Some(4), ..timing() }, &["timing", "width", "8 or 16"]);
    assert_refused(FilterSpec { equal_timers: 5, hashes: Some(4), ..timing() }, &["5 equal timers of 4", "at most k"]);
    assert_refused(FilterSpec { memory_bytes: Some(MILLION), ..timing() }, &["capacity, memory and cells", "one"]);
    for memory_bytes in [0, 1, 20] {
        let small = FilterSpec { capacity_events: None, memory_bytes: Some(memory_bytes), ..timing() };
        assert_refused(small, &["too little memory", &memory_bytes.to_string()]);
    }
    for window in [Window::Duration(0), Window::Events(0), Window::LandmarkDuration(0), Window::LandmarkEvents(0)] {
        for kind in [Kind::Bloom, Kind::Timing, Kind::Generations, Kind::Counting] {
            assert_refused(FilterSpec { window: window.clone(), ..spec(kind, "1h") }, &["empty", "at least"]);
        }
    }
    for (generations_max, ratio) in [(0, 1.0), (17, 1.0), (4, 0.5), (4, 17.0), (4, f64::NAN)] {
        let growth = Some(GrowthSpec { limit: Limit::Density, generations_max, ratio });
        assert_refused(FilterSpec { growth, ..timing() }, &["growth", "1 to 16"]);
    }
}

#[test]
fn a_window_that_a_kind_has_not_is_refused_with_one_that_it_has() {
    let refused = [
        (Kind::Bloom, "1h", "timing"),
        (Kind::Bloom, "100events", "generations"),
        (Kind::Timing, "unbounded", "bloom"),
        (Kind::Timing, "landmark:1h", "duration"),
        (Kind::Generations, "landmark:day", "duration"),
        (Kind::Counting, "unbounded", "bloom"),
        (Kind::Stable, "1h", "unbounded"),
        (Kind::Decaying, "1h", "estimate"),
    ];
    for (kind, window, instead) in refused {
        assert_refused(spec(kind, window), &[&kind.to_string(), instead]);
    }
    for (kind, window) in [
        (Kind::Bloom, "unbounded"),
        (Kind::Bloom, "landmark:1h"),
        (Kind::Bloom, "landmark:5events"),
        (Kind::Bloom, "landmark:week@Europe/Athens"),
        (Kind::Timing, "1ms"),
        (Kind::Timing, "3events"),
        (Kind::Generations, "1ms"),
        (Kind::Generations, "10events"),
        (Kind::Counting, "1h"),
        (Kind::Counting, "10events"),
        (Kind::Stable, "unbounded"),
    ] {
        let definition = FilterSpec { capacity_events: Some(1000), ..spec(kind, window) }.resolve().unwrap();
        assert!(FilterSlice::build(&definition).is_ok(), "{kind} {window}");
    }
}

#[test]
fn an_option_that_a_kind_has_not_is_refused_by_name() {
    let growth = Some(GrowthSpec { limit: Limit::Cardinality, generations_max: 4, ratio: 1.0 });
    let bloom = || spec(Kind::Bloom, "unbounded");
    let generations = || spec(Kind::Generations, "1h");
    assert_refused(FilterSpec { refresh: Refresh::Refresh, ..bloom() }, &["bloom", "refresh", "timing"]);
    assert_refused(FilterSpec { equal_timers: 2, ..generations() }, &["generations", "equal timers"]);
    assert_refused(FilterSpec { growth, ..generations() }, &["generations", "growth"]);
    assert_refused(FilterSpec { jumps: Some(4), ..bloom() }, &["bloom", "sub-windows"]);
    assert_refused(FilterSpec { jumps: Some(4), ..spec(Kind::Timing, "1h") }, &["timing", "sub-windows"]);
    assert_refused(FilterSpec { jumps: Some(0), ..generations() }, &["0 sub-windows"]);
    assert_refused(FilterSpec { stable_max: Some(3), ..bloom() }, &["Max", "stable"]);
    assert_refused(FilterSpec { stable_decrements: Some(3.0), ..bloom() }, &["decrements", "stable"]);
    assert_refused(FilterSpec { cell_bits: Some(8), ..bloom() }, &["cell width"]);
    assert_refused(FilterSpec { lateness_ms: Some(1), ..spec(Kind::Bloom, "landmark:1h") }, &["lateness"]);
    assert_refused(FilterSpec { lateness_ms: Some(1), ..spec(Kind::Timing, "5events") }, &["lateness", "events"]);
    assert_refused(FilterSpec { lateness_ms: Some(1), ..spec(Kind::Counting, "1h") }, &["lateness"]);
    assert_refused(FilterSpec { layout: Some(Layout::Partitioned), ..spec(Kind::Stable, "unbounded") }, &["layout"]);
    let refreshed = FilterSpec { growth, refresh: Refresh::Refresh, ..spec(Kind::Timing, "1h") };
    assert_refused(refreshed, &["cardinality under refresh", "density"]);
    let within = FilterSpec { growth, capacity_events: None, memory_bytes: Some(MILLION), ..bloom() };
    assert_refused(within, &["growth within a given memory", "capacity"]);
    for kind in [Kind::Generations, Kind::Counting] {
        assert_refused(FilterSpec { capacity_events: None, ..spec(kind, "1h") }, &["does not start small", "capacity"]);
    }
    let grows = Some(GrowthSpec { limit: Limit::Cardinality, generations_max: 4, ratio: 1.0 });
    for kind in [Kind::Timing, Kind::Cuckoo] {
        let refreshed = FilterSpec { refresh: Refresh::Refresh, growth: grows, ..spec(kind, "1h") };
        assert_refused(refreshed, &["under refresh"]);
    }
    assert_refused(FilterSpec { capacity_events: None, ..spec(Kind::Stable, "unbounded") }, &["does not start small"]);
}

#[test]
fn a_reach_beyond_the_cells_is_refused_and_any_below_fits() {
    const HOUR_MS: u64 = 3_600_000;
    let timing = |lateness_ms, cell_bits| FilterSpec {
        lateness_ms: Some(lateness_ms),
        cell_bits: Some(cell_bits),
        ..spec(Kind::Timing, "1h")
    };
    for lateness_ms in [0, 1, HOUR_MS / 3, HOUR_MS, 2 * HOUR_MS] {
        let definition = timing(lateness_ms, 8).resolve().unwrap();
        assert!(FilterSlice::build(&definition).is_ok());
        let Unit::Milliseconds(unit_ms) = definition.unit else { panic!("{definition:?}") };
        let WindowRule { span_units, lateness_units } = definition.rule;
        assert!((span_units - 1) * unit_ms >= HOUR_MS && lateness_units * unit_ms >= lateness_ms);
        assert!((span_units + 1) * unit_ms <= HOUR_MS / 100 * 105, "events are kept too long: {definition:?}");
    }
    for lateness_ms in [4 * HOUR_MS, u64::MAX] {
        assert_refused(timing(lateness_ms, 8), &["1h", "lateness", "16-bit"]);
    }
    assert!(timing(100 * HOUR_MS, 16).resolve().is_ok());
    let jumping = |jumps, cell_bits, lateness_ms| FilterSpec {
        jumps: Some(jumps),
        cell_bits: Some(cell_bits),
        lateness_ms: Some(lateness_ms),
        ..spec(Kind::Generations, "1h")
    };
    for (jumps, cell_bits, lateness_ms) in [(6, 8, 0), (5, 8, HOUR_MS / 5), (14, 16, 0), (1, 8, 5 * HOUR_MS)] {
        let definition = jumping(jumps, cell_bits, lateness_ms).resolve().unwrap();
        assert_eq!(definition.rule.span_units, u64::from(jumps) + 1);
        assert!(FilterSlice::build(&definition).is_ok());
    }
    for (jumps, cell_bits, lateness_ms) in [(7, 8, 0), (6, 8, 1), (15, 16, 0), (u32::MAX, 8, 0), (3, 8, u64::MAX)] {
        assert_refused(jumping(jumps, cell_bits, lateness_ms), &["sub-windows", "lateness", "8 bits hold 6"]);
    }
}

#[test]
fn timers_take_at_most_3_percent_more_cells_than_one_window_needs() {
    for rate in [0.05, 0.01, 0.001] {
        for window in ["24h", "10m", "1000003ms", "10000000events", "977events"] {
            let definition =
                FilterSpec { rate, layout: Some(Layout::Classic), ..spec(Kind::Timing, window) }.resolve().unwrap();
            let geometry = geometry(&definition);
            let least = plain::cells(MILLION as f64, rate, geometry.hashes());
            let more = geometry.cells() as f64 / least;
            assert!((1.0..=1.03).contains(&more), "{window} at {rate}: {more}");
        }
    }
}

#[test]
fn generations_take_at_most_28_bits_an_event() {
    for window in ["24h", "10000000events"] {
        let definition =
            FilterSpec { rate: 0.005, capacity_events: Some(10 * MILLION), ..spec(Kind::Generations, window) };
        let definition = definition.resolve().unwrap();
        assert_eq!(definition.rule, WindowRule { span_units: 7, lateness_units: 0 });
        let bits = geometry(&definition).bytes() as f64 * 8.0 / (10 * MILLION) as f64;
        assert!(bits <= 28.0 && bits > 20.0, "{bits} bits an event");
    }
}

#[test]
fn a_given_memory_is_nearly_filled_and_never_exceeded() {
    for (kind, window) in [
        (Kind::Bloom, "unbounded"),
        (Kind::Timing, "1h"),
        (Kind::Generations, "1h"),
        (Kind::Counting, "1h"),
        (Kind::Counting, "10000events"),
        (Kind::Stable, "unbounded"),
    ] {
        for memory_bytes in [300_000, MILLION, 10 * MILLION] {
            let wanted = FilterSpec { capacity_events: None, memory_bytes: Some(memory_bytes), ..spec(kind, window) };
            let slice = FilterSlice::build(&wanted.resolve().unwrap()).unwrap();
            let bytes = slice.bytes();
            assert!(bytes <= memory_bytes, "{kind} {window}: {bytes} of {memory_bytes}");
            assert!(bytes >= memory_bytes / 100 * 97, "{kind} {window}: only {bytes} of {memory_bytes}");
        }
    }
}

#[test]
fn every_refusal_of_memory_names_one_that_is_enough() {
    for kind in [Kind::Bloom, Kind::Timing, Kind::Generations] {
        let window = if kind == Kind::Bloom { "unbounded" } else { "1h" };
        let wanted = FilterSpec { capacity_events: None, memory_bytes: Some(4096), ..spec(kind, window) };
        assert!(wanted.resolve().is_ok(), "{kind}");
    }
}

#[test]
fn a_filter_of_unknown_capacity_grows_whatever_its_rule() {
    for refresh in [Refresh::Fixed, Refresh::Refresh] {
        let wanted = FilterSpec { capacity_events: None, refresh, ..spec(Kind::Timing, "1h") };
        let CellDefinition::Timing(TimingCells { growth, .. }) = wanted.resolve().unwrap().cells else {
            panic!("no timers")
        };
        let growth = growth.unwrap();
        assert_eq!((growth.generations_max, growth.ratio), (16, 2.0));
        assert_eq!(growth.limit == Limit::Density, refresh == Refresh::Refresh);
    }
}

#[test]
fn a_share_is_a_slice_of_the_whole() {
    let timed = spec(Kind::Timing, "1h");
    assert_eq!(timed.share(8).window, timed.window);
    let sized = FilterSpec { capacity_events: None, memory_bytes: Some(1003), cells: None, ..timed.clone() };
    assert_eq!(sized.share(4).memory_bytes, Some(250));
    let cells = FilterSpec { capacity_events: None, cells: Some(1003), ..timed };
    assert_eq!(cells.share(4).cells, Some(251));
}

#[test]
fn a_layout_that_cannot_have_the_rate_says_what_it_would_take() {
    let sized = |kind, window: &str, lines, rate, capacity| {
        let layout = Some(Layout::Blocked { lines });
        let cell_bits = (kind != Kind::Bloom).then_some(16);
        let spec = FilterSpec { layout, rate, cell_bits, capacity_events: Some(capacity), ..spec(kind, window) };
        spec.resolve().map_err(|error| error.to_string())
    };
    for (kind, window) in [(Kind::Timing, "1h"), (Kind::Generations, "1h")] {
        let refused = sized(kind, window, 1, 1e-9, 1000).unwrap_err();
        assert!(refused.contains("bytes per event") && refused.contains("classic"), "{refused}");
    }
    let within = FilterSpec {
        capacity_events: None,
        memory_bytes: Some(1 << 30),
        rate: 1e-9,
        cell_bits: Some(16),
        layout: Some(Layout::Blocked { lines: 1 }),
        ..spec(Kind::Timing, "1h")
    };
    assert!(within.resolve().unwrap_err().to_string().contains("classic"));
    // Filters at common rates can be built. So can small filters, for which a single block is larger than necessary.
    for lines in [1, 2, 4] {
        assert!(sized(Kind::Timing, "1h", lines, 1e-3, 1_000_000).is_ok());
        assert!(sized(Kind::Bloom, "unbounded", lines, 1e-6, 1_000_000).is_ok());
        assert!(sized(Kind::Generations, "1h", lines, 1e-3, 2).is_ok());
    }
}

/// A specified capacity is never rejected in any of the slices into which the events fall.
#[test]
fn slices_hold_their_share_of_the_capacity() {
    use firstseen_filter::{Stamp, Verdict, reduce};
    const SLICES: u32 = 8;
    let whole = FilterSpec { capacity_events: Some(100_000), ..spec(Kind::Bloom, "unbounded") };
    let definition = whole.share(SLICES).resolve().unwrap();
    let mut parts = vec![Vec::new(); SLICES as usize];
    for digest in common::digests(0, 100_000) {
        parts[reduce(digest.word(31), u64::from(SLICES)) as usize].push(digest);
    }
    for part in parts {
        let mut verdicts = vec![Verdict::Undecided; part.len()];
        let stamps = vec![Stamp::on_time(UnitNumber::FIRST); part.len()];
        FilterSlice::build(&definition).unwrap().observe_batch(&part, &stamps, &mut verdicts);
        assert!(!verdicts.contains(&Verdict::Undecided));
    }
}
