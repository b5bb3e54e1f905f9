//! A bounded queue between the thread that reads and parses records and the thread that runs the filter. Batches arrive
//! in the order of the input. At most `BATCHES_AHEAD` batches wait in the queue, so a slow filter slows down the
//! reading instead of filling the memory. If the reading thread panics, the filter's thread receives an error as the
//! last message.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use firstseen_records::Records;

use super::arrivals::Arrivals;
use super::{Batch, Input, Times, present_ms};

/// Maximum time to wait for the next records of a stream, if these records may confirm the time of an earlier record.
const STREAM_CONFIRM_WAIT: Duration = Duration::from_millis(100);
/// Maximum time to wait for the next records of a file if these records may confirm the time of an earlier record.
/// Reading a file usually takes far less time. If a disk hangs for longer, the records that were already decided are
/// written without further waiting.
const FILE_CONFIRM_WAIT: Duration = Duration::from_secs(60);

/// Maximum number of parsed batches that wait for the filter.
const BATCHES_AHEAD: usize = 4;

/// A message from the reading thread, or from a signal, to the thread of the filter.
pub(crate) enum Message<R> {
    /// A batch of further records.
    Batch(Box<Batch<R>>),
    /// The input has ended, with an error or without.
    End(anyhow::Result<()>),
    /// A signal asks the run to stop.
    Stop,
    /// No record arrived within the time that the receiver wanted to wait.
    Pause,
}

/// The receiving end of the queue. It also returns used batches to the reading thread, so that their memory is reused.
pub(crate) struct Queue<R> {
    messages: Receiver<Message<R>>,
    sender: SyncSender<Message<R>>,
    spent: SyncSender<Box<Batch<R>>>,
    is_stream: bool,
    /// The first message, if it was examined before it is received.
    first: Cell<Option<Message<R>>>,
}

impl<R: Records> Queue<R> {
    /// Starts to read `input` on a separate thread.
    pub(crate) fn start(input: impl Input<Records = R>, times: Times) -> Self {
        let is_stream = input.is_stream();
        let (sender, messages) = sync_channel(BATCHES_AHEAD);
        let (spent, reusable) = sync_channel(BATCHES_AHEAD + 2);
        spawn_reader(sender.clone(), move |sender| read_all(input, times, sender, &reusable));
        Self { messages, sender, spent, is_stream, first: Cell::new(None) }
    }

    /// Waits until the first batch of records arrives, and returns the times of its records in milliseconds since 1970.
    /// The batch stays in the queue, so the next call of [`Self::next`] returns it.
    pub(crate) fn first_times_ms(&self) -> Vec<u64> {
        let Ok(message) = self.messages.recv() else { return Vec::new() };
        let times_ms = match &message {
            Message::Batch(batch) => batch.own_times_ms().collect(),
            _ => Vec::new(),
        };
        self.first.set(Some(message));
        times_ms
    }

    /// Returns whether the input may pause.
    pub(crate) fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// Returns how long to wait for the next records if they may confirm the time of an earlier record. For a stream,
    /// the wait is short, because the next record may never arrive. For a file, the next records always arrive, so the
    /// wait can be long. A long wait ensures that a slow machine gives the same verdicts as a fast one.
    pub(crate) fn doubt(&self) -> Duration {
        if self.is_stream { STREAM_CONFIRM_WAIT } else { FILE_CONFIRM_WAIT }
    }

    /// Waits for the next message from the reading thread, in two steps. The first step lasts for at most `patience`.
    /// If no message has arrived by then, the function calls `idle`, so that the caller can do other work such as
    /// writing records.
    ///
    /// `idle` returns the maximum duration of the second step, or `None` for a wait without limit. If no message
    /// arrives in the second step either, the function returns [`Message::Pause`].
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

    /// Returns a batch to the reading thread, so that its memory is used again.
    pub(crate) fn recycle(&self, batch: Box<Batch<R>>) {
        let _ = self.spent.try_send(batch);
    }

    /// Returns a function that ends a wait in [`Self::next`].
    pub(crate) fn waker(&self) -> impl Fn() + Send + 'static {
        let sender = self.sender.clone();
        move || {
            // If the queue is full, the filter is not waiting, so the message is not needed.
            let _ = sender.try_send(Message::Stop);
        }
    }
}

/// Runs `read` on a separate thread. The last message of the thread is the result of `read`.
fn spawn_reader<R: Records>(
    sender: SyncSender<Message<R>>,
    read: impl FnOnce(&SyncSender<Message<R>>) -> anyhow::Result<()> + Send + 'static,
) {
    // The thread is detached, because a read that waits for input must not prevent the run from ending.
    thread::spawn(move || {
        // Without a last message the run would wait forever, because the signal handler also holds a sender and keeps
        // the channel open.
        let result = panic::catch_unwind(AssertUnwindSafe(|| read(&sender))).unwrap_or_else(|_| {
            Err(anyhow!("reading the input ended in a fault of firstseen, which is printed above: please report it"))
        });
        // If the run has already ended, the receiver no longer exists.
        let _ = sender.send(Message::End(result));
    });
}

/// Sends batches until the input or the run has ended.
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
        spawn_reader(sender, |_| panic!("on purpose"));
        let message = queue.next(Duration::ZERO, || Ok(Some(Duration::from_secs(60)))).expect("no wait fails");
        let Message::End(Err(error)) = message else { panic!("no end") };
        assert!(error.to_string().contains("fault of firstseen"), "{error}");
    }
}
