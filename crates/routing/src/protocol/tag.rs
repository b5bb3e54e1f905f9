//! Tags of events. A tag is a short fingerprint of an event, and reveals when a client uses the same idempotency key
//! for two different events. A tag has only 16 bits, so two different events have the same tag with a probability of 1
//! in 65,535.
//!
//! Tags are stored in journals and sent over the network. The same event must therefore have the same tag on every
//! machine and in every version of the program.

use firstseen_filter::Probes;

/// Number of positions that enter a tag. Not all positions of an event are used, but two events hardly ever share all
/// of the first four.
const POSITIONS_MAX: usize = 4;

/// Fingerprint of an event, 16 bits long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventTag(u16);

impl EventTag {
    /// Tag of an event that is not known. It is considered equal to every tag.
    pub const NONE: Self = Self(0);

    /// Returns the tag of the event at `index`.
    #[inline]
    pub fn of(probes: &Probes, index: usize) -> Self {
        let sum = match probes.block(index) {
            Some(probe) => [probe.block, probe.words[0], probe.words[1]].iter().fold(0, fold),
            None => probes.positions(index).iter().take(POSITIONS_MAX).fold(0, fold),
        };
        Self(((sum ^ sum >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 48).max(1) as u16)
    }

    /// Returns the tag of a batch. The tag reveals when a client sends two different batches with the same idempotency
    /// key. It is computed from the first and the last event of the batch, because two different batches usually differ
    /// in at least one of these two events.
    pub(crate) fn of_batch(probes: &Probes) -> Self {
        match probes.len().checked_sub(1) {
            Some(last) => Self(Self::of(probes, 0).0.wrapping_mul(2).wrapping_add(Self::of(probes, last).0).max(1)),
            None => Self::NONE,
        }
    }

    /// Restores a tag from the result of [`Self::bits`].
    pub fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Returns the bits of the tag, in the form that is persisted and sent over the network.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Returns whether both tags may belong to the same event.
    #[inline]
    pub(crate) fn may_be(self, other: Self) -> bool {
        self == other || self == Self::NONE || other == Self::NONE
    }
}

#[inline]
fn fold(sum: u64, word: &u64) -> u64 {
    (sum ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{BlockProbe, ProbeShape};

    use super::*;

    fn spread(positions: &[u64]) -> EventTag {
        let mut probes = Probes::new(ProbeShape::Spread { cells: 1 << 40, hashes: positions.len() as u32 });
        probes.push_positions(positions).expect("inside");
        EventTag::of(&probes, 0)
    }

    fn block(block: u64, words: [u64; 2]) -> EventTag {
        let mut probes = Probes::new(ProbeShape::Blocked { blocks: 1 << 20, offset_bits: 9, hashes: 8 });
        probes.push_block(BlockProbe { block, words }).expect("inside");
        EventTag::of(&probes, 0)
    }

    #[test]
    fn tags_that_were_kept_are_read_by_every_version() {
        let tags = [spread(&[7]), spread(&[1, 2, 3, 4, 5]), block(1, [2, 3])];
        assert_eq!(tags.map(EventTag::bits), [23904, 50276, 27936]);
    }

    #[test]
    fn events_that_differ_little_have_other_tags() {
        let same = |tags: Vec<EventTag>| tags.windows(2).filter(|pair| pair[0] == pair[1]).count();
        for step in [1, 64, 1 << 20, 1 << 33] {
            assert!(same((0..4000).map(|event| spread(&[event * step % (1 << 40)])).collect()) <= 2, "{step}");
            assert!(same((0..4000).map(|event| spread(&[5, 9, 2, event * step % (1 << 40)])).collect()) <= 2, "{step}");
        }
        for bit in 0..50 {
            assert_ne!(block(1, [2, 3]), block(1, [2, 3 ^ 1 << bit]), "{bit}");
        }
        assert!(EventTag::NONE.may_be(spread(&[1])) && !spread(&[1]).may_be(spread(&[2])));
    }
}
