//! Tests a folder of journal files in a process that has reached its limit of open files. The test needs a
//! process of its own, because it lowers that limit for the whole process.

use std::fs::File;
use std::io::ErrorKind;

use firstseen_journal::{Disk, FolderDisk};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Opens files until the system refuses to open more.
fn use_up() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// Regression test: a durable node used all of its file descriptors for connections. It could therefore not create the
/// next segment of its journal, and stopped with the message "nobody knows what is on the disk".
#[test]
fn a_file_is_created_when_all_other_descriptors_are_in_use() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    let open = std::fs::read_dir("/proc/self/fd").expect("open files").count() as u64;
    setrlimit(Resource::RLIMIT_NOFILE, open + 20, hard).expect("a lower limit");
    let folder = tempfile::tempdir().expect("a folder");
    let disk = FolderDisk::new(folder.path().join("journal"));
    let others = use_up();
    assert!(!others.is_empty() && File::open("/dev/null").is_err(), "no descriptor must be left");

    let mut file = disk.create("1", b"start", 100).expect("a file can be created with the reserved descriptors");
    file.write_at(5, b"more").and_then(|()| file.sync()).expect("the file can be written");
    disk.sync("1").expect("the file can be synced");
    // The open file uses one of the reserved descriptors, and other files may use the rest.
    let rest = use_up();
    let held: Vec<_> = (2..9).map_while(|name| disk.create(&name.to_string(), b"start", 100).ok()).collect();
    let refused = disk.create("9", b"start", 100).err().expect("no reserved descriptor must be left");
    assert_eq!(refused.kind(), ErrorKind::StorageFull, "the writer waits: {refused}");
    assert!(refused.to_string().contains("no file descriptor is left"), "{refused}");

    drop((others, rest));
    disk.create("9", b"start", 100).expect("descriptors are free again");
    disk.remove("1").expect("the file can be removed");
    assert_eq!(disk.read("9", 5).expect("the file can be read"), b"start");
    assert!(held.len() < 7);
}
