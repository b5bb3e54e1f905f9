//! Runs Python programs with packages from the registry.
//!
//! If Python is not installed, or if the registry of Python packages cannot be reached, a test that needs Python prints
//! a notice and is skipped. If a Python program hangs, the test kills it after a time limit.

use std::process::{Command, Output, Stdio};

use crate::run::{Folder, Watchdog};

/// Version of redis-py that the tests use.
pub(crate) const REDIS_PY: &str = "redis==5.0.8";

/// Creates a Python command with these arguments, which can import the packages that were fetched into `folder`.
pub(crate) fn python(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(arguments).current_dir(folder.path("")).env("PYTHONPATH", folder.path("packages"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns whether a run succeeded, and everything that it printed.
pub(crate) fn said(output: Output) -> (bool, String) {
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.success(), text)
}

/// Runs steps that need the registry. Prints a notice and returns `false` if a step fails.
pub(crate) fn fetch_by(folder: &Folder, steps: &[&[&str]]) -> bool {
    let is_done = |step: &&[&str]| match python(folder, step).output().map(said) {
        Ok((true, _)) => true,
        Ok((false, text)) => {
            println!("{text}");
            false
        }
        Err(error) => {
            println!("python3: {error}");
            false
        }
    };
    let are_done = steps.iter().all(is_done);
    if !are_done {
        println!("NOT CHECKED: what the test needs cannot be fetched from here");
    }
    are_done
}

/// Fetches packages into the folder. Prints a notice and returns `false` if they cannot be fetched.
pub(crate) fn fetch(folder: &Folder, packages: &[&str]) -> bool {
    let install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", "packages"];
    fetch_by(folder, &[&[&install, packages].concat()])
}

/// Runs the program `text`, which must succeed, and returns what it printed.
pub(crate) fn run(folder: &Folder, text: &str, arguments: &[String]) -> String {
    folder.write("program.py", text);
    let child = python(folder, &["program.py"]).args(arguments).spawn().expect("python3");
    let _watchdog = Watchdog::of(&child);
    let (is_well, text) = said(child.wait_with_output().expect("an end"));
    assert!(is_well, "{arguments:?}: {text}");
    text
}
