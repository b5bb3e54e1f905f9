//! Reads the members of a gzip file one after the other, and skips zeros behind the last one. Must not know: what the
//! bytes mean.

use crate::counted_input::{CountedInput, skip_padding};
use flate2::bufread::GzDecoder;
use std::io::{Read, Result};

const MAGIC: [u8; 2] = [0x1F, 0x8B];

/// Returns whether an input with this beginning is gzip.
pub(crate) fn is_member(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// Returns whether further bytes could make it gzip.
pub(crate) fn may_become_member(head: &[u8]) -> bool {
    MAGIC.starts_with(head)
}

pub(crate) struct GzipReader<R: Read> {
    /// The current member, or the last one.
    member: GzDecoder<CountedInput<R>>,
    is_at_end: bool,
}

impl<R: Read> GzipReader<R> {
    pub(crate) fn new(input: CountedInput<R>) -> Self {
        Self { member: GzDecoder::new(input), is_at_end: false }
    }

    pub(crate) fn input(&self) -> &CountedInput<R> {
        self.member.get_ref()
    }

    fn next_bytes(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let bytes = self.member.read(buffer)?;
            // A member that has ended had the right checksum.
            if bytes > 0 || !self.open_member()? {
                return Ok(bytes);
            }
        }
    }

    /// Opens the next member; `false` at the end of the input.
    fn open_member(&mut self) -> Result<bool> {
        let input = self.member.get_mut();
        let head = input.peek(MAGIC.len())?;
        if !head.is_empty() && (is_member(head) || may_become_member(head)) {
            self.member = GzDecoder::new(input.take_over());
            return Ok(true);
        }
        skip_padding(input)?;
        Ok(false)
    }
}

impl<R: Read> Read for GzipReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.is_at_end || buffer.is_empty() {
            return Ok(0);
        }
        let read = self.next_bytes(buffer);
        self.is_at_end = !matches!(read, Ok(1..));
        read
    }
}
