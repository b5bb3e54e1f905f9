//! Room kept back on the disk of the database: a file that is removed when other writers leave no room.
//!
//! Promises: all who watch know that the room is given up, or cannot be kept back, before it can be used; it is kept
//! back whole or not at all. Must not know: what the room is needed for.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use firstseen_journal::{Disk, MemoryDisk};
use firstseen_wire::watch;

use super::storage::MetaStorage;
use crate::mixed::mixed;

/// Bytes that are kept back: several times those of a small cluster's database, which fills its file before it uses
/// free parts of it again. That is room for hundreds of changes that a cluster makes by itself, at least.
const RESERVE_BYTES: u64 = 4 << 20;

/// Bytes that are kept back on disks in memory: those of a small cluster's database, once.
const MEMORY_RESERVE_BYTES: u64 = 1 << 20;

/// The name of the file, beside the database.
pub const RESERVE_FILE: &str = "meta.reserve";

#[derive(Debug)]
enum Place {
    Nowhere,
    File(PathBuf),
    Memory(MemoryDisk),
}

/// Room kept back.
#[derive(Debug)]
pub(crate) struct Reserve {
    place: Place,
    is_kept: Mutex<bool>,
    is_short: watch::Sender<bool>,
}

impl Reserve {
    /// The reserve beside the database in `storage`; room that an earlier process has kept back stays so.
    pub(super) fn beside(storage: &MetaStorage) -> Self {
        let place = match storage {
            MetaStorage::File(path) => Place::File(path.with_file_name(RESERVE_FILE)),
            MetaStorage::Copy(_) => Place::Nowhere,
            MetaStorage::Memory(disk) => Place::Memory(disk.clone()),
        };
        let is_kept = place.kept_bytes() == Some(place.bytes());
        Self { place, is_kept: Mutex::new(is_kept), is_short: watch::Sender::new(false) }
    }

    /// Whether there is no room but that kept back, or not even that.
    pub(crate) fn watch_short(&self) -> watch::Receiver<bool> {
        self.is_short.subscribe()
    }

    fn is_kept(&self) -> MutexGuard<'_, bool> {
        self.is_kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that there is no room, and gives the reserve up; returns whether room has become free.
    pub(super) fn give_up(&self) -> bool {
        let mut is_kept = self.is_kept();
        self.publish(true);
        let is_free = std::mem::take(&mut *is_kept) && self.place.remove();
        if is_free {
            tracing::error!(
                bytes = self.place.bytes(),
                "the disk of the data folder is full: the room kept back for what the cluster agrees on is in use; make room"
            );
        }
        is_free
    }

    /// Keeps the room back, if there is as much; returns whether it is kept.
    pub(super) fn keep(&self) -> bool {
        let mut is_kept = self.is_kept();
        if *is_kept {
            return true;
        }
        match self.place.make() {
            Ok(()) => {
                *is_kept = true;
                if *self.is_short.borrow() {
                    tracing::info!("the disk of the data folder has room again");
                }
                self.publish(false);
            }
            Err(error) => {
                self.place.remove();
                if !*self.is_short.borrow() {
                    tracing::error!(
                        %error, bytes = self.place.bytes(),
                        "no room can be kept back for what the cluster agrees on: make room on the disk of the data folder"
                    );
                }
                if is_full(&error) {
                    self.publish(true);
                }
            }
        }
        *is_kept
    }

    fn publish(&self, is_short: bool) {
        self.is_short.send_if_modified(|known| std::mem::replace(known, is_short) != is_short);
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

    /// Removes the file; returns whether there was one.
    fn remove(&self) -> bool {
        match self {
            Self::Nowhere => false,
            Self::File(path) => fs::remove_file(path).is_ok(),
            Self::Memory(disk) => disk.remove(RESERVE_FILE).is_ok(),
        }
    }
}

/// Whether there was no room; that may pass.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Bytes that no file system can store in less room.
fn filler(bytes: u64) -> Vec<u8> {
    (0..bytes / 8).flat_map(|word| mixed(word).to_le_bytes()).collect()
}
