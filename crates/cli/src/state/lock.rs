//! One run at a time keeps a state: of two, each would save its half over the other's.
//!
//! Promises: a lock ends with the process that has it, however that ends. Must not know: what is in a state.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use same_file::Handle;

use crate::exit::UsageError;
use crate::output::distinct::place;

/// The file beside a state that the run which keeps it has locked: a state itself is replaced whenever it is saved.
pub(crate) struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// The name of the file for `state`, the same by whatever links that is reached.
    pub(crate) fn path_for(state: &Path) -> PathBuf {
        let mut path = place(state).into_os_string();
        path.push(".lock");
        path.into()
    }

    /// Locks `state`, which need not be there yet, for as long as this lives.
    ///
    /// # Errors
    /// Where another run keeps it, or there can be no file beside it.
    pub(crate) fn of(state: &Path) -> anyhow::Result<Self> {
        let path = Self::path_for(state);
        loop {
            let file = OpenOptions::new().append(true).create(true).open(&path);
            let file =
                file.with_context(|| format!("cannot save the state {} beside {}", state.display(), path.display()))?;
            // Where files cannot be locked, as on some networks' file systems, nobody is kept away.
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                let way_out = "wait for its end, or name another file with --state";
                bail!(UsageError(format!("{}: another run keeps this state: {way_out}", state.display())));
            }
            // A run that ended between has taken its file away, and with it what is locked here.
            if is_at(&file, &path)? {
                return Ok(Self { path, file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // What somebody else has under this name stays.
        if self.file.metadata().is_ok_and(|file| file.len() == 0) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = Handle::from_file(file.try_clone()?)?;
    Ok(Handle::from_path(path).is_ok_and(|found| found == ours))
}
