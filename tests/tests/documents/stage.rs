//! Environment in which a block runs: a folder with the files that pages mention, a range of ports, and a time limit
//! for every process.
//!
//! When a block has been run, all processes that it has started are ended, so that they cannot affect the next block. A
//! block that does not end within its time limit is ended as well.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use nix::pty::openpty;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::ports::free_ports;
use crate::run::{Folder, example, example_text, firstseen, firstseen_lab};

/// Number of ports for a block.
const PORTS: u16 = 100;

/// Number of lines of the web log, which is enough to contain repetitions.
const LINES: usize = 1_000;

/// Script that takes the place of cargo while a page is tested. The script builds nothing, because the binaries have
/// already been built for the test.
///
/// If a page contains `cargo run FLAGS -- WORDS`, the script ignores `FLAGS` and runs `firstseen WORDS`, or
/// `firstseen-lab WORDS` if a flag selects that package. All other commands of cargo fail, so a page must exclude them
/// from the test.
const CARGO: &str = r#"#!/bin/sh
refuse() { echo "cargo: $*" >&2; exit 1; }
has() { grep -q "^$2" "$SOURCES/$1/Cargo.toml" || refuse "$1/Cargo.toml has no line that begins with $2"; }
[ "$1" = run ] || refuse "the stage has no $1"
program=firstseen
shift
while [ "$1" != -- ]; do
    case "$1" in
        --release | --quiet | --locked) ;;
        --no-default-features) has crates/cli 'default = ' ;;
        --features) shift; has crates/cli "$1 = \[" ;;
        --profile) shift; has . "\[profile\.$1\]" ;;
        -p)
            shift
            case "$1" in
                firstseen-cli) program=firstseen ;;
                firstseen-lab) program=firstseen-lab ;;
                *) refuse "the stage has no program of $1" ;;
            esac ;;
        *) refuse "the stage does not know '$1' before --" ;;
    esac
    shift
done
shift
exec "$program" "$@"
"#;

/// Replacement for `tail`, so that `tail -f` ends at the end of the file.
const TAIL: &str = r#"#!/bin/sh
[ "$1" = -n ] && shift 2
[ "$1" = -F ] && shift
exec cat "$@"
"#;

/// Result of running a block.
pub(crate) struct Played {
    /// Exit status of the block. `None` if the block was ended by the time limit.
    pub(crate) status: Option<ExitStatus>,
    /// Output of the block, with standard output first.
    pub(crate) printed: String,
    pub(crate) folder: Folder,
}

/// Runs a script that may use a hundred ports, for at most `patience`.
pub(crate) fn play(script: impl FnOnce(u16) -> String, patience: Duration) -> Played {
    let folder = Folder::new();
    let base = free_ports(PORTS);
    lay_out(&folder, base);
    let (out, err) = (file(&folder, "printed.out"), file(&folder, "printed.err"));
    // A simulated user at the terminal agrees to every question.
    let terminal = openpty(None, None).expect("a pseudo terminal");
    let stdin: OwnedFd = terminal.slave;
    let mut person = File::from(terminal.master);
    person.write_all("y\n".repeat(20).as_bytes()).expect("typed");
    let mut shell = Command::new("bash");
    shell.args(["-eu", "-o", "pipefail", "-c", &script(base)]).current_dir(folder.path(""));
    let path = std::env::var("PATH").unwrap_or_default();
    shell.env("PATH", format!("{}:{path}", folder.path("bin").display())).env("TERM", "dumb");
    shell.env("TLS", "--tls-ca certs/ca.pem --tls-cert certs/admin.pem --tls-key certs/admin.key");
    shell.env("FIRSTSEEN_BINARY", firstseen().get_program());
    shell.env("SOURCES", Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    let child = shell.process_group(0).stdin(stdin).stdout(out).stderr(err).spawn().expect("a shell");
    let mut group = Group(child);
    let status = group.wait(patience);
    drop(group);
    end_clusters(&folder);
    let printed = folder.read("printed.out") + &folder.read("printed.err");
    Played { status, printed, folder }
}

/// Shell with the processes that it has started. They end when this value is dropped.
struct Group(Child);

impl Group {
    /// Waits until the shell has ended.
    fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            match self.0.try_wait().expect("a child") {
                Some(status) => return Some(status),
                None if Instant::now() > deadline => return None,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let id = Pid::from_raw(i32::try_from(self.0.id()).expect("a process id"));
        // The nodes of `firstseen up` are in process groups of their own, and end together with `firstseen up`.
        let _ = killpg(id, Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// Ends clusters that `firstseen up --detach` has started in the background, outside of the process group.
fn end_clusters(folder: &Folder) {
    for name in folder.names().into_iter().filter(|name| folder.has(&format!("{name}/up.json"))) {
        folder.run(&format!("up --end --data {name}")).ok();
    }
}

fn file(folder: &Folder, name: &str) -> File {
    File::create(folder.path(name)).expect("a file")
}

/// Writes the files that pages assume to exist.
fn lay_out(folder: &Folder, base: u16) {
    for name in ["bin", "backups", "examples"] {
        fs::create_dir(folder.path(name)).expect("a folder");
    }
    symlink(firstseen().get_program(), folder.path("bin/firstseen")).expect("a link");
    symlink(firstseen_lab().get_program(), folder.path("bin/firstseen-lab")).expect("a link");
    symlink(Path::new(&example("")), folder.path("examples/data")).expect("a link");
    for (name, text) in [("bin/cargo", CARGO), ("bin/tail", TAIL)] {
        folder.write(name, text);
        fs::set_permissions(folder.path(name), fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    let log: String = example_text("apache_logs.gz").lines().take(LINES).map(|line| format!("{line}\n")).collect();
    folder.write("access.log", &log);
    folder.write("app.log", "started\nconnected\nstarted\n");
    let mut links = GzEncoder::new(Vec::new(), Compression::fast());
    let from = example_text("outlinks_20080430.tsv.gz");
    from.lines().take(LINES).for_each(|line| writeln!(links, "{line}").expect("memory"));
    folder.write("links.tsv.gz", links.finish().expect("memory"));
    let event = |number: u64| {
        let (id, ts) = (number % 70, 1_700_000_000_000 + number * 1_000);
        format!("{{\"id\":\"{id}\",\"ts\":{ts}}}\n")
    };
    folder.write("events.jsonl", (0..100).map(event).collect::<String>());
    let click = |number: u64| {
        let (user, ad, time, ip) = (number % 9, number % 7, 1_700_000_000_000 + number * 1_000, number % 5);
        format!("{user},{ad},{time},10.0.0.{ip}\n")
    };
    folder.write("clicks.csv", "user,ad,time,ip\n".to_owned() + &(0..200).map(click).collect::<String>());
    for (index, node) in (0..).zip(["a", "b", "c"]) {
        folder.write(&format!("{node}.toml"), node_file(node, base + 10 * index));
    }
}

/// Returns the configuration of a node with certificates.
fn node_file(name: &str, port: u16) -> String {
    format!(
        "name = \"{name}\"\nlisten = \"127.0.0.1:{port}\"\nhttp_listen = \"127.0.0.1:{}\"\ndata_dir = \"data-{name}\"\n\
         memory_max_bytes = 1073741824\n[tls]\nca = \"certs/ca.pem\"\ncert = \"certs/{name}.node.pem\"\n\
         key = \"certs/{name}.node.key\"\n",
        port + 1
    )
}

#[test]
fn processes_that_a_block_has_started_end_with_it() {
    let begun = Instant::now();
    let hanging = play(|_| "sleep 600 & echo $! > pid\nsleep 600\n".to_owned(), Duration::from_secs(1));
    assert!(hanging.status.is_none() && begun.elapsed() < Duration::from_secs(30));
    let mut id = String::new();
    File::open(hanging.folder.path("pid")).and_then(|mut file| file.read_to_string(&mut id)).expect("it has begun");
    let id = Pid::from_raw(id.trim().parse().expect("a number"));
    crate::local_cluster::eventually("the end of what was started", || !crate::local_cluster::is_alive(id));
}
