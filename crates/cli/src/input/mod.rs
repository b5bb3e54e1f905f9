//! The input, read and parsed on a thread of its own, one batch ahead of the filter.
//!
//! Promises: batches come in the order of the files and their records; at most `BATCHES_AHEAD` wait. Must not know:
//! what becomes of a record.

pub(crate) mod arrivals;
mod beginning;
mod border;
pub(crate) mod disorder;
pub(crate) mod first;
pub mod left_out;
pub mod walk;

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow};
use firstseen_filter::AHEAD_EVENTS_MAX;
use firstseen_records::{Block, BlockOptions, BlockReader, ConfigError, ParsedBlock, RecordFormat, RecordParser, hint};
use same_file::Handle;
use serde::Serialize;

use crate::exit::UsageError;
use arrivals::Arrivals;
use first::Opened;

/// A stream that pauses is waited for so long, where the next records may bear out a record's time.
const STREAM_DOUBT: Duration = Duration::from_millis(100);
/// The same for a file. A disk that hangs for longer does not hold back what was answered.
const FILE_DOUBT: Duration = Duration::from_secs(60);

/// So many bytes show what an input is.
const BEGINNING_BYTES_MAX: usize = 64 << 10;

/// Parsed batches that may wait for the filter.
const BATCHES_AHEAD: usize = 4;

/// A batch: consecutive records of one file.
#[derive(Default)]
pub struct Batch {
    /// The records' bytes.
    pub block: Block,
    /// The parsed records.
    pub parsed: ParsedBlock,
    /// The index of their file.
    pub file: usize,
    /// Bytes of the input up to the end of the batch, over all files.
    pub input_bytes: u64,
    /// When the records came, in milliseconds since 1970, where that is their time.
    pub arrived_ms: Option<u64>,
    /// Whether their file ends here, and the next one begins earlier: then the last record may be right though no time
    /// bears it out.
    pub is_before_older: bool,
    /// The parser's word on a field that no record so far has, where none could be read.
    pub lacking: Option<String>,
}

impl Batch {
    /// The header, where this is the first of the batches that has it.
    pub fn new_header(&self) -> Option<&[u8]> {
        let header = self.parsed.header().filter(|header| !header.is_repeated)?;
        Some(&self.block.bytes()[header.span.range()])
    }

    /// The times of the first events, in milliseconds since 1970; none where the input has none.
    pub fn first_times_ms(&self) -> Vec<u64> {
        let times_ms = self.parsed.times_ms().iter().take(AHEAD_EVENTS_MAX);
        // The parser rejects times before 1970.
        times_ms.map(|time_ms| time_ms.cast_unsigned()).collect()
    }

    /// The time that half of the last events have reached, and the greatest of their times; none where the input has no
    /// times.
    pub fn last_times_ms(&self) -> Option<(i64, i64)> {
        let times_ms = self.parsed.times_ms();
        let mut last = times_ms[times_ms.len().saturating_sub(AHEAD_EVENTS_MAX)..].to_vec();
        last.sort_unstable();
        Some((last.get((last.len().max(1) - 1) / 2).copied()?, last.last().copied()?))
    }

    /// The time of the record at `index`, in milliseconds since 1970; none where no window needs it.
    #[inline]
    pub fn time_ms(&self, index: usize) -> Option<u64> {
        // The parser rejects times before 1970.
        self.arrived_ms.or_else(|| self.parsed.times_ms().get(index).map(|time_ms| time_ms.cast_unsigned()))
    }
}

/// Where the times of records come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Times {
    /// A field of the record; also where no window needs times.
    Record,
    /// The clock of this machine, when the record comes.
    Arrival,
}

/// What is read, and how.
pub struct Reading {
    /// The files, one after the other.
    pub files: Vec<PathBuf>,
    /// The first of them, where it was opened already.
    pub(crate) first: Option<Opened>,
    /// How their records are written.
    pub format: RecordFormat,
    /// How they are cut into records.
    pub block_options: BlockOptions,
    /// The parser of records.
    pub parser: RecordParser,
    /// Whether the time of a record is the one at which it comes.
    pub by_arrival: bool,
}

/// A message from the reading thread, or from a signal, to the thread of the filter.
pub enum Message {
    /// More records.
    Batch(Box<Batch>),
    /// The input has ended, perhaps with an error.
    End(anyhow::Result<()>),
    /// A signal wants the run to stop.
    Stop,
    /// No record has come for as long as a wait was to last.
    Pause,
}

/// The receiving end of the queue, and the way back for batches that are done with.
pub struct Input {
    messages: Receiver<Message>,
    sender: SyncSender<Message>,
    spent: SyncSender<Box<Batch>>,
    doubt: Duration,
    /// The first message, where it has been looked at.
    first: Cell<Option<Message>>,
}

impl Input {
    /// Starts reading the files in order.
    pub fn start(what: Reading) -> Self {
        let (sender, messages) = sync_channel(BATCHES_AHEAD);
        let (spent, reusable) = sync_channel(BATCHES_AHEAD + 2);
        let arrivals = what.by_arrival.then(Arrivals::default);
        let doubt = doubt(&what.files);
        let read = move |reading: &SyncSender<Message>| {
            let started = Instant::now();
            Reader { reading, reusable, input_bytes: 0, arrivals, started, beginning: Vec::new() }.read_all(what)
        };
        read_apart(sender.clone(), read);
        Self { messages, sender, spent, doubt, first: Cell::new(None) }
    }

    /// Waits for the first records, and returns their times, in milliseconds since 1970. The next message is still the
    /// one with these records.
    pub fn first_times_ms(&self) -> Vec<u64> {
        let Ok(message) = self.messages.recv() else { return Vec::new() };
        let times_ms = match &message {
            Message::Batch(batch) => batch.parsed.times_ms().iter().map(|time_ms| time_ms.cast_unsigned()).collect(),
            _ => Vec::new(),
        };
        self.first.set(Some(message));
        times_ms
    }

    /// For how long to wait for the next records, where they may bear out a record's time.
    pub fn doubt(&self) -> Duration {
        self.doubt
    }

    /// Waits for the next message. `idle` is called before a wait that is longer than `patience`, and may limit how
    /// long the wait lasts.
    pub fn next(
        &self,
        patience: Duration,
        idle: impl FnOnce() -> anyhow::Result<Option<Duration>>,
    ) -> anyhow::Result<Message> {
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
    pub fn recycle(&self, batch: Box<Batch>) {
        let _ = self.spent.try_send(batch);
    }

    /// A function that ends a wait in [`Self::next`].
    pub fn waker(&self) -> impl Fn() + Send + 'static {
        let sender = self.sender.clone();
        move || {
            // Where the queue is full, the filter is not waiting.
            let _ = sender.try_send(Message::Stop);
        }
    }
}

/// Runs `read` on a thread of its own; the last message of the thread is its result.
fn read_apart(
    reading: SyncSender<Message>,
    read: impl FnOnce(&SyncSender<Message>) -> anyhow::Result<()> + Send + 'static,
) {
    // Detached on purpose: a read that waits for input must not keep a run from ending.
    thread::spawn(move || {
        // Without a last message the run would wait for ever, as the signal handler holds a sender too.
        let result = panic::catch_unwind(AssertUnwindSafe(|| read(&reading)));
        let broken = |_| {
            Err(anyhow!("reading the input ended in a fault of firstseen, which is printed above: please report it"))
        };
        // Where the run has ended first, the receiver is gone.
        let _ = reading.send(Message::End(result.unwrap_or_else(broken)));
    });
}

/// The reading thread's state.
struct Reader<'a> {
    reading: &'a SyncSender<Message>,
    reusable: Receiver<Box<Batch>>,
    input_bytes: u64,
    /// Where records are timed as they come.
    arrivals: Option<Arrivals>,
    started: Instant,
    /// The first bytes of the input, kept while no record could be judged: error messages derive a hint from them.
    beginning: Vec<u8>,
}

impl Reader<'_> {
    fn read_all(mut self, what: Reading) -> anyhow::Result<()> {
        let Reading { files, mut first, format, block_options, mut parser, .. } = what;
        for (file, path) in files.iter().enumerate() {
            let name = name(path);
            let opened = first.take().map_or_else(|| Opened::new(path, block_options.record_end), Ok);
            let opened = opened.with_context(|| name.clone())?;
            let read = self.read_file(file, path, opened, block_options, &mut parser, format);
            if !read.with_context(|| name)? {
                return Ok(());
            }
        }
        Ok(parser.finish().map_err(|error| unfit(&error, &self.beginning, format, block_options.separator))?)
    }

    /// Reads one file; `false` if the receiver is gone.
    fn read_file(
        &mut self,
        file: usize,
        path: &Path,
        opened: Opened,
        block_options: BlockOptions,
        parser: &mut RecordParser,
        format: RecordFormat,
    ) -> anyhow::Result<bool> {
        let before_bytes = self.input_bytes;
        let mut reader = BlockReader::new(opened, block_options);
        loop {
            let mut batch = self.reusable.try_recv().unwrap_or_default();
            if !reader.read_block(&mut batch.block).map_err(|error| beginning::explained(error, path))? {
                return Ok(true);
            }
            let Batch { block, parsed, .. } = &mut *batch;
            parser
                .parse(block, parsed)
                .map_err(|error| unfit(&error, block.bytes(), format, block_options.separator))?;
            if self.beginning.is_empty() && parsed.is_empty() {
                self.beginning.extend_from_slice(&block.bytes()[..block.bytes().len().min(BEGINNING_BYTES_MAX)]);
            }
            batch.lacking = if parsed.is_empty() { parser.finish().err().map(|error| error.to_string()) } else { None };
            self.input_bytes = before_bytes + reader.get_ref().input_bytes_used();
            (batch.file, batch.input_bytes, batch.is_before_older) = (file, self.input_bytes, false);
            let steady = self.started.elapsed();
            batch.arrived_ms = self.arrivals.as_mut().map(|arrivals| arrivals.at(present_ms(), steady));
            let refusal = batch.parsed.refusal().map(|error| UsageError(error.to_string()));
            if self.reading.send(Message::Batch(batch)).is_err() {
                return Ok(false);
            }
            if let Some(refusal) = refusal {
                return Err(refusal.into());
            }
        }
    }
}

/// An input that does not fit the flags, with what it looks like.
fn unfit(error: &ConfigError, beginning: &[u8], format: RecordFormat, separator: u8) -> UsageError {
    match hint(beginning, format, Some(separator)) {
        Some(hint) => UsageError(format!("{error}; {hint}")),
        None => UsageError(error.to_string()),
    }
}

/// The time of day, in milliseconds since 1970.
pub fn present_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A stream may pause for as long as it likes. A file does not: where its next records are not there yet, the machine is
/// busy, and verdicts are not to rest on that.
fn doubt(files: &[PathBuf]) -> Duration {
    if is_stream(files) { STREAM_DOUBT } else { FILE_DOUBT }
}

/// Whether one of the inputs may pause.
pub(crate) fn is_stream(files: &[PathBuf]) -> bool {
    let is_file = |path: &PathBuf| {
        if is_stdin(path) {
            stdin_file_bytes().is_some()
        } else {
            fs::metadata(path).is_ok_and(|found| found.is_file())
        }
    };
    !files.iter().all(is_file)
}

/// What messages call standard input.
pub(crate) const STANDARD_INPUT: &str = "standard input";

/// Whether `path` stands for standard input.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The size of standard input where it is a file that a shell has opened (`< file`), and no stream.
pub fn stdin_file_bytes() -> Option<u64> {
    let found = Handle::stdin().ok()?.as_file().metadata().ok()?;
    found.is_file().then_some(found.len())
}

/// The name of `path` in a message.
pub fn name(path: &Path) -> String {
    if is_stdin(path) { STANDARD_INPUT.to_owned() } else { path.display().to_string() }
}

/// Checks that all files can be read and begin with text, before anything is written; returns their size where all of
/// them have one. `record_end` is the byte that ends a record.
///
/// # Errors
/// The first file that is missing, forbidden, a folder, or no text.
pub fn check(files: &[PathBuf], record_end: u8) -> anyhow::Result<Option<u64>> {
    let mut total_bytes = Some(0u64);
    for path in files {
        if is_stdin(path) {
            total_bytes = total_bytes.zip(stdin_file_bytes()).map(|(total, bytes)| total + bytes);
            continue;
        }
        let found = fs::metadata(path);
        let refused = |error: io::Error| UsageError(format!("{}: {error}", path.display()));
        let metadata = found.map_err(refused)?;
        if metadata.is_dir() {
            return Err(UsageError(format!("{} is a folder: name the files in it", path.display())).into());
        }
        // A pipe that is opened twice is closed in between, which would end its writer.
        if metadata.is_file() {
            beginning::check(File::open(path).map_err(refused)?, path, record_end)?;
        }
        total_bytes = total_bytes.filter(|_| metadata.is_file()).map(|total: u64| total + metadata.len());
    }
    Ok(total_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_streams_pause() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "1\n").expect("a file");
        assert_eq!(doubt(&[file.clone(), file.clone()]), FILE_DOUBT);
        assert_eq!(doubt(&[file, PathBuf::from("/dev/null")]), STREAM_DOUBT);
    }

    #[test]
    fn a_reading_thread_that_breaks_ends_the_input_in_an_error() {
        let (sender, messages) = sync_channel(1);
        let (spent, _reusable) = sync_channel(1);
        let input = Input { messages, sender: sender.clone(), spent, doubt: STREAM_DOUBT, first: Cell::new(None) };
        read_apart(sender, |_| panic!("on purpose"));
        let message = input.next(Duration::ZERO, || Ok(Some(Duration::from_secs(60)))).expect("no wait fails");
        let Message::End(Err(error)) = message else { panic!("no end") };
        assert!(error.to_string().contains("fault of firstseen"), "{error}");
    }
}
