//! Verdicts as Python objects.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyList};

use crate::{code, error};

/// What a call does with events that cannot be judged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unjudged {
    Pass,
    Drop,
    Fail,
}

impl Unjudged {
    /// Returns the choice with this name.
    pub(crate) fn named(name: &str) -> PyResult<Self> {
        match name {
            "pass" => Ok(Self::Pass),
            "drop" => Ok(Self::Drop),
            "fail" => Ok(Self::Fail),
            other => Err(PyValueError::new_err(format!("unjudged: `{other}` must be pass, drop or fail"))),
        }
    }
}

/// Returns the verdict with this number.
pub(crate) fn verdict(py: Python<'_>, code: u8) -> PyResult<Bound<'_, PyAny>> {
    py.import("firstseen._verdict")?.getattr("Verdict")?.call1((code,))
}

/// Returns which events are passed on.
pub(crate) fn mask<'py>(py: Python<'py>, codes: &[u8], unjudged: Unjudged) -> PyResult<Bound<'py, PyAny>> {
    if unjudged == Unjudged::Fail
        && let Some((event, code)) = codes.iter().enumerate().find(|(_, code)| **code > code::FIRST_SEEN)
    {
        return Err(undecided(py, *code, event, codes));
    }
    let passed = u8::from(unjudged == Unjudged::Pass);
    let mask: Vec<u8> = codes.iter().map(|code| if *code > code::FIRST_SEEN { passed } else { *code }).collect();
    numbers(py, &mask, "bool")
}

/// Returns numbers as an array of numpy, or as a list if numpy is not installed.
pub(crate) fn numbers<'py>(py: Python<'py>, numbers: &[u8], dtype: &str) -> PyResult<Bound<'py, PyAny>> {
    let Ok(numpy) = py.import("numpy") else {
        let all = match dtype {
            "bool" => PyList::new(py, numbers.iter().map(|number| *number != 0))?,
            _ => PyList::new(py, numbers)?,
        };
        return Ok(all.into_any());
    };
    let bytes = PyByteArray::new(py, numbers);
    numpy.call_method1("frombuffer", (bytes, dtype))
}

/// Returns the error about an event that cannot be judged. `codes` are the verdicts on all events of the call.
pub(crate) fn undecided(py: Python<'_>, code: u8, event: usize, codes: &[u8]) -> PyErr {
    let described = verdict(py, code).and_then(|verdict| verdict.getattr("reason")?.extract::<String>());
    let verdicts = numbers(py, codes, "uint8");
    match (described, verdicts) {
        (Ok(reason), Ok(verdicts)) => {
            error::undecided(py, &format!("event {event} cannot be judged: {reason}"), &verdicts, code == code::FULL)
        }
        (Err(error), _) | (_, Err(error)) => error,
    }
}
