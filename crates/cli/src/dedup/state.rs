//! `--state`: a filter that goes on where the last run ended.
//!
//! Promises: the file is replaced at once and whole, or not at all; a file of another definition is refused. Must not
//! know: what is in the filter.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

use anyhow::{Context, bail};
use firstseen_filter::snapshot::{self, UnverifiedSnapshot};
use firstseen_routing::{SlicedDefinition, SlicedFilter};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::describe::describe;
use crate::exit::UsageError;

/// What a saved filter depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StateHeader {
    /// What the keys were made of.
    pub(super) key: String,
    /// Seed of the hash.
    pub(super) seed: u64,
    /// The filter.
    pub(super) definition: SlicedDefinition,
}

/// A state file whose body is still unread.
pub(super) struct SavedState(UnverifiedSnapshot<BufReader<File>, StateHeader>);

impl SavedState {
    /// Opens `path`; `None` if there is no such file yet.
    ///
    /// # Errors
    /// Where the file cannot be read or is damaged.
    pub(super) fn open(path: &Path) -> anyhow::Result<Option<Self>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read the state {}", path.display())),
        };
        let snapshot = UnverifiedSnapshot::open(BufReader::with_capacity(1 << 18, file));
        Ok(Some(Self(snapshot.with_context(|| format!("cannot use the state {}", path.display()))?)))
    }

    /// The seed that its keys were hashed under.
    pub(super) fn seed(&self) -> u64 {
        self.0.header().seed
    }

    /// Fills `filter`, if `expected` is what the file holds.
    ///
    /// # Errors
    /// Where the file is damaged, or holds a filter of another definition.
    pub(super) fn load(self, path: &Path, expected: &StateHeader, filter: &mut SlicedFilter) -> anyhow::Result<()> {
        let found = self.0.header();
        if found != expected {
            let what = difference(expected, found);
            let path = path.display();
            bail!(UsageError(format!(
                "the state {path} holds another filter ({what}): use the flags it was made with, or another file"
            )));
        }
        let loaded = self.0.verify(|body| filter.read_body(body));
        loaded.with_context(|| format!("cannot use the state {}", path.display()))
    }
}

fn difference(expected: &StateHeader, found: &StateHeader) -> String {
    if expected.key != found.key {
        return format!("its key is {}, here it is {}", found.key, expected.key);
    }
    if expected.seed != found.seed {
        return format!("its seed is {}, here it is {}", found.seed, expected.seed);
    }
    format!("it is {}, here it is {}", describe(&found.definition), describe(&expected.definition))
}

/// Looks whether a state can be saved at `path`, so that a run does not learn it at its end.
///
/// # Errors
/// Where no file can be made beside `path`.
pub(super) fn check_writable(path: &Path) -> anyhow::Result<()> {
    temporary(path).map(drop)
}

/// Replaces the state at `path`.
///
/// # Errors
/// Where it cannot be written; the old file is as it was then.
pub(super) fn save(path: &Path, header: &StateHeader, filter: &SlicedFilter) -> anyhow::Result<()> {
    let context = || format!("cannot save the state {}", path.display());
    let mut file = temporary(path)?;
    snapshot::write(&mut file, header, |body| filter.write_body(body)).with_context(context)?;
    file.flush().and_then(|()| file.as_file().sync_all()).with_context(context)?;
    file.persist(path).with_context(context)?;
    // The new name must survive a power cut too; not every system can sync a folder.
    let _ = File::open(folder(path)).and_then(|folder| folder.sync_all());
    Ok(())
}

fn temporary(path: &Path) -> anyhow::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".firstseen-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(path).map_or(0o600, |metadata| metadata.permissions().mode() & 0o777);
        builder.permissions(std::fs::Permissions::from_mode(mode));
    }
    builder.tempfile_in(folder(path)).with_context(|| format!("cannot save the state {}", path.display()))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
