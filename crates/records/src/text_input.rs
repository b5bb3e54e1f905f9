//! Checks that an input begins with text before its first byte is passed on.

use crate::compression::Compression;
use crate::decompress::Decompressed;
use crate::recognise::{HEAD_BYTES, kind_of_bytes};
use crate::refused::Refused;
use std::io::{Error, ErrorKind, Read, Result};

/// A decompressed input that is rejected if its beginning is not text.
///
/// The input is checked before its first byte is returned, so no byte of a rejected input reaches the caller. For this
/// check, the first bytes must be in memory: the input waits until it has read the first record, or
/// [`HEAD_BYTES`](crate::HEAD_BYTES) bytes if the record is longer. After the check, records are returned without
/// delay.
#[derive(Debug)]
pub struct TextInput<R: Read> {
    input: Decompressed<R>,
    record_end: u8,
    /// Bytes that were examined.
    head: Vec<u8>,
    /// Number of examined bytes that were passed on.
    passed: usize,
    is_checked: bool,
    /// Error that occurred after the examined bytes.
    failure: Option<Error>,
}

impl<R: Read> TextInput<R> {
    /// Creates the input without reading from it. `record_end` is the byte that ends a record: a newline or NUL.
    pub fn new(input: Decompressed<R>, record_end: u8) -> Self {
        Self { input, record_end, head: Vec::new(), passed: 0, is_checked: false, failure: None }
    }

    /// Returns the underlying input, to give access to its other methods.
    pub fn get_ref(&self) -> &Decompressed<R> {
        &self.input
    }

    /// Reads the beginning of the input and checks that it is text. Only the first call has an effect.
    ///
    /// An error of the underlying input is not returned here. [`Read::read`] first returns the bytes that precede the
    /// error, and then the error.
    ///
    /// # Errors
    /// Returns an error that contains [`Refused`] if the input is not text.
    pub fn check(&mut self) -> Result<()> {
        if self.is_checked {
            return Ok(());
        }
        self.is_checked = true;
        self.read_head();
        if let Some(failure) = self.failure.take_if(|failure| Refused::of(failure).is_some()) {
            return Err(failure);
        }
        let kind = kind_of_bytes(&self.head);
        let has_lines = self.record_end == b'\n';
        let Some(kind) = kind.filter(|kind| has_lines || !kind.is_guessed_by_line_ends()) else { return Ok(()) };
        self.head.clear();
        Err(Refused::within(kind, self.input.compression()))
    }

    fn read_head(&mut self) {
        self.head.resize(HEAD_BYTES, 0);
        let mut filled = 0;
        while filled < HEAD_BYTES {
            let before = filled;
            match self.input.read(&mut self.head[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes.min(HEAD_BYTES - filled),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            }
            if memchr::memchr(self.record_end, &self.head[before..filled]).is_some() {
                break;
            }
        }
        self.head.truncate(filled);
    }

    /// Returns the compression that the first bytes show.
    pub fn compression(&self) -> Compression {
        self.input.compression()
    }
}

impl<R: Read> Read for TextInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.check()?;
        if self.passed == self.head.len() {
            return match self.failure.take() {
                Some(failure) => Err(failure),
                None => self.input.read(buffer),
            };
        }
        let bytes = (&self.head[self.passed..]).read(buffer)?;
        self.passed += bytes;
        if self.passed == self.head.len() {
            (self.head, self.passed) = (Vec::new(), 0);
        }
        Ok(bytes)
    }
}
