//! The place where a node stores its consensus data. A node uses a file on disk, and a simulation uses memory. A copy
//! of the file in memory can also be opened, in order to inspect a file without changing it.

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
