//! `firstseen-journal`: the write-ahead log of a node, with everything that its slices must not forget.
//!
//! A node has one journal: records of all of its groups, in the order in which the groups gave them, in segments of one
//! size. A checkpoint of a group is made of records too, written while the group goes on; records from before the last
//! checkpoints of all groups are removed segment by segment. So there is one format, one order, and one way to read it.
//! `docs/reference/disk-format.md` describes the bytes.
//!
//! Promises: a record that was synced is read back or reported as damage, whatever single bit flips and wherever a file
//! is cut; records that were not synced may be missing from the end, never from the middle; no bytes make the reader
//! panic, and no size that it reads decides an allocation beyond that of a segment. Must not know: threads, clocks,
//! what records do to a group.

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
pub use hang::{LOOKS, Looks, Steps, UnderWay};
pub use journal::Journal;
pub use memory::{MemoryDisk, MemoryFile};
pub use message::{RecordError, decode, encode};
pub use salvage::{Salvaged, salvage};
pub use scan::{Damage, ScanError, Segments, scan};
pub use segment::{NodeMark, SEGMENT_BYTES};
