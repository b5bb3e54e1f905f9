//! Tests of the display, on a terminal that exists only in memory.

use firstseen_node::{
    Alarm, ClusterLine, FilterLine, History, NodeLine, Overview, PlaceLine, Severity, SliceCounts, TreeLine, Verdicts,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::*;

/// Returns an overview of a cluster with everything that the panes can show.
pub(in crate::top) fn busy() -> Overview {
    let node = |name: &str, state: &str| NodeLine {
        name: name.to_owned(),
        state: state.to_owned(),
        site: "athens".to_owned(),
        version: (state == "up").then(|| "0.2.0".to_owned()),
        memory_used_bytes: (state == "up").then_some(1 << 20),
        memory_limit_bytes: 1 << 30,
        leader: name == "node-1",
        ..NodeLine::default()
    };
    let filter = |number: u64| FilterLine {
        name: format!("filter-{number:03}"),
        number,
        full: Some(0.87),
        verdicts: Verdicts {
            first_seen_per_s: Some(10.0),
            duplicate_per_s: Some(20.0),
            undecided_per_s: Some(0.0),
            undecided: Vec::new(),
        },
        slices: SliceCounts { all: 6, complete: 5, down: 1, ..SliceCounts::default() },
        history: Some(History {
            step_s: 5,
            events_per_s: vec![Some(1.0), None, Some(8.0)],
            undecided_per_s: Vec::new(),
        }),
        ..FilterLine::default()
    };
    let alarm = Alarm {
        severity: Severity::Critical,
        text: "node node-2 is down, and the others go on without it: start it again".to_owned(),
        command: "systemctl start firstseen".to_owned(),
        on: Some("node-2".to_owned()),
        ..Alarm::default()
    };
    let place =
        PlaceLine { filter: "visits@athens".to_owned(), level: 1, asked_per_s: Some(40.0), ..PlaceLine::default() };
    Overview {
        cluster: ClusterLine { node: "node-1".to_owned(), leader: Some("node-1".to_owned()), ..ClusterLine::default() },
        alarms: vec![alarm],
        nodes: vec![node("node-1", "up"), node("node-2", "down"), node("node-3", "up")],
        filters: (1..=200).map(filter).collect(),
        trees: vec![TreeLine { places: vec![place], ..TreeLine::default() }],
        ..Overview::default()
    }
}

fn shown(view: &View, columns: u16, lines: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).expect("a backend");
    terminal.draw(|frame| draw(frame, view)).expect("drawn");
    terminal.backend().to_string()
}

#[track_caller]
fn has(shown: &str, words: &[&str]) {
    for words in words {
        assert!(shown.contains(words), "`{words}` is not in:\n{shown}");
    }
}

#[test]
fn the_least_terminal_shows_all_panes() {
    let view = View::of(busy());
    let shown = shown(&view, 80, 24);
    has(&shown, &["[live] firstseen, as node-1 sees it", "2 of 3 nodes up", "node node-2 is down"]);
    has(&shown, &["> on node-2: systemctl start firstseen", "nodes (3)", "filters (200) by number <", "visits@athens"]);
    has(&shown, &["filter-001", "87%", "5/6 1 do", "▂ █", "q quit", "p pause"]);
}

/// A line of 80 columns used to show half of an alarm without a mark, and nothing said that there were more alarms.
#[test]
fn alarms_that_have_no_room_say_so() {
    let mut overview = busy();
    let text = "3 of 6 slices of filter visits are set-only: they record events, and what they may have lost is undecided until \
                it has expired, one window (24h) after the loss";
    let long = Alarm { severity: Severity::Warning, text: text.to_owned(), ..Alarm::default() };
    overview.alarms.extend([long.clone(), long]);
    let narrow = shown(&View::of(overview.clone()), 80, 24);
    has(&narrow, &["alarms (2 of 3)", "…"]);
    let mut view = View::of(overview);
    while view.pane() != Pane::Alarms {
        let _ = view.key(KeyEvent::from(KeyCode::Tab));
    }
    let _ = view.key(KeyEvent::from(KeyCode::Down));
    has(&shown(&view, 80, 24), &["one window (24h)", "after the loss"]);
}

/// At 80 by 24 characters the sum of undecided events, the third node and the end of a long command used to be hidden.
#[test]
fn the_least_terminal_hides_no_node_no_sum_and_no_part_of_a_command() {
    let mut overview = busy();
    let all = "firstseen cluster rebalance --plan --cluster db-7.example.net:7400 --tls-ca ca.pem --tls-cert admin.pem";
    overview.alarms[0].command = all.to_owned();
    overview.verdicts = Verdicts {
        first_seen_per_s: Some(123_456.0),
        duplicate_per_s: Some(1_234_567.0),
        undecided_per_s: Some(98_765.0),
        undecided: Vec::new(),
    };
    overview.slices = SliceCounts { all: 1_024, complete: 1_023, down: 1, ..SliceCounts::default() };
    let shown = shown(&View::of(overview), 80, 24);
    has(
        &shown,
        &["undecided/s", "node-1", "node-2", "node-3", "--cluster db-7.example.net:7400", "--tls-cert admin.pem"],
    );
    has(&shown, &["filter-001", "visits@athens", "q quit"]);
}

#[test]
fn a_smaller_one_says_so() {
    let view = View::of(busy());
    for (columns, lines) in [(79, 24), (80, 23), (40, 10)] {
        has(&shown(&view, columns, lines), &[&format!("{columns} columns")]);
    }
    assert!(!shown(&view, 5, 1).is_empty());
}

#[test]
fn the_pane_with_the_keys_scrolls_and_has_the_room() {
    let mut view = View::of(busy());
    let count = |shown: &str| shown.lines().filter(|line| line.contains("filter-")).count();
    let before = shown(&view, 100, 40);
    assert!(count(&before) >= 15 && !before.contains("filter-200"), "{before}");
    let _ = view.key(KeyEvent::from(KeyCode::End));
    has(&shown(&view, 100, 40), &["filter-200"]);
    let _ = view.key(KeyEvent::from(KeyCode::Tab));
    let after = shown(&view, 100, 40);
    assert!(count(&after) < count(&before), "another pane has the keys:\n{after}");
    has(&after, &["under way, and trees <"]);
}

#[test]
fn pauses_and_breaks_are_seen() {
    let mut view = View::of(busy());
    let _ = view.key(KeyEvent::from(KeyCode::Char('p')));
    has(&shown(&view, 80, 24), &["[paused]"]);
    view.take(Err("no answer from 127.0.0.1:1".to_owned()));
    has(&shown(&view, 80, 24), &["[lost for 0 s: no answer from"]);
    let calm = Overview { alarms: Vec::new(), ..busy() };
    has(&shown(&View::of(calm), 80, 24), &["nothing needs a look"]);
}
