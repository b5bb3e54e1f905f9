//! Reads the streams of an xz file one after the other, and skips zeros between and behind them. It does not know what
//! the bytes mean.

use crate::byte_kind::ByteKind;
use crate::counted_input::{CountedInput, skip_zeros};
use crate::refused::Refused;
use lzma_rust2::XzReader as XzDecoder;
use std::io::{Error, ErrorKind, Read, Result};

const MAGIC: [u8; 6] = *b"\xFD7zXZ\0";

/// A block that asks for a larger dictionary is refused: `xz -9` uses 64 MiB.
const DICTIONARY_BYTES_MAX: u32 = 128 << 20;
/// What the decoder takes besides the dictionary.
const DECODER_BYTES: u32 = 1 << 20;

/// Returns whether an input with this beginning is xz.
pub(crate) fn is_stream(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// Returns whether further bytes could make it xz.
pub(crate) fn may_become_stream(head: &[u8]) -> bool {
    MAGIC.starts_with(head)
}

pub(crate) struct XzReader<R: Read> {
    /// The current stream, or the last one.
    stream: XzDecoder<CountedInput<R>>,
    is_at_end: bool,
}

impl<R: Read> XzReader<R> {
    pub(crate) fn new(input: CountedInput<R>) -> Self {
        Self { stream: open(input), is_at_end: false }
    }

    pub(crate) fn input(&self) -> &CountedInput<R> {
        self.stream.inner()
    }

    fn next_bytes(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let bytes = self.stream.read(buffer).map_err(refused)?;
            // A block that has ended had the right checksum, and a stream the right index.
            if bytes > 0 || !self.open_stream()? {
                return Ok(bytes);
            }
        }
    }

    /// Opens the next stream; `false` at the end of the input.
    fn open_stream(&mut self) -> Result<bool> {
        let input = self.stream.inner_mut();
        skip_zeros(input)?;
        let head = input.peek(MAGIC.len())?;
        if head.is_empty() {
            return Ok(false);
        }
        if !is_stream(head) && !may_become_stream(head) {
            return Err(Error::other(crate::counted_input::TrailingBytes));
        }
        self.stream = open(input.take_over());
        Ok(true)
    }
}

fn open<R: Read>(input: CountedInput<R>) -> XzDecoder<CountedInput<R>> {
    XzDecoder::new_mem_limit(input, false, (DICTIONARY_BYTES_MAX + DECODER_BYTES) >> 10)
}

/// Tells sound data that this program cannot read from damaged data.
fn refused(error: Error) -> Error {
    match error.kind() {
        ErrorKind::OutOfMemory => Refused::error(ByteKind::XzDictionary),
        ErrorKind::Unsupported => Refused::error(ByteKind::XzUnsupported),
        _ => error,
    }
}

impl<R: Read> Read for XzReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.is_at_end || buffer.is_empty() {
            return Ok(0);
        }
        let read = self.next_bytes(buffer);
        self.is_at_end = !matches!(read, Ok(1..));
        read
    }
}
