//! Opens Parquet files.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::ChunkReader;

use super::{BATCH_BYTES, BATCH_ROWS_MAX, FileError, Template};

/// A Parquet file that is open.
pub(super) struct Opened {
    pub(super) reader: ParquetRecordBatchReader,
    pub(super) template: Template,
    pub(super) rows_total: u64,
}

pub(super) fn open(file: impl ChunkReader + 'static) -> Result<Opened, FileError> {
    let found = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())?;
    let schema = with_views(found.schema());
    let options = ArrowReaderOptions::new().with_schema(Arc::clone(&schema));
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(found.metadata()), options)?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
    let batch_rows = batch_rows(found.metadata());
    let rows_total = u64::try_from(found.metadata().file_metadata().num_rows())
        .map_err(|_| FileError::Undecodable("its index has a negative number of rows".to_owned()))?;
    let template = Template::parquet(&schema, found.metadata());
    let reader = builder.with_batch_size(batch_rows).build()?;
    Ok(Opened { reader, template, rows_total })
}

/// Returns the same schema with views in place of texts and bytes. A view refers to the bytes of a page. Otherwise, a
/// long text that occurs in many rows would be copied for each of them.
fn with_views(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let data_type = match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
            other => other.clone(),
        };
        Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone())
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Returns the number of rows that are decoded at once, so that a batch of large rows does not fill the memory.
fn batch_rows(metadata: &ParquetMetaData) -> usize {
    let row_bytes = metadata.row_groups().iter().filter_map(|group| {
        let rows = u64::try_from(group.num_rows()).ok().filter(|rows| *rows > 0)?;
        u64::try_from(group.total_byte_size()).ok().map(|bytes| bytes / rows)
    });
    let row_bytes = row_bytes.max().unwrap_or(0).max(1);
    usize::try_from(BATCH_BYTES / row_bytes).unwrap_or(BATCH_ROWS_MAX).clamp(1, BATCH_ROWS_MAX)
}
