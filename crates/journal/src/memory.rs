//! A disk in memory, which fails as a test wants.
//!
//! Promises: a power cut takes what was not synced, or a part of it in pieces of a sector, also in the middle of a
//! write of several steps; the end of a process takes nothing; disks beside each other share one budget of room. Must
//! not know: what is in files.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::disk::{Disk, DiskFile};

/// Bytes that a medium writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// A disk that outlives the processes that use it; clones are the same disk.
#[derive(Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<Files>>);

impl fmt::Debug for MemoryDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.files().files.keys()).finish()
    }
}

/// Bytes that files may still grow by; none where there is no limit. Clones are the same.
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

/// A gate that syncs wait for, each on its caller's thread. Clones are the same.
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
    /// The next sync hangs for so long.
    hang: Option<Duration>,
    /// Where syncs may be held.
    gate: Option<Gate>,
    /// Writes and syncs until the power fails; none where it does not.
    power: Option<u64>,
}

impl Files {
    /// A write or sync begins, unless the power fails just before.
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

/// Parts of a file that were ever written: where each begins and ends; no two touch. The others take no room.
#[derive(Clone, Default)]
struct Written(BTreeMap<usize, usize>);

impl Written {
    /// How many bytes of a part were never written.
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

    /// Nothing is written from `end` on.
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
    /// The file as processes see it, up to the last byte that was ever written; zeros follow.
    bytes: Vec<u8>,
    /// Writes since the last sync: where, and the bytes that were there before.
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

    /// Moves the end of the file, for good.
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

    /// The power fails: of each sector that was not synced, `survives` says whether it is on the medium all the same.
    pub fn cut_power(&self, mut survives: impl FnMut() -> bool) {
        let mut files = self.files();
        files.power = None;
        files.files.values_mut().for_each(|file| file.cut_power(&mut survives));
    }

    /// Changes one bit of the medium: bit `bit` of all files, counted over them in the order of their names.
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

    /// Cuts a file to `len_bytes`.
    pub fn truncate(&self, name: &str, len_bytes: usize) {
        if let Some(file) = self.files().files.get_mut(name) {
            file.truncate(len_bytes);
        }
    }

    /// From now on files here and on disks beside it may only grow by so many bytes in all; None for no limit.
    pub fn set_room_bytes(&self, room_bytes: Option<u64>) {
        *self.files().room.left() = room_bytes;
    }

    /// Whether files here and on disks beside it may only grow by so many bytes.
    pub fn has_limited_room(&self) -> bool {
        self.files().room.left().is_some()
    }

    /// A disk whose syncs can be held: its users may block on it, as on a disk of a machine.
    #[must_use]
    pub fn that_may_hang() -> Self {
        Self(Arc::new(Mutex::new(Files { gate: Some(Gate::default()), ..Files::default() })))
    }

    /// Whether its users may block on it.
    pub fn may_hang(&self) -> bool {
        self.files().gate.is_some()
    }

    /// From now on all syncs wait, here and on disks beside it, or none any more. This does nothing on a disk that may
    /// not hang.
    pub fn hold_syncs(&self, hold: bool) {
        // Waiting syncs have let go of the files.
        if let Some(gate) = &self.files().gate {
            gate.set_closed(hold);
        }
    }

    /// A disk with files of its own, which shares the room of this one, and hangs with it: another folder of the same machine.
    #[must_use]
    pub fn beside(&self) -> Self {
        let Files { room, gate, .. } = &*self.files();
        Self(Arc::new(Mutex::new(Files { room: room.clone(), gate: gate.clone(), ..Files::default() })))
    }

    /// A file that is read and written at any offset, and made where it is not there.
    pub fn open(&self, name: &str) -> MemoryFile {
        self.files().files.entry(name.to_owned()).or_default();
        MemoryFile { disk: self.clone(), name: name.to_owned() }
    }

    /// From now on syncs fail, or work again.
    pub fn fail_syncs(&self, fail: bool) {
        self.files().syncs_fail = fail;
    }

    /// From now on a sync takes so long, where time is simulated.
    pub fn set_sync_takes(&self, sync_takes: Duration) {
        self.files().sync_takes = sync_takes;
    }

    /// The next sync hangs for so long, where time is simulated; or it does not, after all.
    pub fn hang_next(&self, hang: Option<Duration>) {
        self.files().hang = hang;
    }

    /// The power fails after so many writes and syncs, in the middle of one perhaps, and all that follow fail; or it
    /// does not, after all. A test that sees this ends the process, and cuts the power ([`Self::cut_power`]).
    pub fn lose_power_after(&self, writes: Option<u64>) {
        self.files().power = writes;
    }

    /// Whether the power is still to fail so, or has failed and was not cut yet.
    pub fn is_to_lose_power(&self) -> bool {
        self.files().power.is_some()
    }

    /// Whether the power has failed so, and was not cut yet.
    pub fn has_lost_power(&self) -> bool {
        self.files().power == Some(0)
    }

    /// Whether a sync is still to come that hangs.
    pub fn is_to_hang(&self) -> bool {
        self.files().hang.is_some()
    }

    /// Syncs so far.
    pub fn syncs(&self) -> u64 {
        self.files().syncs
    }

    /// From now on this disk holds the same as `other`.
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

/// A file of a disk in memory.
#[derive(Clone, Debug)]
pub struct MemoryFile {
    disk: MemoryDisk,
    name: String,
}

impl MemoryFile {
    /// Does `work` with the file and the room that is left.
    fn with<T>(&self, work: impl FnOnce(&mut FileState, &Room) -> io::Result<T>) -> io::Result<T> {
        let mut files = self.disk.files();
        let room = files.room.clone();
        work(files.files.get_mut(&self.name).ok_or(io::ErrorKind::NotFound)?, &room)
    }

    /// The file's length.
    ///
    /// # Errors
    /// `NotFound` where it was removed; later calls return the same.
    pub fn len_bytes(&self) -> io::Result<u64> {
        self.with(|file, _| Ok(file.len_bytes as u64))
    }

    /// Sets the file's length: zeros follow the written bytes, or bytes beyond are gone.
    ///
    /// # Errors
    /// As [`Self::len_bytes`].
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
    /// `UnexpectedEof` where the file ends before.
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

    /// Writes within the file's length.
    ///
    /// # Errors
    /// `StorageFull` where there is no room, or the file ends before; nothing is written then.
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

    /// Puts all written bytes on the medium.
    ///
    /// # Errors
    /// Those that the disk was set to return.
    pub fn sync_all(&self) -> io::Result<()> {
        let gate = self.disk.files().gate.clone();
        if let Some(gate) = gate {
            gate.pass();
        }
        let mut files = self.disk.files();
        files.draw_power()?;
        if files.syncs_fail {
            // Some file systems find out only now that there is no room.
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
