//! Writes bytes to a file, a pipe or a device.
//!
//! Promises: pieces are written in their order; a file that has no more room ends with a whole piece. Must not know:
//! what pieces hold.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::mem;

const BUFFER_BYTES: usize = 1 << 18;

/// Writes pieces.
pub(crate) struct Sink {
    to: File,
    /// The regular file that it writes to; none for a pipe, a terminal or a device.
    file: Option<File>,
    /// Whole pieces that wait for more. Bytes that could not be written are never tried again: some of them may have
    /// been written.
    waiting: Vec<u8>,
}

impl Sink {
    /// A sink that writes to `file`, which need not be a regular one.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let regular = if file.metadata()?.is_file() { Some(file.try_clone()?) } else { None };
        Ok(Self { to: file, file: regular, waiting: Vec::with_capacity(BUFFER_BYTES) })
    }

    /// The file, where it is a regular one.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Takes a piece, which is written as a whole or not at all.
    ///
    /// # Errors
    /// Where the pieces that waited, or this one, cannot be written.
    pub(crate) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.waiting.len() + piece.len() > BUFFER_BYTES {
            self.flush()?;
        }
        if piece.len() >= BUFFER_BYTES {
            return self.hand_on(piece);
        }
        self.waiting.extend_from_slice(piece);
        Ok(())
    }

    /// Hands everything taken so far to the system.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut pieces = mem::take(&mut self.waiting);
        let written = self.hand_on(&pieces);
        pieces.clear();
        self.waiting = pieces;
        written
    }

    fn hand_on(&mut self, pieces: &[u8]) -> io::Result<()> {
        if pieces.is_empty() {
            return Ok(());
        }
        let before_bytes = self.file_bytes();
        let written = self.to.write_all(pieces).and_then(|()| self.to.flush());
        if written.is_err() {
            self.cut_back(before_bytes);
        }
        written
    }

    fn file_bytes(&self) -> Option<u64> {
        Some(self.file.as_ref()?.metadata().ok()?.len())
    }

    /// Removes the first part of a piece from the file. Another process that writes to the same open file continues at
    /// its end.
    fn cut_back(&mut self, bytes: Option<u64>) {
        let has_grown = bytes < self.file_bytes();
        if let (Some(bytes), Some(file), true) = (bytes, &mut self.file, has_grown) {
            // The caller gets the error for which no more can be written.
            let _ = file.set_len(bytes).and_then(|()| file.seek(SeekFrom::End(0)));
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // A run that ends with an error of another output still writes the records that it has answered.
        let _ = self.flush();
    }
}
