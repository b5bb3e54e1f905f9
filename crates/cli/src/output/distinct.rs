//! Checks that a run does not write to one of its input files, and does not write two outputs to the same file. For
//! example, `--out x x` would empty the file `x` before reading it. The check compares the files themselves, so it also
//! finds a file with two names, and a file that is standard output.

use std::path::{Path, PathBuf};
use std::{fs, io};

use firstseen_embedded::paths::place;
use same_file::Handle;

use crate::exit::UsageError;
use crate::input::{is_stdin, name};

/// A file of this run together with its name for messages.
struct Named {
    name: String,
    is: Identity,
}

/// Identity of a file, which is the same for all of its names.
#[derive(PartialEq)]
enum Identity {
    File(Handle),
    /// A file that does not exist yet: the canonical path of its folder, followed by its name.
    Missing(PathBuf),
    /// A pipe, a terminal or a device, which a run may read and write at the same time. This check never opens such a
    /// file. If it opened a pipe and closed it again, a program at the other end of the pipe would end.
    Stream,
}

impl Identity {
    fn of(path: &Path) -> Self {
        match fs::metadata(path) {
            Ok(found) if found.is_file() => {
                Handle::from_path(path).map_or_else(|_| Self::Missing(place(path)), Self::File)
            }
            Ok(_) => Self::Stream,
            Err(_) => Self::Missing(place(path)),
        }
    }

    fn of_stream(stream: io::Result<Handle>) -> Self {
        match stream {
            Ok(handle) if handle.as_file().metadata().is_ok_and(|found| found.is_file()) => Self::File(handle),
            _ => Self::Stream,
        }
    }

    fn is(&self, other: &Self) -> bool {
        *self != Self::Stream && self == other
    }
}

/// Checks that all `outputs`, and standard output if it is used, differ from each other and from the inputs.
///
/// # Errors
/// Returns an error if two of them are the same file.
pub fn check(inputs: &[PathBuf], outputs: &[&Option<PathBuf>], uses_stdout: bool) -> anyhow::Result<()> {
    let inputs = inputs.iter().map(|path| Named {
        name: name(path),
        is: if is_stdin(path) { Identity::of_stream(Handle::stdin()) } else { Identity::of(path) },
    });
    let stdout =
        uses_stdout.then(|| Named { name: "standard output".to_owned(), is: Identity::of_stream(Handle::stdout()) });
    let files = outputs.iter().copied().flatten();
    let outputs = files.map(|path| Named { name: path.display().to_string(), is: Identity::of(path) }).chain(stdout);
    let mut taken: Vec<Named> = inputs.collect();
    let input_count = taken.len();
    for output in outputs {
        if let Some(place) = taken.iter().position(|other| other.is.is(&output.is)) {
            let what = if place < input_count { "is read too" } else { "is written twice" };
            let other = Some(&taken[place].name).filter(|other| **other != output.name);
            let other = other.map_or(String::new(), |other| format!(" (it is {other})"));
            return Err(UsageError(format!("{}{other} {what}: name another file", output.name)).into());
        }
        taken.push(output);
    }
    Ok(())
}
