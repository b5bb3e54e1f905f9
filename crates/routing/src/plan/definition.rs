//! The definition of a sliced filter: what a user asks for and a slicing, checked against each other.
//!
//! Promises: a filter that cannot be sliced as asked is refused by name, with what to do instead; definitions
//! that answer alike give equal answers. Must not know: the state of a filter.

use firstseen_filter::{
    Ability, FilterDefinition, FilterSpec, FrequencySpec, Geometry, GeometryError, Kind, Layout, SpecError, Window,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::slicing::Slicing;

/// Everything that two sliced filters must share to give the same answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlicedDefinition {
    /// How the filter is cut.
    pub slicing: Slicing,
    /// One group of slices that share events, as if it were not cut: a horizontal slice, or all of a vertical filter.
    pub group: FilterDefinition,
}

/// Why a filter cannot be sliced as asked.
#[derive(Debug, Error)]
pub enum DefinitionError {
    /// The filter is impossible, sliced or not.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The cells cannot be divided.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The kind has no cells that may lie apart.
    #[error(
        "kind {kind} cannot be sliced `{slicing}`: use `horizontal:S` or `none`, or kind {}",
        Kind::names(Ability::Divide)
    )]
    Kind {
        /// The kind asked for.
        kind: Kind,
        /// The slicing asked for.
        slicing: Slicing,
    },
    /// Each slice would have to count the events of all, and sees its own.
    #[error(
        "a window or epoch of `{window}` counts events, and with `{slicing}` each slice would see only its \
         own: ask for `--slicing none`, or use a window of time"
    )]
    CountWindow {
        /// The window asked for.
        window: Window,
        /// The slicing asked for.
        slicing: Slicing,
    },
    /// Positions must lie anywhere for their ranges to be slices.
    #[error("the {layout} layout cannot be sliced `{slicing}`: use the classic layout, or `horizontal:S`")]
    Layout {
        /// The layout asked for.
        layout: &'static str,
        /// The slicing asked for.
        slicing: Slicing,
    },
}

impl SlicedDefinition {
    /// The definition of a filter as `spec` asks, cut as `slicing` says.
    ///
    /// Horizontal slices are filters of their own for their share of the events, with room for those that fall on one
    /// slice by chance ([`FilterSpec::share`]). Vertical slices are equal ranges of cells of one classic filter, rounded up
    /// so that they are equal. A window that counts events is not cut: no slice sees those of the others.
    ///
    /// ```
    /// use firstseen_filter::{FilterSpec, Kind};
    /// use firstseen_routing::SlicedDefinition;
    /// let spec = FilterSpec {
    ///     capacity_events: Some(1000),
    ///     ..FilterSpec::new(Kind::Timing, "1h".parse().unwrap())
    /// };
    /// let definition = SlicedDefinition::new(&spec, "vertical:8".parse().unwrap()).unwrap();
    /// assert_eq!(definition.slice().unwrap().cells.kind(), Kind::Timing);
    ///
    /// let counting = FilterSpec { kind: Kind::Counting, ..spec };
    /// let refusal = SlicedDefinition::new(&counting, "vertical:8".parse().unwrap()).unwrap_err();
    /// assert!(refusal.to_string().contains("kind counting cannot be sliced `vertical:8`"));
    /// ```
    ///
    /// # Errors
    /// [`DefinitionError`]: what does not fit together, and what to change.
    pub fn new(spec: &FilterSpec, slicing: Slicing) -> Result<Self, DefinitionError> {
        check(spec.kind, &spec.window, spec.layout, slicing)?;
        let mut share = spec.share(slicing.groups());
        if !slicing.divides_cells() {
            return Ok(Self { slicing, group: share.resolve()? });
        }
        share.layout = Some(Layout::Classic);
        let mut group = share.resolve()?;
        let slices = u64::from(slicing.slices_per_group());
        if let Some(geometry) = group.cells.divided_geometry_mut() {
            let cells = geometry.cells().next_multiple_of(slices);
            *geometry = Geometry::new(cells, geometry.hashes(), geometry.cell_bits(), Layout::Classic)?;
        }
        Ok(Self { slicing, group })
    }

    /// The definition of a filter of frequencies as `spec` asks, each slice of which counts its share of the keys.
    ///
    /// ```
    /// use firstseen_filter::{FrequencySpec, Kind};
    /// use firstseen_routing::SlicedDefinition;
    /// let spec = FrequencySpec::new("1h".parse().unwrap(), 0.5);
    /// let definition = SlicedDefinition::frequencies(&spec, "horizontal:4".parse().unwrap()).unwrap();
    /// assert_eq!(definition.slice().unwrap().cells.kind(), Kind::Decaying);
    /// assert!(SlicedDefinition::frequencies(&spec, "vertical:4".parse().unwrap()).is_err());
    /// ```
    ///
    /// # Errors
    /// [`DefinitionError`]: what does not fit together, and what to change.
    pub fn frequencies(spec: &FrequencySpec, slicing: Slicing) -> Result<Self, DefinitionError> {
        check(Kind::Decaying, &spec.epoch, None, slicing)?;
        Ok(Self { slicing, group: spec.share(slicing.groups()).resolve()? })
    }

    /// Whether filters of both give the same answers, whichever flags asked for them
    /// ([`FilterDefinition::answers_like`]).
    pub fn answers_like(&self, other: &Self) -> bool {
        self.slicing == other.slicing && self.group.answers_like(&other.group)
    }

    /// The definition of each slice.
    ///
    /// # Errors
    /// [`DefinitionError`] for a definition that [`Self::new`] does not give.
    pub fn slice(&self) -> Result<FilterDefinition, DefinitionError> {
        let mut slice = self.group.clone();
        let slices = u64::from(self.slicing.slices_per_group());
        let kind = slice.cells.kind();
        let slicing = self.slicing;
        check_window(&self.group.window, slicing)?;
        if slicing.divides_cells() {
            let geometry = slice.cells.divided_geometry_mut().ok_or(DefinitionError::Kind { kind, slicing })?;
            check(kind, &self.group.window, Some(geometry.layout()), slicing)?;
            let cells = geometry.cells().div_ceil(slices);
            *geometry = Geometry::new(cells, geometry.hashes(), geometry.cell_bits(), geometry.layout())?;
            if let Some(growth) = slice.cells.growth_mut() {
                growth.capacity_events = growth.capacity_events.div_ceil(slices);
            }
        }
        Ok(slice)
    }
}

fn check_window(window: &Window, slicing: Slicing) -> Result<(), DefinitionError> {
    match window {
        Window::Events(_) | Window::LandmarkEvents(_) if slicing.slices() > 1 => {
            Err(DefinitionError::CountWindow { window: window.clone(), slicing })
        }
        _ => Ok(()),
    }
}

fn check(kind: Kind, window: &Window, layout: Option<Layout>, slicing: Slicing) -> Result<(), DefinitionError> {
    if slicing.divides_cells() && !kind.can(Ability::Divide) {
        return Err(DefinitionError::Kind { kind, slicing });
    }
    check_window(window, slicing)?;
    match layout.filter(|_| slicing.divides_cells()) {
        None | Some(Layout::Classic | Layout::Buckets { .. }) => Ok(()),
        Some(Layout::Blocked { .. }) => Err(DefinitionError::Layout { layout: "blocked", slicing }),
        Some(Layout::Partitioned) => Err(DefinitionError::Layout { layout: "partitioned", slicing }),
    }
}
