//! Whether the data folder still has what the node keeps there. A process goes on writing to a file that somebody has deleted, and
//! nothing of that is there after its next start.
//!
//! A database or a journal that is deleted or replaced is found within two seconds: what was acknowledged as durable in that time is
//! lost with it. Of the files of a journal the newest is looked at, as the journal removes old ones itself. This module must not depend
//! on what is in the files.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstseen_wire::watch;

use crate::data_folder::{DATABASE_FILE, JOURNAL_FOLDER};

/// The time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// What a node keeps on its machine.
pub trait KeptFiles: Send + Sync + 'static {
    /// Returns a file or folder that has been deleted or replaced since the first look; it may block.
    fn missing(&self) -> Option<PathBuf>;
}

/// A file or folder, as its system numbers it.
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

    /// Here only deleted ones are found.
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

/// What earlier looks have found.
#[derive(Default)]
struct Seen {
    /// The paths as they were when they were seen first.
    first: [Option<FileNumber>; 2],
    /// The file of the journal whose name is the greatest: names rise.
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
                // That says nothing of the file.
                Err(_) => continue,
            };
            // The journal is made when a filter first needs it.
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

/// The segment of a journal whose name is the greatest; one that is being made has another name.
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

/// The look after the data folder.
pub(crate) struct FolderWatch {
    /// None if nobody else can reach them.
    files: Option<Arc<dyn KeptFiles>>,
    is_missing: watch::Sender<bool>,
    missing: Mutex<Option<PathBuf>>,
}

impl FolderWatch {
    pub(crate) fn over(files: Option<Arc<dyn KeptFiles>>) -> Self {
        Self { files, is_missing: watch::Sender::new(false), missing: Mutex::new(None) }
    }

    /// The files to look at; none if nobody else can reach them.
    pub(crate) fn files(&self) -> Option<Arc<dyn KeptFiles>> {
        self.files.clone()
    }

    /// Whether something is missing, as that changes.
    pub(crate) fn is_missing(&self) -> watch::Receiver<bool> {
        self.is_missing.subscribe()
    }

    /// Why nothing that is recorded here outlasts the process, if that is so.
    pub(crate) fn not_kept(&self) -> Option<String> {
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.as_ref().map(|path| {
            format!(
                "{} was deleted or replaced while the node runs: nothing that it writes is there after its next start, so events of \
                 durable filters are refused; put it back, or stop the node and let it join with an empty data folder",
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

/// Looks again and again.
pub(crate) async fn keep(kept: Arc<dyn KeptFiles>, watch: Arc<FolderWatch>) {
    let mut was_missing = false;
    loop {
        let files = kept.clone();
        // The disk may hang.
        let Ok(missing) = tokio::task::spawn_blocking(move || files.missing()).await else { return };
        watch.note(missing);
        let not_kept = watch.not_kept();
        match &not_kept {
            Some(reason) if !was_missing => tracing::error!("{reason}"),
            None if was_missing => tracing::info!("the data folder has everything again"),
            _ => {}
        }
        was_missing = not_kept.is_some();
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

    /// `rm data/journal/*` was noticed by nobody, and thousands of events were acknowledged that the next start did not find.
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
