//! Definition of a sliced filter: the filter that a user describes, together with a slicing. If the filter cannot be
//! sliced as requested, the error names the reason and suggests an alternative.
//!
//! Users can describe the same sliced filter with different flags. [`SlicedDefinition::answers_like`] compares two
//! definitions and returns whether their filters give the same answers.

use firstseen_filter::{
    Ability, FilterDefinition, FilterSpec, FrequencySpec, Geometry, GeometryError, Kind, Layout, SpecError, Window,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::slicing::Slicing;

/// Properties that two sliced filters must share to give the same answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlicedDefinition {
    /// Slicing of the filter.
    pub slicing: Slicing,
    /// Definition of one slice group, as if the group was a single filter. A slice group consists of slices that share
    /// events, which means that the positions of one event are spread over them. With horizontal slicing, slices share
    /// no events, so every group consists of one slice. With vertical slicing, all slices share events, so there is
    /// only one group, which is the whole filter.
    pub group: FilterDefinition,
}

/// Error returned when a filter cannot be sliced as requested.
#[derive(Debug, Error)]
pub enum DefinitionError {
    /// The filter itself is impossible, with or without slices.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The cells cannot be divided.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The filter kind does not allow that the cells of one event are divided over slices.
    #[error(
        "kind {kind} cannot be sliced `{slicing}`: use `horizontal:S` or `none`, or kind {}",
        Kind::names(Ability::Divide)
    )]
    Kind {
        /// Requested kind.
        kind: Kind,
        /// Requested slicing.
        slicing: Slicing,
    },
    /// The window counts events. Each slice would have to count the events of the whole filter, but sees only its own
    /// events.
    #[error(
        "a window or epoch of `{window}` counts events, and with `{slicing}` each slice would see only its \
         own: ask for `--slicing none`, or use a window of time"
    )]
    CountWindow {
        /// Requested window.
        window: Window,
        /// Requested slicing.
        slicing: Slicing,
    },
    /// The layout restricts the positions of an event. Ranges of cells can be slices only if every position may lie
    /// anywhere.
    #[error("the {layout} layout cannot be sliced `{slicing}`: use the classic layout, or `horizontal:S`")]
    Layout {
        /// Requested layout.
        layout: &'static str,
        /// Requested slicing.
        slicing: Slicing,
    },
}

impl SlicedDefinition {
    /// Creates the definition of a filter that `spec` describes and `slicing` divides.
    ///
    /// How the definition of a slice is derived depends on the slicing:
    ///
    /// - A horizontal slice is a filter for its share of the events. By chance, some slices get more events than
    ///   others, so each slice has additional capacity ([`FilterSpec::share`]).
    /// - Vertical slices are equal ranges of the cells of one filter with the classic layout. The number of cells is
    ///   rounded up so that the ranges are equal.
    /// - A filter whose window counts events cannot be sliced, because a slice does not see the events of other slices
    ///   and therefore cannot count them.
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
    /// Returns [`DefinitionError`], which names the properties that exclude each other and a possible change.
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

    /// Creates the definition of a filter that counts frequencies as `spec` describes. Each slice counts its share of
    /// the keys.
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
    /// Returns [`DefinitionError`], which names the properties that exclude each other and a possible change.
    pub fn frequencies(spec: &FrequencySpec, slicing: Slicing) -> Result<Self, DefinitionError> {
        check(Kind::Decaying, &spec.epoch, None, slicing)?;
        Ok(Self { slicing, group: spec.share(slicing.groups()).resolve()? })
    }

    /// Returns whether filters with these two definitions give the same answers. Even two different definitions can
    /// give the same answers, because users can describe the same filter with different flags
    /// ([`FilterDefinition::answers_like`]).
    pub fn answers_like(&self, other: &Self) -> bool {
        self.slicing == other.slicing && self.group.answers_like(&other.group)
    }

    /// Returns the definition of a single slice.
    ///
    /// # Errors
    /// Returns [`DefinitionError`] for a definition that was not created by [`Self::new`].
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
