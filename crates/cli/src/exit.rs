//! Exit codes, and the last message of a run that failed.

use std::io::{self, ErrorKind};
use std::process::ExitCode;

/// The run failed; files that were written until then end with a whole record.
pub const FAILED: u8 = 1;
/// The command line or a configuration is wrong or does not fit the input, or a record could not be judged where all must be.
pub const USAGE: u8 = 2;
/// Ctrl-C or SIGTERM ended the run, after its report.
pub const INTERRUPTED: u8 = 130;

/// A mistake in the command line or a configuration, or an input that does not fit it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Prints why a run of `program` failed, unless the reader of its output has gone, and returns the exit code.
pub fn failure(program: &str, error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    notice!("{program}: {}", words(error));
    ExitCode::from(if is_usage(error) { USAGE } else { FAILED })
}

/// The error with its causes, each of them once: the messages of some errors already hold their cause.
fn words(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.contains(&cause) {
        true => text,
        false if text.is_empty() => cause,
        false => format!("{text}: {cause}"),
    })
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

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn a_cause_is_printed_once() {
        let cause = io::Error::from(ErrorKind::OutOfMemory);
        let error = anyhow!(firstseen_filter::BuildError::Memory { bytes: 7, source: cause });
        let text = words(&error);
        assert_eq!(text.matches(&io::Error::from(ErrorKind::OutOfMemory).to_string()).count(), 1, "{text}");
        let error: anyhow::Result<()> = Err(io::Error::from(ErrorKind::NotFound)).context("cannot read a");
        assert_eq!(words(&error.unwrap_err()), format!("cannot read a: {}", io::Error::from(ErrorKind::NotFound)));
    }
}
