//! A part of a file that holds whole records, and its bounds. Must not know: fields, keys, where its bytes come from.

use crate::RecordFormat;
use crate::cut::count_leading_nul;

/// The bounds of a [`BlockReader`](crate::BlockReader).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOptions {
    /// Bytes that a block should have. Blocks of short records are smaller, down to 64 KiB, as they hold about 32,768
    /// records at most; blocks with a long record are larger.
    pub block_bytes_target: usize,
    /// A longer record is rejected; at most 1 GiB. Where newlines may be quoted, four times as many bytes are searched
    /// for its end.
    pub record_bytes_max: usize,
    /// Whether a newline between quotes belongs to the record.
    pub quoted_newlines: bool,
    /// The byte between two fields, by which such quotes are known.
    pub separator: u8,
    /// The byte that ends a record: a newline, or NUL for records that may hold newlines. Quotes mean nothing where it
    /// is no newline.
    pub record_end: u8,
}

impl BlockOptions {
    /// Blocks of 1 MiB, records up to 16 MiB that end with a newline.
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

/// Why a block is one rejected range instead of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockDefect {
    /// A record that is too long: all of it, where its end was found, or its beginning; the next blocks are
    /// [`RestOfLong`](Self::RestOfLong) then.
    TooLong {
        /// Bytes of the record in this block.
        record_bytes: u64,
        /// The limit.
        record_bytes_max: usize,
        /// Lines of the record in this block.
        lines: u64,
        /// Whether this block has all of it.
        is_whole: bool,
    },
    /// A further piece of the record that is too long: no record of its own.
    RestOfLong,
    /// The first line of a quote that does not close: the record would not end before four times the limit or the end
    /// of the input, or only where another quote seems to open. The lines after it follow in blocks in which a newline
    /// always ends the record, as far as the reader had searched.
    UnclosedQuote,
    /// The bytes of a record that the input gave before it failed; the next call returns the error.
    InputFailed,
}

/// Whole records of one file, with their place in it. Reuse it: its memory is kept. It is always filled by a
/// [`BlockReader`](crate::BlockReader).
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
    /// The records, each with its line end (the last record of a file may have none).
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    /// The 1-based line of the file on which the block begins.
    pub fn first_line(&self) -> u64 {
        self.first_line
    }

    /// The 1-based number of the block's first record in the file; a header counts as a record.
    pub fn first_record(&self) -> u64 {
        self.first_record
    }

    /// Whether this is the first block of its file (where a header would be).
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// Whether a newline between quotes belongs to the record.
    pub fn quoted_newlines(&self) -> bool {
        self.quoted_newlines
    }

    /// The byte that ends a record.
    pub fn record_end(&self) -> u8 {
        self.record_end
    }

    /// NUL bytes in front of the block that belong to no record and are not among [`Self::bytes`]: a hole that
    /// `copytruncate` left. At the end of an input a block may have a hole and no record.
    pub fn hole_bytes(&self) -> u64 {
        self.hole_bytes
    }

    /// Set if the block is one rejected range.
    pub fn defect(&self) -> Option<BlockDefect> {
        self.defect
    }

    /// The memory for the next read: up to `read_bytes`, or twice the bytes that there are of a long record.
    pub(crate) fn room(&mut self, read_bytes: usize, bytes_max: usize) -> &mut [u8] {
        let end = if self.filled < read_bytes { read_bytes } else { bytes_max.min(self.filled * 2) };
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        &mut self.buffer[self.filled..end]
    }

    /// Removes the NUL bytes at the beginning.
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
