//! Refuses an input that is no text, with the command that makes text of it.
//!
//! Guarantees: a file is only looked at, and what cannot be read of it is no error here. It does not know which bytes are
//! no text.

use std::fs::File;
use std::io;
use std::path::Path;

use firstseen_records::{Decompressed, Refused, TextInput};

use crate::exit::UsageError;

/// Checks the beginning of `file`, whose name is `path`.
///
/// # Errors
/// Where it is no text whose records end with `record_end`.
pub(super) fn check(file: File, path: &Path, record_end: u8) -> anyhow::Result<()> {
    // A file that fails is answered up to the failure, which is found again in its turn.
    let Ok(input) = Decompressed::new(file) else { return Ok(()) };
    let checked = TextInput::new(input, record_end).check();
    checked.err().map_or(Ok(()), |error| refused(&error, path))
}

/// The same for an input that is checked as it is read, and has failed.
///
/// # Errors
/// Where it is no text.
pub(super) fn refused(error: &io::Error, path: &Path) -> anyhow::Result<()> {
    let Some(refused) = Refused::of(error) else { return Ok(()) };
    Err(UsageError(format!("{}: {}", super::name(path), words(refused, path))).into())
}

/// The error of reading `path`: a usage error where the input is refused, so that a command may help.
pub(super) fn explained(error: io::Error, path: &Path) -> anyhow::Error {
    match Refused::of(&error) {
        Some(refused) => UsageError(words(refused, path)).into(),
        None => error.into(),
    }
}

fn words(refused: Refused, path: &Path) -> String {
    let advice = refused.advice(&path.to_string_lossy());
    let advice = if advice.starts_with('`') { format!("use {advice}") } else { advice };
    format!("cannot read records: {refused}; {advice}")
}
