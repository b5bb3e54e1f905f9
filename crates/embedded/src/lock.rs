//! A lock file that prevents two runs from using the same saved state, because each run would overwrite the state of
//! the other run. The operating system releases the lock when the process ends, even if the process is killed, so a
//! lock never remains by mistake.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use same_file::Handle;
use thiserror::Error;

use crate::paths::place;

/// Reason why a state cannot be locked.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process keeps the same state.
    #[error("{state}: another run keeps this state: wait for its end, or name another file")]
    InUse {
        /// The state.
        state: String,
    },
    /// The lock file cannot be created or checked.
    #[error("cannot create {lock}, the lock file of the state {state}")]
    File {
        /// The lock file.
        lock: String,
        /// The state.
        state: String,
        /// The reason.
        source: io::Error,
    },
}

impl LockError {
    fn of_file(lock: &Path, state: &Path, source: io::Error) -> Self {
        Self::File { lock: lock.display().to_string(), state: state.display().to_string(), source }
    }
}

/// Lock file next to a state file. The state file itself cannot carry the lock, because each save replaces that file.
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Returns the path of the lock file for `state`. The path is the same through whichever symbolic links the state
    /// is reached.
    pub fn path_for(state: &Path) -> PathBuf {
        let mut path = place(state).into_os_string();
        path.push(".lock");
        path.into()
    }

    /// Locks `state` until the returned value is dropped. The state file need not exist yet.
    ///
    /// # Errors
    /// Returns [`LockError`] if another run holds the lock, or if no file can be created next to the state.
    pub fn of(state: &Path) -> Result<Self, LockError> {
        let path = Self::path_for(state);
        loop {
            let opened = OpenOptions::new().append(true).create(true).open(&path);
            let file = opened.map_err(|source| LockError::of_file(&path, state, source))?;
            // Some network file systems cannot lock files. On such a system, two runs are not prevented from using the
            // same state.
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                return Err(LockError::InUse { state: state.display().to_string() });
            }
            // Another run may have ended, and removed the lock file, after this process opened the file and before it
            // locked it. The locked file then has no name any more, and the lock protects nothing.
            if is_at(&file, &path).map_err(|source| LockError::of_file(&path, state, source))? {
                return Ok(Self { path, file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A file with content was not made by this code, so it is not removed.
        if self.file.metadata().is_ok_and(|file| file.len() == 0) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = Handle::from_file(file.try_clone()?)?;
    Ok(Handle::from_path(path).is_ok_and(|found| found == ours))
}
