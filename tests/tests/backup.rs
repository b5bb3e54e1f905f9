//! Backs up a working cluster to a folder, destroys the cluster, and restores the backup on other nodes. If a backup is
//! damaged or incomplete, the restore must reject it before it changes anything.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use firstseen_client::{Filter, Verdict, Wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::asking::{BATCH_EVENTS, ask, client, count, document, knows, opened, record};
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::run::{Folder, firstseen};

const KEYS: u64 = 10_000;
/// Deadline of a call, in milliseconds.
const DEADLINE_MS: u64 = 5_000;

/// Filters of the cluster that is destroyed. The backup contains the cells of all filters except the last.
const FILTERS: [(&str, &str); 5] = [
    ("flat", "--slicing horizontal:6 --window 1h --clock wall"),
    ("cut", "--slicing vertical:6 --window 1h --clock wall"),
    ("kept", "--slicing vertical:4 --kind generations --window 1h --clock wall --durability durable"),
    ("last", "--kind timing --window 60000events"),
    ("counted", "--kind counting --window 10000events"),
];

fn cluster<const NODES: usize>(names: [&str; NODES]) -> [OwnNode; NODES] {
    // Nodes that start at the same time on a busy machine must not mark each other down. Two nodes that miss events at
    // the same time would both lose them.
    let nodes = names.map(|name| OwnNode::start(name, "[timing]\nunreachable_after_ms = 8000\n"));
    let form = nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(" ");
    eventually("a cluster", || nodes[0].folder.run(&format!("cluster form {form}")).code == Some(0));
    nodes
}

fn create(node: &OwnNode, name: &str, flags: &str) {
    let create = format!("filter create {name} --if-absent {flags} --fpr 0.0001 --cluster {}", node.address);
    let mut printed = String::new();
    eventually("a filter", || {
        let ran = node.folder.run(&create);
        printed = ran.err;
        ran.code == Some(0) || panic_on_usage(ran.code, &printed)
    });
}

fn panic_on_usage(code: Option<i32>, printed: &str) -> bool {
    assert!(code != Some(2), "{printed}");
    false
}

fn filters(node: &OwnNode) -> Vec<Value> {
    let listed = document(&node.folder.run(&format!("filter list --json --cluster {}", node.address)));
    listed.as_array().cloned().unwrap_or_default()
}

/// Submits new keys until `is_over` is set. Returns the number of keys.
fn produce(filter: &Filter, is_over: &AtomicBool) -> u64 {
    let mut key = 1_000_000;
    while !is_over.load(Ordering::Relaxed) {
        ask(filter, key..key + BATCH_EVENTS);
        key += BATCH_EVENTS;
    }
    key - 1_000_000
}

/// Creates a cluster, backs it up while it works, and destroys it. Returns the folder of the backup. The backup must
/// contain every event whose reply was sent before the backup began.
fn lost_cluster(folder: &Folder) -> PathBuf {
    let nodes = cluster(["a", "b", "c"]);
    FILTERS.iter().for_each(|(name, flags)| create(&nodes[0], name, &with_capacity(name, flags)));
    let client = client(&nodes[1], DEADLINE_MS);
    let asked = ["flat", "cut", "kept", "last"].map(|name| opened(&client, name));
    for filter in &asked {
        eventually("every slice answers", || {
            ask(filter, 2 * KEYS..2 * KEYS + 100).iter().all(|verdict| !matches!(verdict, Verdict::Undecided(_)))
        });
        assert!(record(filter, 0..KEYS) < 20);
    }
    let (is_over, backup) = (AtomicBool::new(false), folder.path("backup"));
    std::thread::scope(|scope| {
        let loads: Vec<_> = asked[..3].iter().map(|filter| scope.spawn(|| produce(filter, &is_over))).collect();
        let out = format!("cluster backup --out {} --addr {} --json", backup.display(), nodes[2].address);
        let taken = nodes[0].folder.run(&out);
        is_over.store(true, Ordering::Relaxed);
        let loads: Vec<u64> = loads.into_iter().map(|load| load.join().expect("nothing is stopped")).collect();
        assert!(loads.iter().all(|events| *events > 0), "{loads:?}");
        assert_eq!(taken.err, "", "no progress where nobody watches");
        let taken = document(&taken);
        let cells = taken["filters"].as_array().expect("filters").iter().map(|filter| {
            assert_eq!(filter["incomplete_slices"], 0);
            (filter["slices"] == filter["contained_slices"], filter["definition_only"] == true)
        });
        assert_eq!(
            cells.collect::<Vec<_>>(),
            [(true, false), (true, false), (true, false), (true, false), (false, true)]
        );
    });
    backup
}

fn with_capacity(name: &str, flags: &str) -> String {
    match name {
        "last" | "counted" => flags.to_owned(),
        _ => format!("{flags} --capacity 1M"),
    }
}

#[test]
fn a_cluster_comes_back_on_fewer_nodes() {
    let folder = Folder::new();
    let backup = lost_cluster(&folder);
    check_modes(&backup);
    let mut nodes = cluster(["x", "y"]);
    let restore = format!("cluster restore {} --addr {}", backup.display(), nodes[1].address);
    let planned = document(&nodes[0].folder.run(&format!("{restore} --plan --json")));
    assert_eq!(planned["done"], false);
    assert!(filters(&nodes[0]).is_empty(), "a plan changes nothing");
    nodes[0].folder.run(&restore).fails(2, &["what was recorded since 20", "is given up: say --yes"]);
    let restored = document(&nodes[0].folder.run(&format!("{restore} --yes --json")));
    assert_eq!(restored["done"], true);
    let there = filters(&nodes[0]);
    let names: Vec<&str> = there.iter().filter_map(|filter| filter["name"].as_str()).collect();
    assert_eq!(names, FILTERS.map(|(name, _)| name));
    let decided = there.iter().map(|filter| filter["complete_slices"] == filter["slices"]).collect::<Vec<_>>();
    assert_eq!(decided, [true, true, true, true, false], "of the last there are no cells: {there:?}");
    nodes[0].folder.run(&format!("{restore} --yes")).fails(2, &["flat, cut, kept, last, counted"]);
    let client = client(&nodes[0], DEADLINE_MS);
    for name in ["flat", "cut", "kept", "last"] {
        let filter = opened(&client, name);
        // Events of the backup are known without a further command.
        knows(&filter, 0..KEYS);
        assert!(record(&filter, 4 * KEYS..5 * KEYS) < 20, "{name}: nor made up");
    }
    // A durable filter is durable from the moment of its restoration.
    nodes.iter_mut().for_each(OwnNode::crash);
    let filter = opened(&client, "kept");
    knows(&filter, 0..KEYS);
}

/// Checks that only their owner may read the files, because they contain secrets.
fn check_modes(backup: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(backup), 0o700);
    assert!(fs::read_to_string(backup.join("metadata.json")).expect("text").contains("secrets"));
    for file in files(backup) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

fn files(backup: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        list(backup).chain(list(&backup.join("cells"))).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[test]
fn a_damaged_backup_is_refused_by_the_name_of_the_file() {
    let folder = Folder::new();
    let backup = folder.path("backup");
    let shown = backup.display();
    {
        let [node] = cluster(["a"]);
        create(&node, "clicks", "--slicing vertical:2 --window 1h --capacity 1k --clock wall");
        create(&node, "ever", "--slicing none --window unbounded --capacity 1k");
        let client = client(&node, DEADLINE_MS);
        let filter = opened(&client, "clicks");
        eventually("it answers", || count(&ask(&filter, 0..100), Verdict::Duplicate) == 100);
        let taken = node.folder.run(&format!("cluster backup --out {shown} --addr {}", node.address));
        assert!(taken.code == Some(0) && taken.out.contains("secrets"), "{}{}", taken.out, taken.err);
        let again = node.folder.run(&format!("cluster backup --out {shown} --addr {}", node.address));
        again.fails(2, &["is not empty"]);
    }
    let [node] = cluster(["b"]);
    let restore = format!("cluster restore {shown} --yes --addr {}", node.address);
    let whole = files(&backup);
    assert_eq!(whole.len(), 5, "{whole:?}");
    let refused = |file: &Path, what: &str| {
        let ran = node.folder.run(&restore);
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        let is_named = matches!(ran.code, Some(1 | 2)) && ran.err.contains(name);
        assert!(is_named, "{what} of {name}: {:?} {}", ran.code, ran.err);
        assert!(filters(&node).is_empty(), "nothing was changed");
    };
    for file in &whole {
        let bytes = fs::read(file).expect("it is there");
        for place in [0, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1;
            fs::write(file, &flipped).expect("written");
            refused(file, &format!("byte {place}"));
        }
        for length in [0, bytes.len() / 2, bytes.len() - 1] {
            fs::write(file, &bytes[..length]).expect("written");
            refused(file, "a part");
        }
        fs::write(file, [&bytes[..], b"x"].concat()).expect("written");
        refused(file, "more than all");
        fs::remove_file(file).expect("removed");
        refused(file, "nothing");
        fs::write(file, &bytes).expect("written");
    }
    let printed = node.folder.run(&format!("{restore} --undecided")).ok().out;
    let forgive = format!("firstseen filter forgive clicks --cluster {}", node.address);
    assert!(printed.contains("is undecided until all") && printed.contains(&forgive), "{printed}");
    let ever = "filter ever: what is not in the backup is undecided until you give it up, as nothing expires";
    assert!(printed.contains(ever), "{printed}");
    let client = client(&node, DEADLINE_MS);
    let filter = opened(&client, "clicks");
    let verdicts = ask(&filter, 0..100);
    assert!(
        verdicts.iter().all(|verdict| matches!(verdict, Verdict::Undecided(_))),
        "nothing is decided yet: {verdicts:?}"
    );
    node.folder.run(&format!("filter forgive clicks --yes --cluster {}", node.address));
    eventually("nothing is forgotten", || count(&ask(&filter, 0..100), Verdict::Duplicate) == 100);
    node.folder.run(&format!("cluster restore nowhere --yes --addr {}", node.address)).fails(2, &["no folder nowhere"]);
}

#[test]
fn a_filter_that_is_being_altered_comes_back_without_what_the_former_one_has() {
    let [node] = cluster(["a"]);
    for name in ["clicks", "views"] {
        create(&node, name, "--slicing vertical:2 --window 1h --capacity 1k --clock wall");
    }
    let asked = client(&node, DEADLINE_MS);
    let clicks = opened(&asked, "clicks");
    eventually("it answers", || count(&ask(&clicks, 0..100), Verdict::Duplicate) == 100);
    node.folder.run(&format!("filter alter clicks --capacity 2k --yes --cluster {}", node.address)).ok();
    eventually("both answer", || count(&ask(&clicks, 100..200), Verdict::Duplicate) == 100);
    let backup = |flags: &str| node.folder.run(&format!("cluster backup --addr {} {flags}", node.address));
    let lacks = "filter clicks is in this backup without what was recorded before it was altered";
    let taken = backup("--out one --json").fails(3, &[lacks, "take another one when the alteration is over"]);
    let taken: Value = serde_json::from_str(&taken.out).expect("JSON");
    assert_eq!(taken["left_out"], serde_json::json!([]));
    let got = |filter: &Value| (filter["name"].clone(), filter["altered"].clone(), filter["incomplete_slices"].clone());
    let got: Vec<_> = taken["filters"].as_array().expect("filters").iter().map(got).collect();
    assert_eq!(got, [("views".into(), false.into(), 0.into()), ("clicks".into(), true.into(), 2.into())]);
    assert!(
        backup("--out two --allow-missing").ok().out.contains("2, without what was recorded before it was altered")
    );
    let [other] = cluster(["b"]);
    let one = node.folder.path("one");
    let restore = |flags: &str| {
        other.folder.run(&format!("cluster restore {} --addr {} {flags}", one.display(), other.address)).ok()
    };
    for flags in ["--plan", "--yes"] {
        let got = restore(flags);
        assert!(got.err.contains(lacks), "{}", got.err);
        assert!(got.out.contains("lacks a part of a filter") && !got.out.contains("is whole"), "{}", got.out);
        let is_claimed = got.out.lines().any(|line| line.starts_with("of views, what was recorded before 20"));
        assert_eq!(is_claimed, flags == "--yes", "{}", got.out);
    }
    let asked = client(&other, DEADLINE_MS);
    let clicks = opened(&asked, "clicks");
    let got = ask(&clicks, 0..100);
    assert!(got.iter().all(|got| matches!(got, Verdict::Undecided(_))), "the former one may have any: {got:?}");
    other.folder.run(&format!("filter forgive clicks --yes --cluster {}", other.address)).ok();
    eventually("it decides", || count(&ask(&clicks, 200..300), Verdict::Duplicate) == 100);
    knows(&clicks, 100..200);
}

#[test]
fn a_backup_that_is_broken_off_is_none() {
    let [node] = cluster(["a"]);
    create(&node, "clicks", "--slicing horizontal:1024 --window 1h --capacity 1M");
    let folder = Folder::new();
    let backup = folder.path("backup");
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let mut command = firstseen();
        command.args(["cluster", "backup", "--addr", &node.address, "--out"]).arg(&backup);
        let mut child = command.spawn().expect("the binary");
        eventually("it has begun", || fs::read_dir(backup.join("cells")).is_ok_and(|files| files.count() > 3));
        kill(Pid::from_raw(i32::try_from(child.id()).expect("a process id")), signal).expect("it runs");
        let code = child.wait().expect("it ends").code();
        assert_eq!(code, (signal == Signal::SIGINT).then_some(130));
        assert_eq!(backup.exists(), signal == Signal::SIGKILL, "it takes away what it has begun where it can");
    }
    let restore = format!("cluster restore {} --yes --addr {}", backup.display(), node.address);
    node.folder.run(&restore).fails(2, &["no complete backup", "MANIFEST"]);
    fs::remove_dir_all(&backup).expect("removed");
    let full = format!(
        "trap '' XFSZ; ulimit -f 2; firstseen cluster backup --addr {} --out {}",
        node.address,
        backup.display()
    );
    let ran = folder.shell(&full);
    assert!(ran.code == Some(1) && ran.err.contains("cannot write"), "{:?} {}", ran.code, ran.err);
    assert!(!backup.exists(), "nothing is left");
    node.folder.run("cluster backup --addr 127.0.0.1:1 --out other").fails(1, &["127.0.0.1:1"]);
    assert!(!node.folder.has("other"));
}

#[test]
fn the_next_restore_names_the_filters_that_a_killed_one_has_left() {
    let folder = Folder::new();
    let backup = folder.path("backup");
    let [node] = cluster(["a"]);
    let run = |flags: &str| node.folder.run(flags);
    create(&node, "clicks", "--slicing horizontal:1024 --window 1h --capacity 1M");
    run(&format!("cluster backup --out {} --addr {}", backup.display(), node.address)).ok();
    let drop = |name: &str| format!("filter drop {name} --cluster {}", node.address);
    run(&format!("{} --yes", drop("clicks"))).ok();
    let restore = format!("cluster restore {} --yes --addr {}", backup.display(), node.address);
    let mut child = firstseen().args(restore.split_whitespace()).stdout(Stdio::null()).spawn().expect("the binary");
    eventually("it has begun", || filters(&node).iter().any(|filter| filter["name"] == "restoring:clicks"));
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let half_restored = client(&node, DEADLINE_MS).filter("restoring:clicks").wait().map(|_| "a filter");
    let refused = half_restored.expect_err("producers do not get it").to_string();
    assert!(refused.contains("no filter"), "{refused}");
    let removal = drop("restoring:clicks");
    run(&restore).fails(2, &["was broken off", &format!("\n  firstseen {removal}\n")]);
    run(&format!("{removal} --yes")).ok();
    run(&restore).ok();
    run(&restore).fails(2, &["these names already: clicks."]);
}

/// Flips a bit in the middle of the first file of a node's journal.
fn damage_journal(node: &OwnNode) {
    let folder = node.folder.path("data/journal");
    let file = fs::read_dir(folder).expect("a journal").map(|entry| entry.expect("an entry").path()).min();
    let file = file.expect("a file");
    let mut bytes = fs::read(&file).expect("it can be read");
    let written = bytes.iter().rposition(|byte| *byte != 0).expect("records");
    bytes[written / 2] ^= 4;
    fs::write(&file, &bytes).expect("written");
}

#[test]
fn a_restore_names_the_damaged_journal_that_keeps_it_from_going_on() {
    let folder = Folder::new();
    let backup = folder.path("backup");
    let mut nodes = cluster(["a", "b"]);
    create(&nodes[0], "clicks", "--slicing vertical:2 --window 1h --clock wall --capacity 10k --durability durable");
    {
        let client = client(&nodes[0], DEADLINE_MS);
        let filter = opened(&client, "clicks");
        eventually("every slice answers", || count(&ask(&filter, 0..1_000), Verdict::Duplicate) == 1_000);
    }
    let address = nodes[0].address.clone();
    nodes[0].folder.run(&format!("cluster backup --out {} --addr {address}", backup.display())).ok();
    nodes[0].folder.run(&format!("filter drop clicks --yes --cluster {address}")).ok();
    nodes[1].kill();
    damage_journal(&nodes[1]);
    nodes[1].start_again();
    for asked in [&nodes[1], &nodes[0]] {
        let mut printed = String::new();
        eventually("it says what is wrong", || {
            printed =
                asked.folder.run(&format!("cluster restore {} --yes --addr {}", backup.display(), asked.address)).err;
            printed.contains("node b")
                && printed.contains("is damaged at byte")
                && printed.contains("firstseen node repair")
        });
        assert!(printed.contains("the filters that it had created are dropped"), "{printed}");
    }
}
