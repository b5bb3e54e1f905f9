//! Gives freed memory back to the system.
//!
//! The allocator of glibc keeps what was freed for the next who asks. After a burst, as of clients that read no replies, that is hundreds
//! of megabytes for the rest of the node's life. The only `unsafe` of this crate is here: a call without arguments that point anywhere.
#![allow(unsafe_code)]

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

/// How often it is done. A call takes some milliseconds with a heap of a gigabyte, and there is nothing to do for it in most.
const EVERY: Duration = Duration::from_secs(10);

/// Gives freed memory back again and again.
pub(super) async fn give_back() {
    let mut turns = interval(EVERY);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        // Other threads that allocate wait for the part of the heap in hand.
        let _ = tokio::task::spawn_blocking(trim).await;
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    // SAFETY: `malloc_trim` may be called at any time from any thread, and touches only memory that is free (malloc_trim(3)).
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators give memory back by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}
