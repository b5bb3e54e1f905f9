//! How much a node's memory grows while it refuses events or messages. This is a process of its own: its memory is
//! measured, so no other test may run in it, and these one at a time.

#[path = "../all/common/mod.rs"]
mod common;
mod overload;
mod unfinished;

use std::fs;

use tokio::sync::Mutex;

/// Held by the test that measures the memory of the process.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Memory of this process that is in use.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}
