//! Writes and reads tables for the tests of columns, with the libraries of Apache and without code of this project.

use std::fs::File;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, StringViewBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Date32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow_ipc::CompressionType;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::{KeyValue, ParquetMetaData, SortingColumn};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

/// A click: its user, its number, and its time in seconds since 1970.
pub(crate) type Click = (Option<&'static str>, i64, i64);

/// Time of the first click, in seconds since 1970.
pub(crate) const START_S: i64 = 1_700_000_000;

/// Returns a table of clicks. It also has a list of numbers, which cannot be a key.
pub(crate) fn table(clicks: &[Click]) -> RecordBatch {
    let users: ArrayRef = Arc::new(clicks.iter().map(|(user, ..)| *user).collect::<StringArray>());
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(clicks.iter().map(|(_, number, _)| *number)));
    let times = clicks.iter().map(|(.., time_s)| time_s * 1_000_000);
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC"));
    let mut tags = ListBuilder::new(Int32Builder::new());
    for (place, _) in clicks.iter().enumerate() {
        (0..place % 3).for_each(|tag| tags.values().append_value(tag as i32));
        tags.append(place % 5 != 4);
    }
    let tags: ArrayRef = Arc::new(tags.finish());
    let nullable = true;
    RecordBatch::try_from_iter_with_nullable([
        ("user", users, nullable),
        ("number", numbers, false),
        ("time", times, false),
        ("tags", tags, nullable),
    ])
    .expect("columns of one length")
}

/// Writes a Parquet file with two rows in each group, and with properties that an output must keep.
pub(crate) fn write_parquet(path: &Path, rows: &RecordBatch) {
    let zstd = Compression::ZSTD(ZstdLevel::try_new(3).expect("a level"));
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(2))
        .set_column_compression(ColumnPath::from("user"), zstd)
        .set_column_compression(ColumnPath::from("number"), Compression::SNAPPY)
        .set_column_dictionary_enabled(ColumnPath::from("number"), false)
        .set_sorting_columns(Some(vec![SortingColumn { column_idx: 2, descending: false, nulls_first: false }]))
        .set_key_value_metadata(Some(vec![KeyValue::new("made".to_owned(), "by the test".to_owned())]))
        .build();
    let file = File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).expect("a schema");
    writer.write(rows).expect("rows");
    writer.close().expect("a whole file");
}

/// Reads a Parquet file: its rows, and its index.
pub(crate) fn read_parquet(path: &Path) -> (Vec<RecordBatch>, Arc<ParquetMetaData>) {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file");
    let metadata = Arc::clone(builder.metadata());
    let rows = builder.build().expect("a reader").map(|rows| rows.expect("whole rows")).collect();
    (rows, metadata)
}

/// Returns the clicks of rows, each as its user and its number.
pub(crate) fn clicks(rows: &[RecordBatch]) -> Vec<(Option<String>, i64)> {
    let all = rows.iter().flat_map(|rows| {
        let users = rows.column_by_name("user").expect("a column").as_string::<i32>();
        let numbers = rows.column_by_name("number").expect("a column").as_primitive::<Int64Type>();
        users.iter().zip(numbers).map(|(user, number)| (user.map(str::to_owned), number.expect("a number")))
    });
    all.collect()
}

/// Returns a stream of Arrow, with a batch for each of `tables`.
pub(crate) fn stream(tables: &[RecordBatch]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, &tables[0].schema()).expect("a schema");
    tables.iter().for_each(|rows| writer.write(rows).expect("rows"));
    writer.finish().expect("an end");
    drop(writer);
    bytes
}

/// Returns a file of Arrow, with a batch for each of `tables`.
pub(crate) fn arrow_file(tables: &[RecordBatch]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = FileWriter::try_new(&mut bytes, &tables[0].schema()).expect("a schema");
    tables.iter().for_each(|rows| writer.write(rows).expect("rows"));
    writer.finish().expect("an end");
    drop(writer);
    bytes
}

/// Reads a stream of Arrow.
pub(crate) fn read_stream(bytes: &[u8]) -> Vec<RecordBatch> {
    let reader = StreamReader::try_new(Cursor::new(bytes), None).expect("a stream");
    reader.map(|rows| rows.expect("whole rows")).collect()
}

/// Writes a Parquet file with one row group and without the schema in the form of Arrow.
pub(crate) fn write_with_large_groups(path: &Path, rows: &RecordBatch) {
    let file = File::create(path).expect("a file");
    let options = ArrowWriterOptions::new().with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(file, rows.schema(), options).expect("a schema");
    writer.write(rows).expect("rows");
    writer.close().expect("a whole file");
}

/// Returns a file of Arrow whose values are compressed.
pub(crate) fn compressed_arrow_file(rows: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).expect("a codec");
    let mut writer = FileWriter::try_new_with_options(&mut bytes, &rows.schema(), options).expect("a schema");
    writer.write(rows).expect("rows");
    writer.finish().expect("an end");
    drop(writer);
    bytes
}

/// Returns a table of dates, as days since 1970.
pub(crate) fn dates(days: &[i32]) -> RecordBatch {
    let dates: ArrayRef = Arc::new(Date32Array::from(days.to_vec()));
    RecordBatch::try_from_iter([("date", dates)]).expect("one column")
}

/// Returns a table whose rows have one text of `text_bytes` bytes, which is in memory once, and numbers from 0 to 3.
pub(crate) fn with_one_long_text(rows: usize, text_bytes: usize) -> RecordBatch {
    let mut users = StringViewBuilder::new();
    let block = users.append_block("x".repeat(text_bytes).into_bytes().into());
    let length = u32::try_from(text_bytes).expect("a short text");
    (0..rows).for_each(|_| users.try_append_view(block, 0, length).expect("the whole block"));
    let users: ArrayRef = Arc::new(users.finish());
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row as i64 % 4)));
    RecordBatch::try_from_iter([("user", users), ("number", numbers)]).expect("columns of one length")
}
