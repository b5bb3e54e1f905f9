//! What a journal needs of a disk.
//!
//! Promises: none; these are the promises that it relies on. Must not know: what is in files.

use std::io;
use std::time::Duration;

/// The room of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRoom {
    /// Bytes that this process may still take.
    pub free_bytes: u64,
    /// Bytes of the disk, taken or not.
    pub total_bytes: u64,
}

/// A folder of files that are written once, from the start to the end.
pub trait Disk: Send + Sync + 'static {
    /// The names of all files.
    ///
    /// # Errors
    /// Those of the system.
    fn names(&self) -> io::Result<Vec<String>>;

    /// The length of a file, in bytes.
    ///
    /// # Errors
    /// Those of the system.
    fn len_bytes(&self, name: &str) -> io::Result<u64>;

    /// The first `bytes_max` bytes of a file, or all where it has no more.
    ///
    /// # Errors
    /// Those of the system.
    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>>;

    /// Makes a file that begins with `start`, then zeros up to `len_bytes`. The file is there as a whole, whatever
    /// happens next, or not at all.
    ///
    /// # Errors
    /// Those of the system; `StorageFull` where there is no room.
    fn create(&self, name: &str, start: &[u8], len_bytes: u64) -> io::Result<Box<dyn DiskFile>>;

    /// Puts on the medium all bytes that another process may have written to a file.
    ///
    /// # Errors
    /// Those of the system.
    fn sync(&self, name: &str) -> io::Result<()>;

    /// How long a sync takes, where time is simulated: the caller waits for so long before it.
    fn sync_takes(&self) -> Duration {
        Duration::ZERO
    }

    /// The room of the disk, where it can be told.
    fn room(&self) -> Option<DiskRoom> {
        None
    }

    /// Whether files may be written at all: not while the room that is left belongs to another part of the node. Writes
    /// return `StorageFull` then.
    fn may_grow(&self) -> bool {
        true
    }

    /// Removes a file, for good.
    ///
    /// # Errors
    /// Those of the system.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// A file that is written.
pub trait DiskFile: Send {
    /// Writes `bytes` at `offset_bytes`. Where it fails it may be tried again.
    ///
    /// # Errors
    /// Those of the system; `StorageFull` where there is no room.
    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()>;

    /// Puts all bytes that were written on the medium. Where it fails, it is not known which bytes are there, and
    /// trying again does not help.
    ///
    /// # Errors
    /// Those of the system.
    fn sync(&mut self) -> io::Result<()>;
}
