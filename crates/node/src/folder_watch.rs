//! Checks that the files in the data folder of a running node still exist. The check is necessary because a process can
//! continue to write to an open file that a user has deleted, and this data is gone when the process ends. The module
//! notices within two seconds that the database or the journal was deleted or replaced. Events that the node
//! acknowledged as durable during these two seconds are lost.
//!
//! Only the newest file of the journal is checked, because the journal itself deletes its older files.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstseen_wire::watch;

use crate::data_folder::{DATABASE_FILE, JOURNAL_FOLDER};

/// Interval between two checks.
const LOOK: Duration = Duration::from_secs(1);

/// The files that a node keeps on its machine.
pub trait KeptFiles: Send + Sync + 'static {
    /// Returns a file or folder that has been deleted or replaced since the first check. This method may block.
    fn missing(&self) -> Option<PathBuf>;
}

/// Identity of a file or folder in its file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileNumber {
    device: u64,
    number: u64,
}

impl FileNumber {
    #[cfg(unix)]
    fn of(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;

        let metadata = fs::metadata(path)?;
        Ok(Self { device: metadata.dev(), number: metadata.ino() })
    }

    /// On this platform, the watch notices deleted files but not replaced files.
    #[cfg(not(unix))]
    fn of(path: &Path) -> io::Result<Self> {
        fs::metadata(path)?;
        Ok(Self { device: 0, number: 0 })
    }
}

/// The files of a data folder.
pub(crate) struct FolderFiles {
    paths: [PathBuf; 2],
    seen: Mutex<Seen>,
}

/// Results of earlier checks.
#[derive(Default)]
struct Seen {
    /// Identity of each path when the watch saw it for the first time.
    first: [Option<FileNumber>; 2],
    /// The journal file with the greatest name, which is the newest file because the names increase.
    newest: Option<(OsString, FileNumber)>,
}

impl FolderFiles {
    pub(crate) fn of(data_dir: &Path) -> Self {
        let paths = [data_dir.join(DATABASE_FILE), data_dir.join(JOURNAL_FOLDER)];
        Self { paths, seen: Mutex::default() }
    }
}

impl KeptFiles for FolderFiles {
    fn missing(&self) -> Option<PathBuf> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Seen { first, newest } = &mut *seen;
        for (path, first) in self.paths.iter().zip(first.iter_mut()) {
            let now = match FileNumber::of(path) {
                Ok(number) => Some(number),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                // Other errors do not prove that the file is missing.
                Err(_) => continue,
            };
            // The journal folder does not exist until a filter needs it for the first time.
            *first = first.or(now);
            if *first != now {
                return Some(path.clone());
            }
        }
        let [_, journal] = &self.paths;
        let now = newest_file(journal).ok()?;
        match (&*newest, &now) {
            (Some((was, _)), None) => return Some(journal.join(was)),
            (Some((was, _)), Some((is, _))) if is < was => return Some(journal.join(was)),
            (Some((was, number)), Some((is, now))) if is == was && now != number => return Some(journal.join(was)),
            _ => *newest = now,
        }
        None
    }
}

/// Returns the journal segment with the greatest name. A segment that is still being created has another file
/// extension.
fn newest_file(folder: &Path) -> io::Result<Option<(OsString, FileNumber)>> {
    let mut newest: Option<OsString> = None;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if Path::new(&name).extension().is_some_and(|extension| extension == "journal") {
            newest = newest.max(Some(name));
        }
    }
    newest.map(|name| Ok((name.clone(), FileNumber::of(&folder.join(name))?))).transpose()
}

/// The watch over the data folder, with the result of the last check.
pub(crate) struct FolderWatch {
    /// Files to check. `None` means that no other process can delete them.
    files: Option<Arc<dyn KeptFiles>>,
    is_missing: watch::Sender<bool>,
    missing: Mutex<Option<PathBuf>>,
}

impl FolderWatch {
    pub(crate) fn over(files: Option<Arc<dyn KeptFiles>>) -> Self {
        Self { files, is_missing: watch::Sender::new(false), missing: Mutex::new(None) }
    }

    /// Returns the files to check. `None` means that no other process can delete them.
    pub(crate) fn files(&self) -> Option<Arc<dyn KeptFiles>> {
        self.files.clone()
    }

    /// Returns a receiver that tells whether a file is missing, and that is notified when this changes.
    pub(crate) fn is_missing(&self) -> watch::Receiver<bool> {
        self.is_missing.subscribe()
    }

    /// Returns the reason why data that is recorded now is lost when the process ends. `None` means that no file is
    /// missing.
    pub(crate) fn data_loss_reason(&self) -> Option<String> {
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.as_ref().map(|path| {
            format!(
                "{} was deleted or replaced while the node runs: data written now would be lost at the next \
                 start, so events of durable filters are rejected; put it back, or stop the node and let it join with \
                 an empty data folder",
                path.display()
            )
        })
    }

    fn note(&self, missing: Option<PathBuf>) {
        let is_missing = missing.is_some();
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = missing;
        self.is_missing.send_if_modified(|was_missing| std::mem::replace(was_missing, is_missing) != is_missing);
    }
}

/// Checks the files repeatedly until the runtime stops.
pub(crate) async fn keep(kept: Arc<dyn KeptFiles>, watch: Arc<FolderWatch>) {
    let mut was_missing = false;
    loop {
        let files = kept.clone();
        // The check runs on a blocking thread because the disk may hang.
        let Ok(missing) = tokio::task::spawn_blocking(move || files.missing()).await else { return };
        watch.note(missing);
        let data_loss_reason = watch.data_loss_reason();
        match &data_loss_reason {
            Some(reason) if !was_missing => tracing::error!("{reason}"),
            None if was_missing => tracing::info!("the data folder has everything again"),
            _ => {}
        }
        was_missing = data_loss_reason.is_some();
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deleted_or_replaced_is_missing_until_it_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join(DATABASE_FILE);
        let journal = folder.path().join(JOURNAL_FOLDER);
        fs::write(&database, "agreed on").unwrap();
        let files = FolderFiles::of(folder.path());
        assert_eq!(files.missing(), None, "there is no journal yet");
        fs::create_dir(&journal).unwrap();
        assert_eq!(files.missing(), None);
        let aside = folder.path().join("aside");
        fs::rename(&journal, &aside).unwrap();
        assert_eq!(files.missing().as_ref(), Some(&journal));
        fs::create_dir(&journal).unwrap();
        assert_eq!(files.missing().as_ref(), Some(&journal), "another folder has its name");
        fs::remove_dir(&journal).unwrap();
        fs::rename(&aside, &journal).unwrap();
        assert_eq!(files.missing(), None, "it is back");
        fs::remove_file(&database).unwrap();
        assert_eq!(files.missing().as_ref(), Some(&database));
    }

    /// Regression test: `rm data/journal/*` went unnoticed, and the node acknowledged thousands of events that its next
    /// start did not find.
    #[test]
    fn the_newest_file_of_a_journal_is_missing_once_it_is_deleted_or_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join(JOURNAL_FOLDER);
        fs::create_dir(&journal).unwrap();
        let files = FolderFiles::of(folder.path());
        assert_eq!(files.missing(), None);
        let names = ["1.journal", "2.journal", "3.journal"].map(|name| journal.join(name));
        names.iter().for_each(|name| fs::write(name, "records").unwrap());
        assert_eq!(files.missing(), None);
        fs::remove_file(&names[0]).unwrap();
        assert_eq!(files.missing(), None, "the journal removes old ones");
        let aside = folder.path().join("aside");
        fs::rename(&names[2], &aside).unwrap();
        assert_eq!(files.missing().as_ref(), Some(&names[2]));
        fs::write(&names[2], "others").unwrap();
        assert_eq!(files.missing().as_ref(), Some(&names[2]));
        fs::rename(&aside, &names[2]).unwrap();
        assert_eq!(files.missing(), None, "it is back");
        names[1..].iter().for_each(|name| fs::remove_file(name).unwrap());
        assert_eq!(files.missing().as_ref(), Some(&names[2]));
    }
}
