//! Tests of `firstseen node`, which checks its configuration before it starts anything.

use std::fs;

use nix::sys::signal::Signal;

use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::run::Folder;

const GOOD: &str = "name = \"a\"\nlisten = \"127.0.0.1:0\"\ndata_dir = \"data\"\nmemory_max_bytes = 67108864\n";

#[test]
fn a_configuration_is_checked_without_running() {
    let folder = Folder::new();
    folder.write("node.toml", GOOD);
    let check = || folder.run("node --config node.toml --check-config");
    check().fails(2, &["data_dir", "data does not exist", "--create"]);
    assert!(!folder.has("data"), "nothing is created silently");
    fs::create_dir(folder.path("data")).expect("a folder");
    check().fails(2, &["is no node's yet", "--create", "mounted"]);
    let check = || folder.run("node --config node.toml --check-config --create");
    assert!(check().ok().out.contains("a node `a` can be started with this"));
    assert_eq!(fs::read_dir(folder.path("data")).expect("a folder").count(), 0);
    let other = folder.run("node --config node.toml --create --check-config --set name=b").ok();
    assert!(other.out.contains("a node `b` can be started"), "{}", other.out);
    folder
        .run("node --config node.toml --create --check-config --set colour=1")
        .fails(2, &["--set colour=1", "unknown"]);
    folder.run("node --config node.toml --create --set name").fails(2, &["--set", "KEY=VALUE"]);
}

#[test]
fn a_disk_says_once_that_it_is_a_new_nodes() {
    let folder = Folder::new();
    fs::create_dir(folder.path("data")).expect("a folder");
    folder.write("data/new-node", "");
    let mut node = OwnNode::start_in(folder, "a", "");
    eventually("it listens", || node.log().contains("node is listening"));
    assert!(node.folder.has("data/meta.redb") && !node.folder.has("data/new-node"));
    // A node without certificates must survive the "reload" signal of a service manager.
    node.signal(Signal::SIGHUP);
    node.restart();
    eventually("it listens again", || node.log().matches("node is listening").count() == 2);
    node.stop();
    fs::remove_dir_all(node.folder.path("data")).expect("a folder");
    fs::create_dir(node.folder.path("data")).expect("a folder");
    node.folder.run("node --config node.toml").fails(2, &["is no node's yet", "`new-node`", "mounted"]);
}

#[test]
fn a_journal_without_its_node_is_not_taken_for_a_new_one() {
    let folder = Folder::new();
    folder.write("node.toml", GOOD);
    fs::create_dir_all(folder.path("data/journal")).expect("a folder");
    folder.write("data/journal/0000000000000001.journal", "records");
    for more in ["", " --create", " --check-config"] {
        folder.run(&format!("node --config node.toml{more}")).fails(2, &["data_dir data", "identity (meta.redb)"]);
    }
    assert!(!folder.has("data/meta.redb"));
}

#[test]
fn a_missing_folder_or_file_stops_a_node() {
    let folder = Folder::new();
    folder.run("node --config node.toml").fails(2, &["cannot read the configuration node.toml"]);
    folder.run("node").fails(2, &["--config"]);
    folder.write("node.toml", GOOD);
    folder.run("node --config node.toml").fails(2, &["node.toml: data_dir", "--create"]);
    folder.write("data", "a file");
    folder.run("node --config node.toml").fails(2, &["is no folder"]);
}

#[test]
fn mistakes_are_errors_with_their_place() {
    let folder = Folder::new();
    for (more, words) in [
        ("colour = 1\n", &["node.toml, line 5", "unknown field `colour`"][..]),
        ("memory_max_bytes = 1\n", &["node.toml, line 5", "duplicate key"]),
        ("[tls]\nca = \"no\"\ncert = \"no\"\nkey = \"no\"\n", &["node.toml", "[tls]", "cannot read"]),
        ("[limits]\nbatch_events_max = 0\n", &["node.toml, line 6", "give 1 to 8192"]),
        ("][", &["node.toml, line 5"]),
    ] {
        folder.write("node.toml", format!("{GOOD}{more}"));
        folder.run("node --config node.toml --check-config").fails(2, words);
    }
    folder.write("node.toml", GOOD.replace("127.0.0.1:0", "0.0.0.0:7400"));
    folder
        .run("node --config node.toml --check-config")
        .fails(2, &["node.toml, line 2", "open to the network", "insecure = true"]);
    folder.write("node.toml", [0xff, 0xfe, 0x00]);
    folder.run("node --config node.toml --check-config").fails(2, &["cannot read the configuration node.toml"]);
}

#[test]
fn a_node_that_is_not_there_is_not_healthy() {
    let folder = Folder::new();
    // No program listens on port 1 of this machine.
    folder.run("node health --addr 127.0.0.1:1").fails(1, &["no answer from 127.0.0.1:1"]);
    fs::create_dir(folder.path("data")).expect("a folder");
    folder.write("node.toml", GOOD);
    folder.run("node health --config node.toml").fails(2, &["http_listen"]);
}
