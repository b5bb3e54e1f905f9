//! Repairing the folder of a node whose journal is damaged.
//!
//! Promises: records that can be read are kept, the damaged files are set aside, and the slices count as incomplete, so
//! that nothing rests on records that are missing. Must not know: who asks for the repair.

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

/// Where the damaged journal is set aside.
const DAMAGED_FOLDER: &str = "journal.damaged";

/// The result of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// Records that were kept.
    pub records: u64,
    /// Bytes that could not be read.
    pub lost_bytes: u64,
    /// Where the damaged journal is now.
    pub set_aside: PathBuf,
}

/// Why a folder is not repaired.
#[derive(Debug, Error)]
pub enum RepairError {
    /// The folder of a node that runs.
    #[error("the node is running: stop it first")]
    Running,
    /// There is nothing to repair.
    #[error("{0} has no journal: there is nothing to repair")]
    NoJournal(PathBuf),
    /// Nothing of the journal can be read.
    #[error("{0}: no file of it can be read, as it was written by another release, or is no journal")]
    Unreadable(PathBuf),
    /// The journal that an earlier repair has set aside is still there.
    #[error("{0} is there from an earlier repair: move it away first")]
    SetAside(PathBuf),
    /// A disk failed.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl RepairError {
    /// Makes an error of what failed at `path`.
    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// Repairs the journal in the data folder of a node that does not run.
///
/// # Errors
/// [`RepairError`].
pub fn repair(data_dir: &Path) -> Result<Repaired, RepairError> {
    let _lock = check_stopped(&data_dir.join(DATABASE_FILE))?;
    let [journal, repairing, damaged] =
        [JOURNAL_FOLDER, REPAIRING_FOLDER, DAMAGED_FOLDER].map(|folder| data_dir.join(folder));
    if !journal.exists() && repairing.is_dir() && damaged.is_dir() {
        // An earlier repair has ended between its last two steps.
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

/// Refuses the folder of a node that runs: it holds the lock of its database, as does the file that this returns.
pub(crate) fn check_stopped(database: &Path) -> Result<File, RepairError> {
    let lock = File::open(database).map_err(RepairError::at(database))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(RepairError::Running),
        Err(TryLockError::Error(source)) => Err(RepairError::at(database)(source)),
    }
}

/// Copies the whole records of one journal to another, where no checkpoint promises that they are all; returns what was
/// found. Nothing is written where no header can be read.
///
/// # Errors
/// Those of the disks.
pub fn salvage_journal(from: &dyn Disk, to: Arc<dyn Disk>) -> io::Result<Salvaged> {
    // A first look, for the node that the journal is of.
    let found = salvage(from, |_| Ok(()))?;
    let Some(of) = found.of else { return Ok(found) };
    let segment_bytes = found.segment_bytes.max(SEGMENT_BYTES);
    let mut journal = Journal::after(to, of, segment_bytes, &Segments::default());
    salvage(from, |record| incomplete(record).map_or(Ok(()), |record| journal.push(record)))?;
    journal.sync()?;
    journal.mark()?;
    Ok(found)
}

/// The record, with checkpoints that promise nothing; none where these bytes are no record.
fn incomplete(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut record = decode(bytes).inspect_err(|error: &RecordError| tracing::warn!(%error, "left out")).ok()?;
    for entry in &mut record.entries {
        if let Entry::Checkpoint { is_complete, .. } = entry {
            *is_complete = false;
        }
    }
    Some(encode(record))
}
