//! The file that lines are appended to.
//!
//! Promises: a line is whole or not there; entries of the agreement that are in the file are not written a second time, also after
//! a restart; a file that was moved away (by `logrotate`) is followed by a new one. Must not know: what lines say.

mod line;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

pub(crate) use line::Line;

/// So many bytes at the end of the file are read for the newest entries in it: far more than changes since a snapshot take.
const TAIL_BYTES: u64 = 1 << 20;

/// How lines begin.
const BEGINNINGS: [&[u8]; 2] = [b"{\"at\":", b"{\"event\":"];

/// Why the file cannot be used.
#[derive(Debug, Error)]
#[error("audit.file: cannot write {}: {source}", .path.display())]
pub struct AuditFileError {
    path: PathBuf,
    source: io::Error,
}

/// The file that lines are appended to.
pub struct AuditFile {
    path: PathBuf,
    file: File,
    /// By cluster, the newest entry of its agreement that is in the file.
    written: BTreeMap<String, u64>,
}

impl AuditFile {
    /// Opens the file, or makes it; only its owner can read it.
    ///
    /// # Errors
    /// [`AuditFileError`] says which file, and why.
    pub fn open(path: &Path) -> Result<Self, AuditFileError> {
        Self::open_at(path).map_err(|source| AuditFileError { path: path.to_owned(), source })
    }

    fn open_at(path: &Path) -> io::Result<Self> {
        let mut audit = Self { path: path.to_owned(), file: appending(path)?, written: BTreeMap::new() };
        audit.read_tail()?;
        Ok(audit)
    }

    /// Whether there may be such a file at `path`, without making it.
    ///
    /// # Errors
    /// [`AuditFileError`] says why not.
    pub fn check(path: &Path) -> Result<(), AuditFileError> {
        check_place(path).map_err(|source| AuditFileError { path: path.to_owned(), source })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line, and before it that others were lost.
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
            // On a full disk, the first half of a line would spoil the next.
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

    /// Keeps which entries are written, for the time after the file has been moved away.
    fn note_written(&self) -> io::Result<()> {
        let new = beside(&self.path, ".written.new");
        fs::write(&new, serde_json::to_vec(&self.written)?)?;
        fs::rename(new, beside(&self.path, ".written"))
    }

    /// Goes over to a new file where this one is no longer at its place.
    fn follow(&mut self) -> io::Result<()> {
        if !is_at(&self.file, &self.path) {
            self.file = appending(&self.path)?;
        }
        Ok(())
    }

    /// Reads which entries are there, and takes off a line that was not written to its end.
    fn read_tail(&mut self) -> io::Result<()> {
        // A note that cannot be read is none: the file itself says the rest.
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
                // What does not begin as a line of this file is somebody else's.
                let is_ours = BEGINNINGS.iter().any(|ours| line.starts_with(ours) || ours.starts_with(&line));
                let wrong = "it does not end as an audit file does: is it another program's?";
                return if is_ours { self.file.set_len(place) } else { Err(io::Error::other(wrong)) };
            }
            place += read as u64;
            // The first line of the tail may lack its beginning, and lines of others may be anything.
            let Ok(line) = serde_json::from_slice::<Line>(&line) else { continue };
            if let Some((cluster, index)) = line.place() {
                let written = self.written.entry(cluster.to_owned()).or_default();
                *written = index.max(*written);
            }
        }
    }
}

/// The file of this name with something behind it.
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

/// Only a file on a disk, or a place for one: a pipe would hang, and a device has no end to go on from.
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

/// Whether the open file is the one that is at `path`.
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
        // The entries in the file that is away are not written again, also by another process.
        fs::rename(&path, folder.path().join("audit.2")).expect("a move");
        let mut file = AuditFile::open(&path).expect("a file");
        [1, 2, 3].iter().for_each(|index| file.append(&change(1, *index), 0).expect("a line"));
        assert_eq!(lines(&path).len(), 1);
        // A file of another program is left as it is.
        let other = folder.path().join("notes");
        fs::write(&other, "a line\nand half").expect("a file");
        assert!(AuditFile::open(&other).is_err_and(|error| error.to_string().contains("another program")));
        assert_eq!(fs::read_to_string(&other).expect("it"), "a line\nand half");
        assert_eq!(fs::metadata(&path).expect("it").mode() & 0o777, 0o600);
        assert!(AuditFile::open(folder.path()).is_err_and(|error| error.to_string().contains("audit.file")));
    }
}
