//! One filter over several nodes.
//!
//! Promises: memory of the slices that `firstseen_routing` cuts, messages and failures by the formulas of
//! [`firstseen_filter::rates`] (K11 3). Must not know: how it is printed.

use std::num::NonZeroU32;

use firstseen_filter::rates::{failures, growth, slicing};
use firstseen_filter::{Ability, FilterDefinition, FilterSpec, Geometry, Layout};
use firstseen_routing::{COPIES_MAX, Cut, DefinitionError, SlicedDefinition, Slicing, SlicingError};
use serde::Serialize;
use thiserror::Error;

/// A filter over nodes, cut both ways.
#[derive(Debug, Serialize)]
pub(super) struct Spread {
    /// One slice a node: the figures for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nodes: Option<u32>,
    /// Nodes that fail at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failures: Option<u32>,
    /// Highest acceptable rate while so many fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failures_fpr: Option<f64>,
    /// Whether its slices can have copies.
    #[serde(skip)]
    pub(super) has_copies: bool,
    /// Events are divided.
    pub(super) horizontal: Sliced,
    /// Cells are divided; this is not possible for every kind and window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vertical: Option<Sliced>,
    /// Why there is no vertical cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) no_vertical: Option<String>,
}

/// One way to cut.
#[derive(Debug, Default, Serialize)]
pub(super) struct Sliced {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) on_nodes: Option<OnNodes>,
    /// Slices that keep the rate acceptable while so many fail (S_f).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slices_for_failures: Option<u64>,
    /// Rate while so many of the nodes fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate_under_failures: Option<f64>,
}

/// One slice a node.
#[derive(Debug, Serialize)]
pub(super) struct OnNodes {
    pub(super) memory_bytes_per_node: u64,
    /// Worst rate while all nodes are up.
    pub(super) rate_worst: f64,
    /// Bits on the wire for one event's positions (and its slice), each position by itself.
    pub(super) wire_bits_per_event: f64,
    /// The same where all positions lie in one block, whose number is sent once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wire_bits_per_event_blocked: Option<f64>,
    /// Slices that a new event visits in a full filter until it meets an unset cell; at most so many where a cell is a
    /// word of generations.
    pub(super) visits_new: f64,
    /// Slices that a duplicate visits; as many are visited to set an event.
    pub(super) visits_duplicate: f64,
}

/// Why a filter cannot be spread.
#[derive(Debug, Error)]
pub(super) enum SpreadError {
    #[error("0 nodes: choose at least 1")]
    NoNodes,
    #[error("{failures} of {nodes} nodes fail: choose fewer failures than nodes")]
    Failures { failures: u32, nodes: u32 },
    #[error("a rate of {rate} while nodes fail: choose one above --fpr {fpr} and below 1")]
    FailuresRate { rate: f64, fpr: f64 },
    #[error(transparent)]
    Slicing(#[from] SlicingError),
    #[error(transparent)]
    Definition(#[from] DefinitionError),
}

impl Spread {
    /// `None` where neither nodes nor failures are asked for.
    pub(super) fn of(
        spec: &FilterSpec,
        nodes: Option<u32>,
        failures: Option<u32>,
        failures_fpr: Option<f64>,
    ) -> Result<Option<Self>, SpreadError> {
        if nodes.is_none() && failures.is_none() {
            return Ok(None);
        }
        if let (Some(nodes), Some(failures)) = (nodes, failures)
            && failures >= nodes.max(1)
        {
            return Err(SpreadError::Failures { failures, nodes });
        }
        let fpr = spec.rate;
        let rate_max = failures_fpr.unwrap_or((10.0 * fpr).min((1.0 + fpr) / 2.0));
        if !(rate_max > fpr && rate_max < 1.0) {
            return Err(SpreadError::FailuresRate { rate: rate_max, fpr });
        }
        let slices = NonZeroU32::new(nodes.unwrap_or(1)).ok_or(SpreadError::NoNodes)?;
        let horizontal = Slices::of(spec, Cut::Horizontal(slices))?.figures(nodes, failures, rate_max)?;
        let vertical = Slices::of(spec, Cut::Vertical(slices));
        let (vertical, no_vertical) = match vertical.and_then(|slices| slices.figures(nodes, failures, rate_max)) {
            Ok(vertical) => (Some(vertical), None),
            Err(SpreadError::Definition(
                reason @ (DefinitionError::Kind { .. } | DefinitionError::CountWindow { .. }),
            )) => (None, Some(reason.to_string())),
            Err(error) => return Err(error),
        };
        let failures_fpr = failures.map(|_| rate_max);
        let has_copies = spec.kind.can(Ability::Parts);
        Ok(Some(Self { nodes, failures, failures_fpr, has_copies, horizontal, vertical, no_vertical }))
    }
}

impl Spread {
    /// Further copies that keep the rate while nodes fail, where slices alone do not keep it.
    pub(super) fn copies(&self) -> Option<u32> {
        let copies = self.failures?;
        let rate_max = self.failures_fpr?;
        let is_kept = self.horizontal.rate_under_failures.is_none_or(|rate| rate <= rate_max);
        let has_nodes = self.nodes.is_some_and(|nodes| nodes > copies);
        (!is_kept && has_nodes && (1..COPIES_MAX as u32 - 1).contains(&copies) && self.has_copies).then_some(copies)
    }
}

/// A filter that is cut, with the figures that the formulas need.
struct Slices {
    is_vertical: bool,
    /// S.
    slices: u32,
    group: FilterDefinition,
    slice_bytes: u64,
    /// Positions of one slice, as many as it has cells (m/S), and positions of an event (k).
    slice_positions: u64,
    hashes: u32,
    /// Worst rate of the whole filter.
    rate: f64,
    /// Generations that an event may be found in.
    generations: f64,
}

impl Slices {
    fn of(spec: &FilterSpec, cut: Cut) -> Result<Self, SpreadError> {
        let sliced = SlicedDefinition::new(spec, Slicing::new(cut)?)?;
        let slice = sliced.slice()?;
        let slice_positions = slice.cells.geometry().map_or(slice.cells.cells(), Geometry::positions);
        let share = spec.capacity_events.unwrap_or(0) as f64 / f64::from(sliced.slicing.groups());
        Ok(Self {
            is_vertical: sliced.slicing.divides_cells(),
            slices: sliced.slicing.slices(),
            slice_bytes: slice.bytes(),
            slice_positions,
            hashes: slice.cells.hashes(),
            rate: sliced.group.rates(share).worst,
            generations: sliced.group.cells.generations_of_cell(&sliced.group.rule) as f64,
            group: sliced.group.clone(),
        })
    }

    fn figures(&self, nodes: Option<u32>, failures: Option<u32>, rate_max: f64) -> Result<Sliced, SpreadError> {
        Ok(Sliced {
            on_nodes: nodes.map(|_| self.on_nodes()),
            slices_for_failures: failures.map(|failed| self.slices_for_failures(failed, rate_max)),
            rate_under_failures: failures.filter(|_| nodes.is_some()).map(|failed| self.rate_under_failures(failed)),
        })
    }

    /// Horizontal `k log2(m/S) + log2(S)`, vertical `k log2(m)` bits on the wire (K11 3, corrected: the paper leaves
    /// out `log2(S)`).
    fn on_nodes(&self) -> OnNodes {
        let hashes = f64::from(self.hashes);
        let slices = f64::from(self.slices);
        let slice_bits = slices.log2();
        let position_bits = (self.slice_positions as f64).log2();
        let (new, duplicate) = if self.is_vertical {
            (
                // The test goes on as long as some generation has all its bits set in the words so far.
                slicing::visits(self.slices, self.hashes, growth::live_rate(self.fill(), self.generations)),
                slicing::slices_touched(self.slices, self.hashes),
            )
        } else {
            (1.0, 1.0)
        };
        OnNodes {
            memory_bytes_per_node: self.slice_bytes,
            rate_worst: self.rate,
            wire_bits_per_event: if self.is_vertical {
                hashes * (position_bits + slice_bits)
            } else {
                hashes * position_bits + slice_bits
            },
            wire_bits_per_event_blocked: self.block_cells().map(|block_cells| {
                let block_bits = block_cells.log2();
                slice_bits + (position_bits - block_bits) + hashes * block_bits
            }),
            visits_new: new,
            visits_duplicate: duplicate,
        }
    }

    fn block_cells(&self) -> Option<f64> {
        let geometry = self.group.cells.geometry()?;
        matches!(geometry.layout(), Layout::Blocked { .. }).then(|| geometry.block_cells() as f64)
    }

    /// The rate of one generation, where the whole filter has `rate`.
    fn generation_rate(&self, rate: f64) -> f64 {
        growth::generation_rate(rate, self.generations)
    }

    /// Share of the cells that are set in a full generation of a classic filter.
    fn fill(&self) -> f64 {
        self.generation_rate(self.rate).powf(1.0 / f64::from(self.hashes))
    }

    fn slices_for_failures(&self, failed: u32, rate_max: f64) -> u64 {
        let failed = f64::from(failed);
        let slices = if self.is_vertical {
            let rate = self.generation_rate(self.rate);
            let rate_max = self.generation_rate(rate_max);
            failures::slices_vertical(failed, rate, rate_max, self.hashes)
        } else {
            failures::slices_horizontal(failed, self.rate, rate_max)
        };
        slices.ceil() as u64
    }

    fn rate_under_failures(&self, failed: u32) -> f64 {
        let down = f64::from(failed) / f64::from(self.slices);
        if self.is_vertical {
            let generation = failures::vertical_as_duplicate(down, self.fill(), self.hashes);
            growth::live_rate(generation, self.generations)
        } else {
            // `rate` is that of the whole, so it counts as that of a single position.
            failures::horizontal_as_duplicate(down, self.rate, 1)
        }
    }
}
