//! Computes how a filter behaves when it is spread over several nodes. The memory per node follows from the slices that
//! `firstseen_routing` creates. The numbers for messages and for failed nodes follow from the formulas of
//! [`firstseen_filter::rates`] (Koloniari et al. 2011, section 3).

use std::num::NonZeroU32;

use firstseen_filter::rates::{failures, growth, slicing};
use firstseen_filter::{Ability, FilterDefinition, FilterSpec, Geometry, Layout};
use firstseen_routing::{COPIES_MAX, Cut, DefinitionError, SlicedDefinition, Slicing, SlicingError};
use serde::Serialize;
use thiserror::Error;

/// Maximum number of further copies of a slice. One place is left for a copy that replaces another.
pub(super) const FURTHER_COPIES_MAX: u32 = COPIES_MAX as u32 - 2;

/// A filter over several nodes, computed for horizontal and for vertical slicing.
#[derive(Debug, Serialize)]
pub(super) struct Spread {
    /// Number of nodes, with one slice each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nodes: Option<u32>,
    /// Number of nodes that fail at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failures: Option<u32>,
    /// Highest acceptable false-positive rate while these nodes are down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failures_fpr: Option<f64>,
    /// Number of further copies of each slice that the printed command asks for. The other numbers are those of a
    /// filter without further copies.
    #[serde(skip)]
    pub(super) planned_copies: u32,
    /// Whether slices of this filter can have copies.
    #[serde(skip)]
    pub(super) has_copies: bool,
    /// Results for horizontal slicing, where each slice has a part of the events.
    pub(super) horizontal: Sliced,
    /// Results for vertical slicing, where each slice has a part of the cells. Not every kind and window supports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vertical: Option<Sliced>,
    /// Why vertical slicing is not possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) no_vertical: Option<String>,
}

/// Results for one way of slicing.
#[derive(Debug, Default, Serialize)]
pub(super) struct Sliced {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) on_nodes: Option<OnNodes>,
    /// Number of slices that keeps the rate acceptable while these nodes are down (S_f).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slices_for_failures: Option<u64>,
    /// False-positive rate while these nodes are down, if the filter has no further copies and its events on slices
    /// that are down are reported as duplicates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate_under_failures: Option<f64>,
}

/// Results for one slice per node.
#[derive(Debug, Serialize)]
pub(super) struct OnNodes {
    pub(super) memory_bytes_per_node: u64,
    /// Worst false-positive rate while all nodes are up.
    pub(super) rate_worst: f64,
    /// Bits on the network for the positions of one event (and its slice), if each position is sent separately.
    pub(super) wire_bits_per_event: f64,
    /// Bits on the network for one event if all positions lie in one block, whose number is sent once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wire_bits_per_event_blocked: Option<f64>,
    /// Mean number of slices that the lookup of a new event visits when the filter is full. A lookup goes from slice to
    /// slice and ends at the first empty cell, because an empty cell proves that the event is new.
    ///
    /// For a filter whose cells store several generations in one word, the number is an upper bound, because a lookup
    /// may end earlier.
    pub(super) visits_new: f64,
    /// Mean number of slices that a duplicate visits. Setting the cells of an event visits the same number.
    pub(super) visits_duplicate: f64,
}

/// Why a filter cannot be spread over nodes.
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
    /// Computes the plan over several nodes. Returns `None` if neither nodes nor failures are asked for.
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
        Ok(Some(Self {
            nodes,
            failures,
            failures_fpr,
            planned_copies: 0,
            has_copies,
            horizontal,
            vertical,
            no_vertical,
        }))
    }
}

impl Spread {
    /// Returns the number of further copies that keeps the rate while nodes fail, if slices alone cannot keep it.
    pub(super) fn copies(&self) -> Option<u32> {
        let copies = self.failures?;
        let rate_max = self.failures_fpr?;
        let is_kept = self.horizontal.rate_under_failures.is_none_or(|rate| rate <= rate_max);
        let has_nodes = self.nodes.is_some_and(|nodes| nodes > copies);
        (!is_kept && has_nodes && (1..=FURTHER_COPIES_MAX).contains(&copies) && self.has_copies).then_some(copies)
    }
}

/// A sliced filter, with the numbers that the formulas need.
struct Slices {
    is_vertical: bool,
    /// Number of slices (S).
    slices: u32,
    group: FilterDefinition,
    slice_bytes: u64,
    /// Number of positions of one slice, which equals its number of cells (m/S), and number of positions per event (k).
    slice_positions: u64,
    hashes: u32,
    /// Worst false-positive rate of the whole filter.
    rate: f64,
    /// Number of generations in which an event may be found.
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

    /// Computes the results for a filter with one slice per node. One of the results is the number of bits that an
    /// event takes on the network (Koloniari et al. 2011, section 3). In the following formulas, `k` is the number of
    /// positions of an event, `m` is the number of cells of the filter, and `S` is the number of slices.
    ///
    /// - With horizontal slicing, an event is sent as the number of its slice and `k` positions within the slice. This
    ///   takes `k log2(m/S) + log2(S)` bits. The term `log2(S)` is missing in the paper.
    /// - With vertical slicing, an event is sent as `k` positions in the whole filter. This takes `k log2(m)` bits.
    fn on_nodes(&self) -> OnNodes {
        let hashes = f64::from(self.hashes);
        let slices = f64::from(self.slices);
        let slice_bits = slices.log2();
        let position_bits = (self.slice_positions as f64).log2();
        let (new, duplicate) = if self.is_vertical {
            (
                // A lookup goes on to the next slice as long as some generation has all its bits set in the words read
                // so far.
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

    /// Returns the false-positive rate of one generation if the whole filter has `rate`.
    fn generation_rate(&self, rate: f64) -> f64 {
        growth::generation_rate(rate, self.generations)
    }

    /// Returns the share of cells that are set in a full generation of a classic filter.
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
            // The formula is applied with one position, because `rate` is the rate of the whole filter.
            failures::horizontal_as_duplicate(down, self.rate, 1)
        }
    }
}
