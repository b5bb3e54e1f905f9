//! The input of a decompressor, which can be examined before it is read. This module does not depend on compression
//! formats.

use std::io::{BufRead, Error, ErrorKind, Read, Result};
use std::mem;

const INPUT_BYTES: usize = 64 << 10;

/// Error for bytes that follow an archive and do not belong to it. The archive itself was complete.
#[derive(Debug, thiserror::Error)]
#[error("trailing bytes after the archive")]
pub(crate) struct TrailingBytes;

/// Reads past the zero bytes that come next.
pub(crate) fn skip_zeros<R: Read>(input: &mut CountedInput<R>) -> Result<()> {
    loop {
        let padding = input.fill_buf()?;
        let bytes = padding.len();
        let zeros = padding.iter().take_while(|byte| **byte == 0).count();
        input.consume(zeros);
        if bytes == 0 || zeros < bytes {
            return Ok(());
        }
    }
}

/// Returns whether an archive has another part after the part that was just decompressed. The function `may_begin`
/// receives the next `head_bytes` bytes of the input and decides whether a part begins with them. It receives fewer
/// bytes if the input ends earlier.
///
/// If no further part begins, the rest of the input must consist of zero bytes, which some programs append as padding.
/// All other bytes cause an error.
pub(crate) fn has_member<R: Read>(
    input: &mut CountedInput<R>,
    head_bytes: usize,
    may_begin: impl Fn(&[u8]) -> bool,
) -> Result<bool> {
    let head = input.peek(head_bytes)?;
    if !head.is_empty() && may_begin(head) {
        return Ok(true);
    }
    skip_zeros(input)?;
    if input.fill_buf()?.is_empty() { Ok(false) } else { Err(Error::other(TrailingBytes)) }
}

/// Buffered input that counts the bytes that were used.
pub(crate) struct CountedInput<R> {
    /// The underlying input. `None` after [`Self::take_over`] was called.
    input: Option<R>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    used: u64,
    has_failed: bool,
}

impl<R: Read> CountedInput<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input: Some(input), buffer: vec![0; INPUT_BYTES], start: 0, end: 0, used: 0, has_failed: false }
    }

    /// Returns the number of bytes of the input that were used so far.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Returns whether reading the underlying input has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Moves the rest of the input into a new value. This value is then at its end.
    pub(crate) fn take_over(&mut self) -> Self {
        let nothing = Self { input: None, buffer: Vec::new(), start: 0, end: 0, used: 0, has_failed: false };
        mem::replace(self, nothing)
    }

    pub(crate) fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Returns the next `bytes` bytes of the input without consuming them. If the input ends earlier, the result is
    /// shorter. The function collects the bytes in the buffer of this input, so `bytes` must be far smaller than the
    /// buffer.
    pub(crate) fn peek(&mut self, bytes: usize) -> Result<&[u8]> {
        if self.buffer.len() - self.start < bytes {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < bytes && self.read_more()? > 0 {}
        let buffered = self.buffered();
        Ok(&buffered[..buffered.len().min(bytes)])
    }

    /// Reads more bytes after the buffered bytes. There is always room, because the buffer is far larger than any
    /// number of bytes that is peeked.
    pub(crate) fn read_more(&mut self) -> Result<usize> {
        loop {
            let Some(input) = &mut self.input else { return Ok(0) };
            match input.read(&mut self.buffer[self.end..]) {
                Ok(bytes) => {
                    let bytes = bytes.min(self.buffer.len() - self.end);
                    self.end += bytes;
                    return Ok(bytes);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.has_failed = true;
                    return Err(error);
                }
            }
        }
    }
}

impl<R: Read> Read for CountedInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if let Some(input) = &mut self.input
            && self.start == self.end
            && buffer.len() >= self.buffer.len()
        {
            let bytes = input.read(buffer).inspect_err(|_| self.has_failed = true)?;
            self.used += bytes as u64;
            return Ok(bytes);
        }
        let bytes = self.fill_buf()?.read(buffer)?;
        self.consume(bytes);
        Ok(bytes)
    }
}

impl<R: Read> BufRead for CountedInput<R> {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.read_more()?;
        }
        Ok(self.buffered())
    }

    fn consume(&mut self, bytes: usize) {
        let bytes = bytes.min(self.end - self.start);
        self.start += bytes;
        self.used += bytes as u64;
    }
}
