//! The disk of the journal, which leaves the last room there is to the agreement's database.
//!
//! Promises: nothing is written while the node is short of room; the disk then looks full to the writer. Must not know:
//! what is in files.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use firstseen_journal::{Disk, DiskFile, DiskRoom};
use firstseen_wire::watch;

/// A disk that yields.
pub(crate) struct Yielding {
    disk: Arc<dyn Disk>,
    is_short: watch::Receiver<bool>,
}

impl Yielding {
    /// A disk over `disk` that writes nothing while `is_short` says that room is short.
    pub(crate) fn over(disk: Arc<dyn Disk>, is_short: watch::Receiver<bool>) -> Arc<dyn Disk> {
        Arc::new(Self { disk, is_short })
    }
}

fn yields(is_short: &watch::Receiver<bool>) -> io::Result<()> {
    if *is_short.borrow() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
}

impl Disk for Yielding {
    fn names(&self) -> io::Result<Vec<String>> {
        self.disk.names()
    }

    fn len_bytes(&self, name: &str) -> io::Result<u64> {
        self.disk.len_bytes(name)
    }

    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.disk.read(name, bytes_max)
    }

    fn create(&self, name: &str, start: &[u8], len_bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        yields(&self.is_short)?;
        let file = self.disk.create(name, start, len_bytes)?;
        Ok(Box::new(YieldingFile { file, is_short: self.is_short.clone() }))
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.disk.sync(name)
    }

    fn sync_takes(&self) -> Duration {
        self.disk.sync_takes()
    }

    fn room(&self) -> Option<DiskRoom> {
        self.disk.room()
    }

    fn may_grow(&self) -> bool {
        yields(&self.is_short).is_ok() && self.disk.may_grow()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
}

struct YieldingFile {
    file: Box<dyn DiskFile>,
    is_short: watch::Receiver<bool>,
}

impl DiskFile for YieldingFile {
    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        yields(&self.is_short)?;
        self.file.write_at(offset_bytes, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}
