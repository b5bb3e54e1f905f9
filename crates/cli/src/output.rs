//! Where records go.
//!
//! Promises: records are written unchanged and whole, in the order of the input. Must not know: why a record goes where
//! it goes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::exit::UsageError;
use crate::input::is_stdin;

const BUFFER_BYTES: usize = 1 << 18;
/// Endings that promise what is not written here.
const COMPRESSED: [&str; 3] = ["gz", "zst", "zstd"];

/// A stream of records.
pub struct Output {
    sink: Option<BufWriter<Box<dyn Write>>>,
    /// The file with what was in it before, until [`Self::begin`].
    before: Option<File>,
    /// What the sink writes to, where that is a file and no pipe, terminal or device.
    file: Option<File>,
    path: Option<PathBuf>,
    /// The last record had no newline of its own, as the last one of a file may.
    unended: bool,
    /// Bytes of the current block that are to be written, while they stay neighbours.
    run: Range<usize>,
}

impl Output {
    /// Standard output.
    pub fn stdout() -> Self {
        let file = io::stdout().as_fd().try_clone_to_owned().ok().map(File::from).filter(is_file);
        Self { file, ..Self::over(Box::new(io::stdout()), None) }
    }

    /// A file, `-` being standard output; what was there is replaced when the output begins ([`Self::begin`]).
    ///
    /// # Errors
    /// Where the file cannot be created.
    pub fn file(path: &Path) -> anyhow::Result<Self> {
        if is_stdin(path) {
            return Ok(Self::stdout());
        }
        if let Some(ending) =
            COMPRESSED.into_iter().find(|ending| path.extension().is_some_and(|found| found == *ending))
        {
            return Err(UsageError(format!(
                "{} would hold plain text: leave out .{ending}, or compress standard output on its way there",
                path.display()
            ))
            .into());
        }
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = opened.with_context(|| format!("cannot write {}", path.display()))?;
        let (before, regular) = (file.try_clone().ok(), file.try_clone().ok().filter(is_file));
        Ok(Self { before, file: regular, ..Self::over(Box::new(file), Some(path.to_owned())) })
    }

    /// Empties the file: the input turned out to be what it was said to be, so that an older output may go.
    ///
    /// # Errors
    /// Where the file cannot be emptied.
    pub fn begin(&mut self) -> anyhow::Result<()> {
        let Some(file) = self.before.take() else { return Ok(()) };
        // Pipes and devices have nothing to empty.
        if is_file(&file) { file.set_len(0).with_context(|| self.name()) } else { Ok(()) }
    }

    /// A file if there is a path, else nowhere.
    ///
    /// # Errors
    /// Where the file cannot be created.
    pub fn optional(path: Option<&Path>) -> anyhow::Result<Self> {
        let nowhere = Self { sink: None, before: None, file: None, path: None, unended: false, run: 0..0 };
        path.map_or_else(|| Ok(nowhere), Self::file)
    }

    fn over(sink: Box<dyn Write>, path: Option<PathBuf>) -> Self {
        let sink = BufWriter::with_capacity(BUFFER_BYTES, sink);
        Self { sink: Some(sink), before: None, file: None, path, unended: false, run: 0..0 }
    }

    /// Whether records that come here are kept.
    pub fn is_kept(&self) -> bool {
        self.sink.is_some()
    }

    /// Writes the record at `range` of `block`. Neighbouring records are written together, so call
    /// [`Self::end_block`] before the next block.
    #[inline]
    pub fn record(&mut self, block: &[u8], range: Range<usize>) -> anyhow::Result<()> {
        if range.start == self.run.end && !self.run.is_empty() {
            self.run.end = range.end;
            return Ok(());
        }
        self.write_run(block)?;
        self.run = range;
        Ok(())
    }

    /// Writes what is left of `block`.
    pub fn end_block(&mut self, block: &[u8]) -> anyhow::Result<()> {
        self.write_run(block)?;
        self.run = 0..0;
        Ok(())
    }

    fn write_run(&mut self, block: &[u8]) -> anyhow::Result<()> {
        let bytes = &block[self.run.clone()];
        let Some(sink) = self.sink.as_mut().filter(|_| !bytes.is_empty()) else { return Ok(()) };
        let written = if self.unended { sink.write_all(b"\n") } else { Ok(()) }.and_then(|()| sink.write_all(bytes));
        self.unended = bytes.last() != Some(&b'\n');
        written.with_context(|| self.name())
    }

    /// Writes `bytes`, which are whole lines.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.sink.as_mut().map_or(Ok(()), |sink| sink.write_all(bytes)).with_context(|| self.name())
    }

    /// Hands everything written so far to the system.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        self.sink.as_mut().map_or(Ok(()), Write::flush).with_context(|| self.name())
    }

    /// The same, and where it goes to a file it outlives a power cut.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn sync(&mut self) -> anyhow::Result<()> {
        self.flush()?;
        self.file.as_ref().map_or(Ok(()), File::sync_data).with_context(|| self.name())
    }

    fn name(&self) -> String {
        let path = self.path.as_ref().map(|path| path.display().to_string());
        format!("cannot write {}", path.as_deref().unwrap_or("to standard output"))
    }
}

fn is_file(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file())
}
