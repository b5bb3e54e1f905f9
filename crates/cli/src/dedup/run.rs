//! Assembles a run of `firstseen dedup`, and completes it with its state and its report.

use std::process::ExitCode;

use firstseen_filter::FilterSecret;
use firstseen_records::{Block, RecordParser};
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
use crate::input::Times;
use crate::input::queue::Queue;
use crate::output::{Earlier, FileOutput};
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
    let DedupArgs { input, output, run, cluster, .. } = args;
    let files = [&output.out, &output.duplicates, &output.uncertain];
    let mut prepared = Prepared::new(input, run, &files, output.out.is_none())?;
    if !cluster.cluster.is_empty() {
        return run_over_cluster(args, prepared);
    }
    let Setup { decider, parser, times, secret } = setup::here(args, &args.filter)?;
    prepared.saving.set_filter_bytes(decider.judge.filter().bytes());
    let started = Started::new(args, &prepared, parser, times)?;
    let here = setup::measure(decider, args, times, &started.queue, &started.outputs.progress)?;
    finish(args, prepared, started, here, &secret)
}

#[cfg(feature = "full")]
fn run_over_cluster(args: &DedupArgs, prepared: Prepared) -> anyhow::Result<ExitCode> {
    let Setup { decider, parser, times, secret } = setup::cluster(args)?;
    let started = Started::new(args, &prepared, parser, times)?;
    finish(args, prepared, started, decider, &secret)
}

#[cfg(not(feature = "full"))]
fn run_over_cluster(_: &DedupArgs, _: Prepared) -> anyhow::Result<ExitCode> {
    use crate::exit::UsageError;
    use crate::left_out::FULL_BUILD;

    Err(UsageError(format!("this build of firstseen leaves `--cluster` out: {FULL_BUILD}")).into())
}

/// Files and filter of a run, which are open before the first record is decided.
struct Started {
    outputs: Outputs<FileOutput>,
    queue: Queue<Block>,
    stop: Stop,
    times: Times,
}

impl Started {
    fn new(args: &DedupArgs, prepared: &Prepared, parser: RecordParser, times: Times) -> anyhow::Result<Self> {
        let outputs = open(args, prepared)?;
        let queue = Queue::start(args.input.text_files(parser)?, times);
        let stop = Stop::on_signal(queue.waker())?;
        Ok(Self { outputs, queue, stop, times })
    }
}

fn open(args: &DedupArgs, prepared: &Prepared) -> anyhow::Result<Outputs<FileOutput>> {
    let DedupArgs { input, output, run, cluster, .. } = args;
    let quotes = input.quotes();
    let earlier = if cluster.cluster.is_empty() {
        run.earlier(&[&output.out, &output.duplicates, &output.uncertain, &run.rejected], quotes)
    } else {
        Earlier::Kept { quotes }
    };
    let record_end = input.record_end()?;
    let passed = match &output.out {
        Some(path) => FileOutput::file(path, earlier)?,
        None => FileOutput::stdout(earlier)?,
    };
    let rejected = FileOutput::optional(run.rejected.as_deref(), earlier.without_quotes())?;
    let duplicates = FileOutput::optional(output.duplicates.as_deref(), earlier)?;
    let uncertain = FileOutput::optional(output.uncertain.as_deref(), earlier)?;
    Ok(Outputs {
        passed: passed.with_record_end(record_end),
        others: [duplicates.with_record_end(record_end), uncertain.with_record_end(record_end)],
        rejected: rejected.with_record_end(record_end),
        unjudged: Unjudged::new(input.files.clone(), run.unjudged, run.rejected.is_some()),
        progress: prepared.progress(),
    })
}

/// Processes the whole input, and writes state and report at its end.
fn finish<D: Verdicts<Block>>(
    args: &DedupArgs,
    prepared: Prepared,
    started: Started,
    decider: D,
    secret: &FilterSecret,
) -> anyhow::Result<ExitCode> {
    let Started { outputs, queue, stop, times } = started;
    let handler = Dedup {
        tally: Tally::new(args.input.source.is_some(), secret),
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

fn report<D: Verdicts<Block>>(
    args: &DedupArgs,
    times: Times,
    driver: &mut Driver<FileOutput, D, Dedup>,
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
