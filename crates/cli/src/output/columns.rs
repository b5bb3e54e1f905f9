//! Output that writes rows to a file or a stream.
//!
//! A Parquet file can be read only when it is complete. Its rows are therefore written to a temporary file in the same
//! folder, which gets the name of the output at the end of the run. A stream of Arrow can be read while it grows, so it
//! is written to its place at once.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::mem;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use firstseen_columns::{ColumnFormat, FileError, RowWriter, Rows, Template};
use firstseen_records::{Block, RecordSpan};
use tempfile::NamedTempFile;

use super::sink::Sink;
use super::{Earlier, FileOutput, Output, Target, create_or_open, place_of};
use crate::exit::{UsageError, file_error};

/// File name extensions of text and of compressed files, which must not hold rows.
const TEXT: [&str; 13] =
    ["csv", "tsv", "json", "jsonl", "ndjson", "txt", "log", "gz", "tgz", "bz2", "xz", "zst", "zstd"];
/// File name extensions of Parquet files.
const PARQUET: [&str; 3] = ["parquet", "pq", "parq"];
/// File name extensions of Arrow's files and streams.
const ARROW: [&str; 5] = ["arrow", "arrows", "feather", "ipc", "ft"];
/// Maximum number of links that are followed to the file that a path names.
const LINKS_MAX: usize = 40;

/// Permissions of a new file, from which the system takes those that the user has masked.
const NEW_FILE_MODE: u32 = 0o666;

/// Output of a run whose records are rows.
pub(crate) enum ColumnOutput {
    /// Rows are not written.
    Nowhere,
    /// Lines that are not records.
    Lines(Box<FileOutput>),
    Rows(Box<RowOutput>),
}

/// Output that writes rows.
pub(crate) struct RowOutput {
    template: Template,
    file: RowFile,
    /// Path for messages. `None` is standard output.
    path: Option<PathBuf>,
    earlier: Earlier,
    writer: Option<RowWriter<SinkWriter>>,
    /// Rows that are held back until it is known whether the run writes anything. `None` once the output is open
    /// ([`Output::open`]).
    held: Option<Vec<RecordBatch>>,
    /// Ranges of rows of the current block.
    chosen: Vec<Range<usize>>,
}

/// The file that rows are written to.
enum RowFile {
    /// A temporary file, which gets its name when it is complete.
    Temporary { temporary: NamedTempFile, path: PathBuf },
    /// A file, a pipe or a device.
    InPlace { file: File, is_new: bool },
    /// The file is complete, or the output was discarded.
    Done,
}

impl ColumnOutput {
    pub(crate) fn lines(output: FileOutput) -> Self {
        Self::Lines(Box::new(output))
    }

    /// Opens an output for rows.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created, or if it has rows of an earlier run that must be kept.
    pub(crate) fn rows(to: Target<'_>, earlier: Earlier, template: &Template) -> anyhow::Result<Self> {
        let (file, path) = match to {
            Target::Nowhere => return Ok(Self::Nowhere),
            Target::Stdout => {
                let file = io::stdout().as_fd().try_clone_to_owned().map(File::from);
                let file = file.with_context(|| writing(None))?;
                (RowFile::InPlace { file, is_new: false }, None)
            }
            Target::File(path) => {
                check_name(path, template.format())?;
                (create(path, template.format()).with_context(|| writing(Some(path)))?, Some(path.to_owned()))
            }
        };
        check_earlier(&file, path.as_deref(), earlier)?;
        Ok(Self::Rows(Box::new(RowOutput {
            template: template.clone(),
            file,
            path,
            earlier,
            writer: None,
            held: Some(Vec::new()),
            chosen: Vec::new(),
        })))
    }

    fn text(&mut self) -> Option<&mut FileOutput> {
        match self {
            Self::Lines(output) => Some(output),
            _ => None,
        }
    }

    fn row_output(&mut self) -> Option<&mut RowOutput> {
        match self {
            Self::Rows(output) => Some(output),
            _ => None,
        }
    }
}

/// Checks that the name of an output does not promise something else.
fn check_name(path: &Path, format: ColumnFormat) -> anyhow::Result<()> {
    let ending = path.extension().and_then(|found| found.to_str()).unwrap_or_default();
    let others: &[&str] = match format {
        ColumnFormat::Parquet => &ARROW,
        ColumnFormat::Arrow => &PARQUET,
    };
    if TEXT.iter().chain(others).any(|other| other.eq_ignore_ascii_case(ending)) {
        bail!(UsageError(format!(
            "{} would hold rows as {format}, the format of the input: choose another ending than .{ending}",
            path.display()
        )));
    }
    Ok(())
}

/// Checks that rows need not be appended to other rows, because this is not possible.
fn check_earlier(file: &RowFile, path: Option<&Path>, earlier: Earlier) -> anyhow::Result<()> {
    let bytes = match file {
        RowFile::Temporary { path, .. } => fs::metadata(path).map_or(0, |found| found.len()),
        RowFile::InPlace { file, .. } => {
            file.metadata().ok().filter(fs::Metadata::is_file).map_or(0, |found| found.len())
        }
        RowFile::Done => 0,
    };
    // The shell has already emptied standard output (`>`), or wants to append to it (`>>`).
    let is_appended = path.is_none() || earlier != Earlier::Replaced;
    if bytes > 0 && is_appended {
        bail!(UsageError(format!(
            "{} has rows of an earlier run, and rows cannot be appended to it: name another file for the rows of this run",
            place_of(path)
        )));
    }
    Ok(())
}

/// Returns the path of the file that `path` names if it is a link, even if there is no such file yet.
fn without_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.parent().map_or(target.clone(), |folder| folder.join(&target));
    }
    path
}

/// Returns the folder that contains a file.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates the file that rows are written to.
fn create(path: &Path, format: ColumnFormat) -> io::Result<RowFile> {
    // If the path is a link, the file that it names is replaced, and not the link.
    let path = without_links(path);
    let found = fs::metadata(&path).ok();
    if format == ColumnFormat::Arrow || found.as_ref().is_some_and(|found| !found.is_file()) {
        let (file, is_new) = create_or_open(&path)?;
        return Ok(RowFile::InPlace { file, is_new });
    }
    if found.is_some() {
        // A file that must not be written is not replaced.
        OpenOptions::new().append(true).open(&path)?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!(".{name}.");
    let new_file = Permissions::from_mode(NEW_FILE_MODE);
    let temporary = tempfile::Builder::new().prefix(&prefix).permissions(new_file).tempfile_in(folder_of(&path))?;
    if let Some(found) = found {
        temporary.as_file().set_permissions(found.permissions())?;
    }
    Ok(RowFile::Temporary { temporary, path })
}

fn writing(path: Option<&Path>) -> String {
    format!("cannot write {}{}", if path.is_some() { "" } else { "to " }, place_of(path))
}

impl RowOutput {
    /// Starts to write, if this has not happened yet.
    fn begin_file(&mut self) -> anyhow::Result<()> {
        if self.writer.is_some() {
            return Ok(());
        }
        let file = match &self.file {
            RowFile::Temporary { temporary, .. } => temporary.as_file().try_clone()?,
            RowFile::InPlace { file, .. } => {
                let is_replaced = self.earlier == Earlier::Replaced && self.path.is_some();
                if is_replaced && file.metadata()?.is_file() {
                    file.set_len(0)?;
                }
                file.try_clone()?
            }
            RowFile::Done => return Ok(()),
        };
        let writer = RowWriter::new(SinkWriter(Sink::new(file)?), &self.template);
        self.writer = Some(writer.map_err(|error| UsageError(error.to_string()))?);
        Ok(())
    }

    fn release(&mut self) -> anyhow::Result<()> {
        self.begin_file()?;
        for rows in self.held.replace(Vec::new()).into_iter().flatten() {
            self.write(&rows)?;
        }
        Ok(())
    }

    fn write(&mut self, rows: &RecordBatch) -> anyhow::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.write(rows).map_err(file_error)
    }

    fn end_block(&mut self, rows: &RecordBatch) -> anyhow::Result<()> {
        let chosen = mem::take(&mut self.chosen);
        let Some(rows) = selected(rows, &chosen)? else { return Ok(()) };
        match &mut self.held {
            Some(held) => held.push(rows),
            None => self.write(&rows)?,
        }
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let SinkWriter(mut sink) = writer.finish().map_err(file_error)?;
        sink.flush()?;
        if let Some(file) = sink.file() {
            file.sync_data()?;
        }
        Ok(())
    }

    fn publish(&mut self) -> anyhow::Result<()> {
        if let RowFile::Temporary { temporary, path } = mem::replace(&mut self.file, RowFile::Done) {
            temporary.persist(&path).map_err(|error| error.error)?;
            File::open(folder_of(&path))?.sync_all()?;
        }
        Ok(())
    }

    fn discard(&mut self) {
        self.held = Some(Vec::new());
        let is_begun = self.writer.is_some();
        match (mem::replace(&mut self.file, RowFile::Done), &self.path) {
            // If the file cannot be removed, it stays and is empty.
            (RowFile::InPlace { is_new: true, .. }, Some(path)) if !is_begun => _ = fs::remove_file(path),
            // A temporary file is removed when it is dropped.
            _ => {}
        }
    }
}

/// Returns the rows in the given ranges, which are in order. `None` means that there are none.
fn selected(rows: &RecordBatch, chosen: &[Range<usize>]) -> anyhow::Result<Option<RecordBatch>> {
    match chosen {
        [] => Ok(None),
        [range] => Ok(Some(rows.slice(range.start, range.len()))),
        ranges => {
            let mut mask = vec![false; rows.num_rows()];
            for range in ranges {
                let part = mask.get_mut(range.clone()).context("a row is outside of its batch")?;
                part.fill(true);
            }
            Ok(Some(filter_record_batch(rows, &BooleanArray::from(mask)).map_err(FileError::from)?))
        }
    }
}

impl Output for ColumnOutput {
    type Records = Rows;

    fn is_kept(&self) -> bool {
        match self {
            Self::Nowhere => false,
            Self::Lines(output) => output.is_kept(),
            Self::Rows(_) => true,
        }
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        self.text().map_or(Ok(()), FileOutput::begin)
    }

    fn open(&mut self) -> anyhow::Result<()> {
        if let Some(output) = self.row_output() {
            let path = output.path.clone();
            output.release().with_context(|| writing(path.as_deref()))?;
            output.held = None;
        }
        self.text().map_or(Ok(()), FileOutput::open)
    }

    fn release(&mut self) -> anyhow::Result<()> {
        if let Some(output) = self.row_output() {
            let path = output.path.clone();
            output.release().with_context(|| writing(path.as_deref()))?;
        }
        self.text().map_or(Ok(()), FileOutput::release)
    }

    fn discard(&mut self) {
        match self {
            Self::Nowhere => {}
            Self::Lines(output) => output.discard(),
            Self::Rows(output) => output.discard(),
        }
    }

    #[inline]
    fn record(&mut self, _: &Rows, record: RecordSpan) -> anyhow::Result<()> {
        let Some(output) = self.row_output() else { return Ok(()) };
        let range = record.range();
        match output.chosen.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => output.chosen.push(range),
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> anyhow::Result<()> {
        self.text().map_or(Ok(()), |output| output.line(line))
    }

    fn end_block(&mut self, records: &Rows) -> anyhow::Result<()> {
        if let Some(output) = self.row_output() {
            let path = output.path.clone();
            output.end_block(records.batch()).with_context(|| writing(path.as_deref()))?;
        }
        self.text().map_or(Ok(()), |output| output.end_block(&Block::default()))
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        if let Some(RowOutput { writer: Some(writer), path, .. }) = self.row_output() {
            writer.flush().map_err(file_error).with_context(|| writing(path.as_deref()))?;
        }
        self.text().map_or(Ok(()), FileOutput::flush)
    }

    fn sync(&mut self) -> anyhow::Result<()> {
        self.flush()?;
        if let Some(RowOutput { file: RowFile::InPlace { file, .. }, path, .. }) = self.row_output()
            && file.metadata().is_ok_and(|found| found.is_file())
        {
            file.sync_data().with_context(|| writing(path.as_deref()))?;
        }
        self.text().map_or(Ok(()), FileOutput::sync)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let Some(output) = self.row_output() else { return Ok(()) };
        let path = output.path.clone();
        output.finish().with_context(|| writing(path.as_deref()))
    }

    fn publish(&mut self) -> anyhow::Result<()> {
        let Some(output) = self.row_output() else { return Ok(()) };
        let path = output.path.clone();
        output.publish().with_context(|| writing(path.as_deref()))
    }
}

/// Passes bytes on to a sink, which writes each piece as a whole or not at all.
struct SinkWriter(Sink);

impl Write for SinkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
