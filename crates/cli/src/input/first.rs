//! The first input, opened ahead of the others, so that its first bytes can say how its records are written.
//!
//! Promises: no byte is lost, no byte of an input that is no text is handed on, and of a stream no more is waited for than
//! its first record. Must not know: formats.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use firstseen_records::{Decompressed, TextInput};

use super::{beginning, is_stdin, stdin_file_bytes};

/// So many bytes are looked at.
const LOOK_BYTES: usize = 64 << 10;

/// An open input. Its first bytes may have been read already; they are returned again.
pub(crate) struct Opened {
    input: TextInput<Box<dyn Read + Send>>,
    /// Bytes that were read, and those of them that were read again.
    first: Vec<u8>,
    given: usize,
    /// How the look at the first bytes ended, where it failed: the reader of records is to find out.
    failure: Option<io::Error>,
    is_at_end: bool,
}

impl Opened {
    /// Opens a file; `-` is standard input. `record_end` is the byte that ends a record.
    ///
    /// # Errors
    /// Where it cannot be opened, or its first bytes cannot be read.
    pub(crate) fn new(path: &Path, record_end: u8) -> io::Result<Self> {
        let input: Box<dyn Read + Send> =
            if is_stdin(path) { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
        let input = TextInput::new(Decompressed::new(input)?, record_end);
        Ok(Self { input, first: Vec::new(), given: 0, failure: None, is_at_end: false })
    }

    /// Reads the first bytes: of a file as many as are looked at, of a stream what comes first.
    ///
    /// # Errors
    /// Where they are no text.
    pub(crate) fn look(&mut self, path: &Path) -> anyhow::Result<()> {
        let is_file = if is_stdin(path) { stdin_file_bytes().is_some() } else { path.is_file() };
        self.first.resize(LOOK_BYTES, 0);
        let mut filled = 0;
        while filled < LOOK_BYTES {
            match self.input.read(&mut self.first[filled..]) {
                Ok(0) => {
                    self.is_at_end = true;
                    break;
                }
                Ok(bytes) => filled += bytes.min(LOOK_BYTES - filled),
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

    /// The first bytes. The last line is complete where nothing comes behind it.
    pub(crate) fn first_bytes(&self) -> Vec<u8> {
        let mut bytes = self.first.clone();
        if self.is_at_end && bytes.last().is_some_and(|last| *last != b'\n') {
            bytes.push(b'\n');
        }
        bytes
    }

    /// Bytes of the input that were used so far, as it is stored.
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
