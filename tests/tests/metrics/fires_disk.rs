//! Checks that alerts fire if the data disk of a node is full, hangs, or is slow. To simulate a disk that hangs, the
//! test freezes a file system that is stored in a file. This needs root, and without root this part is skipped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::fires::{greatest, rules};
use super::fires_here::node;
use super::recording::{Recording, has_promtool};
use crate::full_disk::Mounted;
use crate::local_cluster::eventually;
use crate::run::Folder;

/// Size of the file system in bytes. Most of it is never written.
const DISK_BYTES: u64 = 512 << 20;

fn done(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// File system in a file.
struct Disk(PathBuf);

impl Disk {
    /// Mounts the file system. Returns `None` if this user may not mount one.
    fn at(folder: &Folder, path: PathBuf) -> Option<Self> {
        let image = folder.path("image");
        File::create_new(&image).and_then(|image| image.set_len(DISK_BYTES)).expect("a file");
        std::fs::create_dir(&path).expect("a folder");
        let is_there = done(Command::new("mkfs.ext4").arg("-q").arg(&image))
            && done(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&path));
        if !is_there {
            eprintln!("no file system can be mounted here: alerts of disks are not caused");
            return None;
        }
        Some(Self(path))
    }

    /// Blocks all writes until the returned guard is dropped.
    fn freeze(&self) -> Frozen<'_> {
        assert!(done(Command::new("fsfreeze").arg("--freeze").arg(&self.0)), "it can be frozen");
        Frozen(&self.0)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Unmounting is lazy, because the node may not have ended yet.
        done(Command::new("umount").arg("-l").arg(&self.0));
    }
}

struct Frozen<'disk>(&'disk Path);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        done(Command::new("fsfreeze").arg("--unfreeze").arg(self.0));
    }
}

#[test]
fn alerts_fire_when_the_data_disk_is_nearly_full_and_when_it_is_full() {
    let folder = Folder::new();
    let Some(disk) = Mounted::at(folder.path("data")).filter(|_| has_promtool()) else { return };
    let (node, scraped) = node(folder, "");
    let run = |flags: &str| node.folder.run(&format!("{flags} --cluster {}", node.address));
    run("filter create clicks --window 1h --clock wall --capacity 1k").ok();
    let mut recording = Recording::of(std::slice::from_ref(&scraped));
    recording.scrape(0);
    recording.scrape(20);
    disk.fill("filler");
    eventually("the room that is kept back is used", || {
        run("filter forgive clicks --yes");
        greatest(&scraped, "firstseen_data_disk_short") == 1.0
    });
    recording.scrape(21);
    recording.scrape(40);
    recording.assert_alerts(&rules(), &[(19, &[]), (21, &["FirstseenDiskIsFull"])]);
    recording.assert_only_alert(&rules(), "FirstseenDiskNearlyFull", 19, 39);
}

#[test]
fn alerts_fire_when_the_data_disk_hangs_and_takes_long() {
    let (folder, image) = (Folder::new(), Folder::new());
    let Some(disk) = Disk::at(&image, folder.path("data")).filter(|_| has_promtool()) else { return };
    folder.write("data/new-node", "");
    let (node, scraped) = node(folder, "");
    let run = |flags: &str| node.folder.run(&format!("{flags} --cluster {}", node.address));
    run("filter create kept --window 1h --clock wall --capacity 10k --durability durable").ok();
    let record = |keys: std::ops::Range<u32>| {
        node.folder.write("input", keys.map(|key| format!("{key}\n")).collect::<String>());
        run("dedup --filter kept --out /dev/null input")
    };
    record(0..100).ok();
    let mut recording = Recording::of(std::slice::from_ref(&scraped));
    recording.scrape(0);
    recording.scrape(20);
    let hangs = || greatest(&scraped, "firstseen_journal_disk_hung");
    std::thread::scope(|scope| {
        let frozen = disk.freeze();
        let recorded = scope.spawn(|| record(100..200));
        eventually("its disk hangs", || hangs() == 1.0);
        recording.scrape(21);
        drop(frozen);
        eventually("its disk works", || hangs() == 0.0 && greatest(&scraped, "firstseen_ready") == 1.0);
        recorded.join().expect("it ends");
    });
    recording.scrape(60);
    recording.assert_alerts(&rules(), &[(19, &[]), (21, &["FirstseenDiskHangs"])]);
    // The sync that was blocked has now completed.
    recording.assert_only_alert(&rules(), "FirstseenDiskIsSlow", 19, 59);
}
