//! Reads and writes files whose records are rows.
//!
//! A [`RowReader`] delivers the rows of a file in batches of bounded size, whatever the size of its row groups. Its
//! [`Template`] describes how the file is written, and a [`RowWriter`] writes rows in the same way.

mod arrow;
mod error;
mod parquet;
mod template;
mod unharmed;
mod writer;

use std::fmt;
use std::io::{Read, Seek};

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use ::parquet::file::reader::ChunkReader;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use arrow::{FILE_MAGIC, FileBatches, StreamBatches, has_magic};
use unharmed::unharmed;

pub use error::FileError;
pub use template::Template;
pub use writer::RowWriter;

/// Maximum number of rows in a batch.
pub(crate) const BATCH_ROWS_MAX: usize = 1 << 14;
/// Number of bytes that a batch has at most if all rows have the same size.
pub(crate) const BATCH_BYTES: u64 = 2 << 20;

/// Format of a file whose records are rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnFormat {
    /// A file of Apache Parquet. It ends with its index, so a reader needs the whole file.
    Parquet,
    /// A stream of Apache Arrow (IPC). Files of Arrow (Feather version 2) can be read too.
    Arrow,
}

impl ColumnFormat {
    /// All formats, in the order in which help texts list them.
    pub const ALL: [Self; 2] = [Self::Parquet, Self::Arrow];

    /// Number of bytes at the beginning of a file that [`of_bytes`](Self::of_bytes) needs.
    pub const HEAD_BYTES: usize = 6;

    /// Returns the format of a file that begins with `head`. A stream of Arrow has no mark, so it is not recognised.
    pub fn of_bytes(head: &[u8]) -> Option<Self> {
        // `PARE` begins a file whose index is encrypted.
        if head.starts_with(b"PAR1") || head.starts_with(b"PARE") {
            Some(Self::Parquet)
        } else if head.starts_with(FILE_MAGIC) {
            Some(Self::Arrow)
        } else {
            None
        }
    }

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
        }
    }
}

impl fmt::Display for ColumnFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads the rows of one file in batches.
pub struct RowReader {
    source: Source,
    template: Template,
    /// Rest of a batch that is delivered in parts, and the number of rows of a part.
    rest: Option<(RecordBatch, usize)>,
    rows_read: u64,
    rows_total: Option<u64>,
}

enum Source {
    Parquet(ParquetRecordBatchReader),
    ArrowStream(Box<StreamBatches<Box<dyn Read + Send>>>),
    ArrowFile(Box<FileBatches<Box<dyn ReadSeek>>>),
}

/// A file in which a reader can go back and forth.
trait ReadSeek: Read + Seek + Send {}

impl<F: Read + Seek + Send> ReadSeek for F {}

impl RowReader {
    /// Opens a Parquet file.
    ///
    /// # Errors
    /// Returns a [`FileError`] if the file cannot be read, or if its index is damaged.
    pub fn parquet(file: impl ChunkReader + 'static) -> Result<Self, FileError> {
        let opened = unharmed(|| parquet::open(file))?;
        let parquet::Opened { reader, template, rows_total } = opened;
        Ok(Self { source: Source::Parquet(reader), template, rest: None, rows_read: 0, rows_total: Some(rows_total) })
    }

    /// Opens a stream of Arrow, and reads its schema.
    ///
    /// # Errors
    /// Returns a [`FileError`] if the stream cannot be read, or if it does not begin with a schema.
    pub fn arrow(stream: Box<dyn Read + Send>) -> Result<Self, FileError> {
        let batches = Box::new(unharmed(|| StreamBatches::open(stream))?);
        let template = Template::arrow(SchemaRef::clone(batches.schema()));
        Ok(Self { source: Source::ArrowStream(batches), template, rest: None, rows_read: 0, rows_total: None })
    }

    /// Opens a file of Arrow, or a file that contains a stream.
    ///
    /// # Errors
    /// Returns a [`FileError`] if the file cannot be read, or if its schema is damaged.
    pub fn arrow_file(mut file: impl Read + Seek + Send + 'static) -> Result<Self, FileError> {
        if !has_magic(&mut file)? {
            return Self::arrow(Box::new(file));
        }
        let file: Box<dyn ReadSeek> = Box::new(file);
        let batches = Box::new(unharmed(|| FileBatches::open(file))?);
        let template = Template::arrow(SchemaRef::clone(batches.schema()));
        Ok(Self { source: Source::ArrowFile(batches), template, rest: None, rows_read: 0, rows_total: None })
    }

    /// Returns the schema of the rows.
    pub fn schema(&self) -> &SchemaRef {
        self.template.schema()
    }

    /// Returns how the file is written, for writers of files with the same rows.
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// Returns the number of rows that were read so far.
    pub fn rows_read(&self) -> u64 {
        self.rows_read
    }

    /// Returns the number of rows in the file, if its index has it.
    pub fn rows_total(&self) -> Option<u64> {
        self.rows_total
    }

    /// Reads the next rows, at most 16,384 of them. `None` means that the file has no further rows.
    ///
    /// # Errors
    /// Returns a [`FileError`] if the file cannot be read, or if it is damaged.
    pub fn read(&mut self) -> Result<Option<RecordBatch>, FileError> {
        let (batch, part_rows) = match self.rest.take() {
            Some(rest) => rest,
            None => match self.next_batch()? {
                Some(batch) => {
                    let part_rows = rows_per_part(&batch);
                    (batch, part_rows)
                }
                None => return Ok(None),
            },
        };
        let rows = batch.num_rows();
        let first = rows.min(part_rows);
        if first < rows {
            self.rest = Some((batch.slice(first, rows - first), part_rows));
        }
        self.rows_read += first as u64;
        Ok(Some(batch.slice(0, first)))
    }

    /// Returns the next batch of the file that has rows.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, FileError> {
        let Self { source, .. } = self;
        loop {
            let batch = unharmed(|| match source {
                Source::Parquet(reader) => reader.next().transpose().map_err(FileError::from),
                Source::ArrowStream(batches) => batches.next(),
                Source::ArrowFile(batches) => batches.next(),
            });
            match batch? {
                Some(batch) if batch.num_rows() == 0 => {}
                batch => return Ok(batch),
            }
        }
    }
}

/// Returns the number of rows of the parts in which a batch is delivered. A batch of a stream may be of any size.
fn rows_per_part(batch: &RecordBatch) -> usize {
    let bytes: usize =
        batch.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or_default()).sum();
    let row_bytes = (bytes / batch.num_rows().max(1)).max(1) as u64;
    usize::try_from(BATCH_BYTES / row_bytes).unwrap_or(BATCH_ROWS_MAX).clamp(1, BATCH_ROWS_MAX)
}
