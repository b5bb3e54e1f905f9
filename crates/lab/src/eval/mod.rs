//! `firstseen-lab eval` measures the figures of the papers with this build, and compares them with their formulas.
//!
//! `firstseen-lab eval` compares each measured point with the value of its formula. The exit code tells whether all
//! points agree. The results are printed to standard output as a summary, or as one JSON document if a flag requests
//! it. Files are written only to the folder that the user names.

mod folder;
mod logs;
mod machine;
mod summary;

use firstseen_cli::notice;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use clap::{Args, value_parser};
use firstseen_eval::experiment::{EvalError, Experiment, Run, Scale};
use firstseen_eval::experiments::{EXPERIMENTS, named};
use firstseen_eval::stream::Log;
use firstseen_records::RecordFormat;

use self::folder::Folder;
pub(crate) use self::machine::processor;
use self::summary::Report;
use crate::bench::redis::Redis;
use firstseen_cli::exit::{FAILED, INTERRUPTED, UsageError};
use firstseen_cli::flags::input::parse_format;
use firstseen_cli::input;
use firstseen_cli::terminal::steps::Steps;
use firstseen_cli::terminal::stop::Stop;

/// Name that stands for all experiments.
const ALL: &str = "all";

/// Name of the experiment whose figures include the memory of a Redis key.
const MEMORY_EXPERIMENT: &str = "memory";

/// Maximum seed. Every JSON parser reads numbers up to this one exactly.
const SEED_MAX: u64 = (1 << 53) - 1;

/// Formats of logs that have named fields.
const LOG_FORMATS: [RecordFormat; 4] = [RecordFormat::Clf, RecordFormat::Csv, RecordFormat::Tsv, RecordFormat::Jsonl];

/// Text below the flags.
const ENDS: &str = "Exit codes: 0 all judged points lie where their formulas put them; 1 some do not, and standard \
                    output says which, or something failed while the rest went on, which standard error says; 2 \
                    wrong flags, a log that cannot be read, or a folder that cannot be written into or that another run \
                    writes into, before anything is measured; 130 \
                    interrupted: what had ended by then is printed and written as ever.";

/// Flags of `firstseen-lab eval`.
#[derive(Debug, Args)]
#[command(after_help = ENDS)]
pub struct EvalArgs {
    /// Experiments to run, or `all`; without one they are listed
    #[arg(value_name = "EXPERIMENT")]
    pub experiments: Vec<String>,
    /// Seed that determines all random choices; if not given, a random seed is used and printed
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(..=SEED_MAX))]
    pub seed: Option<u64>,
    /// Independent runs of every point
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = value_parser!(u32).range(20..=1000))]
    pub runs: u32,
    /// Write a page with pictures, the numbers as JSON and a table in Markdown into this folder, which is created if
    /// missing
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// A real log of web requests, with the fields `url` and `host`, for the experiments that read logs; may be given
    /// several times
    #[arg(long, value_name = "FILE")]
    pub log: Vec<PathBuf>,
    /// Format of the logs; csv and tsv need a header that names the fields
    #[arg(long, value_name = "FORMAT", default_value = "clf", value_parser = parse_log_format)]
    pub log_format: RecordFormat,
    /// Smaller sizes, which take less time
    #[arg(long)]
    pub quick: bool,
    /// Print one JSON document; without an experiment, their names and titles
    #[arg(long)]
    pub json: bool,
}

impl EvalArgs {
    fn scale(&self) -> Scale {
        if self.quick { Scale::Quick } else { Scale::Full }
    }
}

/// Runs the requested experiments one after the other. An experiment that fails, or a file that cannot be written, does
/// not stop the other experiments. These failures are printed at the end, and the exit code then reports a failure.
///
/// # Errors
/// Returns an error if an experiment does not exist, if a log cannot be read, if the folder cannot be used, or if the
/// reader of `out` has closed it.
pub fn run(args: &EvalArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let experiments = chosen(&args.experiments)?;
    if experiments.is_empty() && (args.out.is_some() || !args.log.is_empty()) {
        return Err(UsageError("name an experiment, or `all`; `firstseen-lab eval` lists them".to_owned()).into());
    }
    if experiments.is_empty() {
        if args.json {
            summary::list_json(out)?
        } else {
            summary::list(out)?
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !args.log.is_empty() {
        notice!("firstseen-lab: logs are read by {}", log_readers(&experiments)?);
        input::check(&args.log, Some(b'\n'))?;
    }
    let logs = logs::read(&args.log, args.log_format)?;
    for experiment in &experiments {
        experiment.check_logs(&logs, args.scale()).map_err(|error| UsageError(error.to_string()))?;
    }
    let stand_in =
        experiments.iter().filter(|experiment| experiment.reads_logs.as_ref().is_some_and(|of| of.has_stand_in));
    if logs.is_empty() {
        for Experiment { name, .. } in stand_in {
            notice!("firstseen-lab: {name} is measured over a synthetic stream: --log FILE gives it real clicks");
        }
    }
    let folder = args.out.as_deref().map(Folder::open).transpose()?;
    let stop =
        Stop::on_signal(|| notice!("firstseen-lab: stops after the current runs; interrupt again to stop at once"))?;
    let begun = Instant::now();
    let mut report = Report::new(args, &experiments);
    let mut failures = Failures::default();
    measure(&experiments, &mut report, &logs, folder.as_ref(), &stop, &mut failures);
    report.seconds = begun.elapsed().as_secs_f64();
    let page = folder.as_ref().and_then(|folder| failures.take(folder.write_page(&report)));
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?
    } else {
        summary::print(&report, args.out.is_some().then_some(page.as_deref()), out)?
    }
    failures.0.iter().for_each(|error| notice!("firstseen-lab: {error:#}"));
    let is_interrupted = stop.is_set() && !report.not_ended.is_empty();
    Ok(match failures.0.is_empty() && report.holds() {
        _ if is_interrupted => ExitCode::from(INTERRUPTED),
        false => ExitCode::from(FAILED),
        true => ExitCode::SUCCESS,
    })
}

/// Failures of single tasks. The results of the other tasks are printed nevertheless.
#[derive(Default)]
struct Failures(Vec<anyhow::Error>);

impl Failures {
    /// Returns the result of a task, or notes its failure and returns `None`.
    fn take<T>(&mut self, result: anyhow::Result<T>) -> Option<T> {
        result.map_err(|error| self.0.push(error)).ok()
    }
}

/// Runs the experiments one after the other, and adds each result to the report and to the output folder. The loop ends
/// after the last experiment or when a signal arrives. An experiment that fails has no result, and the remaining
/// experiments still run.
fn measure(
    experiments: &[&'static Experiment],
    report: &mut Report,
    logs: &[Log],
    folder: Option<&Folder>,
    stop: &Stop,
    failures: &mut Failures,
) {
    let begun = Instant::now();
    let redis_key_bytes = redis_key_bytes(experiments);
    let seeds = report.runs;
    let steps = Steps::new(experiments.len() as u64 * u64::from(seeds), "runs", false);
    for (index, experiment) in experiments.iter().enumerate() {
        let left_after = (experiments.len() - index - 1) as u64 * u64::from(seeds);
        let experiment_begun = Instant::now();
        let run = Run {
            seed: report.seed,
            seeds,
            scale: report.scale,
            logs,
            progress: &|done, total| steps.left(left_after + (total - done) as u64),
            clock_ns: &|| begun.elapsed().as_nanos() as u64,
            redis_key_bytes,
            is_over: &|| stop.is_set(),
        };
        let ended = match experiment.run(&run) {
            Err(EvalError::Over) => break,
            ended => ended.with_context(|| format!("experiment {}", experiment.name)),
        };
        let Some(document) = failures.take(ended) else { continue };
        if let Some(folder) = folder {
            failures.take(folder.write_experiment(&document));
        }
        steps.note(&summary::line(&document, experiment_begun.elapsed()));
        report.add(document);
    }
    steps.end();
}

/// Returns the memory that a Redis server uses for one key, in bytes. Returns `None` in three cases: if no experiment
/// needs the value, if no Redis server is installed, or if the server does not respond. In the last case, a message is
/// printed.
fn redis_key_bytes(experiments: &[&Experiment]) -> Option<f64> {
    if !experiments.iter().any(|experiment| experiment.name == MEMORY_EXPERIMENT) {
        return None;
    }
    let measured = Redis::start().and_then(|redis| redis.map(|redis| redis.key_bytes()).transpose());
    measured.unwrap_or_else(|error| {
        notice!("firstseen-lab: the memory of a Redis key is left out: {error:#}");
        None
    })
}

/// Parses one of the [`LOG_FORMATS`].
fn parse_log_format(text: &str) -> Result<RecordFormat, String> {
    let known = parse_format(text).ok().filter(|format| LOG_FORMATS.contains(format));
    known.ok_or_else(|| format!("choose {}", LOG_FORMATS.map(RecordFormat::name).join(", ")))
}

/// Returns the names of the experiments that read logs.
fn log_readers(experiments: &[&Experiment]) -> Result<String, UsageError> {
    let readers = names_of_readers(experiments.iter().copied());
    if readers.is_empty() {
        let all = names_of_readers(EXPERIMENTS);
        return Err(UsageError(format!(
            "none of these experiments reads logs, but --log is given; those that do: {all}"
        )));
    }
    Ok(readers)
}

fn names_of_readers<'a>(experiments: impl IntoIterator<Item = &'a Experiment>) -> String {
    let readers = experiments.into_iter().filter(|experiment| experiment.reads_logs.is_some());
    readers.map(|experiment| experiment.name).collect::<Vec<_>>().join(", ")
}

/// Returns the experiments with these names, without repetitions and in the order of the table.
fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Experiment>> {
    let unknown = names.iter().find(|name| *name != ALL && named(name).is_none());
    if let Some(unknown) = unknown {
        let names = EXPERIMENTS.iter().map(|experiment| experiment.name);
        let near = match firstseen_records::nearest_name(unknown, names) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => "`firstseen-lab eval` lists them".to_owned(),
        };
        return Err(UsageError(format!("no experiment `{unknown}`: {near}")).into());
    }
    let wanted = EXPERIMENTS.iter().filter(|one| names.iter().any(|name| name == ALL || name == one.name));
    Ok(wanted.collect())
}
