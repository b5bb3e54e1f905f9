//! How often a filter errs, and how large it must be not to err more often.
//!
//! Promises: pure formulas, each with its source beside it, each compared with a simulation in `tests/all/rates.rs`.
//! Must not know: cells, digests, the state of a filter. Rates are over first tests: the chance that an event that no
//! cell stands for is called a duplicate.
//!
//! Short names of the sources: K11 = Koloniari, Ntarmos, Souravlias, Pitoura, "One is Enough: Distributed Filtering
//! for Duplicate Elimination", CIKM 2011. M05 = Metwally, Agrawal, El Abbadi, "Duplicate Detection in Click Streams",
//! WWW 2005. Where a formula differs from the printed one, the function says so.
//!
//! Letters: m cells, k positions an event, n events (distinct ones), P target rate, p fill, B cells of a block,
//! S slices.

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

/// A size that keeps its target rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Distinct events it is sized for: of one window, or of the whole stream where there is none.
    pub events: f64,
    /// Cells (m).
    pub cells: u64,
    /// Positions an event (k).
    pub hashes: u32,
    /// The rate at that load by the formula of the layout; at most the target.
    pub rate: f64,
}

impl Size {
    /// Memory per event, in bits, when a cell has `cell_bits` of them.
    pub fn bits_per_event(&self, cell_bits: u32) -> f64 {
        self.cells as f64 * f64::from(cell_bits) / self.events
    }
}

/// Why no size can be given.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SizingError {
    /// Fewer than one event, or not a number.
    #[error("{} events: choose a finite number, at least 1", number(.0))]
    Events(f64),
    /// A jumping window without jumps.
    #[error("a jumping window of 0 jumps: choose at least 1")]
    Jumps,
    /// A target rate that no filter has.
    #[error("a false positive rate of {}: choose one above 0 and below 1", number(.0))]
    Rate(f64),
    /// A rate that no fingerprints have.
    #[error(
        "a false positive rate of {}: the longest fingerprints give {}; choose that or more",
        number(.rate),
        not_below(.least)
    )]
    Prints {
        /// Target rate asked for.
        rate: f64,
        /// The least one that there is.
        least: f64,
    },
    /// More cells than a filter may have.
    #[error(
        "{} events at a rate of {} need more than {CELLS_MAX} cells: raise the rate, shorten the window, or choose larger blocks",
        number(.events),
        number(.rate)
    )]
    Cells {
        /// Events asked for.
        events: f64,
        /// Target rate asked for.
        rate: f64,
    },
}

impl SizingError {
    /// Refuses numbers that no formula can size.
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

/// The number of events in `0..=most` at which a rising `excess` turns positive.
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

/// The smallest count in `start..=most` whose rate is at most `target`, when `rate` falls with the count.
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
