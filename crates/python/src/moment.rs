//! Times as milliseconds since 1970.

use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

const MS_PER_S: f64 = 1_000.0;
/// Numbers from here on are taken for milliseconds, as `firstseen dedup` does: they are times after the year 5138.
const SECONDS_MAX: f64 = 1e11;

/// Returns the present time, in milliseconds since 1970.
pub(crate) fn present_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_millis() as u64)
}

/// Returns a time that is given in seconds since 1970. NaN means that the time is missing.
pub(crate) fn of_seconds(seconds: f64) -> PyResult<Option<u64>> {
    if seconds.is_nan() {
        return Ok(None);
    }
    if seconds >= SECONDS_MAX {
        let error = format!("at: {seconds} would be far in the future: give seconds since 1970, not milliseconds");
        return Err(PyValueError::new_err(error));
    }
    if seconds < 0.0 {
        return Err(PyValueError::new_err(format!("at: {seconds} s is before 1970")));
    }
    Ok(Some((seconds * MS_PER_S).round() as u64))
}

/// Returns a time as a number without a sign. The error names a time before 1970.
pub(crate) fn since_1970(ms: i64) -> PyResult<u64> {
    u64::try_from(ms).map_err(|_| PyValueError::new_err(format!("at: {ms} ms is before 1970")))
}
