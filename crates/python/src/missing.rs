//! Values that stand for missing ones.

use pyo3::prelude::*;
use pyo3::types::PyFloat;

/// Returns whether a value stands for a missing one: `None`, NaN, or the markers of pandas.
pub(crate) fn is_missing(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(number.value().is_nan());
    }
    if value.is_none() {
        return Ok(true);
    }
    let kind = value.get_type().name()?;
    Ok(kind == "NAType" || kind == "NaTType")
}
