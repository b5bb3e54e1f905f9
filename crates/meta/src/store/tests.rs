//! Runs the test suite of openraft against the store, and tests reopened files and torn values.

mod faults;

use std::fmt::Debug;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firstseen_journal::MemoryDisk;
use openraft::storage::{LogFlushed, LogState, RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::testing::{StoreBuilder, Suite};
use openraft::{CommittedLeaderId, EntryPayload, OptionalSend, RaftLogReader, RaftSnapshotBuilder};
use redb::ReadableTable;
use tempfile::TempDir;

use super::database::{LOG, VALUES};
use super::*;
use crate::types::{Entry, LogId, StorageError, TypeConfig, Vote};

/// Builds stores in memory.
struct InMemory;

impl StoreBuilder<TypeConfig, LogStore, Machine> for InMemory {
    async fn build(&self) -> Result<((), LogStore, Machine), StorageError> {
        let (log, machine, _) = open(MetaStorage::Memory(MemoryDisk::default())).await;
        Ok(((), log, machine))
    }
}

/// Builds stores in files.
struct InFiles;

impl StoreBuilder<TypeConfig, LogStore, Machine, TempDir> for InFiles {
    async fn build(&self) -> Result<(TempDir, LogStore, Machine), StorageError> {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let file = MetaStorage::File(folder.path().join("meta.redb"));
        // The file is opened, closed and opened again: an empty store must be the same after a restart.
        let (_, _, database) = open(file.clone()).await;
        database.close().await.expect("closes");
        let (log, machine, _) = open(file).await;
        Ok((folder, log, machine))
    }
}

/// Builds stores for openraft's test suite that simulate restarts of the process. The database is closed and opened
/// again before every call of the log, so a test fails if an answer depends on a value that was not written. The state
/// machine stays open, because it can rebuild its state from its snapshot and the later log entries.
///
/// The database is stored in memory. On a real disk, the many syncs would take half a minute.
struct Restarting;

impl StoreBuilder<TypeConfig, RestartingLog, Machine> for Restarting {
    async fn build(&self) -> Result<((), RestartingLog, Machine), StorageError> {
        let disk = MetaStorage::Memory(MemoryDisk::default());
        let (_, machine, database) = open(disk).await;
        Ok(((), RestartingLog { database }, machine))
    }
}

#[derive(Clone)]
struct RestartingLog {
    database: Database,
}

impl RestartingLog {
    async fn next(&self) -> LogStore {
        self.database.open_again().await.expect("opens again");
        LogStore::new(self.database.clone())
    }
}

impl RaftLogReader<TypeConfig> for RestartingLog {
    async fn try_get_log_entries<R>(&mut self, range: R) -> Result<Vec<Entry>, StorageError>
    where
        R: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        self.next().await.try_get_log_entries(range).await
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, StorageError> {
        self.next().await.limited_get_log_entries(start, end).await
    }
}

impl RaftLogStorage<TypeConfig> for RestartingLog {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, StorageError> {
        self.next().await.get_log_state().await
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        self.next().await.save_vote(vote).await
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        self.next().await.read_vote().await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        self.next().await.save_committed(committed).await
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, StorageError> {
        self.next().await.read_committed().await
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<TypeConfig>) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.next().await.append(entries, callback).await
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), StorageError> {
        self.next().await.truncate(log_id).await
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), StorageError> {
        self.next().await.purge(log_id).await
    }
}

async fn open(storage: MetaStorage) -> (LogStore, Machine, Database) {
    let database = Database::open(storage).await.expect("opens");
    let machine = Machine::open(database.clone(), Arc::default(), None).await.expect("reads");
    (LogStore::new(database.clone()), machine, database)
}

#[test]
fn memory_passes_the_suite() {
    Suite::test_all(InMemory).unwrap();
}

#[test]
fn files_pass_the_suite() {
    Suite::test_all(InFiles).unwrap();
}

#[test]
fn a_process_that_starts_again_before_every_call_passes_the_suite() {
    Suite::test_all(Restarting).unwrap();
}

fn log_id(index: u64) -> LogId {
    LogId::new(CommittedLeaderId::new(1, 1), index)
}

fn blank(index: u64) -> Entry {
    Entry { log_id: log_id(index), payload: EntryPayload::Blank }
}

/// A file that is closed and opened again between any two steps.
struct Reopened {
    path: PathBuf,
    open: Option<(LogStore, Machine, Database)>,
}

impl Reopened {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), open: None }
    }

    async fn next(&mut self) -> &mut (LogStore, Machine, Database) {
        if let Some((_, _, database)) = self.open.take() {
            database.close().await.unwrap();
        }
        self.open.insert(open(MetaStorage::File(self.path.clone())).await)
    }

    async fn indexes(&mut self) -> Vec<u64> {
        let entries = self.next().await.0.try_get_log_entries(..).await.unwrap();
        entries.iter().map(|entry| entry.log_id.index).collect()
    }
}

#[tokio::test]
async fn every_step_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = Reopened::new(&folder.path().join("meta.redb"));
    let vote = Vote::new(3, 7);
    file.next().await.0.save_vote(&vote).await.unwrap();
    assert_eq!(file.next().await.0.read_vote().await.unwrap(), Some(vote));
    file.next().await.0.blocking_append((1..=9).map(blank)).await.unwrap();
    assert_eq!(file.indexes().await, Vec::from_iter(1..=9));
    file.next().await.0.truncate(log_id(8)).await.unwrap();
    assert_eq!(file.indexes().await, Vec::from_iter(1..=7));
    file.next().await.0.save_committed(Some(log_id(6))).await.unwrap();
    assert_eq!(file.next().await.0.read_committed().await.unwrap(), Some(log_id(6)));
    file.next().await.0.purge(log_id(5)).await.unwrap();
    let state = file.next().await.0.get_log_state().await.unwrap();
    assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(log_id(5)), Some(log_id(7))));
    file.next().await.0.purge(log_id(7)).await.unwrap();
    let state = file.next().await.0.get_log_state().await.unwrap();
    assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(log_id(7)), Some(log_id(7))));
    assert!(file.indexes().await.is_empty());
    let machine = &mut file.next().await.1;
    machine.apply([blank(1), blank(2)]).await.unwrap();
    let built = machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    assert_eq!(built.meta.last_log_id, Some(log_id(2)));
    let machine = &mut file.next().await.1;
    assert_eq!(machine.applied_state().await.unwrap().0, Some(log_id(2)));
    assert_eq!(machine.get_current_snapshot().await.unwrap().unwrap().meta, built.meta);
}

#[tokio::test]
async fn a_snapshot_is_of_the_moment_it_was_asked_for() {
    let (_, mut machine, _) = open(MetaStorage::Memory(MemoryDisk::default())).await;
    machine.apply([blank(1)]).await.unwrap();
    let mut builder = machine.get_snapshot_builder().await;
    machine.apply([blank(2)]).await.unwrap();
    assert_eq!(builder.build_snapshot().await.unwrap().meta.last_log_id, Some(log_id(1)));
}

#[tokio::test]
async fn a_torn_entry_names_the_file_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meta.redb");
    let (mut log, _, database) = open(MetaStorage::File(path.clone())).await;
    log.blocking_append((1..=3).map(blank)).await.unwrap();
    for (cut, flipped) in [(1, None), (9, None), (0, Some(7))] {
        database
            .write(move |transaction| {
                let mut table = transaction.open_table(LOG)?;
                let mut bytes = table.get(2)?.map(|value| value.value().to_vec()).unwrap_or_default();
                bytes.truncate(bytes.len() - cut);
                if let Some(at) = flipped {
                    bytes[at] ^= 0x10;
                }
                table.insert(2, bytes.as_slice())?;
                Ok(())
            })
            .await
            .unwrap();
        let error = log.try_get_log_entries(..).await.unwrap_err().to_string();
        let says = |words: &str| assert!(error.contains(words), "`{error}` does not say `{words}`");
        says(&path.display().to_string());
        says("entry 2 of the log");
        says("let it join again");
        assert_eq!(log.try_get_log_entries(3..4).await.unwrap(), [blank(3)]);
    }
}

#[tokio::test]
async fn a_torn_vote_or_snapshot_is_no_vote_and_no_snapshot() {
    let (mut log, mut machine, database) = open(MetaStorage::Memory(MemoryDisk::default())).await;
    log.save_vote(&Vote::new(3, 7)).await.unwrap();
    machine.apply([blank(1)]).await.unwrap();
    machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    let tear = |transaction: &redb::WriteTransaction| {
        let mut table = transaction.open_table(VALUES)?;
        table.insert("vote", &[1u8, 2, 3, 4, 5, 6][..])?;
        table.insert("snapshot", &[1u8, 2, 3][..])?;
        Ok(())
    };
    database.write(tear).await.unwrap();
    assert!(log.read_vote().await.unwrap_err().to_string().contains("vote cannot be read"));
    let error = Machine::open(database, Arc::default(), None).await.unwrap_err().to_string();
    assert!(error.contains("snapshot cannot be read") && error.contains("join again"), "{error}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meta.redb");
    std::fs::write(&path, b"not a database, but somebody's diary".repeat(300)).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = Database::open(MetaStorage::File(path.clone())).await.unwrap_err().to_string();
    assert!(error.contains(&path.display().to_string()), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn what_is_closed_says_so() {
    let (mut log, _, database) = open(MetaStorage::Memory(MemoryDisk::default())).await;
    database.close().await.unwrap();
    assert!(log.save_vote(&Vote::new(1, 1)).await.unwrap_err().to_string().contains("is closed"));
}
