//! Idempotency keys that callers have given to single events. The replay guard stores these keys in blocks of 64
//! consecutive numbers of one source, so a source that numbers its events consecutively needs little memory. The stored
//! reply for a key is used only for the event that had this key first.

use super::Standing;
use super::queue::{Keyed, KeyedQueue, mix};
use super::verdicts::Word;
use crate::protocol::{EventTag, MonotonicMs, NamedEvent, SubmissionName};
use crate::verdict::Decision;

struct Block {
    source: u128,
    /// Number of the block, which is the number of a key divided by 64.
    block: u64,
    replies: Word,
    in_flight: u64,
    /// Tags of the events that were accepted under these keys.
    tags: [EventTag; 64],
    /// Time at which an event of this block was last accepted.
    used_ms: MonotonicMs,
    queued_ms: MonotonicMs,
}

impl Block {
    /// Notes that an event is in flight from now on.
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

/// Key of a block of 64 consecutive numbers of one source.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct BlockKey {
    source: u128,
    /// Number of the block, which is the number of a key divided by 64.
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

/// Returns the block of an idempotency key and the index within the block.
fn place(name: SubmissionName) -> (BlockKey, u32) {
    (BlockKey { source: name.source, block: name.number / 64 }, (name.number % 64) as u32)
}

/// All events with their own idempotency keys that the guard remembers.
pub(super) struct Names {
    blocks: KeyedQueue<Block>,
}

impl Names {
    pub(super) fn new() -> Self {
        Self { blocks: KeyedQueue::new() }
    }

    /// Returns what the guard knows about an event, and marks a new event as in flight.
    ///
    /// If the guard does not know the event's key, it compares the number of the key with `low_water`. A number below
    /// `low_water` may belong to a key that was forgotten, so the event counts as too old. Otherwise the event is new.
    /// If the key was used for a different event before, the result is [`Standing::NAME_REUSED`].
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
            // The event that had this key got no reply or nothing was recorded for it, so the key may be used for
            // another event.
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

    /// Returns what is known about an event, without changing anything.
    pub(super) fn recall(&mut self, name: SubmissionName) -> Standing {
        let (key, bit) = place(name);
        self.blocks.find_mut(key).map_or(Standing::TOO_OLD, |block| block.standing(bit))
    }

    /// Adds the reply to an event. Returns `false` if its block is not remembered.
    pub(super) fn learn(&mut self, name: SubmissionName, decision: Decision) -> bool {
        let (key, bit) = place(name);
        let Some(block) = self.blocks.find_mut(key) else { return false };
        let replies = Word::of(&[decision]);
        block.replies = block.replies.with(Word { decided: replies.decided << bit, verdicts: replies.verdicts << bit });
        block.in_flight &= !(1 << bit);
        true
    }

    /// Returns all remembered events with what is known about each, block by block.
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

    /// Returns the time at which the oldest block was added or last moved to the back of the queue.
    pub(super) fn oldest_ms(&self) -> Option<MonotonicMs> {
        self.blocks.front().map(|block| block.queued_ms)
    }

    /// Examines the oldest block of keys. A block that was used within the last `keep_ms` milliseconds moves to the
    /// back of the queue, and the function returns `None`. An older block is forgotten.
    ///
    /// If a block is forgotten, the function returns its source and the greatest number that was used in it. The caller
    /// then raises the low-water mark of this source above that number. As a result, the forgotten keys are rejected
    /// and never treated as new.
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
