//! How a run ends: exit codes, and the last message of a run that failed.

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

/// How a run over an input ended.
pub enum Ended {
    /// At the end of the input.
    AtEnd,
    /// By a signal.
    Stopped,
    /// The flags, or the outputs of an earlier run, do not fit the input: no record was judged and nothing was written, so
    /// there is nothing to report or save.
    Refused(anyhow::Error),
    /// The input failed; everything before was written.
    Input(anyhow::Error),
    /// An output failed: how much of it was written is not known.
    Output(anyhow::Error),
}

impl Ended {
    /// Whether there is something to report, and a reader for it.
    pub fn is_reported(&self) -> bool {
        match self {
            Self::Refused(_) => false,
            Self::Output(error) => !is_broken_pipe(error),
            _ => true,
        }
    }

    /// Whether nothing was written.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// Whether the whole input was read.
    pub fn is_at_end(&self) -> bool {
        matches!(self, Self::AtEnd)
    }

    /// Whether a signal ended it.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Stopped)
    }

    /// The exit code. `left` is the result of writing state and report, `is_unclean` whether a record could not
    /// be judged where all must be.
    ///
    /// # Errors
    /// The error that ended the run, or that of state and report. Of two errors the second is printed here.
    pub fn exit_code(self, left: anyhow::Result<()>, is_unclean: bool) -> anyhow::Result<ExitCode> {
        let is_left = left.is_ok();
        match self {
            // Where the reader of the output is gone, the error of the state says everything.
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
