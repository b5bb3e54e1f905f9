//! Checks whether a cluster can run a filter. The check runs when a user creates the filter. If the cluster cannot run
//! it, the check returns an error that names the unsupported property and suggests an alternative.

use std::num::NonZeroU32;

use firstseen_filter::{Ability, BuildError, CELLS_MAX, Growth, Kind, Refresh, Unit, duration};
use thiserror::Error;

use super::policies::{Durability, FilterPolicies, Thresholds};
use crate::plan::{DefinitionError, GroupPlan, Prober, SlicedBuildError, SlicedDefinition, Slicing};

/// Error returned when a cluster cannot run a filter.
#[derive(Debug, Error)]
pub enum ClusterRefusal {
    /// The filter cannot be built in a single process either.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The definition cannot result from any description of a filter.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The positions of the filter's events cannot be derived.
    #[error(transparent)]
    Positions(#[from] SlicedBuildError),
    /// The timers of one event are spread over several nodes, so no node can see which of them are equal.
    #[error(
        "equal timers ({equal_timers}) cannot be compared over the nodes of slicing `{slicing}`: leave them out, or \
         use `horizontal:S`"
    )]
    EqualTimers {
        /// Requested number of equal timers (k').
        equal_timers: u32,
        /// Requested slicing.
        slicing: Slicing,
    },
    /// The filter would grow by generations of increasing size, which a cluster does not support. The positions of an
    /// event depend on the size of a generation, so the event would have different positions in each generation. A
    /// message between nodes, however, has room for only one list of positions per event.
    #[error(
        "generations that grow in size (ratio {ratio}) cannot run in a cluster, where one set of positions serves all: \
         give --capacity"
    )]
    Ratio {
        /// Requested growth ratio.
        ratio: f64,
    },
    /// The group has more cells than positions can address.
    #[error(
        "{slices} slices of {cells} cells are more than the {CELLS_MAX} cells that positions can name: use fewer slices, or \
         describe a smaller filter"
    )]
    Cells {
        /// Number of slices that share events.
        slices: u32,
        /// Number of cells in each slice.
        cells: u64,
    },
    /// The filter kind does not support a journal, because its cells depend on the order of events and cannot be
    /// restored from a journal.
    #[error("kind {kind} cannot have a journal: use `--durability memory`, or kind {}", Kind::names(Ability::Parts))]
    NoJournal {
        /// Requested kind.
        kind: Kind,
    },
    /// The interval between two syncs of the journal is too short or too long.
    #[error("a durability interval of {interval_ms} ms is not allowed: choose from 10 ms to 1 hour")]
    Interval {
        /// Requested interval in milliseconds.
        interval_ms: u32,
    },
    /// The threshold requires more positions than an event has.
    #[error("{flag} {asked} is refused: {reason}")]
    Threshold {
        /// Flag that sets the threshold.
        flag: &'static str,
        /// Requested threshold.
        asked: u32,
        /// Reason for the rejection.
        reason: String,
    },
    /// The number of copies exceeds the maximum for a slice.
    #[error("{copies} further copies of each slice are not allowed: choose 0 to {COPIES_WANTED_MAX}")]
    Copies {
        /// Requested number of copies.
        copies: u32,
    },
    /// The filter kind does not support copies. Copies of a slice are equal only if cells may be set in any order.
    #[error("kind {kind} cannot have further copies: use `--copies 0`, or kind {}", Kind::names(Ability::Parts))]
    NoCopies {
        /// Requested kind.
        kind: Kind,
    },
    /// The maximum duration of a claim is too short or too long.
    #[error(
        "claims of {} are not allowed: choose from 1s up to the retry horizon, which is {} (`--retry-horizon`)",
        duration(u64::from(*lease_max_ms)), duration(u64::from(*horizon_ms))
    )]
    Lease {
        /// Requested maximum duration in milliseconds.
        lease_max_ms: u32,
        /// Retry horizon in milliseconds, during which a client may retry a request.
        horizon_ms: u32,
    },
    /// The kind of the filter or its window cannot tell for certain which events are recorded, so events cannot be
    /// claimed.
    #[error(
        "events of this filter (kind {kind}) cannot be claimed: use kind {}, a window of time or none, and no \
         `--rule refresh`",
        Kind::names(Ability::KeepForWindow)
    )]
    NoClaims {
        /// Requested kind.
        kind: Kind,
    },
    /// The filter belongs to a tree with top-down checks, so its events cannot be claimed. With such checks, a level
    /// that finds an event asks the levels below whether they know the event too. An event that was claimed at this
    /// level has not passed through the levels below, so they would wrongly report it as unknown.
    #[error("events of a tree with top-down checks cannot be claimed: leave --claims out, or the checks (top_down)")]
    TreeClaims,
}

/// Minimum interval between two syncs of a journal, in milliseconds. Half of the interval is reserved for the disk.
const INTERVAL_MIN_MS: u32 = 10;

/// Maximum interval between two syncs of a journal, in milliseconds.
const INTERVAL_MAX_MS: u32 = 3_600_000;

/// Checks whether a filter with this definition supports the requested durability.
///
/// # Errors
/// Returns [`ClusterRefusal`], which names the unsupported property and an alternative.
pub fn check_durability(definition: &SlicedDefinition, durability: Durability) -> Result<(), ClusterRefusal> {
    match durability {
        Durability::Memory => return Ok(()),
        Durability::Interval { interval_ms } if !(INTERVAL_MIN_MS..=INTERVAL_MAX_MS).contains(&interval_ms) => {
            return Err(ClusterRefusal::Interval { interval_ms });
        }
        Durability::Interval { .. } | Durability::Durable => {}
    }
    let kind = definition.group.cells.kind();
    if kind.can(Ability::Parts) { Ok(()) } else { Err(ClusterRefusal::NoJournal { kind }) }
}

/// Maximum number of copies of a slice in addition to the first.
const COPIES_WANTED_MAX: u32 = 2;

/// Checks whether each slice of a filter can have `copies` additional copies, which the kind of the filter must
/// support.
///
/// # Errors
/// Returns [`ClusterRefusal`], which names the unsupported property and an alternative.
pub fn check_copies(definition: &SlicedDefinition, copies: u32) -> Result<(), ClusterRefusal> {
    let kind = definition.group.cells.kind();
    match kind {
        _ if copies == 0 => Ok(()),
        _ if copies > COPIES_WANTED_MAX => Err(ClusterRefusal::Copies { copies }),
        kind if kind.can(Ability::Parts) => Ok(()),
        kind => Err(ClusterRefusal::NoCopies { kind }),
    }
}

/// Minimum value that an operator can choose for the maximum duration of claims, in milliseconds. A shorter claim could
/// end before the consumer has delivered the event: the call that claims an event already takes a few milliseconds, and
/// a consumer may pause for a moment.
const LEASE_MAX_MS_MIN: u32 = 1_000;

/// Checks whether clients can claim events of a filter with this definition. If the filter belongs to a tree,
/// `top_down` is the lowest level that takes part in the verification of duplicates. It is `None` for a filter outside
/// of trees.
///
/// # Errors
/// Returns [`ClusterRefusal`], which names the unsupported property and an alternative.
pub fn check_claims(
    definition: &SlicedDefinition,
    policies: &FilterPolicies,
    top_down: Option<u8>,
) -> Result<(), ClusterRefusal> {
    let Some(lease_max_ms) = policies.claim_lease_max_ms.map(NonZeroU32::get) else { return Ok(()) };
    let cells = &definition.group.cells;
    let horizon_ms = policies.retry_horizon_ms;
    let counts = matches!(definition.group.unit, Unit::Events(_));
    let keeps = cells.kind().can(Ability::KeepForWindow);
    match () {
        () if top_down.is_some_and(|top_down| top_down > 0) => Err(ClusterRefusal::TreeClaims),
        () if !keeps || counts || cells.refresh() == Refresh::Refresh => {
            Err(ClusterRefusal::NoClaims { kind: cells.kind() })
        }
        () if !(LEASE_MAX_MS_MIN..=horizon_ms.max(LEASE_MAX_MS_MIN)).contains(&lease_max_ms) => {
            Err(ClusterRefusal::Lease { lease_max_ms, horizon_ms })
        }
        () => Ok(()),
    }
}

/// Checks whether the thresholds require no more positions than an event has.
///
/// # Errors
/// Returns [`ClusterRefusal::Threshold`] if they do.
pub fn check_thresholds(definition: &SlicedDefinition, thresholds: Thresholds) -> Result<(), ClusterRefusal> {
    let (hashes, reason) = if definition.slicing.divides_cells() {
        let hashes = GroupPlan::of_level(definition)?.shape().hashes();
        (hashes, format!("an event has {hashes} positions"))
    } else {
        (0, "all positions of an event are in one slice here (see `vertical:S`)".to_owned())
    };
    for (flag, asked) in [("--min-live", thresholds.min_live), ("--set-min", thresholds.set_min)] {
        if asked > hashes {
            return Err(ClusterRefusal::Threshold { flag, asked, reason });
        }
    }
    Ok(())
}

/// Checks whether a cluster can run a filter with this definition.
///
/// ```
/// use firstseen_filter::{FilterSpec, Kind};
/// use firstseen_routing::{SlicedDefinition, check};
/// let spec = FilterSpec {
///     capacity_events: Some(1000),
///     equal_timers: 2,
///     ..FilterSpec::new(Kind::Timing, "1h".parse().unwrap())
/// };
/// let cut = |slicing: &str| SlicedDefinition::new(&spec, slicing.parse().unwrap()).unwrap();
/// assert!(check::check_definition(&cut("horizontal:8")).is_ok());
/// assert!(check::check_definition(&cut("vertical:8")).unwrap_err().to_string().contains("equal timers (2)"));
/// ```
///
/// # Errors
/// Returns [`ClusterRefusal`], which names the unsupported property and an alternative.
pub fn check_definition(definition: &SlicedDefinition) -> Result<(), ClusterRefusal> {
    definition.group.check()?;
    let slice = definition.slice()?;
    slice.check()?;
    let slicing = definition.slicing;
    let equal_timers = slice.cells.equal_timers();
    if equal_timers >= 2 && slicing.divides_cells() {
        return Err(ClusterRefusal::EqualTimers { equal_timers, slicing });
    }
    if let Some(&Growth { ratio, generations_max: 2.., .. }) = slice.cells.growth()
        && ratio != 1.0
    {
        return Err(ClusterRefusal::Ratio { ratio });
    }
    if let Some(geometry) = slice.cells.geometry() {
        let slices = slicing.slices_per_group();
        let cells = geometry.cells();
        if cells.checked_mul(u64::from(slices)).is_none_or(|all| all > CELLS_MAX) {
            return Err(ClusterRefusal::Cells { slices, cells });
        }
    }
    Prober::new(definition)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSpec, Geometry, Kind, Layout};

    use super::*;

    /// Returns a definition in which the number at the JSON pointer `path` is replaced.
    fn with(slicing: &str, path: &str, number: u64) -> SlicedDefinition {
        let spec = FilterSpec { capacity_events: Some(1000), ..FilterSpec::new(Kind::Timing, "1h".parse().unwrap()) };
        let definition = SlicedDefinition::new(&spec, slicing.parse().unwrap()).unwrap();
        let mut json = serde_json::to_value(&definition).unwrap();
        *json.pointer_mut(path).unwrap_or_else(|| panic!("{path} in {definition:?}")) = number.into();
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn what_can_never_be_built_is_refused_by_its_field() {
        for (path, number, said) in [
            ("/group/cells/geometry/cell_bits", 1, "`cell_bits` of the definition is 1"),
            ("/group/cells/growth/generations_max", 4_000_000_000, "`generations_max` of the definition is 4000000000"),
            ("/group/cells/growth/capacity_events", 0, "`capacity_events` of the definition is 0"),
            ("/group/cells/equal_timers", 17, "`equal_timers` of the definition is 17"),
            ("/group/rule/span_units", u64::MAX, "window does not fit its cells"),
            ("/group/unit/milliseconds", 0, "`unit` of the definition is 0"),
            ("/group/rate", 1, "`rate` of the definition is 1"),
        ] {
            for slicing in ["none", "horizontal:4", "vertical:4"] {
                let error = check_definition(&with(slicing, path, number)).unwrap_err().to_string();
                assert!(error.contains(said), "{slicing}, {path}: {error}");
            }
        }
    }

    #[test]
    fn a_group_has_no_more_cells_than_positions_can_name() {
        let mut definition = with("vertical:3", "/group/cells/equal_timers", 0);
        let Some(geometry) = definition.group.cells.divided_geometry_mut() else { panic!("{definition:?}") };
        *geometry = Geometry::new(CELLS_MAX - 1, geometry.hashes(), 8, Layout::Classic).unwrap();
        check_definition(&definition).unwrap();
        let Some(geometry) = definition.group.cells.divided_geometry_mut() else { panic!("{definition:?}") };
        *geometry = Geometry::new(CELLS_MAX, geometry.hashes(), 8, Layout::Classic).unwrap();
        let error = check_definition(&definition).unwrap_err().to_string();
        assert!(error.contains("3 slices of 366503875926 cells"), "{error}");
    }
}
