//! Parses batches of rows into events.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use firstseen_filter::FilterSecret;
use firstseen_records::{ParsedBlock, ParserConfig, RecordSpan, RejectReason};

use crate::column::{Column, Values};
use crate::error::ColumnError;
use crate::key::{Key, KeyHasher, RowKey};
use crate::path::ColumnPath;
use crate::rows::Rows;
use crate::text::Text;
use crate::time::TimeColumn;

/// Parser that converts batches of rows with one schema into events.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
/// use firstseen_columns::RowParser;
/// use firstseen_filter::FilterSecret;
/// use firstseen_records::{ParsedBlock, ParserConfig, RecordFormat};
///
/// let user: ArrayRef = Arc::new(StringArray::from(vec![Some("ann"), None, Some("bob")]));
/// let time: ArrayRef = Arc::new(Int64Array::from(vec![1_700_000_000, 1_700_000_001, 1_700_000_002]));
/// let batch = RecordBatch::try_from_iter([("user", user), ("time", time)])?;
///
/// let config = ParserConfig {
///     key: vec!["user".into()],
///     time: Some("time".into()),
///     ..ParserConfig::new(RecordFormat::Lines)
/// };
/// let secret = FilterSecret::from_seed(1);
/// let mut parser = RowParser::new(&config, batch.schema_ref(), secret.clone())?;
/// let mut parsed = ParsedBlock::default();
/// let (rows, refusal) = parser.parse(batch, 0, &mut parsed)?;
/// assert_eq!(parsed.digests(), [secret.digest(b"ann"), secret.digest(b"bob")]);
/// assert_eq!(parsed.times_ms(), [1_700_000_000_000, 1_700_000_002_000]);
/// assert_eq!(parsed.rejections()[0].reason.name(), "no_key");
/// assert!(refusal.is_none() && rows.batch().num_rows() == 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RowParser {
    key: Arc<Key>,
    names: Vec<Arc<str>>,
    time: Option<TimeColumn>,
    source: Option<ColumnPath>,
    secret: FilterSecret,
    hasher: KeyHasher,
    text: Text,
}

impl RowParser {
    /// Creates a parser whose digests are computed with `secret`. The settings of `config` for text formats are not
    /// used: [`format`](ParserConfig::format), [`separator`](ParserConfig::separator),
    /// [`no_header`](ParserConfig::no_header) and [`ragged`](ParserConfig::ragged).
    ///
    /// # Errors
    /// Returns a [`ColumnError`] if a column or the time zone does not exist, or if the type of a column does not suit.
    pub fn new(config: &ParserConfig, schema: &Schema, secret: FilterSecret) -> Result<Self, ColumnError> {
        let key = Arc::new(Key::new(config, schema)?);
        let source = config.source.as_ref().map(|name| ColumnPath::find(name, schema)).transpose()?;
        if let Some(source) = source.as_ref().filter(|source| !Column::accepts(source.data_type())) {
            let data_type = source.data_type().clone();
            return Err(ColumnError::KeyType { column: source.name().to_owned(), data_type });
        }
        Ok(Self {
            names: key.names().map(Arc::from).collect(),
            time: TimeColumn::new(config, schema)?,
            key,
            source,
            secret,
            hasher: KeyHasher::default(),
            text: Text::default(),
        })
    }

    /// Returns the names of the columns that form the key if the key is the whole row, or all of it except some
    /// columns. `None` means that the configuration names the columns of the key.
    pub fn whole_row(&self) -> Option<&[Arc<str>]> {
        self.key.is_whole().then_some(&self.names)
    }

    /// Prepares the parser for the rest of an input whose beginning was parsed by an earlier process. `time_ms` is the
    /// last time that the earlier process read, in milliseconds since 1970.
    pub fn continue_from(&mut self, time_ms: i64) {
        if let Some(time) = &mut self.time {
            time.continue_from(time_ms);
        }
    }

    /// Parses the rows of `batch` into `parsed`, whose previous content is lost. `first_row` is the number of rows
    /// before this batch in its file.
    ///
    /// If a row has no key and the configuration asks to end the input there, `parsed` has the rows before it, and the
    /// function also returns the error for this row.
    ///
    /// # Errors
    /// Returns an [`ArrowError`] if the schema of the batch is not that of the parser, or if the values of a column are
    /// damaged.
    pub fn parse(
        &mut self,
        batch: RecordBatch,
        first_row: u64,
        parsed: &mut ParsedBlock,
    ) -> Result<(Rows, Option<ColumnError>), ArrowError> {
        parsed.clear();
        let columns = self.key.columns(&batch)?;
        let source = self.source.as_ref().map(|path| path.column(&batch)).transpose()?;
        let source = source.as_ref().map(Column::new).transpose()?.flatten();
        let times = self.time.as_ref().map(|time| time.read(&batch)).transpose()?;
        let values: Vec<Values<'_>> = columns.iter().map(Column::values).collect();
        let mut refusal = None;
        for row in 0..batch.num_rows() {
            // A batch has at most `BATCH_ROWS_MAX` rows.
            let place = row as u32;
            let span = RecordSpan { start: place, end: place + 1, line: first_row + row as u64 + 1 };
            let digest = match self.hasher.hash(&self.key, &values, row, &self.secret) {
                RowKey::Digest(digest) => digest,
                RowKey::Missing(column) => {
                    let field = Arc::clone(&self.names[column]);
                    if self.key.ends_input() {
                        refusal = Some(ColumnError::EmptyKey { row: span.line, column: field });
                        break;
                    }
                    parsed.reject(span, RejectReason::NoKey { field });
                    continue;
                }
            };
            let time_ms = match (&mut self.time, &times) {
                (Some(time), Some(times)) => match time.time_ms(times, row, &mut self.text) {
                    Ok(time_ms) => Some(time_ms),
                    Err(reason) => {
                        parsed.reject(span, reason);
                        continue;
                    }
                },
                _ => None,
            };
            parsed.push(span, digest, time_ms);
            if let Some(source) = &source {
                parsed.push_source(source.values().get(row, &mut self.text));
            }
        }
        Ok((Rows::new(batch, Arc::clone(&self.key), columns), refusal))
    }
}
