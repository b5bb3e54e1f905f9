//! Records that are no events: told with their place, kept where somebody asked for them.

use std::fmt::Display;
use std::path::PathBuf;

use crate::input::name;
use crate::terminal::progress::Progress;

/// Rejections that are told one by one; of the others only the number is told at the end.
const TOLD_MAX: u64 = 5;

/// Counts and tells rejections.
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

    /// The record on `line` of `file` is rejected.
    pub fn tell(&mut self, file: usize, line: u64, reason: impl Display, progress: &Progress) {
        self.count += 1;
        if self.count <= TOLD_MAX {
            progress.note(&format!("firstseen: {}: rejected: {reason}", self.place(file, line)));
        }
    }

    /// What to call `line` of `file`.
    pub fn place(&self, file: usize, line: u64) -> String {
        let file = self.files.get(file).map_or_else(String::new, |path| name(path));
        format!("{file}:{line}")
    }

    /// The last word, if there is more to say than was told.
    pub fn end(&self, progress: &Progress) {
        let advice = if self.is_kept { "" } else { "; --rejected FILE keeps them" };
        if self.count > TOLD_MAX {
            progress.note(&format!("firstseen: {} records were rejected in all{advice}", self.count));
        }
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }
}
