//! Keys and times in Arrow arrays, such as those of pyarrow, polars, pandas and DuckDB. Arrays without a dictionary are
//! not copied.

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampMillisecondType};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, TimeUnit};
use firstseen_columns::{ChunkedColumn, Column};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3_arrow::PyChunkedArray;
use pyo3_arrow::input::AnyArray;

use crate::moment::{of_seconds, since_1970};

/// An Arrow array in parts.
pub(crate) struct Chunks(Vec<ArrayRef>);

impl Chunks {
    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|chunk| chunk.len()).sum()
    }
}

/// Reads an object that offers an Arrow array. `None` means that it offers none.
pub(crate) fn array(object: &Bound<'_, PyAny>) -> PyResult<Option<Chunks>> {
    if !object.hasattr("__arrow_c_stream__")? && !object.hasattr("__arrow_c_array__")? {
        return Ok(None);
    }
    let array: PyChunkedArray = object.extract::<AnyArray>()?.into_chunked_array()?;
    let (chunks, _) = array.into_inner();
    Ok(Some(Chunks(chunks)))
}

/// Returns the column of keys in an array.
pub(crate) fn column(Chunks(chunks): &Chunks) -> PyResult<ChunkedColumn> {
    let columns = chunks.iter().map(|chunk| match Column::new(chunk).map_err(unreadable)? {
        // A whole float of Python is an integer, and others are rarely meant as keys.
        Some(column) if !chunk.data_type().is_floating() => Ok(column),
        _ => Err(PyTypeError::new_err(format!(
            "a key cannot have the Arrow type {}: cast the column to strings, bytes or integers",
            chunk.data_type()
        ))),
    });
    columns.collect::<PyResult<Vec<Column>>>().map(ChunkedColumn::new)
}

/// Reads the times of events: timestamps, or numbers of seconds since 1970. A timestamp without a time zone is in UTC.
pub(crate) fn times_ms(Chunks(chunks): &Chunks) -> PyResult<Vec<Option<u64>>> {
    let mut times = Vec::with_capacity(chunks.iter().map(|chunk| chunk.len()).sum());
    for chunk in chunks {
        // The values of a dictionary, if the array has one.
        let chunk = match chunk.data_type() {
            DataType::Dictionary(_, values) => &cast(chunk, values).map_err(unreadable)?,
            _ => chunk,
        };
        match chunk.data_type() {
            DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 | DataType::Null => {
                let moments = cast(chunk, &DataType::Timestamp(TimeUnit::Millisecond, None)).map_err(unreadable)?;
                let moments = moments.as_primitive::<TimestampMillisecondType>().iter();
                let moments = moments.map(|ms| ms.map(since_1970).transpose());
                times.extend(moments.collect::<PyResult<Vec<_>>>()?);
            }
            kind if kind.is_numeric() => {
                let seconds = cast(chunk, &DataType::Float64).map_err(unreadable)?;
                let seconds = seconds.as_primitive::<Float64Type>().iter();
                let seconds = seconds.map(|seconds| seconds.map_or(Ok(None), of_seconds));
                times.extend(seconds.collect::<PyResult<Vec<_>>>()?);
            }
            kind => {
                return Err(PyTypeError::new_err(format!(
                    "at: times cannot have the Arrow type {kind}: cast the column to timestamps, or to seconds since 1970"
                )));
            }
        }
    }
    Ok(times)
}

fn unreadable(error: ArrowError) -> PyErr {
    PyValueError::new_err(format!("cannot read the Arrow array: {error}"))
}
