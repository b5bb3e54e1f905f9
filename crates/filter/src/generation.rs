//! One generation of cells: the memory of a slice, or one of several where the slice has grown.
//!
//! Promises: counts what lives in it without reading its cells. Must not know: what a cell means.

use std::collections::VecDeque;

use crate::memory::CellMemory;
use crate::{Geometry, WindowRule};

/// Cells of one geometry, what was recorded in them, and how far the background sweep has come.
pub(crate) struct Generation {
    pub(crate) geometry: Geometry,
    pub(crate) memory: CellMemory,
    pub(crate) live: LiveEvents,
    /// Cells in use, where the kind keeps count.
    pub(crate) used_cells: u64,
    /// Bytes from the start of the memory that the sweep of the current period has passed.
    pub(crate) swept_bytes: usize,
}

impl Generation {
    pub(crate) fn new(geometry: Geometry) -> std::io::Result<Self> {
        let bytes = usize::try_from(geometry.bytes()).map_err(|_| std::io::ErrorKind::OutOfMemory)?;
        let memory = CellMemory::zeroed(bytes)?;
        Ok(Self { geometry, memory, live: LiveEvents::default(), used_cells: 0, swept_bytes: 0 })
    }

    /// Back to the state of a new generation.
    pub(crate) fn clear(&mut self) {
        self.memory.clear();
        self.live = LiveEvents::default();
        self.used_cells = 0;
        self.swept_bytes = 0;
    }
}

/// Events recorded and not yet expired, by the unit in which they occurred.
///
/// Better than K11's cardinality, which cannot be decremented as events expire: a number a unit can.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveEvents {
    by_unit: VecDeque<(u64, u64)>,
    total: u64,
    newest_unit: Option<u64>,
}

impl LiveEvents {
    /// Counts `events` recorded in units up to `unit`.
    pub(crate) fn record(&mut self, unit: u64, events: u64) {
        if events == 0 {
            return;
        }
        self.total += events;
        self.newest_unit = self.newest_unit.max(Some(unit));
        match self.by_unit.back_mut() {
            // Units never step back here: a late event counts with the newest, so it is kept a little too long.
            Some((newest, count)) if *newest >= unit => *count += events,
            _ => self.by_unit.push_back((unit, events)),
        }
    }

    /// Forgets what has expired when the greatest unit is `now`.
    pub(crate) fn advance(&mut self, rule: &WindowRule, now: u64) {
        while let Some(&(unit, events)) = self.by_unit.front() {
            if rule.expiry(unit) > now {
                break;
            }
            self.total -= events;
            self.by_unit.pop_front();
        }
    }

    /// Events alive.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The greatest unit in which something was recorded, expired or not.
    pub(crate) fn newest_unit(&self) -> Option<u64> {
        self.newest_unit
    }

    /// The same, with the greatest unit ever recorded.
    pub(crate) fn with_newest_unit(self, newest_unit: Option<u64>) -> Self {
        Self { newest_unit, ..self }
    }

    /// Pairs of (unit, events) in rising order of units.
    pub(crate) fn by_unit(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.by_unit.iter().copied()
    }
}
