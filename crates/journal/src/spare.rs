//! Reserves file descriptors for a folder of files.
//!
//! A process that has reached its limit of open files cannot create another file. A node with many connections can
//! reach this limit, and would have to stop if it could not write its journal. A few file descriptors are therefore
//! reserved for the journal.
//!
//! If a file operation finds no free descriptor, the reserved descriptors are released and the operation is retried. If
//! there is still no free descriptor, the operation returns the error `StorageFull`. Callers then wait until
//! descriptors are available, in the same way as they wait for space on a full disk.

use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Maximum number of descriptors that one operation needs: for the file that stays open, for its folder, and for one
/// additional file.
const KEPT: usize = 3;

/// Error codes for a process or a machine that has reached its limit of open files (on Linux and other Unix systems).
const TOO_MANY_OPEN: [i32; 2] = [nix::errno::Errno::EMFILE as i32, nix::errno::Errno::ENFILE as i32];

/// Reserved file descriptors.
pub(crate) struct SpareDescriptors(Mutex<Vec<File>>);

impl SpareDescriptors {
    /// Reserves as many descriptors as are available.
    pub(crate) fn new() -> Self {
        let spare = Self(Mutex::default());
        spare.refill();
        spare
    }

    /// Executes `work`, and retries it with the reserved descriptors if it finds no free descriptor.
    ///
    /// # Errors
    /// Returns the errors of `work`, and `StorageFull` if no descriptor is free. The latter may be temporary.
    pub(crate) fn retry<T>(&self, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match work() {
            Err(error) if has_too_many_open(&error) => {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
                let tried = work();
                self.refill();
                tried.map_err(waited_for)
            }
            done => done,
        }
    }

    fn refill(&self) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while spare.len() < KEPT {
            match File::open("/dev/null") {
                Ok(file) => spare.push(file),
                Err(_) => return,
            }
        }
    }
}

fn has_too_many_open(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| TOO_MANY_OPEN.contains(&code))
}

fn waited_for(error: io::Error) -> io::Error {
    if has_too_many_open(&error) {
        let why = "no file descriptor is left: raise the limit of open files, or close connections";
        return io::Error::new(io::ErrorKind::StorageFull, why);
    }
    error
}
