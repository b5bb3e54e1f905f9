//! `firstseen-journal` is the write-ahead log of a node. It stores everything that the slices of the node must not
//! lose.
//!
//! A node has a single journal, which contains the records of all its slice groups in the order in which the groups
//! produced them. The journal is divided into segments, which are files of equal size. `docs/reference/disk-format.md`
//! describes the format.
//!
//! From time to time, each group writes a checkpoint of its state, which also consists of records. The group keeps
//! working while its checkpoint is written. A segment is removed when all groups have complete checkpoints that are
//! newer than the records in the segment, because these records are then not needed to restore the groups.
//!
//! # Guarantees
//!
//! - A record that was synced is read back, or reported as damaged. This holds for any single flipped bit, and for a
//!   file that is truncated anywhere.
//! - Records that were not synced may be missing at the end of the journal, but never in the middle.
//! - The reader does not panic on any input. It never allocates more memory than the size of a segment because of a
//!   size that it has read.
//!
//! This crate does not depend on threads or clocks, or on the effect of records on a group.

mod disk;
mod folder;
mod hang;
mod journal;
mod memory;
mod message;
mod salvage;
mod scan;
mod segment;
mod spare;
mod stamps;

pub use disk::{Disk, DiskFile, DiskRoom};
pub use folder::FolderDisk;
pub use hang::{InProgress, LOOKS, Looks, Steps};
pub use journal::Journal;
pub use memory::{MemoryDisk, MemoryFile};
pub use message::{RecordError, decode, encode};
pub use salvage::{Salvaged, salvage};
pub use scan::{Damage, ScanError, Segments, scan};
pub use segment::{NodeMark, SEGMENT_BYTES};
