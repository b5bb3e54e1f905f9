//! Stores the last time of day that a node relied on, so that the node can check its clock when it starts again. The
//! stored time is most important for a node that runs alone. A node in a larger cluster can also compare its clock with
//! the clocks of other nodes. If the file with the stored time is damaged, it is ignored.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// First line of the file, which names the format and its version.
const HEAD: &str = "firstseen clock 1";

/// Storage for the last time of day of a node.
pub trait LastTime: Send + Sync + 'static {
    /// Returns the time that was stored last, in milliseconds since 1970.
    fn read(&self) -> Option<u64>;

    /// Stores a time, in milliseconds since 1970. This method must not block for long.
    fn keep(&self, wall_ms: u64);
}

/// Implementation that stores nothing.
pub struct NoLastTime;

impl LastTime for NoLastTime {
    fn read(&self) -> Option<u64> {
        None
    }

    fn keep(&self, _wall_ms: u64) {}
}

/// Stores the time in a file in the data folder.
pub(crate) struct ClockFile {
    path: PathBuf,
}

impl ClockFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }
}

impl LastTime for ClockFile {
    fn read(&self) -> Option<u64> {
        read(&fs::read_to_string(&self.path).ok()?)
    }

    fn keep(&self, wall_ms: u64) {
        let path = self.path.clone();
        // The write runs on a blocking thread because the disk may hang.
        tokio::task::spawn_blocking(move || {
            if let Err(error) = write(&path, wall_ms) {
                tracing::debug!(%error, path = %path.display(), "the time is not kept for the next start");
            }
        });
    }
}

fn read(text: &str) -> Option<u64> {
    let time = text.strip_prefix(HEAD)?.strip_prefix('\n')?.strip_suffix('\n')?;
    time.parse().ok()
}

/// Writes the file atomically, so that after a power failure it contains either the new time or the previous time. If a
/// file were written only in part, the reader would ignore it, and the node would have no time to compare its clock
/// with.
fn write(path: &Path, wall_ms: u64) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    let mut file = fs::File::create(&unfinished)?;
    file.write_all(format!("{HEAD}\n{wall_ms}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    match path.parent() {
        Some(folder) => fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_comes_back_and_anything_else_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clock");
        let file = ClockFile::new(path.clone());
        assert_eq!(file.read(), None);
        write(&path, 1_790_000_000_123).unwrap();
        assert_eq!(file.read(), Some(1_790_000_000_123));
        for damaged in ["", "firstseen clock 1\n", "firstseen clock 1\n12", "firstseen clock 2\n12\n", "clock\n12\n"] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(file.read(), None, "{damaged:?}");
        }
    }
}
