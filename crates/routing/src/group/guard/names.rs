//! Submissions that callers have named: blocks of 64 numbers of one source.
//!
//! Promises: numbers that follow each other share a block; what is known of a name is the reply only to the event that
//! has it. Must not know: marks, memory limits.

use super::Standing;
use super::queue::{Keyed, KeyedQueue, mix};
use super::verdicts::Word;
use crate::protocol::{EventTag, MonotonicMs, NamedEvent, SubmissionName};
use crate::verdict::Decision;

struct Block {
    source: u128,
    /// `number / 64` of the submissions.
    block: u64,
    replies: Word,
    in_flight: u64,
    /// The tags of the events that were taken up under these names.
    tags: [EventTag; 64],
    /// When a submission of these was last taken up.
    used_ms: MonotonicMs,
    queued_ms: MonotonicMs,
}

impl Block {
    /// A submission is in flight from now on.
    fn begin(&mut self, bit: u32, tag: EventTag) {
        self.in_flight |= 1 << bit;
        self.tags[bit as usize] = tag;
    }

    fn standing(&self, bit: u32) -> Standing {
        match self.in_flight >> bit & 1 {
            0 => self.replies.standing(bit),
            _ => Standing::InFlight,
        }
    }
}

/// 64 submissions of a source whose numbers follow each other.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct BlockKey {
    source: u128,
    /// `number / 64` of the submissions.
    block: u64,
}

impl Keyed for Block {
    type Key = BlockKey;

    fn key(&self) -> BlockKey {
        BlockKey { source: self.source, block: self.block }
    }

    fn hash(key: BlockKey) -> u64 {
        mix(key.source, key.block)
    }
}

/// The block of a submission, and the place there.
fn place(name: SubmissionName) -> (BlockKey, u32) {
    (BlockKey { source: name.source, block: name.number / 64 }, (name.number % 64) as u32)
}

/// All named submissions that are remembered.
pub(super) struct Names {
    blocks: KeyedQueue<Block>,
}

impl Names {
    pub(super) fn new() -> Self {
        Self { blocks: KeyedQueue::new() }
    }

    /// What is known of a submission. A new one is in flight from now on; one of which nothing is known and whose
    /// number is below `low_water` is too old. For another event than the one that the name stands for, the standing
    /// says so.
    pub(super) fn take(
        &mut self,
        NamedEvent { name, tag }: NamedEvent,
        low_water: u64,
        now_ms: MonotonicMs,
    ) -> Standing {
        let (key, bit) = place(name);
        let is_new = name.number >= low_water;
        let Some(block) = self.blocks.find_mut(key) else {
            if is_new {
                self.open(key, now_ms).begin(bit, tag);
                return Standing::New;
            }
            return Standing::TOO_OLD;
        };
        block.used_ms = now_ms;
        match block.standing(bit) {
            // Nothing was recorded for the event that had the name, or it got no reply: the name may stand for another
            // event.
            Standing::New if is_new => {
                block.begin(bit, tag);
                Standing::New
            }
            Standing::New => Standing::TOO_OLD,
            _ if !block.tags[bit as usize].may_be(tag) => Standing::NAME_REUSED,
            standing => standing,
        }
    }

    fn open(&mut self, BlockKey { source, block }: BlockKey, now_ms: MonotonicMs) -> &mut Block {
        self.blocks.push_back(Block {
            source,
            block,
            replies: Word::default(),
            in_flight: 0,
            tags: [EventTag::NONE; 64],
            used_ms: now_ms,
            queued_ms: now_ms,
        })
    }

    /// What is known of a submission; nothing changes.
    pub(super) fn recall(&mut self, name: SubmissionName) -> Standing {
        let (key, bit) = place(name);
        self.blocks.find_mut(key).map_or(Standing::TOO_OLD, |block| block.standing(bit))
    }

    /// Adds a reply; `false` where the block is not remembered.
    pub(super) fn learn(&mut self, name: SubmissionName, decision: Decision) -> bool {
        let (key, bit) = place(name);
        let Some(block) = self.blocks.find_mut(key) else { return false };
        let replies = Word::of(&[decision]);
        block.replies = block.replies.with(Word { decided: replies.decided << bit, verdicts: replies.verdicts << bit });
        block.in_flight &= !(1 << bit);
        true
    }

    /// All submissions that are remembered, with what is known of each, block by block.
    pub(super) fn iter(&self) -> impl Iterator<Item = Vec<(NamedEvent, Standing)>> {
        self.blocks.iter().map(|block| {
            let taken = block.replies.decided | block.replies.verdicts | block.in_flight;
            let bits = (0..64_u32).filter(|bit| taken >> bit & 1 == 1);
            let events = bits.map(|bit| {
                let name = SubmissionName { source: block.source, number: block.block * 64 + u64::from(bit) };
                (NamedEvent { name, tag: block.tags[bit as usize] }, block.standing(bit))
            });
            events.collect()
        })
    }

    /// When the oldest block was taken up, or was last put off.
    pub(super) fn oldest_ms(&self) -> Option<MonotonicMs> {
        self.blocks.front().map(|block| block.queued_ms)
    }

    /// Puts the oldest block off if it was used within `keep_ms`; otherwise forgets it and returns the source and the
    /// greatest number that was taken up.
    pub(super) fn pass(&mut self, now_ms: MonotonicMs, keep_ms: u64) -> Option<SubmissionName> {
        let block = self.blocks.pop_front()?;
        if now_ms.since(block.used_ms) < keep_ms {
            self.blocks.push_back(Block { queued_ms: now_ms, ..block });
            return None;
        }
        let taken = block.replies.decided | block.replies.verdicts | block.in_flight;
        let greatest = taken.checked_ilog2()?;
        Some(SubmissionName { source: block.source, number: block.block * 64 + u64::from(greatest) })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.blocks.len() as u64 * KeyedQueue::<Block>::ENTRY_BYTES
    }
}
