//! Saves a filter to the file of `--state`, so that the next run can load it and continue. The file is replaced in one
//! atomic step, so after a crash it contains either the old or the new filter.
//!
//! A run refuses to load a saved filter if the filter would give other answers than the filter that the flags of the
//! run describe.

mod checkpoint;
pub(crate) mod saving;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;
use firstseen_embedded::{Lock, LockError, StateFile, StateHeader, check_writable, drawn_seed};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::exit::UsageError;

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

/// State file whose header was read and whose body is still unread.
pub struct SavedState<D>(StateFile<D>);

impl<D: Definition> SavedState<D> {
    /// Opens the state file `path`. `None` means that the file does not exist yet and the run creates it.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is damaged. Also returns an error if no file can be created next
    /// to it, so that a run learns this at its start and not at its end. A run that only looks keys up creates no file,
    /// so a missing file is an error for that run.
    pub fn open(path: &Path, is_lookup: bool) -> anyhow::Result<Option<Self>> {
        if !is_lookup {
            check_writable(path)?;
        }
        match StateFile::open(path)? {
            None if is_lookup => {
                bail!(UsageError(format!("there is no state {}: --lookup asks a saved filter", path.display())))
            }
            found => Ok(found.map(Self)),
        }
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
        if !continues(expected, found) {
            let what = difference(expected, found);
            let path = path.display();
            bail!(UsageError(format!(
                "the state {path} holds another filter ({what}): use the flags it was made with, or another file"
            )));
        }
        Ok(self.0.read(read_body)?)
    }
}

/// Returns whether a filter saved under the header `found` gives the same answers as a filter of the header `expected`.
fn continues<D: Definition>(expected: &StateHeader<D>, found: &StateHeader<D>) -> bool {
    expected.key == found.key && expected.seed == found.seed && expected.definition.answers_like(&found.definition)
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

/// Replaces the state file at `path` with `header` and the bytes that `write_body` writes.
///
/// # Errors
/// Returns an error if the state cannot be written. The old file is then unchanged.
pub fn save<D: Definition>(
    path: &Path,
    header: &StateHeader<D>,
    write_body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    Ok(firstseen_embedded::save(path, header, write_body)?)
}

/// Returns the path of the lock file that prevents other runs from using the state `path`.
pub(crate) fn lock_path(path: &Path) -> PathBuf {
    Lock::path_for(path)
}

/// Locks the state `path` until the returned value is dropped.
///
/// # Errors
/// Returns an error if another run holds the lock, or if no file can be created next to the state.
pub(crate) fn lock(path: &Path) -> anyhow::Result<Lock> {
    Lock::of(path).map_err(|error| match error {
        LockError::InUse { state } => {
            let remedy = "wait for its end, or name another file with --state";
            UsageError(format!("{state}: another run keeps this state: {remedy}")).into()
        }
        LockError::File { .. } => error.into(),
    })
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
        assert!(continues(&header(1000, 0.01, Some(18), more), &by_default));
    }
}
