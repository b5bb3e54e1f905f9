//! Stores the consensus log and the votes of this node, as openraft requires. The entries of the log have consecutive
//! indexes without gaps. Each vote, entry or truncation is on the disk before the next operation begins.

use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};

use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{ErrorSubject, ErrorVerb, OptionalSend, RaftLogId, RaftLogReader, StorageIOError};
use redb::{ReadableDatabase, ReadableTable};

use super::database::{Database, LOG, StoreError, VALUES};
use crate::types::{Entry, LogId, StorageError, TypeConfig, Versioned, Vote};

pub(super) const VOTE: &str = "vote";
pub(super) const COMMITTED: &str = "committed";
pub(super) const PURGED: &str = "purged";

/// Maximum number of entries that are returned at once. Openraft asks again for more.
const ENTRIES_MAX: u64 = 64;

/// The log in a database.
#[derive(Clone, Debug)]
pub(crate) struct LogStore {
    database: Database,
}

impl LogStore {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }

    async fn entries(&self, range: (Bound<u64>, Bound<u64>)) -> Result<Vec<Entry>, StorageError> {
        let found = self.database.read(move |open| {
            let table = open.begin_read()?.open_table(LOG)?;
            let mut found = Vec::new();
            for row in table.range(range)? {
                let (index, bytes) = row?;
                found.push((index.value(), bytes.value().to_vec()));
            }
            Ok(found)
        });
        let rows = found.await.map_err(unreadable)?;
        rows.iter().map(|(index, bytes)| self.entry(*index, bytes)).collect::<Result<_, _>>().map_err(unreadable)
    }

    async fn append_all(&self, entries: impl IntoIterator<Item = Entry>) -> Result<(), StoreError> {
        let mut rows = Vec::new();
        for entry in entries {
            let bytes = self.database.encoded_as(entry.version(), "an entry of the log", &entry)?;
            rows.push((entry.get_log_id().index, bytes));
        }
        let written = self.database.write(move |transaction| {
            let mut table = transaction.open_table(LOG)?;
            for (index, bytes) in &rows {
                table.insert(*index, bytes.as_slice())?;
            }
            Ok(())
        });
        written.await
    }

    async fn purge_until(&self, log_id: LogId) -> Result<(), StoreError> {
        let purged = self.database.encoded(PURGED, &log_id)?;
        let removed = self.database.write(move |transaction| {
            transaction.open_table(VALUES)?.insert(PURGED, purged.as_slice())?;
            transaction.open_table(LOG)?.retain_in(..=log_id.index, |_, _| false)?;
            Ok(())
        });
        removed.await
    }

    fn entry(&self, index: u64, bytes: &[u8]) -> Result<Entry, StoreError> {
        self.database.decoded(&format!("entry {index} of the log"), bytes)
    }
}

/// Converts an error of this crate to an error of openraft.
pub(super) fn failed(subject: ErrorSubject<u64>, verb: ErrorVerb, error: StoreError) -> StorageError {
    StorageIOError::new(subject, verb, &error).into()
}

fn unreadable(error: StoreError) -> StorageError {
    failed(ErrorSubject::Logs, ErrorVerb::Read, error)
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<R>(&mut self, range: R) -> Result<Vec<Entry>, StorageError>
    where
        R: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        self.entries((range.start_bound().cloned(), range.end_bound().cloned())).await
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, StorageError> {
        let end = end.min(start.saturating_add(ENTRIES_MAX));
        self.entries((Bound::Included(start), Bound::Excluded(end))).await
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, StorageError> {
        let last = self.database.read(|open| {
            let table = open.begin_read()?.open_table(LOG)?;
            Ok(table.last()?.map(|(index, bytes)| (index.value(), bytes.value().to_vec())))
        });
        let last = last.await.map_err(unreadable)?;
        let last = last.map(|(index, bytes)| self.entry(index, &bytes)).transpose().map_err(unreadable)?;
        let last_purged_log_id: Option<LogId> = self.database.value(PURGED).await.map_err(unreadable)?;
        let last_log_id = last.map(|entry| *entry.get_log_id()).or(last_purged_log_id);
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        let saved = self.database.put(VOTE, vote).await;
        saved.map_err(|error| failed(ErrorSubject::Vote, ErrorVerb::Write, error))
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        let vote = self.database.value(VOTE).await;
        vote.map_err(|error| failed(ErrorSubject::Vote, ErrorVerb::Read, error))
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        let saved = self.database.put(COMMITTED, &committed).await;
        saved.map_err(|error| failed(ErrorSubject::Store, ErrorVerb::Write, error))
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, StorageError> {
        let committed: Result<Option<Option<LogId>>, _> = self.database.value(COMMITTED).await;
        committed.map(Option::flatten).map_err(|error| failed(ErrorSubject::Store, ErrorVerb::Read, error))
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<TypeConfig>) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let written = self.append_all(entries).await;
        written.map_err(|error| failed(ErrorSubject::Logs, ErrorVerb::Write, error))?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let removed = self.database.write(move |transaction| {
            transaction.open_table(LOG)?.retain_in(log_id.index.., |_, _| false)?;
            Ok(())
        });
        removed.await.map_err(|error| failed(ErrorSubject::Log(log_id), ErrorVerb::Delete, error))
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let purged = self.purge_until(log_id).await;
        purged.map_err(|error| failed(ErrorSubject::Log(log_id), ErrorVerb::Delete, error))
    }
}
