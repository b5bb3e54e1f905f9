//! A lock, so that only one run at a time uses a state: of two runs, each would overwrite the other's half.
//!
//! Promises: a lock ends with its process, however that ends. Must not know: what a state holds.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use same_file::Handle;

use crate::exit::UsageError;
use crate::output::distinct::place;

/// The lock file beside a state. The state itself cannot be locked, as each save replaces it.
pub(crate) struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// The path of the lock file for `state`, the same by whatever links that is reached.
    pub(crate) fn path_for(state: &Path) -> PathBuf {
        let mut path = place(state).into_os_string();
        path.push(".lock");
        path.into()
    }

    /// Locks `state`, which need not exist yet, for as long as this lives.
    ///
    /// # Errors
    /// Where another run has the lock, or no file can be made beside the state.
    pub(crate) fn of(state: &Path) -> anyhow::Result<Self> {
        let path = Self::path_for(state);
        loop {
            let file = OpenOptions::new().append(true).create(true).open(&path);
            let file =
                file.with_context(|| format!("cannot save the state {} beside {}", state.display(), path.display()))?;
            // Where files cannot be locked, as on some network file systems, two runs are not kept apart.
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                let way_out = "wait for its end, or name another file with --state";
                bail!(UsageError(format!("{}: another run keeps this state: {way_out}", state.display())));
            }
            // A run that ended between open and lock has removed the file: then the locked file has no name any more.
            if is_at(&file, &path)? {
                return Ok(Self { path, file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A file with content was not made by this code, and stays.
        if self.file.metadata().is_ok_and(|file| file.len() == 0) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = Handle::from_file(file.try_clone()?)?;
    Ok(Handle::from_path(path).is_ok_and(|found| found == ours))
}
