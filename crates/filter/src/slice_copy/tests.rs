//! Checks that a copy which is made from parts, while its slice continues to record events, knows everything that the
//! slice knows.

use proptest::prelude::*;

use crate::{
    CellRun, FilterSecret, FilterSlice, FilterSpec, GenerationNumber, Kind, Probes, SliceOutline, Stamp, UnitNumber,
    Verdict,
};

/// Part that a copy receives. The copy receives its parts in order.
enum Part {
    Outline(SliceOutline),
    Cells(CellRun),
    Events(GenerationNumber, Probes, Vec<Stamp>),
}

fn definitions() -> Vec<FilterSpec> {
    let of = |kind, window: &str| FilterSpec {
        capacity_events: Some(400),
        lateness_ms: (window != "unbounded").then_some(3000),
        ..FilterSpec::new(kind, window.parse().unwrap())
    };
    vec![
        of(Kind::Bloom, "unbounded"),
        of(Kind::Timing, "30s"),
        of(Kind::Timing, "500s"),
        of(Kind::Generations, "30s"),
        FilterSpec { layout: Some(crate::Layout::Classic), ..of(Kind::Timing, "30s") },
        of(Kind::Cuckoo, "30s"),
        FilterSpec { rate: 1e-8, ..of(Kind::Cuckoo, "300s") },
    ]
}

/// Takes the next run of cells from the slice. Returns the generation and offset at which the following run begins.
fn step(
    slice: &FilterSlice,
    (number, start): (GenerationNumber, u64),
    run_bytes: usize,
    parts: &mut Vec<Part>,
) -> Option<(GenerationNumber, u64)> {
    match slice.cell_run(number, start, run_bytes) {
        Some(run) => {
            let next = start + run.cells.len() as u64;
            parts.push(Part::Cells(run));
            Some((number, next))
        }
        None => (number < slice.newest_generation()).then_some((number.after(1), 0)),
    }
}

/// Streams `events` into a slice, and checks that a copy of this slice gives the same answers. Each event comes with a
/// pause, which is the number of units between it and the previous event.
///
/// The copy is built from runs of cells. The function reads one run from the slice after every third event. Before the
/// copy receives a run, the clock of the copy is advanced to `ahead_units` units after the time at which the run was
/// read.
fn copies(spec: &FilterSpec, events: &[(u16, u8)], run_bytes: usize, ahead_units: u64) {
    let definition = spec.resolve().unwrap();
    let (mut slice, secret) = (FilterSlice::build(&definition).unwrap(), FilterSecret::from_seed(1));
    let has_window = definition.rule.span_units > 1;
    let at = |unit| if has_window { unit } else { UnitNumber::FIRST };
    let (mut parts, mut unit, mut cursor) = (Vec::new(), UnitNumber(100), None);
    for (index, (event, pause)) in events.iter().enumerate() {
        unit = unit.after(u64::from(*pause));
        let mut probes = Probes::new(slice.probe_shape());
        probes.push_digest(secret.digest(&event.to_le_bytes()), slice.geometry());
        let (stamp, mut verdict) = (Stamp::on_time(at(unit)), [Verdict::Undecided]);
        slice.observe_probes(&probes, 0..1, &[stamp], &mut verdict).unwrap();
        if verdict == [Verdict::FirstSeen] {
            parts.push(Part::Events(slice.newest_generation(), probes, vec![stamp]));
        }
        if index == events.len() / 4 {
            // The checkpoint begins at this event, so earlier parts are discarded.
            parts.clear();
            let outline = slice.outline().unwrap();
            cursor = Some((outline.oldest, 0));
            parts.push(Part::Outline(outline));
        }
        if let Some((number, start)) = cursor.filter(|_| index % 3 == 0) {
            cursor = step(&slice, (number, start), run_bytes, &mut parts);
        }
    }
    while let Some((number, start)) = cursor {
        cursor = step(&slice, (number, start), run_bytes, &mut parts);
    }
    let mut copy = FilterSlice::build(&definition).unwrap();
    for part in &parts {
        match part {
            Part::Outline(outline) => copy.put_outline(outline).unwrap(),
            Part::Cells(run) => {
                copy.advance(at(run.unit.after(ahead_units)));
                if run_bytes.is_multiple_of(4) {
                    copy.put_cells(run).unwrap();
                } else {
                    copy.put_missing_cells(run).unwrap();
                }
                assert!(!copy.put_missing_cells(run).unwrap(), "the copy already has all cells of the run");
            }
            Part::Events(number, probes, stamps) => copy.put_probes(*number, probes, stamps).unwrap(),
        }
    }
    let now = Stamp::on_time(at(unit.after(ahead_units)));
    slice.advance(now.unit);
    copy.advance(now.unit);
    slice.recount();
    copy.recount();
    assert_eq!(copy.used_cells(), slice.used_cells());
    match ahead_units {
        0 => assert_eq!(copy.live_events(), slice.live_events()),
        // An event that is added late is counted for slightly longer.
        _ => assert!(copy.live_events() >= slice.live_events()),
    }
    let mut probes = Probes::new(slice.probe_shape());
    (0..600u16).for_each(|event| probes.push_digest(secret.digest(&event.to_le_bytes()), slice.geometry()));
    let (mut answers, mut expected) = (vec![Verdict::Undecided; 600], vec![Verdict::Undecided; 600]);
    slice.lookup_probes(&probes, 0..600, &vec![now; 600], &mut expected).unwrap();
    copy.lookup_probes(&probes, 0..600, &vec![now; 600], &mut answers).unwrap();
    assert_eq!(answers, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_copy_made_meanwhile_knows_what_its_slice_knows(
        kind in 0..7usize,
        events in prop::collection::vec((0..600u16, 0..3u8), 200..600),
        run_bytes in 16..400usize,
        ahead_units in 0..3u64,
    ) {
        copies(&definitions()[kind], &events, run_bytes, ahead_units);
    }
}

#[test]
fn what_is_no_part_is_refused_and_changes_nothing() {
    let definition = definitions()[1].resolve().unwrap();
    let mut slice = FilterSlice::build(&definition).unwrap();
    slice.advance(UnitNumber(500));
    let before = slice.outline();
    let bytes = slice.bytes();
    let run = |unit, generation, start_bytes, bytes| {
        let (unit, generation) = (UnitNumber(unit), GenerationNumber(generation));
        CellRun { generation, unit, start_bytes, cells: vec![1; bytes] }
    };
    for run in [run(1, 0, 0, 2), run(500, 0, 1, 2), run(500, 0, bytes, 2), run(500, 99, 0, 2), run(u64::MAX, 0, 0, 2)] {
        assert!(slice.put_cells(&run).is_err(), "{run:?}");
    }
    let outline = |unit, oldest, generations| {
        let (oldest, live) = (GenerationNumber(oldest), vec![Default::default(); generations]);
        SliceOutline { unit: UnitNumber(unit), oldest, live }
    };
    for outline in [outline(500, 0, 0), outline(500, 0, 99), outline(u64::MAX, 0, 1)] {
        assert!(slice.put_outline(&outline).is_err(), "{outline:?}");
    }
    assert!(slice.put_event(GenerationNumber::FIRST, &[u64::MAX], Stamp::on_time(UnitNumber(500))).is_err());
    assert!(slice.put_event(GenerationNumber(90), &[0], Stamp::on_time(UnitNumber(500))).is_err());
    let grown = slice.outline().map(|outline| SliceOutline { live: outline.live[..1].to_vec(), ..outline });
    assert_eq!(grown, before);
}

#[test]
fn what_was_missing_expires_where_nothing_else_was_recorded() {
    let landmark =
        FilterSpec { capacity_events: Some(400), ..FilterSpec::new(Kind::Bloom, "landmark:1m".parse().unwrap()) };
    for spec in definitions().into_iter().filter(|spec| spec.kind != Kind::Bloom).chain([landmark]) {
        let definition = spec.resolve().unwrap();
        let (mut slice, mut copy) =
            (FilterSlice::build(&definition).unwrap(), FilterSlice::build(&definition).unwrap());
        let (digest, recorded) = ([FilterSecret::from_seed(1).digest(b"click")], UnitNumber(100));
        slice.observe_batch(&digest, &[Stamp::on_time(recorded)], &mut [Verdict::Undecided]);
        let run = slice.cell_run(slice.newest_generation(), 0, usize::MAX / 2).unwrap();
        assert!(copy.lacks_cells(&run).unwrap() && copy.put_missing_cells(&run).unwrap());
        assert!(!copy.lacks_cells(&run).unwrap());
        let mut probes = Probes::new(copy.probe_shape());
        probes.push_digest(digest[0], copy.geometry());
        let expiry = definition.rule.expiry(recorded);
        let until = expiry.after(5 * definition.rule.span_units);
        for unit in (recorded.0..until.0).step_by(3).map(UnitNumber) {
            let mut answers = [Verdict::Undecided];
            copy.advance(unit);
            copy.lookup_probes(&probes, 0..1, &[Stamp::on_time(unit)], &mut answers).unwrap();
            let expected = if unit < expiry { Verdict::Duplicate } else { Verdict::FirstSeen };
            assert_eq!(answers, [expected], "{spec:?} at {unit}, expiry {expiry}");
        }
    }
}
