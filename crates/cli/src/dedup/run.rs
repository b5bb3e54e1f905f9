//! The run of `firstseen dedup`: wiring, and what remains to be done at its end.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use firstseen_filter::FIRST_CAPACITY_EVENTS;
use jiff::Timestamp;

use super::DedupArgs;
use super::engine::{Engine, Outputs, Source};
use super::here::Here;
use super::lateness::late_meaning;
use super::order::OrderOfInput;
use super::setup::Setup;
use super::tally::Tally;
use super::troubles::Troubles;
use crate::dedup::confirm::Confirm;
use crate::input::Times;
use crate::input::left_out::LeftOut;
use crate::input::walk::{Pass, walk};
use crate::input::{self, Batch, Input};
use crate::output::distinct;
use crate::output::{Earlier, Output};
use crate::report::Report;
use crate::report::describe::describe;
use crate::report::filter::{FilterReport, HereReport};
use crate::state::StateHeader;
use crate::state::saving::{Saving, WriteBody};
use crate::terminal::progress::Progress;
use crate::terminal::stop::Stop;
use crate::text::numbers::grouped;
use crate::unjudged::UnjudgedArg;
use crate::unjudged::counts::Unjudged;
use crate::unjudged::gate::{Gate, Turn};

/// While others hold records, the wish to stop is looked at so often.
const LOOK: Duration = Duration::from_millis(100);

/// Runs `firstseen dedup`.
///
/// # Errors
/// Those that end the command. Files end with a whole record, and a state is saved only if all records were written.
pub fn run(args: &DedupArgs) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let input_bytes = input::check(&args.input.files, args.input.record_end()?)?;
    let DedupArgs { output, run, .. } = args;
    let lock = run.lock_path();
    let written =
        [&lock, &output.out, &output.duplicates, &output.uncertain, &run.rejected, &run.state, &run.report_file];
    distinct::check(&args.input.files, &written, output.out.is_none())?;
    let mut saving = Saving::new(run.saved_to(), run.state_every())?;
    args.input.look()?;
    let Setup { source, parser, times, secret } = Setup::new(args)?;
    if let Source::Here(here) = &source {
        saving.will_save(here.filter.bytes());
    }
    let outputs = open(args)?;
    let input = Input::start(args.input.reading(parser, times)?);
    let stop = Stop::on_signal(input.waker())?;
    let source = Setup::measure(source, args, times, &input)?;
    let order = match &source {
        Source::Here(here) => OrderOfInput::from(here.filter.now_ms()),
        Source::Cluster(_) => OrderOfInput::default(),
    };
    let engine = Engine {
        source,
        tally: Tally::new(args.input.source.is_some(), &secret),
        unjudged: Unjudged::new(args.input.files.clone(), run.unjudged, run.rejected.is_some()),
        late: output.late,
        troubles: Troubles::default(),
        order,
        answers: Vec::new(),
        left_out: LeftOut::default(),
    };
    let progress = Progress::new(input_bytes, output.out.is_none());
    let gate = Gate::new(input::is_stream(&args.input.files), args.input.format(), args.input.separator);
    let mut pass = DedupPass { engine, outputs, gate, progress, saving, stop: stop.clone(), input_bytes: 0 };
    let ended = walk(&input, &stop, &mut pass);
    pass.leave();
    let DedupPass { mut engine, mut outputs, progress, saving, .. } = pass;
    progress.end();
    if ended.is_refused() {
        outputs.discard();
    } else {
        engine.unjudged.say_held(&progress);
        engine.unjudged.end(&progress);
    }
    let saved = match &engine.source {
        Source::Here(here) => saving.end(&ended, &here.header, &|body| here.filter.write_body(body), || outputs.sync()),
        Source::Cluster(_) => Ok(()),
    };
    let mut written = Ok(());
    if ended.is_reported() {
        let report = report(args, times, &mut engine, started.elapsed().as_secs_f64(), ended.is_interrupted());
        written = report.write(run.report, run.report_file.as_deref());
    }
    let has_judged_nothing = ended.is_at_end() && engine.unjudged.total() > 0 && !engine.has_judged();
    if has_judged_nothing {
        progress.note("firstseen: not one record of the input was judged: the output is the input");
    }
    ended.exit_code(saved.and(written), has_judged_nothing || run.strict && !engine.is_clean())
}

/// The pass of batches through the filter to the outputs.
struct DedupPass {
    engine: Engine,
    outputs: Outputs,
    gate: Gate,
    progress: Progress,
    saving: Saving,
    stop: Stop,
    /// Bytes that were read and answered so far.
    input_bytes: u64,
}

impl DedupPass {
    fn handle(&mut self, batch: Box<Batch>, ahead_ms: &[u64]) -> anyhow::Result<Option<Box<Batch>>> {
        let handled = self.engine.handle(&batch, ahead_ms, &mut self.outputs, &self.progress);
        self.gate.saw(&batch, Instant::now());
        let handled = handled.and(self.pass_gate());
        self.input_bytes = batch.input_bytes;
        if self.engine.has_judged() {
            self.saving.has_answered();
        }
        let counts = &self.engine.tally.counts;
        self.progress.at(batch.input_bytes, || format!("{} events, {} duplicates", counts.events, counts.duplicates));
        let saved = handled.and_then(|()| self.save_if_due());
        self.confirm(batch, saved)
    }

    /// Opens the outputs if a record was judged.
    fn pass_gate(&mut self) -> anyhow::Result<()> {
        if self.gate.is_open() {
            return Ok(());
        }
        let is_judged = self.engine.has_judged() || self.engine.is_in_trouble();
        let turn = self.gate.decide(is_judged, &self.engine.unjudged, Instant::now())?;
        self.turn(turn)
    }

    fn turn(&mut self, turn: Turn) -> anyhow::Result<()> {
        if turn == Turn::Open {
            self.engine.unjudged.say_held(&self.progress);
        }
        self.outputs.turn(turn)
    }

    /// What was claimed of a batch is written now, and confirmed after that, or let go where it could not be written. A batch of which
    /// events are not decided is kept.
    fn confirm(&mut self, batch: Box<Batch>, handled: anyhow::Result<()>) -> anyhow::Result<Option<Box<Batch>>> {
        let Source::Cluster(remote) = &mut self.engine.source else { return handled.map(|()| Some(batch)) };
        if !remote.has_claims() {
            return handled.map(|()| Some(batch));
        }
        if let Err(error) = handled.and_then(|()| self.outputs.sync()) {
            remote.release(&batch);
            return Err(error);
        }
        remote.trouble().iter().for_each(|line| self.progress.note(line));
        remote.confirm(batch)
    }

    /// Asks again about batches with events that were not decided, as far as they are due.
    fn again(&mut self) -> anyhow::Result<()> {
        let batches = if let Source::Cluster(remote) = &self.engine.source { remote.batches_aside() } else { 0 };
        for _ in 0..batches {
            let Source::Cluster(remote) = &mut self.engine.source else { break };
            let Some((batch, events)) = remote.again()? else { break };
            let handled = self.engine.handle_again(&batch, &events, &mut self.outputs, &self.progress);
            self.confirm(batch, handled)?;
        }
        Ok(())
    }

    /// Waits until the next batch that others hold events of is due, or a user wants the run to end; false where there is none to
    /// wait for.
    fn awaits_due(&self) -> bool {
        let Source::Cluster(remote) = &self.engine.source else { return false };
        let Some(due) = remote.next_due().filter(|_| !self.stop.is_set()) else { return false };
        thread::sleep(due.min(LOOK));
        true
    }

    fn save_if_due(&mut self) -> anyhow::Result<()> {
        let Source::Here(here) = &self.engine.source else { return Ok(()) };
        if !self.gate.is_open() {
            return Ok(());
        }
        let deliver = || self.outputs.sync();
        let write_body: WriteBody<'_> = &|body| here.filter.write_body(body);
        self.saving.save_if_due(self.input_bytes, &here.header, write_body, deliver, &self.progress)
    }

    /// The run ends: what others hold is left to them.
    fn leave(&mut self) {
        if let Source::Cluster(remote) = &mut self.engine.source {
            remote.leave();
        }
    }

    /// Whether no batch is on its way to a cluster.
    fn is_answered(&self) -> bool {
        if let Source::Cluster(remote) = &self.engine.source { remote.is_answered() } else { true }
    }

    /// Handles the oldest of the batches that were sent to a cluster; `None` if there is none.
    fn oldest(&mut self) -> anyhow::Result<Option<Box<Batch>>> {
        let Source::Cluster(remote) = &mut self.engine.source else { return Ok(None) };
        let Some(batch) = remote.oldest()? else { return Ok(None) };
        let done = self.handle(batch, &[])?;
        self.again()?;
        Ok(done)
    }

    /// Whether so many records wait for others that the input should, too.
    fn is_crowded(&self) -> bool {
        if let Source::Cluster(remote) = &self.engine.source { remote.waiting().1 } else { false }
    }
}

impl Pass for DedupPass {
    fn batch(&mut self, batch: Box<Batch>, ahead_ms: &[u64]) -> anyhow::Result<Option<Box<Batch>>> {
        self.outputs.check_header(&batch)?;
        let Source::Cluster(remote) = &mut self.engine.source else { return self.handle(batch, ahead_ms) };
        remote.ask(batch, ahead_ms);
        let done = if remote.is_full() { self.oldest()? } else { None };
        while self.is_crowded() && self.awaits_due() {
            self.again()?;
        }
        Ok(done)
    }

    fn step_ms(&self) -> Option<u64> {
        match &self.engine.source {
            Source::Here(here) => here.step_ms(),
            Source::Cluster(remote) => remote.step_ms(),
        }
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        self.outputs.begin()
    }

    fn flush(&mut self) -> anyhow::Result<Option<Duration>> {
        while !self.is_answered() {
            self.oldest()?;
        }
        self.again()?;
        self.pass_gate()?;
        self.outputs.flush()?;
        self.save_if_due()?;
        let due = if let Source::Cluster(remote) = &self.engine.source { remote.next_due() } else { None };
        let save = self.saving.wait().filter(|_| self.gate.is_open());
        Ok([save, due, self.gate.wait(Instant::now())].into_iter().flatten().min())
    }

    fn end(&mut self, is_whole: bool) -> anyhow::Result<()> {
        while !self.is_answered() {
            self.oldest()?;
        }
        self.again()?;
        if let Source::Cluster(remote) = &self.engine.source
            && remote.waiting().0 > 0
        {
            let records = grouped(remote.waiting().0 as u64);
            self.progress
                .note(&format!("firstseen: {records} records wait: others have claimed them, or nodes say nothing"));
        }
        while self.awaits_due() {
            self.again()?;
        }
        let is_known = self.engine.has_judged() || self.engine.is_in_trouble();
        let turn = self.gate.end(is_whole && !is_known, &self.engine.unjudged)?;
        self.turn(turn)?;
        self.outputs.flush()
    }

    fn has_written_nothing(&self) -> bool {
        !self.gate.is_open()
    }
}

fn open(DedupArgs { input, output, run, cluster, .. }: &DedupArgs) -> anyhow::Result<Outputs> {
    let quotes = input.quotes();
    let earlier = if cluster.cluster.is_empty() {
        run.earlier(&[&output.out, &output.duplicates, &output.uncertain, &run.rejected], quotes)
    } else {
        Earlier::Kept { quotes }
    };
    let record_end = input.record_end()?;
    let optional = |path: &Option<PathBuf>| {
        Ok::<_, anyhow::Error>(Output::optional(path.as_deref(), earlier)?.with_record_end(record_end))
    };
    let first_seen = output.out.as_ref().map_or_else(|| Output::stdout(earlier), |path| Output::file(path, earlier))?;
    let rejected = Output::optional(run.rejected.as_deref(), earlier.without_quotes())?;
    Ok(Outputs {
        first_seen: first_seen.with_record_end(record_end),
        duplicates: optional(&output.duplicates)?,
        uncertain: optional(&output.uncertain)?,
        rejected: rejected.with_record_end(record_end),
    })
}

fn report(args: &DedupArgs, times: Times, engine: &mut Engine, seconds: f64, interrupted: bool) -> Report {
    let Engine { source, tally, unjudged, left_out, .. } = engine;
    let mut counts = tally.counts;
    counts.rejected = unjudged.unread_total();
    let (top_sources_duplicates, top_sources_first_seen) = tally.top_sources().unzip();
    let here = match source {
        Source::Here(here) => Some(&**here),
        Source::Cluster(_) => None,
    };
    let clock_ms = here.and_then(|here| here.filter.now_ms());
    let late_meaning =
        late_meaning(args.output.late, args.run.unjudged, here.map(|here| &here.header.definition.group));
    Report {
        counts,
        drops_undecided: args.run.unjudged == UnjudgedArg::Drop,
        unjudged: unjudged.by_reason(),
        blank_lines: unjudged.blank_lines(),
        left_out: *left_out,
        late_meaning,
        seconds,
        events_per_s: counts.events as f64 / seconds,
        time_zone: args.input.tz.clone(),
        times,
        clock: clock_ms.and_then(|ms| Timestamp::from_millisecond(ms.cast_signed()).ok()),
        top_keys: tally.top_keys(),
        top_sources_duplicates,
        top_sources_first_seen,
        confirm: here.and_then(|here| here.confirm.as_ref()).map(Confirm::counts),
        verify: here.and_then(|here| here.exact.as_ref()).map(|exact| exact.tally().into()),
        interrupted,
        filter: filter_report(source),
    }
}

fn filter_report(source: &mut Source) -> FilterReport {
    match source {
        Source::Here(here) => {
            let Here { filter, header: StateHeader { definition, seed, .. }, past_lateness, .. } = &mut **here;
            let sized_for =
                definition.group.capacity_events.map(|events| events * u64::from(definition.slicing.groups()));
            // A filter that started small has room for this many events at least.
            let room_events =
                sized_for.or_else(|| filter.live_events().map(|events| events.max(FIRST_CAPACITY_EVENTS)));
            FilterReport::Here(HereReport {
                filter_bytes: filter.bytes(),
                bits_per_event: room_events.map(|events| filter.bytes() as f64 * 8.0 / events as f64),
                expected_fpr: filter.expected_rate(),
                filter: describe(definition),
                window: definition.group.window.to_string(),
                seed: *seed,
                past_lateness: past_lateness.events,
                past_lateness_meaning: past_lateness.meaning(&definition.group),
            })
        }
        Source::Cluster(remote) => FilterReport::Cluster(remote.report()),
    }
}
