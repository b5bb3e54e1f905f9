//! Rejects an input file that is not text, and names the command that converts the file to text. This check reads only
//! the beginning of the file. If reading fails, the check passes, because the run itself reads the file later and
//! reports the error.

use std::fs::File;
use std::io;
use std::path::Path;

use firstseen_records::{ByteKind, Decompressed, Refused, TextInput};

use crate::exit::UsageError;

/// Checks the beginning of `file`, whose name is `path`.
///
/// # Errors
/// Returns an error if the file is not text whose records end with `record_end`.
pub(super) fn check(file: File, path: &Path, record_end: u8) -> anyhow::Result<()> {
    // If a file cannot be read, its records before the failure are still answered. The run meets the failure again when
    // it reads that far.
    let Ok(input) = Decompressed::new(file) else { return Ok(()) };
    let checked = TextInput::new(input, record_end).check();
    checked.err().map_or(Ok(()), |error| refused(&error, path))
}

/// Converts the error of an input that is checked while it is read.
///
/// # Errors
/// Returns an error if the input is not text.
pub(super) fn refused(error: &io::Error, path: &Path) -> anyhow::Result<()> {
    let Some(refused) = Refused::of(error) else { return Ok(()) };
    Err(UsageError(format!("{}: {}", super::name(path), message(refused, path))).into())
}

/// Returns the error of reading `path`. If the input was rejected as not being text, this is a usage error with the
/// command that may help.
pub(super) fn explained(error: io::Error, path: &Path) -> anyhow::Error {
    match Refused::of(&error) {
        Some(refused) => UsageError(message(refused, path)).into(),
        None => error.into(),
    }
}

fn message(refused: Refused, path: &Path) -> String {
    let advice = match refused.kind() {
        ByteKind::Parquet if cfg!(feature = "parquet") => "name the file, and use --format parquet".to_owned(),
        ByteKind::Arrow if cfg!(feature = "parquet") => "name the file, and use --format arrow".to_owned(),
        _ => refused.advice(&path.to_string_lossy()),
    };
    let advice = if advice.starts_with('`') { format!("use {advice}") } else { advice };
    format!("cannot read records: {refused}; {advice}")
}
