//! Chooses ports for nodes that a test starts itself.
//!
//! All ports of the tests are below the range from which the operating system assigns ports. If a test asked the system
//! for a free port instead, the system could assign the same port to another connection before the node listens on it,
//! or while the node restarts.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST_PORT: u16 = 10_000;
const PORTS: u16 = 14_000;

/// Returns the first of `count` consecutive ports that no program uses and that no other test of this process has
/// received.
pub(crate) fn free_ports(count: u16) -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    // Test processes that run at the same time begin at different ports.
    let begin = std::process::id().wrapping_mul(1_009);
    loop {
        let place = begin.wrapping_add(TAKEN.fetch_add(u32::from(count), Ordering::Relaxed)) % u32::from(PORTS - count);
        let first = FIRST_PORT + u16::try_from(place).expect("a small number");
        if (first..first + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return first;
        }
    }
}
