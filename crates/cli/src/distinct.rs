//! No file is written that is also read, or written twice: `--out x x` would empty `x` before reading it.
//!
//! Promises: finds files that are one under several names, streams included. Must not know: what is in them.

use std::path::{Path, PathBuf};
use std::{fs, io};

use same_file::Handle;

use crate::exit::UsageError;
use crate::input::{is_stdin, name};

/// A file of this run, as the user calls it.
struct Named {
    name: String,
    /// None of a pipe: to open and close it would end who is at its other end.
    handle: io::Result<Option<Handle>>,
}

impl Named {
    fn is(&self, other: &Self) -> bool {
        match (&self.handle, &other.handle) {
            // Pipes, terminals and devices may be read and written at once.
            (Ok(Some(ours)), Ok(Some(theirs))) => {
                ours == theirs && ours.as_file().metadata().is_ok_and(|file| file.is_file())
            }
            (Err(_), Err(_)) => self.name == other.name,
            _ => false,
        }
    }
}

fn handle(path: &Path) -> io::Result<Option<Handle>> {
    let is_file = fs::metadata(path)?.is_file();
    is_file.then(|| Handle::from_path(path)).transpose()
}

/// Looks whether all `outputs`, and standard output if it is used, differ from each other and from the inputs.
///
/// # Errors
/// Where one does not.
pub fn check(inputs: &[PathBuf], outputs: &[&Option<PathBuf>], uses_stdout: bool) -> anyhow::Result<()> {
    let inputs = inputs.iter().map(|path| Named {
        name: name(path),
        handle: if is_stdin(path) { Handle::stdin().map(Some) } else { handle(path) },
    });
    let stdout = uses_stdout.then(|| Named { name: "standard output".to_owned(), handle: Handle::stdout().map(Some) });
    let written = |path: &Path| Named { name: path.display().to_string(), handle: handle(path) };
    let outputs = outputs.iter().copied().flatten().map(|path| written(path)).chain(stdout);
    let mut taken: Vec<Named> = inputs.collect();
    let input_count = taken.len();
    for output in outputs {
        if let Some(place) = taken.iter().position(|other| other.is(&output)) {
            let what = if place < input_count { "is read too" } else { "is written twice" };
            let other = Some(&taken[place].name).filter(|other| **other != output.name);
            let other = other.map_or(String::new(), |other| format!(" (it is {other})"));
            return Err(UsageError(format!("{}{other} {what}: name another file", output.name)).into());
        }
        taken.push(output);
    }
    Ok(())
}
