//! Rejected records: printed with their place, and written to a file where a flag asks for it.

use std::fmt::Display;
use std::path::PathBuf;

use crate::input::name;
use crate::terminal::progress::Progress;

/// Rejections that are printed one by one; of the others only the number is printed at the end.
const SHOWN_MAX: u64 = 5;

/// Counts and prints rejections.
pub struct Rejects {
    files: Vec<PathBuf>,
    count: u64,
    is_kept: bool,
}

impl Rejects {
    /// None yet; `is_kept` says that the records go to a file.
    pub fn new(files: Vec<PathBuf>, is_kept: bool) -> Self {
        Self { files, count: 0, is_kept }
    }

    /// Counts the rejected record on `line` of `file`, and prints it if it is one of the first.
    pub fn add(&mut self, file: usize, line: u64, reason: impl Display, progress: &Progress) {
        self.count += 1;
        if self.count <= SHOWN_MAX {
            progress.note(&format!("firstseen: {}: rejected: {reason}", self.place(file, line)));
        }
    }

    /// The name of `line` of `file` in messages.
    pub fn place(&self, file: usize, line: u64) -> String {
        let file = self.files.get(file).map_or_else(String::new, |path| name(path));
        format!("{file}:{line}")
    }

    /// Prints how many there were, if there were more than those that were printed.
    pub fn end(&self, progress: &Progress) {
        let advice = if self.is_kept { "" } else { "; --rejected FILE keeps them" };
        if self.count > SHOWN_MAX {
            progress.note(&format!("firstseen: {} records were rejected in all{advice}", self.count));
        }
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }
}
