//! `counting`: small counters, so that an event that leaves the window can be taken out again (M05 3.1, 3.3, 5.2.3,
//! 5.2.4).
//!
//! Promises: an event recorded within the window is never unseen, whatever the counters reach; an event that has left
//! the window leaves no trace in a counter below its maximum. Must not know: what a unit of the window is.

mod jumping;
mod queue;
mod sliding;

use thiserror::Error;

use crate::{GeometryError, WindowRule};

pub use jumping::{JumpingCounting, SUB_WINDOWS_MAX};
pub use sliding::{SlidingCounting, WINDOW_EVENTS_MAX};

/// Bits of a counter that at most 15 is added to, or that may stop there.
pub(crate) const COUNTER_BITS: u32 = 4;
/// Bits of a counter of more sub-windows.
const WIDE_COUNTER_BITS: u32 = 8;

/// Bits of a counter that adds up the sub-windows of `window`.
pub(crate) fn sum_bits(window: &WindowRule) -> u32 {
    if window.span_units < 1 << COUNTER_BITS { COUNTER_BITS } else { WIDE_COUNTER_BITS }
}

/// Why a counting filter cannot be made.
#[derive(Debug, Error)]
pub enum CountingError {
    /// The cells or positions are impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The number of sub-windows is outside `1..=255`.
    #[error("a window of {0} sub-windows: the counting kind adds up 1 to {SUB_WINDOWS_MAX}; choose longer sub-windows")]
    SubWindows(u64),
    /// Cells cannot be kept beyond their expiry.
    #[error("lateness of {0} units: the counting kind subtracts what expires at once; choose 0, or another kind")]
    Lateness(u64),
    /// The number of arrivals in the window is outside `1..=2^36`.
    #[error("a window of {0} events: choose 1 to {WINDOW_EVENTS_MAX}")]
    WindowEvents(u64),
    /// The system refused the memory.
    #[error("no memory for the filter: {0}; choose fewer cells or a shorter window")]
    Memory(#[from] std::io::Error),
}
