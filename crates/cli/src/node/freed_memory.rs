//! Returns freed memory to the operating system. The glibc allocator keeps memory that the program has freed for later
//! allocations. After a burst of requests, this can be hundreds of megabytes for as long as the process runs. The call
//! that returns the memory is the only `unsafe` code of this crate.
#![allow(unsafe_code)]

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

/// Interval between two calls. A call takes some milliseconds with a heap of one gigabyte, and usually finds nothing to
/// return.
const EVERY: Duration = Duration::from_secs(10);

/// Returns freed memory to the system in regular intervals, and never completes.
pub(super) async fn give_back() {
    let mut turns = interval(EVERY);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        // The call runs on a blocking thread, because threads that allocate must wait while their part of the heap is
        // processed.
        let _ = tokio::task::spawn_blocking(trim).await;
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    // SAFETY: `malloc_trim` may be called at any time from any thread, and touches only memory that is free
    // (malloc_trim(3)).
    unsafe { libc::malloc_trim(0) };
}

/// Does nothing, because other allocators return memory to the system on their own.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}
