//! The database of the consensus store. It is a file, or memory in simulations.
//!
//! # Guarantees
//! - [`Database::write`] returns when its changes are on the disk. If there is no space for them, it waits.
//! - With a file, no task of the runtime is blocked by the disk.
//! - With memory, no thread is used.
//!
//! After a failed write, the database library rejects all further operations on the open file. If the write failed only
//! because the disk was full, this module opens the file again and repeats the operation when there is space.
//!
//! A write that failed may nevertheless have stored its changes. If the operation is then repeated, it is executed
//! twice. Every operation must therefore have the same result whether it is executed once or twice.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use std::time::Duration;

use firstseen_journal::{LOOKS, Looks, Steps};
use firstseen_wire::watch;
use redb::{Durability, ReadableDatabase, StorageBackend, TableDefinition, TableError, WriteTransaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::disk::{Health, Soundness};
use super::reserve::Reserve;
use super::storage::MetaStorage;
use crate::codec::{self, CodecError};

pub(super) const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");
pub(super) const VALUES: TableDefinition<&str, &[u8]> = TableDefinition::new("values");

/// Pause between two attempts when there is no disk space.
const FULL_PAUSE: Duration = Duration::from_millis(200);

/// Reason why the database cannot be read or written.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// The database library returned an error.
    #[error("{place}: cannot {what}: {reason}")]
    Database {
        /// The file.
        place: Arc<str>,
        /// The attempted operation.
        what: &'static str,
        /// Error message of the library.
        reason: String,
    },
    /// A value in the database differs from the value that was written.
    #[error("{place}: {value} cannot be read: {reason}. {}", advice(reason))]
    Corrupt {
        /// The file.
        place: Arc<str>,
        /// Name of the value.
        value: String,
        /// The problem.
        reason: CodecError,
    },
    /// A value cannot be encoded.
    #[error("{place}: {value} cannot be written: {reason}")]
    Encode {
        /// The file.
        place: Arc<str>,
        /// Name of the value.
        value: String,
        /// The problem.
        reason: CodecError,
    },
    /// The disk has no space for the value.
    #[error("{place}: its disk is full: make room there, and the node continues")]
    Full {
        /// The file.
        place: Arc<str>,
    },
    /// The node has shut down.
    #[error("{place} is closed: the node has shut down")]
    Closed {
        /// The file.
        place: Arc<str>,
    },
}

/// Returns the advice for an operator when a stored value cannot be read. The advice must be safe even if the operator
/// follows it on every node. For example, it must not tell the operator to remove the database, because removing the
/// databases of all nodes would destroy the cluster.
fn advice(reason: &CodecError) -> &'static str {
    match reason {
        CodecError::Version { .. } => {
            "Nothing is lost: start the node with the version of firstseen that wrote it, as all nodes of its cluster. Where the \
             cluster is to have another version, take a backup of it with the former one (`firstseen cluster backup`), and \
             restore that into a new cluster. Never remove the file for this: with the files of more than half of the voters \
             the cluster itself is gone"
        }
        _ => {
            "Leave the file where it is until `firstseen cluster status` at another node shows a leader and every other voter: \
             they have what is in it. Then let this node alone leave the cluster (`cluster drain`, `cluster leave`), set its \
             data_dir aside, and let it join again as a new node. Never do so with more than one node at a time, and never \
             remove the file and start the node under its old number, as it would forget its votes. Where half of the \
             voters or more cannot be read, see `firstseen cluster recover`, or restore a backup into a new cluster"
        }
    }
}

/// An open database. Clones share the same database.
#[derive(Clone)]
pub(crate) struct Database {
    inner: Arc<Inner>,
}

struct Inner {
    place: Arc<str>,
    storage: MetaStorage,
    reserve: Arc<Reserve>,
    state: RwLock<State>,
    /// Changes that are being written, which show whether one of them is stuck.
    steps: Steps,
    hangs: watch::Sender<bool>,
    /// Cancelled when operations must stop waiting for disk space.
    stopping: CancellationToken,
}

enum State {
    Open(Opened),
    /// A write has found no disk space. The file is opened again when it is needed.
    Given,
    /// The database is closed for good.
    Closed,
}

struct Opened {
    redb: redb::Database,
    health: Arc<Health>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database").field(&self.inner.place).finish()
    }
}

impl Database {
    /// Opens the database, or creates an empty one.
    ///
    /// # Errors
    /// [`StoreError`] names the file and the problem.
    pub(crate) async fn open(storage: MetaStorage) -> Result<Self, StoreError> {
        let inner = Inner {
            place: storage.place(),
            reserve: Arc::new(Reserve::beside(&storage)),
            storage,
            state: RwLock::new(State::Given),
            steps: Steps::default(),
            hangs: watch::Sender::new(false),
            stopping: CancellationToken::new(),
        };
        let database = Self { inner: Arc::new(inner) };
        database.run(Self::check).await?;
        database.run(|database| database.with("open it", |_| Ok(()))).await?;
        Ok(database)
    }

    fn check(&self) -> Result<(), StoreError> {
        let damage = match self.inner.storage.check() {
            Ok(Soundness::Sound) => return Ok(()),
            Ok(Soundness::Damaged) => "its content has changed since it was written".to_owned(),
            Err(redb::DatabaseError::Storage(redb::StorageError::Corrupted(reason))) => reason,
            Err(error) => return Err(self.failed("open it", error)),
        };
        Err(StoreError::Corrupt {
            place: self.inner.place.clone(),
            value: "what this node has agreed on with others".to_owned(),
            reason: CodecError::Malformed(damage),
        })
    }

    /// Opens the file again for all clones, as if the process had ended and started again.
    #[cfg(test)]
    pub(super) async fn open_again(&self) -> Result<(), StoreError> {
        self.run(|database| {
            *database.state_mut() = State::Given;
            database.with("open it", |_| Ok(()))
        })
        .await
    }

    /// Opens the file, and creates its tables if necessary.
    fn opened(&self) -> Result<Opened, StoreError> {
        let (file, health) =
            self.inner.storage.open(&self.inner.reserve).map_err(|error| self.failed("open it", error))?;
        match with_tables(file) {
            Ok(redb) => Ok(Opened { redb, health }),
            Err(_) if health.lacks_room() => Err(StoreError::Full { place: self.inner.place.clone() }),
            Err(error) => Err(self.failed("open it", error)),
        }
    }

    /// Returns a receiver that tells whether the disk has no free space except for the reserved space, or not even
    /// that.
    pub(crate) fn watch_nearly_full(&self) -> watch::Receiver<bool> {
        self.inner.reserve.watch_nearly_full()
    }

    /// Returns whether the disk hangs.
    pub(crate) fn hangs(&self) -> bool {
        *self.inner.hangs.borrow()
    }

    /// Returns a receiver that is notified when [`Self::hangs`] changes.
    pub(crate) fn watch_hangs(&self) -> watch::Receiver<bool> {
        self.inner.hangs.subscribe()
    }

    /// Checks periodically whether the disk hangs. A single change may take up to `patience`.
    pub(crate) async fn look_after(&self, patience: Duration) {
        let mut looks = Looks::default();
        loop {
            tokio::time::sleep(patience / LOOKS).await;
            looks.look(self.inner.steps.in_progress());
            // When the disk answers again, openraft continues, and nothing was lost.
            let hangs = looks.is_stuck();
            if self.hangs() != hangs {
                self.log_hang(hangs, patience);
                self.inner.hangs.send(hangs);
            }
        }
    }

    fn log_hang(&self, hangs: bool, patience: Duration) {
        let place = &self.inner.place;
        if hangs {
            tracing::error!(
                %place, ?patience,
                "the disk of the consensus log hangs, so a change cannot be written. The other nodes receive no \
                 answers and continue without this node until the disk answers again"
            )
        } else {
            tracing::warn!(%place, "the disk of the consensus log answers again")
        }
    }

    /// Reserves disk space, if there is enough. Returns whether the space is reserved.
    pub(crate) async fn keep_reserve(&self) -> bool {
        // The operation never fails.
        self.run(|database| Ok(database.inner.reserve.keep())).await.unwrap_or(false)
    }

    /// Makes operations stop waiting for disk space from now on.
    pub(crate) fn stop_waiting(&self) {
        self.inner.stopping.cancel();
    }

    /// Closes the file when the current operation is done. Later operations are rejected.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        self.run(|database| {
            *database.state_mut() = State::Closed;
            Ok(())
        })
        .await
    }

    /// Returns the place of the database for messages.
    pub(crate) fn place(&self) -> &Arc<str> {
        &self.inner.place
    }

    /// Executes changes of the database as one atomic commit. When this method returns, the changes are on the disk. If
    /// a write fails because the disk is full, the changes may be executed a second time, so executing them twice must
    /// have the same result as executing them once.
    pub(super) async fn write<F>(&self, changes: F) -> Result<(), StoreError>
    where
        F: Fn(&WriteTransaction) -> Result<(), redb::Error> + Send + Sync + 'static,
    {
        self.run(move |database| {
            let _under_way = database.inner.steps.begin();
            database.with("write to it", |open| commit(open, &changes))
        })
        .await
    }

    /// Returns the value with the key `name`.
    pub(crate) async fn value<T: DeserializeOwned>(&self, name: &'static str) -> Result<Option<T>, StoreError> {
        let bytes = self.bytes(name).await?;
        bytes.map(|bytes| self.decoded(name, &bytes)).transpose()
    }

    /// Replaces the value with the key `name`.
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
        F: Fn(&redb::Database) -> Result<T, redb::Error> + Send + Sync + 'static,
    {
        self.run(move |database| database.with("read from it", &question)).await
    }

    pub(super) fn decoded<T: DeserializeOwned>(&self, value: &str, bytes: &[u8]) -> Result<T, StoreError> {
        codec::decode(bytes).map_err(|reason| StoreError::Corrupt {
            place: Arc::clone(&self.inner.place),
            value: value.to_owned(),
            reason,
        })
    }

    pub(super) fn encoded<T: Serialize>(&self, name: &str, value: &T) -> Result<Vec<u8>, StoreError> {
        self.encoded_as(codec::FIRST, name, value)
    }

    /// Encodes a value like [`Self::encoded`], with the lowest version that can express it.
    pub(super) fn encoded_as<T: Serialize>(&self, version: u8, name: &str, value: &T) -> Result<Vec<u8>, StoreError> {
        codec::encode_as(version, value).map_err(|reason| StoreError::Encode {
            place: Arc::clone(&self.inner.place),
            value: name.to_owned(),
            reason,
        })
    }

    /// Executes `work` on the database, which is opened first if necessary. If `work` fails because the disk is full,
    /// it has been executed completely or not at all.
    fn with<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&redb::Database) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        let needs_opening = matches!(&*self.inner.state.read().unwrap_or_else(PoisonError::into_inner), State::Given);
        if needs_opening {
            let mut state = self.state_mut();
            if matches!(&*state, State::Given) {
                *state = State::Open(self.opened()?);
            }
        }
        let state = self.inner.state.read().unwrap_or_else(PoisonError::into_inner);
        let State::Open(opened) = &*state else {
            return Err(StoreError::Closed { place: Arc::clone(&self.inner.place) });
        };
        let error = match work(&opened.redb) {
            Ok(done) => return Ok(done),
            Err(error) if !opened.health.lacks_room() => return Err(self.failed(what, error)),
            Err(error) => error,
        };
        tracing::debug!(%error, what, "no room");
        let failed = Arc::clone(&opened.health);
        drop(state);
        let mut state = self.state_mut();
        // Another task may have opened the database again.
        if matches!(&*state, State::Open(opened) if Arc::ptr_eq(&opened.health, &failed)) {
            *state = State::Given;
        }
        Err(StoreError::Full { place: Arc::clone(&self.inner.place) })
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.inner.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes an operation, and repeats it until there is disk space for it.
    async fn run<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Self) -> Result<T, StoreError> + Send + Sync + 'static,
    {
        let work = Arc::new(work);
        let mut has_waited = false;
        loop {
            match self.once(&work).await {
                Err(error @ StoreError::Full { .. }) => {
                    self.once(&Arc::new(|database: &Self| {
                        database.inner.reserve.release();
                        Ok(())
                    }))
                    .await?;
                    if !std::mem::replace(&mut has_waited, true) {
                        tracing::error!(%error, "the disk is full: the node cannot take part in the consensus until \
                                                 there is space");
                    }
                    tokio::select! {
                        biased;
                        () = self.inner.stopping.cancelled() => return Err(error),
                        () = tokio::time::sleep(FULL_PAUSE) => {}
                    }
                }
                done => return done,
            }
        }
    }

    async fn once<T, F>(&self, work: &Arc<F>) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Self) -> Result<T, StoreError> + Send + Sync + 'static,
    {
        if !self.inner.storage.is_blocking() {
            return self.caught(&**work);
        }
        let database = self.clone();
        let work = Arc::clone(work);
        match tokio::task::spawn_blocking(move || database.caught(&*work)).await {
            Ok(done) => done,
            Err(error) => Err(self.failed("finish the current operation", error)),
        }
    }

    /// Executes work that may panic. The library relies on the data that it has written, and bits on the disk may have
    /// changed.
    fn caught<T>(&self, work: impl Fn(&Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        catch_unwind(AssertUnwindSafe(|| work(self)))
            .unwrap_or_else(|_| Err(self.failed("finish the current operation", "it has panicked, see the log")))
    }

    pub(super) fn failed(&self, what: &'static str, error: impl fmt::Display) -> StoreError {
        StoreError::Database { place: Arc::clone(&self.inner.place), what, reason: error.to_string() }
    }
}

/// Opens a database, and creates its tables if they do not exist.
fn with_tables(file: impl StorageBackend) -> Result<redb::Database, redb::Error> {
    let redb = redb::Builder::new().create_with_backend(file)?;
    match redb.begin_read()?.open_table(VALUES) {
        Ok(_) => return Ok(redb),
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    commit(&redb, |transaction| {
        transaction.open_table(LOG)?;
        transaction.open_table(VALUES)?;
        Ok(())
    })?;
    Ok(redb)
}

fn commit(
    open: &redb::Database,
    changes: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    let mut transaction = open.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    changes(&transaction)?;
    transaction.commit()?;
    Ok(())
}
