//! The number of a grant.
//!
//! Promises: of two grants of one event the later one has the greater fence, whichever heads gave them. Must not know: what
//! is claimed.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::ids::{Epoch, FilterId, Incarnation};

/// Bits that count the grants of one process of a node.
const COUNTER_BITS: u32 = 40;

/// What a holder shows when it confirms or releases, and what a sink that compares fences keeps.
///
/// Heads of an event change with the filter's epoch, one head has one process at a time, and a process counts: so fences
/// rise. They are compared in this order, as numbers and as bytes.
///
/// ```
/// use firstseen_routing::{Epoch, Fence, FilterId, Incarnation};
/// let first = Fence::new(FilterId(7), Epoch(3), Incarnation(2), 0).unwrap();
/// let after_a_restart = Fence::new(FilterId(7), Epoch(3), Incarnation(3), 0).unwrap();
/// let of_a_new_head = Fence::new(FilterId(7), Epoch(4), Incarnation(1), 0).unwrap();
/// assert!(first < after_a_restart && after_a_restart < of_a_new_head);
/// assert!(first.to_bytes() < after_a_restart.to_bytes());
/// assert_eq!(Fence::from_bytes(first.to_bytes()), first);
/// assert_eq!(first.to_string().parse(), Ok(first));
/// assert!("0a".parse::<Fence>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    filter: FilterId,
    epoch: Epoch,
    number: u64,
}

impl Fence {
    /// Bytes of a fence.
    pub const BYTES: usize = 24;

    /// The `counter`th fence that a process gives, from 0 on; `None` where a process or a grant has no number any more
    /// (after 2^24 starts of a node, or 2^40 grants of one process).
    pub fn new(filter: FilterId, epoch: Epoch, incarnation: Incarnation, counter: u64) -> Option<Self> {
        let is_counted = incarnation.0 < 1 << (u64::BITS - COUNTER_BITS) && counter < 1 << COUNTER_BITS;
        is_counted.then_some(Self { filter, epoch, number: incarnation.0 << COUNTER_BITS | counter })
    }

    /// Filter, epoch and number, big-endian each: bytes compare as fences do.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (part, value) in bytes.as_chunks_mut::<8>().0.iter_mut().zip([self.filter.0, self.epoch.0, self.number]) {
            *part = value.to_be_bytes();
        }
        bytes
    }

    /// The fence that has these bytes. Any bytes are one, and only those that a head gave are of use.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let (parts, _) = bytes.as_chunks::<8>();
        let [filter, epoch, number] = [parts[0], parts[1], parts[2]].map(u64::from_be_bytes);
        Self { filter: FilterId(filter), epoch: Epoch(epoch), number }
    }

    /// The fence of this number, as it travels.
    pub fn of_number(filter: FilterId, epoch: Epoch, number: u64) -> Self {
        Self { filter, epoch, number }
    }

    /// Its number among those of its filter and epoch.
    pub fn number(self) -> u64 {
        self.number
    }

    /// The epoch of the map by which it was given.
    pub fn epoch(self) -> Epoch {
        self.epoch
    }

    /// The filter whose head gave it.
    pub fn filter(self) -> FilterId {
        self.filter
    }
}

/// No fence can be read from a text: it has 48 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a fence has 48 hexadecimal digits")]
pub struct NotAFence;

/// Its bytes as 48 hexadecimal digits, which compare as fences do.
impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}{:016x}", self.filter.0, self.epoch.0, self.number)
    }
}

impl FromStr for Fence {
    type Err = NotAFence;

    fn from_str(text: &str) -> Result<Self, NotAFence> {
        if text.len() != 2 * Self::BYTES || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(NotAFence);
        }
        let mut words = [0; 3];
        for (at, word) in words.iter_mut().enumerate() {
            *word = u64::from_str_radix(&text[16 * at..16 * at + 16], 16).map_err(|_| NotAFence)?;
        }
        let [filter, epoch, number] = words;
        Ok(Self { filter: FilterId(filter), epoch: Epoch(epoch), number })
    }
}
