//! Copies a topic to another topic without its duplicates. The topics belong to a log with consumer groups, such as
//! Kafka. The log supplies the groups, the offsets and the transactions, and this crate supplies the filter.
//!
//! ```text
//! Input::poll -- messages --> EventReader -- digests, times --> PartitionFilter -- outcomes --> Output::write, commit
//! ```
//!
//! - [`Pipe`] is the loop: it collects a batch, decides it, delivers it in one transaction, and continues.
//! - [`EventReader`] finds the key and the time of each message.
//! - [`PartitionFilter`] decides about the events of one input partition. It performs no I/O.
//! - [`Input`] and [`Output`] are the interface to a log. The module `kafka` implements them, and nothing outside of it
//!   depends on Kafka.
//!
//! # Guarantees
//!
//! - Every message gets exactly one [`Outcome`], and a message is never skipped.
//! - A filter that is saved, or that outlives a batch, contains only events whose delivery is committed.
//! - The memory is bounded by the size of a batch and by the filters.
#![warn(missing_docs)]

mod batch;
mod checkpoint;
mod counts;
mod error;
mod faults;
#[cfg(feature = "kafka")]
pub mod kafka;
mod key;
mod message;
mod outcome;
mod partition;
mod partition_filter;
mod parts;
mod pipe;
mod ports;
mod reader;
mod rebuild;
mod settings;

pub use checkpoint::{CheckpointDefinition, CheckpointFolder};
pub use counts::{Attempts, Checkpoints, Counts, Figures, LATENCY_BOUNDS_S, Partitions, Rebuilds};
pub use error::PipeError;
pub use key::{KeySource, KeySources, TimeSource};
pub use message::{Message, PartitionId};
pub use outcome::{Outcome, Rejection, Undecided};
pub use partition::Decided;
pub use partition_filter::PartitionFilter;
pub use parts::Parts;
pub use pipe::Pipe;
pub use ports::{
    Aborted, Bounds, Committed, Delivery, Event, Input, Note, Output, Polled, TailEvent, Target, WriteError,
};
pub use reader::{EventReader, Events};
pub use settings::{Ended, Settings, UndecidedAction};
