//! Fencing tokens that identify the grants of claims.
//!
//! If an event is claimed twice, the later grant has the greater fencing token, even if different head nodes granted
//! the two claims.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::ids::{Epoch, FilterId, Incarnation};

/// Number of bits that count the grants of one process of a node.
const COUNTER_BITS: u32 = 40;

/// Fencing token of a granted claim. A consumer presents the fence when it confirms or releases the claim. A system
/// that receives events from several consumers can store the highest fence for each event, and reject deliveries with a
/// lower fence, because their claims have expired.
///
/// A later grant on the same event always has a higher fence. A fence consists of four numbers, which are compared in
/// this order:
///
/// - The number of the filter.
/// - The epoch of the filter, which rises if another node becomes the head node of the event.
/// - The incarnation of the head node, which rises if the head node restarts.
/// - A counter, which rises with every grant of one process.
///
/// Encoded fences compare in the same order.
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
    /// Length of an encoded fence in bytes.
    pub const BYTES: usize = 24;

    /// Creates the fence for grant number `counter` of a process. The first grant has the number 0. Returns `None` if
    /// the numbers are exhausted, which happens after 2^24 starts of a node or after 2^40 grants of one process.
    pub fn new(filter: FilterId, epoch: Epoch, incarnation: Incarnation, counter: u64) -> Option<Self> {
        let is_counted = incarnation.0 < 1 << (u64::BITS - COUNTER_BITS) && counter < 1 << COUNTER_BITS;
        is_counted.then_some(Self { filter, epoch, number: incarnation.0 << COUNTER_BITS | counter })
    }

    /// Encodes filter, epoch and number, each in big-endian order. The encoded bytes compare in the same order as the
    /// fences.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (part, value) in bytes.as_chunks_mut::<8>().0.iter_mut().zip([self.filter.0, self.epoch.0, self.number]) {
            *part = value.to_be_bytes();
        }
        bytes
    }

    /// Decodes a fence. Any bytes form a valid fence, but only a fence that a head node granted has an effect.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let (parts, _) = bytes.as_chunks::<8>();
        let [filter, epoch, number] = [parts[0], parts[1], parts[2]].map(u64::from_be_bytes);
        Self { filter: FilterId(filter), epoch: Epoch(epoch), number }
    }

    /// Creates a fence from the parts that are sent over the network.
    pub fn of_number(filter: FilterId, epoch: Epoch, number: u64) -> Self {
        Self { filter, epoch, number }
    }

    /// Returns the number of the fence within its filter and epoch.
    pub fn number(self) -> u64 {
        self.number
    }

    /// Returns the epoch of the cluster map under which the claim was granted.
    pub fn epoch(self) -> Epoch {
        self.epoch
    }

    /// Returns the filter whose head node granted the claim.
    pub fn filter(self) -> FilterId {
        self.filter
    }
}

/// Error returned when a text is not a fence, because it does not consist of 48 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a fence has 48 hexadecimal digits")]
pub struct NotAFence;

/// Formats the fence as 48 hexadecimal digits. Formatted fences compare in the same order as the fences.
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
