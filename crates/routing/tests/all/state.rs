//! A saved filter continues unchanged after it is restored. Bytes that were never saved do no harm.

use crate::common::{Stream, TestRng, definition, fingerprints, growing, observe, spec, stream};
use firstseen_filter::snapshot::{UnverifiedSnapshot, write};
use firstseen_filter::{FilterSlice, FilterSpec, GrowthSpec, Kind, Limit, Refresh};
use firstseen_routing::{SlicedDefinition, SlicedFilter};

const CUTS: [&str; 5] = ["none", "horizontal:5", "vertical:5", "horizontal-vertical:3x4", "vertical-horizontal:3x4"];

fn specs() -> Vec<FilterSpec> {
    let equal = GrowthSpec { limit: Limit::Cardinality, generations_max: 4, ratio: 1.0 };
    let geometric = GrowthSpec { limit: Limit::Cardinality, generations_max: 8, ratio: 2.0 };
    vec![
        spec(Kind::Bloom, "landmark:2s", 2000, 4),
        spec(Kind::Timing, "2s", 2000, 4),
        spec(Kind::Generations, "2s", 2000, 4),
        growing(Kind::Timing, "2s", 100, Limit::Cardinality, 4),
        growing(Kind::Bloom, "landmark:2s", 100, Limit::Density, 4),
        FilterSpec { growth: Some(geometric), ..growing(Kind::Bloom, "unbounded", 100, Limit::Cardinality, 8) },
        FilterSpec { lateness_ms: Some(300), rate: 0.001, ..fingerprints("2s", 1000) },
        FilterSpec { refresh: Refresh::Refresh, growth: Some(equal), rate: 1e-6, ..fingerprints("2s", 100) },
    ]
}

fn body(filter: &SlicedFilter) -> Vec<u8> {
    let mut bytes = Vec::new();
    filter.write_body(&mut bytes).unwrap();
    bytes
}

fn part(stream: &Stream, events: std::ops::Range<usize>) -> Stream {
    Stream { digests: stream.digests[events.clone()].to_vec(), times_ms: stream.times_ms[events].to_vec() }
}

#[test]
fn a_saved_filter_goes_on_as_if_nothing_had_happened() {
    let stream = stream(&mut TestRng(21), 4000, 900, 5, 1000);
    let events_windows = ["600events", "landmark:600events"].map(|window| {
        let kind = if window.starts_with('l') { Kind::Bloom } else { Kind::Timing };
        FilterSpec::new(kind, window.parse().unwrap())
    });
    for spec in specs().into_iter().chain(events_windows).chain([fingerprints("600events", 600)]) {
        for slicing in CUTS {
            let Ok(definition) = SlicedDefinition::new(&spec, slicing.parse().unwrap()) else { continue };
            let mut through = SlicedFilter::build(&definition).unwrap();
            observe(&mut through, &part(&stream, 0..2100), 300);
            let mut bytes = Vec::new();
            write(&mut bytes, &definition, |sink| through.write_body(sink)).unwrap();

            let snapshot = UnverifiedSnapshot::<_, SlicedDefinition>::open(&bytes[..]).unwrap();
            assert_eq!(snapshot.header(), &definition);
            let mut read = SlicedFilter::build(snapshot.header()).unwrap();
            snapshot.verify(|source| read.read_body(source)).unwrap();
            assert!(body(&read) == body(&through), "{:?} {slicing}: a second save differs", spec.kind);
            let rest = part(&stream, 2100..4000);
            assert!(observe(&mut read, &rest, 300) == observe(&mut through, &rest, 300), "{:?} {slicing}", spec.kind);
            assert_eq!(read.generations(), through.generations());
            assert_eq!(read.now_ms(), through.now_ms());
        }
    }
}

#[test]
fn bytes_that_were_never_saved_are_refused_or_harmless() {
    let mut rng = TestRng(22);
    let (before, after) = (stream(&mut rng, 600, 400, 5, 500), stream(&mut rng, 100, 400, 5, 500));
    let mut refused = 0;
    for spec in specs() {
        for slicing in CUTS {
            let Ok(definition) = SlicedDefinition::new(&spec, slicing.parse().unwrap()) else { continue };
            let mut filter = SlicedFilter::build(&definition).unwrap();
            observe(&mut filter, &before, 100);
            let saved = body(&filter);
            for _ in 0..40 {
                let mut bytes = saved.clone();
                for _ in 0..=rng.below(3) {
                    // In every part, counts and units come first and cells later. Places near the beginning are
                    // therefore chosen more often.
                    let place = rng.below(bytes.len() as u64).min(rng.below(bytes.len() as u64)) as usize;
                    bytes[place] = if rng.below(2) == 0 { 0xFF } else { rng.roll() as u8 };
                }
                if rng.below(4) == 0 {
                    bytes.truncate(rng.below(bytes.len() as u64) as usize);
                }
                let mut read = SlicedFilter::build(&definition).unwrap();
                match read.read_body(&mut &bytes[..]) {
                    Ok(()) => drop(observe(&mut read, &after, 50)),
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(refused > 300, "{refused} of 1360");
}

#[test]
fn slices_of_one_group_that_disagree_are_refused() {
    let definition = definition(&growing(Kind::Timing, "2s", 100, Limit::Cardinality, 4), "vertical:2");
    let (mut grown, mut small) = (SlicedFilter::build(&definition).unwrap(), SlicedFilter::build(&definition).unwrap());
    observe(&mut grown, &stream(&mut TestRng(23), 300, 300, 5, 0), 100);
    observe(&mut small, &stream(&mut TestRng(23), 30, 300, 5, 0), 100);
    assert!(grown.generations() > small.generations());
    // The bytes combine the first slice of one filter with the second slice of another. Both lie between the clock and
    // the ledger of the first filter.
    let parts = [&grown, &small].map(|filter| {
        let bytes = body(filter);
        let mut slice = FilterSlice::build(&definition.slice().unwrap()).unwrap();
        let mut ends = vec![0, 3 * 8];
        for _ in 0..2 {
            let mut rest = &bytes[ends[ends.len() - 1]..];
            slice.read_body(&mut rest).unwrap();
            ends.push(bytes.len() - rest.len());
        }
        ends.push(bytes.len());
        ends.windows(2).map(|part| bytes[part[0]..part[1]].to_vec()).collect::<Vec<_>>()
    });
    let read = |second: usize| {
        let mixed = [&parts[0][0], &parts[0][1], &parts[second][2], &parts[0][3]].map(Vec::as_slice).concat();
        SlicedFilter::build(&definition).unwrap().read_body(&mut &mixed[..])
    };
    read(0).unwrap();
    assert!(read(1).unwrap_err().to_string().contains("different generations"));
}

#[test]
fn slices_without_events_keep_no_more_generations_than_their_group() {
    // There are ten events per generation in 256 slices, so most slices have no event in most generations.
    let definition = definition(&growing(Kind::Timing, "2s", 10, Limit::Cardinality, 2), "vertical:256");
    let mut filter = SlicedFilter::build(&definition).unwrap();
    let empty_bytes = filter.bytes();
    observe(&mut filter, &stream(&mut TestRng(24), 500, 500, 200, 0), 100);
    assert_eq!(filter.generations(), 2);
    assert!(filter.bytes() <= 2 * empty_bytes, "{} of {empty_bytes}", filter.bytes());
    let mut read = SlicedFilter::build(&definition).unwrap();
    read.read_body(&mut &body(&filter)[..]).unwrap();
    assert_eq!(read.generations(), 2);
}
