//! Tests of access rights and the audit file from an operator's point of view, with three nodes that use certificates.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use firstseen_client::{Client, ConnectOptions, TlsFiles, Verdict, Wait};
use serde_json::Value;

use crate::asking::opened;
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::run::{Folder, Ran};

/// Nodes a, b and c with certificates of the same authority. The files of the authority are in the folder of node a.
struct Secured {
    nodes: [OwnNode; 3],
}

impl Secured {
    fn start() -> Self {
        let folder = Folder::new();
        folder.run("certs --out certs --nodes a,b,c --clients keeper,crawler,tenant,nobody --admin").ok();
        let certs = folder.path("certs");
        let settings = |name: &str| {
            let at = |file: &str| certs.join(file).display().to_string();
            format!(
                "[tls]\nca = \"{}\"\ncert = \"{}\"\nkey = \"{}\"\ntokens = true\n[audit]\nfile = \"audit.jsonl\"\n",
                at("ca.pem"),
                at(&format!("{name}.node.pem")),
                at(&format!("{name}.node.key"))
            )
        };
        let first = settings("a");
        let [b, c] = ["b", "c"].map(|name| OwnNode::start(name, &settings(name)));
        let secured = Self { nodes: [OwnNode::start_in(folder, "a", &first), b, c] };
        let all = secured.nodes.each_ref().map(|node| node.address.clone()).join(" ");
        eventually("a cluster", || secured.run("admin", &format!("cluster form {all}")).code == Some(0));
        secured
    }

    /// Runs a command with the certificate of `who`, in the folder of node a.
    fn run(&self, who: &str, arguments: &str) -> Ran {
        self.nodes[0].folder.run(&format!("{arguments} {}", Self::tls(who)))
    }

    /// Runs a command with the certificate of `who` and the addresses of all nodes.
    fn at_cluster(&self, who: &str, arguments: &str) -> Ran {
        let all = self.nodes.each_ref().map(|node| node.address.clone()).join(",");
        self.run(who, &format!("{arguments} --cluster {all}"))
    }

    fn tls(who: &str) -> String {
        let file = if who == "admin" { who.to_owned() } else { format!("{who}.client") };
        format!("--tls-ca certs/ca.pem --tls-cert certs/{file}.pem --tls-key certs/{file}.key")
    }

    /// Returns the lines of each node's audit file.
    fn audit(&self) -> [Vec<Value>; 3] {
        self.nodes.each_ref().map(|node| {
            let text = node.folder.read("audit.jsonl");
            text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
        })
    }

    /// Returns the committed changes in the audit file of each node.
    fn changes(&self) -> [Vec<Value>; 3] {
        self.audit().map(|lines| lines.into_iter().filter(|line| line["event"] == "change").collect())
    }

    /// Waits until the audit files of all nodes have the same number of changes.
    fn settle(&self) -> Vec<Value> {
        eventually("the same lines everywhere", || {
            let [a, b, c] = self.changes();
            a == b && b == c
        });
        let [changes, ..] = self.changes();
        changes
    }
}

#[test]
fn rights_are_granted_and_taken_while_producers_go_on() {
    let secured = Secured::start();
    let filter = |name: &str| format!("filter create {name} --capacity 10k --clock wall --window 1h");
    secured.at_cluster("admin", &filter("clicks")).ok();
    secured.at_cluster("crawler", &filter("mine")).fails(1, &["admin.firstseen"]);
    let input = |lines: &str| secured.nodes[0].folder.write("input", lines);
    input("a\nb\na\n");
    let dedup = |who: &str| secured.at_cluster(who, "dedup --filter clicks input");
    assert_eq!(dedup("nobody").ok().out, "a\nb\n", "roles count until rights are asked for");

    // A mistake of the administrator cannot lock everybody out.
    secured.at_cluster("admin", "access enable").fails(1, &["--allow security"]);
    secured.at_cluster("admin", "access grant keeper --allow security,operate").ok();
    secured.at_cluster("admin", "access grant crawler --filter clicks* --allow observe").ok();
    secured.at_cluster("admin", "access grant tenant --filter shop-* --allow manage,observe").ok();
    secured.at_cluster("admin", "access enable").ok();
    input("c\nb\nc\n");
    assert_eq!(dedup("crawler").ok().out, "c\n");
    // A refusal is repeated for a second before it is final. The run first said that no node had answered.
    let refused = dedup("nobody").fails(1, &["nobody", "no rights"]);
    assert!(!refused.err.contains("no answer from"), "{}", refused.err);
    dedup("tenant")
        .fails(1, &["may not describe filter `clicks`", "access grant tenant --filter clicks --allow observe"]);
    secured.at_cluster("tenant", &filter("clicks-too")).fails(1, &["may not manage filter `clicks-too`"]);
    secured.at_cluster("tenant", &filter("shop-orders")).ok();
    let listed = secured.at_cluster("tenant", "filter list").ok().out;
    assert!(listed.contains("shop-orders") && !listed.contains("clicks"), "{listed}");
    secured.at_cluster("admin", "access limit-filters shop-* --filters 1 --memory 1GiB").ok();
    secured.at_cluster("tenant", &filter("shop-more")).fails(1, &["`shop-*` may have at most 1 filters together"]);
    let listed = secured.at_cluster("keeper", "access list").ok().out;
    assert!(listed.contains("shop-*") && listed.contains("1 at most, of 1 GiB together"), "{listed}");
    secured.at_cluster("tenant", "access list").fails(1, &["access grant tenant --allow security"]);

    // The principal `keeper` may check the rights of others, and no other principal may.
    let check = |asked: &str| secured.at_cluster("keeper", &format!("access check {asked}"));
    assert!(check("crawler observe clicks-eu").ok().out.starts_with("yes"));
    assert_eq!(check("crawler manage clicks-eu").code, Some(1));
    check("crawler view clicks").fails(2, &["applies to the cluster"]);
    check("crawler observe").fails(2, &["applies to filters"]);
    secured.at_cluster("keeper", "access grant crawler --allow observe").fails(2, &["--filter NAME"]);
    secured.at_cluster("keeper", "access grant Crawler --allow view").fails(2, &["small letters"]);
    secured.at_cluster("keeper", "access revoke crawler --filter other --allow observe").fails(1, &["observe other"]);
    let list: Value = serde_json::from_str(&secured.at_cluster("keeper", "access list --json").ok().out).expect("JSON");
    assert_eq!(list["enabled"], true);
    assert_eq!(list["principals"][0]["rights"][0]["filters"], "clicks*");
    secured.at_cluster("keeper", "access revoke crawler").ok();
    input("d\n");
    dedup("crawler").fails(1, &["crawler", "no rights"]);
    assert_eq!(secured.at_cluster("admin", "dedup --filter clicks --lookup input").ok().out, "d\n", "nothing was set");
    secured.at_cluster("keeper", "access disable").ok();
    assert_eq!(dedup("crawler").ok().out, "d\n");
}

#[test]
fn a_token_is_made_shown_once_used_and_taken_back() {
    let secured = Secured::start();
    let folder = &secured.nodes[0].folder;
    let all = secured.nodes.each_ref().map(|node| node.address.clone()).join(",");
    let by_token = |arguments: &str, file: &str| {
        folder.run(&format!("{arguments} --cluster {all} --tls-ca certs/ca.pem --token-file {file}"))
    };
    secured.at_cluster("admin", "filter create clicks --capacity 10k --clock wall --window 1h").ok();
    let new = |arguments: &str| secured.at_cluster("admin", &format!("access token new {arguments}"));
    new("crawler").fails(1, &["no principal `crawler`"]);
    // A request that fails leaves no file, so that the corrected command below can create it.
    new("crawler --out crawler.token").fails(1, &["no principal `crawler`"]);
    assert!(!folder.has("crawler.token"));
    secured.at_cluster("admin", "access grant crawler --filter clicks* --allow observe").ok();
    secured.at_cluster("admin", "access grant keeper --allow security").ok();
    secured.at_cluster("admin", "access enable").ok();
    let made = new("crawler --expires 1d --out crawler.token").ok();
    assert!(made.out.is_empty() && made.err.contains("it cannot be shown again"), "{}", made.err);
    let mode = fs::metadata(folder.path("crawler.token")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else can read it");
    let token = &folder.read("crawler.token");
    let token = token.trim();
    assert!(token.starts_with("fst_"));
    new("crawler --out crawler.token").fails(2, &["crawler.token: the file exists", "--out"]);
    folder.write("input", "a\nb\na\n");
    assert_eq!(by_token("dedup --filter clicks input", "crawler.token").ok().out, "a\nb\n");
    by_token("filter drop clicks --yes", "crawler.token").fails(1, &["`crawler` may not manage any filter"]);

    // A token of `keeper`, which a script can read, has the rights of `keeper`.
    let document: Value = serde_json::from_str(&new("keeper --expires never --json").ok().out).expect("JSON");
    folder.write("keeper.token", document["token"].as_str().expect("a token"));
    assert!(document.get("expires_s").is_none());
    let listed = by_token("access token list --json", "keeper.token").ok().out;
    assert!(!listed.contains(token) && !listed.contains(&token[token.len() - 64..]));
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!((&listed[0]["principal"], &listed[0]["is_valid"]), (&Value::from("crawler"), &Value::from(true)));
    let id = listed[0]["id"].as_str().expect("an id");
    assert!(token.contains(id) && by_token("access token list", "keeper.token").ok().out.contains(id));
    by_token(&format!("access token revoke {id}"), "keeper.token").ok();
    let begun = Instant::now();
    by_token("dedup --filter clicks input", "crawler.token")
        .fails(1, &["refuses: token", "taken back", "access token new"]);
    assert!(begun.elapsed() < Duration::from_secs(10), "it does not wait for nodes that have answered");
    by_token(&format!("access token revoke {id}"), "keeper.token").fails(1, &["access token list"]);

    // A caller without a token, or with an invalid one, gets an error that says what to present.
    folder.write("other.token", "hunter2");
    by_token("filter list", "other.token").fails(2, &["other.token: a token is written fst_ID_SECRET"]);
    by_token("filter list", "missing.token").fails(2, &["cannot read the token in missing.token"]);
    folder.run(&format!("filter list --cluster {all} --tls-ca certs/ca.pem")).fails(2, &["--token-file"]);
    let elsewhere = "filter list --cluster example.invalid:7400 --token-file crawler.token";
    folder.run(elsewhere).fails(2, &["the token is not sent to example.invalid:7400"]);
    secured
        .audit()
        .into_iter()
        .flatten()
        .for_each(|line| assert!(!line.to_string().contains(&token[token.len() - 64..])));
}

#[test]
fn every_change_is_one_line_on_every_node_and_no_line_has_a_secret() {
    let mut secured = Secured::start();
    let commands = [
        ("admin", "filter create clicks --capacity 10k --clock wall --window 1h --seed 77", "create-filter"),
        ("admin", "filter alter clicks --capacity 20k --no-wait --yes", "alter-filter"),
        ("admin", "filter alter clicks --finish --yes", "finish-alteration"),
        ("admin", "filter forgive clicks --yes", "forgive-filter"),
        ("admin", "access grant keeper --allow security", "grant"),
        ("admin", "access enable", "enable-access"),
        ("admin", "access token new keeper", "add-token"),
        ("admin", "access limit-filters shop-* --filters 3 --memory 1GiB", "limit-filters"),
        ("keeper", "access grant keeper --filter * --allow manage", "grant"),
        ("keeper", "access revoke keeper --filter * --allow manage", "revoke"),
        ("keeper", "access disable", "disable-access"),
        ("admin", "filter drop clicks --yes", "drop-filter"),
    ];
    let before = secured.settle().len();
    for (number, (who, command, change)) in (before..).zip(commands) {
        secured.at_cluster(who, command).ok();
        let changes = secured.settle();
        assert_eq!(changes.len(), number + 1, "{command}: {changes:#?}");
        let line = &changes[number];
        let name = if who == "admin" { "admin.firstseen" } else { who };
        assert!(line["change"] == change && line["who"] == name && line["refused"] == Value::Null, "{line}");
        assert!(line["from"].as_str().is_some_and(|from| from.starts_with("127.0.0.1:")), "{line}");
    }
    // A rejected change is written to the audit file too.
    secured.at_cluster("admin", "access revoke keeper --allow view").fails(1, &["does not have the right `view`"]);
    let changes = secured.settle();
    let [joined, last] = [&changes[0], &changes[changes.len() - 1]];
    assert!(joined["change"] == "add-node" && joined["subject"] == "b", "{joined}");
    assert!(last["refused"].as_str().is_some_and(|why| why.contains("does not have the right")), "{last}");
    let [first, ..] = secured.audit();
    let events: BTreeSet<&str> = first.iter().filter_map(|line| line["event"].as_str()).collect();
    assert!(events.is_superset(&BTreeSet::from(["came", "change", "change-here"])), "{events:?}");
    // The secret of a filter with `--seed 77` can be computed, and must not be in the audit file. The secrets of other
    // filters are random, so the test searches for the form in which a secret would be written.
    let secrets = secured.nodes.each_ref().map(|node| node.folder.read("audit.jsonl")).concat();
    assert!(!secrets.contains("secret") && !secrets.contains("[77,"), "a secret is in an audit file");
    // A node that restarts applies its log again, but writes no change to the audit file twice.
    secured.nodes[1].crash();
    secured.at_cluster("admin", "filter create again --capacity 10k --clock wall --window 1h").ok();
    let after = secured.settle();
    assert_eq!(after.len(), changes.len() + 1, "{after:#?}");
    let indices: BTreeSet<u64> = after.iter().filter_map(|line| line["index"].as_u64()).collect();
    assert_eq!(indices.len(), after.len(), "each entry once");
}

/// Checks that a producer which sends ten times its quota does not affect another producer, neither in its verdicts nor
/// in its speed.
#[test]
fn a_quota_holds_one_producer_back_and_no_other() {
    let secured = Secured::start();
    let filter = |name: &str| format!("filter create {name} --capacity 1M --fpr 1e-8 --clock wall --window 1h");
    secured.at_cluster("admin", &filter("clicks")).ok();
    secured.at_cluster("admin", "access grant keeper --allow security").ok();
    for who in ["crawler", "tenant"] {
        secured.at_cluster("admin", &format!("access grant {who} --filter clicks --allow observe")).ok();
    }
    secured.at_cluster("admin", "access enable").ok();
    secured.at_cluster("keeper", "access limit nobody --events-per-s 7").fails(1, &["no principal `nobody`"]);
    let limited = secured.at_cluster("keeper", "access limit crawler --events-per-s 500 --batches 4").ok().out;
    assert!(limited.contains("500 events a second, 4 batches at once"), "{limited}");
    let listed: Value =
        serde_json::from_str(&secured.at_cluster("keeper", "access list --json").ok().out).expect("JSON");
    assert_eq!(listed["principals"][0]["quota"]["events_per_s"], 500);

    let filter_of = |who: &str| {
        let at = |file: &str| secured.nodes[0].folder.path(&format!("certs/{file}"));
        let cert = format!("{who}.client");
        let files = TlsFiles { ca: at("ca.pem"), cert: at(&format!("{cert}.pem")), key: at(&format!("{cert}.key")) };
        let seeds = secured.nodes.each_ref().map(|node| node.address.clone());
        let options = ConnectOptions { tls: Some(files), deadline_ms: 30_000, ..ConnectOptions::from(seeds) };
        let client = Client::connect(options).wait().expect("a client");
        let filter = opened(&client, "clicks");
        (client, filter)
    };
    let ((_one, crawler), (_two, tenant)) = (filter_of("crawler"), filter_of("tenant"));
    let keys = |first: u64, count: u64| (first..first + count).map(u64::to_le_bytes).collect::<Vec<_>>();
    // The producer sends in a second or two what its quota on three nodes allows in half a minute.
    let begun = Instant::now();
    let (taken, took) = thread::scope(|scope| {
        let greedy = scope.spawn(|| {
            let verdicts = crawler.observe_batch(&keys(1 << 40, 15_000)).wait().expect("verdicts");
            verdicts.iter().filter(|verdict| **verdict == Verdict::FirstSeen).count()
        });
        for round in 0..20 {
            let verdicts = tenant.observe_batch(&keys(round * 1_000, 1_000)).wait().expect("verdicts");
            assert!(verdicts.iter().all(|verdict| *verdict == Verdict::FirstSeen), "round {round}: {verdicts:?}");
        }
        let took = begun.elapsed();
        (greedy.join().expect("the greedy one"), took)
    });
    let elapsed_s = begun.elapsed().as_secs_f64();
    assert!(took.as_secs_f64() < elapsed_s / 2.0, "the other took {took:?} of {elapsed_s} s");
    // Each node allows the quota of one second at once, and one more batch.
    let most = 3.0 * (500.0 * (elapsed_s + 1.0) + 8_192.0);
    assert!(elapsed_s > 2.0 && (taken as f64) < most, "{taken} events in {elapsed_s} s");
    assert_eq!(taken, 15_000, "those that wait as they are told are all recorded");
}
