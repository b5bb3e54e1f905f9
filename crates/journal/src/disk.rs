//! What a journal needs of a disk.
//!
//! Promises: none; these are the promises that it relies on. Must not know: what is in files.

use std::io;
use std::time::Duration;

/// A folder of files that are written once, from the start to the end.
pub trait Disk: Send + Sync + 'static {
    /// The names of all files.
    ///
    /// # Errors
    /// What the system says.
    fn names(&self) -> io::Result<Vec<String>>;

    /// The length of a file, in bytes.
    ///
    /// # Errors
    /// What the system says.
    fn len_bytes(&self, name: &str) -> io::Result<u64>;

    /// The first `bytes_max` bytes of a file, or all where it has no more.
    ///
    /// # Errors
    /// What the system says.
    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>>;

    /// A new file that begins with `start`, then zeros up to `len_bytes`. It is there as a whole, whatever happens next, or
    /// not at all.
    ///
    /// # Errors
    /// What the system says; `StorageFull` where there is no room.
    fn create(&self, name: &str, start: &[u8], len_bytes: u64) -> io::Result<Box<dyn DiskFile>>;

    /// Puts on the medium what another process may have written to a file.
    ///
    /// # Errors
    /// What the system says.
    fn sync(&self, name: &str) -> io::Result<()>;

    /// How long a sync takes, where time is simulated: whoever syncs waits for so long before.
    fn sync_takes(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether files may be written at all: not while what room there is belongs to somebody else. Writes say `StorageFull`
    /// then.
    fn may_grow(&self) -> bool {
        true
    }

    /// Removes a file, for good.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// A file that is written.
pub trait DiskFile: Send {
    /// Writes `bytes` at `offset_bytes`. Where it fails it may be tried again.
    ///
    /// # Errors
    /// What the system says; `StorageFull` where there is no room.
    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()>;

    /// Puts what was written on the medium. Where it fails nobody knows what is there, and trying again does not help.
    ///
    /// # Errors
    /// What the system says.
    fn sync(&mut self) -> io::Result<()>;
}
