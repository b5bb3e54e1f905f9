//! The queue between the thread that reads and parses, and the thread of the filter.
//!
//! Guarantees: batches arrive in the order of the input, and at most `BATCHES_AHEAD` wait; a fault of the reading thread
//! is the last message. It does not know what is read, or what becomes of a record.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use firstseen_records::Records;

use super::arrivals::Arrivals;
use super::{Batch, Input, Times, present_ms};

/// A stream that pauses is waited for so long, where the next records may bear out a record's time.
const STREAM_DOUBT: Duration = Duration::from_millis(100);
/// The same for a file. A disk that hangs for longer does not hold back what was answered.
const FILE_DOUBT: Duration = Duration::from_secs(60);

/// Parsed batches that may wait for the filter.
const BATCHES_AHEAD: usize = 4;

/// A message from the reading thread, or from a signal, to the thread of the filter.
pub(crate) enum Message<R> {
    /// More records.
    Batch(Box<Batch<R>>),
    /// The input has ended, perhaps with an error.
    End(anyhow::Result<()>),
    /// A signal wants the run to stop.
    Stop,
    /// No record has come for as long as a wait was to last.
    Pause,
}

/// The receiving end of the queue, and the way back for batches that are done with.
pub(crate) struct Queue<R> {
    messages: Receiver<Message<R>>,
    sender: SyncSender<Message<R>>,
    spent: SyncSender<Box<Batch<R>>>,
    is_stream: bool,
    /// The first message, where it has been looked at.
    first: Cell<Option<Message<R>>>,
}

impl<R: Records> Queue<R> {
    /// Starts to read `input` on a thread of its own.
    pub(crate) fn start(input: impl Input<Records = R>, times: Times) -> Self {
        let is_stream = input.is_stream();
        let (sender, messages) = sync_channel(BATCHES_AHEAD);
        let (spent, reusable) = sync_channel(BATCHES_AHEAD + 2);
        read_apart(sender.clone(), move |sender| read_all(input, times, sender, &reusable));
        Self { messages, sender, spent, is_stream, first: Cell::new(None) }
    }

    /// Waits for the first records, and returns their times, in milliseconds since 1970. The next message is still the
    /// one with these records.
    pub(crate) fn first_times_ms(&self) -> Vec<u64> {
        let Ok(message) = self.messages.recv() else { return Vec::new() };
        let times_ms = match &message {
            Message::Batch(batch) => batch.own_times_ms().collect(),
            _ => Vec::new(),
        };
        self.first.set(Some(message));
        times_ms
    }

    /// Whether the input may pause.
    pub(crate) fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// Returns how long to wait for the next records, where they may bear out a record's time. A stream may pause for as
    /// long as it likes. A file does not: where its next records are not there yet, the machine is busy, and verdicts are
    /// not to rest on that.
    pub(crate) fn doubt(&self) -> Duration {
        if self.is_stream { STREAM_DOUBT } else { FILE_DOUBT }
    }

    /// Waits for the next message. `idle` is called before a wait that is longer than `patience`, and may limit how
    /// long the wait lasts.
    pub(crate) fn next(
        &self,
        patience: Duration,
        idle: impl FnOnce() -> anyhow::Result<Option<Duration>>,
    ) -> anyhow::Result<Message<R>> {
        if let Some(message) = self.first.take() {
            return Ok(message);
        }
        if let Ok(message) = self.messages.try_recv() {
            return Ok(message);
        }
        if !patience.is_zero()
            && let Ok(message) = self.messages.recv_timeout(patience)
        {
            return Ok(message);
        }
        let received = match idle()? {
            None => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(wait_max) => self.messages.recv_timeout(wait_max),
        };
        Ok(received.unwrap_or_else(|error| match error {
            RecvTimeoutError::Timeout => Message::Pause,
            RecvTimeoutError::Disconnected => Message::End(Ok(())),
        }))
    }

    /// Gives a batch back, so that its memory is used again.
    pub(crate) fn recycle(&self, batch: Box<Batch<R>>) {
        let _ = self.spent.try_send(batch);
    }

    /// Returns a function that ends a wait in [`Self::next`].
    pub(crate) fn waker(&self) -> impl Fn() + Send + 'static {
        let sender = self.sender.clone();
        move || {
            // Where the queue is full, the filter is not waiting.
            let _ = sender.try_send(Message::Stop);
        }
    }
}

/// Runs `read` on a thread of its own; the last message of the thread is its result.
fn read_apart<R: Records>(
    sender: SyncSender<Message<R>>,
    read: impl FnOnce(&SyncSender<Message<R>>) -> anyhow::Result<()> + Send + 'static,
) {
    // Detached on purpose: a read that waits for input must not keep a run from ending.
    thread::spawn(move || {
        // Without a last message the run would wait for ever, as the signal handler holds a sender too.
        let result = panic::catch_unwind(AssertUnwindSafe(|| read(&sender))).unwrap_or_else(|_| {
            Err(anyhow!("reading the input ended in a fault of firstseen, which is printed above: please report it"))
        });
        // Where the run has ended first, the receiver is gone.
        let _ = sender.send(Message::End(result));
    });
}

/// Sends batch after batch, until the input or the run has ended.
fn read_all<I: Input>(
    mut input: I,
    times: Times,
    sender: &SyncSender<Message<I::Records>>,
    reusable: &Receiver<Box<Batch<I::Records>>>,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut arrivals = Arrivals::default();
    loop {
        let mut batch = reusable.try_recv().unwrap_or_default();
        if !input.read(&mut batch)? {
            return Ok(());
        }
        batch.is_before_older = false;
        batch.arrived_ms = match times {
            Times::Record => None,
            Times::Arrival => Some(arrivals.at(present_ms(), started.elapsed())),
        };
        if sender.send(Message::Batch(batch)).is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use firstseen_records::Block;

    use super::*;

    #[test]
    fn a_reading_thread_that_breaks_ends_the_input_in_an_error() {
        let (sender, messages) = sync_channel(1);
        let (spent, _reusable) = sync_channel(1);
        let queue: Queue<Block> =
            Queue { messages, sender: sender.clone(), spent, is_stream: true, first: Cell::new(None) };
        read_apart(sender, |_| panic!("on purpose"));
        let message = queue.next(Duration::ZERO, || Ok(Some(Duration::from_secs(60)))).expect("no wait fails");
        let Message::End(Err(error)) = message else { panic!("no end") };
        assert!(error.to_string().contains("fault of firstseen"), "{error}");
    }
}
