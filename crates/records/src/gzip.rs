//! Decodes one member of a gzip file. Zero bytes may follow the last member. This module does not depend on the meaning
//! of the bytes.

use crate::archive::Part;
use crate::counted_input::{CountedInput, has_member};
use flate2::bufread::GzDecoder;
use std::io::{Read, Result};

const MAGIC: [u8; 2] = [0x1F, 0x8B];

/// Returns whether an input with this beginning is gzip.
pub(crate) fn is_member(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// Returns whether an input that begins with these bytes may turn out to be gzip.
pub(crate) fn may_become_member(head: &[u8]) -> bool {
    MAGIC.starts_with(head)
}

/// A member of a gzip file.
pub(crate) struct GzipMember<R: Read>(GzDecoder<CountedInput<R>>);

impl<R: Read> Part for GzipMember<R> {
    type Input = R;

    fn open(input: CountedInput<R>) -> Self {
        Self(GzDecoder::new(input))
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
        has_member(input, MAGIC.len(), |head| is_member(head) || may_become_member(head))
    }
}
