//! Which filters a cluster can run.
//!
//! Promises: what is refused is refused by name when it is created, with what to do instead. Must not know: nodes.

use firstseen_filter::{CellDefinition, Growth, Unit};
use thiserror::Error;

use crate::{DefinitionError, SlicedDefinition, Slicing};

/// Why a filter cannot run in a cluster.
#[derive(Debug, Error)]
pub enum ClusterRefusal {
    /// It cannot be built in one place either.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A unit without length.
    #[error("the definition's window counts in units of nothing: describe the filter with a window")]
    Unit,
    /// Timers of one event lie on several nodes, and none of them sees which are equal.
    #[error(
        "equal timers ({equal_timers}) cannot be compared over the nodes of slicing `{slicing}`: leave them out, or \
         use `horizontal:S`"
    )]
    EqualTimers {
        /// k' that was asked for.
        equal_timers: u32,
        /// The slicing asked for.
        slicing: Slicing,
    },
    /// Generations of different sizes need positions of their own each.
    #[error(
        "generations that grow in size (ratio {ratio}) cannot run in a cluster, where one set of positions serves all: \
         give --capacity"
    )]
    Ratio {
        /// The growth that was asked for.
        ratio: f64,
    },
    /// A group has more cells than positions can name.
    #[error("{slices} slices of {cells} cells are more than positions can name: use fewer slices")]
    Cells {
        /// Slices that share events.
        slices: u32,
        /// Cells of each.
        cells: u64,
    },
}

/// Whether a cluster can run a filter of this definition.
///
/// ```
/// use firstseen_filter::{FilterSpec, Kind};
/// use firstseen_routing::{SlicedDefinition, divided};
/// let spec = FilterSpec {
///     capacity_events: Some(1000),
///     equal_timers: 2,
///     ..FilterSpec::new(Kind::Timing, "1h".parse().unwrap())
/// };
/// let cut = |slicing: &str| SlicedDefinition::new(&spec, slicing.parse().unwrap()).unwrap();
/// assert!(divided::check(&cut("horizontal:8")).is_ok());
/// assert!(divided::check(&cut("vertical:8")).unwrap_err().to_string().contains("equal timers (2)"));
/// ```
///
/// # Errors
/// [`ClusterRefusal`]: what cannot be, and what to do instead.
pub fn check(definition: &SlicedDefinition) -> Result<(), ClusterRefusal> {
    let slice = definition.slice()?;
    if let Unit::Milliseconds(0) | Unit::Events(0) = slice.unit {
        return Err(ClusterRefusal::Unit);
    }
    let slicing = definition.slicing;
    if let CellDefinition::Timing { equal_timers: equal_timers @ 2.., .. } = slice.cells
        && slicing.divides_cells()
    {
        return Err(ClusterRefusal::EqualTimers { equal_timers, slicing });
    }
    if let Some(Growth { ratio, generations_max: 2.., .. }) = growth_of(&slice.cells)
        && ratio != 1.0
    {
        return Err(ClusterRefusal::Ratio { ratio });
    }
    if let CellDefinition::Bloom { geometry, .. }
    | CellDefinition::Timing { geometry, .. }
    | CellDefinition::Generations { geometry, .. } = slice.cells
    {
        let (slices, cells) = (slicing.slices_per_group(), geometry.cells());
        if cells.checked_mul(u64::from(slices)).is_none() {
            return Err(ClusterRefusal::Cells { slices, cells });
        }
    }
    Ok(())
}

/// How a kind that lives in generations of cells grows.
pub(crate) fn growth_of(cells: &CellDefinition) -> Option<Growth> {
    match cells {
        CellDefinition::Bloom { growth, .. }
        | CellDefinition::Timing { growth, .. }
        | CellDefinition::Generations { growth, .. } => *growth,
        _ => None,
    }
}
