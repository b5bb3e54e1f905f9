//! Tests of trees of filters over several sites. If one site has seen an event, the event must be a duplicate at all
//! sites. Most repetitions must be found at the site of the producer, without asking the root.

use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::local_cluster::{LocalCluster, eventually, is_alive};
use crate::run::{Folder, example_text, number};

const SITES: [&str; 3] = ["athens", "ioannina", "oslo"];
/// Flags of a filter whose verdicts can be compared between two runs. Each run hashes its events with a different
/// secret, so two runs have different false positives. The error rate is therefore so low that no false positives are
/// expected.
///
/// The filter has no window, so the order of the events' times does not matter. The sites can therefore read their
/// parts of the log one after the other.
const FILTER: &str = "--capacity 40k --fpr 0.000000001";

/// Starts a cluster with a node at each of three sites, and divides the sample log into a part for each site.
fn start() -> (Folder, LocalCluster) {
    let folder = Folder::new();
    let log = example_text("apache_logs.gz");
    for (part, site) in SITES.iter().enumerate() {
        let lines = log.lines().enumerate().filter(|(line, _)| line % SITES.len() == part);
        folder.write(site, lines.flat_map(|(_, line)| [line, "\n"]).collect::<String>());
    }
    folder.write("log", log);
    let cluster = LocalCluster::start(&folder, &format!("--sites {}", SITES.join(",")));
    (folder, cluster)
}

/// Returns the report of a run over one file.
fn dedup(folder: &Folder, cluster: &LocalCluster, filter: &str, file: &str, flags: &str) -> Value {
    let at = cluster.addresses();
    let flags = format!("--cluster {at} --filter {filter} {flags} --format clf --out /dev/null --report json {file}");
    folder.dedup(&flags).ok().report()
}

/// Returns the number of duplicates found at the root, and the number found at the leaf.
fn by_level(report: &Value) -> [u64; 2] {
    let levels = report["duplicates_by_level"].as_array().unwrap_or_else(|| panic!("no levels in {report}"));
    let found: Vec<u64> = levels.iter().map(|found| found.as_u64().expect("a number")).collect();
    found.try_into().unwrap_or_else(|levels| panic!("two levels, not {levels:?}"))
}

#[test]
fn all_sites_together_pass_on_what_one_process_passes_on() {
    let (folder, cluster) = start();
    let once = folder.dedup(&format!("{FILTER} --format clf --out /dev/null --report json log")).ok().report();
    for (mode, fold) in [("dense", 0), ("dense", 2), ("sparse", 1)] {
        let name = format!("{mode}-{fold}");
        cluster.create(&folder, &name, &format!("{FILTER} --tree {mode} --tree-fold {fold}")).ok();
        let mut first_seen = 0;
        for site in SITES {
            let report = dedup(&folder, &cluster, &name, site, &format!("--site {site}"));
            let [root, leaf] = by_level(&report);
            assert_eq!(root + leaf, number(&report, "duplicates"), "{report}");
            let sent: Vec<u64> =
                report["nodes"].as_array().expect("nodes").iter().map(|it| number(it, "sent_bytes")).collect();
            assert!(sent.len() == 1 && sent[0] > 10_000, "all of it goes to the leaf's node: {report}");
            assert_eq!((&report["place"], number(&report, "undecided")), (&site.into(), 0), "{report}");
            assert!(leaf > 0 && (root > 0 || site == SITES[0]), "{name}, {site}: {report}");
            first_seen += number(&report, "first_seen");
        }
        assert_eq!(first_seen, number(&once, "first_seen"), "{name}");
        let again = dedup(&folder, &cluster, &name, "athens", "--site athens");
        let [root, leaf] = by_level(&again);
        assert_eq!((number(&again, "first_seen"), root + leaf), (0, number(&again, "events")), "{again}");
        // Athens was first, so its leaf knows every event that it has asked about. Oslo was last, and a sparse leaf
        // knows only the events that were new.
        assert_eq!(root, 0, "{name}: {again}");
        let [root, _] = by_level(&dedup(&folder, &cluster, &name, "oslo", "--site oslo"));
        assert_eq!(root == 0, mode == "dense", "{name}: {root} at the root");
    }
    // Without a site, events go to the root, which knows the events of all sites.
    let report = dedup(&folder, &cluster, "dense-0", "log", "");
    assert_eq!(number(&report, "duplicates"), number(&report, "events"), "{report}");
    assert_eq!(report["duplicates_by_level"].as_array().map(Vec::len), Some(1), "{report}");
}

#[test]
fn a_tree_is_shown_as_a_tree() {
    let (folder, cluster) = start();
    let ready = cluster.ready["nodes"].as_array().expect("nodes").iter();
    assert!(ready.map(|node| node["site"].as_str().expect("a site")).eq(SITES), "{}", cluster.ready);
    let made = cluster.create(&folder, "clicks", &format!("{FILTER} --tree dense --tree-fold 1")).ok().out;
    for line in ["dense tree", "\nroot ", "\n  athens    clicks@athens    1      1 ", "\n  oslo "] {
        assert!(made.contains(line), "`{line}` is not in:\n{made}");
    }
    cluster.create(&folder, "flat", FILTER).ok();
    let at = cluster.addresses();
    let listed = folder.run(&format!("filter list --cluster {at}")).ok().out;
    for line in ["\nclicks ", "\n  clicks@athens ", "place oslo, fold 1\nflat "] {
        assert!(listed.contains(line), "`{line}` is not in:\n{listed}");
    }
    let described = folder.run(&format!("filter describe clicks@oslo --cluster {at}")).ok().out;
    assert!(described.contains("dense, 2 levels, 4 places; this is place oslo"), "{described}");
    let described = folder.run(&format!("filter describe clicks --cluster {at} --json")).ok().out;
    let described: Value = serde_json::from_str(&described).expect("JSON");
    let places = described["tree"]["places"].as_array().expect("places");
    let of = |name: &str| places.iter().map(|place| number(place, name)).collect::<Vec<_>>();
    assert_eq!((of("level"), of("fold")), (vec![0, 1, 1, 1], vec![0, 1, 1, 1]), "{described}");
    let bytes = of("bytes");
    assert!(bytes[0] > bytes[1] && bytes[0] < 3 * bytes[1], "{bytes:?}");
    // The whole tree is dropped at once.
    folder
        .run(&format!("filter drop clicks@oslo --yes --cluster {at}"))
        .fails(1, &["`clicks@oslo` is a level of the tree"]);
    folder.run(&format!("filter drop clicks --yes --cluster {at}")).ok();
    let listed = folder.run(&format!("filter list --cluster {at}")).ok().out;
    assert!(!listed.contains("clicks") && listed.contains("flat"), "{listed}");
}

#[test]
#[ignore = "minutes"]
fn a_tree_can_be_measured_beside_a_flat_filter() {
    let folder = Folder::new();
    let printed = folder.run_lab("bench tree --events 10000 --delay-ms 2 --runs 1 --json").ok().out;
    let report: Value = serde_json::from_str(&printed).expect("JSON");
    let designs = report["designs"].as_array().expect("designs");
    assert_eq!(designs.len(), 3, "{report}");
    let share = |design: &Value, found: &str| {
        let latencies = design["latencies"].as_array().expect("latencies");
        let found = latencies.iter().find(|latency| latency["found"] == found);
        found.map(|found| (found["share"].as_f64().expect("a share"), found["p50_ms"].as_f64().expect("a time")))
    };
    let [flat, sparse, dense] = &designs[..] else { panic!("three designs in {report}") };
    assert!(share(flat, "flat").is_some_and(|(share, _)| share == 1.0) && share(flat, "leaf").is_none(), "{flat}");
    for tree in [sparse, dense] {
        let (leaf, root) = (share(tree, "leaf").expect("found at the leaf"), share(tree, "root").expect("at the root"));
        assert!(leaf.0 > 0.5 && (leaf.0 + root.0 - 1.0).abs() < 1e-9, "{tree}");
        // Two of the root's three slice groups are at another site, with 2 ms in each direction.
        assert!(root.1 >= 4.0, "{tree}");
        let links = tree["links"].as_array().expect("links");
        assert_eq!(links.len(), 3, "{tree}");
        assert!(links.iter().all(|link| link["bytes_per_event"].as_f64().is_some_and(|bytes| bytes > 0.0)), "{tree}");
    }
}

#[test]
fn mistakes_are_named() {
    let (folder, cluster) = start();
    cluster.create(&folder, "clicks", &format!("{FILTER} --tree sparse")).ok();
    cluster.create(&folder, "flat", FILTER).ok();
    let at = format!("--cluster {} --out /dev/null --format clf log", cluster.addresses());
    let there = ["no place `rome`", "root, athens, ioannina, oslo"];
    folder.dedup(&format!("{at} --filter clicks --site rome")).fails(2, &there);
    folder.dedup(&format!("{at} --filter flat --site oslo")).fails(2, &["`flat` is in no tree", "leave --site out"]);
    folder.dedup("--site oslo log").fails(2, &["--cluster"]);
    let refused = |flags: &str, words: &[&str]| _ = cluster.create(&folder, "other", flags).fails(2, words);
    refused("--kind counting --window 1h --capacity 9k --tree dense", &["kind counting cannot be in a tree"]);
    refused("--capacity 9k --layout blocked1 --tree dense", &["--layout classic"]);
    refused("--window 9000events --capacity 9k --tree dense", &["use a window of time"]);
    refused("--capacity 9k --tree-fold 1", &["--tree <MODE>"]);
    refused("--capacity 9k --tree-file none.toml", &["cannot read none.toml"]);
    let place = |name: &str, more: &str| format!("[[place]]\nname = \"{name}\"\nsites = [\"oslo\"]\n{more}\n");
    let written = |text: String, words: &[&str]| {
        folder.write("tree.toml", text);
        refused("--capacity 9k --tree-file tree.toml", words);
    };
    written(place("world", ""), &["tree.toml", "missing field `mode`"]);
    written(format!("mode = \"dense\"\n{}", place("world", "folds = 1")), &["tree.toml", "`folds`", "`fold`"]);
    written(format!("mode = \"dense\"\n{}", place("world", "")), &["site `athens` has no leaf"]);
    written(format!("mode = \"dense\"\n{}", place("", "")), &["`` is no name for a place"]);
    // If the leaves verify duplicates of upper levels, no producer may start above the leaves.
    cluster.create(&folder, "checked", &format!("{FILTER} --tree dense --tree-top-down 1")).ok();
    for place in ["", "--site root"] {
        let words = ["every producer names a leaf", "athens, ioannina, oslo"];
        folder.dedup(&format!("{at} --filter checked {place}")).fails(2, &words);
    }

    folder.run("up --data other --sites athens,athens").fails(2, &["`athens` is named twice", "--nodes-per-site"]);
    folder.run("up --data other --sites athens --nodes 3").fails(2, &["--nodes"]);
    folder.run("up --data other --sites athens --nodes-per-site 65").fails(2, &["65"]);
    folder.run("up --data other --nodes-per-site 2").fails(2, &["--sites"]);
    folder.run("up --data other --sites a_b").fails(2, &["site `a_b`", "letters, digits and hyphens"]);
    assert!(!folder.has("other"), "a folder is left behind");
}

#[test]
fn nodes_of_a_folder_are_at_their_sites_again() {
    let folder = Folder::new();
    let sites = |cluster: &LocalCluster| {
        let nodes = cluster.ready["nodes"].as_array().expect("nodes");
        nodes.iter().map(|node| node["site"].as_str().expect("a site").to_owned()).collect::<Vec<_>>()
    };
    let cluster = LocalCluster::start(&folder, "--sites athens,oslo --nodes-per-site 2");
    assert_eq!(sites(&cluster), ["athens", "athens", "oslo", "oslo"]);
    cluster.create(&folder, "clicks", "--capacity 9k --tree dense").ok();
    assert_eq!(cluster.end().0, Some(0));
    folder.run("up --sites oslo,athens").fails(2, &["at the sites athens, athens, oslo, oslo", "leave --sites"]);
    let cluster = LocalCluster::start(&folder, "");
    assert_eq!(sites(&cluster), ["athens", "athens", "oslo", "oslo"]);
    let listed = folder.run(&format!("filter list --cluster {}", cluster.addresses())).ok().out;
    assert!(listed.contains("clicks@athens"), "{listed}");
}

#[test]
fn a_node_that_cannot_bring_up_events_that_it_decided_alone_says_so() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--sites athens,oslo");
    let place = |name: &str, more: &str| format!("[[place]]\nname = \"{name}\"\n{more}\n");
    let leaf = |site: &str| place(site, &format!("parent = \"root\"\nsites = [\"{site}\"]"));
    let root = place("root", "sites = [\"oslo\"]");
    folder
        .write("tree.toml", format!("mode = \"dense\"\ncut_off = \"local\"\n{root}{}{}", leaf("athens"), leaf("oslo")));
    cluster.create(&folder, "clicks", "--window unbounded --capacity 9k --tree-file tree.toml").ok();
    folder.write("numbers", (0..50).map(|number| format!("{number}\n")).collect::<String>());
    let [athens, oslo] = cluster.processes()[..] else { panic!("two nodes") };
    kill(oslo, Signal::SIGKILL).expect("a process");
    let ask = format!(
        "--cluster {} --filter clicks --site athens --out /dev/null --report json numbers",
        cluster.addresses()
    );
    assert_eq!(number(&folder.dedup(&ask).ok().report(), "first_seen"), 50);
    kill(athens, Signal::SIGTERM).expect("a process");
    eventually("the end of the node", || !is_alive(athens));
    let log = folder.read("firstseen-data/node-1/log");
    assert!(log.contains("lost to it") && log.contains("events=50"), "{log}");
}
