//! Maps a digest to slices, and to positions within each slice (Koloniari et al. 2011, sections 3.1 and 3.3).
//!
//! A slice plan is a pure function of an event's digest, the slicing of the filter and the geometry of a slice. Routing
//! an event does not allocate memory, except when the buffer of the route has to grow.
//!
//! The digest provides 32 words. Positions use the words 0 to 15, as in a filter without slices. Slices are picked by
//! words from the other end. With m cells in a slice, the slicings work as follows:
//!
//! - horizontal: the slice is `reduce(word(31), S)`, and the positions are those of a filter with the geometry of the
//!   slice.
//! - vertical: position `i` is cell `p = reduce(word(i), S m)` of the undivided filter, which is position `p mod m` of
//!   slice `p / m`.
//! - horizontal-vertical, with S groups of T slices: the group is `g = reduce(word(31), S)`. Within the group,
//!   positions are mapped as in a vertical filter with T slices, so the slice is `g T + p / m`.
//! - vertical-horizontal, with S ranges of T slices: with `p = reduce(word(i), S m)`, position `i` belongs to range
//!   `v = p / m`, at `p mod m`. All positions of the event in range `v` belong to slice `v T + reduce(word(31 - f),
//!   T)`, where `f` is the smallest `i` whose position belongs to `v`.
//! - general, with k1 choices of k2 positions each: choice `j` is slice `reduce(word(31 - j), S)`, and its positions
//!   are `reduce(word(j k2 + i), m)`.

use firstseen_filter::{Digest, Geometry, HASHES_MAX, Layout, positions_of, reduce};
use thiserror::Error;

use super::slicing::{Cut, SLICES_MAX, Slicing};

/// Error returned when a plan is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The layout restricts the positions of an event. Positions can be divided over slices only if they may lie
    /// anywhere.
    #[error("only a classic layout can be divided over slices: use it, or a horizontal slicing")]
    Layout,
    /// The number of slices is too small or too large.
    #[error("{0} slices: choose 1 to {SLICES_MAX}")]
    Slices(u32),
    /// The cluster map does not contain the root of the filter's tree.
    #[error("filter {0}, the root of the tree, is not in the cluster map: wait for a newer map")]
    Root(u64),
    /// The number of choices k1 does not divide the number of positions k.
    #[error("{choices} choices of a slice do not divide {hashes} positions: choose a divisor")]
    Choices {
        /// Requested number of choices (k1).
        choices: u32,
        /// Number of positions of an event (k).
        hashes: u32,
    },
}

/// Plan that maps each event to the slices that it visits, and to its positions there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlicePlan {
    picks: Picks,
    slice: Geometry,
}

/// Rule that divides positions over slices. All numbers are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Picks {
    /// One slice holds all positions of an event.
    Together { slices: u64 },
    /// The positions of an event are spread over several slices, which are selected in up to three steps. First, the
    /// digest of the event selects a group of slices. Each position then selects a range of cells within the group. If
    /// a range is divided into several parts, another hash selects the part.
    ///
    /// No slicing has both several groups and several parts of a range, so at least one of `groups` and `parts` is 1.
    Apart { groups: u64, ranges: u64, parts: u64 },
    /// The digest picks slices first, and then positions within each of them (Koloniari et al. 2011, section 3.3).
    Chosen { slices: u64, each: usize },
}

impl SlicePlan {
    /// Creates the plan of a filter that `slicing` divides into slices of the geometry `slice`.
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
    /// Returns [`PlanError::Layout`] if the cells of an event are divided and their layout is not classic.
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

    /// Creates the plan of a general slicing, of which horizontal and vertical slicing are special cases. Only
    /// experiments use this function. In the plan, `choices` hash functions choose slices for an event, and the k
    /// positions of the event are divided evenly among the chosen slices. In the paper, the number of choices is called
    /// k1 (Koloniari et al. 2011, section 3.3, Proposition 2).
    ///
    /// The number of choices determines how similar the plan is to the two special cases. With one choice, one slice
    /// holds all positions, as with horizontal slicing. With k choices, each chosen slice holds one position, and the
    /// slices have the same load as with vertical slicing.
    ///
    /// # Errors
    /// Returns [`PlanError`] if the layout is not classic, if the number of slices is 0 or too large, or if the number
    /// of choices does not divide k.
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

    /// Returns the geometry of a slice.
    pub fn slice(&self) -> &Geometry {
        &self.slice
    }

    /// Returns the number of groups of slices that share events. An event touches the slices of a single group.
    pub fn groups(&self) -> u32 {
        match self.picks {
            Picks::Together { slices: groups } | Picks::Apart { groups, .. } => groups as u32,
            Picks::Chosen { .. } => 1,
        }
    }

    /// Returns the group that an event belongs to. This is its horizontal slice, or 0 if events are not divided over
    /// groups.
    #[inline]
    pub fn group(&self, digest: Digest) -> u32 {
        match self.picks {
            Picks::Together { slices: 1 } | Picks::Apart { groups: 1, .. } | Picks::Chosen { .. } => 0,
            Picks::Together { slices: groups } | Picks::Apart { groups, .. } => reduce(digest.word(31), groups) as u32,
        }
    }

    /// Writes the steps of an event's test to `route`, with one step for each slice that holds positions of the event.
    /// The steps are in the order of the event's hash functions. Different events therefore begin their tests at
    /// different slices, which spreads the load evenly. If the steps were sorted by slice, most tests would begin at
    /// slices with low numbers, and these slices would have more work.
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

/// Steps of one event. The buffer can be reused for other events.
#[derive(Clone, Debug, Default)]
pub struct Route {
    positions: Vec<u64>,
    /// Pairs of a slice and the end of its positions.
    steps: Vec<(u32, usize)>,
}

/// Visit of one slice, with all positions of the event that the slice holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// The slice.
    pub slice: u32,
    /// Positions of the event in the slice.
    pub positions: &'a [u64],
}

impl Route {
    fn clear(&mut self) {
        self.positions.clear();
        self.steps.clear();
    }

    /// Creates the steps in the order in which positions reach their slices, as [`SlicePlan::route`] does.
    #[inline(always)]
    pub(crate) fn gather(&mut self, hashes: usize, place: impl Fn(usize) -> (u64, u64)) {
        self.clear();
        self.divide(hashes, place, |slice, _| slice);
    }

    /// Groups the positions of an event into steps, one for each slice. The parameters describe the positions and
    /// slices:
    ///
    /// - `hashes` is the number of positions, at most 16.
    /// - `place` returns, for the index of a position, a key and the position within the slice. Positions with the same
    ///   key belong to the same step.
    /// - `slice_of` returns the slice of a step, for the key and for the index of the first position with that key.
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

    /// Returns the number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns whether the route has no steps, because no event was routed yet.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns step `index`, or `None` if the route has fewer steps.
    #[inline]
    pub fn step(&self, index: usize) -> Option<Step<'_>> {
        let (slice, end) = *self.steps.get(index)?;
        let start = if index == 0 { 0 } else { self.steps[index - 1].1 };
        Some(Step { slice, positions: &self.positions[start..end] })
    }

    /// Returns an iterator over all steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        (0..self.len()).filter_map(|index| self.step(index))
    }
}
