//! Errors of the package, which are Python exceptions of `firstseen._errors`.

use std::fmt::Display;

use pyo3::prelude::*;
use pyo3::types::PyDict;

const MODULE: &str = "firstseen._errors";

/// The settings of a filter do not fit together.
pub(crate) fn definition(py: Python<'_>, error: &dyn Display) -> PyErr {
    exception(py, "DefinitionError", &error.to_string(), None)
}

/// A file with the state of a filter cannot be read or written. The message contains all causes of the error.
pub(crate) fn state(py: Python<'_>, error: &dyn std::error::Error) -> PyErr {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    exception(py, "StateError", &text, None)
}

/// A cluster cannot be reached, or refuses a call.
pub(crate) fn cluster(py: Python<'_>, error: &dyn Display) -> PyErr {
    exception(py, "ClusterError", &error.to_string(), None)
}

/// An event could not be judged. `codes` are the verdicts on all events of the call.
pub(crate) fn undecided(py: Python<'_>, message: &str, codes: &Bound<'_, PyAny>, is_full: bool) -> PyErr {
    exception(py, if is_full { "FilterFull" } else { "UndecidedError" }, message, Some(codes))
}

fn exception(py: Python<'_>, name: &str, message: &str, codes: Option<&Bound<'_, PyAny>>) -> PyErr {
    match instance(py, name, message, codes) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

fn instance<'py>(
    py: Python<'py>,
    name: &str,
    message: &str,
    codes: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let named = PyDict::new(py);
    if let Some(codes) = codes {
        named.set_item("verdicts", codes)?;
    }
    py.import(MODULE)?.getattr(name)?.call((message,), Some(&named))
}
