//! A wrapper around the journal's disk that rejects writes in two situations. In the first situation, the disk is so
//! full that the remaining space is needed for the consensus database. In the second situation, the journal folder was
//! deleted or replaced, so that written data would be lost.
//!
//! To the journal writer, a rejected write looks like a write to a full disk, because it receives the same error. In
//! both cases, the journal writer keeps its records in memory, and tries again until a write succeeds.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use firstseen_journal::{Disk, DiskFile, DiskRoom};
use firstseen_wire::watch;

/// A disk that refuses writes while one of several conditions is true.
pub(crate) struct GatedDisk {
    disk: Arc<dyn Disk>,
    causes: Causes,
}

/// The conditions under which the disk refuses writes.
#[derive(Clone)]
struct Causes(Arc<[watch::Receiver<bool>]>);

impl Causes {
    /// Checks that the disk may be written to.
    ///
    /// # Errors
    /// Returns an error if one of the conditions is true.
    fn check(&self) -> io::Result<()> {
        if self.0.iter().any(|cause| *cause.borrow()) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl GatedDisk {
    /// Creates a disk on top of `disk` that refuses writes while one of `causes` is true.
    pub(crate) fn over(disk: Arc<dyn Disk>, causes: impl IntoIterator<Item = watch::Receiver<bool>>) -> Arc<dyn Disk> {
        Arc::new(Self { disk, causes: Causes(causes.into_iter().collect()) })
    }
}

impl Disk for GatedDisk {
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
        self.causes.check()?;
        let file = self.disk.create(name, start, len_bytes)?;
        Ok(Box::new(YieldingFile { file, causes: self.causes.clone() }))
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
        self.causes.check().is_ok() && self.disk.may_grow()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
}

struct YieldingFile {
    file: Box<dyn DiskFile>,
    causes: Causes,
}

impl DiskFile for YieldingFile {
    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.causes.check()?;
        self.file.write_at(offset_bytes, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}
