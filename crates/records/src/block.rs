//! A block of records and the options that limit its size. A block is a part of a file that contains only complete
//! records, so each block can be parsed independently of the others.

use crate::RecordFormat;
use crate::cut::count_leading_nul;

/// Limits and settings of a [`BlockReader`](crate::BlockReader).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOptions {
    /// Size in bytes at which the reader aims when it fills a block. The actual size may differ in both directions. A
    /// block is smaller if its records are short, because it holds at most about 32,768 records. It is larger if a
    /// single record does not fit into the intended size.
    pub block_bytes_target: usize,
    /// Maximum length of a record in bytes, at most 1 GiB. A longer record is rejected.
    ///
    /// In a format whose quoted fields may contain newlines, a record that seems too long may really be a short line
    /// with a missing closing quote. To distinguish the two cases, the reader searches for the end of the record in up
    /// to four times this length.
    pub record_bytes_max: usize,
    /// Whether a newline between quotes belongs to the record.
    pub quoted_newlines: bool,
    /// Byte between two fields. The reader needs it to recognise where a quoted field begins.
    pub separator: u8,
    /// Byte that ends a record: a newline, or NUL for records that may contain newlines. If it is not a newline, quotes
    /// have no meaning.
    pub record_end: u8,
}

impl BlockOptions {
    /// Returns the default options of a format: blocks of 1 MiB, and records of up to 16 MiB that end with a newline.
    pub fn for_format(format: RecordFormat) -> Self {
        Self {
            block_bytes_target: 1 << 20,
            record_bytes_max: 16 << 20,
            quoted_newlines: format.has_quoted_newlines(),
            separator: format.default_separator().unwrap_or(b','),
            record_end: b'\n',
        }
    }
}

/// Why a block is one rejected range instead of a sequence of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockDefect {
    /// The record is longer than the limit. If the reader knows where the record ends, this block contains the whole
    /// record. Otherwise, this block contains the first piece, and the following blocks contain the other pieces. Those
    /// blocks have the defect [`RestOfLong`](Self::RestOfLong).
    TooLong {
        /// Number of bytes of the record in this block.
        record_bytes: u64,
        /// The limit that the record exceeds.
        record_bytes_max: usize,
        /// Number of lines of the record in this block.
        lines: u64,
        /// Whether this block contains the whole record.
        is_whole: bool,
    },
    /// A further piece of a record that is too long. The piece is not a separate record.
    RestOfLong,
    /// The block contains a single line with an opening quote that is not closed. The reader concludes this in two
    /// cases:
    ///
    /// - It finds no closing quote before the end of the input, or within four times the maximum length of a record.
    /// - The next quote seems to open another field instead of closing this one.
    ///
    /// The lines after this line are not lost. They follow in separate blocks, in which every newline ends a record and
    /// quotes have no meaning. This holds up to the position that the reader had reached when it searched for the
    /// closing quote, but for no more bytes than the maximum length of a record.
    UnclosedQuote,
    /// The bytes of a record that were read before the input failed. The next call returns the error.
    InputFailed,
}

/// Complete records of one file, together with the position of these records in the file. A
/// [`BlockReader`](crate::BlockReader) fills the block. A block can be filled many times, which avoids new allocations
/// because the block keeps its memory.
#[derive(Debug)]
pub struct Block {
    pub(crate) buffer: Vec<u8>,
    pub(crate) filled: usize,
    pub(crate) first_line: u64,
    pub(crate) first_record: u64,
    pub(crate) is_first: bool,
    pub(crate) quoted_newlines: bool,
    pub(crate) record_end: u8,
    pub(crate) hole_bytes: u64,
    pub(crate) defect: Option<BlockDefect>,
}

impl Default for Block {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            filled: 0,
            first_line: 0,
            first_record: 0,
            is_first: false,
            quoted_newlines: false,
            record_end: b'\n',
            hole_bytes: 0,
            defect: None,
        }
    }
}

impl Block {
    /// Returns the records, each with its line end. The last record of a file may have no line end.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    /// Returns the line of the file on which the block begins, starting at 1.
    pub fn first_line(&self) -> u64 {
        self.first_line
    }

    /// Returns the number of the block's first record in the file, starting at 1. A header counts as a record.
    pub fn first_record(&self) -> u64 {
        self.first_record
    }

    /// Returns whether this is the first block of its file, which contains the header if the file has one.
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// Returns whether a newline between quotes belongs to the record.
    pub fn quoted_newlines(&self) -> bool {
        self.quoted_newlines
    }

    /// Returns the byte that ends a record.
    pub fn record_end(&self) -> u8 {
        self.record_end
    }

    /// Returns the number of NUL bytes in the file directly before this block. Such a hole appears if a log is
    /// truncated while its program continues to write, as with `copytruncate` of logrotate. The NUL bytes belong to no
    /// record and are not part of [`Self::bytes`]. If a file ends with a hole, the last block has a hole and no record.
    pub fn hole_bytes(&self) -> u64 {
        self.hole_bytes
    }

    /// Returns why the block is one rejected range. `None` means that the block contains records.
    pub fn defect(&self) -> Option<BlockDefect> {
        self.defect
    }

    /// Removes all records. The records that are appended with [`Self::push_record`] afterwards are the records of one
    /// input, and each of them is one line.
    pub fn clear(&mut self) {
        *self = Self { buffer: std::mem::take(&mut self.buffer), first_line: 1, first_record: 1, ..Self::default() };
        self.is_first = true;
    }

    /// Appends a record that does not come from a file, such as the value of a message. A line end follows it, and line
    /// ends within the record become blanks. The record with index `n` is therefore line `n + 1`, whatever its bytes
    /// are. In JSON, blanks and line ends between the parts of a value have the same meaning.
    ///
    /// ```
    /// use firstseen_records::Block;
    /// let mut block = Block::default();
    /// block.clear();
    /// block.push_record(b"{\"user\":\n 7}");
    /// block.push_record(b"");
    /// assert_eq!(block.bytes(), b"{\"user\":  7}\n\n");
    /// ```
    pub fn push_record(&mut self, record: &[u8]) {
        let start = self.filled;
        self.append(record);
        let copy = &mut self.buffer[start..self.filled];
        if memchr::memchr(b'\n', copy).is_some() {
            copy.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
        }
        self.append(b"\n");
    }

    /// Returns the free part of the block's buffer, into which the reader reads more bytes. The buffer has room for
    /// `read_bytes` bytes in total. If the buffer is full and contains no end of a record, it must grow. Each time, it
    /// grows to twice the number of bytes that have been read, but to at most `bytes_max`.
    pub(crate) fn room(&mut self, read_bytes: usize, bytes_max: usize) -> &mut [u8] {
        let end = if self.filled < read_bytes { read_bytes } else { bytes_max.min(self.filled * 2) };
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        &mut self.buffer[self.filled..end]
    }

    /// Removes the NUL bytes at the beginning of the block.
    pub(crate) fn strip_hole(&mut self) {
        if self.bytes().first() != Some(&0) {
            return;
        }
        let bytes = count_leading_nul(self.bytes());
        self.buffer.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
        self.hole_bytes += bytes as u64;
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let filled = self.filled + bytes.len();
        if self.buffer.len() < filled {
            self.buffer.resize(filled, 0);
        }
        self.buffer[self.filled..filled].copy_from_slice(bytes);
        self.filled = filled;
    }
}
