//! The run: wiring, the loop over batches, and the ways it may end.

use std::process::ExitCode;
use std::time::Instant;

use firstseen_filter::ExactWindow;

use super::engine::{Engine, Outputs};
use super::output::Output;
use super::rejects::Rejects;
use super::setup::Setup;
use super::state::{self, StateHeader};
use super::tally::Tally;
use super::{DedupArgs, OutputArgs, VerifyArg};
use crate::confirm::Confirm;
use crate::describe::describe;
use crate::exit::{INTERRUPTED, USAGE};
use crate::input::{self, Batch, Input, Message};
use crate::progress::Progress;
use crate::report::Report;
use crate::stop::Stop;

/// Runs `firstseen dedup`.
///
/// # Errors
/// What a person must be told. Records written before are whole, and a state is saved only if they all were.
pub fn run(args: &DedupArgs) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let input_bytes = input::check(&args.input.files)?;
    let Setup { filter, parser, header, secret } = Setup::new(args)?;
    let mut outputs = open(&args.output)?;
    let mut engine = Engine {
        exact: (args.output.verify == Some(VerifyArg::Exact)).then(|| ExactWindow::of(&header.definition.group)),
        rule: header.definition.group.rule,
        confirm: args.output.confirm.map(Confirm::new),
        tally: Tally::new(args.input.source.is_some(), &secret),
        rejects: Rejects::new(args.input.files.clone(), args.output.rejected.is_some()),
        filter,
        late: args.output.late,
        lookup: args.output.lookup,
        answers: Vec::new(),
        times_ms: Vec::new(),
    };
    let input = Input::start(args.input.files.clone(), args.input.format, parser);
    let stop = Stop::on_signal(input.waker())?;
    let progress = Progress::new(input_bytes, args.output.out.is_none());
    let ended = walk(&input, &mut engine, &mut outputs, &progress, &stop);
    progress.end();
    // The state says what was passed on: it is saved exactly if all that was passed on has left.
    let delivered = matches!(ended, Ended::AtEnd | Ended::Stopped | Ended::Input(_));
    if delivered && !args.output.lookup && let Some(path) = &args.output.state {
        state::save(path, &header, &engine.filter)?;
    }
    engine.rejects.end(&progress);
    if !matches!(&ended, Ended::Output(error) if crate::exit::is_broken_pipe(error)) {
        let interrupted = matches!(ended, Ended::Stopped);
        let report = report(args, &mut engine, &header, started.elapsed().as_secs_f64(), interrupted);
        report.write(args.output.report, args.output.report_file.as_deref())?;
    }
    match ended {
        Ended::Input(error) | Ended::Output(error) => Err(error),
        Ended::Stopped => Ok(ExitCode::from(INTERRUPTED)),
        Ended::AtEnd if args.output.strict && engine.rejects.count() > 0 => Ok(ExitCode::from(USAGE)),
        Ended::AtEnd => Ok(ExitCode::SUCCESS),
    }
}

/// How the walk over the input ended.
enum Ended {
    AtEnd,
    Stopped,
    /// The input failed; everything before was written.
    Input(anyhow::Error),
    /// An output failed: what it has got is not known.
    Output(anyhow::Error),
}

fn open(args: &OutputArgs) -> anyhow::Result<Outputs> {
    Ok(Outputs {
        first_seen: args.out.as_deref().map_or_else(|| Ok(Output::stdout()), Output::file)?,
        duplicates: Output::optional(args.duplicates.as_deref())?,
        uncertain: Output::optional(args.uncertain.as_deref())?,
        rejected: Output::optional(args.rejected.as_deref())?,
    })
}

fn walk(input: &Input, engine: &mut Engine, outputs: &mut Outputs, progress: &Progress, stop: &Stop) -> Ended {
    let ended = loop {
        // Input that pauses must not hold back what is known.
        let message = match input.next(|| outputs.flush()) {
            Ok(message) => message,
            Err(error) => return Ended::Output(error),
        };
        if stop.is_set() {
            break Ended::Stopped;
        }
        match message {
            Message::Batch(batch) => {
                if let Err(error) = batch_through(engine, &batch, outputs, progress) {
                    return Ended::Output(error);
                }
                input.recycle(batch);
            }
            Message::End(Ok(())) => break Ended::AtEnd,
            Message::End(Err(error)) => break Ended::Input(error),
            Message::Stop => {}
        }
    };
    match outputs.flush() {
        Ok(()) => ended,
        Err(error) => Ended::Output(error),
    }
}

fn batch_through(
    engine: &mut Engine,
    batch: &Batch,
    outputs: &mut Outputs,
    progress: &Progress,
) -> anyhow::Result<()> {
    engine.handle(batch, outputs, progress)?;
    let counts = &engine.tally.counts;
    progress.at(batch.input_bytes, counts.events, counts.duplicates);
    Ok(())
}

fn report(args: &DedupArgs, engine: &mut Engine, header: &StateHeader, seconds: f64, interrupted: bool) -> Report {
    let Engine { filter, tally, rejects, .. } = engine;
    let mut counts = tally.counts;
    counts.rejected = rejects.count();
    let (top_sources_duplicates, top_sources_first_seen) = tally.top_sources().unzip();
    let live_events = filter.live_events().filter(|events| *events > 0);
    Report {
        counts,
        filter_bytes: filter.bytes(),
        bits_per_event: live_events.map(|events| filter.bytes() as f64 * 8.0 / events as f64),
        expected_fpr: filter.expected_rate(),
        seconds,
        events_per_s: counts.events as f64 / seconds,
        filter: describe(&header.definition),
        window: header.definition.group.window.to_string(),
        seed: header.seed,
        time_zone: args.input.tz.clone(),
        top_keys: tally.top_keys(),
        top_sources_duplicates,
        top_sources_first_seen,
        confirm: engine.confirm.as_ref().map(Confirm::counts),
        verify: engine.exact.as_ref().map(|exact| exact.tally().into()),
        interrupted,
    }
}
