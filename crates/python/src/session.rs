//! The class `Session`: calls to one filter of a cluster. The classes `firstseen.ClusterFilter` and
//! `firstseen.aio.ClusterFilter` wrap it.
//!
//! Every call takes the event loop of its caller. Without one, the call blocks and returns its result. With one, it
//! returns a future of asyncio.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use firstseen_client::{self as client, CallError, Claiming, Fence};
use firstseen_routing::CLOCK_RATE_PARTS;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use tokio::sync::Semaphore;

use crate::batch::Batch;
use crate::bridge::Bridge;
use crate::connection::{ConnectSettings, Connection, OpenError};
use crate::grant::{Grant, Held, Settling};
use crate::keys::KeyBytes;
use crate::moment::present_ms;
use crate::times::Times;
use crate::verdicts::{Unjudged, mask, numbers};
use crate::{code, error};

/// Longest lease and longest timeout that a caller can name, in seconds.
const SECONDS_MAX: f64 = 4e6;

/// A connection to a cluster, for one filter.
#[pyclass(frozen, module = "firstseen._firstseen", weakref)]
pub(crate) struct Session {
    bridge: Bridge,
    /// Calls that may still begin, as permits.
    calls: Arc<Semaphore>,
    calls_in_flight_max: usize,
    /// `None` after `close`.
    connection: Mutex<Option<Connection>>,
}

/// Events of a call.
struct Events {
    bytes: Vec<u8>,
    batch: Batch<Range<usize>>,
}

impl Events {
    fn new(mut keys: KeyBytes, times: &Times, needs_times: bool) -> PyResult<Self> {
        let events = keys.len();
        match Batch::new(keys.take_places(), times, present_ms(), needs_times) {
            Some(batch) => Ok(Self { bytes: keys.into_bytes(), batch }),
            None => Err(times.wrong_length(events)),
        }
    }

    /// Returns the keys of the events that the cluster judges.
    fn keys(&self) -> Vec<&[u8]> {
        self.batch.keys().iter().map(|place| &self.bytes[place.clone()]).collect()
    }

    /// Asks the cluster for its verdicts, and returns the numbers of the verdicts on all events.
    async fn judged(self, filter: &client::Filter, is_recorded: bool) -> Result<Vec<u8>, CallError> {
        let keys = self.keys();
        let batch = client::Batch::from(&keys).times_ms(self.batch.times_ms());
        let verdicts = if is_recorded { filter.observe_batch(batch).await? } else { filter.test_batch(batch).await? };
        Ok(self.batch.with(verdicts.into_iter().map(code::of_verdict)))
    }

    /// Claims the events.
    async fn claimed(self, filter: &client::Filter, lease: Duration) -> Result<Vec<Claimed>, CallError> {
        let until = Instant::now() + lease - lease / CLOCK_RATE_PARTS as u32;
        let keys = self.keys();
        let times_ms = self.batch.times_ms();
        let claimings = filter.claim_batch(client::Batch::from(&keys).times_ms(times_ms), lease).await?;
        let mut answers = Vec::with_capacity(claimings.len());
        for (index, claiming) in claimings.into_iter().enumerate() {
            let key = keys.get(index).copied().unwrap_or_default();
            answers.push(Claimed::new(claiming, key, times_ms.get(index).copied(), until));
        }
        let judged = self.batch.judged_events();
        let codes = self.batch.with(answers.iter().map(|answer| answer.code));
        let mut claimed: Vec<Claimed> = codes.into_iter().map(Claimed::without_claim).collect();
        judged.into_iter().zip(answers).for_each(|(event, answer)| claimed[event] = answer);
        Ok(claimed)
    }

    /// Confirms or releases the events by the fences of their claims, and returns the number of each answer.
    async fn by_fences(
        self,
        filter: &client::Filter,
        fences: Vec<Fence>,
        is_confirmed: bool,
    ) -> Result<Vec<u8>, CallError> {
        let fences: Vec<Fence> =
            self.batch.judged_events().into_iter().filter_map(|event| fences.get(event).copied()).collect();
        let keys = self.keys();
        let batch = client::Batch::from(&keys).times_ms(self.batch.times_ms());
        let codes = answers_by_fences(filter, batch, &fences, is_confirmed).await?;
        Ok(self.batch.with(codes))
    }
}

/// Answer to the claim of one event.
struct Claimed {
    code: u8,
    /// Longest time until the lease of another consumer ends.
    wait: Option<Duration>,
    grant: Option<Granted>,
}

/// A claim that this process holds, before it becomes a Python object.
struct Granted {
    claim: client::Claim,
    key: Box<[u8]>,
    time_ms: Option<u64>,
    until: Instant,
}

impl Claimed {
    fn new(claiming: Claiming, key: &[u8], time_ms: Option<u64>, until: Instant) -> Self {
        match claiming {
            Claiming::Claimed(claim) => {
                let grant = Granted { claim, key: key.into(), time_ms, until };
                Self { code: code::FIRST_SEEN, wait: None, grant: Some(grant) }
            }
            Claiming::InProgress(wait) => Self { code: code::CLAIMED, wait: Some(wait), grant: None },
            Claiming::Duplicate => Self::without_claim(code::DUPLICATE),
            Claiming::Undecided(reason) => Self::without_claim(code::of_reason(reason)),
        }
    }

    fn without_claim(code: u8) -> Self {
        Self { code, wait: None, grant: None }
    }

    fn object<'py>(self, py: Python<'py>, bridge: &Bridge) -> PyResult<Bound<'py, PyAny>> {
        let grant = self
            .grant
            .map(|Granted { claim, key, time_ms, until }| Grant::new(bridge.clone(), claim, key, time_ms, until));
        let grant = grant.map(|grant| Bound::new(py, grant)).transpose()?;
        (self.code, self.wait.map(|wait| wait.as_secs_f64()), grant).into_bound_py_any(py)
    }
}

/// Confirms or releases events, and returns the number of each answer. Of a release, it is 1 if the caller still held
/// the event.
async fn answers_by_fences(
    filter: &client::Filter,
    batch: client::Batch<'_>,
    fences: &[Fence],
    is_confirmed: bool,
) -> Result<Vec<u8>, CallError> {
    if is_confirmed {
        let confirmed = filter.confirm_batch(batch, fences).await?;
        return Ok(confirmed.into_iter().map(code::of_confirming).collect());
    }
    let released = filter.release_batch(batch, fences).await?;
    Ok(released.into_iter().map(u8::from).collect())
}

impl Session {
    fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the filter, unless the connection was closed, or belongs to another process.
    fn filter(&self, py: Python<'_>) -> PyResult<client::Filter> {
        self.bridge.check_process(py)?;
        // No Python code runs while the lock is held.
        let filter = self.connection().as_ref().map(|connection| connection.filter.clone());
        filter.ok_or_else(|| error::cluster(py, &"the connection is closed: call firstseen.connect again"))
    }

    /// Runs a call, and returns what `finish` makes of its result, or a future of it.
    fn run<'py, T: Send + 'static>(
        &self,
        py: Python<'py>,
        event_loop: Option<&Bound<'py, PyAny>>,
        work: impl Future<Output = Result<T, CallError>> + Send + 'static,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.run_with(py, event_loop, &self.calls, work, finish)
    }

    /// Does the same for a call that takes its turn from `calls`.
    fn run_with<'py, T: Send + 'static>(
        &self,
        py: Python<'py>,
        event_loop: Option<&Bound<'py, PyAny>>,
        calls: &Arc<Semaphore>,
        work: impl Future<Output = Result<T, CallError>> + Send + 'static,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(event_loop) = event_loop {
            return self.bridge.start(event_loop, calls, work, |py, outcome| {
                outcome.map_err(|error| call_error(py, &error)).and_then(|value| finish(py, value))
            });
        }
        let outcome = self.bridge.wait(py, calls, work)?;
        let value = outcome.map_err(|error| call_error(py, &error))?;
        finish(py, value).map(|value| value.into_bound(py))
    }
}

fn call_error(py: Python<'_>, error: &CallError) -> PyErr {
    match error {
        CallError::Lease { .. } => PyValueError::new_err(format!("lease: {error}")),
        _ => error::cluster(py, error),
    }
}

/// Connects to a cluster and opens a filter. Returns a `Session`, or a future of one.
#[pyfunction]
#[pyo3(signature = (
    addresses, filter, *, site, tls_ca, tls_cert, tls_key, token_file, timeout_s, calls_in_flight_max, event_loop = None
))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn connect<'py>(
    py: Python<'py>,
    addresses: Vec<String>,
    filter: String,
    site: Option<String>,
    tls_ca: Option<PathBuf>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    token_file: Option<PathBuf>,
    timeout_s: f64,
    calls_in_flight_max: usize,
    event_loop: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let calls_in_flight_max = calls_in_flight_max.min(Semaphore::MAX_PERMITS);
    let timeout_ms = duration("timeout", timeout_s)?.as_millis() as u64;
    if timeout_ms == 0 {
        return Err(PyValueError::new_err(format!("timeout: {timeout_s} s must be at least 0.001 s")));
    }
    let settings = ConnectSettings { addresses, site, tls_ca, tls_cert, tls_key, token_file, timeout_ms };
    let options = settings.options().map_err(|text| error::cluster(py, &text))?;
    let bridge = Bridge::of_process(py)?;
    let calls = Arc::new(Semaphore::new(calls_in_flight_max));
    let work = Connection::open(options, filter);
    let made =
        Session { bridge: bridge.clone(), calls: calls.clone(), calls_in_flight_max, connection: Mutex::new(None) };
    if let Some(event_loop) = event_loop {
        return bridge.start(event_loop, &calls, work, |py, outcome| made.connected(py, outcome));
    }
    let outcome = bridge.wait(py, &calls, work)?;
    made.connected(py, outcome).map(|session| session.into_bound(py))
}

impl Session {
    fn connected(self, py: Python<'_>, outcome: Result<Connection, OpenError>) -> PyResult<Py<PyAny>> {
        let connection = outcome.map_err(|error| match error {
            OpenError::Site(text) => PyValueError::new_err(format!("site: {text}")),
            OpenError::Cluster(text) => error::cluster(py, &text),
        })?;
        *self.connection() = Some(connection);
        self.into_py_any(py)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(connection) = self.connection().take() else { return };
        if self.bridge.is_forked() {
            // The tasks of the connection exist only in the parent process.
            std::mem::forget(connection);
        } else {
            self.bridge.enter(|| drop(connection));
        }
    }
}

#[pymethods]
impl Session {
    /// Judges one event, and returns the number of its verdict.
    #[pyo3(signature = (key, at, is_recorded, event_loop = None))]
    fn judge<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        at: Option<&Bound<'py, PyAny>>,
        is_recorded: bool,
        event_loop: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        let filter = self.filter(py)?;
        let events = Events::new(KeyBytes::of_one(key)?, &Times::of_one(at)?, filter.info().needs_times)?;
        let work = async move { events.judged(&filter, is_recorded).await };
        self.run(py, event_loop, work, |py, codes| codes.first().copied().unwrap_or(code::NO_KEY).into_py_any(py))
    }

    /// Judges a batch. Returns which of its events are passed on, or the numbers of the verdicts if `unjudged` is `None`.
    #[pyo3(signature = (keys, at, is_recorded, unjudged, event_loop = None))]
    fn judge_batch<'py>(
        &self,
        keys: &Bound<'py, PyTuple>,
        at: Option<&Bound<'py, PyAny>>,
        is_recorded: bool,
        unjudged: Option<&str>,
        event_loop: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.py();
        let unjudged = unjudged.map(Unjudged::named).transpose()?;
        let filter = self.filter(py)?;
        let events = events_of_batch(keys, at, &filter)?;
        let work = async move { events.judged(&filter, is_recorded).await };
        self.run(py, event_loop, work, move |py, codes| {
            let result = match unjudged {
                Some(unjudged) => mask(py, &codes, unjudged)?,
                None => numbers(py, &codes, "uint8")?,
            };
            Ok(result.unbind())
        })
    }

    /// Claims the events of a batch. Returns for each of them the number of the answer, the seconds until another
    /// consumer's lease ends, and the grant.
    #[pyo3(signature = (keys, at, lease_s, event_loop = None))]
    fn claim<'py>(
        &self,
        keys: &Bound<'py, PyTuple>,
        at: Option<&Bound<'py, PyAny>>,
        lease_s: f64,
        event_loop: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.py();
        let lease = duration("lease", lease_s)?;
        let filter = self.filter(py)?;
        let events = events_of_batch(keys, at, &filter)?;
        let bridge = self.bridge.clone();
        let work = async move { events.claimed(&filter, lease).await };
        self.run(py, event_loop, work, move |py, claimed| {
            let claimed = claimed.into_iter().map(|claimed| claimed.object(py, &bridge));
            let claimed = claimed.collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, claimed)?.into_py_any(py)
        })
    }

    /// Confirms or releases claims of this process. Returns the number of each answer.
    #[pyo3(signature = (grants, is_confirmed, event_loop = None))]
    fn settle<'py>(
        &self,
        py: Python<'py>,
        grants: Vec<Py<Grant>>,
        is_confirmed: bool,
        event_loop: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let filter = self.filter(py)?;
        let held: Vec<Arc<Held>> = grants.iter().map(|grant| grant.get().held()).collect();
        let work = async move {
            // A call that never gets its turn leaves the claims as they are.
            let settling: Vec<Settling> = held.iter().map(|held| held.settle()).collect();
            let keys: Vec<&[u8]> = held.iter().map(|held| &*held.key).collect();
            let times_ms: Vec<u64> = held.iter().filter_map(|held| held.time_ms).collect();
            let fences: Vec<Fence> = held.iter().map(|held| held.fence).collect();
            let batch = client::Batch::from(&keys).times_ms(&times_ms);
            let answers = answers_by_fences(&filter, batch, &fences, is_confirmed).await;
            for (held, settling) in held.iter().zip(settling) {
                held.settled(settling, answers.is_ok());
            }
            answers
        };
        self.run(py, event_loop, work, |py, codes| Ok(numbers(py, &codes, "uint8")?.unbind()))
    }

    /// Confirms or releases events by the fences of their claims, which another process may have held. Returns the
    /// number of each answer.
    #[pyo3(signature = (keys, fences, at, is_confirmed, event_loop = None))]
    fn settle_fences<'py>(
        &self,
        keys: &Bound<'py, PyTuple>,
        fences: Vec<Vec<u8>>,
        at: Option<&Bound<'py, PyAny>>,
        is_confirmed: bool,
        event_loop: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.py();
        let filter = self.filter(py)?;
        let count = fences.len();
        let fences = fences.into_iter().map(|bytes| fence(&bytes)).collect::<PyResult<Vec<Fence>>>()?;
        let events = events_of_batch(keys, at, &filter)?;
        if events.batch.events() != count {
            let text = format!("fences: there are {count} fences for {} events", events.batch.events());
            return Err(PyValueError::new_err(text));
        }
        let work = async move { events.by_fences(&filter, fences, is_confirmed).await };
        self.run(py, event_loop, work, |py, codes| Ok(numbers(py, &codes, "uint8")?.unbind()))
    }

    /// Returns the properties of the filter.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let filter = self.filter(py)?;
        let described = filter.info();
        let group = &described.definition.group;
        let info = PyDict::new(py);
        info.set_item("name", described.name)?;
        info.set_item("kind", group.cells.kind().to_string())?;
        info.set_item("window", group.window.to_string())?;
        // The definition of a group says for how many events one group has room. Windows of a number of events have one
        // group.
        let groups = u64::from(described.definition.slicing.groups());
        info.set_item("capacity", group.capacity_events.map(|events| events.saturating_mul(groups)))?;
        info.set_item("fpr", group.rate)?;
        info.set_item("needs_times", described.needs_times)?;
        info.set_item("lease_max", described.lease_max.map(|lease| lease.as_secs_f64()))?;
        Ok(info)
    }

    /// Number of calls that are in flight. Others wait for their turn.
    #[getter]
    fn calls_in_flight(&self) -> usize {
        self.calls_in_flight_max.saturating_sub(self.calls.available_permits())
    }

    /// Waits at most `within_s` seconds until all events and releases have been sent, and closes the connection. Returns
    /// whether all were sent.
    #[pyo3(signature = (within_s, event_loop = None))]
    fn close<'py>(
        &self,
        py: Python<'py>,
        within_s: f64,
        event_loop: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.bridge.check_process(py)?;
        let within = duration("within", within_s)?;
        let connection = self.connection().take();
        let work = async move {
            let Some(Connection { client, .. }) = connection else { return Ok(true) };
            Ok(client.flush(within).await)
        };
        // Closing does not wait for its turn behind other calls.
        let own_turn = Arc::new(Semaphore::new(1));
        self.run_with(py, event_loop, &own_turn, work, |py, is_sent| is_sent.into_py_any(py))
    }
}

fn events_of_batch(
    keys: &Bound<'_, PyTuple>,
    at: Option<&Bound<'_, PyAny>>,
    filter: &client::Filter,
) -> PyResult<Events> {
    let columns: Vec<Bound<'_, PyAny>> = keys.iter().collect();
    Events::new(KeyBytes::of_batch(&columns)?, &Times::of_batch(at)?, filter.info().needs_times)
}

fn fence(bytes: &[u8]) -> PyResult<Fence> {
    let bytes = bytes.try_into().map_err(|_| {
        PyValueError::new_err(format!(
            "fences: a fence has {} bytes, and one of these has {}",
            Fence::BYTES,
            bytes.len()
        ))
    })?;
    Ok(Fence::from_bytes(bytes))
}

/// Returns a time that a caller gives in seconds.
fn duration(what: &str, seconds: f64) -> PyResult<Duration> {
    if (0.0..=SECONDS_MAX).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(PyValueError::new_err(format!("{what}: {seconds} s must be between 0 and {SECONDS_MAX} s")))
}
