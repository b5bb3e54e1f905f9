//! Checks the figures that documentation pages quote. They must be the figures of `firstseen_filter::figures` and of
//! the kinds, and definitions must have the same figures.

use firstseen_filter::figures::{EXACT_MAP, REDIS_KEY};
use firstseen_filter::{FilterSpec, Kind, Lateness, Window};

const EVENTS: u64 = 10_000_000;

fn page(path: &str) -> String {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the text of a page in one line.
fn prose(path: &str) -> String {
    page(path).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn assert_says(path: &str, words: &str) {
    assert!(prose(path).contains(words), "{path} does not say `{words}`");
}

fn bits_per_event(spec: FilterSpec) -> f64 {
    spec.resolve().unwrap().bytes() as f64 * 8.0 / EVENTS as f64
}

fn spec(kind: Kind, rate: f64) -> FilterSpec {
    FilterSpec { rate, capacity_events: Some(EVENTS), ..FilterSpec::new(kind, kind.default_window()) }
}

/// Returns the cells of each row of the table whose heading begins with `heading`.
fn table(path: &str, heading: &str) -> Vec<Vec<String>> {
    let text = page(path);
    let rows = text.lines().skip_while(|line| !line.starts_with(heading)).skip(2);
    rows.take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// Returns the cells of a row of a Markdown table.
fn cells(row: &str) -> Vec<String> {
    row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

fn bytes_per_event(spec: FilterSpec) -> f64 {
    bits_per_event(spec) / 8.0
}

#[test]
fn kinds_take_what_their_properties_say() {
    for kind in Kind::ALL {
        let Some(bits) = kind.properties().bits_per_event else { continue };
        assert_eq!(format!("{:.1}", bits_per_event(spec(kind, 0.01))), format!("{bits:.1}"), "{kind}");
    }
}

#[test]
fn the_page_of_kinds_has_what_definitions_give() {
    let late = FilterSpec { lateness_ms: Some(10_800_000), ..spec(Kind::Cuckoo, 0.01) };
    let columns = [spec(Kind::Cuckoo, 0.01), late, spec(Kind::Generations, 0.01)]
        .into_iter()
        .chain([spec(Kind::Timing, 0.01), spec(Kind::Counting, 0.01)]);
    let columns: Vec<FilterSpec> = columns.collect();
    let rows = table("docs/reference/kinds.md", "| rate | `cuckoo` |");
    assert!(rows.len() >= 6, "{rows:?}");
    for row in rows {
        let rate = match row[0].strip_suffix(" %") {
            Some(percent) => percent.parse::<f64>().unwrap() / 100.0,
            None => row[0].parse().unwrap(),
        };
        for (spec, said) in columns.iter().zip(&row[1..]) {
            let bits = bits_per_event(FilterSpec { rate, ..spec.clone() });
            assert_eq!(&format!("{bits:.1}"), said, "kind {} at {rate}", spec.kind);
        }
    }
    for row in table("docs/reference/kinds.md", "| kind | cell |") {
        let kind = Kind::ALL.into_iter().find(|kind| row[0] == format!("`{kind}`")).unwrap();
        let Some(bits) = kind.properties().bits_per_event else { continue };
        let exact = format!("{bits:.1} bits an event");
        let rounded = format!("{bits:.0} bits an event");
        assert!(row[6].starts_with(&exact) || row[6].starts_with(&rounded), "{kind}: {bits}, not {}", row[6]);
    }
    assert_eq!(table("docs/reference/kinds.md", "| kind | cell |").len(), Kind::ALL.len());
}

#[test]
fn pages_have_the_same_figures() {
    let unbounded = FilterSpec::new(Kind::Bloom, Window::Unbounded);
    let bloom = bytes_per_event(FilterSpec { capacity_events: Some(EVENTS), ..unbounded });
    let windowed = Kind::ALL.into_iter().filter(|kind| kind.properties().lateness != Lateness::Refused);
    let sizes: Vec<f64> = windowed.map(|kind| bytes_per_event(spec(kind, 0.01))).collect();
    let least = sizes.iter().copied().fold(f64::INFINITY, f64::min);
    let most = sizes.iter().copied().fold(0.0, f64::max);
    assert_says(
        "README.md",
        &format!("a filter takes {bloom:.1} bytes per event without a window and {least:.0} to {most:.0} with one."),
    );
    let exact = bytes_per_event(spec(Kind::Cuckoo, 1e-8));
    let late = bytes_per_event(FilterSpec { lateness_ms: Some(10_800_000), ..spec(Kind::Cuckoo, 1e-8) });
    assert_says(
        "README.md",
        &format!("takes {exact:.0} bytes per event, or {late:.0} if events may be late by an eighth of the window."),
    );
    let map = EXACT_MAP.bytes_per_event;
    let redis = REDIS_KEY.bytes_per_event;
    assert_says(
        "README.md",
        &format!("an exact map of digests takes {map} bytes per event, and a Redis key of 24 bytes takes {redis}."),
    );
    assert_says("docs/reference/performance.md", &format!("| Redis, `SET key 1 NX EX 3600` | 1,236 MiB | {redis} |"));
    assert_eq!((1236_u64 << 20).div_ceil(EVENTS), redis);
    assert_says("docs/reference/results/README.md", &format!("| an exact key in a map | 0.003626 | | | {} |", 8 * map));
    assert_says(
        "docs/reference/results/README.md",
        &format!("| an exact key in Redis | 0.003626 | | | {} |", 8 * redis),
    );
    let measured = table("docs/reference/results/README.md", "| series | requested false-positive rate |")
        .into_iter()
        .find(|row| row[0] == "an exact map of digests")
        .unwrap();
    assert_eq!((measured[4].parse::<f64>().unwrap() / 8.0).round(), map as f64);
}
