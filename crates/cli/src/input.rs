//! The input, read and parsed on a thread of its own, one batch ahead of the filter.
//!
//! Promises: batches come in the order of the files and their records; at most `BATCHES_AHEAD` wait. Must not know:
//! what becomes of a record.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use anyhow::Context;
use firstseen_records::{Block, BlockOptions, BlockReader, Decompressed, ParsedBlock, RecordFormat, RecordParser};

use crate::exit::UsageError;

/// Parsed batches that may wait for the filter.
const BATCHES_AHEAD: usize = 4;

/// Some records of one file.
#[derive(Default)]
pub struct Batch {
    /// Their bytes.
    pub block: Block,
    /// What they say.
    pub parsed: ParsedBlock,
    /// Which of the files.
    pub file: usize,
    /// Bytes of the input used up to here, over all files.
    pub input_bytes: u64,
}

/// What the reading thread, or a signal, tells the filter.
pub enum Message {
    /// More records.
    Batch(Box<Batch>),
    /// The input has ended, in an error perhaps.
    End(anyhow::Result<()>),
    /// Somebody wants to stop.
    Stop,
}

/// The receiving end, and the way back for batches that are done with.
pub struct Input {
    messages: Receiver<Message>,
    sender: SyncSender<Message>,
    spent: SyncSender<Box<Batch>>,
}

impl Input {
    /// Starts reading `files` in order.
    pub fn start(files: Vec<PathBuf>, format: RecordFormat, parser: RecordParser) -> Self {
        let (sender, messages) = sync_channel(BATCHES_AHEAD);
        let (spent, reusable) = sync_channel(BATCHES_AHEAD + 2);
        let reading = sender.clone();
        // Detached on purpose: a read that waits for input must not keep a run from ending.
        thread::spawn(move || {
            let result = Reading { reading: &reading, reusable, input_bytes: 0 }.read_all(&files, format, parser);
            // Nobody listens any more where the run has ended first.
            let _ = reading.send(Message::End(result));
        });
        Self { messages, sender, spent }
    }

    /// The next message; waits for it. `idle` is called before a wait.
    pub fn next(&self, idle: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Message> {
        if let Ok(message) = self.messages.try_recv() {
            return Ok(message);
        }
        idle()?;
        Ok(self.messages.recv().unwrap_or(Message::End(Ok(()))))
    }

    /// Gives a batch back for its memory.
    pub fn recycle(&self, batch: Box<Batch>) {
        let _ = self.spent.try_send(batch);
    }

    /// A function that ends a wait in [`Self::next`].
    pub fn waker(&self) -> impl Fn() + Send + 'static {
        let sender = self.sender.clone();
        move || {
            // Where the queue is full nobody waits.
            let _ = sender.try_send(Message::Stop);
        }
    }
}

/// The reading thread's state.
struct Reading<'a> {
    reading: &'a SyncSender<Message>,
    reusable: Receiver<Box<Batch>>,
    input_bytes: u64,
}

impl Reading<'_> {
    fn read_all(mut self, files: &[PathBuf], format: RecordFormat, mut parser: RecordParser) -> anyhow::Result<()> {
        for (file, path) in files.iter().enumerate() {
            let name = name(path);
            if !self.read_file(file, path, format, &mut parser).with_context(|| name)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads one file; `false` if nobody listens any more.
    fn read_file(
        &mut self,
        file: usize,
        path: &Path,
        format: RecordFormat,
        parser: &mut RecordParser,
    ) -> anyhow::Result<bool> {
        let input: Box<dyn Read> =
            if is_stdin(path) { Box::new(io::stdin().lock()) } else { Box::new(File::open(path)?) };
        let before_bytes = self.input_bytes;
        let mut reader = BlockReader::new(Decompressed::new(input)?, BlockOptions::for_format(format));
        loop {
            let mut batch = self.reusable.try_recv().unwrap_or_default();
            if !reader.read_block(&mut batch.block)? {
                return Ok(true);
            }
            let Batch { block, parsed, .. } = &mut *batch;
            parser.parse(block, parsed).map_err(|error| UsageError(error.to_string()))?;
            self.input_bytes = before_bytes + reader.get_ref().input_bytes_used();
            (batch.file, batch.input_bytes) = (file, self.input_bytes);
            if self.reading.send(Message::Batch(batch)).is_err() {
                return Ok(false);
            }
        }
    }
}

/// Whether `path` stands for standard input.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// What to call `path` in a message.
pub fn name(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// Looks whether all files can be read, before anything is written; their size where all of them have one.
///
/// # Errors
/// The first file that is missing, forbidden or a folder.
pub fn check(files: &[PathBuf]) -> anyhow::Result<Option<u64>> {
    let mut total_bytes = Some(0);
    for path in files {
        if is_stdin(path) {
            total_bytes = None;
            continue;
        }
        let found = fs::metadata(path);
        let refused = |error: io::Error| UsageError(format!("{}: {error}", path.display()));
        let metadata = found.map_err(refused)?;
        if metadata.is_dir() {
            return Err(UsageError(format!("{} is a folder: name the files in it", path.display())).into());
        }
        // A pipe that is opened twice is closed in between, which ends who writes into it.
        if metadata.is_file() {
            File::open(path).map_err(refused)?;
        }
        total_bytes = total_bytes.filter(|_| metadata.is_file()).map(|total: u64| total + metadata.len());
    }
    Ok(total_bytes)
}
