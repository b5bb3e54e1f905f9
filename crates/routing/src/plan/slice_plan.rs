//! From a digest to slices and the positions in each (Koloniari 2011, sections 3.1 and 3.3).
//!
//! Promises: a plan is a pure function of digest, slicing and the geometry of a slice; routing allocates nothing once
//! its buffer has grown. Must not know: what the cells hold, where a slice lives.
//!
//! Positions use the digest's words 0 to 15, as in an uncut filter; slices are picked by words from the other end. With
//! m cells in a slice:
//!
//! - horizontal: the slice is `reduce(word(31), S)`, positions are those of a filter of the slice's geometry;
//! - vertical: position `i` is cell `p = reduce(word(i), S m)` of the uncut filter: slice `p / m`, position `p mod m`;
//! - horizontal-vertical, S groups of T: the group is `g = reduce(word(31), S)`, then as vertical in T slices: slice
//!   `g T + p / m`;
//! - vertical-horizontal, S ranges of T: with `p = reduce(word(i), S m)`, position `i` falls into range `v = p / m`, at
//!   `p mod m`. All positions of the event in range `v` lie in slice `v T + reduce(word(31 - f), T)`, where `f` is the
//!   least `i` whose position falls into `v`;
//! - general, k1 choices of k2 positions each: choice `j` is slice `reduce(word(31 - j), S)`, its positions are
//!   `reduce(word(j k2 + i), m)`.

use firstseen_filter::{Digest, Geometry, HASHES_MAX, Layout, positions_of, reduce};
use thiserror::Error;

use super::slicing::{Cut, SLICES_MAX, Slicing};

/// Why a plan cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// Positions must lie anywhere to be divided over slices.
    #[error("only a classic layout can be divided over slices: use it, or a horizontal slicing")]
    Layout,
    /// Too few or too many slices.
    #[error("{0} slices: choose 1 to {SLICES_MAX}")]
    Slices(u32),
    /// A level of a tree whose root the map does not have.
    #[error("filter {0}, the root of the tree, is not in the map: wait for a newer one")]
    Root(u64),
    /// k1 times k2 is not k.
    #[error("{choices} choices of a slice do not divide {hashes} positions: choose a divisor")]
    Choices {
        /// Choices asked for (k1).
        choices: u32,
        /// Positions of an event (k).
        hashes: u32,
    },
}

/// Which slices an event visits, and its positions there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlicePlan {
    picks: Picks,
    slice: Geometry,
}

/// How positions are divided over slices. Counts are 1 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Picks {
    /// One slice has all positions of an event.
    Together { slices: u64 },
    /// Group, then range; parts of a range are picked for each range. Of groups and parts one is 1.
    Apart { groups: u64, ranges: u64, parts: u64 },
    /// Slices are chosen first (Koloniari 2011, section 3.3).
    Chosen { slices: u64, each: usize },
}

impl SlicePlan {
    /// The plan of a filter cut as `slicing` says into slices of the shape `slice`.
    ///
    /// ```
    /// use firstseen_filter::{FilterSecret, Geometry, Layout};
    /// use firstseen_routing::{Route, SlicePlan};
    /// let slice = Geometry::new(1000, 4, 1, Layout::Classic).unwrap();
    /// let plan = SlicePlan::new("vertical:8".parse().unwrap(), slice).unwrap();
    /// let mut route = Route::default();
    /// plan.route(FilterSecret::from_seed(1).digest(b"click-1"), &mut route);
    /// assert_eq!(route.steps().map(|step| step.positions.len()).sum::<usize>(), 4);
    /// assert!(route.steps().all(|step| step.slice < 8 && step.positions.iter().all(|position| *position < 1000)));
    /// ```
    ///
    /// # Errors
    /// [`PlanError::Layout`] where cells are divided that are not classic.
    pub fn new(slicing: Slicing, slice: Geometry) -> Result<Self, PlanError> {
        if slicing.divides_cells() && slice.layout() != Layout::Classic {
            return Err(PlanError::Layout);
        }
        let picks = match slicing.cut() {
            Cut::None | Cut::Horizontal(_) => Picks::Together { slices: u64::from(slicing.slices()) },
            Cut::Vertical(slices) => Picks::Apart { groups: 1, ranges: u64::from(slices.get()), parts: 1 },
            Cut::HorizontalVertical(groups, slices) => {
                Picks::Apart { groups: u64::from(groups.get()), ranges: u64::from(slices.get()), parts: 1 }
            }
            Cut::VerticalHorizontal(ranges, parts) => {
                Picks::Apart { groups: 1, ranges: u64::from(ranges.get()), parts: u64::from(parts.get()) }
            }
        };
        Ok(Self { picks, slice })
    }

    /// General slicing (Koloniari 2011, section 3.3, Proposition 2): `choices` (k1) hash functions choose slices, and
    /// k/k1 positions lie in each. One choice is horizontal; k choices of one position each load slices like vertical.
    /// For experiments.
    ///
    /// # Errors
    /// [`PlanError`]: a layout that is not classic, no or too many slices, choices that do not divide k.
    pub fn general(slices: u32, choices: u32, slice: Geometry) -> Result<Self, PlanError> {
        let hashes = slice.hashes();
        if slice.layout() != Layout::Classic {
            return Err(PlanError::Layout);
        }
        if !(1..=SLICES_MAX).contains(&slices) {
            return Err(PlanError::Slices(slices));
        }
        if choices == 0 || !hashes.is_multiple_of(choices) {
            return Err(PlanError::Choices { choices, hashes });
        }
        Ok(Self { picks: Picks::Chosen { slices: u64::from(slices), each: (hashes / choices) as usize }, slice })
    }

    /// The geometry of a slice.
    pub fn slice(&self) -> &Geometry {
        &self.slice
    }

    /// Groups of slices that share events; an event touches the slices of one.
    pub fn groups(&self) -> u32 {
        match self.picks {
            Picks::Together { slices: groups } | Picks::Apart { groups, .. } => groups as u32,
            Picks::Chosen { .. } => 1,
        }
    }

    /// The group that an event belongs to: its horizontal slice, or 0 where events are not divided.
    #[inline]
    pub fn group(&self, digest: Digest) -> u32 {
        match self.picks {
            Picks::Together { slices: 1 } | Picks::Apart { groups: 1, .. } | Picks::Chosen { .. } => 0,
            Picks::Together { slices: groups } | Picks::Apart { groups, .. } => reduce(digest.word(31), groups) as u32,
        }
    }

    /// Writes the steps of an event to `route`: one for each slice that has positions of it, in the order in which its
    /// hash functions come upon them (not in the order of slices, so that first steps are spread evenly).
    #[inline]
    pub fn route(&self, digest: Digest, route: &mut Route) {
        route.clear();
        let cells = self.slice.cells();
        let hashes = self.slice.hashes() as usize;
        match self.picks {
            Picks::Together { .. } => {
                positions_of(digest, &self.slice, &mut route.positions);
                route.end_step(self.group(digest));
            }
            Picks::Apart { ranges, parts, .. } => {
                let group = u64::from(self.group(digest));
                route.divide(
                    hashes,
                    |index| {
                        let word = digest.word(index);
                        let range = reduce(word, ranges);
                        (range, reduce(word, ranges * cells) - range * cells)
                    },
                    |range, first| match parts {
                        1 => group * ranges + range,
                        _ => range * parts + reduce(digest.word(31 - first), parts),
                    },
                );
            }
            Picks::Chosen { slices, each } => route.divide(
                hashes,
                |index| (reduce(digest.word(31 - index / each), slices), reduce(digest.word(index), cells)),
                |slice, _| slice,
            ),
        }
    }
}

/// The steps of one event; a buffer to be used again.
#[derive(Clone, Debug, Default)]
pub struct Route {
    positions: Vec<u64>,
    /// Slice, and where its positions end.
    steps: Vec<(u32, usize)>,
}

/// One visit: all positions of the event that this slice has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// The slice.
    pub slice: u32,
    /// Positions in the slice.
    pub positions: &'a [u64],
}

impl Route {
    fn clear(&mut self) {
        self.positions.clear();
        self.steps.clear();
    }

    /// As [`SlicePlan::route`] gathers: steps in the order in which positions come upon their slices.
    #[inline(always)]
    pub(crate) fn gather(&mut self, hashes: usize, place: impl Fn(usize) -> (u64, u64)) {
        self.clear();
        self.divide(hashes, place, |slice, _| slice);
    }

    /// Gathers `hashes` positions, at most 16, by what `place` says of each: (key, position in the slice). `slice_of`
    /// gets a key and the first position that has it.
    #[inline(always)]
    fn divide(&mut self, hashes: usize, place: impl Fn(usize) -> (u64, u64), slice_of: impl Fn(u64, usize) -> u64) {
        let mut placed = [(0, 0); HASHES_MAX as usize];
        let placed = &mut placed[..hashes];
        placed.iter_mut().enumerate().for_each(|(index, at)| *at = place(index));
        let mut left = (1u32 << hashes) - 1;
        while left != 0 {
            let first = left.trailing_zeros() as usize;
            let key = placed[first].0;
            for (index, (at, position)) in placed.iter().enumerate().skip(first) {
                if *at == key {
                    self.positions.push(*position);
                    left &= !(1 << index);
                }
            }
            self.end_step(slice_of(key, first) as u32);
        }
    }

    #[inline(always)]
    fn end_step(&mut self, slice: u32) {
        self.steps.push((slice, self.positions.len()));
    }

    /// Steps of the event.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing was routed yet.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Step `index`, if there is one.
    #[inline]
    pub fn step(&self, index: usize) -> Option<Step<'_>> {
        let (slice, end) = *self.steps.get(index)?;
        let start = if index == 0 { 0 } else { self.steps[index - 1].1 };
        Some(Step { slice, positions: &self.positions[start..end] })
    }

    /// All steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        (0..self.len()).filter_map(|index| self.step(index))
    }
}
