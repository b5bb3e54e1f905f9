//! The cells of counting filters. There are two types: one for jumping windows, and one for windows that slide by the
//! number of events.

use serde::{Deserialize, Serialize};

use super::FilterDefinition;
use super::check::refused;
use super::kind_cells::{KindCells, Shape, cell_bits_of};
use super::rates::Rates;
use crate::build_error::BuildError;
use crate::counting::{COUNTER_BITS, JumpingCounting, SlidingCounting, sum_bits};
use crate::rates::plain;
use crate::{Kind, WindowRule};

/// Size of a digest in bits. A filter with a window that slides by the number of events queues digests.
const DIGEST_BITS: u64 = 128;

/// Cells of a counting filter with a jumping window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JumpingCells {
    /// Number of counters.
    pub cells: u64,
    /// Number of positions per event.
    pub hashes: u32,
    /// Maximum number of live events. Beyond it the filter rejects new events. `None` if the user gave only the number
    /// of counters.
    pub events_max: Option<u64>,
}

impl KindCells for JumpingCells {
    fn kind(&self) -> Kind {
        Kind::Counting
    }

    fn shape(&self) -> Shape<'_> {
        Shape::Flat { cells: self.cells, hashes: self.hashes }
    }

    /// Returns the bits per cell: a counter, and one bit for each sub-window that tells whether the sub-window set the
    /// cell.
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
        // The worst load is Q full sub-windows and the current one.
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

/// Cells of a counting filter with a window that slides by the number of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlidingCells {
    /// Number of counters.
    pub cells: u64,
    /// Number of positions per event.
    pub hashes: u32,
    /// Number of events that the window covers.
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

    /// Returns the size of a counting filter in bits, which consists of the counters and the queue. For each event of
    /// the window, the queue has the digest of the event and a bit that tells whether the event was counted.
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
