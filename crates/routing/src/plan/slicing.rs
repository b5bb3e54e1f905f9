//! How a filter is cut into slices: the words users say, and their limits (Koloniari 2011, section 3).
//!
//! Promises: a [`Slicing`] that exists has from 1 to [`SLICES_MAX`] slices. Must not know: cells, kinds.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Most slices of one filter, in all.
pub const SLICES_MAX: u32 = 4096;

/// How a filter is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slicing(Cut);

/// The two ways to cut, and their combinations. Numbers are slices of the first cut, then of the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cut {
    /// One slice.
    #[default]
    None,
    /// Events are divided: one more hash picks the slice that holds all of an event's positions.
    Horizontal(NonZeroU32),
    /// Cells are divided: each slice is a range of positions.
    Vertical(NonZeroU32),
    /// Events are divided over groups, and each group's cells over its slices.
    HorizontalVertical(NonZeroU32, NonZeroU32),
    /// Cells are divided over ranges, and each range's events over its slices, by a hash of its own for each range.
    VerticalHorizontal(NonZeroU32, NonZeroU32),
}

/// Why a slicing cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SlicingError {
    /// Not one of the forms.
    #[error(
        "slicing `{0}` is not understood: write `none`, `horizontal:S`, `vertical:S`, `horizontal-vertical:SxT` or \
         `vertical-horizontal:SxT` with numbers of slices (vertical:8, horizontal-vertical:4x8)"
    )]
    Form(String),
    /// None, or too many.
    #[error("slicing `{slicing}` has {slices} slices in all: choose 1 to {SLICES_MAX}")]
    Slices {
        /// What was asked for.
        slicing: String,
        /// Slices that it would have.
        slices: u64,
    },
}

impl Slicing {
    /// One slice: the filter is not cut.
    pub const NONE: Self = Self(Cut::None);

    /// Checks the number of slices.
    ///
    /// # Errors
    /// [`SlicingError::Slices`] above [`SLICES_MAX`].
    pub fn new(cut: Cut) -> Result<Self, SlicingError> {
        match slices_of(cut) {
            slices if slices <= u64::from(SLICES_MAX) => Ok(Self(cut)),
            slices => Err(SlicingError::Slices { slicing: Self(cut).to_string(), slices }),
        }
    }

    /// The cut.
    pub fn cut(self) -> Cut {
        self.0
    }

    /// Slices in all.
    pub fn slices(self) -> u32 {
        self.groups() * self.slices_per_group()
    }

    /// Groups of slices that share events: an event touches the slices of one group only.
    pub fn groups(self) -> u32 {
        match self.0 {
            Cut::None | Cut::Vertical(_) | Cut::VerticalHorizontal(..) => 1,
            Cut::Horizontal(groups) | Cut::HorizontalVertical(groups, _) => groups.get(),
        }
    }

    /// Slices that the cells of one group are divided over.
    pub fn slices_per_group(self) -> u32 {
        match self.0 {
            Cut::None | Cut::Horizontal(_) => 1,
            Cut::Vertical(slices) | Cut::HorizontalVertical(_, slices) => slices.get(),
            Cut::VerticalHorizontal(ranges, parts) => ranges.get() * parts.get(),
        }
    }

    /// The slices of one group.
    pub fn slices_of(self, group: u32) -> Range<u32> {
        let first = group.saturating_mul(self.slices_per_group());
        first..first.saturating_add(self.slices_per_group())
    }

    /// The group of a slice.
    pub fn group_of(self, slice: u32) -> u32 {
        slice / self.slices_per_group()
    }

    /// Whether the positions of one event lie in several slices: vertical and both diced cuts.
    pub fn divides_cells(self) -> bool {
        !matches!(self.0, Cut::None | Cut::Horizontal(_))
    }
}

fn slices_of(cut: Cut) -> u64 {
    match cut {
        Cut::None => 1,
        Cut::Horizontal(slices) | Cut::Vertical(slices) => u64::from(slices.get()),
        Cut::HorizontalVertical(outer, inner) | Cut::VerticalHorizontal(outer, inner) => {
            u64::from(outer.get()) * u64::from(inner.get())
        }
    }
}

impl FromStr for Slicing {
    type Err = SlicingError;

    /// ```
    /// use firstseen_routing::{Slicing, SlicingError};
    /// let slicing: Slicing = "horizontal-vertical:4x8".parse().unwrap();
    /// assert_eq!((slicing.groups(), slicing.slices_per_group(), slicing.slices()), (4, 8, 32));
    /// assert_eq!(slicing.to_string(), "horizontal-vertical:4x8");
    /// assert!(matches!("vertical:0".parse::<Slicing>(), Err(SlicingError::Slices { slices: 0, .. })));
    /// assert!("diagonal:4".parse::<Slicing>().unwrap_err().to_string().contains("vertical-horizontal:SxT"));
    /// ```
    fn from_str(text: &str) -> Result<Self, SlicingError> {
        if text == "none" {
            return Ok(Self::NONE);
        }
        let Some((name, outer, inner)) = parts_of(text) else { return Err(SlicingError::Form(text.to_owned())) };
        let (Some(outer), Some(inner)) = (NonZeroU32::new(outer), NonZeroU32::new(inner)) else {
            return Err(SlicingError::Slices { slicing: text.to_owned(), slices: 0 });
        };
        Self::new(match name {
            "horizontal" => Cut::Horizontal(outer),
            "vertical" => Cut::Vertical(outer),
            "horizontal-vertical" => Cut::HorizontalVertical(outer, inner),
            _ => Cut::VerticalHorizontal(outer, inner),
        })
    }
}

/// The name of a slicing, and its numbers of slices; the second is 1 where the name takes one number. `None` if `text`
/// does not have that form.
fn parts_of(text: &str) -> Option<(&str, u32, u32)> {
    let (name, numbers) = text.split_once(':')?;
    match (name, numbers.split_once('x')) {
        ("horizontal" | "vertical", None) => Some((name, number(numbers)?, 1)),
        ("horizontal-vertical" | "vertical-horizontal", Some((outer, inner))) => {
            Some((name, number(outer)?, number(inner)?))
        }
        _ => None,
    }
}

/// A number of digits alone, without a sign.
fn number(digits: &str) -> Option<u32> {
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
}

impl fmt::Display for Slicing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Cut::None => f.write_str("none"),
            Cut::Horizontal(slices) => write!(f, "horizontal:{slices}"),
            Cut::Vertical(slices) => write!(f, "vertical:{slices}"),
            Cut::HorizontalVertical(outer, inner) => write!(f, "horizontal-vertical:{outer}x{inner}"),
            Cut::VerticalHorizontal(outer, inner) => write!(f, "vertical-horizontal:{outer}x{inner}"),
        }
    }
}

impl TryFrom<String> for Slicing {
    type Error = SlicingError;

    fn try_from(text: String) -> Result<Self, SlicingError> {
        text.parse()
    }
}

impl From<Slicing> for String {
    fn from(slicing: Slicing) -> Self {
        slicing.to_string()
    }
}
