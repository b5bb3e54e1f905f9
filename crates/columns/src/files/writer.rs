//! Writes rows in the form of the file that they come from.

use std::io::Write;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::writer::StreamEncoder;
use arrow_schema::DataType;
use parquet::arrow::ArrowWriter;

use super::error::unwritable;
use super::unharmed::unharmed;
use super::{FileError, Template};

/// Writes rows to a file or a stream. A Parquet file can be read only after [`finish`](Self::finish). In a stream of
/// Arrow, each call of [`write`](Self::write) writes a batch that can be read at once.
pub struct RowWriter<W: Write + Send> {
    encoder: Encoder<W>,
}

enum Encoder<W: Write + Send> {
    Parquet(Box<ArrowWriter<W>>),
    Arrow { stream: Box<StreamEncoder>, to: W },
}

impl<W: Write + Send> RowWriter<W> {
    /// Begins a file that is written like that of `template`.
    ///
    /// # Errors
    /// Returns a [`FileError`] if rows with this schema cannot be written.
    pub fn new(to: W, template: &Template) -> Result<Self, FileError> {
        let schema = template.schema();
        let encoder = match template.parquet_options() {
            Some(options) => {
                let writer = ArrowWriter::try_new_with_options(to, Arc::clone(schema), options);
                Encoder::Parquet(Box::new(writer.map_err(unwritable)?))
            }
            None => Encoder::Arrow { stream: Box::new(StreamEncoder::try_new(schema).map_err(unwritable)?), to },
        };
        Ok(Self { encoder })
    }

    /// Writes rows.
    ///
    /// # Errors
    /// Returns a [`FileError`] if the rows cannot be written.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<(), FileError> {
        match &mut self.encoder {
            Encoder::Parquet(writer) => unharmed(|| writer.write(rows).map_err(unwritable)),
            Encoder::Arrow { stream, to } => {
                let parts = unharmed(|| stream.encode(&compact(rows)).map_err(unwritable))?;
                Ok(to.write_all(&joined(&parts))?)
            }
        }
    }

    /// Passes the batches that were written to the operating system. In a Parquet file, this includes only row groups
    /// that are complete.
    ///
    /// # Errors
    /// Returns a [`FileError`] if the bytes cannot be written.
    pub fn flush(&mut self) -> Result<(), FileError> {
        match &mut self.encoder {
            Encoder::Parquet(writer) => Ok(writer.inner_mut().flush()?),
            Encoder::Arrow { to, .. } => Ok(to.flush()?),
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Returns a [`FileError`] if the end cannot be written. The file cannot be read then.
    pub fn finish(self) -> Result<W, FileError> {
        match self.encoder {
            Encoder::Parquet(writer) => unharmed(|| writer.into_inner().map_err(unwritable)),
            Encoder::Arrow { stream, mut to } => {
                let parts = stream.finish().map_err(unwritable)?;
                to.write_all(&joined(&parts))?;
                to.flush()?;
                Ok(to)
            }
        }
    }
}

/// Returns the same rows, whose views keep only the bytes that they refer to. The views of a few rows would otherwise
/// be written with all bytes of the batch that the rows were taken from.
fn compact(rows: &RecordBatch) -> RecordBatch {
    let columns = rows.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()) as ArrayRef,
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()) as ArrayRef,
        _ => ArrayRef::clone(column),
    });
    // The types are those of the schema, because each column keeps its type.
    RecordBatch::try_new(rows.schema(), columns.collect()).unwrap_or_else(|_| rows.clone())
}

/// Joins the parts of a batch, so that it is written as a whole or not at all.
fn joined(parts: &[Buffer]) -> Vec<u8> {
    parts.iter().map(Buffer::as_slice).collect::<Vec<_>>().concat()
}
