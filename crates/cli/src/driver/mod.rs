//! The driver of `dedup` and `estimate`: it takes batches from an input, has their events decided, and lets the command
//! write their records.
//!
//! A batch is held back until the next one is there, so that its last records are decided with the records after them in
//! view; where the input pauses, this waits shortly, and only where those records matter.
//!
//! Guarantees: records that are not held by others are written in the order of the input; outputs are flushed before a
//! wait for input and at the end; a state is saved only after the records that it knows were written. It does not know
//! the form of records ([`Output::Records`]), how events are decided ([`Decider`]), or what a decision means
//! ([`Handler`]).

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

/// Events that are decided before they are counted and written: their decisions stay in the first cache.
const CHUNK_EVENTS: usize = 4096;

/// While others hold records, the wish to stop is looked at so often.
const LOOK: Duration = Duration::from_millis(100);

/// Consecutive events of a batch with their decisions.
pub(crate) struct Chunk<'a, R, T> {
    pub(crate) batch: &'a Batch<R>,
    /// The index of the first of these events in the batch.
    pub(crate) start: usize,
    /// One decision an event.
    pub(crate) decisions: &'a [T],
    /// Whether these events were held by others when their batch was handled.
    pub(crate) is_retry: bool,
}

/// What a command does with decided events.
pub(crate) trait Handler<O: Output, D: Decider<O::Records>> {
    /// The first chunk of `batch` follows.
    fn begin(&mut self, _batch: &Batch<O::Records>) {}

    /// Looks at the decisions of a chunk before any of its records is written.
    fn look(&mut self, chunk: &Chunk<'_, O::Records, D::Decision>, decider: &D, outputs: &mut Outputs<O>);

    /// Counts `events`, which are in the chunk, and writes the records of those that nobody else holds.
    ///
    /// # Errors
    /// Where an output fails, or the run is to end before a record that cannot be judged.
    fn write(
        &mut self,
        chunk: &Chunk<'_, O::Records, D::Decision>,
        events: Range<usize>,
        decider: &mut D,
        outputs: &mut Outputs<O>,
    ) -> anyhow::Result<()>;

    /// All of `batch` is written.
    fn end(&mut self, _batch: &Batch<O::Records>) {}

    /// Whether a record was judged.
    fn has_judged(&self) -> bool;

    /// What was found so far, for the bar on a terminal.
    fn summary(&self) -> String;
}

/// What a run has checked and opened before its filter is built.
pub(crate) struct Prepared {
    pub(crate) started: Instant,
    pub(crate) saving: Saving,
    input_bytes: Option<u64>,
    writes_to_stdout: bool,
}

impl Prepared {
    /// Checks the files of a run, locks its state, and looks at the beginning of its input. `outputs` are the files that
    /// only this command writes.
    ///
    /// # Errors
    /// Where a file cannot be used, or another run uses the state.
    pub(crate) fn new(
        input: &InputArgs,
        run: &RunArgs,
        outputs: &[&Option<PathBuf>],
        writes_to_stdout: bool,
    ) -> anyhow::Result<Self> {
        let started = Instant::now();
        let input_bytes = input::check(&input.files, input.record_end()?)?;
        let lock = run.lock_path();
        let written = [&[&lock][..], outputs, &[&run.rejected, &run.state, &run.report_file]].concat();
        distinct::check(&input.files, &written, writes_to_stdout)?;
        let saving = Saving::new(run.saved_to(), run.state_every())?;
        input.look()?;
        Ok(Self { started, saving, input_bytes, writes_to_stdout })
    }

    /// Shows the progress of the run from now on.
    pub(crate) fn progress(&self) -> Progress {
        Progress::new(self.input_bytes, self.writes_to_stdout)
    }
}

/// A run.
pub(crate) struct Driver<O: Output, D: Decider<O::Records>, H> {
    pub(crate) decider: D,
    pub(crate) handler: H,
    pub(crate) outputs: Outputs<O>,
    pub(crate) left_out: LeftOut,
    gate: Gate,
    saving: Saving,
    stop: Stop,
    /// Those of the chunk that was decided last.
    decisions: Vec<D::Decision>,
    /// Bytes that were read and answered so far.
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

    /// Passes on all of the input, until it ends or a signal stops it.
    pub(crate) fn run(&mut self, queue: &Queue<O::Records>) -> Ended {
        let mut held: Option<Box<Batch<O::Records>>> = None;
        let mut reached = Reached::default();
        let ended = loop {
            let patience = match (&held, self.decider.step_ms()) {
                (Some(held), Some(step_ms)) => reached.patience(held, step_ms, queue.doubt()),
                _ => Duration::ZERO,
            };
            // While input pauses, outputs must not be held back.
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
            // The last answers may have been waited for, and a signal may have ended that wait.
            Ok(()) if ended.is_at_end() && self.stop.is_set() => Ended::Stopped,
            Ok(()) => ended,
            Err(error) => self.failed(error),
        }
    }

    /// Ends what is left of a run: claims, messages, the state.
    ///
    /// # Errors
    /// Those of the state.
    pub(crate) fn finish(&mut self, ended: &Ended) -> anyhow::Result<()> {
        self.decider.leave();
        self.outputs.progress.end();
        if ended.is_refused() {
            self.outputs.discard();
        } else {
            self.outputs.unjudged.say_held(&self.outputs.progress);
            self.outputs.unjudged.end(&self.outputs.progress);
        }
        self.saving.end(ended, |path| self.decider.save(path), || self.outputs.sync())
    }

    /// The exit code of a run. `left` is the result of writing state and report; with `is_strict`, all records must have
    /// been judged.
    ///
    /// # Errors
    /// The error that ended the run, or that of state and report.
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

    /// An output has failed, or the file is not one that records may be added to, or nothing can be judged.
    fn failed(&self, error: anyhow::Error) -> Ended {
        if is_usage(&error) && !self.gate.is_open() { Ended::Refused(error) } else { Ended::Output(error) }
    }

    /// Passes on the records of `held`, where there is such a batch. `ahead_ms` has the times of the records behind it, where
    /// they are known.
    fn pass_on(
        &mut self,
        held: Option<Box<Batch<O::Records>>>,
        ahead_ms: &[u64],
        queue: &Queue<O::Records>,
    ) -> anyhow::Result<()> {
        let Some(batch) = held else { return Ok(()) };
        // The first records fit the flags, so files of earlier runs that are continued are read now.
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

    /// Handles the batches that are submitted and not decided yet.
    fn drain(&mut self) -> anyhow::Result<()> {
        while let Some(batch) = self.decider.oldest()? {
            self.handle(batch)?;
        }
        Ok(())
    }

    /// Writes everything that was taken so far to the system. Returns how long a pause of the input may last until this
    /// is to be called again; `None` if it need not be.
    fn flush(&mut self) -> anyhow::Result<Option<Duration>> {
        self.drain()?;
        self.retry()?;
        self.pass_gate()?;
        self.outputs.flush()?;
        self.save_if_due()?;
        let save = self.saving.wait().filter(|_| self.gate.is_open());
        Ok([save, self.decider.waiting().due, self.gate.wait(Instant::now())].into_iter().flatten().min())
    }

    /// The input has ended, or the run is to end: waits for what is not decided yet, and writes it. `is_whole` says that the
    /// whole input was read.
    fn end(&mut self, is_whole: bool) -> anyhow::Result<()> {
        self.drain()?;
        while self.awaits_retry() {
            self.retry()?;
        }
        let turn = self.gate.end(is_whole && !self.is_known(), &self.outputs.unjudged)?;
        self.turn(turn)?;
        self.outputs.flush()
    }

    /// Whether a record was judged, or nothing can be said yet about flags and input: nodes are in trouble, or others hold
    /// records.
    fn is_known(&self) -> bool {
        let unjudged = &self.outputs.unjudged;
        let is_in_trouble = unjudged.total() > unjudged.total_without_trouble();
        self.handler.has_judged() || self.decider.waiting().records > 0 || is_in_trouble
    }

    /// Opens the outputs if a record was judged.
    fn pass_gate(&mut self) -> anyhow::Result<()> {
        if self.gate.is_open() {
            return Ok(());
        }
        let turn = self.gate.decide(self.is_known(), &self.outputs.unjudged, Instant::now())?;
        self.turn(turn)
    }

    fn turn(&mut self, turn: Turn) -> anyhow::Result<()> {
        if turn == Turn::Open {
            self.outputs.unjudged.say_held(&self.outputs.progress);
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

    /// Writes every record of a decided batch. Returns a batch that is done with.
    fn handle(&mut self, batch: Box<Batch<O::Records>>) -> anyhow::Result<Option<Box<Batch<O::Records>>>> {
        let written = self.write_batch(&batch);
        // Where the run ends within the batch, the records before its end are written.
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
            // Comments may stand before it.
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

    /// Decides `events`, and writes their records and the rejections between them. Returns the rejections behind them.
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
        // From rejection to rejection, so that records stay in the order of the input.
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

    /// What was claimed of a batch is confirmed once it was written, or released where it could not be written. A batch of
    /// which events are not decided is kept.
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

    /// Asks again about batches with events that were not decided, as far as they are due.
    fn retry(&mut self) -> anyhow::Result<()> {
        for _ in 0..self.decider.waiting().batches {
            let Some(Retry { batch, events }) = self.decider.retry()? else { break };
            let written = self.write_again(&batch, &events);
            let written = self.outputs.end_block(&batch.block).and(written);
            self.confirm(batch, written)?;
        }
        Ok(())
    }

    /// Decides and writes events that others held, unless they are held again.
    fn write_again(&mut self, batch: &Batch<O::Records>, events: &[usize]) -> anyhow::Result<()> {
        for index in events {
            if !self.decider.is_held(*index) {
                self.write_events(batch, *index..index + 1, &[], true)?;
            }
        }
        Ok(())
    }

    /// Waits until the next batch that others hold events of is due, or a user wants the run to end; false where there is
    /// none to wait for.
    fn awaits_retry(&self) -> bool {
        let Some(due) = self.decider.waiting().due.filter(|_| !self.stop.is_set()) else { return false };
        thread::sleep(due.min(LOOK));
        true
    }
}
