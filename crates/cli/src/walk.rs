//! The walk over the input, batch by batch, and the ways it may end.
//!
//! Promises: what is known is flushed before a wait for input and at the end. Must not know: what becomes of a record.

use std::process::ExitCode;
use std::time::Duration;

use crate::exit::{INTERRUPTED, USAGE, is_broken_pipe, is_usage};
use crate::input::{Batch, Input, Message};
use crate::stop::Stop;

/// What records are handed to.
pub trait Pass {
    /// Takes every record of `batch`; gives back a batch that is done with, this one or an earlier one.
    ///
    /// # Errors
    /// Where an output fails.
    fn batch(&mut self, batch: Box<Batch>) -> anyhow::Result<Option<Box<Batch>>>;

    /// The input is what it was said to be: outputs may be replaced now. Called before every batch, and at the end.
    ///
    /// # Errors
    /// Where an output fails.
    fn begin(&mut self) -> anyhow::Result<()>;

    /// Hands on everything taken so far: what is written goes to the system. Tells how long a pause of the input may last until
    /// this is to be called again; none where it need not.
    ///
    /// # Errors
    /// Where an output fails.
    fn flush(&mut self) -> anyhow::Result<Option<Duration>>;

    /// Whether there was no record yet, not even a rejected one.
    fn has_seen_nothing(&self) -> bool;
}

/// How a walk ended.
pub enum Ended {
    /// At the end of the input.
    AtEnd,
    /// By a signal.
    Stopped,
    /// The flags do not fit the first file, as its header showed: nothing has happened that could be told or saved.
    Refused(anyhow::Error),
    /// The input failed; everything before was written.
    Input(anyhow::Error),
    /// An output failed: what it has got is not known.
    Output(anyhow::Error),
}

impl Ended {
    /// Whether there is something to report, and somebody who may read it.
    pub fn is_told(&self) -> bool {
        match self {
            Self::Refused(_) => false,
            Self::Output(error) => !is_broken_pipe(error),
            _ => true,
        }
    }

    /// Whether a signal ended it.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Stopped)
    }

    /// What the process answers; `is_unclean` says that a record was rejected or undecided where none
    /// may be.
    ///
    /// # Errors
    /// What ended the walk.
    pub fn exit_code(self, is_unclean: bool) -> anyhow::Result<ExitCode> {
        match self {
            Self::Refused(error) | Self::Input(error) | Self::Output(error) => Err(error),
            Self::Stopped => Ok(ExitCode::from(INTERRUPTED)),
            Self::AtEnd if is_unclean => Ok(ExitCode::from(USAGE)),
            Self::AtEnd => Ok(ExitCode::SUCCESS),
        }
    }
}

/// Hands all of `input` to `pass`, until it ends or somebody stops it.
pub fn walk(input: &Input, stop: &Stop, pass: &mut impl Pass) -> Ended {
    let ended = loop {
        // Input that pauses must not hold back what is known.
        let message = match input.next(|| pass.flush()) {
            Ok(message) => message,
            Err(error) => return Ended::Output(error),
        };
        if stop.is_set() {
            break Ended::Stopped;
        }
        match message {
            Message::Batch(batch) => match pass.begin().and_then(|()| pass.batch(batch)) {
                Ok(spent) => spent.into_iter().for_each(|batch| input.recycle(batch)),
                Err(error) => return Ended::Output(error),
            },
            Message::End(Ok(())) => break Ended::AtEnd,
            Message::End(Err(error)) if is_usage(&error) && pass.has_seen_nothing() => break Ended::Refused(error),
            Message::End(Err(error)) => break Ended::Input(error),
            Message::Stop | Message::Pause => {}
        }
    };
    let begun = if matches!(ended, Ended::Refused(_)) { Ok(()) } else { pass.begin() };
    match begun.and_then(|()| pass.flush()) {
        Ok(_) => ended,
        Err(error) => Ended::Output(error),
    }
}
