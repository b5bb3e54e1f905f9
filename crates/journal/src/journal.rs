//! Writing a journal.
//!
//! Promises: records stand in the order of [`Journal::push`]; after [`Journal::sync`] all of them are on the medium; no
//! record that was pushed is lost because the disk is full. Must not know: what records hold, when to sync.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::scan::{MARK, Segments, file_name};
use crate::segment::{HEADER_BYTES, Header, NodeMark, frame_bytes, push_frame};

/// The end of a journal, where records are added.
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
    /// Oldest first; the newest is written.
    segments: VecDeque<u64>,
    file: Option<Box<dyn DiskFile>>,
    /// Where the newest segment ends, as far as it was written.
    end: u64,
    synced: u64,
    /// Whether everything in the newest segment is marked as synced.
    is_marked: bool,
    /// Records that are not written.
    waiting: VecDeque<Vec<u8>>,
    /// Frames of the newest segment that a full disk has not taken.
    frames: Vec<u8>,
}

impl Journal {
    /// Goes on after what a scan has found, in a new segment of `segment_bytes` bytes, which is made with the first record.
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

    /// The number of the segment that the next record goes to, unless it is full.
    pub fn segment(&self) -> u64 {
        let newest = self.segments.back().copied().unwrap_or(0);
        if self.file.is_some() { newest } else { newest + 1 }
    }

    /// Adds a record, and writes as many as there is room for.
    ///
    /// # Errors
    /// Those of the disk: `StorageFull` may pass, all others will not. `InvalidInput` for a record that is empty, or
    /// longer than a segment.
    pub fn push(&mut self, record: Vec<u8>) -> io::Result<()> {
        if record.is_empty() || HEADER_BYTES + frame_bytes(record.len()) > self.segment_bytes as usize {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a record of no length, or beyond the limit"));
        }
        self.waiting.push_back(record);
        self.write()
    }

    /// Writes all records that have not been written, if any.
    ///
    /// # Errors
    /// As [`Self::push`].
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

    /// Begins the next segment, when all of this one is on the medium.
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

    /// Puts everything that was pushed on the medium.
    ///
    /// # Errors
    /// As [`Self::push`], and an error of the sync itself, after which it is not known what is on the medium: the
    /// journal must not be used any more.
    pub fn sync(&mut self) -> io::Result<()> {
        self.write()?;
        let Some(file) = &mut self.file else { return Ok(()) };
        sync(&mut **file)?;
        self.synced = self.end;
        Ok(())
    }

    /// Notes in the journal how far it is synced, where no later frame does: the note tells damage to the last record
    /// from a torn one.
    ///
    /// # Errors
    /// As [`Self::push`].
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

    /// Segments, those of earlier processes too.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Removes the segments before `number`, which are not needed any more.
    ///
    /// # Errors
    /// Those of the disk.
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

/// Syncs a file. A lack of room shows too late here: earlier writes may be gone, and a second try that works says
/// nothing. So it is no error that passes.
fn sync(file: &mut dyn DiskFile) -> io::Result<()> {
    file.sync().map_err(|error| io::Error::other(format!("a sync has failed: {error}")))
}
