//! The cells of a filter of kind counting, of which there are two: one for jumping windows, one for windows that slide by
//! count.

use serde::{Deserialize, Serialize};

use super::FilterDefinition;
use super::check::refused;
use super::kind_cells::{KindCells, Shape, cell_bits_of};
use super::rates::Rates;
use crate::build_error::BuildError;
use crate::counting::{COUNTER_BITS, JumpingCounting, SlidingCounting, sum_bits};
use crate::rates::plain;
use crate::{Kind, WindowRule};

/// Bits of a digest in the queue of a window that slides by count.
const DIGEST_BITS: u64 = 128;

/// Counters of [`Kind::Counting`] with a jumping window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JumpingCells {
    /// Counters.
    pub cells: u64,
    /// Positions an event.
    pub hashes: u32,
    /// Events alive at once beyond which it refuses; none where only its size was given.
    pub events_max: Option<u64>,
}

impl KindCells for JumpingCells {
    fn kind(&self) -> Kind {
        Kind::Counting
    }

    fn shape(&self) -> Shape<'_> {
        Shape::Flat { cells: self.cells, hashes: self.hashes }
    }

    /// A counter, and for each sub-window a bit that says whether it set the cell.
    fn cell_bits(&self, rule: &WindowRule) -> u64 {
        u64::from(sum_bits(rule)).saturating_add(rule.span_units)
    }

    fn check(&self, rule: WindowRule) -> Result<(), BuildError> {
        JumpingCounting::check(self.cells, self.hashes, rule)?;
        match self.events_max {
            Some(0) => Err(refused("events_max", 0, "choose at least 1")),
            _ => Ok(()),
        }
    }

    fn rates(&self, definition: &FilterDefinition, events: f64) -> Rates {
        let cells = self.cells as f64;
        // Q full sub-windows, and the current one.
        let jumps = (definition.rule.span_units - 1) as f64;
        let events_max = events * (jumps + 1.0) / jumps;
        Rates {
            worst: plain::rate(cells, self.hashes, events_max),
            mean: plain::mean_between(cells, self.hashes, events, events_max),
        }
    }

    fn refuses(&self) -> bool {
        self.events_max.is_some()
    }
}

/// Counters of [`Kind::Counting`] sliding by count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlidingCells {
    /// Counters.
    pub cells: u64,
    /// Positions an event.
    pub hashes: u32,
    /// Events that the window covers.
    pub window_events: u64,
}

impl KindCells for SlidingCells {
    fn kind(&self) -> Kind {
        Kind::Counting
    }

    fn shape(&self) -> Shape<'_> {
        Shape::Flat { cells: self.cells, hashes: self.hashes }
    }

    fn cell_bits(&self, _: &WindowRule) -> u64 {
        u64::from(COUNTER_BITS)
    }

    /// The counters, and a queue with the digest of each event of the window and a bit that says whether it was counted.
    fn bits(&self, rule: &WindowRule, line_cells: u64) -> u128 {
        let queued_bits = u128::from(self.window_events) * u128::from(DIGEST_BITS);
        let flag_bits = cell_bits_of(self.window_events, line_cells, 1);
        cell_bits_of(self.cells, line_cells, self.cell_bits(rule)) + queued_bits + flag_bits
    }

    fn check(&self, _: WindowRule) -> Result<(), BuildError> {
        SlidingCounting::check(self.cells, self.hashes, self.window_events)?;
        Ok(())
    }

    fn rates(&self, _: &FilterDefinition, _events: f64) -> Rates {
        Rates::steady(plain::rate(self.cells as f64, self.hashes, self.window_events as f64))
    }

    fn slides(&self) -> bool {
        true
    }
}
