//! No file is written that is also read, or written twice: `--out x x` would empty `x` before reading it.
//!
//! Promises: two names of one file are found, also those of streams. Must not know: what the files hold.

use std::path::{Path, PathBuf};
use std::{fs, io};

use same_file::Handle;

use crate::exit::UsageError;
use crate::input::{is_stdin, name};

/// Links that lead to links are followed so far, as systems do.
const LINKS_MAX: usize = 40;

/// A file of this run, as the user calls it.
struct Named {
    name: String,
    is: Identity,
}

/// What identifies a file.
#[derive(PartialEq)]
enum Identity {
    File(Handle),
    /// A file that is still to be made: the canonical name of its folder, and its own.
    Missing(PathBuf),
    /// Pipes, terminals and devices may be read and written at once. They are not opened to compare them: to open and
    /// close a pipe would end the program at its other end.
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

/// The file that `path` leads to, which need not exist: links are followed, also those to missing files, and the path
/// of the folder is canonical. For a path that leads nowhere, `path` itself.
pub(crate) fn place(path: &Path) -> PathBuf {
    let mut place = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Some(file_name) = place.file_name() else { break };
        let Ok(folder) = folder(&place).canonicalize() else { break };
        place = folder.join(file_name);
        match fs::read_link(&place) {
            Ok(target) => place = folder.join(target),
            Err(_) => return place,
        }
    }
    path.to_owned()
}

/// The folder that `path` is in.
pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Checks that all `outputs`, and standard output if it is used, differ from each other and from the inputs.
///
/// # Errors
/// Where one does not.
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
