//! Files of a release's data set, and nodes at the addresses that the data set contains.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::run::{Folder, firstseen};

/// Names of the nodes, and their sites.
pub(super) const NODES: [(&str, &str); 3] = [("a", "north"), ("b", "north"), ("c", "south")];
/// Port of all nodes in a data set. The operating system never assigns it, and no other program listens on it at these
/// addresses.
const PORT: u16 = 24_801;
/// Third number of the IP addresses of nodes in a data set.
pub(super) const DATA_SET_SUBNET: u8 = 77;
/// Third number of the IP addresses of other nodes.
pub(super) const OTHER_SUBNET: u8 = 78;

/// File with the disk space that a node reserves for the consensus log.
const RESERVE: &str = "meta.reserve";

/// Setting that makes nodes wait longer before they mark each other as down. All nodes of a data set start together, so
/// a node may respond slowly on a busy machine. With the default, two nodes could mark each other as down at the same
/// time. Both would then miss events, and neither could fetch these events from the other.
const PATIENT: &str = "[timing]\nunreachable_after_ms = 8000\n";

/// Data set that a release has written.
pub(super) struct Set {
    pub(super) release: String,
    pub(super) path: PathBuf,
    /// Format of the cluster in the data set.
    pub(super) first_format: u64,
}

/// Returns the folder of all data sets.
pub(super) fn frozen() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("frozen")
}

/// Returns all data sets, the oldest first.
pub(super) fn sets() -> Vec<Set> {
    let folders = fs::read_dir(frozen()).expect("a folder of sets");
    let mut sets: Vec<Set> = folders
        .map(|folder| {
            let path = folder.expect("a folder").path();
            let release = path.file_name().and_then(|name| name.to_str()).expect("a release").to_owned();
            let about: Value =
                serde_json::from_str(&fs::read_to_string(path.join("about.json")).expect("a file")).expect("JSON");
            Set { release, path, first_format: about["format"].as_u64().expect("a format") }
        })
        .collect();
    sets.sort_by(|one, other| one.release.cmp(&other.release));
    sets
}

/// Returns the recorded answers, by filter.
pub(super) fn answers(set: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(set.join("answers.json")).expect("answers")).expect("JSON")
}

/// Node of a data set.
pub(super) struct FrozenNode {
    pub(super) folder: Folder,
    pub(super) site: &'static str,
    pub(super) address: String,
    child: Option<Child>,
}

/// Creates nodes without data.
pub(super) fn empty_nodes(net: u8) -> Vec<FrozenNode> {
    let node = |(number, (name, site)): (usize, (&str, &'static str))| {
        let (folder, address) = (Folder::new(), format!("127.0.{net}.{number}:{PORT}"));
        folder.write(
            "node.toml",
            format!("name = \"{name}\"\nsite = \"{site}\"\nlisten = \"{address}\"\ndata_dir = \"data\"\nmemory_max_bytes = 67108864\n{PATIENT}"),
        );
        FrozenNode { folder, site, address, child: None }
    };
    (1..).zip(NODES).map(node).collect()
}

/// Unpacks the nodes of a data set, without starting them.
pub(super) fn nodes(set: &Path) -> Vec<FrozenNode> {
    let nodes = empty_nodes(DATA_SET_SUBNET);
    for (node, (name, _)) in nodes.iter().zip(NODES) {
        unpack(&set.join(name), &node.folder.path("data"));
    }
    nodes
}

impl FrozenNode {
    /// Starts the process of the node.
    pub(super) fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.folder.path("log")).expect("a log");
        let flags: &[&str] = if self.folder.has("data") { &[] } else { &["--create"] };
        let mut command = firstseen();
        command.args(["node", "--config", "node.toml"]).args(flags).current_dir(self.folder.path(""));
        self.child = Some(command.stdout(Stdio::null()).stderr(log).spawn().expect("the binary"));
    }

    /// Stops the node with a signal.
    pub(super) fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        kill(Pid::from_raw(i32::try_from(child.id()).expect("a number")), Signal::SIGTERM).expect("it runs");
        let code = child.wait().expect("it ends").code();
        assert_eq!(code, Some(0), "{}", self.folder.read("log"));
    }

    pub(super) fn restart(&mut self) {
        self.stop();
        self.start();
    }
}

impl Drop for FrozenNode {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Compresses all files in `from` to `to`, except for the reserved disk space.
pub(super) fn pack(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        if path.is_dir() {
            pack(&path, &to.join(name));
        } else if name != RESERVE {
            let packed = File::create(to.join(format!("{name}.gz"))).expect("a file");
            let mut packed = GzEncoder::new(packed, Compression::best());
            packed.write_all(&fs::read(&path).expect("a file")).expect("it is written");
            packed.finish().expect("it is written");
        }
    }
}

/// Decompresses the files in `from` to `to`. Only this user can read the files, as with files that nodes write.
pub(super) fn unpack(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder of the set") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        if path.is_dir() {
            unpack(&path, &to.join(name));
        } else {
            let mut bytes = Vec::new();
            GzDecoder::new(File::open(&path).expect("a file")).read_to_end(&mut bytes).expect("it is whole");
            fs::write(to.join(name.trim_end_matches(".gz")), bytes).expect("it is written");
        }
    }
}
