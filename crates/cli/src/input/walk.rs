//! The walk over the input, batch by batch, and the ways it may end.
//!
//! A batch is held back until the next one is there, so that its last records are judged with the records after them in
//! view; where the input pauses, this waits shortly, and only where those records matter.
//!
//! Promises: outputs are flushed before a wait for input and at the end. Must not know: what becomes of a record.

use std::process::ExitCode;
use std::time::Duration;

use crate::exit::{INTERRUPTED, USAGE, is_broken_pipe, is_usage};
use crate::input::border::{Behind, behind};
use crate::input::{Batch, Input, Message, present_ms};
use crate::terminal::stop::Stop;

/// The receiver of records.
pub trait Pass {
    /// Takes every record of `batch`; gives back a batch that is done with, this one or an earlier one. `ahead_ms` has
    /// the times of the records that come next, where they are known.
    ///
    /// # Errors
    /// Where an output fails.
    fn batch(&mut self, batch: Box<Batch>, ahead_ms: &[u64]) -> anyhow::Result<Option<Box<Batch>>>;

    /// How far ahead of the others a record's time may be to be accepted without confirmation, in milliseconds; none
    /// where times do not matter.
    fn step_ms(&self) -> Option<u64>;

    /// The first records fit the flags, so files of earlier runs that are continued are read now. Called before every batch,
    /// and at the end.
    ///
    /// # Errors
    /// Where such a file cannot be read.
    fn begin(&mut self) -> anyhow::Result<()>;

    /// Writes everything that was taken so far to the system. Returns how long a pause of the input may last until this
    /// is to be called again; none where it need not be.
    ///
    /// # Errors
    /// Where an output fails.
    fn flush(&mut self) -> anyhow::Result<Option<Duration>>;

    /// The input has ended, or the run is to end: as [`Self::flush`], and waits for what is undecided yet. `is_whole` says that
    /// the whole input was read.
    ///
    /// # Errors
    /// Where an output fails, or nothing of the whole input can be judged.
    fn end(&mut self, is_whole: bool) -> anyhow::Result<()>;

    /// Whether nothing was written yet, as no record was judged.
    fn has_written_nothing(&self) -> bool;
}

/// How a walk ended.
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

    /// Whether a signal ended the walk.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Stopped)
    }

    /// The exit code. `left` is the result of writing state and report, `is_unclean` whether a record could not
    /// be judged where all must be.
    ///
    /// # Errors
    /// The error that ended the walk, or that of state and report. Of two errors the second is printed here.
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

/// How far the times of the input have come: the time that half of the last records have reached.
#[derive(Default)]
struct Reached(Option<i64>);

impl Reached {
    /// How long to wait for the records behind `batch`, where a time up to `step_ms` ahead is accepted without
    /// confirmation: `doubt` where these records may matter.
    fn patience(&mut self, batch: &Batch, step_ms: u64, doubt: Duration) -> Duration {
        let Some((middle_ms, greatest_ms)) = batch.last_times_ms() else { return Duration::ZERO };
        // Times after the present may all be wrong together; one record alone does not confirm itself.
        let middle_ms = middle_ms.min(i64::try_from(present_ms()).unwrap_or(i64::MAX));
        let reached_ms = if middle_ms < greatest_ms { self.0.max(Some(middle_ms)) } else { self.0 };
        self.0 = self.0.max(Some(middle_ms));
        let is_near = |reached_ms: i64| greatest_ms <= reached_ms.saturating_add_unsigned(step_ms);
        if reached_ms.is_some_and(is_near) { Duration::ZERO } else { doubt }
    }
}

/// The times behind `held`, as far as `next` has them. A time up to `step_ms` ahead is accepted without confirmation;
/// none where times do not matter.
fn ahead_ms(held: &mut Batch, next: &Batch, step_ms: Option<u64>) -> Vec<u64> {
    let Some(step_ms) = step_ms else { return Vec::new() };
    if held.file == next.file {
        return next.first_times_ms();
    }
    // A file may end in a small batch; then the few times in it say nothing about how far the file has come.
    let last_ms: Vec<u64> = held.parsed.times_ms().iter().map(|time_ms| time_ms.cast_unsigned()).collect();
    let Behind { ahead_ms, is_older } = behind(&last_ms, next.first_times_ms(), step_ms, present_ms());
    held.is_before_older = is_older;
    ahead_ms
}

/// Passes all of `input` to `pass`, until it ends or a signal stops it.
pub fn walk(input: &Input, stop: &Stop, pass: &mut impl Pass) -> Ended {
    let (mut held, mut reached): (Option<Box<Batch>>, _) = (None, Reached::default());
    let ended = loop {
        let patience = match (&held, pass.step_ms()) {
            (Some(held), Some(step_ms)) => reached.patience(held, step_ms, input.doubt()),
            _ => Duration::ZERO,
        };
        // While input pauses, outputs must not be held back.
        let idle = || hand_on(held.take(), &[], input, pass).and_then(|()| pass.flush());
        let message = match input.next(patience, idle) {
            Ok(message) => message,
            Err(error) => return failed(error, pass),
        };
        let ahead_ms = match (&mut held, &message) {
            (Some(held), Message::Batch(next)) => ahead_ms(held, next, pass.step_ms()),
            _ => Vec::new(),
        };
        if let Err(error) = hand_on(held.take(), &ahead_ms, input, pass) {
            return failed(error, pass);
        }
        if stop.is_set() {
            break Ended::Stopped;
        }
        match message {
            Message::Batch(batch) => held = Some(batch),
            Message::End(Ok(())) => break Ended::AtEnd,
            Message::End(Err(error)) if is_usage(&error) && pass.has_written_nothing() => break Ended::Refused(error),
            Message::End(Err(error)) => break Ended::Input(error),
            Message::Stop | Message::Pause => {}
        }
    };
    if matches!(ended, Ended::Refused(_)) {
        return ended;
    }
    let is_whole = matches!(ended, Ended::AtEnd) && !stop.is_set();
    match pass.begin().and_then(|()| pass.end(is_whole)) {
        // The pass may have waited for its last answers, and a signal may have ended that wait.
        Ok(()) if matches!(ended, Ended::AtEnd) && stop.is_set() => Ended::Stopped,
        Ok(()) => ended,
        Err(error) => failed(error, pass),
    }
}

/// An output has failed, or the file is not one that records may be added to, or nothing can be judged.
fn failed(error: anyhow::Error, pass: &impl Pass) -> Ended {
    if is_usage(&error) && pass.has_written_nothing() { Ended::Refused(error) } else { Ended::Output(error) }
}

fn hand_on(held: Option<Box<Batch>>, ahead_ms: &[u64], input: &Input, pass: &mut impl Pass) -> anyhow::Result<()> {
    let Some(batch) = held else { return Ok(()) };
    pass.begin()?;
    pass.batch(batch, ahead_ms)?.into_iter().for_each(|spent| input.recycle(spent));
    Ok(())
}
