//! Output of a run of experiments. The numbers in the JSON document are not rounded. This module does not access files.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use firstseen_eval::document::Document;
use firstseen_eval::experiment::{Experiment, Scale};
use firstseen_eval::experiments::EXPERIMENTS;
use firstseen_eval::stats::Judged;
use serde::Serialize;

use super::{ALL, EvalArgs, machine};
use firstseen_cli::text::table::Table;
use firstseen_embedded::drawn_seed;

/// Report on a run, which is the document of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Version of the program.
    pub(super) version: &'static str,
    /// System, processor and number of cores.
    pub(super) machine: String,
    /// Time at which the run began.
    pub(super) began: String,
    /// Seed that determines all random choices.
    pub(super) seed: u64,
    /// Number of independent runs of every point.
    pub(super) runs: u32,
    /// Sizes of the experiments.
    pub(super) scale: Scale,
    /// Command that repeats the run.
    pub(super) command: String,
    /// Duration of the run, in seconds.
    pub(super) seconds: f64,
    /// Results of the experiments that have ended.
    pub(super) experiments: Vec<Document>,
    /// Requested experiments that have not ended.
    pub(super) not_ended: Vec<&'static str>,
}

impl Report {
    /// Creates the report of a run that begins.
    pub(super) fn new(args: &EvalArgs, experiments: &[&'static Experiment]) -> Self {
        let seed = args.seed.unwrap_or_else(|| drawn_seed() >> 32);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            machine: machine::described(),
            began: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
            seed,
            runs: args.runs,
            scale: args.scale(),
            command: command(args, experiments, seed),
            seconds: 0.0,
            experiments: Vec::new(),
            not_ended: experiments.iter().map(|experiment| experiment.name).collect(),
        }
    }

    /// Adds the result of an experiment that has ended.
    pub(super) fn add(&mut self, document: Document) {
        self.not_ended.retain(|name| *name != document.name);
        self.experiments.push(document);
    }

    /// Returns a description of the run: when and where it was made, the command that repeats it, and the experiments
    /// that are missing.
    pub(super) fn made(&self) -> String {
        let Self { began, version, machine, seconds, command, .. } = self;
        let made =
            format!("Made on {began} by firstseen {version} on {machine} in {seconds:.0} seconds; again: {command}");
        if self.not_ended.is_empty() { made } else { format!("{made}. Not ended: {}", self.not_ended.join(", ")) }
    }

    /// Returns whether every judged point agrees with its formula.
    pub(super) fn holds(&self) -> bool {
        self.experiments.iter().all(|document| document.count(Judged::Out) == 0)
    }
}

/// Returns the shell command that repeats the run, as far as the machine allows.
fn command(args: &EvalArgs, experiments: &[&'static Experiment], seed: u64) -> String {
    let mut words = vec!["firstseen-lab".to_owned(), "eval".to_owned()];
    if experiments.len() == EXPERIMENTS.len() {
        words.push(ALL.to_owned())
    } else {
        words.extend(experiments.iter().map(|experiment| experiment.name.to_owned()))
    }
    if args.quick {
        words.push("--quick".to_owned());
    }
    words.extend(["--seed".to_owned(), seed.to_string(), "--runs".to_owned(), args.runs.to_string()]);
    for path in &args.log {
        words.extend(["--log".to_owned(), path.display().to_string()]);
    }
    if !args.log.is_empty() {
        words.extend(["--log-format".to_owned(), args.log_format.name().to_owned()]);
    }
    let words: Vec<_> = words.iter().map(|word| shlex::try_quote(word).unwrap_or(word.into())).collect();
    words.join(" ")
}

/// Returns a line about an experiment that has ended.
pub(super) fn line(document: &Document, took: Duration) -> String {
    let [within, out, open] = [Judged::In, Judged::Out, Judged::NotJudged].map(|judged| document.count(judged));
    format!("{}: {within} in, {out} out, {open} not judged, {:.1} s", document.name, took.as_secs_f64())
}

/// Prints the list of experiments.
///
/// # Errors
/// Returns an error if the reader of `out` has closed it.
pub(super) fn list(out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(&["experiment", "shows"]);
    EXPERIMENTS.iter().for_each(|experiment| table.row([experiment.name.to_owned(), experiment.title.to_owned()]));
    write!(out, "{}", table.text())?;
    writeln!(out, "\nfirstseen-lab eval all --quick --out DIR runs all of them, and leaves a page with pictures in DIR")
}

/// Prints the list of experiments as JSON.
///
/// # Errors
/// Returns an error if the reader of `out` has closed it.
pub(super) fn list_json(out: &mut dyn Write) -> anyhow::Result<()> {
    let all = EXPERIMENTS.iter();
    let all: Vec<_> = all.map(|one| serde_json::json!({ "name": one.name, "title": one.title })).collect();
    Ok(writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?)
}

/// Prints the results as text, together with the path of the page if one was requested and could be written.
///
/// # Errors
/// Returns an error if the reader of `out` has closed it.
pub(super) fn print(report: &Report, page: Option<Option<&Path>>, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(&["experiment", "in", "out", "not judged", "shows"]);
    for document in &report.experiments {
        let [within, wrong, open] =
            [Judged::In, Judged::Out, Judged::NotJudged].map(|judged| document.count(judged).to_string());
        table.row([document.name.clone(), within, wrong, open, document.title.clone()]);
    }
    write!(out, "{}", table.text())?;
    for document in &report.experiments {
        for (panel, series, point) in document.out() {
            writeln!(
                out,
                "out: {}, {panel}, {series}, at {}: measured {:.6} ({:.6} to {:.6}), expected {:.6}",
                document.name,
                point.x,
                point.mean,
                point.low,
                point.high,
                point.expected.unwrap_or(f64::NAN)
            )?;
        }
    }
    writeln!(out, "{}", report.made())?;
    match page {
        Some(Some(page)) => writeln!(out, "the page: {}", page.display()),
        Some(None) => writeln!(out, "not all of the page could be written"),
        None => writeln!(out, "nothing was written: --out DIR makes a page with pictures"),
    }
}
