//! The place where a node stores its consensus data: a file on disk, or memory in simulations. To inspect a file
//! without changing it, a copy of the file in memory can be used.

use std::path::PathBuf;

use firstseen_journal::MemoryDisk;

/// Storage of a node's consensus data.
#[derive(Clone, Debug)]
pub enum MetaStorage {
    /// A file.
    File(PathBuf),
    /// A copy of a file in memory. The file itself is never changed.
    Copy(PathBuf),
    /// Memory that outlives the node. Simulations use it because they must not wait for a disk.
    Memory(MemoryDisk),
}
