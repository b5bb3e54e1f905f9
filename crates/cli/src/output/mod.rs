//! The outputs of records.
//!
//! Promises: records are written unchanged and whole, in the order of the input. Must not know: why a record goes to an
//! output.

pub mod distinct;
mod kept;
pub mod rejects;
mod sink;

use std::fs::{File, OpenOptions};
use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::exit::UsageError;
use crate::input::is_stdin;
use crate::text::numbers::grouped;
use kept::{Beginning, beginning_of, end_of, shown};
use sink::Sink;

/// Endings of compressed files, which this program does not write.
const COMPRESSED: [&str; 6] = ["gz", "tgz", "bz2", "xz", "zst", "zstd"];
/// To read a longer file than this, to find quotes that were left open, may take a while.
const SHORT_BYTES: u64 = 1 << 30;

/// A name of standard output by which its content can be read, where it is a file.
const STDOUT: &str = "/dev/stdout";

/// What becomes of a file's records from earlier runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// They are removed: this run writes all its records anew.
    Replaced,
    /// They stay, and new records are added: a filter that outlives its runs knows the older records, and would not
    /// pass them on again.
    Kept {
        /// The byte between two fields, where line breaks may stand between quotes in the records.
        quotes: Option<u8>,
    },
}

impl Earlier {
    /// The same for records in which quotes mean nothing: rejected ones, or those of formats without quoting.
    pub fn without_quotes(self) -> Self {
        match self {
            Self::Replaced => Self::Replaced,
            Self::Kept { .. } => Self::Kept { quotes: None },
        }
    }
}

/// A stream of records.
pub struct Output {
    sink: Option<Sink>,
    earlier: Earlier,
    /// Whether the content of earlier runs was dealt with ([`Self::begin`]).
    is_begun: bool,
    /// The file for reading, until the header has come, where its content is kept and it has any.
    kept: Option<File>,
    /// Whether the file begins with the header, from an earlier run.
    has_header: bool,
    path: Option<PathBuf>,
    /// The bytes that complete the last record before another one: a newline where it had none, as the last record of a
    /// file may.
    end: &'static str,
    /// Bytes of the current block that are to be written, while they stay neighbours.
    run: Range<usize>,
}

impl Output {
    /// Standard output. A shell has emptied it before, or (`>>`) not.
    ///
    /// # Errors
    /// Those of the system.
    pub fn stdout(earlier: Earlier) -> anyhow::Result<Self> {
        let sink = io::stdout().as_fd().try_clone_to_owned().map(File::from).and_then(Sink::new);
        let output = Self { earlier, is_begun: earlier == Earlier::Replaced, ..Self::to(None, None) };
        Ok(Self { sink: Some(sink.with_context(|| output.name())?), ..output })
    }

    /// A file, `-` being standard output; [`Self::begin`] deals with the content of earlier runs.
    ///
    /// # Errors
    /// Where the file cannot be created.
    pub fn file(path: &Path, earlier: Earlier) -> anyhow::Result<Self> {
        if is_stdin(path) {
            return Self::stdout(earlier);
        }
        if let Some(ending) = path.extension().and_then(|found| found.to_str())
            && COMPRESSED.iter().any(|compressed| compressed.eq_ignore_ascii_case(ending))
        {
            bail!(UsageError(format!(
                "{} would hold plain text: leave out .{ending}, or compress standard output on its way there",
                path.display()
            )));
        }
        let sink = OpenOptions::new().append(true).create(true).open(path).and_then(Sink::new);
        let sink = sink.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { earlier, ..Self::to(Some(sink), Some(path.to_owned())) })
    }

    /// The first records fit the flags, so the content of an earlier run is removed, or read to be continued.
    ///
    /// # Errors
    /// Where the file cannot be emptied.
    pub fn begin(&mut self) -> anyhow::Result<()> {
        // Pipes and devices have nothing from earlier.
        let Some(file) = self.sink.as_ref().and_then(Sink::file) else { return Ok(()) };
        if mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        match self.earlier {
            Earlier::Replaced => file.set_len(0).with_context(|| self.name())?,
            Earlier::Kept { quotes } => {
                let path = self.path.as_deref().unwrap_or(Path::new(STDOUT));
                // A file that cannot be read is continued as it is.
                self.kept = File::open(path).ok().filter(is_file);
                self.end = self.kept.as_mut().map_or(Ok(""), |file| last_end(file, quotes, path))?;
            }
        }
        Ok(())
    }

    /// A file if there is a path, else nowhere.
    ///
    /// # Errors
    /// Where the file cannot be created.
    pub fn optional(path: Option<&Path>, earlier: Earlier) -> anyhow::Result<Self> {
        path.map_or_else(|| Ok(Self::to(None, None)), |path| Self::file(path, earlier))
    }

    fn to(sink: Option<Sink>, path: Option<PathBuf>) -> Self {
        let earlier = Earlier::Replaced;
        Self { sink, earlier, is_begun: false, kept: None, has_header: false, path, end: "", run: 0..0 }
    }

    /// Whether records that come here are written anywhere.
    pub fn is_kept(&self) -> bool {
        self.sink.is_some()
    }

    /// Checks that a file whose content is kept begins with `header`. To be called after [`Self::begin`], and before
    /// any record of the input is answered.
    ///
    /// # Errors
    /// Where it begins with another header.
    pub fn check_header(&mut self, header: &[u8]) -> anyhow::Result<()> {
        let Some(file) = self.kept.take() else { return Ok(()) };
        match beginning_of(file, header).with_context(|| self.name())? {
            Beginning::Header => self.has_header = true,
            Beginning::Nothing => {}
            Beginning::Other(found) => bail!(UsageError(format!(
                "{} begins with `{found}`, and the header of what is to be added is `{}`: name another file, or delete this one",
                self.place(),
                shown(header)
            ))),
        }
        Ok(())
    }

    /// Writes the header at `range` of `block`, unless the file begins with it ([`Self::check_header`]).
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn header(&mut self, block: &[u8], range: Range<usize>) -> anyhow::Result<()> {
        if self.has_header { Ok(()) } else { self.record(block, range) }
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

    /// Writes the rest of `block`.
    pub fn end_block(&mut self, block: &[u8]) -> anyhow::Result<()> {
        self.write_run(block)?;
        self.run = 0..0;
        Ok(())
    }

    fn write_run(&mut self, block: &[u8]) -> anyhow::Result<()> {
        self.write(&block[self.run.clone()])
    }

    /// Writes `bytes`, which are whole records.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let Some(sink) = self.sink.as_mut().filter(|_| !bytes.is_empty()) else { return Ok(()) };
        let ended = if self.end.is_empty() { Ok(()) } else { sink.write(self.end.as_bytes()) };
        let written = ended.and_then(|()| sink.write(bytes));
        self.end = if bytes.last() == Some(&b'\n') { "" } else { "\n" };
        written.with_context(|| self.name())
    }

    /// Hands everything written so far to the system.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        self.sink.as_mut().map_or(Ok(()), Sink::flush).with_context(|| self.name())
    }

    /// The same as [`Self::flush`], and output that goes to a file outlives a power cut.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn sync(&mut self) -> anyhow::Result<()> {
        self.flush()?;
        let file = self.sink.as_ref().and_then(Sink::file);
        file.map_or(Ok(()), File::sync_data).with_context(|| self.name())
    }

    fn name(&self) -> String {
        format!("cannot write {}{}", if self.path.is_some() { "" } else { "to " }, self.place())
    }

    fn place(&self) -> String {
        self.path.as_ref().map_or("standard output".to_owned(), |path| path.display().to_string())
    }
}

/// The bytes that complete the last record of `file`, whose path is `path`; prints a line where it takes a while to
/// find them.
fn last_end(file: &mut File, quotes: Option<u8>, path: &Path) -> anyhow::Result<&'static str> {
    let bytes = file.metadata().map_or(0, |found| found.len());
    if quotes.is_some() && bytes > SHORT_BYTES {
        notice!(
            "firstseen: {} has {} bytes of earlier runs, which are read once for a quote that was left open",
            path.display(),
            grouped(bytes)
        );
    }
    end_of(file, quotes).with_context(|| format!("cannot read {}, to add to it", path.display()))
}

fn is_file(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file())
}
