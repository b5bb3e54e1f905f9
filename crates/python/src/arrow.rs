//! Keys and times in Arrow arrays, such as those of pyarrow, polars, pandas and DuckDB. Arrays without a dictionary are
//! not copied.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampMillisecondType};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, Int8Array, Int16Array,
    Int32Array, Int64Array, LargeBinaryArray, LargeStringArray, StringArray, StringViewArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, TimeUnit};
use firstseen_filter::append_part;
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
    chunks.into_iter().map(plain).collect::<PyResult<_>>().map(|chunks| Some(Chunks(chunks)))
}

/// Returns the array with its values instead of their numbers, if it has a dictionary.
fn plain(array: ArrayRef) -> PyResult<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, values) => cast(&array, values).map_err(unreadable),
        _ => Ok(array),
    }
}

/// A column of keys.
pub(crate) struct Column<'a>(&'a [ArrayRef]);

impl<'a> Column<'a> {
    /// Checks that keys can have the type of this array.
    pub(crate) fn new(Chunks(chunks): &'a Chunks) -> PyResult<Self> {
        match chunks.iter().find(|chunk| Values::of(chunk.as_ref()).is_none()) {
            Some(chunk) => Err(PyTypeError::new_err(format!(
                "a key cannot have the Arrow type {}: cast the column to strings, bytes or integers",
                chunk.data_type()
            ))),
            None => Ok(Self(chunks)),
        }
    }

    /// Returns the bytes of each value, which are `None` where a value is missing.
    pub(crate) fn bytes(&self) -> Vec<Option<Vec<u8>>> {
        let mut text = itoa::Buffer::new();
        self.values().map(|(values, index)| values.get(index, &mut text).map(<[u8]>::to_vec)).collect()
    }

    fn len(&self) -> usize {
        self.0.iter().map(|chunk| chunk.len()).sum()
    }

    fn values(&self) -> impl Iterator<Item = (Values<'a>, usize)> {
        let chunks = self.0.iter().filter_map(|chunk| Some((Values::of(chunk.as_ref())?, chunk.len())));
        chunks.flat_map(|(values, len)| (0..len).map(move |index| (values, index)))
    }
}

/// Calls `visit` with the bytes of the key of each event, in order. The values in row `i` of the columns form the key of
/// event `i`, which is `None` if a value is missing. All columns must have the same length.
pub(crate) fn visit_keys(columns: &[Column<'_>], mut visit: impl FnMut(Option<&[u8]>)) {
    let mut text = itoa::Buffer::new();
    if let [column] = columns {
        column.values().for_each(|(values, index)| visit(values.get(index, &mut text)));
        return;
    }
    let mut walks: Vec<_> = columns.iter().map(Column::values).collect();
    let events = columns.first().map_or(0, Column::len);
    let mut key = Vec::new();
    for _ in 0..events {
        key.clear();
        let mut parts = 0;
        for (values, index) in walks.iter_mut().filter_map(Iterator::next) {
            let Some(value) = values.get(index, &mut text) else { continue };
            append_part(value, &mut key);
            parts += 1;
        }
        visit((parts == columns.len()).then_some(key.as_slice()));
    }
}

/// Values of one chunk, by the type of the array.
#[derive(Clone, Copy)]
enum Values<'a> {
    Text(&'a StringArray),
    LargeText(&'a LargeStringArray),
    TextView(&'a StringViewArray),
    Bytes(&'a BinaryArray),
    LargeBytes(&'a LargeBinaryArray),
    BytesView(&'a BinaryViewArray),
    FixedBytes(&'a FixedSizeBinaryArray),
    Bool(&'a BooleanArray),
    Int8(&'a Int8Array),
    Int16(&'a Int16Array),
    Int32(&'a Int32Array),
    Int64(&'a Int64Array),
    UInt8(&'a UInt8Array),
    UInt16(&'a UInt16Array),
    UInt32(&'a UInt32Array),
    UInt64(&'a UInt64Array),
    /// Every value is missing.
    Null,
}

impl<'a> Values<'a> {
    /// Returns `None` if keys cannot have the type of the array.
    fn of(array: &'a dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Utf8 => Self::Text(array.as_string()),
            DataType::LargeUtf8 => Self::LargeText(array.as_string()),
            DataType::Utf8View => Self::TextView(array.as_string_view()),
            DataType::Binary => Self::Bytes(array.as_binary()),
            DataType::LargeBinary => Self::LargeBytes(array.as_binary()),
            DataType::BinaryView => Self::BytesView(array.as_binary_view()),
            DataType::FixedSizeBinary(_) => Self::FixedBytes(array.as_fixed_size_binary()),
            DataType::Boolean => Self::Bool(array.as_boolean()),
            DataType::Int8 => Self::Int8(array.as_primitive()),
            DataType::Int16 => Self::Int16(array.as_primitive()),
            DataType::Int32 => Self::Int32(array.as_primitive()),
            DataType::Int64 => Self::Int64(array.as_primitive()),
            DataType::UInt8 => Self::UInt8(array.as_primitive()),
            DataType::UInt16 => Self::UInt16(array.as_primitive()),
            DataType::UInt32 => Self::UInt32(array.as_primitive()),
            DataType::UInt64 => Self::UInt64(array.as_primitive()),
            DataType::Null => Self::Null,
            _ => return None,
        })
    }

    /// Returns the bytes of a value, or `None` if the value is missing. Integers are written in decimal, as in text
    /// files.
    fn get<'b>(self, index: usize, text: &'b mut itoa::Buffer) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        match self {
            Self::Text(array) => array.is_valid(index).then(|| array.value(index).as_bytes()),
            Self::LargeText(array) => array.is_valid(index).then(|| array.value(index).as_bytes()),
            Self::TextView(array) => array.is_valid(index).then(|| array.value(index).as_bytes()),
            Self::Bytes(array) => array.is_valid(index).then(|| array.value(index)),
            Self::LargeBytes(array) => array.is_valid(index).then(|| array.value(index)),
            Self::BytesView(array) => array.is_valid(index).then(|| array.value(index)),
            Self::FixedBytes(array) => array.is_valid(index).then(|| array.value(index)),
            Self::Bool(array) => {
                array.is_valid(index).then(|| if array.value(index) { &b"true"[..] } else { b"false" })
            }
            Self::Int8(array) => array.is_valid(index).then(|| text.format(array.value(index)).as_bytes()),
            Self::Int16(array) => array.is_valid(index).then(|| text.format(array.value(index)).as_bytes()),
            Self::Int32(array) => array.is_valid(index).then(|| text.format(array.value(index)).as_bytes()),
            Self::Int64(array) => array.is_valid(index).then(|| text.format(array.value(index)).as_bytes()),
            Self::UInt8(array) => array.is_valid(index).then(|| text.format(array.value(index)).as_bytes()),
            Self::UInt16(array) => array.is_valid(index).then(|| text.format(array.value(index)).as_bytes()),
            Self::UInt32(array) => array.is_valid(index).then(|| text.format(array.value(index)).as_bytes()),
            Self::UInt64(array) => array.is_valid(index).then(|| text.format(array.value(index)).as_bytes()),
            Self::Null => None,
        }
    }
}

/// Reads the times of events: timestamps, or numbers of seconds since 1970. A timestamp without a time zone is in UTC.
pub(crate) fn times_ms(Chunks(chunks): &Chunks) -> PyResult<Vec<Option<u64>>> {
    let mut times = Vec::with_capacity(chunks.iter().map(|chunk| chunk.len()).sum());
    for chunk in chunks {
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
