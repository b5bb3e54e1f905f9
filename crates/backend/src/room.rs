//! The room for bytes that all connections share: of commands that have not come whole or wait
//! for `EXEC`, and of claims that connections know.
//!
//! Must not know: connections.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Bytes of room that are taken from the others at once.
pub const ROOM_BYTES: usize = 64 << 10;

/// The room for so many bytes, a permit for each [`ROOM_BYTES`] of them.
pub fn room(bytes_max: u64) -> Arc<Semaphore> {
    let permits = usize::try_from(bytes_max).unwrap_or(usize::MAX).div_ceil(ROOM_BYTES);
    Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)))
}
