//! The outputs of records.
//!
//! [`Output`] is the seam: an output gets each record by its place in the block of its input. [`FileOutput`] writes text
//! to a file or a stream.
//!
//! Promises: records are written unchanged and whole, in the order of the input. Must not know: why a record goes to an
//! output.

pub mod distinct;
mod kept;
mod sink;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use firstseen_records::{Block, RecordSpan, Records};

use crate::exit::UsageError;
use crate::input::is_stdin;
use crate::text::numbers::grouped;
use kept::{Beginning, beginning_of, end_of, end_text, shown};
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

/// Where records go, one by one: their boundaries are known to the output.
///
/// All records of a block come before [`end_block`](Self::end_block), in the order of the input, and then those of the
/// next block. Nothing is to be visible to others before [`open`](Self::open) or [`release`](Self::release).
pub(crate) trait Output {
    /// The form of the records that it takes.
    type Records: Records;

    /// Whether records that come here are written anywhere.
    fn is_kept(&self) -> bool;

    /// The first records fit the flags, so the content of an earlier run that stays is read, to be continued. Called before
    /// every block.
    ///
    /// # Errors
    /// Where the content cannot be read.
    fn begin(&mut self) -> anyhow::Result<()>;

    /// From now on records are written: those that were held back first. The content of an earlier run that does not stay is
    /// removed.
    ///
    /// # Errors
    /// Where records cannot be written.
    fn open(&mut self) -> anyhow::Result<()>;

    /// Writes the records that were held back, as [`Self::open`] does, and holds back those that come.
    ///
    /// # Errors
    /// Where records cannot be written.
    fn release(&mut self) -> anyhow::Result<()>;

    /// The run ends before anything was written: what it has made is removed.
    fn discard(&mut self);

    /// Checks that content of an earlier run that is kept begins with the `header` of `records`. Called after
    /// [`Self::begin`], and before any record of the input is decided.
    ///
    /// # Errors
    /// Where it begins with another header.
    fn check_header(&mut self, _records: &Self::Records, _header: RecordSpan) -> anyhow::Result<()> {
        Ok(())
    }

    /// Writes the header of an input, unless the content of an earlier run begins with it.
    ///
    /// # Errors
    /// Where it cannot be written.
    fn header(&mut self, _records: &Self::Records, _header: RecordSpan) -> anyhow::Result<()> {
        Ok(())
    }

    /// Writes a record.
    ///
    /// # Errors
    /// Where it, or one before it, cannot be written.
    fn record(&mut self, records: &Self::Records, record: RecordSpan) -> anyhow::Result<()>;

    /// Writes all of `records`, which is the next piece of the record that was written last.
    ///
    /// # Errors
    /// Where it cannot be written.
    fn continue_record(&mut self, _records: &Self::Records) -> anyhow::Result<()> {
        Ok(())
    }

    /// No further record of this block comes.
    ///
    /// # Errors
    /// Where records cannot be written.
    fn end_block(&mut self, records: &Self::Records) -> anyhow::Result<()>;

    /// Hands everything written so far to the system.
    ///
    /// # Errors
    /// Where records cannot be written.
    fn flush(&mut self) -> anyhow::Result<()>;

    /// The same as [`Self::flush`], and records that go to a file outlive a power cut.
    ///
    /// # Errors
    /// Where records cannot be written.
    fn sync(&mut self) -> anyhow::Result<()>;
}

/// Text that goes to a file or a stream.
pub(crate) struct FileOutput {
    sink: Option<Sink>,
    earlier: Earlier,
    /// Whether the content of earlier runs that stays was read ([`Output::begin`]).
    is_begun: bool,
    /// Whether pieces were handed on, and the content of earlier runs that does not stay was removed before.
    is_released: bool,
    /// Whether this run made the file.
    is_new: bool,
    /// Pieces that wait until it is known whether the run writes anything; `None` from then on ([`Output::open`]).
    held: Option<Vec<u8>>,
    /// The file for reading, until the header has come, where its content is kept and it has any.
    kept: Option<File>,
    /// Whether no header is to be written: the file begins with it from an earlier run, or takes none.
    has_header: bool,
    path: Option<PathBuf>,
    /// The bytes that complete the last record before another one: its end where it had none, as the last record of a
    /// file may.
    end: &'static str,
    /// The byte that ends a record.
    record_end: u8,
    /// Records of the current block that are to be written in one piece, as they are neighbours.
    run: Range<usize>,
}

impl FileOutput {
    /// Standard output. A shell has emptied it before, or (`>>`) not.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn stdout(earlier: Earlier) -> anyhow::Result<Self> {
        let sink = io::stdout().as_fd().try_clone_to_owned().map(File::from).and_then(Sink::new);
        let output = Self { earlier, ..Self::to(None, None) };
        Ok(Self { sink: Some(sink.with_context(|| output.name())?), ..output })
    }

    /// A file, `-` being standard output; its content is as it was until [`Output::open`].
    ///
    /// # Errors
    /// Where the file cannot be created.
    pub(crate) fn file(path: &Path, earlier: Earlier) -> anyhow::Result<Self> {
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
        let (file, is_new) = made_or_opened(path).with_context(|| format!("cannot write {}", path.display()))?;
        let sink = Sink::new(file).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { earlier, is_new, ..Self::to(Some(sink), Some(path.to_owned())) })
    }

    /// A file if there is a path, else nowhere.
    ///
    /// # Errors
    /// Where the file cannot be created.
    pub(crate) fn optional(path: Option<&Path>, earlier: Earlier) -> anyhow::Result<Self> {
        path.map_or_else(|| Ok(Self::to(None, None)), |path| Self::file(path, earlier))
    }

    fn to(sink: Option<Sink>, path: Option<PathBuf>) -> Self {
        Self {
            sink,
            earlier: Earlier::Replaced,
            is_begun: false,
            is_released: false,
            is_new: false,
            held: Some(Vec::new()),
            kept: None,
            has_header: false,
            path,
            end: "",
            record_end: b'\n',
            run: 0..0,
        }
    }

    /// The same output for records that end with `record_end`: a newline or NUL.
    pub(crate) fn with_record_end(self, record_end: u8) -> Self {
        Self { record_end, ..self }
    }

    /// The same output for lines without the header of the input.
    pub(crate) fn without_header(self) -> Self {
        Self { has_header: true, ..self }
    }

    fn write_run(&mut self, records: &Block) -> anyhow::Result<()> {
        self.write(&records.bytes()[self.run.clone()])
    }

    /// Writes `bytes`, which are whole records.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let Some(sink) = self.sink.as_mut().filter(|_| !bytes.is_empty()) else { return Ok(()) };
        let written = if let Some(held) = &mut self.held {
            held.extend_from_slice(self.end.as_bytes());
            held.extend_from_slice(bytes);
            Ok(())
        } else {
            let ended = if self.end.is_empty() { Ok(()) } else { sink.write(self.end.as_bytes()) };
            ended.and_then(|()| sink.write(bytes))
        };
        self.end = if bytes.last() == Some(&self.record_end) { "" } else { end_text(self.record_end) };
        written.with_context(|| self.name())
    }

    fn name(&self) -> String {
        format!("cannot write {}{}", if self.path.is_some() { "" } else { "to " }, self.place())
    }

    fn place(&self) -> String {
        place_of(self.path.as_deref())
    }
}

impl Output for FileOutput {
    type Records = Block;

    fn begin(&mut self) -> anyhow::Result<()> {
        // Pipes and devices have nothing from earlier.
        if self.sink.as_ref().and_then(Sink::file).is_none() || mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        if let Earlier::Kept { quotes } = self.earlier {
            let path = self.path.as_deref().unwrap_or(Path::new(STDOUT));
            // A file that cannot be read is continued as it is.
            self.kept = File::open(path).ok().filter(is_file);
            let record_end = self.record_end;
            self.end = self.kept.as_mut().map_or(Ok(""), |file| last_end(file, quotes, record_end, path))?;
        }
        Ok(())
    }

    fn open(&mut self) -> anyhow::Result<()> {
        self.release()?;
        self.held = None;
        Ok(())
    }

    fn release(&mut self) -> anyhow::Result<()> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        let is_first = !mem::replace(&mut self.is_released, true);
        // A shell has emptied standard output before, or (`>>`) not.
        if is_first
            && self.earlier == Earlier::Replaced
            && self.path.is_some()
            && let Some(file) = sink.file()
        {
            file.set_len(0).with_context(|| format!("cannot write {}", place_of(self.path.as_deref())))?;
        }
        let held = self.held.replace(Vec::new()).unwrap_or_default();
        if held.is_empty() { Ok(()) } else { sink.write(&held).with_context(|| self.name()) }
    }

    fn discard(&mut self) {
        if let (Some(path), true) = (&self.path, self.is_new && !self.is_released) {
            // What cannot be removed stays empty.
            let _ = fs::remove_file(path);
        }
        self.held = Some(Vec::new());
    }

    fn is_kept(&self) -> bool {
        self.sink.is_some()
    }

    fn check_header(&mut self, records: &Block, header: RecordSpan) -> anyhow::Result<()> {
        let Some(file) = self.kept.take().filter(|_| !self.has_header) else { return Ok(()) };
        let header = &records.bytes()[header.range()];
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

    fn header(&mut self, records: &Block, header: RecordSpan) -> anyhow::Result<()> {
        if self.has_header { Ok(()) } else { self.record(records, header) }
    }

    #[inline]
    fn record(&mut self, records: &Block, record: RecordSpan) -> anyhow::Result<()> {
        let range = record.range();
        if range.start == self.run.end && !self.run.is_empty() {
            self.run.end = range.end;
            return Ok(());
        }
        self.write_run(records)?;
        self.run = range;
        Ok(())
    }

    fn end_block(&mut self, records: &Block) -> anyhow::Result<()> {
        self.write_run(records)?;
        self.run = 0..0;
        Ok(())
    }

    fn continue_record(&mut self, records: &Block) -> anyhow::Result<()> {
        self.end = "";
        self.run = 0..records.bytes().len();
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.sink.as_mut().map_or(Ok(()), Sink::flush).with_context(|| self.name())
    }

    fn sync(&mut self) -> anyhow::Result<()> {
        self.flush()?;
        let file = self.sink.as_ref().and_then(Sink::file);
        file.map_or(Ok(()), File::sync_data).with_context(|| self.name())
    }
}

/// A file in messages; standard output where there is no path.
fn place_of(path: Option<&Path>) -> String {
    path.map_or("standard output".to_owned(), |path| path.display().to_string())
}

/// The file at `path`, to be added to, and whether it was made for that.
fn made_or_opened(path: &Path) -> io::Result<(File, bool)> {
    match OpenOptions::new().append(true).create_new(true).open(path) {
        Ok(file) => Ok((file, true)),
        // Also a link to a file that is to be made.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok((OpenOptions::new().append(true).create(true).open(path)?, false))
        }
        Err(error) => Err(error),
    }
}

/// The bytes that complete the last record of `file`, whose path is `path`; prints a line where it takes a while to
/// find them.
fn last_end(file: &mut File, quotes: Option<u8>, record_end: u8, path: &Path) -> anyhow::Result<&'static str> {
    let bytes = file.metadata().map_or(0, |found| found.len());
    if quotes.is_some() && bytes > SHORT_BYTES {
        notice!(
            "firstseen: {} has {} bytes of earlier runs, which are read once for a quote that was left open",
            path.display(),
            grouped(bytes)
        );
    }
    end_of(file, quotes, record_end).with_context(|| format!("cannot read {}, to add to it", path.display()))
}

fn is_file(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file())
}
