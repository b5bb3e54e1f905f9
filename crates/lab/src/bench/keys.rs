//! The events of a benchmark: keys of 16 bytes, of which every fifth repeats an earlier one.
//!
//! Promises: every system that is measured gets the same keys; the number of distinct keys is known. Must not know:
//! which system answers.

/// One of so many events repeats an earlier one.
const REPEAT_EVERY: u64 = 5;
/// A repeat has the key of the event so many places earlier.
const REPEAT_BACK: u64 = 2;

/// A stream of events, or the share of it that one connection sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    /// Keeps the keys of runs and shares apart.
    stream: u64,
    /// The letters that its keys begin with.
    prefix: [u8; 8],
    events: u64,
}

impl Keys {
    /// `events` events that no other `stream` has.
    pub(crate) fn new(stream: u64, events: u64) -> Self {
        Self::of(stream << 8, events)
    }

    /// The shortest stream with so many different keys.
    pub(crate) fn with_distinct(stream: u64, distinct: u64) -> Self {
        Self::new(stream, distinct + distinct.saturating_sub(1) / (REPEAT_EVERY - 1))
    }

    /// Part `index` of `shares` of the stream.
    pub(crate) fn share(self, index: u64, shares: u64) -> Self {
        let events = self.events / shares + u64::from(index < self.events % shares);
        Self::of(self.stream + index + 1, events)
    }

    fn of(stream: u64, events: u64) -> Self {
        Self { stream, prefix: printable(stream), events }
    }

    /// Events.
    pub(crate) fn events(self) -> u64 {
        self.events
    }

    /// Different keys among them.
    pub(crate) fn distinct(self) -> u64 {
        self.events - self.events / REPEAT_EVERY
    }

    /// The key of event `index`.
    pub(crate) fn key(self, index: u64) -> [u8; 16] {
        let number = if index % REPEAT_EVERY == REPEAT_EVERY - 1 { index - REPEAT_BACK } else { index };
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.prefix);
        key[8..].copy_from_slice(&printable(number));
        key
    }
}

/// Eight letters for the low 40 bits.
fn printable(number: u64) -> [u8; 8] {
    std::array::from_fn(|place| b'0' + ((number >> (5 * place)) & 31) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_fifth_key_repeats() {
        let keys = Keys::new(3, 1003);
        let distinct: HashSet<_> = (0..keys.events()).map(|event| keys.key(event)).collect();
        assert_eq!(distinct.len() as u64, keys.distinct());
        let shares: u64 = (0..8).map(|index| keys.share(index, 8).events()).sum();
        assert_eq!(shares, keys.events());
        for distinct in [0, 1, 4, 5, 8, 9, 100] {
            assert_eq!(Keys::with_distinct(1, distinct).distinct(), distinct);
        }
    }
}
