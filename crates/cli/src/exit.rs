//! Exit codes of the commands, and the last message that a failed run prints.

use std::io::{self, ErrorKind};
use std::process::ExitCode;

/// Exit code of a run that failed. Output files that the run wrote before it failed end with a complete record.
pub const FAILED: u8 = 1;
/// Exit code for mistakes of the user. These are a wrong command line or configuration, flags that do not fit the
/// input, and records that cannot be judged in a run with `--strict`.
pub const USAGE: u8 = 2;
/// Exit code of a run that Ctrl-C or SIGTERM ended. The run prints its report before it exits.
pub const INTERRUPTED: u8 = 130;

/// Error for a mistake in the command line or a configuration, or for an input that does not fit it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// How a run over an input ended.
pub enum Ended {
    /// The run reached the end of the input.
    AtEnd,
    /// A signal stopped the run.
    Stopped,
    /// The run was refused before it judged a record or wrote anything, because its flags or the output files of an
    /// earlier run do not fit the input. Such a run has no results, so no report is printed and no state is saved.
    Refused(anyhow::Error),
    /// Reading the input failed. All records before the failure were written.
    Input(anyhow::Error),
    /// Writing an output failed. It is not known how much of the output was written.
    Output(anyhow::Error),
}

impl Ended {
    /// Returns whether the run has something to report and its output still has a reader.
    pub fn is_reported(&self) -> bool {
        match self {
            Self::Refused(_) => false,
            Self::Output(error) => !is_broken_pipe(error),
            _ => true,
        }
    }

    /// Returns whether the run was refused before it wrote anything.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// Returns whether the run read the whole input.
    pub fn is_at_end(&self) -> bool {
        matches!(self, Self::AtEnd)
    }

    /// Returns whether a signal ended the run.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Stopped)
    }

    /// Returns the exit code of the run. After the last record, the run still writes its saved state and its report,
    /// and `left` is the result of that work. `is_unclean` is true if the run must fail although it has read its whole
    /// input. For example, a run with `--strict` fails if a record could not be judged.
    ///
    /// # Errors
    /// Returns the error that ended the run, or else the error of writing the state and the report. If both failed,
    /// this function prints the second error itself.
    pub fn exit_code(self, left: anyhow::Result<()>, is_unclean: bool) -> anyhow::Result<ExitCode> {
        let is_left = left.is_ok();
        match self {
            // If the output's reader has gone, its broken pipe adds nothing to the error of the state.
            Self::Output(error) if is_broken_pipe(&error) && !is_left => left.and(Err(error)),
            Self::Refused(error) | Self::Input(error) | Self::Output(error) => {
                if let Err(second) = left {
                    notice!("firstseen: {second:#}");
                }
                Err(error)
            }
            _ if !is_left => left.map(|()| ExitCode::SUCCESS),
            Self::Stopped => Ok(ExitCode::from(INTERRUPTED)),
            Self::AtEnd if is_unclean => Ok(ExitCode::from(USAGE)),
            Self::AtEnd => Ok(ExitCode::SUCCESS),
        }
    }
}

/// Prints why a run of `program` failed, and returns the exit code. If the run failed because the reader of its output
/// has ended, as in `firstseen dedup … | head`, this function prints nothing and returns success.
pub fn failure(program: &str, error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    notice!("{program}: {}{}", message(error), advice(error));
    ExitCode::from(if is_usage(error) { USAGE } else { FAILED })
}

/// Returns the error message followed by the messages of its causes. Some errors already include the text of their
/// cause, so a cause is left out if the message contains it.
fn message(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.contains(&cause) {
        true => text,
        false if text.is_empty() => cause,
        false => format!("{text}: {cause}"),
    })
}

/// Returns what the user can do about an error of the file system, as the end of the message. The text is empty if the
/// error has another cause.
fn advice(error: &anyhow::Error) -> &'static str {
    error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()).map_or("", file_advice)
}

/// Returns the error of a file of rows. Errors of the operating system keep their type, because advice depends on it.
#[cfg(feature = "parquet")]
pub(crate) fn file_error(error: firstseen_columns::FileError) -> anyhow::Error {
    match error {
        firstseen_columns::FileError::Io(error) => error.into(),
        error => error.into(),
    }
}

/// Returns what the user can do about an error of a file, as the end of a message. The text is empty for other kinds of
/// errors.
pub(crate) fn file_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => "; check the path",
        ErrorKind::PermissionDenied => "; check who may read and write the file and its folder",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; free space on the disk, or name a file on another disk",
        _ => "",
    }
}

/// Returns whether the error is a mistake in the command line or configuration.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<UsageError>())
}

/// Returns whether the run failed because the reader of its output has ended, as in `firstseen dedup … | head`. This
/// happens in normal use, so the run needs no error message.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        // An error of the JSON writer does not have the error of the pipe as its cause.
        let json_kind = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        kind.or(json_kind) == Some(ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn errors_of_the_file_system_come_with_advice() {
        let missing: anyhow::Result<()> = Err(io::Error::from(ErrorKind::NotFound)).context("cannot read a");
        assert_eq!(advice(&missing.unwrap_err()), "; check the path");
        assert_eq!(advice(&anyhow!("the flags do not fit")), "");
    }

    /// Regression test. `firstseen plan --json | head` printed an error about its pipe.
    #[test]
    fn a_reader_that_has_gone_is_no_error() {
        let gone: anyhow::Result<()> = Err(io::Error::from(ErrorKind::BrokenPipe)).context("cannot write");
        assert!(is_broken_pipe(&gone.unwrap_err()));
        let json = serde_json::Error::io(io::Error::from(ErrorKind::BrokenPipe));
        assert!(is_broken_pipe(&anyhow!(json)));
        assert!(!is_broken_pipe(&anyhow!(serde_json::Error::io(io::Error::from(ErrorKind::StorageFull)))));
    }

    #[test]
    fn a_cause_is_printed_once() {
        let cause = io::Error::from(ErrorKind::OutOfMemory);
        let error = anyhow!(firstseen_filter::BuildError::Memory { bytes: 7, source: cause });
        let text = message(&error);
        assert_eq!(text.matches(&io::Error::from(ErrorKind::OutOfMemory).to_string()).count(), 1, "{text}");
        let error: anyhow::Result<()> = Err(io::Error::from(ErrorKind::NotFound)).context("cannot read a");
        assert_eq!(message(&error.unwrap_err()), format!("cannot read a: {}", io::Error::from(ErrorKind::NotFound)));
    }
}
