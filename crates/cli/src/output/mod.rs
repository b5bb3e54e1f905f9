//! Where records go.
//!
//! Promises: records are written unchanged and whole, in the order of the input. Must not know: why a record goes where
//! it goes.

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

/// Endings that promise what is not written here.
const COMPRESSED: [&str; 6] = ["gz", "tgz", "bz2", "xz", "zst", "zstd"];
/// To read through more than this, for quotes that were left open, may take a while.
const SHORT_BYTES: u64 = 1 << 30;

/// Standard output under a name by which what is in it can be read, where it is a file.
const STDOUT: &str = "/dev/stdout";

/// What becomes of what a file has from earlier runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// It goes: this run answers for itself.
    Replaced,
    /// It stays, and what comes now is added: a filter that outlives its runs knows these records, so that they would not come
    /// again.
    Kept {
        /// Whether line breaks may stand between quotes in them.
        has_quotes: bool,
    },
}

impl Earlier {
    /// The same for records whose quotes say nothing: those that were rejected, or that stand in other lines.
    pub fn without_quotes(self) -> Self {
        match self {
            Self::Replaced => Self::Replaced,
            Self::Kept { .. } => Self::Kept { has_quotes: false },
        }
    }
}

/// A stream of records.
pub struct Output {
    sink: Option<Sink>,
    earlier: Earlier,
    /// Whether what is in the file from before was seen to ([`Self::begin`]).
    is_begun: bool,
    /// The file for reading, until the header has come, where it is kept and there is something.
    kept: Option<File>,
    /// Whether the file begins with the header, from an earlier run.
    has_header: bool,
    path: Option<PathBuf>,
    /// What ends the last record before another one: a newline where it had none of its own, as the last one of a file may.
    end: &'static str,
    /// Bytes of the current block that are to be written, while they stay neighbours.
    run: Range<usize>,
}

impl Output {
    /// Standard output. A shell has emptied it before, or (`>>`) not.
    ///
    /// # Errors
    /// What the system says.
    pub fn stdout(earlier: Earlier) -> anyhow::Result<Self> {
        let sink = io::stdout().as_fd().try_clone_to_owned().map(File::from).and_then(Sink::new);
        let output = Self { earlier, is_begun: earlier == Earlier::Replaced, ..Self::to(None, None) };
        Ok(Self { sink: Some(sink.with_context(|| output.name())?), ..output })
    }

    /// A file, `-` being standard output; what becomes of what was there is done when the output begins ([`Self::begin`]).
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

    /// The input turned out to be what it was said to be: an older output goes, or is looked at to be continued.
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
            Earlier::Kept { has_quotes } => {
                let path = self.path.as_deref().unwrap_or(Path::new(STDOUT));
                // What cannot be read is added to as it is.
                self.kept = File::open(path).ok().filter(is_file);
                self.end = self.kept.as_mut().map_or(Ok(""), |file| last_end(file, has_quotes, path))?;
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

    /// Whether records that come here are kept.
    pub fn is_kept(&self) -> bool {
        self.sink.is_some()
    }

    /// Looks whether the file, where it is kept, begins with `header` from an earlier run. To be called after [`Self::begin`], and
    /// before any record of the input is answered.
    ///
    /// # Errors
    /// Where it begins with another one.
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

    /// Writes what is left of `block`.
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
        let written = sink.write(self.end.as_bytes()).and_then(|()| sink.write(bytes));
        self.end = if bytes.last() == Some(&b'\n') { "" } else { "\n" };
        written.with_context(|| self.name())
    }

    /// Hands everything written so far to the system.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        self.sink.as_mut().map_or(Ok(()), Sink::flush).with_context(|| self.name())
    }

    /// The same, and where it goes to a file it outlives a power cut.
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

/// What ends the last record of `file`, which is called `path`; says so where it takes a while to find out.
fn last_end(file: &mut File, has_quotes: bool, path: &Path) -> anyhow::Result<&'static str> {
    let bytes = file.metadata().map_or(0, |found| found.len());
    if has_quotes && bytes > SHORT_BYTES {
        tell!(
            "firstseen: {} has {} bytes of earlier runs, which are read once for a quote that was left open",
            path.display(),
            grouped(bytes)
        );
    }
    end_of(file, has_quotes).with_context(|| format!("cannot read {}, to add to it", path.display()))
}

fn is_file(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file())
}
