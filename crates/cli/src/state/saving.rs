//! Saves the state of a run to `--state`: while the run goes on, and at its end.
//!
//! Promises: records that the state calls passed on were written before. So the output may be ahead of the state, and
//! records may pass again after a crash; the state is never ahead, so no record is lost. Must not know: what a state
//! holds, where records go.

use std::io::{self, ErrorKind};
use std::mem;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::anyhow;

use super::checkpoint::Checkpoints;
use super::lock::Lock;
use crate::exit::{Ended, is_broken_pipe};

/// Where and when the state of a run is saved; nowhere for a run that keeps no state, or only looks up.
pub(crate) struct Saving {
    path: Option<PathBuf>,
    /// Keeps other runs from saving there.
    _lock: Option<Lock>,
    checkpoints: Checkpoints,
    is_saved_on_the_way: bool,
    has_told_failure: bool,
}

impl Saving {
    /// Saves to `path`, and `every` so often while the run goes on. To be called before the state is read: from here on
    /// no other run saves it.
    ///
    /// # Errors
    /// Where another run uses the state, or it cannot be saved.
    pub(crate) fn new(path: Option<&Path>, every: Option<Duration>) -> anyhow::Result<Self> {
        Ok(Self {
            _lock: path.map(Lock::of).transpose()?,
            path: path.map(Path::to_owned),
            checkpoints: Checkpoints::new(every, Instant::now()),
            is_saved_on_the_way: false,
            has_told_failure: false,
        })
    }

    /// Sets the size of the filter to be saved, in bytes.
    pub(crate) fn will_save(&mut self, filter_bytes: u64) {
        self.checkpoints.will_save(filter_bytes);
    }

    /// Records were answered.
    pub(crate) fn has_answered(&mut self) {
        self.checkpoints.has_answered();
    }

    /// How long a pause of the input may last until a save is due.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.path.as_ref().and_then(|_| self.checkpoints.wait(Instant::now()))
    }

    /// Saves with `save` if that is due, when so many bytes of the input have been read. `deliver` writes all records that
    /// were answered, so that those in files outlive a crash. A disk that has no room for the state does not end the run:
    /// the message about it is returned once.
    ///
    /// # Errors
    /// Those of `deliver`.
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

    /// Saves at the end of a run, or prints why not. `save` and `deliver` as for [`Self::save_if_due`].
    ///
    /// # Errors
    /// Where the state cannot be saved, or must not be, as records that it would call passed on had no reader.
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
                    "the reader of the output has gone before all records had left: {not_saved}, and what passed since \
                     passes again in the next run"
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

/// Whether the records before the error may differ from those that were once compressed. Of an archive that breaks off
/// this is not known, as its checksum is missing.
fn is_damage(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof))
}
