//! Keys for the events of a benchmark. Each key has 16 bytes, and every fifth event repeats the key of an earlier
//! event. The number of distinct keys is known, so a benchmark can check how many events a system reports as new. All
//! systems of a comparison get the same keys.

/// Distance between repeats: one of this number of events repeats an earlier event.
const REPEAT_EVERY: u64 = 5;
/// Distance from a repeat to the event whose key it has.
const REPEAT_BACK: u64 = 2;

/// Stream of events, or the share of a stream that one connection sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    /// Number of the stream, which distinguishes the keys of different runs and shares.
    stream: u64,
    /// Prefix of the stream's keys.
    prefix: [u8; 8],
    events: u64,
}

impl Keys {
    /// Creates a stream of `events` events. No other `stream` has the same events.
    pub(crate) fn new(stream: u64, events: u64) -> Self {
        Self::of(stream << 8, events)
    }

    /// Creates the shortest stream with `distinct` distinct keys.
    pub(crate) fn with_distinct(stream: u64, distinct: u64) -> Self {
        Self::new(stream, distinct + distinct.saturating_sub(1) / (REPEAT_EVERY - 1))
    }

    /// Returns part `index` of `shares` parts of the stream.
    pub(crate) fn share(self, index: u64, shares: u64) -> Self {
        let events = self.events / shares + u64::from(index < self.events % shares);
        Self::of(self.stream + index + 1, events)
    }

    fn of(stream: u64, events: u64) -> Self {
        Self { stream, prefix: printable(stream), events }
    }

    /// Returns the number of events.
    pub(crate) fn events(self) -> u64 {
        self.events
    }

    /// Returns the number of distinct keys.
    pub(crate) fn distinct(self) -> u64 {
        self.events - self.events / REPEAT_EVERY
    }

    /// Returns the key of event `index`.
    pub(crate) fn key(self, index: u64) -> [u8; 16] {
        let number = if index % REPEAT_EVERY == REPEAT_EVERY - 1 { index - REPEAT_BACK } else { index };
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.prefix);
        key[8..].copy_from_slice(&printable(number));
        key
    }
}

/// Encodes the low 40 bits of a number as eight printable characters.
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
