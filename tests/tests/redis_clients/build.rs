//! Programs in other languages, built in a folder of their own from what stands in `tests/clients`.
//!
//! Promises: what is fetched has the versions that the files there pin; the checkout stays as it is. Must not know: what
//! programs do.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::python::said;
use crate::run::Folder;

/// How the programs of a language are fetched and built.
pub(super) struct Build {
    /// The folder in `tests/clients`.
    pub(super) language: &'static str,
    /// The command that needs the registry.
    pub(super) fetch: &'static [&'static str],
    /// The command that needs no registry; empty where nothing is built.
    pub(super) build: &'static [&'static str],
}

/// A folder with the programs of a language; `None`, with a notice, where the language or its registry is missing.
///
/// # Panics
/// If the programs do not build.
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

/// The output of a command in this folder; `None`, with a notice, where its program is not installed.
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

/// Copies the files of a folder, and of the folders in it, apart from what a build has left there.
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
