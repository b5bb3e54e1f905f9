//! Slicings, which divide a filter into slices (Koloniari et al. 2011, section 3). A [`Slicing`] has a textual form
//! such as `vertical:8`. The number of its slices is at least 1 and at most [`SLICES_MAX`].

use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum number of slices of one filter.
pub const SLICES_MAX: u32 = 4096;

/// Slicing of a filter. It has a textual form such as `vertical:8`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slicing(Cut);

/// Ways to divide a filter into slices. A filter can be divided by events (horizontal), by cells (vertical), or by
/// both. The two ways that combine both divisions take two numbers, in the order of their names. For example, the first
/// number of `vertical-horizontal` belongs to the vertical division.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cut {
    /// The filter is a single slice.
    #[default]
    None,
    /// Events are divided over slices: an additional hash picks the slice that holds all positions of an event.
    Horizontal(NonZeroU32),
    /// Cells are divided over slices: each slice is a range of positions.
    Vertical(NonZeroU32),
    /// Events are divided over groups, and the cells of each group are divided over its slices.
    HorizontalVertical(NonZeroU32, NonZeroU32),
    /// Cells are divided into ranges, and the events of each range are divided over several slices. Each range uses a
    /// different hash to select the slice of an event. The same event can therefore have, for example, the third slice
    /// of one range and the first slice of another range.
    VerticalHorizontal(NonZeroU32, NonZeroU32),
}

/// Error returned when a slicing cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SlicingError {
    /// The text has none of the supported forms.
    #[error(
        "slicing `{0}` is not understood: write `none`, `horizontal:S`, `vertical:S`, `horizontal-vertical:SxT` or \
         `vertical-horizontal:SxT` with numbers of slices (vertical:8, horizontal-vertical:4x8)"
    )]
    Form(String),
    /// The number of slices is 0 or too large.
    #[error("slicing `{slicing}` has {slices} slices in all: choose 1 to {SLICES_MAX}")]
    Slices {
        /// The slicing as text.
        slicing: String,
        /// Number of slices that the slicing would have.
        slices: u64,
    },
}

impl Slicing {
    /// Slicing with a single slice, so that the filter is not divided.
    pub const NONE: Self = Self(Cut::None);

    /// Creates a slicing, and checks the number of slices.
    ///
    /// # Errors
    /// Returns [`SlicingError::Slices`] if there would be more than [`SLICES_MAX`] slices.
    pub fn new(cut: Cut) -> Result<Self, SlicingError> {
        match slices_of(cut) {
            slices if slices <= u64::from(SLICES_MAX) => Ok(Self(cut)),
            slices => Err(SlicingError::Slices { slicing: Self(cut).to_string(), slices }),
        }
    }

    /// Returns how the filter is divided.
    pub fn cut(self) -> Cut {
        self.0
    }

    /// Returns the total number of slices.
    pub fn slices(self) -> u32 {
        self.groups() * self.slices_per_group()
    }

    /// Returns the number of groups of slices that share events. An event touches the slices of a single group.
    pub fn groups(self) -> u32 {
        match self.0 {
            Cut::None | Cut::Vertical(_) | Cut::VerticalHorizontal(..) => 1,
            Cut::Horizontal(groups) | Cut::HorizontalVertical(groups, _) => groups.get(),
        }
    }

    /// Returns the number of slices over which the cells of one group are divided.
    pub fn slices_per_group(self) -> u32 {
        match self.0 {
            Cut::None | Cut::Horizontal(_) => 1,
            Cut::Vertical(slices) | Cut::HorizontalVertical(_, slices) => slices.get(),
            Cut::VerticalHorizontal(ranges, parts) => ranges.get() * parts.get(),
        }
    }

    /// Returns the slices of one group.
    pub fn slices_of(self, group: u32) -> Range<u32> {
        let first = group.saturating_mul(self.slices_per_group());
        first..first.saturating_add(self.slices_per_group())
    }

    /// Returns the group of a slice.
    pub fn group_of(self, slice: u32) -> u32 {
        slice / self.slices_per_group()
    }

    /// Returns whether the positions of one event are spread over several slices. This is the case for all slicings
    /// except `none` and horizontal slicing, where one slice holds all positions of an event.
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

    /// Parses a slicing.
    ///
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

/// Splits the text of a slicing, such as `vertical:8`, into its name and its two numbers. If the name takes only one
/// number, the second number is 1. Returns `None` if `text` does not have this form.
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

/// Parses a number that consists of digits only, without a sign.
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
