//! Exit codes and the last words of a run that failed.

use std::io::{self, ErrorKind};
use std::process::ExitCode;

/// Something failed while running; files that were written until then end with a whole record.
pub const FAILED: u8 = 1;
/// The command line or a configuration is wrong, or `--strict` met a rejected record.
pub const USAGE: u8 = 2;
/// Ctrl-C or SIGTERM ended the run, after its report.
pub const INTERRUPTED: u8 = 130;

/// A mistake in what was asked for: found before any input was read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Prints why the run failed, unless the reader of its output has simply gone, and gives the exit code.
pub fn failure(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    tell!("firstseen: {error:#}");
    ExitCode::from(if is_usage(error) { USAGE } else { FAILED })
}

/// Whether the run was asked for something that it cannot do.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<UsageError>())
}

/// Whether the reader of our output has gone, as `head` does: no reason to complain.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe))
}
