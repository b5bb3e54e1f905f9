//! Alters a filter while producers continue to submit events. The alteration replaces the filter with a new one, and
//! the old filter, the predecessor, must be removed at the end. All replies that the producers received before and
//! after the alteration form a history, which must satisfy the consistency rules of the simulation.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use firstseen_checker::history::{Call, History, Promises};
use firstseen_checker::laws;
use firstseen_client::{Client, ConnectOptions, Event, Filter, SubmissionName, Verdict, Wait};
use serde_json::Value;

use crate::asking::opened;
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;

/// Number of threads that call a filter.
const CALLERS: u32 = 6;
/// Interval at which a new event begins, in milliseconds.
const NEW_EVENT_MS: u64 = 10;
/// Number of events of each filter that are looked up before and after its alteration.
const MARKS: u32 = 20;
/// Window of the filter before the alteration, in milliseconds. The test records events, alters the filter, and then
/// checks that the filter still knows these events. Their window must not end while the command that alters the filter
/// is running, even on a slow machine.
const OLD_WINDOW_MS: u64 = 24_000;
const NEW_WINDOW_MS: u64 = 60_000;
/// Maximum time for which a filter may remember an event, in milliseconds. A filter may remember an event for longer
/// than its window, because it rounds the window up. The test therefore allows twice the longer of the two windows. If
/// no producer has submitted an event within this time, and the filter nevertheless calls it a duplicate, the verdict
/// is wrong.
const WINDOW_AT_MOST_MS: u64 = 2 * NEW_WINDOW_MS;

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

/// Producer that submits recent events, which other producers submit too. Some submissions have idempotency keys and
/// are sent again.
struct Producer<'a> {
    filter: &'a Filter,
    number: u32,
    begun: Instant,
    rng: u64,
    names: u64,
    calls: Vec<Call>,
}

impl Producer<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        self.rng = self.rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.rng >> 33) % bound.max(1)
    }

    fn run(mut self, is_over: &AtomicBool) -> Vec<Call> {
        let mut again: Option<(Call, Instant)> = None;
        while !is_over.load(Ordering::Relaxed) {
            if let Some((call, _)) = again.take_if(|(_, due)| *due <= Instant::now()) {
                self.ask(call.event, call.time_ms, false, call.name);
            }
            let events = self.begun.elapsed().as_millis() as u64 / NEW_EVENT_MS + 1;
            let event = events - 1 - self.below(events).min(self.below(events)).min(self.below(events));
            let (is_lookup, is_named) = (self.below(6) == 0, self.below(3) == 0);
            self.names += 1;
            let name = SubmissionName { source: self.number.into(), number: self.names };
            let call = self.ask(event, now_ms(), is_lookup, (is_named && !is_lookup).then_some(name));
            if again.is_none() && call.name.is_some() {
                let later = Duration::from_millis(self.below(1_500));
                again = Some((call, Instant::now() + later));
            }
        }
        self.calls
    }

    fn ask(&mut self, event: u64, time_ms: u64, is_lookup: bool, name: Option<SubmissionName>) -> Call {
        let key = event.to_le_bytes();
        let began_us = self.begun.elapsed().as_micros() as u64;
        let verdict = match name {
            _ if is_lookup => self.filter.test(Event::from(&key).at(time_ms)).wait(),
            Some(name) => self.filter.observe(Event::from(&key).named(name).at(time_ms)).wait(),
            None => self.filter.observe(Event::from(&key).at(time_ms)).wait(),
        };
        let returned_us = Some(self.begun.elapsed().as_micros() as u64);
        let (verdict, producer) = (Some(verdict.expect("a call")), self.number);
        let call = Call { is_lookup, name, returned_us, verdict, ..Call::begun(producer, event, time_ms, began_us) };
        self.calls.push(call.clone());
        call
    }
}

/// Runs producers against one filter until `is_over` is set, and returns all calls.
fn produce(filter: &Filter, begun: Instant, is_over: &AtomicBool) -> Vec<Call> {
    let calls = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for number in 0..CALLERS {
            let (names, own, rng) = (0, Vec::new(), u64::from(number) * 31 + 7);
            let producer = Producer { filter, number, begun, rng, names, calls: own };
            let calls = &calls;
            scope.spawn(move || calls.lock().expect("no panic").extend(producer.run(is_over)));
        }
    });
    calls.into_inner().expect("no panic")
}

/// Returns the consistency rules that `calls` violate, if events are remembered for at least `window_ms`.
fn broken(mut calls: Vec<Call>, window_ms: u64) -> Vec<String> {
    calls.sort_by_key(|call| call.began_us);
    let promises = Promises { window_ms, window_at_most_ms: WINDOW_AT_MOST_MS, ..Promises::within_one_window() };
    let mut history = History { promises, ..History::default() };
    calls.into_iter().for_each(|call| _ = history.begin(call));
    laws::check(&history).iter().map(ToString::to_string).collect()
}

fn json(node: &OwnNode, command: &str) -> Value {
    let run = node.folder.run(command);
    assert_eq!(run.code, Some(0), "{command}: {}", run.err);
    serde_json::from_str(&run.out).expect("one document")
}

fn describe(node: &OwnNode, name: &str) -> Value {
    json(node, &format!("filter describe {name} --json --cluster {}", node.address))
}

/// Returns the number of slices on all nodes.
fn slices(node: &OwnNode) -> u64 {
    let status = json(node, &format!("cluster status --json --addr {}", node.address));
    status["nodes"].as_array().into_iter().flatten().filter_map(|node| node["slices"].as_u64()).sum()
}

fn alter(node: &OwnNode, name: &str, flags: &str) -> Value {
    json(node, &format!("filter alter {name} {flags} --json --cluster {}", node.address))
}

fn cluster() -> Vec<OwnNode> {
    let nodes: Vec<OwnNode> = ["a", "b", "c"].map(|name| OwnNode::start(name, "")).into();
    let form = nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(" ");
    eventually("a cluster", || nodes[0].folder.run(&format!("cluster form {form}")).code == Some(0));
    nodes
}

fn create(node: &OwnNode, name: &str, flags: &str) {
    let create =
        format!("filter create {name} {flags} --if-absent --capacity 200k --fpr 0.0000001 --cluster {}", node.address);
    eventually("a filter", || node.folder.run(&create).code == Some(0));
}

/// Returns the idempotency key of a call, in a form that can be compared.
fn named(call: &Call) -> Option<(u128, u64)> {
    call.name.map(|name| (name.source, name.number))
}

/// Checks the verdicts of one filter before and after its alteration. `altered_us` is the time at which the command
/// returned.
fn judge(name: &str, calls: &[Call], altered_us: u64) {
    let undecided = calls.iter().filter(|call| matches!(call.verdict, Some(Verdict::Undecided(_)))).count();
    let longest_us = calls.iter().map(|call| call.returned_us.unwrap_or(u64::MAX) - call.began_us).max();
    eprintln!("{name}: {} calls, {undecided} undecided, the longest {longest_us:?} us", calls.len());
    assert!(calls.len() > 300 && undecided * 100 < calls.len(), "{name}: {undecided} of {} undecided", calls.len());
    let violations = broken(calls.to_vec(), OLD_WINDOW_MS);
    assert!(violations.is_empty(), "{name}: {}", violations.join("\n"));
    let since: Vec<Call> = calls.iter().filter(|call| call.began_us > altered_us).cloned().collect();
    // A retry may get the verdict of its first attempt, which was before the alteration. Such a verdict is not a
    // delivery of the new filter.
    let earlier: BTreeSet<_> = calls.iter().filter(|call| call.began_us <= altered_us).filter_map(named).collect();
    let is_delivered = |call: &&Call| call.won() && named(call).is_none_or(|name| !earlier.contains(&name));
    let won: Vec<Call> = since.iter().filter(is_delivered).cloned().collect();
    assert!(won.len() > 30, "{name}: new events after the alteration are called first-seen");
    // This part of the history lacks the deliveries of the predecessor, so only deliveries of the new filter are
    // compared.
    let violations = broken(won, NEW_WINDOW_MS);
    assert!(violations.is_empty(), "{name}, under the new window: {}", violations.join("\n"));
}

#[test]
#[ignore = "minutes"]
fn a_filter_is_altered_while_producers_go_on() {
    let nodes = cluster();
    let names = ["across", "down", "copied"];
    let flags = "--window 24s --retry-horizon 3s";
    create(&nodes[0], "across", &format!("--slicing horizontal:6 {flags}"));
    create(&nodes[0], "down", &format!("--slicing vertical:6 {flags}"));
    create(&nodes[0], "copied", &format!("--slicing horizontal:3 --copies 1 {flags}"));
    let client = || Client::connect(ConnectOptions::from([nodes[1].address.clone()])).wait().expect("a client");
    let producing = client();
    let filters = names.map(|name| opened(&producing, name));
    for filter in &filters {
        let answers = || {
            filter.observe(Event::from(b"warm").at(now_ms())).wait().is_ok_and(|verdict| verdict == Verdict::Duplicate)
        };
        eventually("every slice answers", answers);
    }
    let (is_over, begun) = (AtomicBool::new(false), Instant::now());
    let before = slices(&nodes[0]);
    std::thread::scope(|scope| {
        let producers = filters.each_ref().map(|filter| scope.spawn(|| produce(filter, begun, &is_over)));
        eventually("a load", || begun.elapsed() > Duration::from_secs(3));
        let changes = "--window 60s --capacity 400k --fpr 0.0000001 --new-secret";
        let planned = alter(&nodes[0], "across", &format!("{changes} --plan"));
        assert_eq!((planned["done"].as_bool(), slices(&nodes[0])), (Some(false), before), "a plan alters nothing");
        // Each filter is judged by the time of its own command. On a slow machine, most of the old window has passed by
        // the time all commands have returned.
        let now_us = || begun.elapsed().as_micros() as u64;
        let alter_timed = |node: &OwnNode, number: usize, flags: &str| {
            let (name, filter) = (names[number], &filters[number]);
            // How often producers repeat earlier events depends on the speed of the machine, so these events are looked
            // up explicitly.
            let marks: Vec<String> = (0..MARKS).map(|mark| format!("mark-{mark}")).collect();
            for mark in &marks {
                assert_eq!(
                    filter.observe(Event::from(mark.as_bytes()).at(now_ms())).wait().expect("a call"),
                    Verdict::FirstSeen,
                    "{mark}"
                );
            }
            let asked_us = now_us();
            alter(node, name, flags);
            let altered_us = now_us();
            for mark in &marks {
                let verdict = filter.test(Event::from(mark.as_bytes()).at(now_ms())).wait().expect("a call");
                assert_eq!(verdict, Verdict::Duplicate, "{name}: {mark} is found across the alteration");
            }
            (asked_us, altered_us)
        };
        let altered = [
            alter_timed(&nodes[0], 0, changes),
            alter_timed(&nodes[1], 1, &format!("{changes} --slicing vertical:4")),
            alter_timed(&nodes[2], 2, &format!("{changes} --slicing vertical:6")),
        ];
        for name in names {
            let former = &describe(&nodes[0], name)["former"];
            assert_eq!(former["name"], format!("{name}~former"), "both are there: {former}");
            // A new producer finds what was recorded before.
            let verdict = opened(&client(), name).test(Event::from(b"warm").at(now_ms())).wait().expect("a call");
            assert!(matches!(verdict, Verdict::Duplicate | Verdict::FirstSeen), "{verdict:?}");
        }
        let refused = nodes[0].folder.run(&format!("filter alter down --capacity 1M --cluster {}", nodes[0].address));
        refused.fails(1, &["being altered"]);
        eventually("the former ones go", || names.iter().all(|name| describe(&nodes[2], name)["former"].is_null()));
        let gone_us = now_us();
        assert!(gone_us - altered[0].0 > 27_000_000, "a window and a retry horizon are the least");
        eventually("some calls more", || now_us() > gone_us + 1_000_000);
        is_over.store(true, Ordering::Relaxed);
        for ((name, producer), altered) in names.iter().zip(producers).zip(altered) {
            judge(name, &producer.join().expect("calls"), altered.1);
        }
    });
    assert_eq!(
        (slices(&nodes[0]), describe(&nodes[0], "down")["definition"]["slicing"].as_str()),
        (6 + 4 + 12, Some("vertical:4"))
    );
}

#[test]
fn records_are_hashed_anew_where_the_secret_is_another() {
    let nodes = cluster();
    create(&nodes[0], "hashed", "--slicing vertical:4 --window 1h --clock wall");
    let (folder, at) = (&nodes[0].folder, &nodes[0].address);
    let dedup = |keys: &str| {
        folder.write("events", keys.replace(' ', "\n"));
        let ran = folder.dedup(&format!("--cluster {at} --filter hashed --format csv --key id events"));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        ran.out.lines().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(dedup("id a b \"b\""), "a b");
    alter(&nodes[1], "hashed", "--new-secret");
    assert_eq!(dedup("id b c \"d\" c"), "c \"d\"", "what is new is hashed as the new filter wants it");
    assert_eq!(dedup("id a \"c\" d e"), "e", "both filters are asked");
    let finished = folder.run(&format!("filter alter hashed --finish --yes --cluster {at}"));
    assert_eq!(finished.code, Some(0), "{}", finished.err);
    assert_eq!(dedup("id a c d e"), "a", "the former filter has gone with what it knew");
}

#[test]
fn what_cannot_be_altered_says_what_to_do_instead() {
    let nodes = cluster();
    let at = format!("--cluster {}", nodes[0].address);
    create(&nodes[0], "endless", "--slicing horizontal:2");
    create(&nodes[0], "counted", "--window 1000events");
    create(&nodes[0], "daily", "--slicing horizontal:3 --window 24h --clock wall");
    for (flags, said) in [
        ("endless --capacity 1M", "no window"),
        ("counted --capacity 1M", "counts events"),
        ("daily --window 48h", "--capacity 10M"),
        ("daily", "no flag says what changes"),
        ("daily --capacity 200k", "it is so already"),
        ("daily --capacity 500M", "do not fit"),
        ("daily --finish", "is not being altered"),
    ] {
        let run = nodes[0].folder.run(&format!("filter alter {flags} {at}"));
        assert!(run.code != Some(0) && run.err.contains(said), "{flags}: {}", run.err);
    }
    let before = slices(&nodes[0]);
    let altered = nodes[0].folder.run(&format!("filter alter daily --capacity 1M {at}"));
    assert!(altered.code == Some(0) && altered.out.contains("altered: "), "{}{}", altered.out, altered.err);
    assert_eq!(slices(&nodes[0]), before + 3);
    let finished = nodes[0].folder.run(&format!("filter alter daily --finish --yes {at}"));
    assert!(finished.code == Some(0) && finished.out.contains("is gone"), "{}{}", finished.out, finished.err);
    assert_eq!(slices(&nodes[0]), before);
}
