//! Keys of events. A key of one part is hashed as its bytes, and a key of several parts as `docs/reference/hashing.md`
//! describes.

use std::ops::Range;

use firstseen_filter::{Digest, FilterSecret, append_part};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyString, PyTuple};

use crate::arrow::{self, Chunks};
use crate::missing::is_missing;

/// Hashes the key of one event. A tuple is a key of several parts.
pub(crate) fn digest(secret: &FilterSecret, key: &Bound<'_, PyAny>) -> PyResult<Option<Digest>> {
    with_key(key, |bytes| secret.digest(bytes))
}

/// Hashes the keys of a batch. With several columns, the key of an event consists of its values in all columns, in
/// order. An event without a key has no digest.
pub(crate) fn digests(secret: &FilterSecret, columns: &[Bound<'_, PyAny>]) -> PyResult<Vec<Option<Digest>>> {
    let mut digests = Vec::new();
    visit_keys(columns, |key| digests.push(key.map(|bytes| secret.digest(bytes))))?;
    Ok(digests)
}

/// Keys of the events of a call, as the bytes that a filter hashes.
#[derive(Default)]
pub(crate) struct KeyBytes {
    bytes: Vec<u8>,
    /// Where the key of each event is in `bytes`. An event without a key has no place.
    places: Vec<Option<Range<usize>>>,
}

impl KeyBytes {
    /// Reads the key of one event. A tuple is a key of several parts.
    pub(crate) fn of_one(key: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut keys = Self::default();
        if with_key(key, |bytes| keys.push(Some(bytes)))?.is_none() {
            keys.push(None);
        }
        Ok(keys)
    }

    /// Reads the keys of a batch, as [`digests`] does.
    pub(crate) fn of_batch(columns: &[Bound<'_, PyAny>]) -> PyResult<Self> {
        let mut keys = Self::default();
        visit_keys(columns, |key| keys.push(key))?;
        Ok(keys)
    }

    /// Returns the number of events.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the bytes of all keys, and takes the places of the keys in these bytes.
    pub(crate) fn take_places(&mut self) -> Vec<Option<Range<usize>>> {
        std::mem::take(&mut self.places)
    }

    /// Returns the bytes of all keys.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn push(&mut self, key: Option<&[u8]>) {
        let place = key.map(|key| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(key);
            start..self.bytes.len()
        });
        self.places.push(place);
    }
}

/// Calls `visit` with the bytes of the key of each event, in order. `None` means that the event has no key.
fn visit_keys(columns: &[Bound<'_, PyAny>], mut visit: impl FnMut(Option<&[u8]>) + Send) -> PyResult<()> {
    let [column] = columns else { return visit_keys_of_parts(columns, visit) };
    if let Some(array) = arrow::array(column)? {
        let columns = [arrow::column(&array)?];
        column.py().detach(|| firstseen_columns::visit_keys(&columns, visit));
        return Ok(());
    }
    for key in events(column)? {
        if with_key(&key?, |bytes| visit(Some(bytes)))?.is_none() {
            visit(None);
        }
    }
    Ok(())
}

fn visit_keys_of_parts(columns: &[Bound<'_, PyAny>], mut visit: impl FnMut(Option<&[u8]>) + Send) -> PyResult<()> {
    let Some(first) = columns.first() else {
        return Err(PyTypeError::new_err("a batch needs at least one column of keys"));
    };
    let columns = columns.iter().map(Values::of).collect::<PyResult<Vec<Values>>>()?;
    check_lengths(columns.iter().map(Values::len))?;
    let arrays = columns.iter().map(Values::array).collect::<Option<Vec<&Chunks>>>();
    if let Some(arrays) = arrays {
        let columns = arrays.into_iter().map(arrow::column).collect::<PyResult<Vec<_>>>()?;
        first.py().detach(|| firstseen_columns::visit_keys(&columns, visit));
        return Ok(());
    }
    let columns = columns.iter().map(Values::bytes).collect::<PyResult<Vec<_>>>()?;
    let events = columns.first().map_or(0, Vec::len);
    let mut key = Vec::new();
    for event in 0..events {
        key.clear();
        let is_whole = columns.iter().all(|column| append_value(column, event, &mut key));
        visit(is_whole.then_some(key.as_slice()));
    }
    Ok(())
}

/// Appends the value of an event in a column to the key of the event. Returns whether the event has a value there.
fn append_value(column: &[Option<Vec<u8>>], event: usize, key: &mut Vec<u8>) -> bool {
    let Some(value) = column.get(event).and_then(Option::as_deref) else { return false };
    append_part(value, key);
    true
}

/// Calls `work` with the bytes of the key of one event. `None` means that the event has no key.
fn with_key<T>(key: &Bound<'_, PyAny>, work: impl FnOnce(&[u8]) -> T) -> PyResult<Option<T>> {
    let Ok(parts) = key.cast::<PyTuple>() else { return with_bytes(key, work) };
    match parts.len() {
        0 => return Err(PyValueError::new_err("a key cannot be an empty tuple")),
        1 => return with_bytes(&parts.get_item(0)?, work),
        _ => {}
    }
    let mut joined = Vec::new();
    for part in parts {
        if with_bytes(&part, |bytes| append_part(bytes, &mut joined))?.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(work(&joined)))
}

/// Values of a column of keys, or of one of several columns.
enum Values {
    /// An Arrow array.
    Array(Chunks),
    /// The bytes of Python objects, which are `None` where a value is missing.
    Bytes(Vec<Option<Vec<u8>>>),
}

impl Values {
    fn of(column: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(array) = arrow::array(column)? {
            return Ok(Self::Array(array));
        }
        let values = events(column)?.map(|value| with_bytes(&value?, <[u8]>::to_vec));
        values.collect::<PyResult<_>>().map(Self::Bytes)
    }

    fn len(&self) -> usize {
        match self {
            Self::Array(array) => array.len(),
            Self::Bytes(values) => values.len(),
        }
    }

    fn array(&self) -> Option<&Chunks> {
        match self {
            Self::Array(array) => Some(array),
            Self::Bytes(_) => None,
        }
    }

    fn bytes(&self) -> PyResult<Vec<Option<Vec<u8>>>> {
        match self {
            Self::Array(array) => Ok(arrow::column(array)?.to_bytes()),
            Self::Bytes(values) => Ok(values.clone()),
        }
    }
}

fn check_lengths(mut lengths: impl Iterator<Item = usize>) -> PyResult<()> {
    let first = lengths.next().unwrap_or(0);
    match lengths.find(|length| *length != first) {
        Some(other) => Err(PyValueError::new_err(format!(
            "the columns of the key have {first} and {other} values: each event needs a value in every column"
        ))),
        None => Ok(()),
    }
}

/// Returns the keys of a batch that is no Arrow array.
fn events<'py>(column: &Bound<'py, PyAny>) -> PyResult<impl Iterator<Item = PyResult<Bound<'py, PyAny>>>> {
    if column.is_instance_of::<PyString>() || column.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err("a batch is a list of keys: write [key], or use observe() for one key"));
    }
    // The scalars of numpy would have to be converted one by one.
    if column.hasattr("tolist")? { column.call_method0("tolist")?.try_iter() } else { column.try_iter() }
}

/// Calls `work` with the bytes of a value. `None` means that the value is missing.
fn with_bytes<T>(value: &Bound<'_, PyAny>, work: impl FnOnce(&[u8]) -> T) -> PyResult<Option<T>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Some(work(text.to_str()?.as_bytes())));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Some(work(bytes.as_bytes())));
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(Some(work(&bytes.to_vec())));
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Some(work(if value.is_true() { b"true" } else { b"false" })));
    }
    if is_missing(value)? {
        return Ok(None);
    }
    if let Some(digits) = digits(value)? {
        return Ok(Some(work(digits.to_str()?.as_bytes())));
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "a key cannot be a {kind}: use str, bytes or int, or a tuple of these for a key of several parts"
    )))
}

/// Returns the decimal digits of an integer, of a number of numpy, or of a float without a fraction, which is what
/// pandas makes of an integer in a column with missing values. Returns `None` for other types.
fn digits<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyString>>> {
    let int = value.py().get_type::<PyInt>();
    let number = if value.hasattr("__index__")? {
        value.call_method0("__index__")?
    } else if value.cast::<PyFloat>().is_ok_and(|number| number.value().fract() == 0.0) {
        int.call1((value,))?
    } else {
        return Ok(None);
    };
    // Subclasses of `int`, such as enums, may print something else.
    Ok(Some(int.call_method1("__repr__", (number,))?.cast_into()?))
}
