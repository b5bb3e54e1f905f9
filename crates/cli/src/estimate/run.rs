//! The run of `firstseen estimate`: wiring, and what remains to be done at its end.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::args::EstimateArgs;
use super::engine::{Chunk, Engine};
use super::exact::ExactFrequencies;
use super::leaders::Leaders;
use super::outputs::Outputs;
use super::report::{EstimateCounts, EstimateReport};
use super::setup::{DecayingDefinition, Setup};
use crate::input::left_out::LeftOut;
use crate::input::walk::{Pass, walk};
use crate::input::{self, Batch, Input};
use crate::output::distinct;
use crate::report;
use crate::state::saving::{Saving, WriteBody};
use crate::state::{Definition, StateHeader};
use crate::terminal::progress::Progress;
use crate::terminal::stop::Stop;
use crate::text::numbers;
use crate::unjudged::counts::Unjudged;
use crate::unjudged::gate::{Gate, Turn};

/// How far the rate may rise above its target before a warning: the rate of a filter that is just full scatters around
/// it.
const FPR_SLACK: f64 = 1.1;

/// Runs `firstseen estimate`.
///
/// # Errors
/// Those that end the command. Files end with a whole record, and a state is saved only if all records were written.
pub fn run(args: &EstimateArgs) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let EstimateArgs { output, run, .. } = args;
    let input_bytes = input::check(&args.input.files, args.input.record_end()?)?;
    let per_event = output.per_event.clone().filter(|_| !output.writes_events_to_stdout());
    let uses_stdout = output.writes_events_to_stdout() || output.writes_records_to_stdout();
    let lock = run.lock_path();
    let written = [&lock, &output.out, &per_event, &run.rejected, &run.state, &run.report_file];
    distinct::check(&args.input.files, &written, uses_stdout)?;
    let mut saving = Saving::new(run.saved_to(), run.state_every())?;
    args.input.look()?;
    let Setup { clocked, parser, times, header } = Setup::new(args)?;
    saving.will_save(clocked.filter.bytes());
    let rule = header.definition.shape.rule;
    let engine = Engine {
        clocked,
        leaders: Leaders::new(output.top, rule.lambda()),
        exact: run.verify.map(|_| ExactFrequencies::new(rule.lambda(), rule.epsilon())),
        unjudged: Unjudged::new(args.input.files.clone(), run.unjudged, run.rejected.is_some())
            .with_output(output.min_estimate.is_some()),
        counts: EstimateCounts::default(),
        left_out: LeftOut::default(),
        lookup: run.lookup,
        chunk: Chunk::default(),
        times_ms: Vec::new(),
    };
    let outputs = Outputs::open(args)?;
    let input = Input::start(args.input.reading(parser, times)?);
    let stop = Stop::on_signal(input.waker())?;
    let progress = Progress::new(input_bytes, uses_stdout);
    let gate = Gate::new(input::is_stream(&args.input.files), args.input.format(), args.input.separator);
    let mut pass = EstimatePass { engine, outputs, gate, progress, saving, header, input_bytes: 0 };
    let ended = walk(&input, &stop, &mut pass);
    let EstimatePass { mut engine, mut outputs, progress, saving, header, .. } = pass;
    progress.end();
    if ended.is_refused() {
        outputs.discard();
    } else {
        engine.unjudged.say_held(&progress);
        engine.unjudged.end(&progress);
    }
    let saved = saving.end(&ended, &header, &|body| engine.clocked.write_body(body), || outputs.sync());
    let mut written = Ok(());
    if ended.is_reported() {
        let found = found(args, &engine, &header, started.elapsed().as_secs_f64(), ended.is_interrupted());
        warn(args, &found, &progress);
        written = report::write(&found, |found, _| found.text(), run.report, run.report_file.as_deref());
    }
    ended.exit_code(saved.and(written), run.strict && engine.unjudged.total() > 0)
}

/// The pass of batches through the filter to the outputs.
struct EstimatePass {
    engine: Engine,
    outputs: Outputs,
    gate: Gate,
    progress: Progress,
    saving: Saving,
    header: StateHeader<DecayingDefinition>,
    /// Bytes that were read and counted so far.
    input_bytes: u64,
}

impl EstimatePass {
    /// Opens the outputs if a record was judged.
    fn pass_gate(&mut self) -> anyhow::Result<()> {
        if self.gate.is_open() {
            return Ok(());
        }
        let turn = self.gate.decide(self.engine.counts.events > 0, &self.engine.unjudged, Instant::now())?;
        self.turn(turn)
    }

    fn turn(&mut self, turn: Turn) -> anyhow::Result<()> {
        if turn == Turn::Open {
            self.engine.unjudged.say_held(&self.progress);
        }
        self.outputs.turn(turn)
    }

    fn save_if_due(&mut self) -> anyhow::Result<()> {
        if !self.gate.is_open() {
            return Ok(());
        }
        let deliver = || self.outputs.sync();
        let write_body: WriteBody<'_> = &|body| self.engine.clocked.write_body(body);
        self.saving.save_if_due(self.input_bytes, &self.header, write_body, deliver, &self.progress)
    }
}

impl Pass for EstimatePass {
    fn batch(&mut self, batch: Box<Batch>, ahead_ms: &[u64]) -> anyhow::Result<Option<Box<Batch>>> {
        self.outputs.check_header(&batch)?;
        let handled = self.engine.handle(&batch, ahead_ms, &mut self.outputs, &self.progress);
        self.gate.saw(&batch, Instant::now());
        handled.and(self.pass_gate())?;
        self.input_bytes = batch.input_bytes;
        self.saving.has_answered();
        self.save_if_due()?;
        self.progress.at(batch.input_bytes, || format!("{} events", self.engine.counts.events));
        Ok(Some(batch))
    }

    fn step_ms(&self) -> Option<u64> {
        self.engine.clocked.step_ms()
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        self.outputs.begin()
    }

    fn flush(&mut self) -> anyhow::Result<Option<Duration>> {
        self.pass_gate()?;
        self.outputs.flush()?;
        self.save_if_due()?;
        let save = self.saving.wait().filter(|_| self.gate.is_open());
        Ok([save, self.gate.wait(Instant::now())].into_iter().flatten().min())
    }

    fn end(&mut self, is_whole: bool) -> anyhow::Result<()> {
        let turn = self.gate.end(is_whole && self.engine.counts.events == 0, &self.engine.unjudged)?;
        self.turn(turn)?;
        self.outputs.flush()
    }

    fn has_written_nothing(&self) -> bool {
        !self.gate.is_open()
    }
}

fn found(
    args: &EstimateArgs,
    engine: &Engine,
    header: &StateHeader<DecayingDefinition>,
    seconds: f64,
    interrupted: bool,
) -> EstimateReport {
    let filter = &engine.clocked.filter;
    let rule = filter.shape().rule;
    let counts = EstimateCounts { rejected: engine.unjudged.unread_total(), ..engine.counts };
    EstimateReport {
        counts,
        unjudged: engine.unjudged.by_reason(),
        blank_lines: engine.unjudged.blank_lines(),
        left_out: engine.left_out,
        filter_bytes: filter.touched_bytes(),
        expected_fpr: filter.expected_rate(),
        epsilon: rule.epsilon(),
        degraded: filter.degraded(),
        silence_epochs: filter.silence_epochs(),
        seconds,
        events_per_s: counts.events as f64 / seconds,
        filter: header.definition.describe(),
        lambda: rule.lambda(),
        epoch: header.definition.epoch.to_string(),
        seed: header.seed,
        time_zone: args.input.tz.clone(),
        top_keys: engine.top_keys(args.output.top),
        verify: engine.exact.as_ref().map(ExactFrequencies::errors),
        interrupted,
    }
}

/// Warns where estimates are worse than promised, for a user who does not read the report.
fn warn(args: &EstimateArgs, found: &EstimateReport, progress: &Progress) {
    if found.degraded > 0 {
        progress.note(&format!(
            "firstseen: {} occurrences were not counted in full, as counters were full: their estimates may be too low; \
             use --storage extended, a greater --capacity or fewer --fraction-bits",
            found.degraded
        ));
    }
    if args.decay.cells.is_none() && found.expected_fpr > FPR_SLACK * args.decay.fpr {
        progress.note(&format!(
            "firstseen: a key never seen has an estimate above zero at a rate of {}, more than --fpr: there were more \
             keys than --capacity",
            numbers::rate(found.expected_fpr)
        ));
    }
}
