//! Tests of `firstseen dedup --claims`. A run with this flag claims each record, writes it, and only then lets the
//! filter record it. The tests start several runs that share an input, and stop or kill some of them.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use firstseen_client::{Claiming, Client, Wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::asking::opened;
use crate::local_cluster::{LocalCluster, eventually, eventually_eq};
use crate::own_node::OwnNode;
use crate::run::{Folder, Ran, dedup, firstseen};

const RECORDS: usize = 30_000;
const MANY_RECORDS: usize = 450_000;
/// Time for which the test suspends a node, so that the node answers no requests. The time is chosen so that an
/// interrupted run has to wait for late answers. An interrupted run waits in two phases:
///
/// - It first waits one second for all answers.
/// - It then waits up to two more seconds for replies to its claims, and up to five more seconds for confirmations of
///   records that it has written.
///
/// The node is suspended for longer than the first phase, so the first phase ends without an answer. The node continues
/// before the second phase ends, so the run still receives the late answers.
const STOPPED_FOR: Duration = Duration::from_millis(1_800);
/// Number of records after which the key of a record is repeated.
const AGAIN_AFTER: usize = 700;

/// Creates a cluster with filters that allow claims, and an input in which every third record is a repetition.
fn stage() -> (Folder, LocalCluster) {
    let record = |index: usize| if index % 3 == 2 { index.saturating_sub(AGAIN_AFTER) } else { index };
    let folder = Folder::with((0..RECORDS).map(|index| format!("record-{}\n", record(index))).collect::<String>());
    let cluster = LocalCluster::start(&folder, "--nodes 3");
    let flags = "--window unbounded --capacity 1m --fpr 1e-6 --claims 10s";
    assert_eq!(cluster.create(&folder, "clicks", flags).code, Some(0));
    (folder, cluster)
}

fn distinct(folder: &Folder) -> BTreeMap<String, u64> {
    times(folder, &["input"])
}

/// Returns how often each record occurs in these files.
fn times(folder: &Folder, files: &[&str]) -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(folder.path(file)).unwrap_or_default();
        text.lines().for_each(|line| *times.entry(line.to_owned()).or_default() += 1);
    }
    times
}

/// Checks that every record is in the outputs exactly once.
fn assert_each_record_once(folder: &Folder, outputs: &[&str]) {
    let (wanted, written) = (distinct(folder), times(folder, outputs));
    assert!(wanted.keys().eq(written.keys()), "{} of {} records are there", written.len(), wanted.len());
    let twice: Vec<_> = written.iter().filter(|(_, times)| **times > 1).take(5).collect();
    assert!(twice.is_empty(), "{twice:?} ...");
}

fn flags(cluster: &LocalCluster, number: usize) -> String {
    let addresses = cluster.addresses();
    format!(
        "--cluster {addresses} --filter clicks --claims 10s --out output-{number} --report json --report-file report-{number} input"
    )
}

fn start(folder: &Folder, cluster: &LocalCluster, number: usize) -> Child {
    let mut command = dedup(&flags(cluster, number));
    command.current_dir(folder.path("")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary")
}

fn run(folder: &Folder, cluster: &LocalCluster, number: usize) -> Ran {
    folder.run(&format!("dedup {}", flags(cluster, number)))
}

fn report(folder: &Folder, number: usize) -> Value {
    let text = std::fs::read_to_string(folder.path(&format!("report-{number}"))).expect("a report");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn runs_that_share_an_input_divide_its_records() {
    let (folder, cluster) = stage();
    let mut runs: Vec<Child> = (0..3).map(|number| start(&folder, &cluster, number)).collect();
    runs.iter_mut().for_each(|run| assert!(run.wait().expect("its end").success()));
    assert_each_record_once(&folder, &["output-0", "output-1", "output-2"]);
    let sum = |what: &str| (0..3).map(|number| report(&folder, number)["claims"][what].as_u64().unwrap()).sum::<u64>();
    let records = distinct(&folder).len() as u64;
    let counted = [sum("claimed"), sum("confirmed"), sum("lost"), sum("unconfirmed"), sum("left")];
    assert_eq!(counted, [records, records, 0, 0, 0]);
    let one = report(&folder, 0);
    assert_eq!(one["events"], RECORDS, "{one}");
}

#[test]
fn a_run_alone_writes_what_a_run_without_claims_does() {
    let (folder, cluster) = stage();
    assert_eq!(cluster.create(&folder, "plain", "--window unbounded --capacity 100k --fpr 1e-6").code, Some(0));
    let plain = folder.run(&format!("dedup --cluster {} --filter plain --out plain input", cluster.addresses()));
    assert_eq!(plain.code, Some(0), "{}", plain.err);
    let ran = folder.run(&format!(
        "dedup --cluster {} --filter clicks --claims 10s --out output-0 --duplicates again input",
        cluster.addresses()
    ));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(times(&folder, &["plain"]) == times(&folder, &["output-0"]));
    assert_eq!(times(&folder, &["again", "output-0"]), distinct(&folder));
    assert!(ran.err.contains("claimed and written"), "{}", ran.err);
}

#[test]
fn a_run_that_is_stopped_leaves_the_rest_to_the_next() {
    let (folder, cluster) = stage();
    let mut child = start(&folder, &cluster, 0);
    eventually("a record", || !times(&folder, &["output-0"]).is_empty());
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).expect("it runs");
    child.wait().expect("its end");
    let next = run(&folder, &cluster, 0);
    assert_eq!(next.code, Some(0), "{}", next.err);
    assert_each_record_once(&folder, &["output-0"]);
}

/// Checks a run that is told to end while one of the nodes does not answer. At this moment, some claims and some
/// confirmations of the run have no answer yet, and the run must write no further records. When the node answers again,
/// the run must confirm the records that it has already written. It must release all other claims, so that the next run
/// can claim and write those records.
#[test]
fn a_run_that_is_stopped_while_a_node_hesitates_writes_nothing_that_it_does_not_confirm() {
    let (folder, cluster) = stage();
    let records: Vec<String> = (0..MANY_RECORDS).map(|index| format!("record-{index}\n")).collect();
    std::fs::write(folder.path("input"), records.concat()).expect("the folder");
    let hesitates = cluster.processes()[2];
    for (number, part) in records.chunks(MANY_RECORDS / 3).enumerate() {
        std::fs::write(folder.path("part"), part.concat()).expect("the folder");
        let mut command = dedup(&flags(&cluster, number).replace(" input", " part"));
        command.current_dir(folder.path("")).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary");
        eventually("a record", || !times(&folder, &[&format!("output-{number}")]).is_empty());
        kill(hesitates, Signal::SIGSTOP).expect("it runs");
        kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).expect("it runs");
        thread::sleep(STOPPED_FOR);
        kill(hesitates, Signal::SIGCONT).expect("it is there");
        child.wait().expect("its end");
        let report = report(&folder, number);
        let counted = ["lost", "unconfirmed"].map(|what| report["claims"][what].as_u64());
        assert_eq!(counted, [Some(0), Some(0)], "{report}");
        assert_eq!(report["interrupted"], true, "it had ended before: {report}");
    }
    let next = run(&folder, &cluster, 3);
    assert_eq!(next.code, Some(0), "{}", next.err);
    assert_each_record_once(&folder, &["output-0", "output-1", "output-2", "output-3"]);
}

/// Returns the number of lines in the first output.
fn lines(folder: &Folder) -> usize {
    std::fs::read_to_string(folder.path("output-0")).unwrap_or_default().lines().count()
}

/// Checks runs that are killed. A record that was written but not yet recorded is written again by the next run, and no
/// record is lost.
#[test]
fn runs_that_are_killed_lose_nothing() {
    let (folder, cluster) = stage();
    for records in [1, 50, 400, 10, 1_000, 100] {
        let before = lines(&folder);
        let mut child = start(&folder, &cluster, 0);
        eventually("records, or the end of the run", || {
            lines(&folder) >= before + records || child.try_wait().expect("its process").is_some()
        });
        let _ = child.kill();
        child.wait().expect("its end");
    }
    let last = run(&folder, &cluster, 1);
    assert_eq!(last.code, Some(0), "{}", last.err);
    let (wanted, written) = (distinct(&folder), times(&folder, &["output-0", "output-1"]));
    // The last line of a killed run may be incomplete.
    let lost: Vec<&String> = wanted.keys().filter(|record| !written.contains_key(*record)).collect();
    assert!(lost.is_empty(), "{} records were lost: {:?}", lost.len(), &lost[..lost.len().min(5)]);
}

#[test]
fn the_status_shows_what_is_held() {
    let (folder, cluster) = stage();
    let addresses = cluster.addresses();
    let client = Client::connect(addresses.split(',')).wait().expect("a client");
    let clicks = opened(&client, "clicks");
    let claims = clicks.claim_batch(&["one", "two", "three"], Duration::from_secs(10)).wait().expect("a call");
    assert!(claims.iter().all(|claim| matches!(claim, Claiming::Claimed(_))), "{claims:?}");
    let addr = addresses.split(',').next().unwrap_or_default();
    let status = |flags: &str| folder.run(&format!("cluster status {flags} --addr {addr}")).out;
    eventually("a line about them", || status("").contains("claims of clicks: 3 pending ("));
    // A node of a busy machine may not report its held events in time.
    eventually_eq("nodes, and held events", (3, 3), || {
        let json: Value = serde_json::from_str(&status("--json")).expect("JSON");
        let open = |claims: &Value| claims["open"].as_u64().unwrap_or(0);
        json["filters"][0]["claims"].as_object().map_or((0, 0), |nodes| (nodes.len(), nodes.values().map(open).sum()))
    });
}

/// Checks that events which were claimed before an alteration are confirmed at the filter that granted them.
#[test]
fn a_description_shows_what_a_former_filter_holds() {
    let (folder, cluster) = stage();
    let flags = "--window 1h --clock wall --capacity 10k --claims 60s";
    assert_eq!(cluster.create(&folder, "taken", flags).code, Some(0));
    let addresses = cluster.addresses();
    let client = Client::connect(addresses.split(',')).wait().expect("a client");
    let taken = opened(&client, "taken");
    let claims = taken.claim_batch(&["one", "two"], Duration::from_secs(60)).wait().expect("a call");
    assert!(claims.iter().all(|claim| matches!(claim, Claiming::Claimed(_))), "{claims:?}");
    folder.run(&format!("filter alter taken --capacity 20k --no-wait --cluster {addresses}")).ok();
    let describe = |flags: &str| folder.run(&format!("filter describe taken {flags} --cluster {addresses}")).ok().out;
    eventually_eq("held events", Value::from(2), || {
        let json: Value = serde_json::from_str(&describe("--json")).expect("JSON");
        json["former"]["claims"]["open"].clone()
    });
    eventually("a line about them", || describe("").contains("claims there: 2 pending ("));
}

/// Checks a run whose batches have more records than the node's table of claims can hold. The run must claim each batch
/// in several parts. When a part has been written, its confirmations free entries in the table, and the next part can
/// then be claimed.
#[test]
fn a_table_that_is_smaller_than_a_batch_holds_up_no_run() {
    let folder = Folder::with((0..20_000).map(|index| format!("record-{index}\n")).collect::<String>());
    let node = OwnNode::start("a", "[limits]\nclaims_bytes_max = 65536\n");
    eventually("a cluster", || node.folder.run(&format!("cluster form {}", node.address)).code == Some(0));
    let flags = "--window unbounded --capacity 100k --fpr 1e-6 --claims 10s";
    let create = format!("filter create clicks --cluster {} {flags}", node.address);
    eventually("a filter", || node.folder.run(&create).code == Some(0));
    let dedup = format!("dedup --cluster {} --filter clicks --claims 10s --out output input", node.address);
    let mut runs: Vec<Child> = (0..2)
        .map(|run| {
            let mut command = firstseen();
            command.args(dedup.replace("output", &format!("output-{run}")).split_whitespace());
            command.current_dir(folder.path("")).stderr(Stdio::null()).spawn().expect("the binary")
        })
        .collect();
    runs.iter_mut().for_each(|run| assert!(run.wait().expect("its end").success()));
    assert_each_record_once(&folder, &["output-0", "output-1"]);
    // The memory of the table is freed when no event is claimed any more.
    eventually("memory that is given back", || {
        let status = node.folder.run(&format!("cluster status --addr {}", node.address));
        status.out.contains("claims of clicks: 0 pending (0 B)")
    });
}

/// Checks that a run releases what it cannot write, so that other runs need not wait for the leases to end.
#[test]
fn what_cannot_be_written_is_let_go() {
    let (folder, cluster) = stage();
    let addresses = cluster.addresses();
    // No lease of these events ends during the test.
    let flags = "--window unbounded --capacity 1m --fpr 1e-6 --claims 10m --retry-horizon 10m";
    assert_eq!(cluster.create(&folder, "long", flags).code, Some(0));
    let ran = folder.run(&format!("dedup --cluster {addresses} --filter long --claims 10m --out /dev/full input"));
    assert!(ran.code == Some(1) && ran.err.contains("cannot write /dev/full"), "{:?} {}", ran.code, ran.err);
    let addr = addresses.split(',').next().unwrap_or_default();
    let status = || folder.run(&format!("cluster status --addr {addr}")).out;
    eventually("nothing is held", || status().contains("claims of long: 0 pending"));
    assert!(ran.err.contains("0 claimed and written"), "{}", ran.err);
}

#[test]
fn what_cannot_be_claimed_is_said() {
    let (folder, cluster) = stage();
    assert_eq!(cluster.create(&folder, "plain", "--window unbounded --capacity 1k").code, Some(0));
    let refused = |flags: &str, words: &str| {
        let ran = folder.run(&format!("dedup --cluster {} {flags} --out nothing input", cluster.addresses()));
        assert!(ran.code == Some(2) && ran.err.contains(words), "{flags}: {:?} {}", ran.code, ran.err);
        assert!(!folder.path("nothing").exists());
    };
    refused("--filter plain --claims 10s", "events of filter `plain` cannot be claimed");
    refused("--filter clicks --claims 11s", "filter `clicks` gives claims of 10s at most");
    refused("--filter clicks --claims 1ms", "a claim lasts 100 ms at least");
    refused("--filter clicks --claims 10s --lookup", "cannot be used with");
    refused("--filter clicks --claims 10s --late duplicate", "--late duplicate would drop");
}
