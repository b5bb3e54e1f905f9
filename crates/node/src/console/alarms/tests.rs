//! Tests of each alarm just below and just above its threshold.

use super::super::overview::{ClusterLine, PlaceLine, SliceCounts, TreeLine, Verdicts};
use super::*;

const NOW_MS: u64 = 1_800_000_000_000;

fn node(name: &str) -> NodeLine {
    NodeLine {
        name: name.to_owned(),
        state: "up".to_owned(),
        version: Some("0.2.0".to_owned()),
        newest_format: Some(12),
        ready: Some(true),
        memory_used_bytes: Some(1 << 20),
        memory_limit_bytes: 1 << 30,
        clock_ahead_ms: Some(0),
        claims_unsure_ms: Some(0),
        ..NodeLine::default()
    }
}

fn filter(name: &str) -> FilterLine {
    let slices = SliceCounts { all: 6, complete: 6, ..SliceCounts::default() };
    let capacity_events = Some(1_000);
    FilterLine { name: name.to_owned(), capacity_events, full: Some(0.1), slices, ..FilterLine::default() }
}

fn healthy() -> Overview {
    let cluster = ClusterLine {
        id: "00".to_owned(),
        node: "a".to_owned(),
        address: "a:7400".to_owned(),
        leader: Some("a".to_owned()),
        format: 12,
        clock_skew_max_ms: 1_000,
        ..ClusterLine::default()
    };
    let (nodes, filters) = (vec![node("a"), node("b")], vec![filter("clicks")]);
    Overview { at_ms: NOW_MS, cluster, nodes, filters, ..Overview::default() }
}

/// Returns a tree with a leaf that has decided events alone and not reported them.
fn owing(owed_events: Option<u64>, oldest_s: u64, full: f64) -> Vec<TreeLine> {
    let place = PlaceLine {
        filter: "clicks@oslo".to_owned(),
        parent: Some("root".to_owned()),
        owed_events,
        owed_oldest_s: Some(oldest_s),
        owed_full: Some(full),
        ..PlaceLine::default()
    };
    vec![TreeLine { places: vec![place], ..TreeLine::default() }]
}

/// A change of a healthy cluster, and the alarms that follow from it. Each alarm has a severity, a kind, a part of the
/// text, and a command.
type Case = (fn(&mut Overview), &'static [(Severity, &'static str, &'static str, &'static str)]);

use Severity::{Critical, Warning};

const STATUS: &str = "firstseen cluster status --addr a:7400";
const CONFIG: &str = "firstseen node --config node.toml --check-config";
const WIDER: &str = "firstseen filter alter clicks --capacity 2000 --plan --cluster a:7400";
const DESCRIBE: &str = "firstseen filter describe clicks --cluster a:7400";

fn check(cases: &[Case]) {
    for (place, (change, expected)) in cases.iter().enumerate() {
        let mut overview = healthy();
        change(&mut overview);
        let found = alarms(&overview);
        assert_eq!(found.len(), expected.len(), "case {place}: {found:#?}");
        for (alarm, (severity, kind, text, command)) in found.iter().zip(*expected) {
            let said = (alarm.severity, alarm.kind.as_str(), alarm.command.as_str());
            assert_eq!(said, (*severity, *kind, *command), "case {place}");
            assert!(alarm.text.contains(text), "case {place}: {}", alarm.text);
            assert!(!alarm.subject.is_empty(), "case {place}");
        }
    }
}

#[test]
fn nodes() {
    check(&[
        (|_| {}, &[]),
        (|it| it.cluster.leader = None, &[(Critical, "no_leader", "no majority", STATUS)]),
        (|it| (it.cluster.leader, it.cluster.id) = (None, String::new()), &[]),
        (
            |it| it.nodes[1].state = "down".to_owned(),
            &[(Critical, "node_down", "node b is down", "systemctl start firstseen")],
        ),
        (
            |it| it.nodes[1] = NodeLine { name: "b".to_owned(), state: "silent".to_owned(), ..NodeLine::default() },
            &[(Warning, "node_silent", "node b does not answer", STATUS)],
        ),
        (
            |it| it.nodes[1].not_ready = Some("it reads".to_owned()),
            &[(Warning, "node_not_ready", "not ready: it reads", "journalctl -u firstseen -n 50")],
        ),
        (|it| it.nodes[1].clock_ahead_ms = Some(-500), &[]),
        (
            |it| it.nodes[1].clock_ahead_ms = Some(-501),
            &[(Warning, "clock", "501 ms behind most others", "timedatectl status")],
        ),
        (|it| it.nodes[1].clock_ahead_ms = Some(1_001), &[(Critical, "clock", "undecided", "timedatectl status")]),
        (|it| it.nodes[1].clock_ahead_ms = None, &[]),
        (|it| it.nodes[1].certificate_ends_ms = Some(NOW_MS + 30 * DAY_MS), &[]),
        (
            |it| it.nodes[1].certificate_ends_ms = Some(NOW_MS + 30 * DAY_MS - 1),
            &[(Warning, "certificate", "expires in 29d", CONFIG)],
        ),
        (
            |it| it.nodes[1].certificate_ends_ms = Some(NOW_MS + 7 * DAY_MS - 1),
            &[(Critical, "certificate", "expires in 6d", CONFIG)],
        ),
        (|it| it.nodes[1].certificate_ends_ms = Some(1), &[(Critical, "certificate", "has expired", CONFIG)]),
        (
            |it| it.nodes[1].memory_used_bytes = Some(1 << 30),
            &[(Warning, "memory", "1.0 GiB of the 1.0 GiB", "firstseen cluster rebalance --plan --addr a:7400")],
        ),
        (|it| it.nodes[1].claims_unsure_ms = Some(12_000), &[(Warning, "claims_unsure", "only in 12s", STATUS)]),
    ]);
}

fn undecided(overview: &mut Overview, reason: &str, per_s: Option<f64>) {
    let undecided = vec![Undecided { reason: reason.to_owned(), per_s, events: 5, ..Undecided::default() }];
    overview.filters[0].verdicts = Verdicts { undecided, ..Verdicts::default() };
}

#[test]
fn filters() {
    check(&[
        (|it| it.filters[0].full = Some(0.799), &[]),
        (|it| it.filters[0].full = None, &[]),
        (|it| it.filters[0].full = Some(0.8), &[(Warning, "filter_full", "80 % of its events", WIDER)]),
        (|it| it.filters[0].full = Some(1.0), &[(Critical, "filter_full", "100 %", WIDER)]),
        (
            |it| {
                it.filters[0].full = Some(0.9);
                let place = PlaceLine { filter: "clicks".to_owned(), ..PlaceLine::default() };
                it.trees = vec![TreeLine { places: vec![place], ..TreeLine::default() }];
            },
            &[(Warning, "filter_full", "90 %", DESCRIBE)],
        ),
        (|it| it.trees = owing(Some(7), 59, 0.1), &[]),
        (|it| it.trees = owing(None, 0, 0.0), &[]),
        (
            |it| it.trees = owing(Some(7), 60, 0.1),
            &[(Warning, "owed_events", "7 events first-seen without root", STATUS)],
        ),
        (|it| it.trees = owing(Some(7), 0, 0.8), &[(Warning, "owed_events", "80 % used", STATUS)]),
        (|it| it.trees = owing(Some(7), 0, 1.0), &[(Critical, "owed_events", "no room for more", STATUS)]),
        (|it| it.filters[0].slices.down = 2, &[(Critical, "slices_down", "2 of 6 slices", DESCRIBE)]),
        (|it| it.filters[0].slices.set_only = 1, &[(Warning, "slices_set_only", "1 of 6 slices", DESCRIBE)]),
        (
            |it| {
                (it.filters[0].slices.complete, it.filters[0].slices.set_only) = (0, 6);
                undecided(it, "slices_down", Some(1.0));
            },
            &[
                (Critical, "slices_set_only", "6 of 6 slices", DESCRIBE),
                (Critical, "undecided", "may have lost", "firstseen filter forgive clicks --cluster a:7400"),
            ],
        ),
        (|it| undecided(it, "overloaded", Some(0.0)), &[]),
        (|it| undecided(it, "overloaded", None), &[]),
        (|it| undecided(it, "claimed", Some(9.0)), &[]),
        (
            |it| undecided(it, "overloaded", Some(0.2)),
            &[(Critical, "undecided", "1 events a second of filter clicks are undecided (overloaded)", DESCRIBE)],
        ),
        (|it| undecided(it, "late", Some(1_000.0)), &[(Warning, "undecided", "1,000 events a second", DESCRIBE)]),
        (|it| undecided(it, "slices_down", Some(1.0)), &[(Critical, "undecided", "start the nodes", STATUS)]),
        (
            |it| undecided(it, "of_tomorrow", Some(1.0)),
            &[(Critical, "undecided", "(of_tomorrow): see the page", DESCRIBE)],
        ),
    ]);
}

/// Regression test: a node went down while another node had a wrong clock, and the console showed five critical alarms
/// for these two problems.
#[test]
fn two_causes_make_two_critical_alarms() {
    let mut overview = healthy();
    overview.nodes[1].state = "down".to_owned();
    overview.nodes[0].clock_ahead_ms = Some(5_000);
    overview.filters[0].slices = SliceCounts { all: 6, down: 6, ..SliceCounts::default() };
    let line = |reason: &str| Undecided { reason: reason.to_owned(), per_s: Some(3.0), ..Undecided::default() };
    let undecided = vec![line("slices_down"), line("clock_skew")];
    overview.filters[0].verdicts = Verdicts { undecided, ..Verdicts::default() };
    let found = alarms(&overview);
    let kinds =
        |severity| found.iter().filter(|it| it.severity == severity).map(|it| it.kind.as_str()).collect::<Vec<_>>();
    assert_eq!(kinds(Critical), ["clock", "node_down"]);
    assert_eq!(kinds(Warning), ["slices_down", "undecided", "undecided"]);
    assert!(found[2].text.ends_with("(as a node is down)"), "{}", found[2].text);
    assert!(found[4].text.ends_with("(as the clock of a node is wrong)"), "{}", found[4].text);
}

fn moving(overview: &mut Overview, kind: &str, unchanged_s: u64) {
    let (kind, filter) = (kind.to_owned(), "clicks".to_owned());
    overview.work = vec![WorkLine { kind, filter, left: Some(3), unchanged_s, ..WorkLine::default() }];
}

#[test]
fn work_and_versions() {
    let upgrade = "firstseen cluster upgrade status --addr a:7400";
    let cases: [Case; 7] = [
        (|it| moving(it, "move", 599), &[]),
        (|it| moving(it, "alteration", 600), &[]),
        (|it| moving(it, "move", 600), &[(Warning, "moves_stuck", "3 slices of filter clicks", STATUS)]),
        (|it| it.nodes[1].version = None, &[]),
        (
            |it| it.nodes[1].version = Some("0.3.0".to_owned()),
            &[(Warning, "upgrade", "versions 0.2.0 and 0.3.0", "firstseen cluster upgrade status --addr a:7400")],
        ),
        (
            |it| it.cluster.format = 11,
            &[(Warning, "upgrade", "newer format than the 11", "firstseen cluster upgrade status --addr a:7400")],
        ),
        (|it| (it.cluster.format, it.nodes[0].newest_format) = (11, None), &[]),
    ];
    check(&cases);
    let mut overview = healthy();
    overview.cluster.tls = true;
    overview.nodes[1].version = Some("0.3.0".to_owned());
    assert_eq!(alarms(&overview)[0].command, format!("{upgrade} $TLS"));
}

#[test]
fn the_worst_comes_first_and_names_are_quoted() {
    let mut overview = healthy();
    overview.nodes[0].clock_ahead_ms = Some(600);
    overview.filters[0].name = "x; reboot".to_owned();
    overview.filters[0].slices.down = 1;
    let found = alarms(&overview);
    assert_eq!(found.iter().map(|alarm| alarm.severity).collect::<Vec<_>>(), [Critical, Warning]);
    assert_eq!(found[0].command, "firstseen filter describe 'x; reboot' --cluster a:7400");
    assert_eq!((found[1].on.as_deref(), &found[0].on), (Some("a"), &None));
}
