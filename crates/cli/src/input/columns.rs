//! Reads files of rows one after the other.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use arrow_array::{RecordBatch, RecordBatchOptions};
use firstseen_columns::{ColumnError, ColumnFormat, FileError, RowParser, RowReader, Rows, SchemaRef};

use super::{Batch, FileByFile, Input, is_stdin, is_stream, name, stdin_file_bytes};
use crate::exit::{UsageError, file_error};

/// Files of rows as an input.
pub(crate) struct ColumnFiles {
    files: Vec<PathBuf>,
    format: ColumnFormat,
    /// The first file, which is already open.
    first: Option<OpenFile>,
    parser: RowParser,
    /// Schema of the first file, which all files have.
    schema: SchemaRef,
    /// The file that is being read. `None` before the first call of [`Input::read`].
    current: Option<Current>,
    /// Error with which the input ends after the batch that was read last.
    refusal: Option<UsageError>,
}

/// A file that is open.
pub(crate) struct OpenFile {
    reader: RowReader,
    /// Size of the file. `None` means that it is a stream.
    file_bytes: Option<u64>,
    /// Bytes that were read, for formats whose files do not say how many rows they have.
    read_bytes: Arc<AtomicU64>,
}

/// The file that is being read.
struct Current {
    /// Index of the file.
    file: usize,
    opened: OpenFile,
    /// Total number of bytes of the files before this file.
    before_bytes: u64,
}

impl OpenFile {
    /// Opens a file of rows. `-` means standard input.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, and a [`UsageError`] if it is not of the format.
    pub(crate) fn open(path: &Path, format: ColumnFormat) -> anyhow::Result<Self> {
        let read_bytes = Arc::new(AtomicU64::new(0));
        let opened = match (format, is_stdin(path)) {
            (ColumnFormat::Parquet, true) if stdin_file_bytes().is_none() => {
                let text = "a Parquet file ends with its index, so it cannot be read from a pipe: name the file, or redirect it \
                        (< FILE)";
                return Err(UsageError(text.to_owned()).into());
            }
            (ColumnFormat::Parquet, true) => RowReader::parquet(File::from(io::stdin().as_fd().try_clone_to_owned()?)),
            (ColumnFormat::Parquet, false) => RowReader::parquet(File::open(path)?),
            (ColumnFormat::Arrow, true) => {
                RowReader::arrow(Box::new(Counted { input: io::stdin(), bytes: Arc::clone(&read_bytes) }))
            }
            (ColumnFormat::Arrow, false) => {
                let file = File::open(path)?;
                let is_file = file.metadata()?.is_file();
                let input = Counted { input: file, bytes: Arc::clone(&read_bytes) };
                if is_file { RowReader::arrow_file(input) } else { RowReader::arrow(Box::new(input)) }
            }
        };
        let reader = opened.map_err(|error| match error {
            FileError::Io(error) => anyhow::Error::from(error),
            error => UsageError(format!("it cannot be read as {format}: {error}")).into(),
        })?;
        let file_bytes = if is_stdin(path) { stdin_file_bytes() } else { Some(path.metadata()?.len()) };
        Ok(Self { reader, file_bytes, read_bytes })
    }

    pub(crate) fn reader(&self) -> &RowReader {
        &self.reader
    }

    /// Checks that the file has the columns of the first file.
    ///
    /// # Errors
    /// Returns a [`UsageError`] that names the first difference.
    pub(crate) fn check_columns(&self, first: &SchemaRef) -> anyhow::Result<()> {
        let Some(difference) = difference(first, self.reader.schema()) else { return Ok(()) };
        Err(UsageError(ColumnError::OtherColumns { difference }.to_string()).into())
    }

    /// Returns the number of bytes that were used so far. The bytes of a file are counted by its rows.
    fn input_bytes(&self) -> u64 {
        let rows = self.reader.rows_total().filter(|rows| *rows > 0);
        match self.file_bytes.zip(rows) {
            Some((bytes, rows)) => (u128::from(bytes) * u128::from(self.reader.rows_read()) / u128::from(rows)) as u64,
            None => self.read_bytes.load(Ordering::Relaxed),
        }
    }
}

/// Returns the first difference of two schemas that matters for the rows.
fn difference(first: &SchemaRef, other: &SchemaRef) -> Option<String> {
    let columns = first.fields();
    let others = other.fields();
    if columns.len() != others.len() {
        return Some(format!("it has {} columns instead of {}", others.len(), columns.len()));
    }
    let mut pairs = (1..).zip(columns.iter().zip(others));
    pairs.find_map(|(number, (first, other)): (usize, _)| {
        if first.name() != other.name() {
            Some(format!("column {number} is called `{}` instead of `{}`", other.name(), first.name()))
        } else if !first.data_type().equals_datatype(other.data_type()) {
            Some(format!(
                "the column `{}` has type {} instead of {}",
                first.name(),
                other.data_type(),
                first.data_type()
            ))
        } else if other.is_nullable() && !first.is_nullable() {
            Some(format!("values of the column `{}` may be missing", first.name()))
        } else {
            None
        }
    })
}

impl ColumnFiles {
    /// Creates an input of `files`. `first` is the first of them, whose rows have the given schema.
    pub(crate) fn new(
        files: Vec<PathBuf>,
        format: ColumnFormat,
        first: Option<OpenFile>,
        parser: RowParser,
        schema: SchemaRef,
    ) -> Self {
        Self { files, format, first, parser, schema, current: None, refusal: None }
    }
}

impl FileByFile for ColumnFiles {
    type Records = Rows;

    fn open_next(&mut self) -> anyhow::Result<bool> {
        let file = self.current.as_ref().map_or(0, |current| current.file + 1);
        let before_bytes = self.current.as_ref().map_or(0, Current::input_bytes);
        let Some(path) = self.files.get(file) else { return Ok(false) };
        let opened = match self.first.take() {
            Some(opened) => opened,
            None => OpenFile::open(path, self.format).with_context(|| name(path))?,
        };
        opened.check_columns(&self.schema).with_context(|| name(path))?;
        self.current = Some(Current { file, opened, before_bytes });
        Ok(true)
    }

    fn read_current(&mut self, batch: &mut Batch<Rows>) -> anyhow::Result<bool> {
        let Some(current) = &mut self.current else { return Ok(false) };
        if let Some(refusal) = self.refusal.take() {
            return Err(refusal.into());
        }
        let first_row = current.opened.reader.rows_read();
        let Some(rows) = current.opened.reader.read().map_err(file_error)? else { return Ok(false) };
        // Files may differ in metadata. The rows get the metadata of the first file.
        let options = RecordBatchOptions::new().with_match_field_names(false).with_row_count(Some(rows.num_rows()));
        let columns = rows.columns().to_vec();
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
        let rows = rows.map_err(FileError::from)?;
        let (rows, refusal) = self.parser.parse(rows, first_row, &mut batch.parsed).map_err(FileError::from)?;
        self.refusal = refusal.map(|error| UsageError(error.to_string()));
        batch.block = rows;
        batch.lacking = None;
        batch.file = current.file;
        batch.input_bytes = current.input_bytes();
        Ok(true)
    }

    fn current_name(&self) -> String {
        let file = self.current.as_ref().map_or(0, |current| current.file);
        self.files.get(file).map_or_else(String::new, |path| name(path))
    }
}

impl Current {
    fn input_bytes(&self) -> u64 {
        self.before_bytes + self.opened.input_bytes()
    }
}

impl Input for ColumnFiles {
    type Records = Rows;

    fn is_stream(&self) -> bool {
        is_stream(&self.files)
    }

    fn read(&mut self, batch: &mut Batch<Rows>) -> anyhow::Result<bool> {
        self.read_next(batch)
    }
}

/// Counts the bytes that are read.
struct Counted<R> {
    input: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Seek> Seek for Counted<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.input.seek(to)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
