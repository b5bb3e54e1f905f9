//! Where records go.
//!
//! Promises: records are written unchanged and whole, in the order of the input. Must not know: why a record goes where
//! it goes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::Context;
use firstseen_records::ends_inside_quotes;

use crate::exit::UsageError;
use crate::input::is_stdin;

const BUFFER_BYTES: usize = 1 << 18;
/// Endings that promise what is not written here.
const COMPRESSED: [&str; 3] = ["gz", "zst", "zstd"];

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
    sink: Option<BufWriter<Box<dyn Write>>>,
    earlier: Earlier,
    /// The file with what was in it before, until [`Self::begin`].
    before: Option<File>,
    /// The same for reading, until the header has come, where it is kept and there is something.
    kept: Option<File>,
    /// What the sink writes to, where that is a file and no pipe, terminal or device.
    file: Option<File>,
    path: Option<PathBuf>,
    /// What ends the last record before another one: a newline where it had none of its own, as the last one of a file may.
    end: &'static str,
    /// Bytes of the current block that are to be written, while they stay neighbours.
    run: Range<usize>,
}

impl Output {
    /// Standard output. A shell has emptied it before, or (`>>`) not.
    pub fn stdout(earlier: Earlier) -> Self {
        let file = io::stdout().as_fd().try_clone_to_owned().ok().map(File::from).filter(is_file);
        let before = file.as_ref().filter(|_| earlier != Earlier::Replaced).and_then(|file| file.try_clone().ok());
        Self { earlier, before, file, ..Self::over(Box::new(io::stdout()), None) }
    }

    /// A file, `-` being standard output; what becomes of what was there is done when the output begins ([`Self::begin`]).
    ///
    /// # Errors
    /// Where the file cannot be created.
    pub fn file(path: &Path, earlier: Earlier) -> anyhow::Result<Self> {
        if is_stdin(path) {
            return Ok(Self::stdout(earlier));
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
        let opened = OpenOptions::new().append(true).create(true).open(path);
        let file = opened.with_context(|| format!("cannot write {}", path.display()))?;
        let (before, regular) = (file.try_clone().ok(), file.try_clone().ok().filter(is_file));
        Ok(Self { earlier, before, file: regular, ..Self::over(Box::new(file), Some(path.to_owned())) })
    }

    /// The input turned out to be what it was said to be: an older output goes, or is looked at to be continued.
    ///
    /// # Errors
    /// Where the file cannot be emptied.
    pub fn begin(&mut self) -> anyhow::Result<()> {
        // Pipes and devices have nothing from earlier.
        let Some(file) = self.before.take().filter(is_file) else { return Ok(()) };
        match self.earlier {
            Earlier::Replaced => file.set_len(0).with_context(|| self.name())?,
            Earlier::Kept { has_quotes } => {
                let path = self.path.as_deref().unwrap_or(Path::new(STDOUT));
                // What cannot be read is added to as it is.
                self.kept = File::open(path).ok().filter(is_file);
                self.end = self.kept.as_mut().map_or("", |file| end_of(file, has_quotes));
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

    fn over(sink: Box<dyn Write>, path: Option<PathBuf>) -> Self {
        Self::to(Some(BufWriter::with_capacity(BUFFER_BYTES, sink)), path)
    }

    fn to(sink: Option<BufWriter<Box<dyn Write>>>, path: Option<PathBuf>) -> Self {
        let earlier = Earlier::Replaced;
        Self { sink, earlier, before: None, kept: None, file: None, path, end: "", run: 0..0 }
    }

    /// Whether records that come here are kept.
    pub fn is_kept(&self) -> bool {
        self.sink.is_some()
    }

    /// Writes the header at `range` of `block`, unless the file begins with it from an earlier run.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn header(&mut self, block: &[u8], range: Range<usize>) -> anyhow::Result<()> {
        let header = &block[range.clone()];
        let is_there = self.kept.take().is_some_and(|file| begins_with(file, header));
        if is_there { Ok(()) } else { self.record(block, range) }
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
        let written = sink.write_all(self.end.as_bytes()).and_then(|()| sink.write_all(bytes));
        self.end = if bytes.last() == Some(&b'\n') { "" } else { "\n" };
        written.with_context(|| self.name())
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

/// What ends the last record of `file`, where a run was killed within it. Between quotes it would take what comes next into itself.
fn end_of(file: &mut File, has_quotes: bool) -> &'static str {
    let mut last = [b'\n'];
    let is_ended = file.seek(SeekFrom::End(-1)).and_then(|_| file.read_exact(&mut last)).is_err() || last == [b'\n'];
    let is_quoted = || file.rewind().and_then(|()| ends_inside_quotes(file)).unwrap_or(false);
    match is_ended {
        true => "",
        false if has_quotes && is_quoted() => "\"\n",
        false => "\n",
    }
}

fn begins_with(mut file: File, bytes: &[u8]) -> bool {
    let mut found = vec![0; bytes.len()];
    file.rewind().and_then(|()| file.read_exact(&mut found)).is_ok_and(|()| found == bytes)
}

fn is_file(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file())
}
