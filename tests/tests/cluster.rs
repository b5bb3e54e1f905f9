//! Tests of clusters of real processes: the verdicts equal those of a single process, and operators get the right
//! views.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::local_cluster::{LocalCluster, eventually, is_alive};
use crate::run::{Folder, example, number};

/// The error rate is so low that neither run has a false positive. The runs have different secrets, so their false
/// positives would differ.
const FILTER: &str = "--window 24h --capacity 40k --fpr 0.000000001";

#[test]
fn a_log_through_a_cluster_gives_the_bytes_of_one_process() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 3");
    let at = cluster.addresses();
    let logs = [
        ("apache", "apache_logs.gz", "--format clf"),
        ("nasa", "nasa_19950801.tsv.gz", "--format tsv --key host,url --time time"),
    ];
    for slicing in ["horizontal:3", "vertical:3", "horizontal-vertical:2x3", "vertical-horizontal:3x2"] {
        for (name, log, input) in logs {
            let name = format!("{name}-{}", slicing.replace(':', "-"));
            cluster.create(&folder, &name, &format!("{FILTER} --slicing {slicing}")).ok();
            let flags = format!("{input} --report json {}", example(log));
            let here = format!("{FILTER} --slicing {slicing} --seed 1 --out here --duplicates here2 {flags}");
            let here = folder.dedup(&here).ok().report();
            let there = format!("--cluster {at} --filter {name} --out {name} --duplicates {name}2 {flags}");
            let there = folder.dedup(&there).ok().report();
            for count in ["events", "first_seen", "duplicates", "undecided", "late", "rejected"] {
                assert_eq!(number(&there, count), number(&here, count), "{name}: {count} in {there}");
            }
            for (one, other) in [("here", name.clone()), ("here2", format!("{name}2"))] {
                assert!(folder.read(one) == folder.read(&other), "{one} and {other} differ");
            }
        }
    }
    let (code, rest) = cluster.end();
    assert_eq!((code, rest.as_str()), (Some(0), ""));
}

#[test]
fn operators_see_filters_and_mistakes() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 3");
    let at = cluster.addresses();
    let made = cluster.create(&folder, "clicks", FILTER).ok();
    let status = folder.run(&format!("cluster status --cluster {at}")).ok();
    assert!(status.out.contains("node-3"), "any of the addresses does: {}", status.out);
    folder.run(&format!("cluster init --addr {at}")).fails(2, &["give its address alone"]);
    assert!(made.out.contains("horizontal:3: a slice a node"), "{}", made.out);
    cluster.create(&folder, "clicks", FILTER).fails(1, &["clicks"]);
    let again = cluster.create(&folder, "clicks", &format!("{FILTER} --if-absent"));
    assert!(again.ok().out.contains("was there"));
    cluster.create(&folder, "clicks", "--window 1h --capacity 5k --if-absent").fails(1, &["clicks", "definition"]);
    let lacking = ["filter `huge` takes", "do not fit on the nodes", "bytes free", "raise their memory"];
    cluster.create(&folder, "huge", "--window 24h --capacity 1G").fails(1, &lacking);
    folder.run(&format!("filter drop clikcs --cluster {at}")).fails(2, &["no filter `clikcs`: did you mean `clicks`?"]);
    folder.dedup(&format!("--cluster {at} --filter clikcs x")).fails(2, &["x"]);
    folder.write("x", "a\n");
    folder.dedup(&format!("--cluster {at} --filter clikcs x")).fails(2, &["no filter `clikcs`", "clicks"]);
    folder.dedup(&format!("--cluster {at} --filter clicks x")).fails(2, &["--time", "--clock wall"]);

    let log = example("apache_logs.gz");
    let flags = format!("--cluster {at} --filter clicks --format clf --out /dev/null --report json {log}");
    let report = folder.dedup(&flags).ok().report();
    let described = folder.run(&format!("filter describe clicks --json --cluster {at}")).ok();
    let described: Value = serde_json::from_str(&described.out).expect("JSON");
    let slices = described["slices"].as_array().expect("slices");
    let recorded: u64 = slices.iter().map(|slice| number(&slice["state"], "record_visits")).sum();
    assert_eq!((slices.len(), recorded), (3, number(&report, "first_seen")));
    assert!(slices.iter().all(|slice| slice["complete"] == true), "{described}");
    let text = folder.run(&format!("filter describe clicks --cluster {at}")).ok().out;
    // A filter in this process has the same clock after the same log.
    let here = folder.dedup(&format!("{FILTER} --format clf --out /dev/null --report json {log}")).ok().report();
    let clock = here["clock"].as_str().expect("a time");
    assert!(text.contains(&format!("clock          {clock}, the greatest time of an event so far")), "{text}");
    assert!(text.contains("complete  1 ") && text.contains("expected fpr"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let planned = folder.run(&format!("filter alter clicks --cluster {at} --capacity 3M --new-secret --plan")).ok().out;
    assert!(planned.contains("secret ") && planned.lines().all(|line| line.chars().count() <= 100), "{planned}");

    let one = at.split(',').next().expect("an address");
    let status = folder.run(&format!("cluster status --addr {one}")).ok().out;
    assert!(status.contains("led by node-") && status.contains("node-3") && status.contains("clicks"), "{status}");
    folder.run(&format!("cluster init --addr {one}")).fails(1, &["cluster"]);
    folder.run(&format!("cluster leave nobody --addr {one}")).fails(2, &["no node `nobody`", "node-1"]);
    assert!(folder.run(&format!("filter list --cluster {at}")).ok().out.contains("timing"));
    // There is no terminal to ask for a confirmation.
    folder
        .run(&format!("filter drop clicks --cluster {at}"))
        .fails(2, &["filter `clicks` would be dropped", "say --yes"]);
    let forgiven = folder.run(&format!("filter forgive clicks --cluster {at}")).ok().out;
    assert!(forgiven.contains("there is nothing to forgive"), "{forgiven}");
    assert!(folder.run(&format!("filter list --cluster {at}")).ok().out.contains("clicks"), "nothing was changed");
    folder.run(&format!("filter forgive clicks --yes --cluster {at}")).ok();
    folder.run(&format!("filter drop clicks --yes --cluster {at}")).ok();
    let logs = (1..=3).map(|node| folder.read(&format!("firstseen-data/node-{node}/log"))).collect::<String>();
    for said in ["forgive-filter", "drop-filter"] {
        let line = logs.lines().find(|line| line.contains(said)).unwrap_or_else(|| panic!("no `{said}` in {logs}"));
        assert!(line.contains("clicks") && line.contains("127.0.0.1:"), "{line}");
    }
    assert!(!folder.run(&format!("filter list --cluster {at}")).ok().out.contains("clicks"));
}

#[test]
fn looking_up_records_nothing() {
    let folder = Folder::with("a\nb\na\n");
    let cluster = LocalCluster::start(&folder, "--nodes 1");
    cluster.create(&folder, "seen", "--capacity 1000").ok();
    let at = format!("--cluster {} --filter seen", cluster.addresses());
    for _ in 0..2 {
        assert_eq!(folder.dedup(&format!("{at} --lookup input")).ok().out, "a\nb\na\n");
    }
    assert_eq!(folder.dedup(&format!("{at} input")).ok().out, "a\nb\n");
    assert_eq!(folder.dedup(&format!("{at} --lookup input")).ok().out, "");
}

#[test]
fn a_folder_is_started_again() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 2 --data it");
    cluster.create(&folder, "clicks", FILTER).ok();
    let (first, addresses) = (cluster.ready["cluster"].clone(), cluster.addresses());
    folder.run("up --data it").fails(2, &["is running"]);
    assert_eq!(cluster.end().0, Some(0));
    let cluster = LocalCluster::start(&folder, "--data it");
    assert_eq!((&cluster.ready["cluster"], cluster.addresses()), (&first, addresses));
    assert!(folder.run(&format!("filter list --cluster {}", cluster.addresses())).ok().out.contains("clicks"));
}

#[test]
fn nodes_end_with_the_process_that_started_them() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 2");
    let nodes = cluster.processes();
    assert!(nodes.iter().all(|node| is_alive(*node)));
    cluster.signal(Signal::SIGKILL);
    eventually("the end of the nodes", || !nodes.iter().any(|node| is_alive(*node)));
}

#[test]
fn an_address_without_a_node_is_named() {
    let folder = Folder::with("a\n");
    // No program listens on port 1 of this machine.
    folder.run("cluster status --addr 127.0.0.1:1").fails(1, &["nothing answers at 127.0.0.1:1"]);
    let asking = "firstseen: no answer from 127.0.0.1:1 yet: asking again for 15 s in all\n";
    folder.dedup("--cluster 127.0.0.1:1 --filter x input").fails(1, &[asking, "no node answered", "127.0.0.1:1"]);
}

#[test]
fn thresholds_are_checked_and_losses_are_forgiven_by_name() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 2");
    for (flags, said) in [
        ("--slicing vertical:4 --min-live 99", "--min-live 99 is refused: an event has"),
        ("--slicing vertical:4 --set-min 99", "--set-min 99 is refused: an event has"),
        ("--slicing horizontal:2 --min-live 2", "all positions of an event are in one slice"),
    ] {
        let refused = cluster.create(&folder, "clicks", &format!("--capacity 1k --window 1h {flags}"));
        assert!(refused.code == Some(2) && refused.err.contains(said), "{flags}: {}", refused.err);
    }
    cluster.create(&folder, "either", "--capacity 1k --window 1h --when-lost first_seen").ok();
    let flags = "--capacity 1k --window 1h --slicing vertical:4 --min-live 2 --set-min 1 --when-lost duplicate";
    cluster.create(&folder, "clicks", flags).ok();
    let at = cluster.addresses();
    let described = folder.run(&format!("filter describe clicks --cluster {at}")).ok().out;
    let words = described.split_whitespace().collect::<Vec<_>>().join(" ");
    let rule = "needs 2 positions live, a duplicate 1 set; otherwise an event that none denies is a duplicate";
    assert!(words.contains(rule), "{described}");
    let forgiven = folder.run(&format!("filter forgive clicks --yes --cluster {at}")).ok().out;
    assert!(forgiven.contains("0 of 4 slices are forgiven"), "{forgiven}");
    let unknown = folder.run(&format!("filter forgive klicks --cluster {at}"));
    assert!(unknown.code == Some(2) && unknown.err.contains("did you mean `clicks`?"), "{}", unknown.err);
}
