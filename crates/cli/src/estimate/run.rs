//! Assembles a run of `firstseen estimate`, and completes it with its state and its report.

use std::process::ExitCode;

use super::args::EstimateArgs;
use super::exact::ExactFrequencies;
use super::frequencies::Frequencies;
use super::handler::Estimates;
use super::leaders::Leaders;
use super::report::{EstimateCounts, EstimateReport};
use super::setup::Setup;
use crate::driver::{Driver, Outputs, Prepared};
use crate::form::Form;
#[cfg(feature = "parquet")]
use crate::form::columns::Columns;
use crate::form::text::Text;
use crate::input::is_stdin;
use crate::input::queue::Queue;
use crate::output::{Output, Target};
use crate::report;
use crate::state::Definition;
use crate::terminal::progress::Progress;
use crate::terminal::stop::Stop;
use crate::text::numbers;
use crate::unjudged::counts::Unjudged;
use crate::unjudged::gate::Gate;

/// How far the rate may exceed its target before a warning, as a factor. The rate of a filter that is just full varies
/// around the target.
const FPR_SLACK: f64 = 1.1;

/// Runs `firstseen estimate`.
///
/// # Errors
/// Returns the errors that end the command. Output files then end with a complete record. The state is saved only if
/// all records were written.
pub fn run(args: &EstimateArgs) -> anyhow::Result<ExitCode> {
    let EstimateArgs { input, output, run, .. } = args;
    let per_event = output.per_event.clone().filter(|path| !is_stdin(path));
    let uses_stdout = output.writes_events_to_stdout() || output.writes_records_to_stdout();
    let prepared = Prepared::new(input, run, &[&output.out, &per_event], uses_stdout)?;
    #[cfg(feature = "parquet")]
    if let Some(format) = input.columns() {
        return run_in(Columns::open(input, format)?, args, prepared);
    }
    run_in(Text, args, prepared)
}

/// Runs with records of this form.
fn run_in<F: Form>(mut form: F, args: &EstimateArgs, mut prepared: Prepared) -> anyhow::Result<ExitCode> {
    let EstimateArgs { input, output, run, .. } = args;
    let Setup { frequencies, reading, times } = Setup::new(args, form.key_identity(input))?;
    prepared.saving.set_filter_bytes(frequencies.filter.bytes());
    let handler = Estimates {
        counts: EstimateCounts::default(),
        leaders: Leaders::new(output.top, frequencies.filter.shape().rule.lambda()),
        min_estimate: output.min_estimate,
        format: output.per_event_format,
        record_end: input.record_end()?,
        line: Vec::new(),
    };
    let records = form.input(input, &reading)?;
    let outputs = open(&form, args, &prepared)?;
    let queue = Queue::start(records, times);
    let stop = Stop::on_signal(queue.waker())?;
    let gate = Gate::new(queue.is_stream(), input.format(), input.separator);
    let begun = prepared.started;
    let mut driver = Driver::new(frequencies, handler, outputs, gate, prepared.saving, stop);
    let ended = driver.run(&queue);
    let saved = driver.finish(&ended);
    let mut written = Ok(());
    if ended.is_reported() {
        let found = found(args, &driver, begun.elapsed().as_secs_f64(), ended.is_interrupted());
        warn(args, &found, &driver.outputs.progress);
        written = report::write(&found, |found, _| found.text(), run.report, run.report_file.as_deref());
    }
    driver.exit_code(ended, saved.and(written), run.strict)
}

fn open<F: Form>(form: &F, args: &EstimateArgs, prepared: &Prepared) -> anyhow::Result<Outputs<F::Output>> {
    let EstimateArgs { input, output, run, .. } = args;
    let outputs = [&output.out, &output.per_event, &run.rejected];
    let earlier = if F::APPENDS { run.earlier(&outputs, input.quotes()) } else { run.earlier_of_files() };
    let passed = match &output.out {
        Some(path) => Target::of(Some(path)),
        None if output.writes_records_to_stdout() => Target::Stdout,
        None => Target::Nowhere,
    };
    let unjudged = Unjudged::new(input.files.clone(), run.unjudged, run.rejected.is_some());
    Ok(Outputs {
        passed: form.output(input, passed, earlier)?,
        others: [
            form.lines(input, Target::of(output.per_event.as_deref()), earlier)?,
            form.output(input, Target::Nowhere, earlier)?,
        ],
        rejected: form.output(input, Target::of(run.rejected.as_deref()), earlier.without_quotes())?,
        unjudged: unjudged.with_output(output.min_estimate.is_some()),
        progress: prepared.progress(),
    })
}

fn found<O: Output>(
    args: &EstimateArgs,
    driver: &Driver<O, Frequencies, Estimates>,
    seconds: f64,
    interrupted: bool,
) -> EstimateReport {
    let Driver { decider, handler, outputs: Outputs { unjudged, .. }, left_out, .. } = driver;
    let Frequencies { filter, header, exact, .. } = decider;
    let rule = filter.shape().rule;
    let counts = EstimateCounts { rejected: unjudged.unread_total(), ..handler.counts };
    EstimateReport {
        counts,
        unjudged: unjudged.by_reason(),
        blank_lines: unjudged.blank_lines(),
        left_out: *left_out,
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
        top_keys: handler.top_keys(decider, args.output.top),
        verify: exact.as_ref().map(ExactFrequencies::errors),
        interrupted,
    }
}

/// Prints warnings if estimates are worse than requested, for users who do not read the report.
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
