//! Memory budget that all connections share. It covers commands that are incomplete or wait for `EXEC`, and claims that
//! connections hold.
//!
//! This module does not depend on connections.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Unit in which memory is taken from the budget, in bytes.
pub const ROOM_BYTES: usize = 64 << 10;

/// Creates a budget of `bytes_max` bytes, with one permit for each [`ROOM_BYTES`].
pub fn room(bytes_max: u64) -> Arc<Semaphore> {
    let permits = usize::try_from(bytes_max).unwrap_or(usize::MAX).div_ceil(ROOM_BYTES);
    Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)))
}
