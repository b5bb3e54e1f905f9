//! Measures how much the memory of a node grows while the node rejects events or messages. The operating system reports
//! only the memory of a whole process. Each of these tests therefore needs a process of its own, in which no other test
//! runs at the same time.

#[path = "../all/common/mod.rs"]
mod common;
mod overload;
mod unfinished;

use std::fs;

use tokio::sync::Mutex;

/// Held by the test that currently measures the memory of the process.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Returns the resident memory of this process in bytes.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}
