//! Writes a journal.
//!
//! # Guarantees
//!
//! - Records are stored in the order in which they are passed to [`Journal::push`].
//! - After [`Journal::sync`] returns, all of these records are on the medium.
//! - A full disk causes no loss: a record that cannot be written stays in memory until there is space.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::scan::{MARK, Segments, file_name};
use crate::segment::{HEADER_BYTES, Header, NodeMark, frame_bytes, push_frame};

/// Journal that is open for appending records.
///
/// ```
/// use std::sync::Arc;
/// use firstseen_journal::{Journal, MemoryDisk, NodeMark, SEGMENT_BYTES, scan};
/// let (disk, of) = (MemoryDisk::default(), NodeMark::default());
/// let found = scan(&disk, of, |_, _| Ok(())).unwrap();
/// let mut journal = Journal::after(Arc::new(disk.clone()), of, SEGMENT_BYTES, &found);
/// journal.push(b"kept".to_vec()).unwrap();
/// journal.sync().unwrap();
/// journal.push(b"lost".to_vec()).unwrap();
/// disk.cut_power(|| false);
///
/// let mut records = Vec::new();
/// scan(&disk, of, |_, record| Ok(records.push(record.to_vec()))).unwrap();
/// assert_eq!(records, [b"kept"]);
/// ```
pub struct Journal {
    disk: Arc<dyn Disk>,
    of: NodeMark,
    segment_bytes: u32,
    /// Numbers of the segments, oldest first. Records are appended to the newest segment.
    segments: VecDeque<u64>,
    file: Option<Box<dyn DiskFile>>,
    /// End of the data that was written to the newest segment.
    end: u64,
    synced: u64,
    /// Whether a frame in the newest segment notes that all earlier data is synced.
    is_marked: bool,
    /// Records that have not been written yet.
    waiting: VecDeque<Vec<u8>>,
    /// Frames for the newest segment that could not be written because the disk was full.
    frames: Vec<u8>,
}

impl Journal {
    /// Opens a journal for appending. `found` lists the existing segments, which the caller obtains from a scan of the
    /// journal. The existing segments are not changed. When the first record is written, a new segment of
    /// `segment_bytes` bytes is created for it.
    pub fn after(disk: Arc<dyn Disk>, of: NodeMark, segment_bytes: u32, found: &Segments) -> Self {
        let segments: VecDeque<u64> = found.numbers.iter().copied().collect();
        Self {
            disk,
            of,
            segment_bytes,
            segments,
            file: None,
            end: found.end,
            synced: found.end,
            is_marked: true,
            waiting: VecDeque::new(),
            frames: Vec::new(),
        }
    }

    /// Returns the number of the segment that receives the next record, unless that segment is full.
    pub fn segment(&self) -> u64 {
        let newest = self.segments.back().copied().unwrap_or(0);
        if self.file.is_some() { newest } else { newest + 1 }
    }

    /// Appends a record, and writes as many records as there is space for.
    ///
    /// # Errors
    /// Returns `StorageFull` if the disk is full, which may be temporary, and other errors of the disk, which are
    /// permanent. Returns `InvalidInput` if the record is empty or does not fit into a segment.
    pub fn push(&mut self, record: Vec<u8>) -> io::Result<()> {
        if record.is_empty() || HEADER_BYTES + frame_bytes(record.len()) > self.segment_bytes as usize {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the record is empty or exceeds a segment"));
        }
        self.waiting.push_back(record);
        self.write()
    }

    /// Writes all records that have not been written yet.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::push`].
    pub fn write(&mut self) -> io::Result<()> {
        self.write_frames()?;
        while let Some(record) = self.waiting.front() {
            let needed = frame_bytes(record.len()) as u64;
            if self.file.is_none() || self.end + needed > u64::from(self.segment_bytes) {
                self.roll()?;
            }
            let Some(record) = self.waiting.pop_front() else { break };
            let number = self.segment();
            push_frame(&mut self.frames, number, self.end, self.synced as u32, &record);
            self.is_marked = false;
            self.write_frames()?;
        }
        Ok(())
    }

    fn write_frames(&mut self) -> io::Result<()> {
        if let (Some(file), false) = (&mut self.file, self.frames.is_empty()) {
            file.write_at(self.end, &self.frames)?;
            self.end += self.frames.len() as u64;
            self.frames.clear();
        }
        Ok(())
    }

    /// Starts the next segment after all data of the current one has been synced.
    fn roll(&mut self) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            sync(&mut **file)?;
        }
        let number = self.segments.back().copied().unwrap_or(0) + 1;
        let previous_end = if self.segments.is_empty() { 0 } else { self.end };
        let header = Header { of: self.of, segment_bytes: self.segment_bytes, number, previous_end };
        self.file = Some(self.disk.create(&file_name(number), &header.encode(), u64::from(self.segment_bytes))?);
        self.segments.push_back(number);
        self.end = HEADER_BYTES as u64;
        self.synced = self.end;
        Ok(())
    }

    /// Flushes all appended records to the medium.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::push`]. If the sync itself fails, it is unknown which data has reached the
    /// medium, and the journal must not be used any more.
    pub fn sync(&mut self) -> io::Result<()> {
        self.write()?;
        let Some(file) = &mut self.file else { return Ok(()) };
        sync(&mut **file)?;
        self.synced = self.end;
        Ok(())
    }

    /// Writes a frame that notes up to which offset the journal is synced, unless the last frame already notes it.
    ///
    /// A reader needs this note if it finds a broken record at the end of the journal after a crash. If the broken
    /// record lies before the noted offset, the record was synced and has been damaged since. Otherwise the crash
    /// interrupted the write of the record, which is harmless.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::push`].
    pub fn mark(&mut self) -> io::Result<()> {
        let is_due = !self.is_marked && self.synced == self.end && self.waiting.is_empty() && self.frames.is_empty();
        if is_due && self.end + frame_bytes(MARK.len()) as u64 <= u64::from(self.segment_bytes) {
            let number = self.segment();
            push_frame(&mut self.frames, number, self.end, self.synced as u32, MARK);
            self.is_marked = true;
            self.write_frames()?;
        }
        Ok(())
    }

    /// Returns the number of segments, including those of earlier processes.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Removes the segments before segment `number`, which are no longer needed.
    ///
    /// # Errors
    /// Returns the errors of the disk.
    pub fn remove_before(&mut self, number: u64) -> io::Result<()> {
        while self.segments.len() > 1
            && let Some(oldest) = self.segments.front().filter(|oldest| **oldest < number)
        {
            self.disk.remove(&file_name(*oldest))?;
            self.segments.pop_front();
        }
        Ok(())
    }
}

/// Syncs a file, and turns every error into a permanent one. Even a sync that fails because the disk is full must not
/// be retried. The system may already have dropped the data of earlier writes, and a later sync would succeed without
/// writing that data.
fn sync(file: &mut dyn DiskFile) -> io::Result<()> {
    file.sync().map_err(|error| io::Error::other(format!("a sync has failed: {error}")))
}
