//! Plans filters.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error;
use crate::settings::Settings;

/// Returns what a filter with these settings would be, without building it.
///
/// The result has the keys `kind`, `window`, `capacity` (events of one window, or `None` if the filter grows as needed),
/// `fpr`, and `memory_bytes` (the cells; a filter that grows begins with this size).
///
/// >>> import firstseen
/// >>> firstseen.plan(window="24h", capacity=1_000_000, fpr=0.01)["kind"]
/// 'cuckoo'
#[pyfunction]
#[pyo3(signature = (*, window = "unbounded", capacity = None, fpr = 0.01, kind = None, memory = None, lateness = None))]
pub(crate) fn plan<'py>(
    py: Python<'py>,
    window: &str,
    capacity: Option<u64>,
    fpr: f64,
    kind: Option<&str>,
    memory: Option<u64>,
    lateness: Option<&str>,
) -> PyResult<Bound<'py, PyDict>> {
    let settings = Settings { window, capacity, fpr, kind, memory, lateness, future_max: None, rule: "fixed", seed: 0 };
    let definition = settings.definition().map_err(|text| error::definition(py, &text))?;
    let plan = PyDict::new(py);
    plan.set_item("kind", definition.group.cells.kind().to_string())?;
    plan.set_item("window", definition.group.window.to_string())?;
    plan.set_item("capacity", definition.group.capacity_events)?;
    plan.set_item("fpr", definition.group.rate)?;
    plan.set_item("memory_bytes", definition.group.bytes())?;
    Ok(plan)
}
