//! Saves a filter to the file of `--state`, so that the next run can load it and continue. The file is replaced in one
//! atomic step, so after a crash it contains either the old or the new filter.
//!
//! A run refuses to load a saved filter if the filter would give other answers than the filter that the flags of the
//! run describe.

mod checkpoint;
pub(crate) mod lock;
pub(crate) mod saving;

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use anyhow::{Context, bail};
use firstseen_filter::snapshot::{self, UnverifiedSnapshot};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::exit::UsageError;
use crate::output::distinct::{folder, place};

/// Definition of a filter that can be saved and continued.
pub trait Definition: Clone + PartialEq + Serialize + DeserializeOwned {
    /// Returns whether a saved filter with the definition `other` can be continued as a filter of this definition.
    fn answers_like(&self, other: &Self) -> bool {
        self == other
    }

    /// Returns this definition as it would be written with the flags of `other`, where flags that differ have the same
    /// effect.
    fn asked_like(&self, _other: &Self) -> Self {
        self.clone()
    }

    /// Returns the definition as one line of text for users.
    fn describe(&self) -> String;

    /// Returns the definition as the flags that a user would write, each with its name. Order and names are the same
    /// for every definition.
    fn flags(&self) -> Vec<(&'static str, String)>;
}

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

impl<D: Definition> StateHeader<D> {
    /// Returns whether a filter saved under the header `found` gives the same answers as a filter of this header.
    fn continues(&self, found: &Self) -> bool {
        self.key == found.key && self.seed == found.seed && self.definition.answers_like(&found.definition)
    }
}

/// State file whose header was read and whose body is still unread.
pub struct SavedState<D>(UnverifiedSnapshot<BufReader<File>, StateHeader<D>>);

impl<D: Definition> SavedState<D> {
    /// Opens the state file `path`. `None` means that the file does not exist yet and the run creates it.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is damaged. Also returns an error if no file can be created next
    /// to it, so that a run learns this at its start and not at its end. A run that only looks keys up creates no file,
    /// so a missing file is an error for that run.
    pub fn open(path: &Path, is_lookup: bool) -> anyhow::Result<Option<Self>> {
        if !is_lookup {
            temporary(path)?;
        }
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_lookup => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                bail!(UsageError(format!("there is no state {}: --lookup asks a saved filter", path.display())))
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read the state {}", path.display())),
        };
        let snapshot = UnverifiedSnapshot::open(BufReader::with_capacity(1 << 18, file));
        Ok(Some(Self(snapshot.with_context(|| unusable(path))?)))
    }

    /// Returns the seed with which the keys of the filter were hashed.
    pub fn seed(&self) -> u64 {
        self.0.header().seed
    }

    /// Returns the definition of the saved filter.
    pub fn definition(&self) -> &D {
        &self.0.header().definition
    }

    /// Fills the filter with `read_body`, if the file has the header `expected`.
    ///
    /// # Errors
    /// Returns an error if the file is damaged, or if its filter would give other answers.
    pub fn load(
        self,
        path: &Path,
        expected: &StateHeader<D>,
        read_body: impl FnOnce(&mut dyn Read) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let found = self.0.header();
        if !expected.continues(found) {
            let what = difference(expected, found);
            let path = path.display();
            bail!(UsageError(format!(
                "the state {path} holds another filter ({what}): use the flags it was made with, or another file"
            )));
        }
        let loaded = self.0.verify(read_body);
        loaded.with_context(|| unusable(path))
    }
}

/// Returns the message about a state file that is damaged or has another version, and what the user can do.
fn unusable(path: &Path) -> String {
    let path = path.display();
    format!(
        "cannot use the state {path}; put a copy of it back, or delete it to begin anew, which passes on once more what \
         it knew"
    )
}

fn difference<D: Definition>(expected: &StateHeader<D>, found: &StateHeader<D>) -> String {
    if expected.key != found.key {
        return format!("its key is {}, here it is {}", found.key, expected.key);
    }
    if expected.seed != found.seed {
        return format!("its seed is {}, here it is {}", found.seed, expected.seed);
    }
    let made = found.definition.flags();
    let here = expected.definition.asked_like(&found.definition).flags();
    match differing(&made, &here) {
        made_with if made_with.is_empty() => {
            format!("it is {}, here it is {}", found.definition.describe(), expected.definition.describe())
        }
        made_with => format!("made with {made_with}, here {}", differing(&here, &made)),
    }
}

/// Returns the flags whose values differ between `flags` and `others`.
fn differing(flags: &[(&str, String)], others: &[(&str, String)]) -> String {
    let of_both = flags.iter().zip(others).filter(|(flag, other)| flag != other);
    of_both.map(|((name, value), _)| format!("{name} {value}")).collect::<Vec<_>>().join(" ")
}

/// Returns the seed that the user asked for, otherwise the saved seed, otherwise a random seed, which producers cannot
/// guess.
pub fn seed<D: Definition>(asked: Option<u64>, saved: Option<&SavedState<D>>) -> u64 {
    asked.or(saved.map(SavedState::seed)).unwrap_or_else(drawn_seed)
}

/// A random seed.
pub fn drawn_seed() -> u64 {
    // The standard library uses randomness of the system for the keys of its hash maps.
    RandomState::new().build_hasher().finish()
}

/// Replaces the state file at `path` with `header` and the bytes that `write_body` writes.
///
/// # Errors
/// Returns an error if the state cannot be written. The old file is then unchanged.
pub fn save<D: Definition>(
    path: &Path,
    header: &StateHeader<D>,
    write_body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    // If the path is a symbolic link, the link stays, and the file that it points to is replaced.
    let target = &place(path);
    let mut file = temporary(target)?;
    let written = snapshot::write(&mut file, header, write_body).map_err(anyhow::Error::new).and_then(|()| {
        file.flush()?;
        file.as_file().sync_all()?;
        file.persist(target)?;
        Ok(())
    });
    written.with_context(|| format!("cannot save the state {}", path.display()))?;
    // The folder is synced so that the new name survives a power failure. Not every system can sync a folder, so errors
    // are ignored.
    let _ = File::open(folder(target)).and_then(|folder| folder.sync_all());
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

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSpec, Kind};
    use firstseen_routing::{SlicedDefinition, Slicing};

    use super::*;

    #[test]
    fn a_refusal_names_the_flags_that_make_the_difference_and_no_others() {
        let header = |capacity, rate, ticks, lateness_ms| {
            let spec = FilterSpec::new(Kind::Cuckoo, "24h".parse().unwrap());
            let spec = FilterSpec { capacity_events: Some(capacity), rate, ticks, lateness_ms, ..spec };
            let definition = SlicedDefinition::new(&spec, Slicing::NONE).unwrap();
            StateHeader { key: "line".to_owned(), seed: 1, definition }
        };
        let (hour, more) = (Some(3_600_000), Some(3_600_001));
        let by_default = header(1000, 0.01, None, hour);
        for (found, said) in [
            (header(100_000, 0.01, Some(18), Some(3_500_000)), "made with --capacity 100000, here --capacity 1000"),
            (header(1000, 0.01, Some(20), hour), "made with --ticks 20, here --ticks (default)"),
            (
                header(1000, 0.001, Some(18), hour),
                "made with --fpr 0.001 --ticks 18, here --fpr 0.01 --ticks (default)",
            ),
            (header(1000, 0.01, None, Some(14_400_000)), "made with --lateness 4h, here --lateness 1h"),
        ] {
            assert_eq!(difference(&by_default, &found), said);
        }
        assert!(header(1000, 0.01, Some(18), more).continues(&by_default));
    }
}
