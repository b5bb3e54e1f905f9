//! Files with the state of a filter. A file is replaced in one atomic step, so after a crash it contains either the old
//! or the new state. The page `docs/reference/snapshot-format.md` describes the format.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use firstseen_filter::snapshot::{self, SnapshotError, UnverifiedSnapshot};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::paths::{folder, place};

/// Size of the buffer for reading a file.
const BUFFER_BYTES: usize = 1 << 18;

/// Everything that a saved filter depends on. It is stored at the beginning of the state file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateHeader<D> {
    /// Fields and rules that form the key.
    pub key: String,
    /// Seed of the hash.
    pub seed: u64,
    /// Definition of the filter.
    pub definition: D,
}

/// Reason why a state cannot be read or saved.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file cannot be opened.
    #[error("cannot read the state {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is damaged or has another version.
    #[error(
        "cannot use the state {}; put a copy of it back, or delete it to start with an empty filter, which passes on \
         again every record that the state knew",
        path.display()
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Cause,
    },
    /// The file cannot be written. Its former content is unchanged.
    #[error("cannot save the state {}", path.display())]
    Unsaved {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Cause,
    },
}

/// Cause of an error. An error of the file system is an [`io::Error`], so that a program can say what to do about it.
pub type Cause = Box<dyn Error + Send + Sync>;

fn cause(error: SnapshotError) -> Cause {
    match error {
        SnapshotError::Io(error) => error.into(),
        error => error.into(),
    }
}

/// State file whose header was read and whose body is still unread.
pub struct StateFile<D> {
    path: PathBuf,
    snapshot: UnverifiedSnapshot<BufReader<File>, StateHeader<D>>,
}

impl<D: DeserializeOwned> StateFile<D> {
    /// Opens the state file `path`. `None` means that the file does not exist.
    ///
    /// # Errors
    /// Returns [`StateError`] if the file cannot be read or is damaged.
    pub fn open(path: &Path) -> Result<Option<Self>, StateError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StateError::Unreadable { path: path.to_owned(), source }),
        };
        match UnverifiedSnapshot::open(BufReader::with_capacity(BUFFER_BYTES, file)) {
            Ok(snapshot) => Ok(Some(Self { path: path.to_owned(), snapshot })),
            Err(error) => Err(StateError::Unusable { path: path.to_owned(), source: cause(error) }),
        }
    }

    /// Returns the header.
    pub fn header(&self) -> &StateHeader<D> {
        self.snapshot.header()
    }

    /// Fills a filter with `read_body`. If the file is damaged, the filter must not be used.
    ///
    /// # Errors
    /// Returns [`StateError`] if the file is damaged.
    pub fn read(self, read_body: impl FnOnce(&mut dyn Read) -> io::Result<()>) -> Result<(), StateError> {
        let Self { path, snapshot } = self;
        snapshot.verify(read_body).map_err(|error| StateError::Unusable { path, source: cause(error) })
    }
}

/// Replaces the state file at `path` with `header` and the bytes that `write_body` writes.
///
/// # Errors
/// Returns [`StateError`] if the state cannot be written. The old file is then unchanged.
pub fn save<D: Serialize>(
    path: &Path,
    header: &StateHeader<D>,
    write_body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), StateError> {
    // If the path is a symbolic link, the link stays, and the file that it points to is replaced.
    let target = &place(path);
    let file = temporary(target).map_err(|error| unsaved(path, error.into()))?;
    persist(file, target, header, write_body).map_err(|error| unsaved(path, cause(error)))?;
    // The folder is synced so that the new name survives a power failure. Not every system can sync a folder, so errors
    // are ignored.
    let _ = File::open(folder(target)).and_then(|folder| folder.sync_all());
    Ok(())
}

fn persist<D: Serialize>(
    mut file: NamedTempFile,
    target: &Path,
    header: &StateHeader<D>,
    write_body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), SnapshotError> {
    snapshot::write(&mut file, header, write_body)?;
    file.flush()?;
    file.as_file().sync_all()?;
    file.persist(target).map_err(|error| error.error)?;
    Ok(())
}

/// Checks that a state can be saved at `path`, so that a program learns this at its start and not at its end.
///
/// # Errors
/// Returns [`StateError`] if no file can be created next to `path`.
pub fn check_writable(path: &Path) -> Result<(), StateError> {
    temporary(path).map(drop).map_err(|error| unsaved(path, error.into()))
}

fn unsaved(path: &Path, source: Cause) -> StateError {
    StateError::Unsaved { path: path.to_owned(), source }
}

fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".firstseen-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(path).map_or(0o600, |metadata| metadata.permissions().mode() & 0o777);
        builder.permissions(std::fs::Permissions::from_mode(mode));
    }
    builder.tempfile_in(folder(path))
}
