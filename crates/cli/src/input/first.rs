//! The first input file, which is opened early because its first bytes show the format of the records. The bytes that
//! were examined are kept and read again as part of the input, so none of them are lost. If the input is a stream,
//! examining it waits only for the first record.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use firstseen_records::{Decompressed, TextInput};

use super::{beginning, is_stdin, stdin_file_bytes};

/// Number of bytes that are examined at the beginning.
const EXAMINED_BYTES: usize = 64 << 10;

/// An open input. If its first bytes were already examined, reading returns them again.
pub(crate) struct Opened {
    input: TextInput<Box<dyn Read + Send>>,
    /// First bytes of the input, which were read in order to examine them, and the number of them that the reader has
    /// received since.
    first: Vec<u8>,
    given: usize,
    /// Error that occurred while the first bytes were read. The reader of records receives this error later.
    failure: Option<io::Error>,
    is_at_end: bool,
}

impl Opened {
    /// Opens a file. `-` means standard input. `record_end` is the byte that ends a record.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, or if its first bytes cannot be read.
    pub(crate) fn new(path: &Path, record_end: u8) -> io::Result<Self> {
        let input: Box<dyn Read + Send> =
            if is_stdin(path) { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
        let input = TextInput::new(Decompressed::new(input)?, record_end);
        Ok(Self { input, first: Vec::new(), given: 0, failure: None, is_at_end: false })
    }

    /// Reads the first bytes. For a file, this reads as many bytes as are examined. For a stream, it takes the bytes of
    /// the first read.
    ///
    /// # Errors
    /// Returns an error if the bytes are not text.
    pub(crate) fn look(&mut self, path: &Path) -> anyhow::Result<()> {
        let is_file = if is_stdin(path) { stdin_file_bytes().is_some() } else { path.is_file() };
        self.first.resize(EXAMINED_BYTES, 0);
        let mut filled = 0;
        while filled < EXAMINED_BYTES {
            match self.input.read(&mut self.first[filled..]) {
                Ok(0) => {
                    self.is_at_end = true;
                    break;
                }
                Ok(bytes) => filled += bytes.min(EXAMINED_BYTES - filled),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            }
            if !is_file {
                break;
            }
        }
        self.first.truncate(filled);
        self.failure.as_ref().map_or(Ok(()), |failure| beginning::refused(failure, path))
    }

    /// Returns the first bytes. If the input ends after them, their last line is completed with a line end.
    pub(crate) fn first_bytes(&self) -> Vec<u8> {
        let mut bytes = self.first.clone();
        if self.is_at_end && bytes.last().is_some_and(|last| *last != b'\n') {
            bytes.push(b'\n');
        }
        bytes
    }

    /// Returns the number of bytes of the input that were used so far, counted as they are stored (possibly
    /// compressed).
    pub(crate) fn input_bytes_used(&self) -> u64 {
        self.input.get_ref().input_bytes_used()
    }
}

impl Read for Opened {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let first = &self.first[self.given..];
        if !first.is_empty() {
            let bytes = first.len().min(buffer.len());
            buffer[..bytes].copy_from_slice(&first[..bytes]);
            self.given += bytes;
            return Ok(bytes);
        }
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        if self.is_at_end { Ok(0) } else { self.input.read(buffer) }
    }
}
