//! Shows the page with prepared overviews that a test could not produce in time: many filters and nodes, moves, and
//! names that contain markup.

use serde_json::{Value, json};

use super::browser::Browser;
use super::stub::Stub;
use super::{LocalCluster, at, overview};
use crate::run::Folder;

/// Name that would run a script if it were treated as markup.
const EVIL: &str = "<img src=x onerror=alert(1)>";

/// Returns a node at one of four sites. Some nodes are down, and some do not answer.
fn node(number: u64) -> Value {
    let sites = ["athens", "ioannina", "oslo", "lisbon"];
    let state = match number {
        number if number % 37 == 5 => "down",
        number if number % 41 == 7 => "silent",
        _ => "up",
    };
    let known = |value: Value| if state == "up" { value } else { Value::Null };
    json!({
        "name": format!("node-{number}"), "number": number, "site": sites[number as usize % 4],
        "address": format!("10.0.0.{number}:7400"), "state": state, "leader": number == 1,
        "version": known("0.2.0".into()), "newest_format": known(12.into()), "ready": known(true.into()), "not_ready": null,
        "memory_used_bytes": known((number * 9_000_000).into()), "memory_reserved_bytes": 900_000_000_u64,
        "memory_limit_bytes": 1_073_741_824_u64, "clock_ahead_ms": known(3.into()), "certificate_ends_ms": null,
        "slices": 12, "events_per_s": known((number * 113).into()), "claims_unsure_ms": known(0.into()),
    })
}

/// Returns a filter. Some filters have lost slices, and some leave events undecided.
fn filter(number: u64) -> Value {
    let wave = |step: u64| ((step + number * 7) as f64 / 9.0).sin().mul_add(400.0, 900.0).round();
    let undecided = if number % 45 == 9 { 12.0 } else { 0.0 };
    let reason = json!({ "reason": "overloaded", "per_s": undecided, "events": 99 });
    let reasons: Vec<Value> = Some(reason).filter(|_| undecided > 0.0).into_iter().collect();
    let (down, set_only) = (u64::from(number % 50 == 3), u64::from(number % 40 == 4));
    let history = (0..120).map(wave).collect::<Vec<f64>>();
    json!({
        "name": format!("filter-{number:03}"), "number": number, "kind": "timing", "window": "24h",
        "slicing": "horizontal:6", "capacity_events": 1_000_000, "live_events": number * 4_900,
        "full": number as f64 / 210.0, "made_for_rate": 0.001, "expected_rate": 0.000_12, "measured_rate": null,
        "verdicts": {
            "first_seen_per_s": 300.5, "duplicate_per_s": 612.0, "undecided_per_s": undecided, "undecided": reasons
        },
        "p50_ms": 0.42, "p99_ms": 3.7, "silent_nodes": [], "claims": null,
        "slices": {
            "all": 6, "complete": 6 - down - set_only, "set_only": set_only, "down": down, "copy_lacks": 0,
            "moving": u64::from(number % 60 == 2)
        },
        "history": { "step_s": 5, "events_per_s": history, "undecided_per_s": [] },
    })
}

fn alarm(place: u64) -> Value {
    let subject = format!("filter-{place:03}");
    json!({
        "severity": if place < 3 { "critical" } else { "warning" }, "kind": "undecided", "subject": subject,
        "text": format!("12 events a second of filter {subject} are undecided (overloaded): a node has too much work"),
        "command": format!("firstseen filter describe {subject} --cluster node-1.example:7400 $TLS"), "on": null,
    })
}

fn tree() -> Value {
    let place = |place: &str, parent: Option<&str>, level: u8, asked: f64, found: f64| {
        json!({
            "place": place, "filter": format!("visits@{place}"), "parent": parent, "level": level, "asked_per_s": asked,
            "found_per_s": found, "climbed_per_s": if level > 0 { asked - found } else { 0.0 },
        })
    };
    let places = [
        place("world", None, 0, 410.0, 120.0),
        place("greece", Some("world"), 1, 700.0, 290.0),
        place("athens", Some("greece"), 2, 2_400.0, 1_900.0),
        place("ioannina", Some("greece"), 2, 900.0, 700.0),
        place("oslo", Some("world"), 1, 300.0, 260.0),
    ];
    json!({ "root": "visits", "mode": "dense", "places": places })
}

/// Returns an overview with this number of nodes and filters.
fn many(nodes: u64, filters: u64) -> Value {
    let line = |step: u32| (!(30..36).contains(&step)).then(|| f64::from(step % 17) * 500.0 + 90_000.0);
    json!({
        "version": 1, "at_ms": 1_800_000_000_000_u64,
        "cluster": {
            "id": "00ff".repeat(8), "node": "node-1", "address": "node-1.example:7400", "tls": true, "leader": "node-1",
            "map_version": 812, "format": 12, "clock_skew_max_ms": 1000
        },
        "alarms": (0..14).map(alarm).collect::<Vec<Value>>(),
        "verdicts": {
            "first_seen_per_s": 60_100.0, "duplicate_per_s": 122_400.0, "undecided_per_s": 48.0, "undecided": []
        },
        "history": {
            "step_s": 5, "events_per_s": (0..120).map(line).collect::<Vec<_>>(),
            "undecided_per_s": (0..120).map(|step: u32| f64::from(step % 40)).collect::<Vec<_>>()
        },
        "nodes": (1..=nodes).map(node).collect::<Vec<Value>>(), "nodes_left_out": 0,
        "filters": (1..=filters).map(filter).collect::<Vec<Value>>(), "filters_left_out": 0,
        "slices": {
            "all": filters * 6, "complete": filters * 6 - 9, "set_only": 5, "down": 4, "copy_lacks": 0, "moving": 3
        },
        "work": [
            { "kind": "move", "filter": "filter-002", "text": "3 slices are on their way to other nodes", "left": 3,
                "unit": "slices", "bytes_left": 402_653_184_u64, "unchanged_s": 12 },
            { "kind": "alteration", "filter": "filter-001", "text": "followed by filter-200; its events still count",
                "left": 2, "unit": "nodes", "bytes_left": null, "unchanged_s": 0 },
        ],
        "trees": [tree()],
    })
}

/// Returns a number that the browser has measured.
fn measured(document: &str, name: &str) -> i64 {
    let from = document.find(&format!("data-{name}=\"")).unwrap_or_else(|| panic!("no {name} in {document}"));
    let rest = &document[from + name.len() + 7..];
    rest.split('"').next().and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name} in {rest:.80}"))
}

#[test]
fn many_filters_and_nodes_can_be_looked_at_on_a_phone_too() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 1");
    let stub = Stub::start(&at(&cluster, 0), &many(100, 200));
    let browser = Browser::find();
    let words = [
        "node-100",
        "24 of 200 filters",
        "Show all",
        "Show 6 more alarms",
        "3 slices left, up to 384 MiB",
        "no change for 12 s",
        "2 nodes left",
        "greece</text>",
        "data-wide",
    ];
    let Some(document) = browser.see(&stub.address, "/ui", &words) else { return };
    assert!(measured(&document, "over") <= 0, "the page is wider than its window");
    assert_eq!(document.matches("class=\"card filter\"").count(), 24);
    assert_eq!(document.matches("class=\"tile ").count(), 100);
    for (path, width) in [("/phone", 390), ("/narrow", 320)] {
        let phone = browser.see(&stub.address, path, &["data-over"]).expect("the same browser");
        assert_eq!(measured(&phone, "wide"), width);
        assert!(
            measured(&phone, "over") <= 0,
            "on a phone of {width} the page is {} too wide",
            measured(&phone, "over")
        );
    }
}

#[test]
fn names_stay_text() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 1");
    let first = at(&cluster, 0);
    let mut evil = many(3, 2);
    for name in ["name", "site", "version", "address", "not_ready"] {
        evil["nodes"][0][name] = EVIL.into();
    }
    for name in ["name", "kind", "window", "slicing"] {
        evil["filters"][0][name] = EVIL.into();
    }
    for name in ["text", "command", "on"] {
        evil["alarms"][0][name] = EVIL.into();
    }
    evil["filters"][0]["silent_nodes"] = json!([EVIL]);
    (evil["work"][0]["filter"], evil["work"][0]["text"]) = (EVIL.into(), EVIL.into());
    (evil["trees"][0]["root"], evil["trees"][0]["places"][0]["place"]) = (EVIL.into(), EVIL.into());
    evil["trees"][0]["places"][1]["parent"] = EVIL.into();
    (evil["cluster"]["node"], evil["cluster"]["leader"]) = (EVIL.into(), EVIL.into());
    let stub = Stub::start(&first, &evil);
    let words = ["data-images", "&lt;img src=x onerror=alert(1)&gt;</b>", "&lt;img src=x onerror=alert(1)&gt;</code>"];
    let Some(document) = Browser::find().see(&stub.address, "/ui", &words) else { return };
    assert_eq!(measured(&document, "images"), 0, "a name became an element");
    assert!(!document.contains("<img"), "{document}");
    // The fields of the real overview and of the prepared one must have the same names.
    let real = overview(&first);
    let names = |value: &Value| value.as_object().map(|names| names.keys().cloned().collect::<Vec<_>>());
    assert_eq!(names(&many(1, 2)), names(&real));
    assert_eq!(names(&many(1, 2)["nodes"][0]), names(&real["nodes"][0]));
    assert_eq!(names(&many(1, 2)["cluster"]), names(&real["cluster"]));
}
