//! What owners of slices are asked and answer, what they send each other, and what they keep.
//!
//! Promises: plain data, and links that lose nothing. Must not know: how it travels, what is done with it.

mod cells;
mod entry;
mod link;
mod names;
mod peer;
mod submission;
mod tag;

pub use cells::{CellPlace, PositionLists};
pub use entry::{CheckpointCursor, ClockReading, Entry, Record};
pub use link::{LinkEnd, LinkEnds, LinkError, LinkFull, LinkReceiver, LinkSender};
pub use names::{BatchName, NamedEvent, SubmissionName};
pub use peer::{
    AskCells, CellParts, HandedOver, MirrorNumber, Mirrored, Past, PeerBody, PeerMessage, Resolved, SetAcks, SetBatch,
    TestBatch,
};
pub use submission::{
    Climb, Climbed, Command, Found, FromLevel, GroupReply, Moment, Operation, Submission, Tick, Times,
};
pub use tag::EventTag;
