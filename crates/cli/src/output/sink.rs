//! Writes bytes to a file, a pipe or a device in pieces, such as one record or several records. If the disk is full,
//! the sink removes a piece that was written only in part, so a file always ends with a complete piece.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::mem;

const BUFFER_BYTES: usize = 1 << 18;

/// Writes pieces of bytes.
pub(crate) struct Sink {
    to: File,
    /// The regular file that the sink writes to. `None` means that it writes to a pipe, a terminal or a device.
    file: Option<File>,
    /// Buffer that collects complete pieces. When it is full, the sink writes it to the file. If this write fails, some
    /// of the bytes may already be in the file. The sink then empties the buffer without writing it again, because a
    /// second write would repeat those bytes.
    waiting: Vec<u8>,
}

impl Sink {
    /// Creates a sink that writes to `file`, which need not be a regular file.
    ///
    /// # Errors
    /// Returns the errors of the operating system.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let regular = if file.metadata()?.is_file() { Some(file.try_clone()?) } else { None };
        Ok(Self { to: file, file: regular, waiting: Vec::with_capacity(BUFFER_BYTES) })
    }

    /// Returns the file if it is a regular file.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Takes a piece, which is written completely or not at all.
    ///
    /// # Errors
    /// Returns an error if the waiting pieces or this piece cannot be written.
    pub(crate) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.waiting.len() + piece.len() > BUFFER_BYTES {
            self.flush()?;
        }
        if piece.len() >= BUFFER_BYTES {
            return self.write_through(piece);
        }
        self.waiting.extend_from_slice(piece);
        Ok(())
    }

    /// Passes everything taken so far to the operating system.
    ///
    /// # Errors
    /// Returns an error if the bytes cannot be written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut pieces = mem::take(&mut self.waiting);
        let written = self.write_through(&pieces);
        pieces.clear();
        self.waiting = pieces;
        written
    }

    fn write_through(&mut self, pieces: &[u8]) -> io::Result<()> {
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

    /// Removes a piece that was written only in part from the end of the file. Another process may write to the same
    /// open file, so the write position is moved back to the new end of the file too.
    fn cut_back(&mut self, bytes: Option<u64>) {
        let has_grown = bytes < self.file_bytes();
        if let (Some(bytes), Some(file), true) = (bytes, &mut self.file, has_grown) {
            // Errors are ignored here, because the caller already returns the error that prevented the write.
            let _ = file.set_len(bytes).and_then(|()| file.seek(SeekFrom::End(0)));
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // If the run ends with an error of another output, this output still writes the records that were answered.
        let _ = self.flush();
    }
}
