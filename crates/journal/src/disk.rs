//! Interface between the journal and the disk that stores it. The traits are implemented by a real folder and by a disk
//! in memory for tests. Their documentation states the guarantees that the journal relies on.

use std::io;
use std::time::Duration;

/// Space on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRoom {
    /// Space that this process may still use, in bytes.
    pub free_bytes: u64,
    /// Total size of the disk, in bytes.
    pub total_bytes: u64,
}

/// Folder of files, each of which is written once from start to end.
pub trait Disk: Send + Sync + 'static {
    /// Returns the names of all files.
    ///
    /// # Errors
    /// Returns errors of the operating system.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Returns the length of a file in bytes.
    ///
    /// # Errors
    /// Returns errors of the operating system.
    fn len_bytes(&self, name: &str) -> io::Result<u64>;

    /// Reads the first `bytes_max` bytes of a file, or the whole file if it is shorter.
    ///
    /// # Errors
    /// Returns errors of the operating system.
    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>>;

    /// Creates a file of `len_bytes` bytes, which begins with `start` and is filled with zeros. The operation is
    /// atomic: if the machine crashes during the call, the file exists either completely or not at all.
    ///
    /// # Errors
    /// Returns errors of the operating system, and `StorageFull` if the disk is full.
    fn create(&self, name: &str, start: &[u8], len_bytes: u64) -> io::Result<Box<dyn DiskFile>>;

    /// Flushes all bytes of a file to the medium, including bytes that another process may have written.
    ///
    /// # Errors
    /// Returns errors of the operating system.
    fn sync(&self, name: &str) -> io::Result<()>;

    /// Returns the duration of a sync in simulated time. The caller waits for this duration before it syncs.
    fn sync_takes(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the space on the disk, or `None` if the disk cannot tell.
    fn room(&self) -> Option<DiskRoom> {
        None
    }

    /// Returns whether the journal may write to the disk. The result is `false` if the remaining space on the disk is
    /// reserved for another part of the node. In that case, writes fail with `StorageFull`.
    fn may_grow(&self) -> bool {
        true
    }

    /// Removes a file. The removal survives a crash.
    ///
    /// # Errors
    /// Returns errors of the operating system.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// File that is being written.
pub trait DiskFile: Send {
    /// Writes `bytes` at `offset_bytes`. If the write fails, the caller may try again.
    ///
    /// # Errors
    /// Returns errors of the operating system, and `StorageFull` if the disk is full.
    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()>;

    /// Flushes all written bytes to the medium. If the flush fails, the state of the file is unknown: any of the bytes
    /// may be missing on the medium, and a second flush would not write them again. The caller must then stop using the
    /// file.
    ///
    /// # Errors
    /// Returns errors of the operating system.
    fn sync(&mut self) -> io::Result<()>;
}
