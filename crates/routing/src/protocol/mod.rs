//! Messages of the owners of slices: requests and replies, messages between nodes, and entries that are stored on disk.
//! The types in this module are plain data, with the exception of the links, which deliver messages in order and
//! exactly once over streams that can break.

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
pub(crate) use submission::LevelAnswer;
pub use submission::{
    Command, EarlyDuplicates, FromLevel, GroupReply, LevelContact, LevelQuery, LevelReply, Operation, Proposal,
    Submission, Tick, Times,
};
pub use tag::EventTag;
