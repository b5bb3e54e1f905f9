//! Repairs the data folder of a node whose journal is damaged.
//!
//! # Guarantees
//! - Records that can be read are kept.
//! - The damaged files are moved to another folder instead of being deleted.
//! - All slices count as incomplete afterwards, because records may be missing. The node does not use them to call an
//!   event new until they have been completed from other copies.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firstseen_journal::{
    Disk, FolderDisk, Journal, RecordError, SEGMENT_BYTES, Salvaged, Segments, decode, encode, salvage,
};
use firstseen_routing::Entry;
use thiserror::Error;

use crate::data_folder::{DATABASE_FILE, JOURNAL_FOLDER, REPAIRING_FOLDER};

/// Folder that receives the damaged journal.
const DAMAGED_FOLDER: &str = "journal.damaged";

/// Result of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// Number of records that were kept.
    pub records: u64,
    /// Number of bytes that could not be read.
    pub lost_bytes: u64,
    /// Folder that now contains the damaged journal.
    pub set_aside: PathBuf,
}

/// Reason why a folder is not repaired.
#[derive(Debug, Error)]
pub enum RepairError {
    /// The node is running.
    #[error("the node is running: stop it first")]
    Running,
    /// The folder contains no journal.
    #[error("{0} has no journal: there is nothing to repair")]
    NoJournal(PathBuf),
    /// No file of the journal can be read.
    #[error("{0}: none of its files can be read, because it was written by another release or is not a journal")]
    Unreadable(PathBuf),
    /// The folder still contains the damaged journal of an earlier repair.
    #[error("{0} remains from an earlier repair: move it away first")]
    SetAside(PathBuf),
    /// A disk operation failed.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl RepairError {
    /// Returns a function that converts an I/O error at `path` into this error.
    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// Repairs the journal in the data folder of a node that is not running.
///
/// # Errors
/// [`RepairError`] says why the journal cannot be repaired.
pub fn repair(data_dir: &Path) -> Result<Repaired, RepairError> {
    let _lock = check_stopped(&data_dir.join(DATABASE_FILE))?;
    let [journal, repairing, damaged] =
        [JOURNAL_FOLDER, REPAIRING_FOLDER, DAMAGED_FOLDER].map(|folder| data_dir.join(folder));
    if !journal.exists() && repairing.is_dir() && damaged.is_dir() {
        // An earlier repair was interrupted between its last two steps.
        fs::rename(&repairing, &journal).map_err(RepairError::at(&journal))?;
        return Ok(Repaired { records: 0, lost_bytes: 0, set_aside: damaged });
    }
    if !journal.is_dir() {
        return Err(RepairError::NoJournal(journal));
    }
    if damaged.exists() {
        return Err(RepairError::SetAside(damaged));
    }
    if repairing.exists() {
        fs::remove_dir_all(&repairing).map_err(RepairError::at(&repairing))?;
    }
    let found = salvage_journal(&FolderDisk::new(&journal), Arc::new(FolderDisk::new(&repairing)))
        .map_err(RepairError::at(&repairing))?;
    if found.records == 0 && !repairing.is_dir() {
        return Err(RepairError::Unreadable(journal));
    }
    fs::rename(&journal, &damaged).map_err(RepairError::at(&damaged))?;
    fs::rename(&repairing, &journal).map_err(RepairError::at(&journal))?;
    File::open(data_dir).and_then(|folder| folder.sync_all()).map_err(RepairError::at(data_dir))?;
    Ok(Repaired { records: found.records, lost_bytes: found.lost_bytes, set_aside: damaged })
}

/// Checks that the node is not running, and prevents it from starting. A running node holds a lock on its database
/// file. This function acquires the same lock and returns the locked file, so the node cannot start until the caller
/// closes the file. If the lock is already held, the function returns an error.
pub(crate) fn check_stopped(database: &Path) -> Result<File, RepairError> {
    let lock = File::open(database).map_err(RepairError::at(database))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(RepairError::Running),
        Err(TryLockError::Error(source)) => Err(RepairError::at(database)(source)),
    }
}

/// Copies all readable records from a damaged journal to a new one, and returns what was found. A checkpoint in the new
/// journal is always marked as incomplete, because some of the unreadable records may have belonged to it. If no file
/// of the damaged journal has a readable header, nothing is known about its node, and the function writes nothing.
///
/// # Errors
/// Returns the I/O errors of both disks.
pub fn salvage_journal(from: &dyn Disk, to: Arc<dyn Disk>) -> io::Result<Salvaged> {
    // The first pass finds out which node the journal belongs to.
    let found = salvage(from, |_| Ok(()))?;
    let Some(of) = found.of else { return Ok(found) };
    let segment_bytes = found.segment_bytes.max(SEGMENT_BYTES);
    let mut journal = Journal::after(to, of, segment_bytes, &Segments::default());
    salvage(from, |record| incomplete(record).map_or(Ok(()), |record| journal.push(record)))?;
    journal.sync()?;
    journal.mark()?;
    Ok(found)
}

/// Returns the record with all its checkpoints marked as incomplete. Returns `None` if the bytes are not a valid
/// record.
fn incomplete(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut record = decode(bytes)
        .inspect_err(|error: &RecordError| tracing::warn!(%error, "a damaged record of the journal is skipped"))
        .ok()?;
    for entry in &mut record.entries {
        if let Entry::Checkpoint { is_complete, .. } = entry {
            *is_complete = false;
        }
    }
    Some(encode(record))
}
