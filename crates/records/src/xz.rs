//! Decodes one stream of an xz file. Zero bytes may follow each stream. This module does not depend on the meaning of
//! the bytes.

use crate::archive::Part;
use crate::byte_kind::ByteKind;
use crate::counted_input::{CountedInput, TrailingBytes, skip_zeros};
use crate::refused::Refused;
use lzma_rust2::XzReader as XzDecoder;
use std::io::{Error, ErrorKind, Read, Result};

const MAGIC: [u8; 6] = *b"\xFD7zXZ\0";

/// Maximum size of the dictionary. A block that requires a larger dictionary is rejected. `xz -9` uses 64 MiB.
const DICTIONARY_BYTES_MAX: u32 = 128 << 20;
/// Memory that the decoder needs in addition to the dictionary.
const DECODER_BYTES: u32 = 1 << 20;

/// Returns whether an input with this beginning is xz.
pub(crate) fn is_stream(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// Returns whether an input that begins with these bytes may turn out to be xz.
pub(crate) fn may_become_stream(head: &[u8]) -> bool {
    MAGIC.starts_with(head)
}

/// A stream of an xz file.
pub(crate) struct XzStream<R: Read>(XzDecoder<CountedInput<R>>);

impl<R: Read> Part for XzStream<R> {
    type Input = R;

    fn open(input: CountedInput<R>) -> Self {
        Self(XzDecoder::new_mem_limit(input, false, (DICTIONARY_BYTES_MAX + DECODER_BYTES) >> 10))
    }

    fn input(&self) -> &CountedInput<R> {
        self.0.inner()
    }

    fn input_mut(&mut self) -> &mut CountedInput<R> {
        self.0.inner_mut()
    }

    fn decode(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.0.read(buffer).map_err(refused)
    }

    fn has_next(input: &mut CountedInput<R>) -> Result<bool> {
        skip_zeros(input)?;
        let head = input.peek(MAGIC.len())?;
        if head.is_empty() {
            return Ok(false);
        }
        if !is_stream(head) && !may_become_stream(head) {
            return Err(Error::other(TrailingBytes));
        }
        Ok(true)
    }
}

/// Distinguishes valid data that this program cannot read from damaged data.
fn refused(error: Error) -> Error {
    match error.kind() {
        ErrorKind::OutOfMemory => Refused::error(ByteKind::XzDictionary),
        ErrorKind::Unsupported => Refused::error(ByteKind::XzUnsupported),
        _ => error,
    }
}
