//! Tests of `firstseen up` beyond its defaults: certificates, the command that `plan` recommends, and signals.

use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::local_cluster::{LocalCluster, eventually, is_alive};
use crate::ports::free_ports;
use crate::run::{Folder, example, number};

/// Flags of a filter whose verdicts can be compared between two runs. Each run hashes its events with a different
/// secret, so two runs have different false positives. The error rate is therefore so low that no false positives are
/// expected.
const FILTER: &str = "--window 24h --capacity 40k --fpr 0.000000001 --slicing vertical:6";

/// Returns flags for the certificates that `up --tls` creates.
fn tls(name: &str) -> String {
    let file = |file: &str| format!("firstseen-data/certs/{file}");
    format!(
        "--tls-ca {} --tls-cert {} --tls-key {}",
        file("ca.pem"),
        file(&format!("{name}.pem")),
        file(&format!("{name}.key"))
    )
}

#[test]
fn a_log_through_nodes_with_certificates_gives_the_counts_of_one_process() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 3 --tls");
    let at = cluster.addresses();
    cluster.create(&folder, "requests", &format!("{FILTER} {}", tls("local.client"))).fails(1, &["admin.firstseen"]);
    cluster.create(&folder, "requests", &format!("{FILTER} {}", tls("admin"))).ok();
    let input = format!("--format clf --report json {}", example("apache_logs.gz"));
    let here = folder.dedup(&format!("{FILTER} --seed 1 --out here --duplicates here2 {input}")).ok().report();
    let client = tls("local.client");
    let there = format!("--cluster {at} --filter requests {client} --out there --duplicates there2 {input}");
    let there = folder.dedup(&there).ok().report();
    for count in ["events", "first_seen", "duplicates", "undecided", "late", "rejected"] {
        assert_eq!(number(&there, count), number(&here, count), "{count} in {there}");
    }
    assert!(number(&there, "first_seen") > 1000 && number(&there, "duplicates") > 1000, "{there}");
    for (one, other) in [("here", "there"), ("here2", "there2")] {
        assert!(folder.read(one) == folder.read(other), "{one} and {other} differ");
    }
    assert_eq!(cluster.end().0, Some(0));
}

#[test]
fn the_last_lines_of_a_plan_can_be_pasted() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 2");
    let plan = folder.run("plan --capacity 20k --fpr 0.002 --window 12h --nodes 2").ok().out;
    let (_, command) = plan.split_once("\nfirstseen filter create").expect("a command");
    let address = cluster.addresses();
    let command = format!("firstseen filter create{}", command.replace("127.0.0.1:7400", &address));
    assert!(command.contains(" --slicing horizontal:2") && command.contains(&address), "{command}");
    let made = folder.shell(&command).ok().out;
    assert!(made.contains("filter planned") && made.contains("horizontal:2"), "{made}");
    assert!(made.lines().all(|line| line.chars().count() <= 100), "{made}");
    // The capacity is that of the whole filter, not that of one of its groups.
    let (_, room) = made.split_once("room for ").expect("its room");
    let room: u64 = room.split(' ').next().expect("a number").replace(',', "").parse().expect("a number");
    assert!((20_000..24_000).contains(&room), "{made}");
    let described = folder.run(&format!("filter describe planned --json --cluster {address}")).ok().out;
    let described: Value = serde_json::from_str(&described).expect("JSON");
    let group = &described["definition"]["group"];
    assert_eq!((&group["window"], &group["rate"]), (&"12h".into(), &0.002.into()), "{described}");
    // Each group gets half of the events, plus a reserve for random imbalance.
    assert!((10_000..12_000).contains(&number(group, "capacity_events")), "{described}");
    assert_eq!(described["slices"].as_array().map(Vec::len), Some(2), "{described}");
}

#[test]
fn an_interrupt_ends_all_nodes_and_a_second_one_does_not_wait() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 3");
    let nodes = cluster.processes();
    cluster.signal(Signal::SIGINT);
    assert_eq!(cluster.rest(), (Some(0), String::new()));
    assert!(!nodes.iter().any(|node| is_alive(*node)), "it waits for its nodes");

    let cluster = LocalCluster::start(&folder, "");
    let nodes = cluster.processes();
    // One node is stopped and cannot end, so the first interrupt waits for it.
    kill(nodes[1], Signal::SIGSTOP).expect("a process");
    cluster.signal(Signal::SIGINT);
    eventually("the end of the others", || !is_alive(nodes[0]) && !is_alive(nodes[2]));
    assert!(is_alive(nodes[1]));
    cluster.signal(Signal::SIGINT);
    assert_eq!(cluster.rest(), (Some(130), String::new()));
    assert!(!is_alive(nodes[1]), "it is killed");
}

#[test]
fn a_cluster_in_the_background_gives_the_terminal_back_and_ends_by_its_folder() {
    let folder = Folder::with("a\nb\na\n");
    let printed = folder.run("up --nodes 2 --data it --memory 64MiB --detach").ok().out;
    assert!(
        printed.contains("in the background") && printed.contains("`firstseen up --end --data it` ends it"),
        "{printed}"
    );
    // The printed commands can be pasted into a shell.
    let create = printed.lines().find(|line| line.starts_with("firstseen filter create clicks ")).expect("a command");
    let dedup = printed.lines().find(|line| line.starts_with("firstseen dedup --cluster ")).expect("a command");
    let dedup = dedup.replace("--format clf access.log", "input").replace("once.log", "once");
    // A filter with a time-based window needs times, which plain lines do not have.
    folder.shell(&format!("{} --clock wall\n{dedup}", create)).ok();
    assert_eq!(folder.read("once"), "a\nb\n");
    folder.run("up --data it --detach").fails(2, &["is running"]);
    assert!(folder.run("up --end --data it").ok().out.contains("has ended"));
    assert!(folder.run("up --end --data it").ok().out.contains("is not running"));
    let failed = folder.run("up --end --data other").fails(2, &["there is no cluster in other: name the folder"]);
    assert!(!failed.err.contains("os error"), "{}", failed.err);
    folder.run("up --data it --detach --memory 2GiB").fails(2, &["have 64 MiB of memory", "leave --memory out"]);
    let printed = folder.run("up --data it --detach --json").ok().out;
    let ready: Value = serde_json::from_str(&printed).expect("one line");
    assert_eq!(ready["nodes"].as_array().map(Vec::len), Some(2), "{printed}");
    folder.run("up --end --data it").ok();
}

/// Regression test. A single node could be restarted only with a signal to its process, and `up` did not start it
/// again.
#[test]
fn a_node_of_a_running_cluster_is_restarted_by_its_name() {
    let folder = Folder::new();
    folder.run("up --restart node-1 --data it").fails(2, &["there is no cluster in it"]);
    let ready = folder.run("up --nodes 2 --data it --memory 64MiB --detach --json").ok().out;
    let ready: Value = serde_json::from_str(&ready).expect("one line");
    let process = |node: usize| ready["nodes"][node]["process"].as_i64().expect("a process");
    let said = folder.run("up --restart node-2 --data it").ok().out;
    let number = said.split_once("(process ").and_then(|(_, rest)| rest.split_once(')')?.0.parse::<i64>().ok());
    assert!(said.starts_with("node-2 was ended and is started again (process "), "{said}");
    assert!(number.is_some_and(|number| ![process(0), process(1)].contains(&number)), "{said}");
    assert!(!is_alive(Pid::from_raw(i32::try_from(process(1)).expect("a process"))), "the other process has ended");
    let addresses = ready["nodes"][0]["address"].as_str().expect("an address");
    eventually("the node has started for the second time", || {
        let status = folder.run(&format!("cluster status --addr {addresses}")).out;
        let line = status.lines().find(|line| line.starts_with("node-2 ")).map(str::to_owned).unwrap_or_default();
        line.split_whitespace().nth(4) == Some("2") && line.ends_with("up")
    });
    let create =
        format!("filter create clicks --cluster {addresses} --window 1h --capacity 10k --slicing horizontal:4");
    folder.run(&create).ok();
    let lost = ["node-2 must not be stopped now", "filter clicks, slices", "in memory", "--accept-loss"];
    folder.run("up --restart node-2 --data it").fails(2, &lost);
    folder.run("up --restart node-2 --data it --accept-loss").ok();
    folder.run("up --restart node-9 --data it").fails(2, &["has no node `node-9`: node-1, node-2"]);
    folder.run("up --end --data it").ok();
    folder.run("up --restart node-1 --data it").fails(2, &["is not running"]);
}

/// Regression test. A user made a typo in `node.toml` and restarted the node. `up --restart` ended the healthy node and
/// exited with 0, and the node was dead: only its log said why.
#[test]
fn a_node_with_a_mistake_in_its_configuration_is_not_ended() {
    let folder = Folder::new();
    let ready = folder.run("up --nodes 2 --data it --memory 64MiB --detach --json").ok().out;
    let ready: Value = serde_json::from_str(&ready).expect("one line");
    let process = ready["nodes"][1]["process"].as_i64().and_then(|process| i32::try_from(process).ok());
    let process = Pid::from_raw(process.expect("a process"));
    let right = folder.read("it/node-2/node.toml");
    folder.write("it/node-2/node.toml", right.replace("memory_max_bytes", "memory_max_byte"));
    let said = [
        "node-2 is not restarted and still runs as before",
        "it/node-2/node.toml, line 6: unknown field `memory_max_byte`: did you mean `memory_max_bytes`?",
    ];
    folder.run("up --restart node-2 --data it").fails(2, &said);
    assert!(is_alive(process), "the healthy node was ended");

    // The check of the configuration cannot find every reason: here, another program has the node's new port.
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = other.local_addr().expect("an address");
    let old = format!("http_listen = {}", ready["nodes"][1]["http"]);
    assert!(right.contains(&old), "{right}");
    folder.write("it/node-2/node.toml", right.replace(&old, &format!("http_listen = \"{taken}\"")));
    let said = ["node-2 has ended (exit code 1)", "its log is it/node-2/log, which ends:", &taken.to_string()];
    folder.run("up --restart node-2 --data it").fails(1, &said);
    assert!(!is_alive(process));
    folder.write("it/node-2/node.toml", &right);
    let said = folder.run("up --restart node-2 --data it").ok().out;
    assert!(said.starts_with("node-2 had ended, and is started again (process "), "{said}");
    folder.run("up --end --data it").ok();

    // The next start finds the same mistake before any node is started, and says it once.
    folder.write("it/node-2/node.toml", right.replace("memory_max_bytes", "memory_max_byte"));
    for command in ["up --data it", "up --data it --detach"] {
        let failed = folder.run(command).fails(2, &["did you mean `memory_max_bytes`?"]);
        assert_eq!(failed.err.matches("memory_max_byte`").count(), 1, "{}", failed.err);
    }
}

#[test]
fn impossible_flags_are_refused_before_anything_is_written() {
    let folder = Folder::new();
    folder.run("up --memory 1").fails(2, &["memory_max_bytes = 1", "1048576"]);
    folder.run("up --port 65535").fails(2, &["port 65535 is too high"]);
    folder.run("up --port 65531").fails(2, &["6 ports", "can be 65530 at most"]);
    for (flags, clash) in [
        ("--port 7400 --redis 7401", "--redis 7401 is one of the ports 7400 to 7405"),
        ("--port 7400 --http-api 7405", "--http-api 7405 is one of the ports"),
        ("--redis 7500 --http-api 7500", "name the same port 7500"),
    ] {
        folder.run(&format!("up --nodes 3 {flags}")).fails(2, &[clash]);
    }
    for command in ["up --stop", "down"] {
        folder.run(command).fails(2, &["`firstseen up --end` ends the cluster of a folder"]);
    }
    assert!(!folder.has("firstseen-data"), "a folder is left behind");
}

/// Regression test. If another cluster already used port P, the nodes of `firstseen up --port P` ended with "Address
/// already in use". The command nevertheless exited with 0 and printed the id of the other cluster, so the user's next
/// `filter drop` went to the wrong cluster.
#[test]
fn a_port_that_another_cluster_has_is_refused() {
    let folder = Folder::new();
    let there = folder.run("up --nodes 1 --data there --memory 64MiB --detach --json").ok().out;
    let ready: Value = serde_json::from_str(&there).expect("one line");
    let address = ready["nodes"][0]["address"].as_str().expect("an address");
    let port = address.rsplit(':').next().expect("a port");
    folder.run(&format!("up --nodes 1 --data new --port {port}")).fails(2, &["is in use by another program"]);
    folder.run(&format!("up --nodes 1 --data new --detach --port {port}")).fails(2, &["is in use by another program"]);
    for endpoint in ["--redis", "--http-api"] {
        folder.run(&format!("up --nodes 1 --data new {endpoint} {port}")).fails(2, &["another program", endpoint]);
    }
    assert!(!folder.has("new"), "a folder is left behind");
    // The folder remembers its ports. Another program listens on one of them when the cluster is started again.
    folder.run("up --end --data there").ok();
    let _other = std::net::TcpListener::bind(address).expect("the port that is free again");
    folder.run("up --data there").fails(2, &["of node-1 in there is in use by another program"]);
}

/// Checks that the command printed by `up --http-api` works as it is, after the filter has been created as the output
/// says.
#[test]
fn the_line_for_the_endpoint_for_http_works_as_printed() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("NOT CHECKED: the line for the endpoint for HTTP, as there is no curl here");
        return;
    }
    let folder = Folder::new();
    let (port, http_api) = (free_ports(2), free_ports(1));
    let printed =
        folder.run(&format!("up --nodes 1 --memory 64MiB --port {port} --http-api {http_api} --tls --detach")).ok().out;
    let line = |printed: &str, start: &str| {
        printed.lines().find(|line| line.starts_with(start)).expect("a command").to_owned()
    };
    folder.shell(&line(&printed, "firstseen filter create clicks ")).ok();
    assert!(folder.shell(&line(&printed, "firstseen cluster status ")).ok().out.contains("clicks"));
    let curl = line(&printed, "curl ");
    assert_eq!(folder.shell(&curl).ok().out, r#"{"verdict":"first_seen"}"#);
    assert!(folder.shell(&curl).ok().out.contains("urn:firstseen:problem:duplicate"));
    folder.run("up --end").ok();
    let printed = folder.run("up --detach --json").ok().out;
    let ready: Value = serde_json::from_str(&printed).expect("one line");
    assert_eq!(ready["http_api"], format!("http://127.0.0.1:{http_api}"));
    folder.run("up --end").ok();
    folder.run("up --http-api 1 --detach").fails(2, &["leave --http-api out"]);

    // The same endpoint is now used with TLS. The node has lost what it held in memory, and reports that.
    let node = "firstseen-data/node-1/node.toml";
    let settings = folder.read(node);
    folder.write(node, settings.replace("[http_api]\n", "[http_api]\ntls = true\n"));
    let curl = line(&folder.run("up --detach").ok().out, "curl ");
    assert!(curl.contains(&format!("https://node.firstseen:{http_api}/")), "{curl}");
    let replied = folder.shell(&curl).ok().out;
    assert!(replied.contains("urn:firstseen:problem:undecided"), "{replied}");
    folder.run("up --end").ok();
}
