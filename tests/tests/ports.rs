//! Ports for nodes that a test starts itself.
//!
//! They lie below those that the system gives away: a port that the system has named as free may be that of somebody's
//! connection, or of another test's node, before the node listens there or when it is started again.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST_PORT: u16 = 10_000;
const PORTS: u16 = 14_000;

/// The first of `count` ports in a row that no program uses and no other test of this process has.
pub(crate) fn free_ports(count: u16) -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    // Processes that test at the same time begin at places of their own.
    let begin = std::process::id().wrapping_mul(1_009);
    loop {
        let place = begin.wrapping_add(TAKEN.fetch_add(u32::from(count), Ordering::Relaxed)) % u32::from(PORTS - count);
        let first = FIRST_PORT + u16::try_from(place).expect("a small number");
        if (first..first + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return first;
        }
    }
}
