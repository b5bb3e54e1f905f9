//! Reads the members of a bzip2 file one after the other, and skips zeros behind the last one. It does not know what
//! the bytes mean.

use crate::counted_input::{CountedInput, skip_padding};
use bzip2::bufread::BzDecoder;
use std::io::{Read, Result};

const NAME: [u8; 3] = *b"BZh";
/// What follows the name and the digit of the block size: a block, or the end of an empty member.
const BLOCK: [u8; 6] = *b"1AY&SY";
const END: [u8; 6] = *b"\x17\x72\x45\x38\x50\x90";
const HEAD_BYTES: usize = NAME.len() + 1 + BLOCK.len();

/// Returns whether an input with this beginning is bzip2. The name alone is text.
pub(crate) fn is_member(head: &[u8]) -> bool {
    head.len() >= HEAD_BYTES && may_become_member(&head[..HEAD_BYTES])
}

/// Returns whether further bytes could make it bzip2.
pub(crate) fn may_become_member(head: &[u8]) -> bool {
    let Some(rest) = head.strip_prefix(&NAME) else { return NAME.starts_with(head) };
    match rest {
        [] => true,
        [size, rest @ ..] => matches!(size, b'1'..=b'9') && (BLOCK.starts_with(rest) || END.starts_with(rest)),
    }
}

pub(crate) struct Bzip2Reader<R: Read> {
    /// The current member, or the last one.
    member: BzDecoder<CountedInput<R>>,
    is_at_end: bool,
}

impl<R: Read> Bzip2Reader<R> {
    pub(crate) fn new(input: CountedInput<R>) -> Self {
        Self { member: BzDecoder::new(input), is_at_end: false }
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
        let head = input.peek(HEAD_BYTES)?;
        if !head.is_empty() && (is_member(head) || may_become_member(head)) {
            self.member = BzDecoder::new(input.take_over());
            return Ok(true);
        }
        skip_padding(input)?;
        Ok(false)
    }
}

impl<R: Read> Read for Bzip2Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.is_at_end || buffer.is_empty() {
            return Ok(0);
        }
        let read = self.next_bytes(buffer);
        self.is_at_end = !matches!(read, Ok(1..));
        read
    }
}
