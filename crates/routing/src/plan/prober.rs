//! Derives the positions of an event from its digest, in the form that is sent over the network, and maps positions
//! back to slices.
//!
//! The results are the same slices and positions as those of [`super::SlicePlan`], in the same order.
//!
//! A *group position* is the number of a cell within a whole slice group. The cells of the group are numbered slice by
//! slice: first the cells of the first slice, then the cells of the second slice, and so on. For example, if each slice
//! has 100 cells, cell 7 of the third slice has the group position 207, where cells and positions are counted from 0.
//! If the slices are consecutive ranges of one filter's cells, this is also the position in the undivided filter.
//!
//! This module does not depend on the owners of slices, on the network or on the contents of cells.

use firstseen_filter::{CellDefinition, Digest, Geometry, HASHES_MAX, Layout, ProbeShape, Probes, reduce};

use super::build_error::SlicedBuildError;
use super::definition::{DefinitionError, SlicedDefinition};
use super::fold::Fold;
use super::slice_plan::{PlanError, Route};
use super::slicing::Cut;

/// The part of a filter's plan that a producer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prober {
    groups: u64,
    /// Geometry that is used to derive positions from a digest. It is the geometry of a slice, or of the whole group if
    /// cells are divided.
    geometry: Geometry,
    shape: ProbeShape,
    /// How positions are spread, if the events of a range are divided over several slices.
    spread: Option<Spread>,
    /// How cells are divided over slices, if they are.
    divided: Option<Divided>,
}

/// Ranges of cells whose events are divided over several slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spread {
    parts: u64,
    slice_cells: u64,
}

/// Division of the cells of a group over its slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Divided {
    slices_per_group: u32,
    slice_cells: u64,
    /// Conversion of the positions in messages to the positions of the group.
    fold: Fold,
}

impl Prober {
    /// Creates the prober of a filter.
    ///
    /// ```
    /// use firstseen_filter::{FilterSecret, FilterSpec, Kind, Probes};
    /// use firstseen_routing::{Prober, SlicedDefinition};
    /// let spec = FilterSpec { capacity_events: Some(1000), ..FilterSpec::new(Kind::Timing, "1h".parse().unwrap()) };
    /// let definition = SlicedDefinition::new(&spec, "horizontal-vertical:4x8".parse().unwrap()).unwrap();
    /// let prober = Prober::new(&definition).unwrap();
    /// let click = FilterSecret::from_seed(1).digest(b"click-1");
    /// let mut probes = Probes::new(prober.shape());
    /// prober.push(click, &mut probes);
    /// let group = prober.group(click);
    /// assert!(group < 4 && prober.head_slice(group, &probes, 0) / 8 == group);
    /// ```
    ///
    /// # Errors
    /// Returns [`SlicedBuildError`] for a definition that was not created by [`SlicedDefinition::new`].
    pub fn new(definition: &SlicedDefinition) -> Result<Self, SlicedBuildError> {
        let slicing = definition.slicing;
        let slice = geometry_of(&definition.slice()?.cells)?;
        let groups = u64::from(slicing.groups());
        if !slicing.divides_cells() {
            let shape = ProbeShape::of(&slice);
            return Ok(Self { groups, geometry: slice, shape, spread: None, divided: None });
        }
        let plan = GroupPlan::of(definition, &slice)?;
        let (ranges, parts) = match slicing.cut() {
            Cut::VerticalHorizontal(ranges, parts) => (u64::from(ranges.get()), u64::from(parts.get())),
            _ => (u64::from(plan.slices_per_group), 1),
        };
        let geometry = Geometry::new(slice.cells() * ranges, slice.hashes(), slice.cell_bits(), Layout::Classic)
            .map_err(DefinitionError::from)?;
        let slice_cells = plan.slice_cells;
        let spread = (parts > 1).then_some(Spread { parts, slice_cells });
        let divided = Some(plan.divided(Fold::default()));
        Ok(Self { groups, geometry, shape: plan.shape(), spread, divided })
    }

    /// Creates the prober for a lower level of a filter tree. `2^fold` cells of the root share one cell of the level.
    /// All levels of a tree exchange the positions of events at the root, so the probes of a lower level contain root
    /// positions too. The prober converts them to the level's own cells when it determines the slices of an event.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::new`].
    pub(crate) fn of_level(
        root: &SlicedDefinition,
        level: &SlicedDefinition,
        fold: u8,
    ) -> Result<Self, SlicedBuildError> {
        let plan = GroupPlan::of_level(level)?;
        let divided = (plan.slices_per_group > 1).then(|| plan.divided(Fold::new(fold)));
        Ok(Self { divided, ..Self::new(root)? })
    }

    /// Returns the shape of every probe.
    pub fn shape(&self) -> ProbeShape {
        self.shape
    }

    /// Returns whether the positions of one event can belong to several slices.
    #[inline]
    pub(crate) fn divides(&self) -> bool {
        self.divided.is_some()
    }

    /// Returns the number of groups of slices that share events.
    pub fn groups(&self) -> u32 {
        self.groups as u32
    }

    /// Returns the group that an event belongs to.
    #[inline]
    pub fn group(&self, digest: Digest) -> u32 {
        match self.groups {
            1 => 0,
            groups => reduce(digest.word(31), groups) as u32,
        }
    }

    /// Appends the probe of an event to `probes`, which must have the shape that [`Self::shape`] returns.
    #[inline]
    pub fn push(&self, digest: Digest, probes: &mut Probes) {
        match self.spread {
            Some(Spread { parts, slice_cells }) => {
                let mut positions = [0; HASHES_MAX as usize];
                let positions = &mut positions[..self.geometry.hashes() as usize];
                self.spread_over_parts(digest, parts, slice_cells, positions);
                let pushed = probes.push_positions(positions);
                debug_assert!(pushed.is_ok(), "positions lie in the group");
            }
            None => probes.push_digest(digest, &self.geometry),
        }
    }

    /// Derives the positions of an event for a slicing of the form `vertical-horizontal:RxP`. Such a slicing divides
    /// the cells into R ranges, and each range into P slices. Each position of the event first selects a range. A
    /// second hash then selects one of the P slices of that range. All positions of the event in the same range use the
    /// same second hash, so they lie in the same slice.
    fn spread_over_parts(&self, digest: Digest, parts: u64, slice_cells: u64, positions: &mut [u64]) {
        let mut ranges = [0; HASHES_MAX as usize];
        for index in 0..positions.len() {
            let position = reduce(digest.word(index), self.geometry.cells());
            let range = position / slice_cells;
            ranges[index] = range;
            let first = ranges.iter().position(|earlier| *earlier == range).unwrap_or(index);
            let part = reduce(digest.word(31 - first), parts);
            positions[index] = (range * parts + part) * slice_cells + position % slice_cells;
        }
    }

    /// Returns the head slice of event `index`, which is the slice of the event's first position. If one slice holds
    /// all positions of the event, it is that slice. The node that owns the head slice decides the event, unless that
    /// node is gone.
    #[inline]
    pub fn head_slice(&self, group: u32, probes: &Probes, index: usize) -> u32 {
        self.slices(group, probes, index).next().unwrap_or(group)
    }

    /// Returns the slices of event `index`. If one slice holds all positions of the event, the result is that slice.
    /// Otherwise the result contains the slice of each position, in the order of the event's hash functions, and the
    /// same slice can occur several times.
    #[inline]
    pub fn slices<'a>(
        &self,
        group: u32,
        probes: &'a Probes,
        index: usize,
    ) -> impl Iterator<Item = u32> + Clone + use<'a> {
        let divided = self.divided;
        let (positions, whole) = match divided {
            Some(_) => (probes.positions(index), None),
            None => (&[][..], Some(group)),
        };
        let slices = positions.iter().filter_map(move |position| {
            let Divided { slices_per_group, slice_cells, fold } = divided?;
            Some(group * slices_per_group + (fold.of(*position) / slice_cells) as u32)
        });
        slices.chain(whole)
    }
}

/// The part of a filter's plan that a node needs for a group whose cells are divided over slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPlan {
    slices_per_group: u32,
    slice_cells: u64,
    /// Precomputed reciprocal of the number of cells in a slice: `(2^64 - 1) / slice_cells`. With this factor, the
    /// slice of a position is computed by a multiplication, which is faster than a division. An owner computes slices
    /// dozens of times for each event.
    slices_per_2_64: u64,
    hashes: u32,
}

impl GroupPlan {
    /// Returns the plan that all groups of a filter have. Returns `None` if one slice holds all positions of an event.
    ///
    /// # Errors
    /// Returns [`SlicedBuildError`] for a definition that was not created by [`SlicedDefinition::new`].
    pub fn new(definition: &SlicedDefinition) -> Result<Option<Self>, SlicedBuildError> {
        if !definition.slicing.divides_cells() {
            return Ok(None);
        }
        Ok(Some(Self::of_level(definition)?))
    }

    /// Returns the plan that all groups of a level of a filter tree have, even if one slice holds all positions of an
    /// event.
    ///
    /// # Errors
    /// Returns [`SlicedBuildError`] for a definition whose layout is not classic.
    pub fn of_level(definition: &SlicedDefinition) -> Result<Self, SlicedBuildError> {
        Self::of(definition, &geometry_of(&definition.slice()?.cells)?)
    }

    fn divided(&self, fold: Fold) -> Divided {
        Divided { slices_per_group: self.slices_per_group, slice_cells: self.slice_cells, fold }
    }

    fn of(definition: &SlicedDefinition, slice: &Geometry) -> Result<Self, SlicedBuildError> {
        let slices_per_group = definition.slicing.slices_per_group();
        match slice.layout() {
            Layout::Classic => {}
            // In a filter of fingerprints, each possible fingerprint in each bucket counts as a cell. All of these
            // cells must belong to one slice.
            Layout::Buckets { .. } if slices_per_group == 1 => {}
            _ => return Err(PlanError::Layout.into()),
        }
        let slice_cells = slice.positions();
        let slices_per_2_64 = u64::MAX / slice_cells.max(1);
        Ok(Self { slices_per_group, slice_cells, slices_per_2_64, hashes: slice.hashes() })
    }

    /// Returns the shape of probes, which contain positions among all cells of the group.
    pub fn shape(&self) -> ProbeShape {
        ProbeShape::Spread { cells: self.group_cells(), hashes: self.hashes }
    }

    /// Returns the number of slices in the group.
    pub fn slices_per_group(&self) -> u32 {
        self.slices_per_group
    }

    /// Returns the number of cells of a slice. For a filter of fingerprints, this is the number of possible positions.
    pub fn slice_cells(&self) -> u64 {
        self.slice_cells
    }

    /// Returns the number of cells in all slices of the group. Every group position is less than this number.
    pub fn group_cells(&self) -> u64 {
        self.slice_cells * u64::from(self.slices_per_group)
    }

    /// Splits a group position into the slice within the group and the position within that slice. With m cells in a
    /// slice, the results are `position / m` (rounded down) and `position mod m`.
    #[inline]
    pub fn place(&self, position: u64) -> (u32, u64) {
        // Let r = (2^64 - 1) / m, rounded down. Then p r / 2^64 is less than p / m by at most p / 2^64, which is below
        // 1, so the computed slice is at most one too low.
        let slice = ((u128::from(position) * u128::from(self.slices_per_2_64)) >> 64) as u64;
        let offset = position - slice * self.slice_cells;
        let is_next = offset >= self.slice_cells;
        (slice as u32 + u32::from(is_next), if is_next { offset - self.slice_cells } else { offset })
    }

    /// Writes the steps of an event's test to `route`, with one step for each slice that holds some of the event's
    /// `positions`. The steps are in the order in which their slices first occur among the positions. Slices are
    /// identified by their numbers within the group. The form of the route is the same as that of
    /// [`super::SlicePlan::route`].
    #[inline]
    pub fn route(&self, positions: &[u64], route: &mut Route) {
        let positions = &positions[..positions.len().min(HASHES_MAX as usize)];
        route.gather(positions.len(), |index| {
            let (slice, position) = self.place(positions[index]);
            (u64::from(slice), position)
        });
    }
}

/// Returns the geometry of a slice of any filter kind.
fn geometry_of(cells: &CellDefinition) -> Result<Geometry, DefinitionError> {
    match cells.geometry() {
        Some(geometry) => Ok(*geometry),
        None => Ok(Geometry::new(cells.cells(), cells.hashes(), 1, Layout::Classic)?),
    }
}
