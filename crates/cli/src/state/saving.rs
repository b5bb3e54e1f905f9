//! Saves the filter of a run to the file of `--state`, during the run and at its end. The run always writes a record to
//! the output before it saves the filter that contains the record. After a crash, the output may contain records that
//! the saved filter does not know, so these records may be written again. The opposite case would lose records and
//! cannot occur.

use std::io::{self, ErrorKind};
use std::mem;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use firstseen_embedded::Lock;

use super::checkpoint::Checkpoints;
use crate::exit::{Ended, is_broken_pipe};

/// Where and when the state of a run is saved. Without a path, the run keeps no state, or only looks keys up.
pub(crate) struct Saving {
    path: Option<PathBuf>,
    /// Lock that prevents other runs from saving to the same file.
    _lock: Option<Lock>,
    checkpoints: Checkpoints,
    is_saved_on_the_way: bool,
    has_told_failure: bool,
}

impl Saving {
    /// Locks the state at `path`, and prepares to save it in intervals of `every` and at the end of the run. The caller
    /// must call this function before it reads the state. Without the lock, another run could change the state after it
    /// was read.
    ///
    /// # Errors
    /// Returns an error if another run uses the state, or if it cannot be saved.
    pub(crate) fn new(path: Option<&Path>, every: Option<Duration>) -> anyhow::Result<Self> {
        Ok(Self {
            _lock: path.map(super::lock).transpose()?,
            path: path.map(Path::to_owned),
            checkpoints: Checkpoints::new(every, Instant::now()),
            is_saved_on_the_way: false,
            has_told_failure: false,
        })
    }

    /// Sets the size of the filter to be saved, in bytes.
    pub(crate) fn set_filter_bytes(&mut self, filter_bytes: u64) {
        self.checkpoints.set_filter_bytes(filter_bytes);
    }

    /// Notes that records were answered, so that there is something new to save.
    pub(crate) fn has_answered(&mut self) {
        self.checkpoints.has_answered();
    }

    /// Returns how long the input may pause until a save is due. `None` means that nothing needs to be saved.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.path.as_ref().and_then(|_| self.checkpoints.wait(Instant::now()))
    }

    /// Saves the state if a save is due. `input_bytes` is the number of input bytes that were read so far. The function
    /// first calls `deliver`, which writes all decided records and syncs the output files to disk, and then calls
    /// `save`.
    ///
    /// If the state cannot be saved, for example because the disk is full, the run continues. The function returns a
    /// message for the user in that case, but only for the first of several failures in a row.
    ///
    /// # Errors
    /// Returns the errors of `deliver`.
    pub(crate) fn save_if_due(
        &mut self,
        input_bytes: u64,
        save: impl FnOnce(&Path) -> anyhow::Result<()>,
        deliver: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<String>> {
        let began = Instant::now();
        let Some(path) = self.path.as_ref().filter(|_| self.checkpoints.is_due(began, input_bytes)) else {
            return Ok(None);
        };
        deliver()?;
        let saved = save(path);
        self.checkpoints.tried(began, Instant::now(), input_bytes, saved.is_ok());
        let Err(error) = saved else {
            self.is_saved_on_the_way = true;
            self.has_told_failure = false;
            return Ok(None);
        };
        let is_told = mem::replace(&mut self.has_told_failure, true);
        let line = format!("firstseen: {error:#}; the run goes on, and the state is as it was");
        Ok((!is_told).then_some(line))
    }

    /// Saves the state at the end of a run, or prints why it is not saved. `save` and `deliver` are the same as in
    /// [`Self::save_if_due`].
    ///
    /// # Errors
    /// Returns an error if the state cannot be saved. The same applies if it must not be saved, because records that it
    /// would count as passed on had no reader.
    pub(crate) fn end(
        &self,
        ended: &Ended,
        save: impl FnOnce(&Path) -> anyhow::Result<()>,
        deliver: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let since = if self.is_saved_on_the_way { "as it was saved last, on the way" } else { "as it was" };
        let not_saved = format!("the state {} is {since}", path.display());
        match ended {
            Ended::AtEnd | Ended::Stopped => {}
            Ended::Refused(_) => return Ok(()),
            Ended::Input(error) if is_damage(error) => {
                notice!(
                    "firstseen: {not_saved}: records of an archive may be altered up to its checksum, which stands at its end. What \
                     passed since passes again in the next run"
                );
                return Ok(());
            }
            Ended::Input(_) => {}
            Ended::Output(error) if is_broken_pipe(error) => {
                return Err(anyhow!(
                    "the reader of the output has gone before all records were written: {not_saved}, and what passed \
                     since passes again in the next run"
                ));
            }
            Ended::Output(_) => {
                notice!("firstseen: {not_saved}: what passed since passes again in the next run");
                return Ok(());
            }
        }
        deliver()?;
        save(path)
    }
}

/// Returns whether an input error may mean that the records before the error are corrupted. This is the case if
/// compressed data is damaged.
///
/// A truncated archive counts as damaged too. Its checksum would be at the end and is missing, so the records before
/// the end cannot be verified.
fn is_damage(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof))
}
