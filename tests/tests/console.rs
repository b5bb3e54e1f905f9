//! Tests of the web console: the overview, its event stream, and the page in a real browser.

mod browser;
mod contrast;
mod http;
mod recorded;
mod stub;
mod top;

use std::net::TcpStream;

use firstseen_client::{Client, ConnectOptions, Wait};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::asking::opened;
use crate::local_cluster::{LocalCluster, eventually};
use crate::run::{Folder, example};
use browser::Browser;
use http::{Events, get};
use stub::Stub;

/// Returns the HTTP address of a node.
fn at(cluster: &LocalCluster, node: usize) -> String {
    cluster.ready["nodes"][node]["http"].as_str().expect("an address").to_owned()
}

/// Returns the overview of a node.
fn overview(address: &str) -> Value {
    let answer = get(address, "/api/v1/overview");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{}", answer.body);
    serde_json::from_str(&answer.body).expect("JSON")
}

fn node<'a>(overview: &'a Value, name: &str) -> &'a Value {
    let nodes = overview["nodes"].as_array().expect("nodes");
    nodes.iter().find(|node| node["name"] == name).unwrap_or_else(|| panic!("{name} in {overview}"))
}

/// Shows the page of a node in a browser, with the given overview, and checks that the words appear.
fn see(address: &str, overview: &Value, words: &[&str]) {
    let stub = Stub::start(address, overview);
    Browser::find().see(&stub.address, "/ui", words);
}

fn has_alarm(overview: &Value, kind: &str, subject: &str) -> bool {
    let alarms = overview["alarms"].as_array().expect("alarms");
    alarms.iter().any(|alarm| alarm["kind"] == kind && alarm["subject"] == subject)
}

/// Checks that the commands and flags in alarms exist in this binary, because users paste them.
#[test]
fn commands_of_alarms_exist() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/node/src/console/alarms.rs");
    let source = std::fs::read_to_string(source).expect("a text");
    let commands: Vec<&str> = source.split("self.command(").skip(1).filter_map(|call| call.split('"').nth(1)).collect();
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands {
        let mut clap = <firstseen_cli::args::Cli as clap::CommandFactory>::command();
        let (flags, words): (Vec<&str>, Vec<&str>) = command.split(' ').partition(|word| word.starts_with("--"));
        for word in words.into_iter().filter(|word| *word != "{}" && *word != "{wider}") {
            clap = clap.find_subcommand(word).unwrap_or_else(|| panic!("{word} of {command}")).clone();
        }
        for flag in flags {
            let is_it = |arg: &clap::Arg| {
                let names = arg.get_long().into_iter().chain(arg.get_all_aliases().into_iter().flatten());
                names.into_iter().any(|name| format!("--{name}") == flag)
            };
            assert!(clap.get_arguments().any(is_it), "{flag} of {command}");
        }
    }
}

/// Checks the display of a measured error rate. A producer that audits its verdicts reports its rate of false positives
/// to the nodes, and the console must show this rate next to the rate that the filter promises.
#[test]
fn an_overview_shows_the_rate_that_producers_have_measured() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 2");
    let first = at(&cluster, 0);
    // This filter has a high error rate.
    cluster.create(&folder, "clicks", "--window 24h --clock wall --capacity 20k --fpr 0.2 --kind timing").ok();
    let addresses = cluster.addresses();
    let client = Client::connect(ConnectOptions { audit_rate: 1.0, ..ConnectOptions::from(addresses.split(',')) })
        .wait()
        .expect("a client");
    let filter = opened(&client, "clicks");
    for part in 0..40_u32 {
        let keys: Vec<[u8; 4]> = (part * 500..(part + 1) * 500).map(u32::to_le_bytes).collect();
        filter.observe_batch(&keys).wait().expect("verdicts");
    }
    let report = filter.audit().expect("it is audited");
    let (found, exact) = (report.false_positives.rate(), |rate: f64| rate > 0.02 && rate < 0.3);
    assert!(exact(found), "{found}");
    // The producer has not reported its last batches yet.
    let near = |overview: &Value| {
        overview["filters"][0]["measured_rate"].as_f64().is_some_and(|rate| exact(rate) && rate <= found * 1.2)
    };
    eventually("a measured rate", || near(&overview(&first)));
    let shown = overview(&first);
    see(&first, &shown, &["clicks", "measured"]);
}

#[test]
fn an_overview_shows_a_cluster_and_a_node_that_is_gone() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 3");
    let first = at(&cluster, 0);
    assert_eq!(cluster.ready["console"], format!("http://{first}/ui"));
    let flags = "--window 24h --capacity 20k --slicing horizontal:3 --copies 0";
    cluster.create(&folder, "clicks", flags).ok();
    eventually("a healthy cluster", || overview(&first)["alarms"].as_array().is_some_and(Vec::is_empty));
    let mut events = Events::of(&first).expect("there is room");
    let input = format!("--format clf {}", example("apache_logs.gz"));
    folder.dedup(&format!("--cluster {} --filter clicks --out once.log {input}", cluster.addresses())).ok();
    let counted = loop {
        let overview = events.next();
        let filter = &overview["filters"][0];
        let rate = filter["verdicts"]["first_seen_per_s"].as_f64();
        // The numbers of the other nodes may be a second old.
        let is_counted = filter["live_events"].as_f64() > Some(1_000.0);
        if is_counted && rate > Some(0.0) && filter["p99_ms"].as_f64() > Some(0.0) {
            break overview;
        }
    };
    let filter = &counted["filters"][0];
    assert_eq!((&counted["version"], &filter["name"], &filter["window"]), (&1.into(), &"clicks".into(), &"1d".into()));
    assert_eq!(filter["slices"]["complete"], 3, "{filter}");
    let (live, full) = (filter["live_events"].as_f64().expect("a count"), filter["full"].as_f64().expect("a share"));
    assert!(full > live / 30_000.0 && full < 1.0, "{filter}");
    assert!(filter["p50_ms"].as_f64() <= filter["p99_ms"].as_f64() && filter["measured_rate"].is_null(), "{filter}");
    assert_eq!(node(&counted, "node-2")["state"], "up");
    see(&first, &counted, &["clicks", "node-3", "Nothing needs a look.", ">live<"]);

    kill(cluster.processes()[1], Signal::SIGKILL).expect("a process");
    eventually("an alarm", || has_alarm(&overview(&first), "node_down", "node-2"));
    let without = overview(&first);
    let (gone, filter) = (node(&without, "node-2"), &without["filters"][0]);
    for name in ["version", "ready", "memory_used_bytes", "events_per_s"] {
        assert!(gone[name].is_null(), "{name} is unknown, and not zero: {gone}");
    }
    assert_eq!((&gone["state"], &filter["slices"]["down"]), (&"down".into(), &1.into()), "{without}");
    assert_eq!(filter["silent_nodes"], serde_json::json!(["node-2"]));
    assert!(has_alarm(&without, "slices_down", "clicks"), "{without}");
    see(&first, &without, &["node node-2 is down", "systemctl start firstseen", "on node-2", "1 slice down"]);
}

#[test]
fn slices_on_their_way_are_shown_with_what_is_left() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 3");
    let first = at(&cluster, 0);
    cluster.create(&folder, "clicks", "--window 24h --capacity 20k --slicing horizontal:3 --copies 0").ok();
    eventually("a healthy cluster", || overview(&first)["alarms"].as_array().is_some_and(Vec::is_empty));
    // The node is stopped before it can hand over the slices that must leave it.
    kill(cluster.processes()[2], Signal::SIGSTOP).expect("a process");
    let leaving = format!("cluster drain node-3 --no-wait --cluster {}", cluster.addresses());
    eventually("a node that is drained", || folder.run(&leaving).code == Some(0));
    let moving = || overview(&first)["work"].as_array().and_then(|work| work.first().cloned());
    eventually("a slice on its way", || moving().is_some_and(|line| line["kind"] == "move"));
    let line = moving().expect("it goes on");
    assert_eq!((&line["filter"], &line["left"], &line["unit"]), (&"clicks".into(), &1.into(), &"slices".into()));
    assert!(line["bytes_left"].as_f64() > Some(1_000.0), "{line}");
    see(&first, &overview(&first), &["clicks", "1 slice is on its way to other nodes", "up to "]);
}

#[test]
fn a_tree_has_levels() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--sites athens,oslo");
    let first = at(&cluster, 0);
    cluster.create(&folder, "visits", "--window 24h --capacity 20k --tree dense").ok();
    let mut events = Events::of(&first).expect("there is room");
    let input = format!("--site athens --format clf {}", example("apache_logs.gz"));
    folder.dedup(&format!("--cluster {} --filter visits --out once.log {input}", cluster.addresses())).ok();
    let (busy, places) = loop {
        let overview = events.next();
        let places = overview["trees"][0]["places"].clone();
        let is_busy = |place: &Value| place["asked_per_s"].as_f64() > Some(0.0);
        if places.as_array().is_some_and(|places| places.iter().filter(|place| is_busy(place)).count() == 2) {
            break (overview, places);
        }
    };
    assert_eq!((&places[0]["parent"], &places[1]["parent"]), (&Value::Null, &places[0]["place"]), "{places}");
    let rate = |place: usize, name: &str| places[place][name].as_f64().expect("a rate");
    let athens = (0..3).find(|place| places[*place]["place"] == "athens").expect("a leaf");
    assert!(
        rate(athens, "climbed_per_s") <= rate(athens, "asked_per_s") && rate(athens, "found_per_s") > 0.0,
        "{places}"
    );
    see(&first, &busy, &["class=\"tree\"", "athens</text>", "oslo</text>", "level 1", "finds "]);
}

#[test]
fn the_page_is_guarded_and_viewers_are_limited() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 1");
    let first = at(&cluster, 0);
    let mut page_bytes = 0;
    for path in
        ["/ui", "/ui/console.css", "/ui/console.js", "/ui/panes.js", "/ui/draw.js", "/ui/words.js", "/ui/icon.svg"]
    {
        let answer = get(&first, path);
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'self'; ") && !policy.contains("unsafe"), "{policy}");
        assert!(!policy.split(';').any(|rule| rule.trim().starts_with("script-src")), "{policy}");
        let headers = ["x-content-type-options", "referrer-policy", "x-frame-options"].map(|name| answer.header(name));
        assert_eq!(headers, [Some("nosniff"), Some("no-referrer"), Some("DENY")], "{path}");
        for forbidden in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=", "http://", "https://"]
        {
            let body = answer.body.replace("http://www.w3.org/2000/svg", "");
            assert!(!body.contains(forbidden), "{path} has {forbidden}");
        }
        page_bytes += answer.body.len();
    }
    assert!(page_bytes < 60_000, "{page_bytes}");
    let root = get(&first, "/");
    assert_eq!((root.status, root.header("location")), (307, Some("/ui")));
    let stranger =
        http::ask(&first, "GET /api/v1/overview HTTP/1.1\r\nHost: stranger.example\r\nConnection: close\r\n\r\n");
    assert_eq!(stranger.status, 421, "a page of a stranger");
    let all: Vec<Events> = (0..32).map(|_| Events::of(&first).expect("there is room")).collect();
    let refused = Events::of(&first).expect_err("there is no room");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("10")));
    assert!(refused.body.contains("32 viewers look at this node already"), "{}", refused.body);
    drop(all);
    eventually("room", || Events::of(&first).is_ok());
    // An open event stream does not prevent a node from stopping.
    let viewer = Events::of(&first).expect("there is room");
    assert_eq!(cluster.end().0, Some(0));
    drop(viewer);
    assert!(TcpStream::connect(&first).is_err());
}

#[test]
fn a_console_is_off_and_stays_at_home() {
    let folder = Folder::new();
    let config = |listen: &str, more: &str| {
        let node = "name = \"a\"\nlisten = \"127.0.0.1:7400\"\ndata_dir = \"data\"\nmemory_max_bytes = 67108864\n";
        folder
            .write("a.toml", format!("{more}{node}http_listen = \"{listen}\"\n[http]\nopen = true\nconsole = true\n"));
        folder.run("node --config a.toml --create --check-config")
    };
    config("0.0.0.0:7401", "").fails(2, &["console in [http]", "`insecure = true`"]);
    config("0.0.0.0:7401", "insecure = true\n").ok();
    config("127.0.0.1:7401", "").ok();
    let cluster = LocalCluster::start(&folder, "--nodes 1");
    let first = at(&cluster, 0);
    assert_eq!(cluster.end().0, Some(0));
    let file = "firstseen-data/node-1/node.toml";
    folder.write(file, folder.read(file).replace("console = true", "console = false"));
    let cluster = LocalCluster::start(&folder, "");
    assert!(cluster.ready.get("console").is_none(), "{}", cluster.ready);
    assert_eq!(["/ui", "/events", "/api/v1/overview"].map(|path| get(&first, path).status), [404; 3]);
}
