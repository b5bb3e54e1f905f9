//! What a node's memory grows by under what it must refuse. A process of its own: its memory is looked at, so nothing else may
//! run in it, and one test at a time.

#[path = "../all/common/mod.rs"]
mod common;
mod overload;
mod unfinished;

use std::fs;

use tokio::sync::Mutex;

/// Held by the test that looks at the memory of the process.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Memory of this process that is in use.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}
