//! Compact storage of replies, with at most two bits per event. For example, the replies to a batch of 1,024 decided
//! events take 128 bytes. A definite decision never changes once it is stored.

use super::Standing;
use crate::verdict::{Decision, Reason};

/// Replies to up to 64 events, with two bits per event. The first bit states whether the event is decided. The meaning
/// of the second bit depends on the first bit:
/// - If the event is decided, the second bit contains the decision.
/// - If the event is undecided, a set second bit means that the reply was [`Reason::Unknown`]. Such an event may have
///   been recorded, so it must not be executed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) decided: u64,
    pub(super) verdicts: u64,
}

impl Word {
    /// Returns the word for `decisions`, of which there are at most 64.
    #[inline]
    pub(super) fn of(decisions: &[Decision]) -> Self {
        let mut word = Self::default();
        for (bit, decision) in decisions.iter().enumerate() {
            // The bits are computed without branches, because the processor cannot predict the next decision.
            let decided = u64::from(!matches!(decision, Decision::Undecided(_)));
            let verdict = u64::from(matches!(decision, Decision::Duplicate | Decision::Undecided(Reason::Unknown)));
            word.decided |= decided << bit;
            word.verdicts |= verdict << bit;
        }
        word
    }

    /// Returns this word combined with what `later` adds.
    #[inline]
    pub(super) fn with(self, later: Self) -> Self {
        let decided = self.decided | later.decided;
        let kept = self.verdicts & self.decided;
        let added = later.verdicts & later.decided & !self.decided;
        let unknown = (self.verdicts | later.verdicts) & !decided;
        Self { decided, verdicts: kept | added | unknown }
    }

    #[inline]
    pub(super) fn standing(self, bit: u32) -> Standing {
        match (self.decided >> bit & 1, self.verdicts >> bit & 1) {
            (0, 0) => Standing::New,
            (0, _) => Standing::Answered(Decision::Undecided(Reason::Unknown)),
            (_, 0) => Standing::Answered(Decision::FirstSeen),
            _ => Standing::Answered(Decision::Duplicate),
        }
    }
}

/// Replies to the events of a batch.
#[derive(Debug, Default)]
pub(super) enum Verdicts {
    /// No reply is known yet.
    #[default]
    None,
    /// Replies to a batch of up to 64 events.
    Few(Word),
    /// Replies to a batch whose events are all decided, with one bit per event.
    Decided(Box<[u64]>),
    /// Replies to a batch with undecided events. The first half of the words says which events are decided, the second
    /// half says how.
    Mixed(Box<[u64]>),
}

impl Verdicts {
    /// Adds `decisions`. `scratch` is a buffer that is reused between calls.
    pub(super) fn learn(&mut self, decisions: &[Decision], scratch: &mut Vec<u64>) {
        if decisions.len() <= 64 {
            *self = Self::Few(self.word(0).with(Word::of(decisions)));
            return;
        }
        let words = decisions.len().div_ceil(64);
        scratch.clear();
        scratch.resize(2 * words, 0);
        let mut decided = 0;
        for (index, chunk) in decisions.chunks(64).enumerate() {
            let word = self.word(index).with(Word::of(chunk));
            decided += word.decided.count_ones() as usize;
            (scratch[index], scratch[words + index]) = (word.decided, word.verdicts);
        }
        *self = if decided == decisions.len() {
            Self::Decided(scratch[words..].into())
        } else {
            Self::Mixed(scratch[..].into())
        };
    }

    #[inline]
    pub(super) fn word(&self, index: usize) -> Word {
        match self {
            Self::None => Word::default(),
            Self::Few(word) if index == 0 => *word,
            Self::Few(_) => Word::default(),
            Self::Decided(words) => Word { decided: u64::MAX, verdicts: word_at(words, index) },
            Self::Mixed(words) => {
                Word { decided: word_at(words, index), verdicts: word_at(words, words.len() / 2 + index) }
            }
        }
    }

    /// Returns the bytes that are allocated in addition to this value, including the overhead of the allocator.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::None | Self::Few(_) => 0,
            Self::Decided(words) | Self::Mixed(words) => 8 * words.len() as u64 + 16,
        }
    }
}

#[inline]
fn word_at(words: &[u64], index: usize) -> u64 {
    words.get(index).copied().unwrap_or(0)
}
