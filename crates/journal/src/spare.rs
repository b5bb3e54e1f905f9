//! File descriptors that are kept back for a folder of files.
//!
//! A process that has as many files open as it may, for example because of many connections, cannot create a file. A node that
//! cannot write its journal ends, so some descriptors are kept back for it.
//!
//! Promises: an operation that finds no descriptor is tried again with those that were kept back; if it still finds none, its error
//! is `StorageFull`, which callers wait for. It must not depend on what the operation does.

use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Descriptors that one operation needs at most: the file that stays open, its folder, and one for a file beside.
const KEPT: usize = 3;

/// Errors of a process, and of a machine, that has as many files open as it may (Linux and other Unix systems).
const TOO_MANY_OPEN: [i32; 2] = [nix::errno::Errno::EMFILE as i32, nix::errno::Errno::ENFILE as i32];

/// Descriptors that are kept back.
pub(crate) struct SpareDescriptors(Mutex<Vec<File>>);

impl SpareDescriptors {
    /// Keeps descriptors back, as far as there are any.
    pub(crate) fn new() -> Self {
        let spare = Self(Mutex::default());
        spare.refill();
        spare
    }

    /// Carries out `work`, and tries it again with the descriptors that are kept back if it finds none.
    ///
    /// # Errors
    /// Those of `work`; `StorageFull` if it finds no descriptor, which may pass.
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
