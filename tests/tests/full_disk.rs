//! Runs a node on a disk of its own, and fills the disk to the last byte.
//!
//! The test repeats a sequence that ended a node in an earlier version. The node's `data_dir` is on a disk of 64 MiB,
//! and the node has a durable filter. Another program fills the disk, and then the cluster map changes fifteen times.
//! The consensus log had no space for one of these changes, so the node ended with exit code 1, and it ended again
//! after each restart. Now the node must apply the changes and reject requests that can wait. It must also start on the
//! full disk, and continue without intervention when the disk has space again.
//!
//! The test needs a small disk that it can fill. It mounts a tmpfs for this purpose, which only root can do. Without
//! root, the test prints a notice and checks nothing. The test `full_disk.rs` of the crate `firstseen-node` needs no
//! root, because it checks the same behaviour with a simulated disk in memory.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::Command;

use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::run::Folder;

const DISK: &str = "size=64m,mode=700";
const CHANGES: usize = 30;
const FILLERS: [&str; 2] = ["filler", "another"];
const RESERVE_BYTES: u64 = 4 << 20;

/// File system that is unmounted at the end of the test.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    /// Mounts the file system. Returns `None` if this user may not mount one.
    pub(crate) fn at(path: PathBuf) -> Option<Self> {
        fs::create_dir(&path).expect("a folder");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", DISK, "tmpfs"]).arg(&path).output();
        mount.is_ok_and(|done| done.status.success()).then_some(Self(path))
    }

    /// Fills the file system to the last byte with a file of this name.
    pub(crate) fn fill(&self, name: &str) {
        let mut filler = File::create(self.0.join(name)).expect("a file");
        let mut piece = vec![7; 1 << 20];
        while !piece.is_empty() {
            match filler.write(&piece) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => piece.truncate(piece.len() / 2),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn make_room(&self) {
        FILLERS.iter().for_each(|name| fs::remove_file(self.0.join(name)).expect("it was filled"));
    }

    fn reserve_bytes(&self) -> u64 {
        fs::metadata(self.0.join("meta.reserve")).map_or(0, |file| file.len())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Unmounting is lazy, because the node may not have ended yet.
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

#[test]
fn a_node_lives_on_a_full_disk_starts_there_and_goes_on_when_there_is_room() {
    let folder = Folder::new();
    let Some(disk) = Mounted::at(folder.path("data")) else {
        println!("NOTICE: nothing is shown here, as this user cannot mount a tmpfs");
        return;
    };
    let mut node = OwnNode::start_in(folder, "a", "");
    let address = node.address.clone();
    let runs = |node: &OwnNode, flags: &str| node.folder.run(flags);
    eventually("a cluster", || runs(&node, &format!("cluster form {address}")).code == Some(0));
    let create = |name: &str| {
        format!(
            "filter create {name} --if-absent --window 1h --clock wall --capacity 10k --durability durable --cluster {address}"
        )
    };
    eventually("a filter", || runs(&node, &create("clicks")).code == Some(0));
    eventually("room that is kept back", || disk.reserve_bytes() == RESERVE_BYTES);
    disk.fill(FILLERS[0]);
    let change =
        |node: &OwnNode| runs(node, &format!("filter forgive clicks --yes --cluster {address}")).code == Some(0);
    eventually("the room that was kept back is used", || {
        assert!(change(&node), "{}", node.log());
        disk.reserve_bytes() == 0
    });
    for _ in 0..CHANGES {
        assert!(change(&node), "{}", node.log());
    }
    assert!(node.log().contains("is full") && node.log().contains("make room"), "{}", node.log());
    let refused = runs(&node, &create("views"));
    refused.fails(1, &["disk of node `a` is nearly full", "make room"]);
    // Another program takes the space that the node had reserved and has released.
    disk.fill(FILLERS[1]);
    node.crash();
    eventually("it has started on a full disk", || {
        assert!(node.runs(), "{}", node.log());
        runs(&node, &format!("cluster status --addr {address}")).out.contains("cluster ")
    });
    eventually("it says why", || node.log().contains("no room can be kept back"));
    runs(&node, &create("views")).fails(1, &["is nearly full"]);
    disk.make_room();
    eventually("it goes on by itself", || runs(&node, &create("views")).code == Some(0));
    assert_eq!(disk.reserve_bytes(), RESERVE_BYTES, "room is kept back again");
    assert!(node.runs());
}
