//! `--state`: a filter that continues where the last run ended.
//!
//! Promises: the file is replaced at once and whole, or not at all; a file of a filter that answers otherwise is
//! refused. Must not know: how a filter works.

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

/// The definition of a filter.
pub trait Definition: Clone + PartialEq + Serialize + DeserializeOwned {
    /// Whether a filter of `other` can be continued as one of this.
    fn answers_like(&self, other: &Self) -> bool {
        self == other
    }

    /// This as it is if it was asked for by the flags of `other`, where those that differ make the same of it.
    fn asked_like(&self, _other: &Self) -> Self {
        self.clone()
    }

    /// The definition in one line for people.
    fn describe(&self) -> String;

    /// The definition as flags that a user would write, each with its name: in a fixed order, and with the same names
    /// for every definition.
    fn flags(&self) -> Vec<(&'static str, String)>;
}

/// Everything that a saved filter depends on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateHeader<D> {
    /// The fields and rules that make the key.
    pub key: String,
    /// Seed of the hash.
    pub seed: u64,
    /// The filter.
    pub definition: D,
}

impl<D: Definition> StateHeader<D> {
    /// Whether a filter that was saved under `found` gives the answers of one of this.
    fn continues(&self, found: &Self) -> bool {
        self.key == found.key && self.seed == found.seed && self.definition.answers_like(&found.definition)
    }
}

/// A state file whose body is still unread.
pub struct SavedState<D>(UnverifiedSnapshot<BufReader<File>, StateHeader<D>>);

impl<D: Definition> SavedState<D> {
    /// Opens `path`; `None` if there is no such file yet, and the run is to make it.
    ///
    /// # Errors
    /// Where the file cannot be read or is damaged, or none can be made beside it, which a run must find out before its
    /// end. A run that only looks up makes no file: for it a missing one is an error, not an empty filter.
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

    /// The seed that its keys were hashed under.
    pub fn seed(&self) -> u64 {
        self.0.header().seed
    }

    /// The filter that it holds.
    pub fn definition(&self) -> &D {
        &self.0.header().definition
    }

    /// Fills the filter by `read_body`, if the file is of `expected`.
    ///
    /// # Errors
    /// Where the file is damaged, or holds a filter that answers otherwise.
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

/// The message about a state that is damaged, or of another version, and the remedy.
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

/// The flags that differ from those of `others`.
fn differing(flags: &[(&str, String)], others: &[(&str, String)]) -> String {
    let of_both = flags.iter().zip(others).filter(|(flag, other)| flag != other);
    of_both.map(|((name, value), _)| format!("{name} {value}")).collect::<Vec<_>>().join(" ")
}

/// The seed that was asked for, else the saved one, else a random one, which producers cannot know.
pub fn seed<D: Definition>(asked: Option<u64>, saved: Option<&SavedState<D>>) -> u64 {
    asked.or(saved.map(SavedState::seed)).unwrap_or_else(drawn_seed)
}

/// A random seed.
pub fn drawn_seed() -> u64 {
    // The standard library keys its hash maps from the system's randomness.
    RandomState::new().build_hasher().finish()
}

/// Replaces the state at `path` by `header` and what `write_body` writes.
///
/// # Errors
/// Where it cannot be written; the old file is as it was then.
pub fn save<D: Definition>(
    path: &Path,
    header: &StateHeader<D>,
    write_body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    // A symbolic link stays, and the file that it leads to is replaced.
    let target = &place(path);
    let mut file = temporary(target)?;
    let written = snapshot::write(&mut file, header, write_body).map_err(anyhow::Error::new).and_then(|()| {
        file.flush()?;
        file.as_file().sync_all()?;
        file.persist(target)?;
        Ok(())
    });
    written.with_context(|| format!("cannot save the state {}", path.display()))?;
    // The new name must survive a power cut too; not every system can sync a folder.
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
