//! Checks alerts about filters, which fire in the following cases:
//!
//! - A filter has more false positives than promised.
//! - An upper level of a tree has no space for further events.
//! - A level of a tree decides events alone, and has little room for more of them.
//! - A node receives messages that no correct node sends.

use firstseen_routing::{ClusterId, Incarnation, NodeId};
use firstseen_wire::net::{peer_client, plain_endpoint, without_token};
use firstseen_wire::peer::{LinkEnds, hello};
use firstseen_wire::proto::peer::LinkFrame;
use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use super::fires::{greatest, rules};
use super::recording::{Recording, has_promtool};
use super::scraped;
use crate::local_cluster::{LocalCluster, eventually};
use crate::run::{Folder, number};

/// Submits events that no client has submitted before, and returns the report about them.
fn ask(folder: &Folder, cluster: &LocalCluster, flags: &str, keys: std::ops::Range<u32>) -> Value {
    folder.write("input", keys.map(|key| format!("{key}\n")).collect::<String>());
    let of = format!("--cluster {} --report json --out /dev/null {flags} input", cluster.addresses());
    folder.dedup(&of).ok().report()
}

#[test]
fn an_alert_fires_when_cells_fade_more_slowly_than_the_rate_needs() {
    if !has_promtool() {
        return;
    }
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "");
    let of = "--kind stable --window unbounded --memory 16KiB";
    cluster.create(&folder, "slow", &format!("{of} --fpr 0.01 --stable-decrements 1")).ok();
    cluster.create(&folder, "right", &format!("{of} --fpr 0.01")).ok();
    let nodes = scraped(&cluster);
    let mut recording = Recording::of(&nodes);
    recording.scrape(0);
    recording.scrape(20);
    for filter in ["slow", "right"] {
        ask(&folder, &cluster, &format!("--filter {filter}"), 0..100_000);
    }
    eventually("it errs", || greatest(&nodes[0], "firstseen_filter_expected_false_positive_max_ratio") > 0.1);
    recording.scrape(40);
    recording.scrape(60);
    recording.assert_alerts(&rules(), &[(19, &[]), (59, &["FirstseenFilterErrsTooOften"])]);
}

#[test]
fn an_alert_fires_when_the_level_above_has_no_room_for_what_a_level_decided_alone() {
    if !has_promtool() {
        return;
    }
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--sites athens,oslo");
    let leaf = |site: &str| format!("[[place]]\nname = \"{site}\"\nparent = \"root\"\nsites = [\"{site}\"]\n");
    let root = "[[place]]\nname = \"root\"\nsites = [\"oslo\"]\n";
    let tree = format!("mode = \"dense\"\ncut_off = \"local\"\n{root}{}{}", leaf("athens"), leaf("oslo"));
    folder.write("tree.toml", tree);
    cluster.create(&folder, "clicks", "--window unbounded --kind bloom --capacity 100 --tree-file tree.toml").ok();
    let nodes = scraped(&cluster);
    let mut recording = Recording::of(&nodes);
    // Without a site, events go to the root.
    ask(&folder, &cluster, "--filter clicks", 0..70);
    recording.scrape(0);
    recording.scrape(20);
    let oslo = cluster.processes()[1];
    kill(oslo, Signal::SIGSTOP).expect("a process");
    eventually("it is cut off", || greatest(&nodes[0], "firstseen_peer_unreachable") == 1.0);
    let alone = ask(&folder, &cluster, "--filter clicks --site athens", 1_000..1_060);
    assert_eq!(number(&alone, "first_seen"), 60, "{alone}");
    kill(oslo, Signal::SIGCONT).expect("a process");
    eventually("some are lost", || greatest(&nodes[0], "firstseen_filter_journal_lost_events_total") > 0.0);
    recording.scrape(21);
    recording.assert_only_alert(&rules(), "FirstseenEventsLostAbove", 19, 21);
}

#[test]
fn alerts_fire_while_a_level_decides_alone_and_when_it_has_little_room_for_more() {
    if !has_promtool() {
        return;
    }
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--sites athens,oslo,ioannina");
    let leaf = |site: &str| format!("[[place]]\nname = \"{site}\"\nparent = \"root\"\nsites = [\"{site}\"]\n");
    let leaves = ["athens", "oslo", "ioannina"].map(leaf).concat();
    let root = "[[place]]\nname = \"root\"\nsites = [\"oslo\"]\n";
    folder.write("tree.toml", format!("mode = \"dense\"\ncut_off = \"local\"\n{root}{leaves}"));
    cluster.create(&folder, "clicks", "--window unbounded --capacity 200k --tree-file tree.toml").ok();
    let nodes = scraped(&cluster);
    let mut recording = Recording::of(&nodes[..1]);
    recording.scrape(0);
    recording.scrape(19);
    let oslo = cluster.processes()[1];
    kill(oslo, Signal::SIGSTOP).expect("a process");
    eventually("Athens decides alone", || {
        number(&ask(&folder, &cluster, "--filter clicks --site athens", 0..10), "first_seen") > 0
    });
    eventually("it has events to report", || greatest(&nodes[0], "firstseen_filter_journal_events") > 0.0);
    recording.scrape(20);
    recording.scrape(23);
    // The limit of a slice group is 65,536 events.
    let alone = ask(&folder, &cluster, "--filter clicks --site athens", 1_000..61_000);
    assert!(number(&alone, "first_seen") > 59_900, "{alone}");
    eventually("there is little room", || greatest(&nodes[0], "firstseen_filter_journal_full_max_ratio") > 0.8);
    recording.scrape(40);
    recording.scrape(43);
    kill(oslo, Signal::SIGCONT).expect("a process");
    recording.assert_only_alert(&rules(), "FirstseenLevelDecidesAlone", 18, 23);
    recording.assert_only_alert(&rules(), "FirstseenOwedEventsNearlyFull", 23, 43);
}

/// Returns the ends of a link from node 2 to node 1, as any observer of the cluster can find them out.
fn ends(folder: &Folder, cluster: &LocalCluster) -> LinkEnds {
    let status = folder.run(&format!("cluster status --json --cluster {}", cluster.addresses())).ok().out;
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let incarnation = |at: usize| Incarnation(number(&status["nodes"][at], "incarnation"));
    let id = status["cluster"].as_str().and_then(|id| u128::from_str_radix(id, 16).ok()).expect("a number");
    LinkEnds {
        cluster: ClusterId(id.to_be_bytes()),
        from: NodeId(2),
        from_incarnation: incarnation(1),
        to: NodeId(1),
        to_incarnation: incarnation(0),
    }
}

#[test]
fn an_alert_fires_when_another_program_speaks_for_a_node_and_cannot_be_understood() {
    if !has_promtool() {
        return;
    }
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 2");
    let nodes = scraped(&cluster);
    let mut recording = Recording::of(&nodes[..1]);
    recording.scrape(0);
    recording.scrape(20);
    let ends = ends(&folder, &cluster);
    kill(cluster.processes()[1], Signal::SIGKILL).expect("a process");
    let address = cluster.addresses().split(',').next().expect("an address").to_owned();
    let endpoint = plain_endpoint(&address).expect("an address");
    let refused = || greatest(&nodes[0], "firstseen_link_messages_refused_total") > 0.0;
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    eventually("it is refused", || {
        let frames = [hello(&ends), LinkFrame { number: 1, message: None }];
        // The stream stays open while the test checks whether the frame has arrived.
        let frames = tokio_stream::StreamExt::chain(tokio_stream::iter(frames), tokio_stream::pending());
        let linked = runtime.block_on(async {
            let channel = endpoint.connect().await.ok()?;
            peer_client(without_token(channel)).link(frames).await.ok()
        });
        linked.is_some() && refused()
    });
    recording.scrape(21);
    recording.assert_only_alert(&rules(), "FirstseenProgramErred", 19, 21);
}
