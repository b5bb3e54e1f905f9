//! The database below: a file, or memory for simulations.
//!
//! Promises: [`Database::write`] returns when its changes are on the disk; with a file, no task of the runtime waits
//! for the disk; with memory, no thread is used. Must not know: what values mean.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use redb::backends::InMemoryBackend;
use redb::{Durability, ReadableDatabase, StorageBackend, TableDefinition, WriteTransaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::codec::{self, CodecError};

pub(super) const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");
pub(super) const VALUES: TableDefinition<&str, &[u8]> = TableDefinition::new("values");

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

/// A disk in memory. Clones are the same disk, so a node that starts again finds what it has left.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<InMemoryBackend>);

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self(Arc::new(InMemoryBackend::new()))
    }

    /// A disk with these bytes.
    fn of(bytes: &[u8]) -> io::Result<Self> {
        let disk = Self::new();
        disk.set_len(bytes.len() as u64)?;
        disk.write(0, bytes)?;
        Ok(disk)
    }
}

impl StorageBackend for MemoryDisk {
    fn len(&self) -> Result<u64, io::Error> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.0.write(offset, data)
    }
}

/// Why what a node must not forget cannot be read or written.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// The database says no.
    #[error("{place}: cannot {what}: {reason}")]
    Database {
        /// The file.
        place: Arc<str>,
        /// What was tried.
        what: &'static str,
        /// What the database says.
        reason: String,
    },
    /// A value in it is not what was written.
    #[error(
        "{place}: {value} cannot be read: {reason}. The other nodes have what is in it: let this node leave the \
         cluster, remove the file, and let it join again; never remove the file and start it under its old number"
    )]
    Corrupt {
        /// The file.
        place: Arc<str>,
        /// The value.
        value: String,
        /// What is wrong with it.
        reason: CodecError,
    },
    /// A value cannot be written.
    #[error("{place}: {value} cannot be written: {reason}")]
    Encode {
        /// The file.
        place: Arc<str>,
        /// The value.
        value: String,
        /// What is wrong with it.
        reason: CodecError,
    },
    /// The node has shut down.
    #[error("{place} is closed: the node has shut down")]
    Closed {
        /// The file.
        place: Arc<str>,
    },
}

/// An open database. Clones are the same.
#[derive(Clone)]
pub(crate) struct Database {
    place: Arc<str>,
    /// Whether work is handed to a thread that may wait for the disk.
    blocking: bool,
    open: Arc<RwLock<Option<redb::Database>>>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database").field(&self.place).finish()
    }
}

impl Database {
    /// Opens what is there, or makes an empty one.
    ///
    /// # Errors
    /// [`StoreError`]: the file and what is wrong with it.
    pub(crate) async fn open(storage: MetaStorage) -> Result<Self, StoreError> {
        let place: Arc<str> = match &storage {
            MetaStorage::File(path) | MetaStorage::Copy(path) => path.display().to_string().into(),
            MetaStorage::Memory(_) => "memory".into(),
        };
        let blocking = !matches!(storage, MetaStorage::Memory(_));
        let database = Self { place: Arc::clone(&place), blocking, open: Arc::default() };
        database.open_again(storage).await?;
        Ok(database)
    }

    /// Closes what is open, and opens `storage` in its place, for all clones.
    pub(super) async fn open_again(&self, storage: MetaStorage) -> Result<(), StoreError> {
        let open = move |database: &Self| {
            let mut place = database.open.write().unwrap_or_else(PoisonError::into_inner);
            place.take();
            let builder = redb::Builder::new();
            let opened = match storage {
                MetaStorage::File(path) => match private_file(&path) {
                    Ok(file) => builder.create_file(file),
                    Err(error) => return Err(database.failed("open it", error)),
                },
                MetaStorage::Copy(path) => match fs::read(&path).and_then(|bytes| MemoryDisk::of(&bytes)) {
                    Ok(disk) => builder.create_with_backend(disk),
                    Err(error) => return Err(database.failed("read it", error)),
                },
                MetaStorage::Memory(disk) => builder.create_with_backend(disk),
            };
            *place = Some(opened.map_err(|error| database.failed("open it", error))?);
            drop(place);
            database.transact(|transaction| {
                transaction.open_table(LOG)?;
                transaction.open_table(VALUES)?;
                Ok(())
            })
        };
        self.run(open).await
    }

    /// Closes the file when the work at hand is done; everything after it is refused.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        self.run(|database| {
            database.open.write().unwrap_or_else(PoisonError::into_inner).take();
            Ok(())
        })
        .await
    }

    /// Where it is, for messages.
    pub(crate) fn place(&self) -> &Arc<str> {
        &self.place
    }

    /// Changes that happen together; they are on the disk when this returns.
    pub(super) async fn write<F>(&self, changes: F) -> Result<(), StoreError>
    where
        F: FnOnce(&WriteTransaction) -> Result<(), redb::Error> + Send + 'static,
    {
        self.run(move |database| database.transact(changes)).await
    }

    /// The value under `name`.
    pub(crate) async fn value<T: DeserializeOwned>(&self, name: &'static str) -> Result<Option<T>, StoreError> {
        let bytes = self.bytes(name).await?;
        bytes.map(|bytes| self.decoded(name, &bytes)).transpose()
    }

    /// Replaces the value under `name`.
    pub(crate) async fn put<T: Serialize>(&self, name: &'static str, value: &T) -> Result<(), StoreError> {
        let bytes = self.encoded(name, value)?;
        self.write(move |transaction| {
            transaction.open_table(VALUES)?.insert(name, bytes.as_slice())?;
            Ok(())
        })
        .await
    }

    async fn bytes(&self, name: &'static str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(move |open| {
            let table = open.begin_read()?.open_table(VALUES)?;
            Ok(table.get(name)?.map(|value| value.value().to_vec()))
        })
        .await
    }

    pub(super) async fn read<T, F>(&self, question: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&redb::Database) -> Result<T, redb::Error> + Send + 'static,
    {
        self.run(move |database| {
            database.with(|open| question(open).map_err(|error| database.failed("read from it", error)))
        })
        .await
    }

    pub(super) fn decoded<T: DeserializeOwned>(&self, value: &str, bytes: &[u8]) -> Result<T, StoreError> {
        codec::decode(bytes).map_err(|reason| StoreError::Corrupt {
            place: Arc::clone(&self.place),
            value: value.to_owned(),
            reason,
        })
    }

    pub(super) fn encoded<T: Serialize>(&self, name: &str, value: &T) -> Result<Vec<u8>, StoreError> {
        codec::encode(value).map_err(|reason| StoreError::Encode {
            place: Arc::clone(&self.place),
            value: name.to_owned(),
            reason,
        })
    }

    fn transact<F>(&self, changes: F) -> Result<(), StoreError>
    where
        F: FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    {
        let commit = |open: &redb::Database| -> Result<(), redb::Error> {
            let mut transaction = open.begin_write()?;
            transaction.set_durability(Durability::Immediate)?;
            changes(&transaction)?;
            transaction.commit()?;
            Ok(())
        };
        self.with(|open| commit(open).map_err(|error| self.failed("write to it", error)))
    }

    fn with<T>(&self, work: impl FnOnce(&redb::Database) -> Result<T, StoreError>) -> Result<T, StoreError> {
        match &*self.open.read().unwrap_or_else(PoisonError::into_inner) {
            Some(open) => work(open),
            None => Err(StoreError::Closed { place: Arc::clone(&self.place) }),
        }
    }

    async fn run<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    {
        if !self.blocking {
            return work(self);
        }
        let database = self.clone();
        let failed = |error: tokio::task::JoinError| self.failed("finish the work at hand", error);
        tokio::task::spawn_blocking(move || work(&database)).await.map_err(failed)?
    }

    pub(super) fn failed(&self, what: &'static str, error: impl fmt::Display) -> StoreError {
        StoreError::Database { place: Arc::clone(&self.place), what, reason: error.to_string() }
    }
}

/// A file that nobody else may read: it holds the secrets of filters.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
