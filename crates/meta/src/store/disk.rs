//! The database file on the disk, and the handling of writes for which there is no space.
//!
//! # Guarantees
//! - A write without space is repeated with the same bytes at the same position after the reserved space has been
//!   released.
//! - A lack of space, which may be temporary, is distinguished from all other failures. In particular, a failed sync is
//!   never repeated.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firstseen_journal::{MemoryDisk, MemoryFile};
use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

use super::reserve::{Reserve, is_full};
use super::storage::MetaStorage;

/// Name of the database on a disk in memory.
const MEMORY_FILE: &str = "meta.redb";

const EVERYTHING: (Bound<u64>, Bound<u64>) = (Bound::Unbounded, Bound::Unbounded);

impl MetaStorage {
    /// Returns whether operations may block on a disk.
    pub(super) fn is_blocking(&self) -> bool {
        match self {
            Self::File(_) | Self::Copy(_) => true,
            Self::Memory(disk) => disk.may_hang(),
        }
    }

    /// Returns the place of the database for messages.
    pub(super) fn place(&self) -> Arc<str> {
        match self {
            Self::File(path) | Self::Copy(path) => path.display().to_string().into(),
            Self::Memory(_) => "memory".into(),
        }
    }

    /// Opens the file, and returns it with its health. Its writes can use the space of `reserve`.
    pub(super) fn open(&self, reserve: &Arc<Reserve>) -> io::Result<(impl StorageBackend, Arc<Health>)> {
        let health = Arc::<Health>::default();
        let file = Careful { file: self.file()?, reserve: reserve.clone(), health: health.clone() };
        Ok((file, health))
    }

    /// Checks whether bits of the file have changed on the disk. The check is necessary because the database library
    /// verifies its checksums only after a crash, and would otherwise read damaged data.
    ///
    /// The check works on a copy of the file, because it must not change the file itself. If the library finds damage
    /// in a file, it repairs the file by going back to an older state. Such a repair of the original file would lose
    /// the votes that this node has cast since that state.
    ///
    /// # Errors
    /// Returns an error if the disk fails, if another process has the file open, or if the file is damaged.
    pub(super) fn check(&self) -> Result<Soundness, DatabaseError> {
        let file = self.file().map_err(redb::StorageError::from)?;
        if matches!(file.try_lock_range(EVERYTHING.0, EVERYTHING.1), Ok(false)) {
            return Err(DatabaseError::DatabaseAlreadyOpen);
        }
        let bytes = read_all(&*file);
        file.close().map_err(redb::StorageError::from)?;
        let bytes = bytes.map_err(redb::StorageError::from)?;
        if bytes.is_empty() {
            return Ok(Soundness::Sound);
        }
        let copy = of_bytes(&bytes).map_err(redb::StorageError::from)?;
        let mut database = redb::Builder::new().create_with_backend(copy)?;
        Ok(if database.check_integrity()? { Soundness::Sound } else { Soundness::Damaged })
    }

    fn file(&self) -> io::Result<Box<dyn StorageBackend>> {
        Ok(match self {
            Self::File(path) => {
                let file = FileBackend::new(private_file(path)?);
                Box::new(file.map_err(|error| io::Error::other(error.to_string()))?)
            }
            Self::Copy(path) => Box::new(of_bytes(&fs::read(path)?)?),
            Self::Memory(disk) => Box::new(InMemory(disk.open(MEMORY_FILE))),
        })
    }
}

/// Result of the check of a whole file.
pub(super) enum Soundness {
    Sound,
    Damaged,
}

/// Health of a file since it was opened.
#[derive(Debug, Default)]
pub(super) struct Health {
    was_full: AtomicBool,
    has_failed: AtomicBool,
}

impl Health {
    /// Returns whether a write has found no space and nothing else has failed. In that case, all synced data is intact.
    pub(super) fn lacks_room(&self) -> bool {
        self.was_full.load(Ordering::Acquire) && !self.has_failed.load(Ordering::Acquire)
    }

    fn note(&self, error: &io::Error) {
        let what = if is_full(error) { &self.was_full } else { &self.has_failed };
        what.store(true, Ordering::Release);
    }
}

/// A file whose writes can use the reserved space.
struct Careful {
    file: Box<dyn StorageBackend>,
    reserve: Arc<Reserve>,
    health: Arc<Health>,
}

impl fmt::Debug for Careful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl Careful {
    /// Executes a write that needs space. If there is no space and the reserve could be released, the write is repeated
    /// once.
    fn growing(&self, write: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let written = match write() {
            Err(error) if is_full(&error) && self.reserve.release() => write(),
            written => written,
        };
        written.inspect_err(|error| self.health.note(error))
    }

    fn failed<T>(&self, done: io::Result<T>) -> io::Result<T> {
        done.inspect_err(|_| self.health.has_failed.store(true, Ordering::Release))
    }
}

impl StorageBackend for Careful {
    fn len(&self) -> io::Result<u64> {
        self.failed(self.file.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.failed(self.file.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.growing(|| self.file.set_len(len))
    }

    /// A lack of space is reported too late here: earlier writes may be lost, so the error is not temporary.
    fn sync_data(&self) -> io::Result<()> {
        self.failed(self.file.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.growing(|| self.file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[derive(Debug)]
struct InMemory(MemoryFile);

impl StorageBackend for InMemory {
    fn len(&self) -> io::Result<u64> {
        self.0.len_bytes()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len_bytes(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

fn of_bytes(bytes: &[u8]) -> io::Result<InMemory> {
    let file = MemoryDisk::default().open(MEMORY_FILE);
    file.set_len_bytes(bytes.len() as u64)?;
    file.write(0, bytes)?;
    file.sync_all()?;
    Ok(InMemory(file))
}

fn read_all(file: &dyn StorageBackend) -> io::Result<Vec<u8>> {
    let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
    let mut bytes = vec![0; len];
    file.read(0, &mut bytes)?;
    Ok(bytes)
}

/// Opens a file that no other user can read, because it contains the secrets of filters.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
