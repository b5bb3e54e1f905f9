//! False-positive rates of filters, and the sizes that keep the rate below a target.
//!
//! All functions of this module are pure formulas, and their documentation names their sources. The rates refer to
//! first tests: a rate is the probability that an event is called a duplicate although no cell was set for it.
//!
//! The tests in `tests/all/rates.rs` compare the formulas with simulations or with numbers that the papers print. There
//! are two exceptions. The formula of [`cuckoo`] is compared with real filters in `tests/all/cuckoo_sizes.rs`. The
//! functions of [`growth`] have no tests of their own except the examples in their documentation.
//!
//! This module does not depend on cells, digests or the state of a filter.
//!
//! The sources have short names. K11 is Koloniari, Ntarmos, Souravlias, Pitoura, "One is Enough: Distributed Filtering
//! for Duplicate Elimination", CIKM 2011. M05 is Metwally, Agrawal, El Abbadi, "Duplicate Detection in Click Streams",
//! WWW 2005. If a formula differs from the one that a paper prints, the documentation of the function says so.
//!
//! The formulas use these letters: m cells, k positions per event, n distinct events, P target rate, p fill, B cells of
//! a block, S slices.

pub mod band;
pub mod blocked;
pub mod cuckoo;
pub mod failures;
pub mod generations;
pub mod growth;
mod mean;
pub mod plain;
pub mod slicing;
pub mod stable;
pub mod timing;

use thiserror::Error;

use crate::geometry::CELLS_MAX;
use crate::number::{not_below, number};

/// Size of a filter that achieves its target rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Number of distinct events for which the filter is sized. They are the events of one window, or of the whole
    /// stream if there is no window.
    pub events: f64,
    /// Number of cells (m).
    pub cells: u64,
    /// Number of positions per event (k).
    pub hashes: u32,
    /// Rate at this load by the formula of the layout. It is at most the target rate.
    pub rate: f64,
}

impl Size {
    /// Returns the memory per event in bits, if a cell has `cell_bits` bits.
    pub fn bits_per_event(&self, cell_bits: u32) -> f64 {
        self.cells as f64 * f64::from(cell_bits) / self.events
    }
}

/// Reason why there is no size.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SizingError {
    /// The number of events is below one, or not a number.
    #[error("{} events: choose a finite number, at least 1", number(.0))]
    Events(f64),
    /// The jumping window has no jumps.
    #[error("a jumping window of 0 jumps: choose at least 1")]
    Jumps,
    /// The target rate is not between 0 and 1.
    #[error("a false positive rate of {}: choose one above 0 and below 1", number(.0))]
    Rate(f64),
    /// The target rate is lower than that of the longest fingerprints.
    #[error(
        "a false positive rate of {}: the longest fingerprints give {}; choose that or more",
        number(.rate),
        not_below(.least)
    )]
    Prints {
        /// Requested target rate.
        rate: f64,
        /// Lowest possible rate.
        least: f64,
    },
    /// More cells are needed than a filter may have.
    #[error(
        "{} events at a rate of {} need more than {CELLS_MAX} cells: raise the rate, shorten the window, or choose larger blocks",
        number(.events),
        number(.rate)
    )]
    Cells {
        /// Requested number of events.
        events: f64,
        /// Requested target rate.
        rate: f64,
    },
}

impl SizingError {
    /// Rejects numbers for which no formula gives a size.
    fn check(events: f64, rate: f64) -> Result<(), Self> {
        if !(events.is_finite() && events >= 1.0) {
            return Err(Self::Events(events));
        }
        if !(rate > 0.0 && rate < 1.0) {
            return Err(Self::Rate(rate));
        }
        Ok(())
    }
}

/// Returns the number of events in `0..=most` at which an increasing function `excess` becomes positive.
fn turning_point(most: f64, mut excess: impl FnMut(f64) -> f64) -> f64 {
    let mut below = 0.0;
    let mut above = most;
    while above - below > 1e-9 * most {
        let middle = (below + above) / 2.0;
        if excess(middle) > 0.0 {
            above = middle;
        } else {
            below = middle;
        }
    }
    above
}

/// Returns the smallest count in `start..=most` whose rate is at most `target`. `rate` must decrease with the count.
fn least_count(start: u64, most: u64, target: f64, mut rate: impl FnMut(u64) -> f64) -> Option<u64> {
    let mut enough = start.clamp(1, most);
    let mut below = enough - 1;
    while rate(enough) > target {
        if enough >= most {
            return None;
        }
        below = enough;
        enough = (enough * 2).min(most);
    }
    while enough - below > 1 {
        let middle = below + (enough - below) / 2;
        if rate(middle) > target {
            below = middle;
        } else {
            enough = middle;
        }
    }
    Some(enough)
}
