//! The main loop of the commands `dedup` and `estimate`. The loop reads batches of records from an input, obtains a
//! decision about each record, and passes the records with their decisions to the command, which writes them to its
//! outputs.
//!
//! The driver usually decides a batch only when it has received the next batch. The reason is that a time far ahead of
//! the others is plausible only if later records have similar times, and these records may be in the next batch.
//!
//! If the input pauses, the driver does not wait for the next batch without limit. It waits briefly if the last batch
//! ends with a time that needs confirmation, and otherwise decides the last batch at once.
//!
//! # Guarantees
//!
//! - Records are written in the order of the input, except records whose events another consumer holds.
//! - Outputs are flushed before the driver waits for input, and at the end.
//! - A state is saved only after all records that it contains were written.
//!
//! The driver does not depend on the form of the records ([`Output::Records`]), on how events are decided
//! ([`Decider`]), or on what a decision means ([`Handler`]).

mod ahead;
mod decider;
mod outputs;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use firstseen_records::Rejection;

use crate::exit::{Ended, is_usage};
use crate::flags::input::InputArgs;
use crate::flags::run::RunArgs;
use crate::input::left_out::LeftOut;
use crate::input::queue::{Message, Queue};
use crate::input::{self, Batch};
use crate::output::{Output, distinct};
use crate::state::saving::Saving;
use crate::terminal::progress::Progress;
use crate::terminal::stop::Stop;
use crate::unjudged::counts::Place;
use crate::unjudged::gate::{Gate, Turn};
use ahead::{Reached, ahead_ms};
#[cfg(feature = "full")]
pub(crate) use decider::Waiting;
pub(crate) use decider::{Decider, Retry};
pub(crate) use outputs::Outputs;

/// Number of events that are decided before they are counted and written. Their decisions fit into the first-level
/// cache.
const CHUNK_EVENTS: usize = 4096;

/// Interval in which the driver checks for a stop request while it waits for records that other consumers hold.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Consecutive events of a batch with their decisions.
pub(crate) struct Chunk<'a, R, T> {
    pub(crate) batch: &'a Batch<R>,
    /// Index in the batch of the first event of this chunk.
    pub(crate) start: usize,
    /// The decisions, one per event.
    pub(crate) decisions: &'a [T],
    /// Whether these events were held by other consumers when their batch was first handled.
    pub(crate) is_retry: bool,
}

/// What a command does with decided events.
pub(crate) trait Handler<O: Output, D: Decider<O::Records>> {
    /// Called before the first chunk of `batch`.
    fn begin(&mut self, _batch: &Batch<O::Records>) {}

    /// Examines the decisions of a chunk before any of its records is written.
    fn look(&mut self, chunk: &Chunk<'_, O::Records, D::Decision>, decider: &D, outputs: &mut Outputs<O>);

    /// Counts `events` of the chunk, and writes the records whose events no other consumer holds.
    ///
    /// # Errors
    /// Returns an error if an output fails, or if the run must end before a record that cannot be judged.
    fn write(
        &mut self,
        chunk: &Chunk<'_, O::Records, D::Decision>,
        events: Range<usize>,
        decider: &mut D,
        outputs: &mut Outputs<O>,
    ) -> anyhow::Result<()>;

    /// Called when all records of `batch` are written.
    fn end(&mut self, _batch: &Batch<O::Records>) {}

    /// Returns whether at least one record was judged.
    fn has_judged(&self) -> bool;

    /// Returns the results so far as text for the progress bar on a terminal.
    fn summary(&self) -> String;
}

/// Results of the checks that a run performs before it builds its filter.
pub(crate) struct Prepared {
    pub(crate) started: Instant,
    pub(crate) saving: Saving,
    input_bytes: Option<u64>,
    writes_to_stdout: bool,
}

impl Prepared {
    /// Prepares a run: checks its input and output files, locks its saved state, and checks that an input of text
    /// begins with text. `outputs` contains the paths of the output files of the present command. The output files that
    /// all commands have are specified by `run`.
    ///
    /// # Errors
    /// Returns an error if a file cannot be used, or if another run uses the state.
    pub(crate) fn new(
        input: &InputArgs,
        run: &RunArgs,
        outputs: &[&Option<PathBuf>],
        writes_to_stdout: bool,
    ) -> anyhow::Result<Self> {
        let started = Instant::now();
        input.detect_columns();
        let is_text = !input.has_columns();
        let record_end = if is_text { Some(input.record_end()?) } else { None };
        let input_bytes = input::check(&input.files, record_end)?;
        let lock = run.lock_path();
        let written = [&[&lock][..], outputs, &[&run.rejected, &run.state, &run.report_file]].concat();
        distinct::check(&input.files, &written, writes_to_stdout)?;
        let every = run.state_every().filter(|_| !input.is_readable_only_at_end());
        let saving = Saving::new(run.saved_to(), every)?;
        if is_text {
            input.look()?;
        }
        Ok(Self { started, saving, input_bytes, writes_to_stdout })
    }

    /// Shows the progress of the run from now on.
    pub(crate) fn progress(&self) -> Progress {
        Progress::new(self.input_bytes, self.writes_to_stdout)
    }
}

/// One run over an input, with its decider, its handler and its outputs.
pub(crate) struct Driver<O: Output, D: Decider<O::Records>, H> {
    pub(crate) decider: D,
    pub(crate) handler: H,
    pub(crate) outputs: Outputs<O>,
    pub(crate) left_out: LeftOut,
    gate: Gate,
    saving: Saving,
    stop: Stop,
    /// Decisions about the chunk that was decided last.
    decisions: Vec<D::Decision>,
    /// Bytes of input that were read and answered so far.
    input_bytes: u64,
}

impl<O: Output, D: Decider<O::Records>, H: Handler<O, D>> Driver<O, D, H> {
    pub(crate) fn new(decider: D, handler: H, outputs: Outputs<O>, gate: Gate, saving: Saving, stop: Stop) -> Self {
        Self {
            decider,
            handler,
            outputs,
            left_out: LeftOut::default(),
            gate,
            saving,
            stop,
            decisions: Vec::new(),
            input_bytes: 0,
        }
    }

    /// Processes the whole input, until it ends or a signal stops the run.
    pub(crate) fn run(&mut self, queue: &Queue<O::Records>) -> Ended {
        let mut held: Option<Box<Batch<O::Records>>> = None;
        let mut reached = Reached::default();
        let ended = loop {
            let patience = match (&held, self.decider.step_ms()) {
                (Some(held), Some(step_ms)) => reached.patience(held, step_ms, queue.doubt()),
                _ => Duration::ZERO,
            };
            // While the input pauses, records must not wait in the outputs.
            let message = queue.next(patience, || {
                self.pass_on(held.take(), &[], queue)?;
                self.flush()
            });
            let message = match message {
                Ok(message) => message,
                Err(error) => return self.failed(error),
            };
            let ahead_ms = match (&mut held, &message) {
                (Some(held), Message::Batch(next)) => ahead_ms(held, next, self.decider.step_ms()),
                _ => Vec::new(),
            };
            if let Err(error) = self.pass_on(held.take(), &ahead_ms, queue) {
                return self.failed(error);
            }
            if self.stop.is_set() {
                break Ended::Stopped;
            }
            match message {
                Message::Batch(batch) => held = Some(batch),
                Message::End(Ok(())) => break Ended::AtEnd,
                Message::End(Err(error)) if is_usage(&error) && !self.gate.is_open() => return Ended::Refused(error),
                Message::End(Err(error)) => break Ended::Input(error),
                Message::Stop | Message::Pause => {}
            }
        };
        let is_whole = ended.is_at_end() && !self.stop.is_set();
        match self.outputs.begin().and_then(|()| self.end(is_whole)) {
            // The run may have waited for the last answers, and a signal may have ended that wait.
            Ok(()) if ended.is_at_end() && self.stop.is_set() => Ended::Stopped,
            Ok(()) => ended,
            Err(error) => self.failed(error),
        }
    }

    /// Completes a run: releases claims, prints the remaining messages, and saves the state.
    ///
    /// # Errors
    /// Returns the errors of completing the outputs and of saving the state.
    pub(crate) fn finish(&mut self, ended: &Ended) -> anyhow::Result<()> {
        self.decider.leave();
        self.outputs.progress.end();
        let mut finished = Ok(());
        if ended.is_refused() {
            self.outputs.discard();
        } else {
            self.outputs.unjudged.print_held(&self.outputs.progress);
            self.outputs.unjudged.end(&self.outputs.progress);
        }
        // If an output has failed, or if nothing could be read, files that are not complete do not replace others.
        let is_worthless = matches!(ended, Ended::Input(_)) && !self.handler.has_judged();
        if !ended.is_refused() && !matches!(ended, Ended::Output(_)) && !is_worthless {
            finished = self.outputs.finish();
        }
        let is_finished = finished.is_ok();
        let saved = self.saving.end(
            ended,
            |path| self.decider.save(path),
            || {
                if is_finished {
                    self.outputs.sync()
                } else {
                    bail!("an output is not complete, so the state is as it was")
                }
            },
        );
        finished.and(saved)
    }

    /// Returns the exit code of a run. After the last record, the run still writes its saved state and its report, and
    /// `left` is the result of that work. If `is_strict` is set (`--strict`), the run fails if at least one record
    /// could not be judged.
    ///
    /// # Errors
    /// Returns the error that ended the run, or the error of writing the state and the report.
    pub(crate) fn exit_code(
        &self,
        ended: Ended,
        left: anyhow::Result<()>,
        is_strict: bool,
    ) -> anyhow::Result<ExitCode> {
        let unjudged = self.outputs.unjudged.total();
        let has_judged_nothing = ended.is_at_end() && unjudged > 0 && !self.handler.has_judged();
        if has_judged_nothing {
            self.outputs.progress.note("firstseen: not one record of the input was judged: the output is the input");
        }
        let is_clean = self.decider.is_clean() && unjudged == 0;
        ended.exit_code(left, has_judged_nothing || is_strict && !is_clean)
    }

    /// Classifies an error: an output failed, a file does not allow records to be appended, or no record can be judged.
    fn failed(&self, error: anyhow::Error) -> Ended {
        if is_usage(&error) && !self.gate.is_open() { Ended::Refused(error) } else { Ended::Output(error) }
    }

    /// Submits the batch `held` to the decider, and writes the records of each batch that the decider returns. If
    /// `held` is `None`, the function does nothing. `ahead_ms` contains the times of the records that follow `held` in
    /// the input, as far as they are known.
    fn pass_on(
        &mut self,
        held: Option<Box<Batch<O::Records>>>,
        ahead_ms: &[u64],
        queue: &Queue<O::Records>,
    ) -> anyhow::Result<()> {
        let Some(batch) = held else { return Ok(()) };
        // The first records fit the flags, so the run now reads the output files of earlier runs to which it appends.
        self.outputs.begin()?;
        self.outputs.check_header(&batch)?;
        if let Some(decided) = self.decider.submit(batch, ahead_ms)?
            && let Some(spent) = self.handle(decided)?
        {
            queue.recycle(spent);
        }
        while self.decider.waiting().is_crowded && self.awaits_retry() {
            self.retry()?;
        }
        Ok(())
    }

    /// Handles all batches that were submitted and are not decided yet.
    fn drain(&mut self) -> anyhow::Result<()> {
        while let Some(batch) = self.decider.oldest()? {
            self.handle(batch)?;
        }
        Ok(())
    }

    /// Decides and writes all records that were read so far, because the input pauses.
    ///
    /// Returns the longest time for which the driver may wait for further input before it must call this function
    /// again, for example to save the state or to retry events that other consumers hold. `None` means that the driver
    /// may wait without limit.
    fn flush(&mut self) -> anyhow::Result<Option<Duration>> {
        self.drain()?;
        self.retry()?;
        self.pass_gate()?;
        self.outputs.flush()?;
        self.save_if_due()?;
        let save = self.saving.wait().filter(|_| self.gate.is_open());
        Ok([save, self.decider.waiting().due, self.gate.wait(Instant::now())].into_iter().flatten().min())
    }

    /// Completes a run: waits until the remaining events are decided, and writes their records. `is_whole` is true if
    /// the input was read completely, and false if the run ends early, for example because of an interrupt.
    fn end(&mut self, is_whole: bool) -> anyhow::Result<()> {
        self.drain()?;
        while self.awaits_retry() {
            self.retry()?;
        }
        let turn = self.gate.end(is_whole && !self.is_known(), &self.outputs.unjudged)?;
        self.turn(turn)?;
        self.outputs.flush()
    }

    /// Returns whether the run must not fail with an error about flags that do not fit the input.
    ///
    /// If at least one record was judged, the flags certainly fit the input, so the result is true. The result is also
    /// true while nodes have problems or other consumers hold records. In these cases it is possible that no record was
    /// judged, but the flags are not the reason.
    fn is_known(&self) -> bool {
        let unjudged = &self.outputs.unjudged;
        let is_in_trouble = unjudged.total() > unjudged.total_without_trouble();
        self.handler.has_judged() || self.decider.waiting().records > 0 || is_in_trouble
    }

    /// Opens the outputs once a record was judged.
    fn pass_gate(&mut self) -> anyhow::Result<()> {
        if self.gate.is_open() {
            return Ok(());
        }
        let turn = self.gate.decide(self.is_known(), &self.outputs.unjudged, Instant::now())?;
        self.turn(turn)
    }

    fn turn(&mut self, turn: Turn) -> anyhow::Result<()> {
        if turn == Turn::Open {
            self.outputs.unjudged.print_held(&self.outputs.progress);
        }
        self.outputs.turn(turn)
    }

    fn save_if_due(&mut self) -> anyhow::Result<()> {
        if !self.gate.is_open() {
            return Ok(());
        }
        let Self { saving, decider, outputs, .. } = self;
        let failure = saving.save_if_due(self.input_bytes, |path| decider.save(path), || outputs.sync())?;
        failure.iter().for_each(|line| outputs.progress.note(line));
        Ok(())
    }

    /// Writes all records of a decided batch. Returns the batch if all work on it is complete.
    fn handle(&mut self, batch: Box<Batch<O::Records>>) -> anyhow::Result<Option<Box<Batch<O::Records>>>> {
        let written = self.write_batch(&batch);
        // If the run ends within the batch, the records before that point are still written.
        let written = self.outputs.end_block(&batch.block).and(written);
        self.gate.saw(&batch, Instant::now());
        let written = written.and(self.pass_gate());
        self.input_bytes = batch.input_bytes;
        if self.handler.has_judged() {
            self.saving.has_answered();
        }
        self.outputs.progress.at(batch.input_bytes, || self.handler.summary());
        let written = written.and_then(|()| self.save_if_due());
        let spent = self.confirm(batch, written)?;
        self.retry()?;
        Ok(spent)
    }

    fn write_batch(&mut self, batch: &Batch<O::Records>) -> anyhow::Result<()> {
        let Batch { block, parsed, file, .. } = batch;
        if parsed.is_rest() {
            return self.outputs.continue_rejected(block);
        }
        let Outputs { unjudged, progress, .. } = &self.outputs;
        self.left_out.count(parsed, |line| unjudged.place(Place { file: *file, line }), progress);
        let mut rejections = parsed.rejections();
        if let Some(header) = batch.new_header() {
            // Comments may precede the header.
            rejections = self.outputs.reject_before(rejections, header.start, batch)?;
            self.outputs.header(block, header)?;
        }
        self.handler.begin(batch);
        for start in (0..parsed.len()).step_by(CHUNK_EVENTS) {
            let events = start..parsed.len().min(start + CHUNK_EVENTS);
            rejections = self.write_events(batch, events, rejections, false)?;
        }
        self.outputs.reject_before(rejections, u32::MAX, batch)?;
        self.handler.end(batch);
        Ok(())
    }

    /// Decides `events`, and writes their records together with the rejected records between them. Returns the
    /// rejections after the last event.
    fn write_events<'a>(
        &mut self,
        batch: &Batch<O::Records>,
        events: Range<usize>,
        mut rejections: &'a [Rejection],
        is_retry: bool,
    ) -> anyhow::Result<&'a [Rejection]> {
        let Self { decider, handler, outputs, decisions, .. } = self;
        decider.decide(batch, events.clone(), decisions);
        let chunk = Chunk { batch, start: events.start, decisions, is_retry };
        handler.look(&chunk, decider, outputs);
        let spans = batch.parsed.spans();
        // The loop proceeds from one rejection to the next, so that records stay in the order of the input.
        let mut index = events.start;
        while index < events.end {
            rejections = outputs.reject_before(rejections, spans[index].start, batch)?;
            let until = match rejections {
                [] => events.end,
                [next, ..] => index + spans[index..events.end].partition_point(|span| span.start < next.span.start),
            };
            handler.write(&chunk, index..until, decider, outputs)?;
            index = until;
        }
        Ok(rejections)
    }

    /// Completes the claims of a batch after an attempt to write its records. `written` is the result of this attempt.
    /// If the records were written, the function confirms the claims, and otherwise it releases them. Returns the batch
    /// if all of its events are decided. If some events are not decided, the decider keeps the batch for a retry.
    fn confirm(
        &mut self,
        batch: Box<Batch<O::Records>>,
        written: anyhow::Result<()>,
    ) -> anyhow::Result<Option<Box<Batch<O::Records>>>> {
        if !self.decider.has_claims() {
            return written.map(|()| Some(batch));
        }
        if let Err(error) = written.and_then(|()| self.outputs.sync()) {
            self.decider.release(&batch);
            return Err(error);
        }
        self.decider.confirm(batch, &self.outputs.progress)
    }

    /// Asks again about the batches with undecided events that are due.
    fn retry(&mut self) -> anyhow::Result<()> {
        for _ in 0..self.decider.waiting().batches {
            let Some(Retry { batch, events }) = self.decider.retry()? else { break };
            let written = self.write_again(&batch, &events);
            let written = self.outputs.end_block(&batch.block).and(written);
            self.confirm(batch, written)?;
        }
        Ok(())
    }

    /// Decides and writes events that other consumers held. Events that are held again stay undecided.
    fn write_again(&mut self, batch: &Batch<O::Records>, events: &[usize]) -> anyhow::Result<()> {
        for index in events {
            if !self.decider.is_held(*index) {
                self.write_events(batch, *index..index + 1, &[], true)?;
            }
        }
        Ok(())
    }

    /// Waits until the next batch with held events is due, or until the user stops the run. Returns false if there is
    /// no such batch.
    fn awaits_retry(&self) -> bool {
        let Some(due) = self.decider.waiting().due.filter(|_| !self.stop.is_set()) else { return false };
        thread::sleep(due.min(POLL_INTERVAL));
        true
    }
}
