//! `firstseen-journal`: what slices must not forget, on disk.
//!
//! One journal a node: records of all of its groups, in the order in which they were told, in segments of one size. A
//! checkpoint of a group is made of records too, written while the group goes on; what came before the last checkpoints
//! of all groups is removed segment by segment. So there is one format, one order, and one way to read it.
//! `docs/disk-format.md` describes the bytes.
//!
//! Promises: what was synced is read back or reported as damage, whatever single bit flips and wherever a file is cut;
//! what was not synced may be missing from the end, never from the middle; no bytes make it panic, and no size that is
//! read decides an allocation beyond that of a segment. Must not know: threads, clocks, what records do to a group.

mod disk;
mod folder;
mod hang;
mod journal;
mod memory;
mod message;
mod salvage;
mod scan;
mod segment;
mod stamps;

pub use disk::{Disk, DiskFile};
pub use folder::FolderDisk;
pub use hang::{LOOKS, Looks, Steps, UnderWay};
pub use journal::Journal;
pub use memory::{MemoryDisk, MemoryFile};
pub use message::{RecordError, decode, encode};
pub use salvage::{Salvaged, salvage};
pub use scan::{Damage, ScanError, Segments, scan};
pub use segment::{NodeMark, SEGMENT_BYTES};
