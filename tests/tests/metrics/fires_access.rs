//! Checks that alerts fire for callers without rights, for an exhausted quota, and for a node whose limit of
//! connections is reached.

use firstseen_client::{Client, ConnectError, ConnectOptions, TlsFiles, Wait};

use super::fires::{greatest, rules};
use super::recording::{Recording, has_promtool};
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::ports::free_ports;
use crate::run::Folder;

/// Number of threads that call at the same time.
const CALLERS: usize = 8;

/// Starts a node that checks rights, with a principal `crawler` whose quota is very small.
fn with_rights(http: u16) -> OwnNode {
    let folder = Folder::new();
    folder.run("certs --out certs --nodes a --clients keeper,crawler,nobody --admin").ok();
    let settings = format!(
        "http_listen = \"127.0.0.1:{http}\"\n[tls]\nca = \"certs/ca.pem\"\ncert = \"certs/a.node.pem\"\nkey = \"certs/a.node.key\"\n"
    );
    let node = OwnNode::start_in(folder, "a", &settings);
    let run = |command: &str| {
        let admin = "--tls-ca certs/ca.pem --tls-cert certs/admin.pem --tls-key certs/admin.key";
        node.folder.run(&format!("{command} --cluster {} {admin}", node.address))
    };
    eventually("a cluster", || run("cluster init").code == Some(0));
    eventually("a filter", || {
        run("filter create clicks --if-absent --window 1h --clock wall --capacity 10k").code == Some(0)
    });
    for command in [
        "grant keeper --allow security",
        "grant crawler --filter clicks --allow observe",
        "limit crawler --events-per-s 1 --batches 1",
        "enable",
    ] {
        run(&format!("access {command}")).ok();
    }
    node
}

/// Connects a client with the certificate of `who`.
fn client(node: &OwnNode, who: &str, deadline_ms: u64) -> Result<Client, ConnectError> {
    let at = |file: String| node.folder.path(&format!("certs/{file}"));
    let cert = at(format!("{who}.client.pem"));
    let files = TlsFiles { ca: at("ca.pem".to_owned()), cert, key: at(format!("{who}.client.key")) };
    let options = ConnectOptions { tls: Some(files), deadline_ms, ..ConnectOptions::from([node.address.clone()]) };
    Client::connect(options).wait()
}

/// Returns a recording whose first twenty minutes are quiet.
fn quiet(scraped: &String) -> Recording {
    let mut recording = Recording::of(std::slice::from_ref(scraped));
    recording.scrape(0);
    recording.scrape(20);
    recording
}

#[test]
fn alerts_fire_when_callers_are_refused_and_a_quota_is_spent() {
    if !has_promtool() {
        return;
    }
    let http = free_ports(1);
    let (node, scraped) = (with_rights(http), format!("127.0.0.1:{http}"));
    eventually("it is ready", || greatest(&scraped, "firstseen_ready") == 1.0);
    let refused = |what: &str| greatest(&scraped, &format!("firstseen_principal_{what}_refused_total"));
    let spend = || {
        // The short deadline keeps the call from waiting until the quota is renewed.
        let Ok(crawler) = client(&node, "crawler", 40) else { return };
        let Ok(clicks) = crawler.filter("clicks").wait() else { return };
        (0..100_u32).for_each(|key| drop(clicks.observe(&key.to_le_bytes()).wait()));
    };
    // A series begins with the first rejected request. From then on, each minute of the recording has 70 of them.
    eventually("some of each are refused", || {
        spend();
        assert!(client(&node, "nobody", 5_000).is_err());
        refused("calls") > 0.0 && refused("batches") > 0.0
    });
    let (mut recording, before) = (quiet(&scraped), refused("calls"));
    eventually("calls are refused", || {
        at_once(&|| (0..50).for_each(|_| assert!(client(&node, "nobody", 5_000).is_err())));
        refused("calls") > before + 1_400.0
    });
    recording.scrape(40);
    recording.assert_only_alert(&rules(), "FirstseenCallersRefused", 19, 39);

    let (mut recording, before) = (quiet(&scraped), refused("batches"));
    eventually("batches are refused", || {
        at_once(&spend);
        refused("batches") > before + 4_200.0
    });
    recording.scrape(80);
    recording.assert_only_alert(&rules(), "FirstseenQuotaSpent", 19, 79);
}

/// Makes a call from several threads at the same time.
fn at_once(call: &(dyn Fn() + Sync)) {
    std::thread::scope(|scope| (0..CALLERS).for_each(|_| drop(scope.spawn(call))));
}

#[test]
fn an_alert_fires_when_there_is_no_place_for_connections() {
    if !has_promtool() {
        return;
    }
    let http = free_ports(1);
    let settings = format!("http_listen = \"127.0.0.1:{http}\"\n[limits]\nconnections_max = 16\n");
    let node = OwnNode::start("a", &settings);
    eventually("a cluster", || node.folder.run(&format!("cluster form {}", node.address)).code == Some(0));
    let scraped = format!("127.0.0.1:{http}");
    eventually("it is ready", || greatest(&scraped, "firstseen_ready") == 1.0);
    let mut recording = quiet(&scraped);
    let connect =
        || Client::connect(ConnectOptions { deadline_ms: 100, ..ConnectOptions::from([node.address.clone()]) }).wait();
    let mut clients = Vec::new();
    eventually("some find no place", || {
        clients.extend(connect());
        greatest(&scraped, "firstseen_connections_refused_total") > 60.0
    });
    recording.scrape(30);
    recording.assert_only_alert(&rules(), "FirstseenConnectionsRefused", 19, 29);
}
