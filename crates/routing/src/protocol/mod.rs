//! What owners of slices are asked and reply, what they send each other, and what they persist.
//!
//! Promises: plain data, and links that lose nothing. Must not know: how messages travel, what is done with them.

mod answers;
mod cells;
mod entry;
mod fence;
mod hold;
mod link;
mod moment;
mod names;
mod peer;
mod submission;
mod tag;

pub use answers::Answers;
pub use cells::{CellPlace, PositionLists};
pub use entry::{CheckpointCursor, ClockReading, Entry, Record};
pub use fence::{Fence, NotAFence};
pub use hold::Hold;
pub use link::{LinkEnd, LinkEnds, LinkError, LinkFull, LinkReceiver, LinkSender};
pub use moment::{Moment, MonotonicMs};
pub use names::{BatchName, NamedEvent, SubmissionName};
pub(crate) use peer::TestAnswer;
pub use peer::{
    AskCells, BackupCells, CellParts, ClaimTests, HandedOver, MirrorNumber, Mirrored, Past, PeerBody, PeerMessage,
    Resolved, SetAcks, SetBatch, TestBatch, TestRun,
};
pub use submission::{
    Climb, Climbed, Command, EarlyDuplicates, FromLevel, GroupReply, Operation, Proposal, Submission, Tick, Times,
};
pub use tag::EventTag;
