//! Builds programs in other languages from the sources in `tests/clients`, each in a folder of its own.
//!
//! Dependencies have the versions that the files of each program pin. Building a program does not change the checkout.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::python::said;
use crate::run::Folder;

/// Commands that fetch and build the programs of a language.
pub(super) struct Build {
    /// Name of the subfolder of `tests/clients`.
    pub(super) language: &'static str,
    /// Command that needs the registry of the language.
    pub(super) fetch: &'static [&'static str],
    /// Command that builds without the registry. Empty if nothing needs to be built.
    pub(super) build: &'static [&'static str],
}

/// Builds all client programs of one language and returns the folder with the results. If the language is not installed
/// or its registry cannot be reached, prints a notice and returns `None`.
///
/// # Panics
/// Panics if the programs do not build.
pub(super) fn built(build: &Build) -> Option<Folder> {
    let folder = Folder::new();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(build.language), &folder.path(""));
    let fetched = output(&folder, build.fetch)?;
    if let (false, text) = said(fetched) {
        println!("{text}\nNOT CHECKED: `{}` could not fetch what the test needs", build.fetch.join(" "));
        return None;
    }
    if !build.build.is_empty() {
        let (is_well, text) = said(output(&folder, build.build)?);
        assert!(is_well, "{}: {text}", build.build.join(" "));
    }
    Some(folder)
}

/// Runs a command in this folder, and returns its output. Prints a notice and returns `None` if the program is not
/// installed.
fn output(folder: &Folder, command: &[&str]) -> Option<Output> {
    let [program, arguments @ ..] = command else { panic!("a command without a word") };
    let output = Command::new(program).args(arguments).current_dir(folder.path("")).stdin(Stdio::null()).output();
    match output {
        Ok(output) => Some(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("NOT CHECKED: {program} is not installed");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// Copies the files of a folder and its subfolders, without what an earlier build has left there.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display())) {
        let entry = entry.expect("an entry");
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_file() {
            fs::copy(&path, &target).expect("a copy");
        } else if entry.file_name() != "node_modules" && entry.file_name() != "target" {
            copy(&path, &target);
        }
    }
}
