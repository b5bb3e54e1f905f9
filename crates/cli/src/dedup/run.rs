//! Assembles a run of `firstseen dedup`, and completes it with its state and its report.

use std::process::ExitCode;

use firstseen_filter::FilterSecret;
use jiff::Timestamp;

use super::DedupArgs;
use super::handler::Dedup;
use super::lateness::late_meaning;
use super::order::OrderOfInput;
use super::outages::Outages;
use super::setup::{self, Setup};
use super::tally::Tally;
use super::verdicts::Verdicts;
use crate::driver::{Driver, Outputs, Prepared};
#[cfg(feature = "parquet")]
use crate::form::columns::Columns;
use crate::form::text::Text;
use crate::form::{Form, Reading};
use crate::input::Times;
use crate::input::queue::Queue;
use crate::output::{Earlier, Output, Target};
use crate::report::{Counts, Report};
use crate::terminal::stop::Stop;
use crate::unjudged::UnjudgedArg;
use crate::unjudged::counts::Unjudged;
use crate::unjudged::gate::Gate;

/// Runs `firstseen dedup`.
///
/// # Errors
/// Returns the errors that end the command. Output files then end with a complete record. The state is saved only if
/// all records were written.
pub fn run(args: &DedupArgs) -> anyhow::Result<ExitCode> {
    let DedupArgs { input, output, run, .. } = args;
    let files = [&output.out, &output.duplicates, &output.uncertain];
    let prepared = Prepared::new(input, run, &files, output.out.is_none())?;
    #[cfg(feature = "parquet")]
    if let Some(format) = input.columns() {
        return run_in(Columns::open(input, format)?, args, prepared);
    }
    run_in(Text, args, prepared)
}

/// Runs with records of this form.
fn run_in<F: Form>(form: F, args: &DedupArgs, mut prepared: Prepared) -> anyhow::Result<ExitCode> {
    if !args.cluster.cluster.is_empty() {
        return run_over_cluster(form, args, prepared);
    }
    let key = form.key_identity(&args.input);
    let Setup { decider, reading, times } = setup::here(args, &key, &args.filter)?;
    prepared.saving.set_filter_bytes(decider.judge.filter().bytes());
    let started = Started::new(form, args, &prepared, reading, times)?;
    let here = setup::measure(decider, args, &key, times, &started.queue, &started.outputs.progress)?;
    finish(args, prepared, started, here)
}

#[cfg(feature = "full")]
fn run_over_cluster<F: Form>(form: F, args: &DedupArgs, prepared: Prepared) -> anyhow::Result<ExitCode> {
    let Setup { decider, reading, times } = setup::cluster::<F::Records>(args)?;
    let started = Started::new(form, args, &prepared, reading, times)?;
    finish(args, prepared, started, decider)
}

#[cfg(not(feature = "full"))]
fn run_over_cluster<F: Form>(_: F, _: &DedupArgs, _: Prepared) -> anyhow::Result<ExitCode> {
    use crate::exit::UsageError;
    use crate::left_out::FULL_BUILD;

    Err(UsageError(format!("this build of firstseen leaves `--cluster` out: {FULL_BUILD}")).into())
}

/// Files and filter of a run, which are open before the first record is decided.
struct Started<F: Form> {
    outputs: Outputs<F::Output>,
    queue: Queue<F::Records>,
    stop: Stop,
    times: Times,
    secret: FilterSecret,
}

impl<F: Form> Started<F> {
    fn new(mut form: F, args: &DedupArgs, prepared: &Prepared, reading: Reading, times: Times) -> anyhow::Result<Self> {
        let input = form.input(&args.input, &reading)?;
        let outputs = open(&form, args, prepared)?;
        let queue = Queue::start(input, times);
        let stop = Stop::on_signal(queue.waker())?;
        Ok(Self { outputs, queue, stop, times, secret: reading.secret })
    }
}

fn open<F: Form>(form: &F, args: &DedupArgs, prepared: &Prepared) -> anyhow::Result<Outputs<F::Output>> {
    let DedupArgs { input, output, run, cluster, .. } = args;
    let quotes = input.quotes();
    let outputs = [&output.out, &output.duplicates, &output.uncertain, &run.rejected];
    let earlier = match (cluster.cluster.is_empty(), F::APPENDS) {
        (true, true) => run.earlier(&outputs, quotes),
        (true, false) => run.earlier_of_files(),
        (false, _) => Earlier::Kept { quotes },
    };
    let passed = form.output(input, Target::or_stdout(output.out.as_deref()), earlier)?;
    let rejected = form.output(input, Target::of(run.rejected.as_deref()), earlier.without_quotes())?;
    let duplicates = form.output(input, Target::of(output.duplicates.as_deref()), earlier)?;
    let uncertain = form.output(input, Target::of(output.uncertain.as_deref()), earlier)?;
    Ok(Outputs {
        passed,
        others: [duplicates, uncertain],
        rejected,
        unjudged: Unjudged::new(input.files.clone(), run.unjudged, run.rejected.is_some()),
        progress: prepared.progress(),
    })
}

/// Processes the whole input, and writes state and report at its end.
fn finish<F: Form, D: Verdicts<F::Records>>(
    args: &DedupArgs,
    prepared: Prepared,
    started: Started<F>,
    decider: D,
) -> anyhow::Result<ExitCode> {
    let Started { outputs, queue, stop, times, secret } = started;
    let handler = Dedup {
        tally: Tally::new(args.input.source.is_some(), &secret),
        late: args.output.late,
        troubles: Outages::default(),
        order: OrderOfInput::default(),
    };
    let begun = prepared.started;
    let gate = Gate::new(queue.is_stream(), args.input.format(), args.input.separator);
    let mut driver = Driver::new(decider, handler, outputs, gate, prepared.saving, stop);
    let ended = driver.run(&queue);
    let saved = driver.finish(&ended);
    let mut written = Ok(());
    if ended.is_reported() {
        let report = report(args, times, &mut driver, begun.elapsed().as_secs_f64(), ended.is_interrupted());
        written = report.write(args.run.report, args.run.report_file.as_deref());
    }
    driver.exit_code(ended, saved.and(written), args.run.strict)
}

fn report<O: Output, D: Verdicts<O::Records>>(
    args: &DedupArgs,
    times: Times,
    driver: &mut Driver<O, D, Dedup>,
    seconds: f64,
    interrupted: bool,
) -> Report {
    let Driver { decider, handler: Dedup { tally, order, .. }, outputs: Outputs { unjudged, .. }, left_out, .. } =
        driver;
    let counts = Counts { rejected: unjudged.unread_total(), ..tally.counts };
    let (top_sources_duplicates, top_sources_first_seen) = tally.top_sources().unzip();
    let clock_ms = decider.clock_ms();
    Report {
        counts,
        drops_undecided: args.run.unjudged == UnjudgedArg::Drop,
        unjudged: unjudged.by_reason(),
        blank_lines: unjudged.blank_lines(),
        left_out: *left_out,
        late_meaning: late_meaning(args.output.late, args.run.unjudged, decider.definition(), order.has_own_late),
        seconds,
        events_per_s: counts.events as f64 / seconds,
        time_zone: args.input.tz.clone(),
        times,
        clock: clock_ms.and_then(|ms| Timestamp::from_millisecond(ms.cast_signed()).ok()),
        top_keys: tally.top_keys(),
        top_sources_duplicates,
        top_sources_first_seen,
        confirm: decider.confirmed(),
        verify: decider.verified(),
        interrupted,
        filter: decider.report(),
    }
}
