//! A disk in memory, whose failures are what a test wants.
//!
//! Promises: a power cut takes what was not synced, or a part of it in pieces of a sector; a process that ends takes
//! nothing. Must not know: what is in files.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::disk::{Disk, DiskFile};

/// What a medium writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// A disk that outlives the processes that use it; clones are the same disk.
#[derive(Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<Files>>);

#[derive(Default)]
struct Files {
    files: BTreeMap<String, FileState>,
    /// No more than this many bytes may be written in all.
    room_bytes: Option<u64>,
    syncs_fail: bool,
    syncs: u64,
    sync_takes: Duration,
    /// The next sync hangs for so long.
    hang: Option<Duration>,
}

impl Files {
    fn take_room(&mut self, bytes: usize) -> io::Result<()> {
        if let Some(room_bytes) = self.room_bytes {
            let left_bytes = room_bytes.checked_sub(bytes as u64).ok_or(io::ErrorKind::StorageFull)?;
            self.room_bytes = Some(left_bytes);
        }
        Ok(())
    }
}

#[derive(Clone, Default)]
struct FileState {
    len_bytes: usize,
    /// As processes see it, up to the last byte that was ever written; zeros follow.
    bytes: Vec<u8>,
    /// What was written since the last sync: where, and what was there before.
    unsynced: Vec<(usize, Vec<u8>)>,
}

impl FileState {
    fn whole(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes.resize(self.len_bytes, 0);
        bytes
    }

    fn cut_power(&mut self, survives: &mut impl FnMut() -> bool) {
        let mut before = self.bytes.clone();
        for (start, bytes) in self.unsynced.drain(..).rev() {
            before[start..start + bytes.len()].copy_from_slice(&bytes);
        }
        for (now, before) in self.bytes.chunks_mut(SECTOR_BYTES).zip(before.chunks(SECTOR_BYTES)) {
            if now != before && !survives() {
                now.copy_from_slice(before);
            }
        }
    }

    fn truncate(&mut self, len_bytes: usize) {
        self.len_bytes = self.len_bytes.min(len_bytes);
        self.bytes.truncate(len_bytes);
        self.unsynced.clear();
    }
}

impl MemoryDisk {
    fn files(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The power fails: of each sector that was not synced, `survives` says whether it is on the medium all the same.
    pub fn cut_power(&self, mut survives: impl FnMut() -> bool) {
        self.files().files.values_mut().for_each(|file| file.cut_power(&mut survives));
    }

    /// Changes one bit of the medium: bit `bit` of all files, counted over them in the order of their names.
    pub fn flip(&self, mut bit: u64) {
        for file in self.files().files.values_mut() {
            let bits = file.len_bytes as u64 * 8;
            if bit < bits {
                file.bytes = file.whole();
                file.bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
                return;
            }
            bit -= bits;
        }
    }

    /// Cuts a file to `len_bytes`.
    pub fn truncate(&self, name: &str, len_bytes: usize) {
        if let Some(file) = self.files().files.get_mut(name) {
            file.truncate(len_bytes);
        }
    }

    /// From now on only so many bytes may be written; None for as many as come.
    pub fn set_room_bytes(&self, room_bytes: Option<u64>) {
        self.files().room_bytes = room_bytes;
    }

    /// From now on syncs fail, or work again.
    pub fn fail_syncs(&self, fail: bool) {
        self.files().syncs_fail = fail;
    }

    /// From now on a sync takes so long, where time is simulated.
    pub fn set_sync_takes(&self, sync_takes: Duration) {
        self.files().sync_takes = sync_takes;
    }

    /// The next sync hangs for so long, where time is simulated.
    pub fn hang_once(&self, hang: Duration) {
        self.files().hang = Some(hang);
    }

    /// Whether a sync is still to come that hangs.
    pub fn is_to_hang(&self) -> bool {
        self.files().hang.is_some()
    }

    /// Syncs so far.
    pub fn syncs(&self) -> u64 {
        self.files().syncs
    }

    /// From now on it holds what `other` holds.
    pub fn become_like(&self, other: &Self) {
        let files = other.files().files.clone();
        self.files().files = files;
    }

    /// A disk of its own that holds the same.
    #[must_use]
    pub fn copy(&self) -> Self {
        let files = Files { files: self.files().files.clone(), ..Files::default() };
        Self(Arc::new(Mutex::new(files)))
    }
}

impl Disk for MemoryDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.files().files.keys().cloned().collect())
    }

    fn len_bytes(&self, name: &str) -> io::Result<u64> {
        Ok(self.files().files.get(name).ok_or(io::ErrorKind::NotFound)?.len_bytes as u64)
    }

    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let files = self.files();
        let file = files.files.get(name).ok_or(io::ErrorKind::NotFound)?;
        let mut bytes = file.bytes.clone();
        bytes.resize(file.len_bytes.min(usize::try_from(bytes_max).unwrap_or(usize::MAX)), 0);
        Ok(bytes)
    }

    fn create(&self, name: &str, start: &[u8], len_bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let len_bytes = usize::try_from(len_bytes).map_err(|_| io::ErrorKind::StorageFull)?;
        let mut files = self.files();
        files.take_room(start.len())?;
        let file = FileState { len_bytes, bytes: start.to_vec(), unsynced: Vec::new() };
        files.files.insert(name.to_owned(), file);
        drop(files);
        Ok(Box::new(MemoryFile { disk: self.clone(), name: name.to_owned() }))
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        MemoryFile { disk: self.clone(), name: name.to_owned() }.sync()
    }

    fn sync_takes(&self) -> Duration {
        let mut files = self.files();
        files.hang.take().unwrap_or(files.sync_takes)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files().files.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

struct MemoryFile {
    disk: MemoryDisk,
    name: String,
}

impl DiskFile for MemoryFile {
    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.disk.files();
        files.take_room(bytes.len())?;
        let file = files.files.get_mut(&self.name).ok_or(io::ErrorKind::NotFound)?;
        let start = usize::try_from(offset_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let end = start + bytes.len();
        if end > file.len_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.bytes.resize(file.bytes.len().max(end), 0);
        let place = &mut file.bytes[start..end];
        file.unsynced.push((start, place.to_vec()));
        place.copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut files = self.disk.files();
        if files.syncs_fail {
            // As file systems do that find out only now that there is no room.
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the disk does not sync"));
        }
        files.syncs += 1;
        let file = files.files.get_mut(&self.name).ok_or(io::ErrorKind::NotFound)?;
        file.unsynced.clear();
        Ok(())
    }
}
