//! Reads the times of rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Schema, TimeUnit};
use firstseen_records::{ParserConfig, RejectReason, TIME_MS_MAX, TimeError, TimeParser, printable_value};

use crate::column::Column;
use crate::error::ColumnError;
use crate::path::ColumnPath;
use crate::text::Text;

/// The column with the times of rows.
#[derive(Clone, Debug)]
pub(crate) struct TimeColumn {
    path: ColumnPath,
    name: Arc<str>,
    kind: TimeKind,
    parser: TimeParser,
}

/// How the times of a column are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeKind {
    /// Timestamps with a time zone, or in UTC.
    Moments,
    /// Timestamps without a time zone, or dates, in the time zone of the parser.
    Local,
    /// Texts or numbers, which are read like the times of text files.
    Written,
}

impl TimeColumn {
    /// Finds the column that the configuration names. `None` means that the configuration asks for no times.
    ///
    /// # Errors
    /// Returns a [`ColumnError`] if there is no such column, or if its values are not times.
    pub(crate) fn new(config: &ParserConfig, schema: &Schema) -> Result<Option<Self>, ColumnError> {
        let Some(name) = &config.time else { return Ok(None) };
        if !config.time_rest.is_empty() {
            return Err(ColumnError::SeveralTimes { columns: 1 + config.time_rest.len() });
        }
        let path = ColumnPath::find(name, schema)?;
        let data_type = path.data_type().clone();
        let is_utc = config.zone.eq_ignore_ascii_case("UTC");
        let kind = match &data_type {
            DataType::Timestamp(_, Some(_)) => TimeKind::Moments,
            DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64 if is_utc => TimeKind::Moments,
            DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64 => TimeKind::Local,
            DataType::Boolean | DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::FixedSizeBinary(_) => {
                return Err(ColumnError::TimeType { column: name.clone(), data_type });
            }
            other if Column::accepts(other) => TimeKind::Written,
            _ => return Err(ColumnError::TimeType { column: name.clone(), data_type }),
        };
        let mut parser = TimeParser::new(&config.zone)?;
        if let Some(format) = &config.time_format {
            if kind != TimeKind::Written {
                return Err(ColumnError::TimeFormat { column: name.clone(), data_type });
            }
            parser = parser.with_format(format.clone());
        }
        Ok(Some(Self { path, name: name.as_str().into(), kind, parser }))
    }

    pub(crate) fn continue_from(&mut self, time_ms: i64) {
        self.parser.continue_from(time_ms);
    }

    /// Reads the times of a batch.
    pub(crate) fn read(&self, batch: &RecordBatch) -> Result<Times, ArrowError> {
        let array = self.path.column(batch)?;
        if self.kind != TimeKind::Written {
            let times_ms = cast(&array, &DataType::Timestamp(TimeUnit::Millisecond, None))?;
            return Ok(Times::Stamps { times_ms: times_ms.as_primitive().clone(), array });
        }
        match Column::new(&array)? {
            Some(column) => Ok(Times::Written(column)),
            None => Err(ArrowError::SchemaError(format!("the type of column `{}` has changed", self.name))),
        }
    }

    /// Returns the time of row `row` in milliseconds since 1970, or why the row has none.
    pub(crate) fn time_ms(&mut self, times: &Times, row: usize, text: &mut Text) -> Result<i64, RejectReason> {
        let missing = RejectReason::MissingField { field: Arc::clone(&self.name) };
        match times {
            Times::Stamps { array, .. } if array.is_null(row) => Err(missing),
            Times::Stamps { times_ms, .. } => {
                // A time that is too far away to be counted in milliseconds has no value.
                let time_ms = if times_ms.is_valid(row) { times_ms.value(row) } else { i64::MIN };
                self.of_stamp(time_ms, text)
            }
            Times::Written(column) => match column.values().get(row, text) {
                Some(value) if !value.trim_ascii().is_empty() => self.of_text(value),
                _ => Err(missing),
            },
        }
    }

    /// Returns the time of a timestamp. `time_ms` is a local time if the timestamp has no zone.
    fn of_stamp(&mut self, time_ms: i64, text: &mut Text) -> Result<i64, RejectReason> {
        let is_accepted = (0..=TIME_MS_MAX).contains(&time_ms);
        match self.kind {
            TimeKind::Local if is_accepted => {
                let local = text.local(i128::from(time_ms) * NANOS_PER_MILLI).to_vec();
                self.of_text(&local)
            }
            _ if is_accepted => Ok(time_ms),
            _ => Err(self.bad(text.integer(time_ms), TimeError::OutOfRange)),
        }
    }

    fn of_text(&mut self, text: &[u8]) -> Result<i64, RejectReason> {
        self.parser.parse_next(text).map_err(|error| self.bad(text, error))
    }

    fn bad(&self, text: &[u8], error: TimeError) -> RejectReason {
        RejectReason::BadTime { field: Arc::clone(&self.name), text: printable_value(text).into(), error }
    }
}

const NANOS_PER_MILLI: i128 = 1_000_000;

/// The times of a batch.
pub(crate) enum Times {
    /// Timestamps or dates.
    Stamps {
        /// The times in milliseconds since 1970.
        times_ms: PrimitiveArray<TimestampMillisecondType>,
        /// The values as they are stored, which says where a time is missing.
        array: ArrayRef,
    },
    Written(Column),
}
