//! The audit file, to which a node appends lines about changes and rejected calls.
//!
//! # Guarantees
//! - After a crash, the next start removes a line that was only partly written. The file then contains only whole
//!   lines.
//! - An entry of the consensus log that is already in the file is not written a second time, even after a restart.
//! - If another program such as `logrotate` moves the file away, the node creates a new file.
//!
//! This module does not depend on the content of the lines.

mod line;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

pub(crate) use line::Line;

/// Number of bytes that the node reads from the end of an existing audit file when it opens the file. From these last
/// lines, the node learns which entries of the consensus log the file already contains. It needs this information so
/// that it does not write an entry twice.
///
/// The number of bytes is large enough to find every entry that the node may receive again after a restart. These are
/// only entries that are newer than the last snapshot of the consensus log. Between two snapshots, the node writes far
/// fewer bytes to the audit file than this number, so all these entries are in the part that it reads.
const TAIL_BYTES: u64 = 1 << 20;

/// The possible beginnings of a line in this file.
const BEGINNINGS: [&[u8]; 2] = [b"{\"at\":", b"{\"event\":"];

/// Error of opening or writing the audit file.
#[derive(Debug, Error)]
#[error("audit.file: cannot write {}: {source}", .path.display())]
pub struct AuditFileError {
    path: PathBuf,
    source: io::Error,
}

/// An open audit file.
pub struct AuditFile {
    path: PathBuf,
    file: File,
    /// For each cluster, the index of the newest entry of its consensus log that is in the file.
    written: BTreeMap<String, u64>,
}

impl AuditFile {
    /// Opens the audit file, or creates it. Only the user who runs the node can read the file.
    ///
    /// # Errors
    /// [`AuditFileError`] names the file and the cause.
    pub fn open(path: &Path) -> Result<Self, AuditFileError> {
        Self::open_at(path).map_err(|source| AuditFileError { path: path.to_owned(), source })
    }

    fn open_at(path: &Path) -> io::Result<Self> {
        let mut audit = Self { path: path.to_owned(), file: appending(path)?, written: BTreeMap::new() };
        audit.read_tail()?;
        Ok(audit)
    }

    /// Checks whether an audit file can be at `path`, without creating the file.
    ///
    /// # Errors
    /// [`AuditFileError`] says why the path cannot be used.
    pub fn check(path: &Path) -> Result<(), AuditFileError> {
        check_place(path).map_err(|source| AuditFileError { path: path.to_owned(), source })
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line to the audit file. If `lost` is greater than zero, the method first writes a line which reports
    /// that `lost` earlier lines could not be written. If the line describes an entry of the consensus log that the
    /// file already contains, nothing is written.
    pub(crate) fn append(&mut self, line: &Line, lost: u64) -> io::Result<()> {
        let place = line.place().map(|(cluster, index)| (cluster.to_owned(), index));
        if let Some((cluster, index)) = &place
            && self.written.get(cluster).is_some_and(|written| written >= index)
        {
            return Ok(());
        }
        self.follow()?;
        let mut bytes = Vec::new();
        if lost > 0 {
            serde_json::to_writer(&mut bytes, &Line::lost(lost))?;
            bytes.push(b'\n');
        }
        serde_json::to_writer(&mut bytes, line)?;
        bytes.push(b'\n');
        let end = self.file.metadata()?.len();
        if let Err(error) = self.file.write_all(&bytes) {
            // On a full disk, the file may end with the first half of a line. That half would damage the next line, so
            // it is removed.
            self.file.set_len(end)?;
            return Err(error);
        }
        if let Some(place) = place {
            self.written.extend([place]);
            self.file.sync_data()?;
            self.note_written()?;
        }
        Ok(())
    }

    /// Stores which entries have been written in a separate file. The node needs this information after the audit file
    /// has been moved away.
    fn note_written(&self) -> io::Result<()> {
        let new = beside(&self.path, ".written.new");
        fs::write(&new, serde_json::to_vec(&self.written)?)?;
        fs::rename(new, beside(&self.path, ".written"))
    }

    /// Opens a new file if the current file is no longer at its path.
    fn follow(&mut self) -> io::Result<()> {
        if !is_at(&self.file, &self.path) {
            self.file = appending(&self.path)?;
        }
        Ok(())
    }

    /// Reads which entries the file contains, and removes a last line that was not completely written.
    fn read_tail(&mut self) -> io::Result<()> {
        // If the separate file with the written entries cannot be read, the end of the audit file still contains them.
        let noted = fs::read(beside(&self.path, ".written")).ok();
        self.written = noted.and_then(|noted| serde_json::from_slice(&noted).ok()).unwrap_or_default();
        let bytes = self.file.metadata()?.len();
        let mut tail = BufReader::new(File::open(&self.path)?);
        let mut place = bytes.saturating_sub(TAIL_BYTES);
        tail.seek(SeekFrom::Start(place))?;
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = tail.read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(());
            }
            if line.last() != Some(&b'\n') {
                // Text that does not begin like a line of this file belongs to another program, so the node must not
                // remove it.
                let is_ours = BEGINNINGS.iter().any(|ours| line.starts_with(ours) || ours.starts_with(&line));
                let wrong = "it does not end like an audit file: does it belong to another program?";
                return if is_ours { self.file.set_len(place) } else { Err(io::Error::other(wrong)) };
            }
            place += read as u64;
            // The first line of the read part may lack its beginning, and other programs may have appended any text.
            let Ok(line) = serde_json::from_slice::<Line>(&line) else { continue };
            if let Some((cluster, index)) = line.place() {
                let written = self.written.entry(cluster.to_owned()).or_default();
                *written = index.max(*written);
            }
        }
    }
}

/// Returns `path` with `suffix` appended to the file name.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn appending(path: &Path) -> io::Result<File> {
    check_place(path)?;
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Returns an error unless an audit file can be kept at `path`. The path must name a regular file, or a file that does
/// not exist yet in an existing folder. Pipes are rejected because a write to a pipe can block the node. Devices are
/// rejected because the node must be able to append to the end of the file after a restart.
fn check_place(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(there) if there.is_file() => Ok(()),
        Ok(_) => Err(io::Error::other("it is no regular file: name one, or a new one in a folder that there is")),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Err(error) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if path.file_name().is_some() && folder.is_dir() { Ok(()) } else { Err(error) }
        }
    }
}

/// Returns whether the open file is still the file at `path`.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(here) = file.metadata() else { return false };
    fs::metadata(path).is_ok_and(|there| there.dev() == here.dev() && there.ino() == here.ino())
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    fs::metadata(path).is_ok()
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn only_a_file_on_a_disk_will_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let wrong = |path: &Path| {
            let checked = AuditFile::check(path).expect_err("no file").to_string();
            assert_eq!(AuditFile::open(path).err().expect("no file").to_string(), checked);
            checked
        };
        assert!(wrong(folder.path()).contains("no regular file"));
        assert!(wrong(Path::new("/dev/full")).contains("no regular file"));
        assert!(wrong(&folder.path().join("missing/audit.jsonl")).contains("No such file"));
        let new = folder.path().join("audit.jsonl");
        AuditFile::check(&new).expect("a place for one");
        assert!(!new.exists(), "it was only looked at");
        AuditFile::open(&new).expect("a file");
        AuditFile::check(&new).expect("it is there");
    }

    use firstseen_meta::{AskedBy, Audited};
    use firstseen_routing::ClusterId;

    use super::*;

    fn change(cluster: u8, index: u64) -> Line {
        Line::agreed(&Audited::Change {
            cluster: ClusterId([cluster; 16]),
            index,
            asked_by: AskedBy::default(),
            change: "drop-filter",
            subject: format!("filter {index}"),
            refused: None,
        })
    }

    fn lines(path: &Path) -> Vec<Line> {
        let text = fs::read_to_string(path).expect("a file");
        text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect()
    }

    #[test]
    fn entries_are_written_once_also_after_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let mut file = AuditFile::open(&path).expect("a file");
        [3, 4, 4, 3].iter().for_each(|index| file.append(&change(1, *index), 0).expect("a line"));
        file.append(&Line::denied(&AskedBy::default(), "/s/m", "no"), 0).expect("a line");
        drop(file);
        // The process ended in the middle of a line.
        let mut torn = OpenOptions::new().append(true).open(&path).expect("the file");
        torn.write_all(b"{\"event\":\"cha").expect("half a line");
        let mut file = AuditFile::open(&path).expect("a file");
        [3, 4, 5].iter().for_each(|index| file.append(&change(1, *index), 0).expect("a line"));
        file.append(&change(2, 1), 7).expect("another cluster counts anew");
        let there: Vec<Option<u64>> = lines(&path).iter().map(|line| line.place().map(|(_, index)| index)).collect();
        assert_eq!(there, [Some(3), Some(4), None, Some(5), None, Some(1)]);
        assert_eq!(lines(&path)[4], Line::lost(7));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_was_moved_away_is_followed_by_a_new_one() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().expect("a folder");
        let (path, moved) = (folder.path().join("audit.jsonl"), folder.path().join("audit.1"));
        let mut file = AuditFile::open(&path).expect("a file");
        file.append(&change(1, 1), 0).expect("a line");
        fs::rename(&path, &moved).expect("a move");
        file.append(&change(1, 2), 0).expect("a line");
        assert_eq!((lines(&moved).len(), lines(&path).len()), (1, 1));
        // Entries in the file that was moved away are not written again, not even by another process.
        fs::rename(&path, folder.path().join("audit.2")).expect("a move");
        let mut file = AuditFile::open(&path).expect("a file");
        [1, 2, 3].iter().for_each(|index| file.append(&change(1, *index), 0).expect("a line"));
        assert_eq!(lines(&path).len(), 1);
        // A file of another program stays unchanged.
        let other = folder.path().join("notes");
        fs::write(&other, "a line\nand half").expect("a file");
        assert!(AuditFile::open(&other).is_err_and(|error| error.to_string().contains("another program")));
        assert_eq!(fs::read_to_string(&other).expect("it"), "a line\nand half");
        assert_eq!(fs::metadata(&path).expect("it").mode() & 0o777, 0o600);
        assert!(AuditFile::open(folder.path()).is_err_and(|error| error.to_string().contains("audit.file")));
    }
}
