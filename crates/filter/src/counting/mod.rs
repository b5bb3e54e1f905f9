//! Kind `counting`: a filter of small counters instead of bits, so that an event can be removed exactly when it leaves
//! the window (Metwally et al. 2005, sections 3.1, 3.3, 5.2.3 and 5.2.4).
//!
//! A lookup always finds an event that was recorded within the window, whatever values the counters have. After an
//! event has left the window, it has no effect on the counters, unless a counter had reached its maximum.
//!
//! This module does not depend on the meaning of a unit of the window.

mod jumping;
mod queue;
mod sliding;

use thiserror::Error;

use crate::{GeometryError, WindowRule};

pub use jumping::{JumpingCounting, SUB_WINDOWS_MAX};
pub use sliding::{SlidingCounting, WINDOW_EVENTS_MAX};

/// Number of bits in a counter that adds up at most 15, or that may stop at 15.
pub(crate) const COUNTER_BITS: u32 = 4;
/// Number of bits in a counter that adds up more sub-windows.
const WIDE_COUNTER_BITS: u32 = 8;

/// Returns the number of bits in a counter that adds up the sub-windows of `window`.
pub(crate) fn sum_bits(window: &WindowRule) -> u32 {
    if window.span_units < 1 << COUNTER_BITS { COUNTER_BITS } else { WIDE_COUNTER_BITS }
}

/// Reason why a counting filter cannot be created.
#[derive(Debug, Error)]
pub enum CountingError {
    /// The number of cells or positions is invalid.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The number of sub-windows is outside `1..=255`.
    #[error("a window of {0} sub-windows: kind counting has 1 to {SUB_WINDOWS_MAX}; choose longer sub-windows")]
    SubWindows(u64),
    /// The window has lateness, but cells cannot be kept beyond their expiry.
    #[error("lateness of {0} units: kind counting subtracts expired events at once; choose 0, or another kind")]
    Lateness(u64),
    /// The number of arrivals in the window is outside `1..=2^36`.
    #[error("a window of {0} events: choose 1 to {WINDOW_EVENTS_MAX}")]
    WindowEvents(u64),
    /// The operating system does not provide the memory.
    #[error("no memory for the filter: {0}; choose fewer cells or a shorter window")]
    Memory(#[from] std::io::Error),
}
