//! Records whose values are stored in columns: rows of Apache Arrow, and files of Apache Parquet.
//!
//! A batch of rows becomes events in the same way as a block of text does in `firstseen-records`. The result is a
//! [`ParsedBlock`](firstseen_records::ParsedBlock), in which the span of a record is the number of its row in the
//! batch. A value is hashed as text, so a filter recognises a key of texts and integers in both forms. The page
//! `docs/reference/hashing.md` lists how the value of each type is written.
//!
//! - [`Column`] reads the values of one array, and [`visit_keys`] the keys in several columns.
//! - [`RowParser`] finds the columns of the key and the time in a schema, and parses batches into events.
//! - [`Rows`] is a batch that was parsed, from which outputs take rows.
//! - `RowReader` and `RowWriter` read and write files, with the feature `files`.

mod column;
mod error;
#[cfg(feature = "files")]
mod files;
mod key;
mod parser;
mod path;
mod rows;
mod text;
mod time;

pub use arrow_schema::SchemaRef;
pub use column::{ChunkedColumn, Column, visit_keys};
pub use error::ColumnError;
#[cfg(feature = "files")]
pub use files::{ColumnFormat, FileError, RowReader, RowWriter, Template};
pub use parser::RowParser;
pub use rows::Rows;
