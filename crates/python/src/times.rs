//! Times of events. Python programs give them as seconds since 1970 or as `datetime`, and Arrow arrays as timestamps.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyAnyMethods, PyFloat, PyInt};

use crate::arrow;
use crate::missing::is_missing;
use crate::moment::{of_seconds, since_1970};

/// Times of the events of a call, in milliseconds since 1970.
pub(crate) enum Times {
    /// The caller named no times: all events happen now.
    Now,
    /// All events have this time.
    One(u64),
    /// Each event has a time of its own. `None` means that it has none.
    Each(Vec<Option<u64>>),
}

impl Times {
    /// Returns the number of events for which there are times, or `None` for any number.
    pub(crate) fn events(&self) -> Option<usize> {
        match self {
            Self::Now | Self::One(_) => None,
            Self::Each(times) => Some(times.len()),
        }
    }

    /// Returns the error about a call with this number of events, for which there are not as many times.
    pub(crate) fn wrong_length(&self, events: usize) -> PyErr {
        let times = self.events().unwrap_or(0);
        PyValueError::new_err(format!("at: there are {times} times for {events} events"))
    }

    /// Returns the time of an event.
    pub(crate) fn of(&self, event: usize, now_ms: u64) -> Option<u64> {
        match self {
            Self::Now => Some(now_ms),
            Self::One(time_ms) => Some(*time_ms),
            Self::Each(times) => times.get(event).copied().flatten(),
        }
    }

    /// Reads the argument `at` of a call for one event.
    pub(crate) fn of_one(at: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(at) = at else { return Ok(Self::Now) };
        match time_ms(at)? {
            Some(time_ms) => Ok(Self::One(time_ms)),
            None => Err(PyValueError::new_err("at: the time is missing")),
        }
    }

    /// Reads the argument `at` of a call for a batch: one time for all events, or a time for each of them.
    pub(crate) fn of_batch(at: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(at) = at else { return Ok(Self::Now) };
        if let Some(array) = arrow::array(at)? {
            return arrow::times_ms(&array).map(Self::Each);
        }
        if is_time(at) {
            return Self::of_one(Some(at));
        }
        let Ok(times) = at.try_iter() else { return Self::of_one(Some(at)) };
        times.map(|time| time_ms(&time?)).collect::<PyResult<_>>().map(Self::Each)
    }
}

fn is_time(at: &Bound<'_, PyAny>) -> bool {
    at.is_instance_of::<PyFloat>() || at.is_instance_of::<PyInt>() || at.hasattr("timestamp").unwrap_or(false)
}

/// Reads a time. `None` means that the value stands for a missing time.
fn time_ms(at: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if is_missing(at)? {
        return Ok(None);
    }
    let seconds: f64 = if at.is_instance_of::<PyFloat>() || at.is_instance_of::<PyInt>() {
        at.extract()?
    } else if at.hasattr("timestamp")? {
        // `datetime`. One without a time zone is local time, as everywhere in Python.
        at.call_method0("timestamp")?.extract()?
    } else if at.hasattr("astype")? {
        // `numpy.datetime64` and numbers of numpy.
        return of_numpy(at);
    } else {
        return Err(not_a_time(at));
    };
    of_seconds(seconds)
}

fn of_numpy(at: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    let kind: String = at.getattr("dtype")?.getattr("kind")?.extract()?;
    if kind != "M" {
        let seconds: f64 = at.call_method0("item")?.extract().map_err(|_| not_a_time(at))?;
        return of_seconds(seconds);
    }
    let ms: i64 = at.call_method1("astype", ("datetime64[ms]",))?.call_method1("astype", ("int64",))?.extract()?;
    // `NaT` of numpy means that the time is missing.
    if ms == i64::MIN { Ok(None) } else { since_1970(ms).map(Some) }
}

fn not_a_time(at: &Bound<'_, PyAny>) -> PyErr {
    let kind = at.get_type().name().map_or_else(|_| "this type".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!(
        "at: {kind} is not a time: give seconds since 1970 or a datetime, or an array of these"
    ))
}
