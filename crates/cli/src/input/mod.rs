//! Inputs of records. A separate thread reads and parses the records ahead of the filter.
//!
//! `Input` is the interface of an input. Any source that returns blocks of records with digests, times and positions
//! can be deduplicated. `text` implements it for text files and streams, and `columns` for files of rows. `queue`
//! passes the batches to the thread of the filter.
//!
//! Batches arrive in the order of the files and of their records. This module does not depend on what happens to a
//! record.

pub(crate) mod arrivals;
mod beginning;
pub(crate) mod border;
#[cfg(feature = "parquet")]
pub(crate) mod columns;
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

use anyhow::Context;
use firstseen_filter::AHEAD_EVENTS_MAX;
use firstseen_records::{ParsedBlock, RecordSpan, Records};
use same_file::Handle;
use serde::Serialize;

use crate::exit::{UsageError, file_advice};

/// A source of records.
///
/// A separate thread reads the source, so the filter does not wait for it.
pub(crate) trait Input: Send + 'static {
    /// Form of the records of this input. Its outputs must accept the same form.
    type Records: Records;

    /// Returns whether the input may pause. If it may, records that were read are decided and written without waiting
    /// for more.
    fn is_stream(&self) -> bool;

    /// Reads the next records into `batch`, together with their digests and times. The previous content of `batch` is
    /// lost. Returns false at the end of the input. If the input is a stream, the call returns as soon as one record is
    /// available.
    ///
    /// # Errors
    /// Returns an error if the input fails, or if it does not fit the flags ([`UsageError`]). The records before the
    /// error were in earlier batches, and nothing is read after the error.
    fn read(&mut self, batch: &mut Batch<Self::Records>) -> anyhow::Result<bool>;
}

/// Files that are read one after the other.
pub(crate) trait FileByFile {
    /// Form of the records.
    type Records: Records;

    /// Fills `batch` with the next records of the current file. Returns false at the end of the file, and if no file is
    /// open yet.
    fn read_current(&mut self, batch: &mut Batch<Self::Records>) -> anyhow::Result<bool>;

    /// Returns the name of the current file in messages. The result is empty if no file is open yet.
    fn current_name(&self) -> String;

    /// Opens the file after the current file. Returns false if there is no further file.
    fn open_next(&mut self) -> anyhow::Result<bool>;

    /// Fills `batch` with the next records of any file. Returns false at the end of the last file.
    ///
    /// # Errors
    /// Returns an error that begins with the name of the file if the file cannot be read.
    fn read_next(&mut self, batch: &mut Batch<Self::Records>) -> anyhow::Result<bool> {
        loop {
            let read = self.read_current(batch);
            if read.with_context(|| self.current_name())? {
                return Ok(true);
            }
            if !self.open_next()? {
                return Ok(false);
            }
        }
    }
}

/// A batch of consecutive records from one file.
#[derive(Default)]
pub struct Batch<R> {
    /// The records, in the form that the input uses.
    pub block: R,
    /// The parsed records: their digests, their times and their positions in the block.
    pub parsed: ParsedBlock,
    /// Index of the file that the records come from.
    pub file: usize,
    /// Bytes of the input up to the end of the batch, summed over all files.
    pub input_bytes: u64,
    /// Time of arrival of the records in milliseconds since 1970, if this is the time by which they are judged.
    pub arrived_ms: Option<u64>,
    /// Whether this batch is the end of a file and the next file begins at an earlier time. The records of the next
    /// file then cannot confirm the time of the last record of this batch. That time may therefore be right although no
    /// later record confirms it.
    pub is_before_older: bool,
    /// The parser's description of a field that no record has had so far, if no record could be read.
    pub lacking: Option<String>,
}

impl<R> Batch<R> {
    /// Returns the position of the header if this is the first batch that contains it.
    pub fn new_header(&self) -> Option<RecordSpan> {
        self.parsed.header().filter(|header| !header.is_repeated).map(|header| header.span)
    }

    /// Returns the times that the records contain, in milliseconds since 1970. The iterator is empty if the window
    /// needs no times.
    pub fn own_times_ms(&self) -> impl Iterator<Item = u64> {
        // The parser rejects times before 1970.
        self.parsed.times_ms().iter().map(|time_ms| time_ms.cast_unsigned())
    }

    /// Returns the times of the first events, in milliseconds since 1970. The result is empty if the input has no
    /// times.
    pub fn first_times_ms(&self) -> Vec<u64> {
        self.own_times_ms().take(AHEAD_EVENTS_MAX).collect()
    }

    /// Returns the time that half of the last events have reached, and the greatest of their times. `None` means that
    /// the input has no times.
    pub fn last_times_ms(&self) -> Option<(i64, i64)> {
        let times_ms = self.parsed.times_ms();
        let mut last = times_ms[times_ms.len().saturating_sub(AHEAD_EVENTS_MAX)..].to_vec();
        last.sort_unstable();
        Some((last.get((last.len().max(1) - 1) / 2).copied()?, last.last().copied()?))
    }

    /// Copies the times of the given `events` into `times_ms`, in milliseconds since 1970. The previous content of
    /// `times_ms` is lost. If the window does not use times, `times_ms` is empty afterwards.
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
    /// A field of the record. This value also stands for inputs whose window needs no times.
    Record,
    /// The clock of this machine at the moment when the record arrives.
    Arrival,
}

/// Returns the time of day, in milliseconds since 1970.
pub fn present_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns whether at least one of the inputs may pause.
pub(crate) fn is_stream(files: &[PathBuf]) -> bool {
    !files.iter().all(|path| {
        if is_stdin(path) {
            stdin_file_bytes().is_some()
        } else {
            fs::metadata(path).is_ok_and(|found| found.is_file())
        }
    })
}

/// Name of standard input in messages.
pub(crate) const STANDARD_INPUT: &str = "standard input";

/// Returns whether `path` stands for standard input.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the size of standard input if it is a file that the shell has opened (`< file`), and not a stream.
pub fn stdin_file_bytes() -> Option<u64> {
    let found = Handle::stdin().ok()?.as_file().metadata().ok()?;
    found.is_file().then_some(found.len())
}

/// Returns the name of `path` in a message.
pub fn name(path: &Path) -> String {
    if is_stdin(path) { STANDARD_INPUT.to_owned() } else { path.display().to_string() }
}

/// Checks that all input files can be read and begin with text, so that a mistake is found before anything is written.
/// `record_end` is the byte that ends a record. `None` means that the files do not contain text. Returns the total size
/// of the files in bytes, or `None` if one of them is a stream.
///
/// # Errors
/// Returns an error about the first file that is missing, is not readable, is a folder, or is not text.
pub fn check(files: &[PathBuf], record_end: Option<u8>) -> anyhow::Result<Option<u64>> {
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
        // A pipe must not be opened here: closing it again before the run opens it would end its writer.
        if metadata.is_file() {
            let file = File::open(path).map_err(|error| refused(path, &error))?;
            record_end.map_or(Ok(()), |record_end| beginning::check(file, path, record_end))?;
        }
        total_bytes = total_bytes.filter(|_| metadata.is_file()).map(|total: u64| total + metadata.len());
    }
    Ok(total_bytes)
}

fn refused(path: &Path, error: &io::Error) -> UsageError {
    UsageError(format!("{}: {error}{}", path.display(), file_advice(error)))
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
