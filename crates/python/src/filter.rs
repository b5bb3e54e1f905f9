//! The class `Filter`.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use firstseen_embedded::{Access, StateHeader, drawn_seed};
use firstseen_filter::{Digest, FilterSecret};
use pyo3::exceptions::PyFileNotFoundError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::batch::Batch;
use crate::engine::{Counts, Engine};
use crate::moment::present_ms;
use crate::settings::Settings;
use crate::times::Times;
use crate::verdicts::{Unjudged, mask, numbers, undecided, verdict};
use crate::{code, error, keys};

/// Key of a filter whose caller names none, as `firstseen dedup` writes it into a state for whole records.
const WHOLE_RECORDS: &str = "whole records";

/// A filter that knows which events it has seen within its window.
///
/// All settings are those of the command `firstseen dedup`:
///
/// - `window`: how long an event counts as seen, such as `"24h"`, `"1000000events"`, `"landmark:day"` or `"unbounded"`.
/// - `capacity`: the number of events of one window. Without it, the filter starts small and grows.
/// - `fpr`: the highest acceptable share of new events that are taken for duplicates.
/// - `kind`: the kind of the filter. By default it is the kind that needs the least memory.
/// - `memory`: the bytes of the cells, instead of a capacity.
/// - `lateness`: how late an event may come and still be judged exactly, such as `"5m"`.
/// - `future_max`: how far the time of one event may be ahead of the times of the others.
/// - `rule`: `"fixed"` measures a window from the first occurrence of an event, `"refresh"` from the last one.
/// - `seed`: the seed of the hash. By default it is random.
/// - `key`: the names of the fields of the key, if `firstseen dedup --key` is to continue a saved filter.
///
/// A filter can be used by several threads. Other Python threads run while it judges a batch.
///
/// >>> import firstseen
/// >>> seen = firstseen.Filter(window="1h", capacity=1000, seed=7)
/// >>> seen.add("a", at=0.0), seen.add("a", at=3_599.0), seen.add("a", at=7_200.0)
/// (True, False, True)
#[pyclass(frozen, module = "firstseen", weakref)]
pub(crate) struct Filter {
    secret: FilterSecret,
    needs_time: bool,
    /// No thread waits for it while it holds Python's lock.
    engine: Mutex<Engine>,
}

impl Filter {
    fn of(engine: Engine) -> Self {
        let secret = FilterSecret::from_seed(engine.header().seed);
        let mut engine = engine;
        let needs_time = engine.judge().filter().needs_time();
        Self { secret, needs_time, engine: Mutex::new(engine) }
    }

    /// Waits until no other call uses the filter. The caller must not hold Python's lock.
    fn engine(&self) -> MutexGuard<'_, Engine> {
        // A call that panicked has left the filter as it was before or after one of its events.
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judged(&self, py: Python<'_>, access: Access, digests: Vec<Option<Digest>>, times: &Times) -> PyResult<Vec<u8>> {
        let events = digests.len();
        let judged = py.detach(|| {
            let mut engine = self.engine();
            let present_ms = present_ms();
            let now_ms = engine.arrival_ms(present_ms);
            let batch = Batch::new(digests, times, now_ms, self.needs_time)?;
            Some(engine.judged(access, batch, present_ms))
        });
        judged.ok_or_else(|| times.wrong_length(events))
    }

    fn judged_one(&self, access: Access, key: &Bound<'_, PyAny>, at: Option<&Bound<'_, PyAny>>) -> PyResult<u8> {
        let digest = keys::digest(&self.secret, key)?;
        let codes = self.judged(key.py(), access, vec![digest], &Times::of_one(at)?)?;
        Ok(codes.first().copied().unwrap_or(code::NO_KEY))
    }

    fn judged_batch<'py>(
        &self,
        access: Access,
        keys: &Bound<'py, PyTuple>,
        at: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Vec<u8>> {
        let columns: Vec<Bound<'py, PyAny>> = keys.iter().collect();
        let digests = keys::digests(&self.secret, &columns)?;
        self.judged(keys.py(), access, digests, &Times::of_batch(at)?)
    }

    /// Judges a batch, and returns which of its events are passed on.
    fn passed_on<'py>(
        &self,
        access: Access,
        keys: &Bound<'py, PyTuple>,
        at: Option<&Bound<'py, PyAny>>,
        unjudged: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let unjudged = Unjudged::named(unjudged)?;
        let codes = self.judged_batch(access, keys, at)?;
        mask(keys.py(), &codes, unjudged)
    }
}

#[pymethods]
impl Filter {
    #[new]
    #[pyo3(signature = (
        *, window = "unbounded", capacity = None, fpr = 0.01, kind = None, memory = None, lateness = None,
        future_max = None, rule = "fixed", seed = None, key = None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        window: &str,
        capacity: Option<u64>,
        fpr: f64,
        kind: Option<&str>,
        memory: Option<u64>,
        lateness: Option<&str>,
        future_max: Option<&str>,
        rule: &str,
        seed: Option<u64>,
        key: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let seed = seed.unwrap_or_else(drawn_seed);
        let settings = Settings { window, capacity, fpr, kind, memory, lateness, future_max, rule, seed };
        let definition = settings.definition().map_err(|text| error::definition(py, &text))?;
        let key = key.map_or_else(|| WHOLE_RECORDS.to_owned(), |names| joined_names(&names));
        let engine = py.detach(|| Engine::new(StateHeader { key, seed, definition }));
        engine.map(Self::of).map_err(|refusal| error::definition(py, &refusal))
    }

    /// Records an event, and returns whether it is new.
    ///
    /// Raises `firstseen.UndecidedError` if the event cannot be judged, for example because it is late, and
    /// `firstseen.FilterFull` if the filter has no room. Without `at`, the event happens now.
    ///
    /// >>> import firstseen
    /// >>> seen = firstseen.Filter(capacity=1000, seed=7)
    /// >>> seen.add("a"), seen.add("a"), seen.add(("user-1", "ad-7"))
    /// (True, False, True)
    #[pyo3(signature = (key, at = None))]
    fn add(&self, key: &Bound<'_, PyAny>, at: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        match self.judged_one(Access::Observe, key, at)? {
            code::FIRST_SEEN => Ok(true),
            code::DUPLICATE => Ok(false),
            other => Err(undecided(key.py(), other, 0, &[other])),
        }
    }

    /// Records an event, and returns a `firstseen.Verdict`, which says why an event could not be judged.
    ///
    /// >>> import firstseen
    /// >>> seen = firstseen.Filter(window="1h", capacity=1000, seed=7)
    /// >>> seen.observe("a", at=100_000.0), seen.observe("b", at=0.0).reason
    /// (<Verdict.FIRST_SEEN: 1>, 'it is older than the window and the lateness allow')
    #[pyo3(signature = (key, at = None))]
    fn observe<'py>(&self, key: &Bound<'py, PyAny>, at: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        verdict(key.py(), self.judged_one(Access::Observe, key, at)?)
    }

    /// Returns the verdict that an event would get, and records nothing. Without `at`, the event would happen now.
    ///
    /// >>> import firstseen
    /// >>> seen = firstseen.Filter(capacity=1000, seed=7)
    /// >>> seen.test("a"), seen.test("a")
    /// (<Verdict.FIRST_SEEN: 1>, <Verdict.FIRST_SEEN: 1>)
    #[pyo3(signature = (key, at = None))]
    fn test<'py>(&self, key: &Bound<'py, PyAny>, at: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        verdict(key.py(), self.judged_one(Access::Lookup, key, at)?)
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.judged_one(Access::Lookup, key, None)? == code::DUPLICATE)
    }

    /// Records the events of a batch, in order, and returns which of them are new: an array of numpy, or a list of bools if
    /// numpy is not installed.
    ///
    /// `keys` are one or more columns of keys: lists, arrays of numpy or Arrow, or columns of polars or pandas. With several
    /// columns, the key of an event consists of its values in all of them. Columns that offer an Arrow array are the fastest.
    ///
    /// `at` is one time for all events, or a column of times. Numbers are seconds since 1970, and timestamps without a time
    /// zone are in UTC. Without `at`, all events happen now.
    ///
    /// `unjudged` says what the result contains for events that cannot be judged, for example because their key is missing or
    /// they are late: `"pass"` (as if they were new, so that none is lost), `"drop"` (as if they were duplicates), or `"fail"`,
    /// which raises `firstseen.UndecidedError` after the batch is recorded.
    ///
    /// >>> import firstseen
    /// >>> seen = firstseen.Filter(window="1h", capacity=1000, seed=7)
    /// >>> [bool(new) for new in seen.observe_batch(["a", "b", "a", None], at=[0.0, 1.0, 2.0, 3.0])]
    /// [True, True, False, True]
    /// >>> [bool(new) for new in seen.observe_batch(["u1", "u1"], ["ad-1", "ad-2"], at=4.0)]
    /// [True, True]
    #[pyo3(signature = (*keys, at = None, unjudged = "pass"))]
    fn observe_batch<'py>(
        &self,
        keys: &Bound<'py, PyTuple>,
        at: Option<&Bound<'py, PyAny>>,
        unjudged: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.passed_on(Access::Observe, keys, at, unjudged)
    }

    /// Returns which events of a batch would be new, and records nothing. The arguments are those of `observe_batch`.
    #[pyo3(signature = (*keys, at = None, unjudged = "pass"))]
    fn test_batch<'py>(
        &self,
        keys: &Bound<'py, PyTuple>,
        at: Option<&Bound<'py, PyAny>>,
        unjudged: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.passed_on(Access::Lookup, keys, at, unjudged)
    }

    /// Records the events of a batch, and returns the numbers of their verdicts (`firstseen.Verdict`): an array of numpy, or a
    /// list if numpy is not installed.
    ///
    /// >>> import firstseen
    /// >>> seen = firstseen.Filter(capacity=1000, seed=7)
    /// >>> [firstseen.Verdict(int(number)).name for number in seen.verdicts(["a", "a", None])]
    /// ['FIRST_SEEN', 'DUPLICATE', 'NO_KEY']
    #[pyo3(signature = (*keys, at = None))]
    fn verdicts<'py>(&self, keys: &Bound<'py, PyTuple>, at: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let codes = self.judged_batch(Access::Observe, keys, at)?;
        numbers(keys.py(), &codes, "uint8")
    }

    /// Replaces the file `path` with this filter, in one atomic step. `firstseen dedup --state` reads the same files.
    ///
    /// Raises `firstseen.StateError` if the file cannot be written, or if a run of `firstseen dedup` uses it.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.engine().save(&path)).map_err(|refusal| error::state(py, &refusal))
    }

    /// Loads a filter that `save` or `firstseen dedup --state` has written.
    ///
    /// Raises `FileNotFoundError` if there is no such file, and `firstseen.StateError` if it is damaged.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        match py.detach(|| Engine::load(&path)) {
            Ok(Some(engine)) => Ok(Self::of(engine)),
            Ok(None) => {
                Err(PyFileNotFoundError::new_err(format!("cannot load {}: there is no such file", path.display())))
            }
            Err(refusal) => Err(error::state(py, &refusal)),
        }
    }

    /// Returns the bytes that `save` writes. `pickle` uses them.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.engine().to_bytes());
        let bytes = bytes.map_err(|refusal| error::state(py, &refusal))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns the filter whose bytes `to_bytes` has returned. Raises `firstseen.StateError` if they are damaged.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        py.detach(|| Engine::from_bytes(data)).map(Self::of).map_err(|refusal| error::state(py, &refusal))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let data = slf.get().to_bytes(py)?;
        Ok((slf.get_type().getattr("from_bytes")?, PyTuple::new(py, [data])?))
    }

    /// Returns the properties of the filter:
    ///
    /// - `kind`, `window` and `capacity`: as the filter was made. `capacity` is `None` if the filter grows as needed.
    /// - `fpr`: the highest acceptable share of new events that are taken for duplicates.
    /// - `expected_fpr`: the share that is expected with the events that the filter contains now.
    /// - `memory_bytes`: the memory of the cells.
    /// - `live_events`: the number of events within the window, or `None` if the kind does not count them.
    /// - `clock`: the time of the latest event in seconds since 1970, or `None` before the first one.
    /// - `first_seen`, `duplicates`, `undecided`: the number of verdicts since the filter was made or loaded.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = py.detach(|| Stats::of(&mut self.engine()));
        stats.dict(py)
    }

    /// Seed of the hash.
    #[getter]
    fn seed(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.engine().header().seed)
    }

    /// Fields of the key, as `firstseen dedup` writes them into a state.
    #[getter]
    fn key(&self, py: Python<'_>) -> String {
        py.detach(|| self.engine().header().key.clone())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let Stats { kind, window, memory_bytes, .. } = py.detach(|| Stats::of(&mut self.engine()));
        format!("<firstseen.Filter {kind}, window {window}, {memory_bytes} bytes>")
    }
}

/// Properties of a filter.
struct Stats {
    kind: String,
    window: String,
    capacity: Option<u64>,
    fpr: f64,
    expected_fpr: f64,
    memory_bytes: u64,
    live_events: Option<u64>,
    clock_s: Option<f64>,
    counts: Counts,
}

impl Stats {
    fn of(engine: &mut Engine) -> Self {
        let group = &engine.header().definition.group;
        let kind = group.cells.kind().to_string();
        let window = group.window.to_string();
        let capacity = group.capacity_events;
        let fpr = group.rate;
        let counts = engine.counts();
        let filter = engine.judge().filter_mut();
        Self {
            kind,
            window,
            capacity,
            fpr,
            expected_fpr: filter.expected_rate(),
            memory_bytes: filter.bytes(),
            live_events: filter.live_events(),
            clock_s: filter.now_ms().map(|ms| ms as f64 / 1_000.0),
            counts,
        }
    }

    fn dict<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = PyDict::new(py);
        stats.set_item("kind", self.kind)?;
        stats.set_item("window", self.window)?;
        stats.set_item("capacity", self.capacity)?;
        stats.set_item("fpr", self.fpr)?;
        stats.set_item("expected_fpr", self.expected_fpr)?;
        stats.set_item("memory_bytes", self.memory_bytes)?;
        stats.set_item("live_events", self.live_events)?;
        stats.set_item("clock", self.clock_s)?;
        stats.set_item("first_seen", self.counts.first_seen)?;
        stats.set_item("duplicates", self.counts.duplicates)?;
        stats.set_item("undecided", self.counts.undecided)?;
        Ok(stats)
    }
}

/// Returns the names of fields as `firstseen dedup` writes them into the header of a state.
fn joined_names(names: &[String]) -> String {
    names.iter().map(|name| name.replace(',', "\\,")).collect::<Vec<_>>().join(",")
}
