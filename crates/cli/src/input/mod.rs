//! Inputs of records, read and parsed on a thread of its own, ahead of the filter.
//!
//! [`Input`] is the seam: whatever gives blocks of records with digests, times and places can be deduplicated. `text` is
//! the input of text files and streams, and `queue` brings its batches to the thread of the filter.
//!
//! Promises: batches come in the order of the files and their records. Must not know: what becomes of a record.

pub(crate) mod arrivals;
mod beginning;
pub(crate) mod border;
pub(crate) mod disorder;
pub(crate) mod first;
pub mod left_out;
pub(crate) mod queue;
pub(crate) mod text;

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use firstseen_filter::AHEAD_EVENTS_MAX;
use firstseen_records::{ParsedBlock, RecordSpan, Records};
use same_file::Handle;
use serde::Serialize;

use crate::exit::UsageError;

/// A source of records.
///
/// It is read on a thread of its own, so that the filter does not wait for it.
pub(crate) trait Input: Send + 'static {
    /// The form in which it has records, which its outputs know.
    type Records: Records;

    /// Returns whether the input may pause: what was read is then decided and written without waiting for more.
    fn is_stream(&self) -> bool;

    /// Replaces the content of `batch` by the next records, with their digests and times; false at the end of the input.
    /// Of a stream it waits for no more than the next record.
    ///
    /// # Errors
    /// Where the input fails, or does not fit the flags ([`UsageError`]). The records before the error were in earlier
    /// batches, and nothing is read after it.
    fn read(&mut self, batch: &mut Batch<Self::Records>) -> anyhow::Result<bool>;
}

/// A batch: consecutive records of one file.
#[derive(Default)]
pub struct Batch<R> {
    /// The records, in the form in which the input has them.
    pub block: R,
    /// The parsed records: their digests, times and places in the block.
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

impl<R> Batch<R> {
    /// The place of the header, where this is the first of the batches that has it.
    pub fn new_header(&self) -> Option<RecordSpan> {
        self.parsed.header().filter(|header| !header.is_repeated).map(|header| header.span)
    }

    /// The times that the events bring, in milliseconds since 1970; none where no window needs them.
    pub fn own_times_ms(&self) -> impl Iterator<Item = u64> {
        // The parser rejects times before 1970.
        self.parsed.times_ms().iter().map(|time_ms| time_ms.cast_unsigned())
    }

    /// The times of the first events, in milliseconds since 1970; none where the input has none.
    pub fn first_times_ms(&self) -> Vec<u64> {
        self.own_times_ms().take(AHEAD_EVENTS_MAX).collect()
    }

    /// The time that half of the last events have reached, and the greatest of their times; none where the input has no
    /// times.
    pub fn last_times_ms(&self) -> Option<(i64, i64)> {
        let times_ms = self.parsed.times_ms();
        let mut last = times_ms[times_ms.len().saturating_sub(AHEAD_EVENTS_MAX)..].to_vec();
        last.sort_unstable();
        Some((last.get((last.len().max(1) - 1) / 2).copied()?, last.last().copied()?))
    }

    /// Replaces `times_ms` by the times of `events`, in milliseconds since 1970; by nothing where no window needs them.
    pub fn copy_times_ms(&self, events: Range<usize>, times_ms: &mut Vec<u64>) {
        times_ms.clear();
        match self.arrived_ms {
            Some(arrived_ms) => times_ms.resize(events.len(), arrived_ms),
            // The parser rejects times before 1970.
            None if !self.parsed.times_ms().is_empty() => {
                times_ms.extend(self.parsed.times_ms()[events].iter().map(|time_ms| time_ms.cast_unsigned()));
            }
            None => {}
        }
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

/// The time of day, in milliseconds since 1970.
pub fn present_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Whether one of the inputs may pause.
pub(crate) fn is_stream(files: &[PathBuf]) -> bool {
    !files.iter().all(|path| {
        if is_stdin(path) {
            stdin_file_bytes().is_some()
        } else {
            fs::metadata(path).is_ok_and(|found| found.is_file())
        }
    })
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
        let metadata = fs::metadata(path).map_err(|error| refused(path, &error))?;
        if metadata.is_dir() {
            return Err(UsageError(format!("{} is a folder: name the files in it", path.display())).into());
        }
        // A pipe that is opened twice is closed in between, which would end its writer.
        if metadata.is_file() {
            let file = File::open(path).map_err(|error| refused(path, &error))?;
            beginning::check(file, path, record_end)?;
        }
        total_bytes = total_bytes.filter(|_| metadata.is_file()).map(|total: u64| total + metadata.len());
    }
    Ok(total_bytes)
}

fn refused(path: &Path, error: &io::Error) -> UsageError {
    UsageError(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_streams_pause() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "1\n").expect("a file");
        assert!(!is_stream(&[file.clone(), file.clone()]));
        assert!(is_stream(&[file, PathBuf::from("/dev/null")]));
    }
}
