//! Cuts a stream of bytes into blocks of complete records. The memory is bounded, because a record that does not end
//! within a limit is rejected. A block is returned as soon as a read completes a record, so a record of a slow stream
//! does not wait for later records.

use crate::block::{Block, BlockDefect, BlockOptions};
use crate::cut::{Cut, count_ends, count_newlines, has_sound_quotes};
use std::io::{ErrorKind, Read};

const READ_BYTES_MIN: usize = 64 << 10;
const RECORDS_PER_BLOCK: u64 = 32 << 10;
const RECORD_BYTES_LIMIT: usize = 1 << 30;
/// Factor that limits the search for the end of a record that is too long. For example, if records may have 16 MiB, the
/// reader searches up to 64 MiB. The search is needed only if quoted fields may contain newlines, because a missing
/// closing quote then makes a short record look too long.
///
/// If the reader finds the end, it rejects the whole record. In two cases, the reader assumes instead that a quote was
/// opened by mistake, and rejects only the line with this quote: if it does not find the end of the record, or if the
/// closing quote seems to be the opening quote of another field.
const QUOTE_WAIT_RECORDS: usize = 4;
/// Maximum length of this search in bytes, so that positions in a block fit into 32 bits.
const QUOTE_WAIT_BYTES_MAX: usize = 2 << 30;

/// Reads one input (a file or a pipe) to its end, block by block.
#[derive(Debug)]
pub struct BlockReader<R> {
    input: R,
    options: BlockOptions,
    /// Bytes that the reader has read from the input. The bytes before `pending_start` have already been returned in a
    /// block and are no longer needed. The bytes from `pending_start` on have not been returned yet, and a record
    /// begins at `pending_start`.
    pending: Vec<u8>,
    pending_start: usize,
    /// Number of pending bytes that follow a quote which is not closed. In these bytes a newline always ends the
    /// record.
    distrusted: usize,
    /// Whether the next bytes are the rest of a line that is too long.
    is_in_long_line: bool,
    read_bytes: usize,
    next_line: u64,
    next_record: u64,
    is_at_end: bool,
    failure: Option<std::io::Error>,
}

impl<R: Read> BlockReader<R> {
    /// Creates a reader that starts at the first line of `input`. The reader returns a block after the first read that
    /// completes a record, so a read that returns few bytes leads to a small block. For this reason, `input` should not
    /// be wrapped in a [`std::io::BufReader`], whose reads may return only the rest of its buffer.
    pub fn new(input: R, options: BlockOptions) -> Self {
        let record_bytes_max = options.record_bytes_max.clamp(1, RECORD_BYTES_LIMIT);
        let block_bytes_target = options.block_bytes_target.clamp(1, record_bytes_max);
        let quoted_newlines = options.quoted_newlines && options.record_end == b'\n';
        Self {
            input,
            options: BlockOptions { record_bytes_max, block_bytes_target, quoted_newlines, ..options },
            pending: Vec::new(),
            pending_start: 0,
            distrusted: 0,
            is_in_long_line: false,
            read_bytes: block_bytes_target.min(READ_BYTES_MIN),
            next_line: 1,
            next_record: 1,
            is_at_end: false,
            failure: None,
        }
    }

    /// Returns the input, to give access to its other methods.
    pub fn get_ref(&self) -> &R {
        &self.input
    }

    /// Fills `block` with the next complete records. Returns `false` at the end of the input.
    ///
    /// The call returns after the first read that completes a record, so a pause of the input does not delay complete
    /// records.
    ///
    /// # Errors
    /// Returns the error of reading the input, after all bytes before the error were returned. The reader is then at
    /// its end.
    pub fn read_block(&mut self, block: &mut Block) -> std::io::Result<bool> {
        self.open(block);
        if self.is_in_long_line {
            return self.read_long_line(block);
        }
        if self.distrusted > 0 && self.take_ignoring_quotes(block) {
            return Ok(true);
        }
        block.append(&self.pending[self.pending_start..]);
        self.keep(&[]);
        let quotes = self.options.quoted_newlines.then_some(self.options.separator);
        let mut cut = Cut::new(quotes, self.options.record_end);
        self.advance(&mut cut, block);
        let bytes_max = if self.options.quoted_newlines {
            self.options.record_bytes_max.saturating_mul(QUOTE_WAIT_RECORDS).min(QUOTE_WAIT_BYTES_MAX)
        } else {
            self.options.record_bytes_max
        };
        while cut.end == 0 {
            if block.filled > bytes_max {
                self.reject_long(block);
                return Ok(true);
            }
            match self.read_once(block, bytes_max + 1) {
                Ok(0) => return Ok(self.finish(block, &cut)),
                Ok(_) => self.advance(&mut cut, block),
                Err(error) if block.filled == 0 && block.hole_bytes == 0 => return Err(error),
                Err(error) => {
                    self.failure = Some(error);
                    self.end_after_error(block, &cut);
                    return Ok(true);
                }
            }
        }
        if cut.first_end > self.options.record_bytes_max + 1 {
            self.reject_ended(block, cut.first_end);
            return Ok(true);
        }
        self.keep(&block.buffer[cut.end..block.filled]);
        block.filled = cut.end;
        self.close(block, cut.lines, cut.records);
        Ok(true)
    }

    /// Scans the bytes that were added to the block since the last call. NUL bytes at the beginning of the block belong
    /// to no record, so the function removes them before the first scan. There can be gigabytes of such bytes, but they
    /// do not fill the memory, because the function removes them after each read.
    fn advance(&self, cut: &mut Cut, block: &mut Block) {
        if cut.is_fresh() && self.options.record_end != 0 {
            block.strip_hole();
        }
        cut.advance(block.bytes());
    }

    fn open(&mut self, block: &mut Block) {
        let bytes_kept = self.options.block_bytes_target.max(self.pending.len());
        if block.buffer.len() > 2 * bytes_kept {
            block.buffer.truncate(bytes_kept);
            block.buffer.shrink_to_fit();
        }
        block.filled = 0;
        block.first_line = self.next_line;
        block.first_record = self.next_record;
        block.is_first = self.next_record == 1;
        block.quoted_newlines = self.options.quoted_newlines;
        block.record_end = self.options.record_end;
        block.hole_bytes = 0;
        block.defect = None;
    }

    fn close(&mut self, block: &Block, lines: u64, records: u64) {
        self.next_line += lines;
        self.next_record += records;
        let bytes_per_record = block.filled as u64 / records.max(1);
        let target = self.options.block_bytes_target;
        let read_bytes = usize::try_from(bytes_per_record * RECORDS_PER_BLOCK).unwrap_or(target);
        self.read_bytes = read_bytes.clamp(target.min(READ_BYTES_MIN), target);
    }

    /// Keeps `bytes` as the pending bytes.
    fn keep(&mut self, bytes: &[u8]) {
        self.pending.clear();
        self.pending.shrink_to(self.options.block_bytes_target);
        self.pending.extend_from_slice(bytes);
        self.pending_start = 0;
    }

    /// Reads once from the input, appends the bytes to the block, and returns their number. At the end of the input,
    /// the function returns 0, also in all later calls.
    ///
    /// The reader may have kept the error of an earlier read in order to return the bytes before the error first. In
    /// that case, the next call of this function returns that error, and the calls after it return 0.
    fn read_once(&mut self, block: &mut Block, bytes_max: usize) -> std::io::Result<usize> {
        if self.is_at_end {
            return self.failure.take().map_or(Ok(0), Err);
        }
        let room = block.room(self.read_bytes, bytes_max);
        let read = loop {
            match self.input.read(room) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match read {
            Ok(bytes) => {
                let bytes = bytes.min(room.len());
                self.is_at_end = bytes == 0;
                block.filled += bytes;
                Ok(bytes)
            }
            Err(error) => {
                self.is_at_end = true;
                Err(error)
            }
        }
    }

    /// Completes the block at the end of the input. The block contains a record without a newline, or no record.
    fn finish(&mut self, block: &mut Block, cut: &Cut) -> bool {
        if block.filled == 0 {
            return block.hole_bytes > 0;
        }
        if cut.is_inside_quotes() {
            self.reject_unclosed(block);
        } else if block.filled > self.options.record_bytes_max {
            self.reject_ended(block, block.filled);
        } else {
            let lines = count_ends(block.bytes(), self.options.record_end);
            self.close(block, lines, 1);
        }
        true
    }

    /// Completes the block after the input has failed in the middle of a record. Normally the incomplete record is
    /// rejected as a whole. However, if it spans several lines inside quotes, its opening quote may be a mistake. The
    /// function then rejects only the first line, and the other lines are parsed as separate records.
    fn end_after_error(&mut self, block: &mut Block, cut: &Cut) {
        if cut.is_inside_quotes() && memchr::memchr(b'\n', block.bytes()).is_some() {
            return self.reject_unclosed(block);
        }
        // If only a hole was read, no record was cut off.
        block.defect = (block.filled > 0).then_some(BlockDefect::InputFailed);
        let lines = count_ends(block.bytes(), self.options.record_end);
        self.close(block, lines, 1);
    }

    /// Rejects a record that is too long and ends at `end`.
    fn reject_ended(&mut self, block: &mut Block, end: usize) {
        let record = &block.bytes()[..end];
        if self.options.quoted_newlines && !has_sound_quotes(record, self.options.separator) {
            return self.reject_unclosed(block);
        }
        let newlines = count_ends(record, self.options.record_end);
        let lines = newlines + u64::from(record.last() != Some(&self.options.record_end));
        self.keep(&block.buffer[end..block.filled]);
        block.filled = end;
        let record_bytes_max = self.options.record_bytes_max;
        block.defect = Some(BlockDefect::TooLong { record_bytes: end as u64, record_bytes_max, lines, is_whole: true });
        self.close(block, newlines, 1);
    }

    /// Rejects a record whose end was not found within the search limit. If the record has several lines, a quote is
    /// probably not closed, so the function rejects only the first line, which contains the opening quote. If the
    /// record is a single line, the function rejects the whole line.
    fn reject_long(&mut self, block: &mut Block) {
        if self.options.quoted_newlines && memchr::memchr(b'\n', block.bytes()).is_some() {
            return self.reject_unclosed(block);
        }
        let record_bytes = block.filled as u64;
        let record_bytes_max = self.options.record_bytes_max;
        block.defect = Some(BlockDefect::TooLong { record_bytes, record_bytes_max, lines: 1, is_whole: false });
        self.is_in_long_line = true;
        self.close(block, 0, 1);
    }

    /// Fills the block with the next piece of a line that is too long. Returns `false` if the input ends with this
    /// piece.
    fn read_long_line(&mut self, block: &mut Block) -> std::io::Result<bool> {
        let read = self.read_once(block, self.options.block_bytes_target)?;
        let end = memchr::memchr(self.options.record_end, block.bytes());
        if let Some(end) = end {
            self.keep(&block.buffer[end + 1..block.filled]);
            block.filled = end + 1;
        }
        self.is_in_long_line = end.is_none() && read > 0;
        block.defect = Some(BlockDefect::RestOfLong);
        self.close(block, u64::from(end.is_some()), 0);
        Ok(read > 0)
    }

    /// Rejects only the first line, because its quote is probably the mistake, and not everything after it.
    fn reject_unclosed(&mut self, block: &mut Block) {
        let line_bytes = memchr::memchr(b'\n', block.bytes()).map_or(block.filled, |newline| newline + 1);
        self.keep(&block.buffer[line_bytes..block.filled]);
        self.distrusted = self.pending.len().min(self.options.record_bytes_max);
        block.filled = line_bytes;
        block.defect = Some(BlockDefect::UnclosedQuote);
        self.close(block, 1, 1);
    }

    /// Fills the block with lines that follow an unclosed quote, and returns true. Because that quote was probably a
    /// mistake, every newline ends a record in these lines, even if it is between two further quotes.
    ///
    /// This rule applies only to a limited range of bytes after the unclosed quote. If the range contains no further
    /// newline, the function ends the range and returns false, and quotes are interpreted as usual again.
    fn take_ignoring_quotes(&mut self, block: &mut Block) -> bool {
        let range = &self.pending[self.pending_start..][..self.distrusted];
        let window = &range[..range.len().min(self.read_bytes)];
        let newline = memchr::memrchr(b'\n', window).or_else(|| memchr::memchr(b'\n', range));
        let Some(newline) = newline else {
            self.distrusted = 0;
            return false;
        };
        block.append(&range[..=newline]);
        block.quoted_newlines = false;
        self.pending_start += newline + 1;
        self.distrusted -= newline + 1;
        let lines = count_newlines(block.bytes());
        self.close(block, lines, lines);
        true
    }
}
