//! Tests which settings `filter alter` keeps, and which it takes from its flags.

use clap::Parser;
use firstseen_filter::Kind;
use firstseen_routing::{Epoch, FilterHistory, FilterPolicies};

use super::*;

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    change: ChangeArgs,
}

/// Allowed difference between clocks in the cluster of these tests.
const SKEW_MAX_MS: u64 = 500;

fn record(spec: &FilterSpec, clock: ClockSource) -> FilterRecord {
    FilterRecord {
        name: "clicks".to_owned(),
        epoch: Epoch::FIRST,
        definition: SlicedDefinition::new(spec, Slicing::NONE).unwrap(),
        policies: FilterPolicies { clock, ..FilterPolicies::default() },
        owners: Vec::new(),
        copies: Vec::new(),
        generations: Vec::new(),
        branch: None,
        line: FilterHistory::default(),
    }
}

fn altered(record: &FilterRecord, flags: &str) -> anyhow::Result<SlicedDefinition> {
    let words = std::iter::once("alter").chain(flags.split_whitespace());
    Flags::parse_from(words).change.definition("clicks", record, SKEW_MAX_MS)
}

fn fingerprints() -> FilterSpec {
    let spec = FilterSpec::new(Kind::Cuckoo, "24h".parse().unwrap());
    FilterSpec { capacity_events: Some(100_000), lateness_ms: Some(3 * 3_600_000), ..spec }
}

/// False-positive rates whose filters divide a window into different numbers of ticks. The list has each rate twice.
const RATES: [f64; 8] = [0.001, 1e-8, 0.05, 0.01, 0.001, 1e-8, 0.05, 0.01];

#[test]
fn what_is_kept_is_what_was_asked_for_however_often_a_filter_is_altered() {
    for (ticks, clock_skew_ms) in [(None, 0), (Some(20), 0), (Some(70), 0), (None, 1_234_567)] {
        let asked = FilterSpec { ticks, clock_skew_ms, ..fingerprints() };
        let clock = if clock_skew_ms > 0 { ClockSource::Wall } else { ClockSource::Event };
        let mut record = record(&asked, clock);
        for rate in RATES {
            record.definition = altered(&record, &format!("--fpr {rate}")).unwrap();
            let anew = FilterSpec { rate, ..asked.clone() };
            assert_eq!(record.definition, SlicedDefinition::new(&anew, Slicing::NONE).unwrap(), "{ticks:?}, {rate}");
        }
    }
}

#[test]
fn what_is_given_replaces_what_was_asked_for_before() {
    let record = record(&FilterSpec { ticks: Some(20), ..fingerprints() }, ClockSource::Event);
    let anew = |flags: &str, spec: FilterSpec| {
        let expected = SlicedDefinition::new(&spec, Slicing::NONE).unwrap();
        assert_eq!(altered(&record, flags).unwrap(), expected, "{flags}");
    };
    let kept = FilterSpec { ticks: Some(20), ..fingerprints() };
    anew("--lateness 1h", FilterSpec { lateness_ms: Some(3_600_000), ..kept.clone() });
    anew("--ticks 60", FilterSpec { ticks: Some(60), ..kept.clone() });
    let window = FilterSpec { window: "12h".parse().unwrap(), lateness_ms: Some(12 * 3_600_000 / 8), ..kept };
    anew("--window 12h --capacity 100000", window);
}

/// The lateness and skew are whole ticks in some cases and not whole ticks of any kind in others.
#[test]
fn what_was_asked_for_outlives_alterations_to_other_kinds() {
    for (ticks, lateness_ms, clock_skew_ms) in [
        (None, 3 * 3_600_000 + 7, 0),
        (Some(20), 3_600_000, 600),
        (Some(70), 675_001, 1_234_567),
        (None, 0, 86_400_000),
    ] {
        let asked = FilterSpec { ticks, lateness_ms: Some(lateness_ms), clock_skew_ms, ..fingerprints() };
        let clock = if clock_skew_ms > 0 { ClockSource::Wall } else { ClockSource::Event };
        let mut record = record(&asked, clock);
        let first = record.definition.clone();
        for kind in [Kind::Timing, Kind::Timing, Kind::Generations, Kind::Timing, Kind::Generations] {
            record.definition = altered(&record, &format!("--kind {kind}")).unwrap();
            let anew = FilterSpec { kind, ticks: None, ..asked.clone() };
            let mut expected = SlicedDefinition::new(&anew, Slicing::NONE).unwrap();
            expected.group.cells.asked_mut().unwrap().ticks = ticks;
            assert_eq!(record.definition, expected, "{kind} of {first:?}");
        }
        assert_eq!(altered(&record, "--kind cuckoo").unwrap(), first);
    }
}

#[test]
fn no_kind_keeps_events_for_less_than_clocks_differ_now() {
    for kind in [Kind::Cuckoo, Kind::Timing, Kind::Generations] {
        for clock_skew_ms in [1, 60_000] {
            let asked = FilterSpec { kind, clock_skew_ms, ..fingerprints() };
            let clock_skew_ms = clock_skew_ms.max(SKEW_MAX_MS);
            let anew = FilterSpec { rate: 0.02, clock_skew_ms, ..asked.clone() };
            let expected = SlicedDefinition::new(&anew, Slicing::NONE).unwrap();
            assert_eq!(altered(&record(&asked, ClockSource::Wall), "--fpr 0.02").unwrap(), expected, "{kind}");
        }
    }
    let spec = FilterSpec::new(Kind::Bloom, "landmark:1d".parse().unwrap());
    let landmark = record(&FilterSpec { capacity_events: Some(1000), ..spec }, ClockSource::Wall);
    let altered = altered(&landmark, "--kind timing --window 1h --capacity 1000").unwrap().group;
    assert_eq!(altered.cells.asked().clock_skew_ms, Some(SKEW_MAX_MS));
}

#[test]
fn ticks_that_another_rate_does_not_have_are_refused_with_their_limit() {
    let spec = FilterSpec { rate: 1e-8, lateness_ms: None, ticks: Some(107), ..fingerprints() };
    let refused = altered(&record(&spec, ClockSource::Event), "--fpr 0.01").unwrap_err().to_string();
    assert!(refused.contains("107 ticks") && refused.contains("89 ticks at most"), "{refused}");
}
