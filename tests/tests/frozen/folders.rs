//! The files of a set, and nodes at the addresses that they know each other by.

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

/// The names of the nodes, and their sites.
pub(super) const NODES: [(&str, &str); 3] = [("a", "north"), ("b", "north"), ("c", "south")];
/// A port that the system gives to nobody, at addresses that nobody else listens on: nodes of a set know each other by them.
const PORT: u16 = 24_801;
/// The third number of these addresses.
pub(super) const OF_A_SET: u8 = 77;
/// That of nodes which are none of a set.
pub(super) const OF_OTHERS: u8 = 78;

/// Room that a node keeps back for the agreement.
const RESERVE: &str = "meta.reserve";

/// Nodes that start at once on a busy machine call none of the others down: what two of them miss at a time is lost to both.
const PATIENT: &str = "[timing]\nunreachable_after_ms = 8000\n";

/// What a release has written.
pub(super) struct Set {
    pub(super) release: String,
    pub(super) path: PathBuf,
    /// The format of its cluster.
    pub(super) first_format: u64,
}

/// The folder of all sets.
pub(super) fn frozen() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("frozen")
}

/// All sets, the oldest first.
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

/// The answers by filter.
pub(super) fn answers(set: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(set.join("answers.json")).expect("answers")).expect("JSON")
}

/// A node of a set.
pub(super) struct FrozenNode {
    pub(super) folder: Folder,
    pub(super) site: &'static str,
    pub(super) address: String,
    child: Option<Child>,
}

/// Nodes without data.
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

/// The nodes of a set, stopped.
pub(super) fn nodes(set: &Path) -> Vec<FrozenNode> {
    let nodes = empty_nodes(OF_A_SET);
    for (node, (name, _)) in nodes.iter().zip(NODES) {
        unpack(&set.join(name), &node.folder.path("data"));
    }
    nodes
}

impl FrozenNode {
    /// Starts the process.
    pub(super) fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.folder.path("log")).expect("a log");
        let flags: &[&str] = if self.folder.has("data") { &[] } else { &["--create"] };
        let mut command = firstseen();
        command.args(["node", "--config", "node.toml"]).args(flags).current_dir(self.folder.path(""));
        self.child = Some(command.stdout(Stdio::null()).stderr(log).spawn().expect("the binary"));
    }

    /// Stops it by a signal.
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

/// Compresses all files below `from` into `to`, but for room that is only kept back.
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

/// Writes the files that are compressed below `from` to `to`, readable for this user only, as nodes write them.
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
