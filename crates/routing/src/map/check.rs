//! Which filters a cluster can run.
//!
//! Promises: a filter is refused by name when it is created, with what to do instead. Must not know: nodes.

use std::num::NonZeroU32;

use firstseen_filter::{Ability, BuildError, CELLS_MAX, Growth, Kind, Refresh, Unit, duration};
use thiserror::Error;

use super::policies::{Durability, FilterPolicies, Thresholds};
use crate::plan::{DefinitionError, GroupPlan, Prober, SlicedBuildError, SlicedDefinition, Slicing};

/// Why a filter cannot run in a cluster.
#[derive(Debug, Error)]
pub enum ClusterRefusal {
    /// The filter cannot be built in one place either.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The definition follows from no description of a filter.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The positions of the filter's events cannot be derived.
    #[error(transparent)]
    Positions(#[from] SlicedBuildError),
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
    #[error(
        "{slices} slices of {cells} cells are more than the {CELLS_MAX} cells that positions can name: use fewer slices, or \
         describe a smaller filter"
    )]
    Cells {
        /// Slices that share events.
        slices: u32,
        /// Cells of each.
        cells: u64,
    },
    /// The kind's cells depend on the order of events, so a journal cannot give them back.
    #[error("kind {kind} keeps no journal: use `--durability memory`, or kind {}", Kind::names(Ability::Parts))]
    NoJournal {
        /// The kind that was asked for.
        kind: Kind,
    },
    /// A journal cannot be synced so seldom, or so often.
    #[error("a durability interval of {interval_ms} ms is refused: from 10 ms to 1 hour")]
    Interval {
        /// The interval that was asked for.
        interval_ms: u32,
    },
    /// Positions that no event has cannot be required.
    #[error("{flag} {asked} is refused: {reason}")]
    Threshold {
        /// The flag that asks for it.
        flag: &'static str,
        /// The threshold.
        asked: u32,
        /// Why not.
        reason: String,
    },
    /// More copies than a slice can have.
    #[error("{copies} copies of each slice are refused: 0 to {COPIES_WANTED_MAX} beside the first")]
    Copies {
        /// What was asked for.
        copies: u32,
    },
    /// Only cells that may be set in any order are the same on all copies.
    #[error("kind {kind} has no copies: use `--copies 0`, or kind {}", Kind::names(Ability::Parts))]
    NoCopies {
        /// The kind that was asked for.
        kind: Kind,
    },
    /// Levels of a tree have one copy.
    #[error("slices of a tree have no copies: use `--copies 0`")]
    TreeCopies,
    /// An event cannot be held for so long, or so short.
    #[error(
        "claims of {} are refused: give 1s to the retry horizon, which is {} (`--retry-horizon`)",
        duration(u64::from(*lease_max_ms)), duration(u64::from(*horizon_ms))
    )]
    Lease {
        /// What was asked for.
        lease_max_ms: u32,
        /// For how long a submission may come again.
        horizon_ms: u32,
    },
    /// The kind, or its window, cannot say for sure what is recorded.
    #[error(
        "events of this filter (kind {kind}) cannot be claimed: it wants kind {}, a window of time or none, and no \
         `--rule refresh`",
        Kind::names(Ability::KeepForWindow)
    )]
    NoClaims {
        /// The kind that was asked for.
        kind: Kind,
    },
    /// Only levels below are asked whether they know an event, and what is claimed has come from none of them.
    #[error("events of a tree with top-down checks cannot be claimed: leave --claims out, or the checks (top_down)")]
    TreeClaims,
    /// Levels of a tree keep the events that they have decided alone in memory.
    #[error("filters of a tree keep no journal: use `--durability memory`")]
    TreeJournal,
}

/// The shortest interval after which a journal is synced: half of it is for the disk.
const INTERVAL_MIN_MS: u32 = 10;

/// The longest.
const INTERVAL_MAX_MS: u32 = 3_600_000;

/// Whether a filter of this definition, in a tree or not, can be as durable as asked.
///
/// # Errors
/// [`ClusterRefusal`]: what cannot be, and what to do instead.
pub fn check_durability(
    definition: &SlicedDefinition,
    durability: Durability,
    is_in_tree: bool,
) -> Result<(), ClusterRefusal> {
    match durability {
        Durability::Memory => return Ok(()),
        Durability::Interval { interval_ms } if !(INTERVAL_MIN_MS..=INTERVAL_MAX_MS).contains(&interval_ms) => {
            return Err(ClusterRefusal::Interval { interval_ms });
        }
        Durability::Interval { .. } | Durability::Durable => {}
    }
    let kind = definition.group.cells.kind();
    match kind {
        _ if is_in_tree => Err(ClusterRefusal::TreeJournal),
        kind if kind.can(Ability::Parts) => Ok(()),
        kind => Err(ClusterRefusal::NoJournal { kind }),
    }
}

/// Copies of a slice beside the first at most.
const COPIES_WANTED_MAX: u32 = 2;

/// Whether slices of a filter of this definition, in a tree or not, can have so many further copies.
///
/// # Errors
/// [`ClusterRefusal`]: what cannot be, and what to do instead.
pub fn check_copies(definition: &SlicedDefinition, copies: u32, is_in_tree: bool) -> Result<(), ClusterRefusal> {
    let kind = definition.group.cells.kind();
    match kind {
        _ if copies == 0 => Ok(()),
        _ if copies > COPIES_WANTED_MAX => Err(ClusterRefusal::Copies { copies }),
        _ if is_in_tree => Err(ClusterRefusal::TreeCopies),
        kind if kind.can(Ability::Parts) => Ok(()),
        kind => Err(ClusterRefusal::NoCopies { kind }),
    }
}

/// The shortest greatest lease: a claim takes a few milliseconds, and a consumer that stops for a moment is not to lose it.
const LEASE_MAX_MS_MIN: u32 = 1_000;

/// Whether events of a filter of this definition can be claimed, where it is in no tree, or in one whose finds are checked down to a
/// level.
///
/// # Errors
/// [`ClusterRefusal`]: what cannot be, and what to do instead.
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

/// Whether so many positions of an event can be required.
///
/// # Errors
/// [`ClusterRefusal::Threshold`].
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

/// Whether a cluster can run a filter of this definition.
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
/// [`ClusterRefusal`]: what cannot be, and what to do instead.
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

    /// A definition in JSON, and the same with another number at `path`.
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
