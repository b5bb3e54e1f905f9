//! How a file is written: its schema, its metadata, and the compression of its columns.

use arrow_schema::SchemaRef;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Type};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::SchemaDescriptor;

use super::ColumnFormat;

/// How a file of rows is written, taken from a file that was read.
#[derive(Clone, Debug)]
pub struct Template {
    schema: SchemaRef,
    parquet: Option<ParquetTemplate>,
}

/// How a Parquet file is written.
#[derive(Clone, Debug)]
struct ParquetTemplate {
    properties: WriterProperties,
    /// Schema of the file, whose types are more detailed than those of Arrow. `None` means that it has a type that
    /// cannot be written.
    descriptor: Option<SchemaDescriptor>,
    /// Columns with times of 96 bits, which are written with 64 bits.
    converted: Vec<String>,
    /// Whether the file has row groups, which show how its columns are compressed.
    has_groups: bool,
}

impl Template {
    pub(super) fn arrow(schema: SchemaRef) -> Self {
        Self { schema, parquet: None }
    }

    pub(super) fn parquet(schema: &SchemaRef, metadata: &ParquetMetaData) -> Self {
        let file = metadata.file_metadata();
        let of_file = file.key_value_metadata();
        let mut properties = WriterProperties::builder()
            .set_created_by(format!("firstseen version {}", env!("CARGO_PKG_VERSION")))
            .set_max_row_group_bytes(Some(ROW_GROUP_BYTES_MAX))
            .set_key_value_metadata(of_file.cloned());
        if let Some(group) = metadata.row_groups().first() {
            for column in group.columns() {
                let path = column.column_path().clone();
                properties = properties
                    .set_column_compression(path.clone(), compression(column))
                    .set_column_dictionary_enabled(path, column.dictionary_page_offset().is_some());
            }
        }
        let descriptor = file.schema_descr();
        let times = descriptor.columns().iter().filter(|column| column.physical_type() == Type::INT96);
        let converted: Vec<String> = times.map(|column| column.path().string()).collect();
        let parquet = ParquetTemplate {
            properties: properties.build(),
            descriptor: converted.is_empty().then(|| descriptor.clone()),
            converted,
            has_groups: !metadata.row_groups().is_empty(),
        };
        Self { schema: SchemaRef::clone(schema), parquet: Some(parquet) }
    }

    /// Returns the format of the file.
    pub fn format(&self) -> ColumnFormat {
        if self.parquet.is_some() { ColumnFormat::Parquet } else { ColumnFormat::Arrow }
    }

    /// Takes the form of a further file with the same columns, if the file so far does not show how its columns are
    /// compressed. A Parquet file without rows does not.
    pub fn complete_with(&mut self, further: &Self) {
        let is_complete = self.parquet.as_ref().is_none_or(|parquet| parquet.has_groups);
        if !is_complete && further.format() == self.format() {
            self.parquet.clone_from(&further.parquet);
        }
    }

    /// Returns the schema of the rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the names of columns whose times have 96 bits in the file that was read, and are written with 64 bits
    /// (nanoseconds since 1970). This type is obsolete, and cannot be written.
    pub fn converted(&self) -> &[String] {
        self.parquet.as_ref().map_or(&[], |parquet| &parquet.converted)
    }

    /// Returns the options of a writer of Parquet. `None` means that the file is a stream of Arrow.
    pub(super) fn parquet_options(&self) -> Option<ArrowWriterOptions> {
        let parquet = self.parquet.as_ref()?;
        // The schema in the form of Arrow is among the metadata of the file if the file that was read has it.
        let options =
            ArrowWriterOptions::new().with_properties(parquet.properties.clone()).with_skip_arrow_metadata(true);
        Some(match &parquet.descriptor {
            Some(descriptor) => options.with_parquet_schema(descriptor.clone()),
            None => options,
        })
    }
}

/// Size at which a row group ends, which bounds the memory of a writer.
const ROW_GROUP_BYTES_MAX: usize = 16 << 20;

/// Returns how a column is compressed. Two obsolete codecs are replaced by what took their place.
fn compression(column: &ColumnChunkMetaData) -> Compression {
    match column.compression() {
        Compression::LZO => Compression::SNAPPY,
        Compression::LZ4 => Compression::LZ4_RAW,
        other => other,
    }
}
