//! Reserves disk space for the database of the consensus, by a file that occupies the space. When the disk is full, for
//! example because other programs have filled it, the file is removed so that the database can use its space.
//!
//! The reserved space is meant for the database alone, so the other parts of the node must stop using disk space when
//! the disk is full. They are notified before the file is removed. They are also notified if there is not enough space
//! to create the file in the first place.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use firstseen_journal::{Disk, MemoryDisk};
use firstseen_wire::watch;

use super::storage::MetaStorage;
use crate::mixed::mixed;

/// Disk space reserved for the consensus log, in bytes. The reserve allows a node with a full disk to apply at least a
/// few hundred further changes of the cluster map, so that the cluster can react to the full disk. The database grows
/// its file before it reuses free pages, so the reserve must be several times the size of a small cluster's database.
const RESERVE_BYTES: u64 = 4 << 20;

/// Space reserved on disks in memory, in bytes. It equals the size of a small cluster's database.
const MEMORY_RESERVE_BYTES: u64 = 1 << 20;

/// Name of the file, which is in the same folder as the database.
pub const RESERVE_FILE: &str = "meta.reserve";

#[derive(Debug)]
enum Place {
    Nowhere,
    File(PathBuf),
    Memory(MemoryDisk),
}

/// The reserved space.
#[derive(Debug)]
pub(crate) struct Reserve {
    place: Place,
    is_kept: Mutex<bool>,
    is_nearly_full: watch::Sender<bool>,
}

impl Reserve {
    /// Returns the reserve next to the database in `storage`. If an earlier process has reserved the space, it remains
    /// reserved.
    pub(super) fn beside(storage: &MetaStorage) -> Self {
        let place = match storage {
            MetaStorage::File(path) => Place::File(path.with_file_name(RESERVE_FILE)),
            MetaStorage::Copy(_) => Place::Nowhere,
            MetaStorage::Memory(disk) => Place::Memory(disk.clone()),
        };
        let is_kept = place.kept_bytes() == Some(place.bytes());
        Self { place, is_kept: Mutex::new(is_kept), is_nearly_full: watch::Sender::new(false) }
    }

    /// Returns a receiver that tells whether the disk has no free space except for the reserve, or not even that.
    pub(crate) fn watch_nearly_full(&self) -> watch::Receiver<bool> {
        self.is_nearly_full.subscribe()
    }

    fn is_kept(&self) -> MutexGuard<'_, bool> {
        self.is_kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports that the disk is full, and releases the reserve. Returns whether space has become free.
    pub(super) fn release(&self) -> bool {
        let mut is_kept = self.is_kept();
        self.publish(true);
        let is_free = std::mem::take(&mut *is_kept) && self.place.remove();
        if is_free {
            tracing::error!(
                bytes = self.place.bytes(),
                "the disk of the data folder is full, and the space reserved for the consensus log is in use: make \
                 room on the disk"
            );
        }
        is_free
    }

    /// Reserves the space if there is enough. Returns whether it is reserved.
    pub(super) fn keep(&self) -> bool {
        let mut is_kept = self.is_kept();
        if *is_kept {
            return true;
        }
        match self.place.make() {
            Ok(()) => {
                *is_kept = true;
                if *self.is_nearly_full.borrow() {
                    tracing::info!("the disk of the data folder has free space again");
                }
                self.publish(false);
            }
            Err(error) => {
                self.place.remove();
                if !*self.is_nearly_full.borrow() {
                    tracing::error!(
                        %error, bytes = self.place.bytes(),
                        "no room can be kept back for the consensus log: make room on the disk of the data folder"
                    );
                }
                if is_full(&error) {
                    self.publish(true);
                }
            }
        }
        *is_kept
    }

    fn publish(&self, is_nearly_full: bool) {
        self.is_nearly_full.send_if_modified(|known| std::mem::replace(known, is_nearly_full) != is_nearly_full);
    }
}

impl Place {
    fn bytes(&self) -> u64 {
        match self {
            Self::Nowhere => 0,
            Self::File(_) => RESERVE_BYTES,
            Self::Memory(_) => MEMORY_RESERVE_BYTES,
        }
    }

    fn kept_bytes(&self) -> Option<u64> {
        match self {
            Self::Nowhere => None,
            Self::File(path) => fs::metadata(path).ok().map(|file| file.len()),
            Self::Memory(disk) => disk.len_bytes(RESERVE_FILE).ok(),
        }
    }

    fn make(&self) -> io::Result<()> {
        match self {
            Self::Nowhere => Ok(()),
            Self::File(path) => {
                let mut file = File::create(path)?;
                file.write_all(&filler(self.bytes()))?;
                file.sync_all()
            }
            Self::Memory(disk) => disk.create(RESERVE_FILE, &filler(self.bytes()), self.bytes()).map(drop),
        }
    }

    /// Removes the file. Returns whether it existed.
    fn remove(&self) -> bool {
        match self {
            Self::Nowhere => false,
            Self::File(path) => fs::remove_file(path).is_ok(),
            Self::Memory(disk) => disk.remove(RESERVE_FILE).is_ok(),
        }
    }
}

/// Returns whether an error means that the disk has no space. This condition may be temporary.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns bytes that no file system can compress.
fn filler(bytes: u64) -> Vec<u8> {
    (0..bytes / 8).flat_map(|word| mixed(word).to_le_bytes()).collect()
}
