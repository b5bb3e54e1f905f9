//! Where a node keeps its part of the agreement: on disk, or in memory. Must not know: what is kept.

use std::path::PathBuf;

use firstseen_journal::MemoryDisk;

/// The storage of a node's part of the agreement.
#[derive(Clone, Debug)]
pub enum MetaStorage {
    /// In a file.
    File(PathBuf),
    /// A copy of a file in memory: the file stays as it is, whatever is written.
    Copy(PathBuf),
    /// In memory that outlives the node: for simulations, which must not wait for a disk.
    Memory(MemoryDisk),
}
