//! Where a node keeps what it must not forget. Must not know: what that is.

use std::path::PathBuf;

use firstseen_journal::MemoryDisk;

/// Where a node keeps what it must not forget.
#[derive(Clone, Debug)]
pub enum MetaStorage {
    /// In a file.
    File(PathBuf),
    /// What is in a file, read into memory: the file stays as it is, whatever is written.
    Copy(PathBuf),
    /// In memory that outlives the node: for simulations, which must not wait for a disk.
    Memory(MemoryDisk),
}
