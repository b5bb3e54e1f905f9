//! Runs calls to a cluster, and lets Python wait for them.
//!
//! One runtime per process serves the connections of all clients. A call is a task of this runtime, and runs to its end
//! even if the caller stops waiting, because a node may have received its events already. There are two ways to wait:
//!
//! - [`Bridge::wait`] blocks a thread without Python's lock, and ends early if a signal handler raises an exception.
//! - [`Bridge::start`] returns a future of asyncio. A thread of its own hands results over to the event loops, so that the
//!   thread that serves the connections never waits for Python's lock.
//!
//! This module does not depend on what the calls do.

use std::process;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::error;

/// Longest time that a blocking call waits before it looks for signals, such as Ctrl-C.
const SIGNAL_CHECK_MS: u64 = 100;

/// Work that a thread does while it holds Python's lock.
type Completion = Box<dyn FnOnce(Python<'_>) + Send>;

/// Handle to the runtime of this process.
#[derive(Clone)]
pub(crate) struct Bridge {
    handle: Handle,
    completions: Sender<Completion>,
    process_id: u32,
}

/// What a process starts when it first connects to a cluster.
struct Started {
    bridge: Bridge,
    runtime: Runtime,
}

/// Python's lock is held whenever this lock is held, so no thread holds it while the process is forked. No Python code
/// runs meanwhile, because it could pass Python's lock on to a thread that then waits for this lock for ever.
static STARTED: Mutex<Option<Started>> = Mutex::new(None);

impl Bridge {
    /// Returns the bridge of this process, and starts it at the first call. A process that was forked from one with a
    /// bridge gets its own.
    pub(crate) fn of_process(py: Python<'_>) -> PyResult<Self> {
        if let Some(bridge) = Self::started(&STARTED.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(bridge);
        }
        let ending = Ending { has_ended: Arc::default(), process_id: process::id() };
        let has_ended = ending.has_ended.clone();
        py.import("atexit")?.call_method1("register", (ending,))?;
        Self::start_in_process(has_ended).map_err(|cause| {
            error::cluster(py, &format!("the threads that serve connections cannot be started: {cause}"))
        })
    }

    /// Starts the bridge of this process, unless another thread has started it in the meantime.
    fn start_in_process(has_ended: Arc<Mutex<bool>>) -> std::io::Result<Self> {
        let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bridge) = Self::started(&started) {
            return Ok(bridge);
        }
        let new = Started::new(has_ended)?;
        let bridge = new.bridge.clone();
        if let Some(Started { runtime, .. }) = started.replace(new) {
            // Its threads exist only in the parent process, so waiting for them would never end.
            std::mem::forget(runtime);
        }
        Ok(bridge)
    }

    /// Returns the bridge, if it was started by this process.
    fn started(started: &Option<Started>) -> Option<Self> {
        let Started { bridge, .. } = started.as_ref()?;
        (!bridge.is_forked()).then(|| bridge.clone())
    }

    /// Returns whether the bridge was started by another process, from which this one was forked.
    pub(crate) fn is_forked(&self) -> bool {
        self.process_id != process::id()
    }

    /// Returns an error if this process was forked after it connected, because the threads that serve the connection
    /// exist only in the parent process.
    pub(crate) fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_forked() {
            let text = "this process was forked after it connected to the cluster, and the connection stayed with the \
                        parent process: call firstseen.connect again after a fork";
            return Err(error::cluster(py, &text));
        }
        Ok(())
    }

    /// Calls `work` where the client can start tasks.
    pub(crate) fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = self.handle.enter();
        work()
    }

    /// Runs a call, and blocks the thread until it ends.
    ///
    /// # Errors
    /// Returns the exception that a signal handler raises, such as `KeyboardInterrupt`. The call then ends without its
    /// caller.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        py: Python<'_>,
        calls: &Arc<Semaphore>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> PyResult<T> {
        let (_waiting, caller) = oneshot::channel();
        let (sender, mut receiver) = mpsc::sync_channel(1);
        let call = self.called(calls.clone(), caller, work);
        self.handle.spawn(async move {
            if let Some((outcome, _permit)) = call.await {
                // The caller may have stopped waiting.
                let _ = sender.send(outcome);
            }
        });
        loop {
            let received = py.detach(move || Received::from(receiver));
            match received.outcome {
                Ok(outcome) => return outcome.map_err(|reason| error::cluster(py, &reason)),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => return Err(error::cluster(py, &ENDED)),
            }
            receiver = received.receiver;
        }
    }

    /// Starts a call, and returns a future of `event_loop` for its result, which `finish` makes. If the future is
    /// cancelled, the call ends without its caller, and the result is dropped.
    pub(crate) fn start<'py, T: Send + 'static>(
        &self,
        event_loop: &Bound<'py, PyAny>,
        calls: &Arc<Semaphore>,
        work: impl Future<Output = T> + Send + 'static,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = event_loop.py();
        let (waiting, caller) = oneshot::channel();
        let future = event_loop.call_method0("create_future")?;
        future.call_method1("add_done_callback", (Waiting(Mutex::new(Some(waiting))),))?;
        let settle = py.import("firstseen._settle")?.getattr("settle")?;
        let reply =
            Reply { event_loop: event_loop.clone().unbind(), settle: settle.unbind(), future: future.clone().unbind() };
        let completions = self.completions.clone();
        let call = self.called(calls.clone(), caller, work);
        self.handle.spawn(async move {
            let answer = call.await;
            let completion: Completion = Box::new(move |py| {
                let Some((outcome, _permit)) = answer else { return };
                let outcome = outcome.map_err(|reason| error::cluster(py, &reason));
                reply.settle(py, outcome.and_then(|outcome| finish(py, outcome)));
            });
            // The thread ends only with the interpreter.
            let _ = completions.send(completion);
        });
        Ok(future)
    }

    /// Waits until a further call may be in flight, and runs it. `None` means that the caller stopped waiting before the
    /// call began.
    fn called<T: Send + 'static>(
        &self,
        calls: Arc<Semaphore>,
        caller: oneshot::Receiver<()>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Option<(Result<T, String>, OwnedSemaphorePermit)>> + Send + 'static {
        let handle = self.handle.clone();
        async move {
            let permit = tokio::select! {
                biased;
                _ = caller => return None,
                permit = calls.acquire_owned() => permit.ok()?,
            };
            // A task of its own, so that a panic becomes an error of this call.
            let outcome = handle.spawn(work).await.map_err(|error| format!("{ENDED} ({error})"));
            Some((outcome, permit))
        }
    }
}

/// Error about a call that ended without a result.
const ENDED: &str = "the call ended without an answer, which is a bug of firstseen: please report it";

impl Started {
    fn new(has_ended: Arc<Mutex<bool>>) -> std::io::Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("firstseen-client").enable_all().build()?;
        let (completions, jobs) = mpsc::channel();
        thread::Builder::new().name("firstseen-asyncio".to_owned()).spawn(move || complete(&jobs, &has_ended))?;
        let bridge = Bridge { handle: runtime.handle().clone(), completions, process_id: process::id() };
        Ok(Self { bridge, runtime })
    }
}

/// Hands results over to event loops until the interpreter ends. Results that are ready at the same time are handed over
/// together, because taking Python's lock can take milliseconds.
fn complete(jobs: &Receiver<Completion>, has_ended: &Mutex<bool>) {
    while let Ok(first) = jobs.recv() {
        let has_ended = has_ended.lock().unwrap_or_else(PoisonError::into_inner);
        if *has_ended {
            return;
        }
        let is_attached = Python::try_attach(|py| {
            first(py);
            jobs.try_iter().for_each(|job| job(py));
        });
        if is_attached.is_none() {
            return;
        }
    }
}

/// Result of waiting for a while.
struct Received<T> {
    receiver: Receiver<Result<T, String>>,
    outcome: Result<Result<T, String>, RecvTimeoutError>,
}

impl<T> Received<T> {
    fn from(receiver: Receiver<Result<T, String>>) -> Self {
        let outcome = receiver.recv_timeout(Duration::from_millis(SIGNAL_CHECK_MS));
        Self { receiver, outcome }
    }
}

/// Where the result of a call goes.
struct Reply {
    event_loop: Py<PyAny>,
    settle: Py<PyAny>,
    future: Py<PyAny>,
}

impl Reply {
    fn settle(self, py: Python<'_>, result: PyResult<Py<PyAny>>) {
        let is_done = self.future.call_method0(py, "done").and_then(|done| done.is_truthy(py));
        if is_done.unwrap_or(false) {
            // The caller was cancelled. Dropping the result now releases claims even if the loop is busy.
            return;
        }
        let call = match result {
            Ok(value) => (self.settle, self.future, value, py.None()),
            Err(error) => (self.settle, self.future, py.None(), error.into_value(py).into_any()),
        };
        // Fails if the loop is closed. Nobody waits for the result then, and dropping it releases claims.
        let _ = self.event_loop.call_method1(py, "call_soon_threadsafe", call);
    }
}

/// Callback at the end of the interpreter. After it, no thread of this module takes Python's lock, because a thread that
/// takes the lock while the interpreter is torn down can crash the process.
#[pyclass(frozen)]
struct Ending {
    /// Locked while results are handed over.
    has_ended: Arc<Mutex<bool>>,
    process_id: u32,
}

#[pymethods]
impl Ending {
    fn __call__(&self, py: Python<'_>) {
        // In a forked process, a thread of the parent process may hold the lock for ever.
        if self.process_id == process::id() {
            py.detach(|| *self.has_ended.lock().unwrap_or_else(PoisonError::into_inner) = true);
        }
    }
}

/// Callback of a future of asyncio. A call that has not begun when the future is done or cancelled never begins.
#[pyclass(frozen)]
struct Waiting(Mutex<Option<oneshot::Sender<()>>>);

#[pymethods]
impl Waiting {
    fn __call__(&self, _future: &Bound<'_, PyAny>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
