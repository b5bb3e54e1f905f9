//! The disk of the journal, which leaves the last room there is to the agreement's database, and takes nothing while somebody has
//! deleted the journal under it.
//!
//! Promises: nothing is written meanwhile; the disk then looks full to the writer. It must not depend on what is in files.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use firstseen_journal::{Disk, DiskFile, DiskRoom};
use firstseen_wire::watch;

/// A disk that yields.
pub(crate) struct Yielding {
    disk: Arc<dyn Disk>,
    causes: Causes,
}

/// What keeps the disk from taking anything.
#[derive(Clone)]
struct Causes(Arc<[watch::Receiver<bool>]>);

impl Causes {
    /// # Errors
    /// There is a cause.
    fn check(&self) -> io::Result<()> {
        if self.0.iter().any(|cause| *cause.borrow()) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl Yielding {
    /// A disk over `disk` that writes nothing while one of `causes` is true.
    pub(crate) fn over(disk: Arc<dyn Disk>, causes: impl IntoIterator<Item = watch::Receiver<bool>>) -> Arc<dyn Disk> {
        Arc::new(Self { disk, causes: Causes(causes.into_iter().collect()) })
    }
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
