//! Decodes one member of a bzip2 file. Zero bytes may follow the last member. This module does not depend on the
//! meaning of the bytes.

use crate::archive::Part;
use crate::counted_input::{CountedInput, has_member};
use bzip2::bufread::BzDecoder;
use std::io::{Read, Result};

const NAME: [u8; 3] = *b"BZh";
/// Possible bytes after the name and the digit of the block size: the magic of a block, or the magic of the end of an
/// empty member.
const BLOCK: [u8; 6] = *b"1AY&SY";
const END: [u8; 6] = *b"\x17\x72\x45\x38\x50\x90";
const HEAD_BYTES: usize = NAME.len() + 1 + BLOCK.len();

/// Returns whether an input with this beginning is bzip2. The name `BZh` alone is not enough, because a text may begin
/// with it.
pub(crate) fn is_member(head: &[u8]) -> bool {
    head.len() >= HEAD_BYTES && may_become_member(&head[..HEAD_BYTES])
}

/// Returns whether an input that begins with these bytes may turn out to be bzip2.
pub(crate) fn may_become_member(head: &[u8]) -> bool {
    let Some(rest) = head.strip_prefix(&NAME) else { return NAME.starts_with(head) };
    match rest {
        [] => true,
        [size, rest @ ..] => matches!(size, b'1'..=b'9') && (BLOCK.starts_with(rest) || END.starts_with(rest)),
    }
}

/// A member of a bzip2 file.
pub(crate) struct Bzip2Member<R: Read>(BzDecoder<CountedInput<R>>);

impl<R: Read> Part for Bzip2Member<R> {
    type Input = R;

    fn open(input: CountedInput<R>) -> Self {
        Self(BzDecoder::new(input))
    }

    fn input(&self) -> &CountedInput<R> {
        self.0.get_ref()
    }

    fn input_mut(&mut self) -> &mut CountedInput<R> {
        self.0.get_mut()
    }

    fn decode(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.0.read(buffer)
    }

    fn has_next(input: &mut CountedInput<R>) -> Result<bool> {
        has_member(input, HEAD_BYTES, |head| is_member(head) || may_become_member(head))
    }
}
