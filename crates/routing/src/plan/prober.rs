//! From a digest to the probe that travels, and from group positions back to slices.
//!
//! Promises: the same slices and positions as [`super::SlicePlan`], in the same order. Must not know: who owns a slice,
//! how probes travel, what cells hold.
//!
//! A *group position* names a cell among those of all slices of a group: `slice in group * cells of a slice + position
//! in the slice`. Where a filter is cut into ranges that is the position in the uncut filter.

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
    /// The shape in which positions are derived from a digest: a slice's, or the uncut group's.
    geometry: Geometry,
    shape: ProbeShape,
    /// How positions are spread, where ranges are divided over parts.
    spread: Option<Spread>,
    /// Where cells are divided.
    divided: Option<Divided>,
}

/// Ranges whose events are divided over slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spread {
    parts: u64,
    slice_cells: u64,
}

/// Cells of a group over its slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Divided {
    slices_per_group: u32,
    slice_cells: u64,
    /// From the positions that travel to those of the group.
    fold: Fold,
}

impl Prober {
    /// The prober of a filter.
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
    /// [`SlicedBuildError`] for a definition that [`SlicedDefinition::new`] does not give.
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

    /// The prober of a level of a tree: its events have the positions of the root, of which `2^fold` share one at the level.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn of_level(
        root: &SlicedDefinition,
        level: &SlicedDefinition,
        fold: u8,
    ) -> Result<Self, SlicedBuildError> {
        let plan = GroupPlan::of_level(level)?;
        let divided = (plan.slices_per_group > 1).then(|| plan.divided(Fold::new(fold)));
        Ok(Self { divided, ..Self::new(root)? })
    }

    /// The shape of every probe.
    pub fn shape(&self) -> ProbeShape {
        self.shape
    }

    /// Whether the positions of one event can lie in several slices.
    #[inline]
    pub(crate) fn divides(&self) -> bool {
        self.divided.is_some()
    }

    /// Groups of slices that share events.
    pub fn groups(&self) -> u32 {
        self.groups as u32
    }

    /// The group that an event belongs to.
    #[inline]
    pub fn group(&self, digest: Digest) -> u32 {
        match self.groups {
            1 => 0,
            groups => reduce(digest.word(31), groups) as u32,
        }
    }

    /// Adds the probe of an event to `probes`, which must be of [`Self::shape`].
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

    /// The part of a range is picked by the word of the first position that falls into it.
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

    /// The slice whose owner is asked first about event `index`, as long as it is not gone: the one that has all of the
    /// event's positions, or that of the first.
    #[inline]
    pub fn head_slice(&self, group: u32, probes: &Probes, index: usize) -> u32 {
        self.slices(group, probes, index).next().unwrap_or(group)
    }

    /// The slices of event `index`, in the order of its hash functions: the one that has all of the event's positions,
    /// or that of each.
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
    /// `(2^64 - 1) / slice_cells`: an owner places each position of an event dozens of times, and divides for none.
    slices_per_2_64: u64,
    hashes: u32,
}

impl GroupPlan {
    /// The plan of every group of a filter; `None` where one slice has all positions of an event.
    ///
    /// # Errors
    /// [`SlicedBuildError`] for a definition that [`SlicedDefinition::new`] does not give.
    pub fn new(definition: &SlicedDefinition) -> Result<Option<Self>, SlicedBuildError> {
        if !definition.slicing.divides_cells() {
            return Ok(None);
        }
        Ok(Some(Self::of_level(definition)?))
    }

    /// The plan of every group of a level of a tree, also where one slice has all positions of an event.
    ///
    /// # Errors
    /// [`SlicedBuildError`] for a definition whose layout is not classic.
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
            // Every fingerprint in every bucket counts as a cell, all of them in one slice.
            Layout::Buckets { .. } if slices_per_group == 1 => {}
            _ => return Err(PlanError::Layout.into()),
        }
        let slice_cells = slice.positions();
        let slices_per_2_64 = u64::MAX / slice_cells.max(1);
        Ok(Self { slices_per_group, slice_cells, slices_per_2_64, hashes: slice.hashes() })
    }

    /// The shape of probes: positions among all cells of the group.
    pub fn shape(&self) -> ProbeShape {
        ProbeShape::Spread { cells: self.group_cells(), hashes: self.hashes }
    }

    /// Slices of the group.
    pub fn slices_per_group(&self) -> u32 {
        self.slices_per_group
    }

    /// Cells of a slice; of fingerprints, as many as there may be positions.
    pub fn slice_cells(&self) -> u64 {
        self.slice_cells
    }

    /// Cells of all slices of the group; every group position is below.
    pub fn group_cells(&self) -> u64 {
        self.slice_cells * u64::from(self.slices_per_group)
    }

    /// The slice, counted within the group, and the position in it: `position / m` and `position mod m`.
    #[inline]
    pub fn place(&self, position: u64) -> (u32, u64) {
        // With r = (2^64 - 1) / m rounded down, p r / 2^64 is less than p / m by at most p / 2^64, which is below 1.
        let slice = ((u128::from(position) * u128::from(self.slices_per_2_64)) >> 64) as u64;
        let offset = position - slice * self.slice_cells;
        let is_next = offset >= self.slice_cells;
        (slice as u32 + u32::from(is_next), if is_next { offset - self.slice_cells } else { offset })
    }

    /// Writes the steps of an event to `route`, as [`super::SlicePlan::route`] does: one for each slice that has some
    /// of `positions`, in the order in which they come upon it. Slices are numbered within the group.
    #[inline]
    pub fn route(&self, positions: &[u64], route: &mut Route) {
        let positions = &positions[..positions.len().min(HASHES_MAX as usize)];
        route.gather(positions.len(), |index| {
            let (slice, position) = self.place(positions[index]);
            (u64::from(slice), position)
        });
    }
}

/// The shape of a slice, whatever its kind.
fn geometry_of(cells: &CellDefinition) -> Result<Geometry, DefinitionError> {
    match cells.geometry() {
        Some(geometry) => Ok(*geometry),
        None => Ok(Geometry::new(cells.cells(), cells.hashes(), 1, Layout::Classic)?),
    }
}
