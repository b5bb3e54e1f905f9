//! The outputs of records.
//!
//! `Output` is the interface of an output. It receives each record as a position in the block of its input.
//! `FileOutput` writes text to a file or a stream, and `columns` writes rows.
//!
//! Records are written unchanged and complete, in the order of the input. This module does not depend on why a record
//! goes to an output.

#[cfg(feature = "parquet")]
pub(crate) mod columns;
pub mod distinct;
mod kept;
mod sink;
mod target;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use firstseen_records::{Block, RecordSpan, Records};

use crate::exit::UsageError;
use crate::text::numbers::grouped;
use kept::{Beginning, beginning_of, end_of, end_text, shown};
use sink::Sink;
pub(crate) use target::Target;

/// File name extensions of compressed files, which this program cannot write.
const COMPRESSED: [&str; 6] = ["gz", "tgz", "bz2", "xz", "zst", "zstd"];
/// Maximum size in bytes of an output file that is read without a notice to the user. A run that appends to an output
/// file first reads the whole file, to find out whether it ends within a quoted field. For a file above this size,
/// reading takes a while.
const SHORT_BYTES: u64 = 1 << 30;

/// Path under which the content of standard output can be read if standard output is a file.
const STDOUT: &str = "/dev/stdout";

/// What happens to the records that an output file has from earlier runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// The earlier records are removed, because this run writes all of its records again.
    Replaced,
    /// Earlier records are kept, and new records are appended. A run that continues with a saved filter needs this,
    /// because the filter reports the earlier records as duplicates, so they would not be written again.
    Kept {
        /// Byte between two fields, if quoted fields of the records may contain line breaks. `None` means that quotes
        /// have no meaning.
        quotes: Option<u8>,
    },
}

impl Earlier {
    /// Returns the same choice for records in which quotes have no meaning: rejected records, or records of a format
    /// without quoting.
    pub fn without_quotes(self) -> Self {
        match self {
            Self::Replaced => Self::Replaced,
            Self::Kept { .. } => Self::Kept { quotes: None },
        }
    }
}

/// Destination of records. An output receives records one by one, so it knows where each of them begins and ends.
///
/// The run writes all records of a block in the order of the input, and then calls [`end_block`](Self::end_block)
/// before it writes records of the next block.
///
/// At first, an output must hold back all records, and write them only when the run calls [`open`](Self::open) or
/// [`release`](Self::release). A run that is refused before it makes one of these calls therefore leaves no output.
pub(crate) trait Output {
    /// Form of the records that this output takes.
    type Records: Records;

    /// Returns whether records that are sent to this output are written anywhere.
    fn is_kept(&self) -> bool;

    /// Prepares to append records to the content that earlier runs have left, if this content is kept. To prepare, the
    /// output reads that content, which can take long.
    ///
    /// The run calls this function before every block, but only the first call has an effect. It makes the first call
    /// only when it knows that its flags fit the input, so a run that is refused does not spend time on reading.
    ///
    /// # Errors
    /// Returns an error if the content cannot be read.
    fn begin(&mut self) -> anyhow::Result<()>;

    /// Starts to write records. The output writes the records that it has held back so far, and from now on writes each
    /// new record directly. If the content of earlier runs is not kept, the output removes this content first.
    ///
    /// # Errors
    /// Returns an error if records cannot be written.
    fn open(&mut self) -> anyhow::Result<()>;

    /// Writes the records that were held back, as [`Self::open`] does, but continues to hold back new records.
    ///
    /// # Errors
    /// Returns an error if records cannot be written.
    fn release(&mut self) -> anyhow::Result<()>;

    /// Removes whatever this run created, because the run ends before anything was written.
    fn discard(&mut self);

    /// Checks that the content which earlier runs have left begins with the same header as the input. `header` is the
    /// position of the input's header in `records`. If the content of earlier runs is not kept, there is nothing to
    /// check. The run calls this function after [`Self::begin`], before it decides the first record.
    ///
    /// # Errors
    /// Returns an error if the content begins with another header.
    fn check_header(&mut self, _records: &Self::Records, _header: RecordSpan) -> anyhow::Result<()> {
        Ok(())
    }

    /// Writes the header of an input, unless the kept content of an earlier run begins with it.
    ///
    /// # Errors
    /// Returns an error if the header cannot be written.
    fn header(&mut self, _records: &Self::Records, _header: RecordSpan) -> anyhow::Result<()> {
        Ok(())
    }

    /// Writes a record.
    ///
    /// # Errors
    /// Returns an error if this record, or a record before it, cannot be written.
    fn record(&mut self, records: &Self::Records, record: RecordSpan) -> anyhow::Result<()>;

    /// Writes all of `records`, which is the next piece of the record that was written last.
    ///
    /// # Errors
    /// Returns an error if the piece cannot be written.
    fn continue_record(&mut self, _records: &Self::Records) -> anyhow::Result<()> {
        Ok(())
    }

    /// Writes a line of text that is not a record. Only an output that was opened for lines takes them.
    ///
    /// # Errors
    /// Returns an error if the line cannot be written.
    fn line(&mut self, _line: &[u8]) -> anyhow::Result<()> {
        Ok(())
    }

    /// Ends a block: no further record of it follows.
    ///
    /// # Errors
    /// Returns an error if records cannot be written.
    fn end_block(&mut self, records: &Self::Records) -> anyhow::Result<()>;

    /// Passes everything written so far to the operating system.
    ///
    /// # Errors
    /// Returns an error if records cannot be written.
    fn flush(&mut self) -> anyhow::Result<()>;

    /// Does the same as [`Self::flush`], and also makes sure that records in a file survive a power failure.
    ///
    /// # Errors
    /// Returns an error if records cannot be written.
    fn sync(&mut self) -> anyhow::Result<()>;

    /// Completes the output at the end of a run: no further record follows. Some files can be read only then.
    ///
    /// # Errors
    /// Returns an error if the output cannot be completed. Its records are then not stored.
    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Gives a completed output its name, if it has been written under another one.
    ///
    /// # Errors
    /// Returns an error if the output cannot get its name. Its records are then not stored.
    fn publish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Output that writes text to a file or a stream.
pub(crate) struct FileOutput {
    sink: Option<Sink>,
    earlier: Earlier,
    /// Whether the kept content of earlier runs was read ([`Output::begin`]).
    is_begun: bool,
    /// Whether pieces were passed on. Content of earlier runs that is not kept was removed before that.
    is_released: bool,
    /// Whether this run created the file.
    is_new: bool,
    /// Pieces that are held back until it is known whether the run writes anything. `None` once the output is open
    /// ([`Output::open`]).
    held: Option<Vec<u8>>,
    /// The file opened for reading, if it has content from earlier runs that is kept. It is closed when the header has
    /// arrived.
    kept: Option<File>,
    /// Whether no header needs to be written, because the file already begins with it or because the output has no
    /// header.
    has_header: bool,
    path: Option<PathBuf>,
    /// Bytes that complete the last record before another record is written. The last record of a file may lack its
    /// end.
    end: &'static str,
    /// Byte that ends a record.
    record_end: u8,
    /// Range of adjacent records of the current block, which are written in one piece.
    run: Range<usize>,
}

impl FileOutput {
    /// Creates an output that writes to `target`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    pub(crate) fn to_target(target: Target<'_>, earlier: Earlier) -> anyhow::Result<Self> {
        match target {
            Target::Stdout => Self::stdout(earlier),
            Target::File(path) => Self::file(path, earlier),
            Target::Nowhere => Ok(Self::to(None, None)),
        }
    }

    /// Creates an output that writes to standard output. If standard output is a file, this function does not change
    /// its content, because the shell has already emptied the file (`>`) or kept its content (`>>`).
    ///
    /// # Errors
    /// Returns the errors of the operating system.
    fn stdout(earlier: Earlier) -> anyhow::Result<Self> {
        let sink = io::stdout().as_fd().try_clone_to_owned().map(File::from).and_then(Sink::new);
        let output = Self { earlier, ..Self::to(None, None) };
        Ok(Self { sink: Some(sink.with_context(|| output.name())?), ..output })
    }

    /// Creates an output that writes to a file. The content of the file does not change until [`Output::open`].
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    fn file(path: &Path, earlier: Earlier) -> anyhow::Result<Self> {
        if let Some(ending) = path.extension().and_then(|found| found.to_str())
            && COMPRESSED.iter().any(|compressed| compressed.eq_ignore_ascii_case(ending))
        {
            bail!(UsageError(format!(
                "{} would hold plain text: leave out .{ending}, or compress standard output on its way there",
                path.display()
            )));
        }
        let (file, is_new) = create_or_open(path).with_context(|| format!("cannot write {}", path.display()))?;
        let sink = Sink::new(file).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { earlier, is_new, ..Self::to(Some(sink), Some(path.to_owned())) })
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

    /// Returns the same output for records that end with `record_end`, which is a newline or NUL.
    pub(crate) fn with_record_end(self, record_end: u8) -> Self {
        Self { record_end, ..self }
    }

    /// Returns the same output for lines without the header of the input.
    pub(crate) fn without_header(self) -> Self {
        Self { has_header: true, ..self }
    }

    fn write_run(&mut self, records: &Block) -> anyhow::Result<()> {
        self.write(&records.bytes()[self.run.clone()])
    }

    /// Writes `bytes`, which contain only complete records.
    ///
    /// # Errors
    /// Returns an error if the bytes cannot be written.
    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
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
        // Pipes and devices have no content from earlier runs.
        if self.sink.as_ref().and_then(Sink::file).is_none() || mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        if let Earlier::Kept { quotes } = self.earlier {
            let path = self.path.as_deref().unwrap_or(Path::new(STDOUT));
            // A file that cannot be read is appended to as it is.
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
        // The shell has already emptied standard output, or has kept its content (`>>`).
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
            // If the file cannot be removed, it stays and is empty.
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

    fn line(&mut self, line: &[u8]) -> anyhow::Result<()> {
        self.write(line)
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

/// Returns the name of a file in messages. Without a path, the name is "standard output".
fn place_of(path: Option<&Path>) -> String {
    path.map_or("standard output".to_owned(), |path| path.display().to_string())
}

/// Opens the file at `path` for appending. Also returns whether the file was created by this call.
fn create_or_open(path: &Path) -> io::Result<(File, bool)> {
    match OpenOptions::new().append(true).create_new(true).open(path) {
        Ok(file) => Ok((file, true)),
        // The path may also be a link to a file that does not exist yet.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok((OpenOptions::new().append(true).create(true).open(path)?, false))
        }
        Err(error) => Err(error),
    }
}

/// Returns the bytes to append so that the file at `path` ends with a complete record. If the file is long, a message
/// first tells the user that reading it takes a while.
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
