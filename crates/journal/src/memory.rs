//! Disk in memory, whose failures are controlled by a test.
//!
//! - A power failure removes data that was not synced, completely or sector by sector. It can also happen in the middle
//!   of an operation that consists of several writes.
//! - If only the process ends, no data is lost.
//! - Several disks can share one limit on their space, like folders on the same machine.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::disk::{Disk, DiskFile};

/// Size of a sector in bytes. The medium writes a sector completely or not at all.
const SECTOR_BYTES: usize = 512;

/// Disk in memory that outlives the processes that use it. Clones refer to the same disk.
#[derive(Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<Files>>);

impl fmt::Debug for MemoryDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.files().files.keys()).finish()
    }
}

/// Number of bytes by which files may still grow. `None` means that there is no limit. Clones share the same limit.
#[derive(Clone, Default)]
struct Room(Arc<Mutex<Option<u64>>>);

impl Room {
    fn left(&self) -> MutexGuard<'_, Option<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, bytes: usize) -> io::Result<()> {
        let mut left = self.left();
        if let Some(left_bytes) = &mut *left {
            *left_bytes = left_bytes.checked_sub(bytes as u64).ok_or(io::ErrorKind::StorageFull)?;
        }
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        if let Some(left_bytes) = &mut *self.left() {
            *left_bytes += bytes as u64;
        }
    }
}

/// Gate that can block syncs. A sync blocks the thread of its caller. Clones refer to the same gate.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn set_closed(&self, is_closed: bool) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = is_closed;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let closed = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.1.wait_while(closed, |is_closed| *is_closed));
    }
}

#[derive(Default)]
struct Files {
    files: BTreeMap<String, FileState>,
    room: Room,
    syncs_fail: bool,
    syncs: u64,
    sync_takes: Duration,
    /// Duration for which the next sync hangs.
    hang: Option<Duration>,
    /// Gate that can block syncs, if the disk has one.
    gate: Option<Gate>,
    /// Number of writes and syncs until the power fails. `None` means that the power does not fail.
    power: Option<u64>,
}

impl Files {
    /// Starts a write or sync. Returns an error if the power has failed.
    fn draw_power(&mut self) -> io::Result<()> {
        match &mut self.power {
            Some(0) => Err(io::Error::other("the power has failed")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// Ranges of a file that were written at least once, as pairs of start and end. Adjacent ranges are merged. The
/// simulated disk counts only these ranges as used space.
#[derive(Clone, Default)]
struct Written(BTreeMap<usize, usize>);

impl Written {
    /// Returns how many bytes of a range were never written.
    fn missing(&self, start: usize, end: usize) -> usize {
        let before = self.0.range(..end).rev().take_while(|(_, part_end)| **part_end > start);
        let known: usize = before.map(|(part, part_end)| end.min(*part_end) - start.max(*part)).sum();
        end - start - known
    }

    fn add(&mut self, start: usize, end: usize) {
        let touched = self.0.range(..=end).rev().take_while(|(_, part_end)| **part_end >= start);
        let touched: Vec<(usize, usize)> = touched.map(|(part, part_end)| (*part, *part_end)).collect();
        let mut whole_start = start;
        let mut whole_end = end;
        for (part, part_end) in touched {
            self.0.remove(&part);
            whole_start = whole_start.min(part);
            whole_end = whole_end.max(part_end);
        }
        self.0.insert(whole_start, whole_end);
    }

    /// Removes all ranges from `end` on.
    fn cut(&mut self, end: usize) {
        self.0.retain(|part, part_end| {
            *part_end = (*part_end).min(end);
            *part < *part_end
        });
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|(part, part_end)| part_end - part).sum()
    }
}

#[derive(Clone, Default)]
struct FileState {
    len_bytes: usize,
    written: Written,
    /// Contents of the file as processes see it, up to the last byte that was ever written. The rest of the file
    /// consists of zeros.
    bytes: Vec<u8>,
    /// Writes since the last sync: the offset of each write, and the bytes that it has replaced.
    unsynced: Vec<(usize, Vec<u8>)>,
}

impl FileState {
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

    /// Sets the length of the file. The change survives a power failure.
    fn set_len(&mut self, len_bytes: usize) {
        self.len_bytes = len_bytes;
        self.bytes.truncate(len_bytes);
        self.written.cut(len_bytes);
        self.unsynced.retain_mut(|(start, before)| {
            before.truncate(len_bytes.saturating_sub(*start));
            !before.is_empty()
        });
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

    /// Simulates a power failure. For each sector that was not synced, `survives` returns whether its new contents have
    /// reached the medium.
    pub fn cut_power(&self, mut survives: impl FnMut() -> bool) {
        let mut files = self.files();
        files.power = None;
        files.files.values_mut().for_each(|file| file.cut_power(&mut survives));
    }

    /// Flips one bit of the medium. The bits of all files are numbered consecutively, in the order of the names of the
    /// files.
    pub fn flip(&self, mut bit: u64) {
        for file in self.files().files.values_mut() {
            let bits = file.len_bytes as u64 * 8;
            if bit < bits {
                let at = (bit / 8) as usize;
                file.bytes.resize(file.bytes.len().max(at + 1), 0);
                file.bytes[at] ^= 1 << (bit % 8);
                return;
            }
            bit -= bits;
        }
    }

    /// Truncates a file to `len_bytes`.
    pub fn truncate(&self, name: &str, len_bytes: usize) {
        if let Some(file) = self.files().files.get_mut(name) {
            file.truncate(len_bytes);
        }
    }

    /// Limits how much the files on this disk can grow, to `room_bytes` bytes in total. The limit also applies to all
    /// disks that share the space of this disk ([`Self::beside`]). `None` removes the limit.
    pub fn set_room_bytes(&self, room_bytes: Option<u64>) {
        *self.files().room.left() = room_bytes;
    }

    /// Returns whether the growth of files is limited.
    pub fn has_limited_room(&self) -> bool {
        self.files().room.left().is_some()
    }

    /// Creates a disk whose syncs can be blocked. A blocked sync blocks its thread, as on the disk of a real machine.
    #[must_use]
    pub fn that_may_hang() -> Self {
        Self(Arc::new(Mutex::new(Files { gate: Some(Gate::default()), ..Files::default() })))
    }

    /// Returns whether syncs on this disk can be blocked.
    pub fn may_hang(&self) -> bool {
        self.files().gate.is_some()
    }

    /// Blocks all syncs of this disk if `hold` is set, and otherwise lets blocked syncs continue. The call also affects
    /// all disks that share the space of this disk ([`Self::beside`]). It has no effect if the disk was not created by
    /// [`Self::that_may_hang`].
    pub fn hold_syncs(&self, hold: bool) {
        // A blocked sync does not hold the lock on the files, so this call cannot deadlock.
        if let Some(gate) = &self.files().gate {
            gate.set_closed(hold);
        }
    }

    /// Creates a second disk that represents another folder of the same machine. The second disk has files of its own,
    /// but both disks share the same free space. If syncs are blocked on one of the disks, they are blocked on both.
    #[must_use]
    pub fn beside(&self) -> Self {
        let Files { room, gate, .. } = &*self.files();
        Self(Arc::new(Mutex::new(Files { room: room.clone(), gate: gate.clone(), ..Files::default() })))
    }

    /// Opens a file for reading and writing at any offset, and creates the file if it does not exist.
    pub fn open(&self, name: &str) -> MemoryFile {
        self.files().files.entry(name.to_owned()).or_default();
        MemoryFile { disk: self.clone(), name: name.to_owned() }
    }

    /// Makes all future syncs fail, or succeed again.
    pub fn fail_syncs(&self, fail: bool) {
        self.files().syncs_fail = fail;
    }

    /// Sets the duration of all future syncs in simulated time.
    pub fn set_sync_takes(&self, sync_takes: Duration) {
        self.files().sync_takes = sync_takes;
    }

    /// Sets the duration for which the next sync hangs in simulated time. `None` cancels an earlier setting.
    pub fn hang_next(&self, hang: Option<Duration>) {
        self.files().hang = hang;
    }

    /// Schedules a power failure after the given number of writes and syncs. The failure may happen in the middle of an
    /// operation, and all later operations fail. A test that observes the failure must end the simulated process and
    /// call [`Self::cut_power`]. `None` cancels a scheduled failure.
    pub fn lose_power_after(&self, writes: Option<u64>) {
        self.files().power = writes;
    }

    /// Returns whether a power failure is scheduled, or has happened without a following call of [`Self::cut_power`].
    pub fn is_to_lose_power(&self) -> bool {
        self.files().power.is_some()
    }

    /// Returns whether the scheduled power failure has happened without a following call of [`Self::cut_power`].
    pub fn has_lost_power(&self) -> bool {
        self.files().power == Some(0)
    }

    /// Returns whether one of the next syncs will hang.
    pub fn is_to_hang(&self) -> bool {
        self.files().hang.is_some()
    }

    /// Returns the number of syncs so far.
    pub fn syncs(&self) -> u64 {
        self.files().syncs
    }

    /// Replaces the contents of this disk by those of `other`.
    pub fn copy_from(&self, other: &Self) {
        let files = other.files().files.clone();
        self.files().files = files;
    }

    /// Creates an independent disk with the same contents.
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
        files.draw_power()?;
        files.room.take(start.len())?;
        let mut file = FileState { len_bytes, bytes: start.to_vec(), ..FileState::default() };
        file.written.add(0, start.len());
        if let Some(former) = files.files.insert(name.to_owned(), file) {
            files.room.give_back(former.written.bytes());
        }
        drop(files);
        Ok(Box::new(MemoryFile { disk: self.clone(), name: name.to_owned() }))
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        MemoryFile { disk: self.clone(), name: name.to_owned() }.sync_all()
    }

    fn sync_takes(&self) -> Duration {
        let mut files = self.files();
        files.hang.take().unwrap_or(files.sync_takes)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut files = self.files();
        files.draw_power()?;
        let file = files.files.remove(name).ok_or(io::ErrorKind::NotFound)?;
        files.room.give_back(file.written.bytes());
        Ok(())
    }
}

/// File on a disk in memory.
#[derive(Clone, Debug)]
pub struct MemoryFile {
    disk: MemoryDisk,
    name: String,
}

impl MemoryFile {
    /// Calls `work` with the file and the remaining space.
    fn with<T>(&self, work: impl FnOnce(&mut FileState, &Room) -> io::Result<T>) -> io::Result<T> {
        let mut files = self.disk.files();
        let room = files.room.clone();
        work(files.files.get_mut(&self.name).ok_or(io::ErrorKind::NotFound)?, &room)
    }

    /// Returns the length of the file in bytes.
    ///
    /// # Errors
    /// Returns `NotFound` if the file was removed. All other methods return this error too.
    pub fn len_bytes(&self) -> io::Result<u64> {
        self.with(|file, _| Ok(file.len_bytes as u64))
    }

    /// Sets the length of the file. If the file grows, zeros are appended. If it shrinks, the bytes beyond the new end
    /// are lost.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::len_bytes`].
    pub fn set_len_bytes(&self, len_bytes: u64) -> io::Result<()> {
        let len_bytes = usize::try_from(len_bytes).map_err(|_| io::ErrorKind::StorageFull)?;
        self.disk.files().draw_power()?;
        self.with(|file, room| {
            let before_bytes = file.written.bytes();
            file.set_len(len_bytes);
            room.give_back(before_bytes - file.written.bytes());
            Ok(())
        })
    }

    /// Fills `out` with the bytes at `offset_bytes`.
    ///
    /// # Errors
    /// Returns `UnexpectedEof` if the file is too short.
    pub fn read_at(&self, offset_bytes: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset_bytes).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        self.with(|file, _| {
            if start.checked_add(out.len()).is_none_or(|end| end > file.len_bytes) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let written = file.bytes.get(start..).unwrap_or_default();
            let written = &written[..written.len().min(out.len())];
            out[..written.len()].copy_from_slice(written);
            out[written.len()..].fill(0);
            Ok(())
        })
    }

    /// Writes bytes within the present length of the file.
    ///
    /// # Errors
    /// Returns `StorageFull` if the disk is full or if the file is too short. In that case nothing is written.
    pub fn write(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.disk.files().draw_power()?;
        self.with(|file, room| {
            let end = start + bytes.len();
            if end > file.len_bytes {
                return Err(io::ErrorKind::StorageFull.into());
            }
            room.take(file.written.missing(start, end))?;
            file.written.add(start, end);
            file.bytes.resize(file.bytes.len().max(end), 0);
            let place = &mut file.bytes[start..end];
            file.unsynced.push((start, place.to_vec()));
            place.copy_from_slice(bytes);
            Ok(())
        })
    }

    /// Flushes all written bytes to the medium.
    ///
    /// # Errors
    /// Returns the errors that a test has configured.
    pub fn sync_all(&self) -> io::Result<()> {
        let gate = self.disk.files().gate.clone();
        if let Some(gate) = gate {
            gate.pass();
        }
        let mut files = self.disk.files();
        files.draw_power()?;
        if files.syncs_fail {
            // Some file systems report only now that the disk is full.
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the disk does not sync"));
        }
        files.syncs += 1;
        drop(files);
        self.with(|file, _| {
            file.unsynced.clear();
            Ok(())
        })
    }
}

impl DiskFile for MemoryFile {
    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(offset_bytes, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}
