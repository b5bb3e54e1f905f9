//! Tests of the metrics of real nodes (`/metrics`). Both text formats are parsed strictly. Every metric that the
//! dashboard, the alert rules or the documentation names must exist, and each alert must fire in the situation for
//! which it is meant.

mod exposition;
mod fires;
mod fires_access;
mod fires_clock;
mod fires_cluster;
mod fires_disk;
mod fires_filters;
mod fires_here;
mod names;
mod recording;
mod scrape;

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use self::exposition::{Format, Samples, read};
use self::recording::has_promtool;
use self::scrape::{get, scrape};
use crate::local_cluster::{LocalCluster, eventually};
use crate::run::Folder;

/// Returns the addresses at which the nodes of a cluster serve their metrics.
fn scraped(cluster: &LocalCluster) -> Vec<String> {
    let nodes = cluster.ready["nodes"].as_array().expect("nodes");
    nodes.iter().map(|node| node["http"].as_str().expect("an address").to_owned()).collect()
}

/// Starts a cluster with two sites, certificates and a tree, in which a client was denied access.
fn with_sites(folder: &Folder) -> LocalCluster {
    let cluster = LocalCluster::start(folder, "--sites athens,oslo --tls --data sites");
    let tls = |who: &str| {
        let file = |end: &str| format!("sites/certs/{who}.{end}");
        format!("--tls-ca sites/certs/ca.pem --tls-cert {} --tls-key {}", file("pem"), file("key"))
    };
    cluster.create(folder, "tree", &format!("--capacity 10k --tree dense {}", tls("admin"))).ok();
    cluster.create(folder, "refused", &format!("--capacity 10k --window 1h {}", tls("local.client"))).fails(1, &[]);
    let asked = format!("--cluster {} --filter tree --site athens {} input", cluster.addresses(), tls("local.client"));
    folder.dedup(&asked).ok();
    cluster
}

/// Starts two nodes with Redis and HTTP endpoints, a durable filter, and a filter with claims.
fn with_endpoint(folder: &Folder) -> LocalCluster {
    let port = crate::ports::free_ports(1);
    let http_port = crate::ports::free_ports(1);
    let cluster =
        LocalCluster::start(folder, &format!("--nodes 2 --redis {port} --http-api {http_port} --data endpoint"));
    let of = "--capacity 10k --window 1h --clock wall";
    cluster.create(folder, "clicks", &format!("{of} --slicing vertical:2 --durability durable")).ok();
    cluster.create(folder, "jobs", &format!("{of} --claims 60s")).ok();
    folder.dedup(&format!("--cluster {} --filter clicks input", cluster.addresses())).ok();
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).expect("an address");
    eventually("an answer at the endpoint", || {
        let answer = client.get_connection().and_then(|mut client| redis::cmd("PING").query::<String>(&mut client));
        answer.is_ok_and(|answer| answer == "PONG")
    });
    crate::http_wire::opened(http_port);
    cluster
}

/// Minimum number of metrics that a page or file names. A file with fewer was probably not read.
const NAMED_MIN: usize = 5;

/// Returns the names of all samples and histograms.
fn names(samples: &Samples) -> BTreeSet<String> {
    let names = || samples.keys().map(|(name, _)| name);
    let histograms = names().filter_map(|name| name.strip_suffix("_bucket"));
    names().cloned().chain(histograms.map(str::to_owned)).collect()
}

#[test]
fn every_metric_that_is_named_exists() {
    let folder = Folder::with("a\nb\na\n");
    let (sites, endpoint) = (with_sites(&folder), with_endpoint(&folder));
    let addresses: Vec<String> = [&sites, &endpoint].into_iter().flat_map(scraped).collect();
    let named: Vec<(&str, BTreeSet<String>)> =
        names::FILES.into_iter().map(|file| (file, names::metrics(&names::text(file)))).collect();
    assert!(named.iter().all(|(_, metrics)| metrics.len() >= NAMED_MIN), "{named:?}");
    // Clocks are measured only after some time, and by then histograms have their first values.
    let mut missing = Vec::new();
    eventually("all metrics", || {
        let all: BTreeSet<String> =
            addresses.iter().flat_map(|address| names(&scrape(address).expect("a node"))).collect();
        // A pipe is no node, and serves metrics of its own.
        let is_missing = |metric: &String| !all.contains(metric) && !metric.starts_with("firstseen_pipe_");
        let lacks = |file: &str, metric: &String| is_missing(metric).then(|| format!("{file}: {metric}"));
        let now = named.iter().flat_map(|(file, metrics)| metrics.iter().filter_map(|metric| lacks(file, metric)));
        let now: Vec<String> = now.collect();
        if now != missing {
            eprintln!("still missing: {now:?}");
        }
        missing = now;
        missing.is_empty()
    });
    // The page of metrics says that it has everything that a node reports, apart from what a page that it links has.
    let page = names::text("docs/reference/metrics.md") + &names::text("docs/how-to/filters-over-many-sites.md");
    let exported = addresses.iter().flat_map(|address| names(&scrape(address).expect("a node")));
    let unnamed: BTreeSet<String> = exported.filter(|metric| !is_on_page(&page, metric)).collect();
    assert!(unnamed.is_empty(), "docs/reference/metrics.md does not name {unnamed:?}");
}

/// Returns whether a page names a metric. Metrics that share a row are written by their ends, such as
/// `_confirmed_total`, and a histogram is written without the ends of its samples.
fn is_on_page(page: &str, metric: &str) -> bool {
    let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| metric.strip_suffix(end)).unwrap_or(metric);
    let ends = family.match_indices('_').map(|(at, _)| &family[at..]);
    ends.chain([family, metric]).any(|name| page.contains(&format!("`{name}`")))
}

#[test]
fn both_formats_have_the_same_samples() {
    let folder = Folder::with("a\nb\na\n");
    let cluster = with_endpoint(&folder);
    let address = &scraped(&cluster)[0];
    let newer = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
    for accept in ["", "*/*", "text/plain;version=0.0.4"] {
        let (head, _) = get(address, accept).expect("an answer");
        assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{accept}: {head}");
    }
    // Both texts come from the same collection of metrics if they are requested within a second.
    eventually("one gathering", || {
        let (head, new) = get(address, newer).expect("an answer");
        assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
        let new = read(&new, Format::OpenMetrics).unwrap_or_else(|error| panic!("{error}\n{new}"));
        new == scrape(address).expect("an answer")
    });
    if has_promtool() {
        let (_, text) = get(address, "").expect("an answer");
        let mut checking = Command::new("promtool");
        checking.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut checking = checking.spawn().expect("promtool");
        checking.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
        let checked = checking.wait_with_output().expect("an end");
        assert!(checked.status.success(), "{checked:?}");
    }
}

/// Checks that after a filter was dropped, no node shows its metrics any more, neither its own series nor those of its
/// batches.
#[test]
fn the_series_of_a_filter_go_with_it() {
    let folder = Folder::with("a\nb\na\n");
    let cluster = with_endpoint(&folder);
    let of = |filter: &str| {
        let all = scraped(&cluster).into_iter().map(|address| scrape(&address).expect("a node"));
        all.map(|samples| samples.keys().filter(|(_, of)| of.get("filter").is_some_and(|of| of == filter)).count())
            .collect()
    };
    let before: Vec<usize> = of("clicks");
    assert!(before.iter().all(|samples| *samples > 30), "{before:?}");
    folder.run(&format!("filter drop clicks --yes --cluster {}", cluster.addresses())).ok();
    eventually("no series", || of("clicks").into_iter().all(|samples: usize| samples == 0));
    assert!(of("jobs").into_iter().all(|samples: usize| samples > 10), "others stay");
}

#[test]
fn promtool_finds_no_fault_in_the_alerts() {
    if !has_promtool() {
        return;
    }
    for arguments in [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]] {
        let ran =
            Command::new("promtool").args(arguments).current_dir(names::path("contrib")).output().expect("promtool");
        assert!(ran.status.success(), "{ran:?}");
    }
}
