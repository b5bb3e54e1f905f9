//! What is told of a run of experiments.
//!
//! Promises: nothing is rounded in the document. Must not know: files.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use firstseen_eval::document::Document;
use firstseen_eval::experiment::{Experiment, Scale};
use firstseen_eval::experiments::EXPERIMENTS;
use firstseen_eval::stats::Verdict;
use serde::Serialize;

use crate::table::Table;

/// A run: the document of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Of the program.
    pub(super) version: &'static str,
    /// The system and processor that it was built for, and the cores that it was given.
    pub(super) machine: String,
    /// When it began.
    pub(super) began: String,
    /// What decides everything that is drawn.
    pub(super) seed: u64,
    /// How large.
    pub(super) scale: Scale,
    /// Logs that were read, as flags.
    pub(super) logs: String,
    /// How long it took.
    pub(super) seconds: f64,
    /// What was found.
    pub(super) experiments: Vec<Document>,
}

impl Report {
    /// Of a run that begins.
    pub(super) fn new(seed: u64, scale: Scale, logs: String) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            machine: format!("{} {}, {cores} cores", std::env::consts::OS, std::env::consts::ARCH),
            began: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
            seed,
            scale,
            logs,
            seconds: 0.0,
            experiments: Vec::new(),
        }
    }

    /// How to get the same, in one sentence.
    pub(super) fn made(&self) -> String {
        let names: Vec<&str> = self.experiments.iter().map(|document| document.name.as_str()).collect();
        let names = if names.len() == EXPERIMENTS.len() { "all".to_owned() } else { names.join(" ") };
        let quick = if self.scale == Scale::Quick { " --quick" } else { "" };
        let runs = self.experiments.first().map_or(0, |document| document.seeds.len());
        format!(
            "Made on {} by firstseen {} on {} in {:.0} seconds; again: firstseen eval {names}{quick} --seed {} --runs {runs}{}",
            self.began, self.version, self.machine, self.seconds, self.seed, self.logs
        )
    }

    /// Whether nothing is out.
    pub(super) fn holds(&self) -> bool {
        self.experiments.iter().all(|document| document.count(Verdict::Out) == 0)
    }
}

/// One experiment that has ended, in one line.
pub(super) fn line(document: &Document, took: Duration) -> String {
    let [within, out, open] = [Verdict::In, Verdict::Out, Verdict::NotJudged].map(|verdict| document.count(verdict));
    format!("{}: {within} in, {out} out, {open} not judged, {:.1} s", document.name, took.as_secs_f64())
}

/// What there is to run.
///
/// # Errors
/// Where nobody reads it.
pub(super) fn list(out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(&["experiment", "shows"]);
    EXPERIMENTS.iter().for_each(|experiment| table.row([experiment.name.to_owned(), experiment.title.to_owned()]));
    write!(out, "{}", table.text())?;
    writeln!(out, "\nfirstseen eval all --quick --out DIR runs all of them, and leaves a page with pictures in DIR")
}

/// What there is to run, as a list in JSON.
///
/// # Errors
/// Where nobody reads it.
pub(super) fn list_json(out: &mut dyn Write) -> anyhow::Result<()> {
    let one = |experiment: &Experiment| serde_json::json!({ "name": experiment.name, "title": experiment.title });
    let all: Vec<_> = EXPERIMENTS.iter().map(one).collect();
    Ok(writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?)
}

/// The run, for people.
///
/// # Errors
/// Where nobody reads it.
pub(super) fn tell(report: &Report, folder: Option<&Path>, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(&["experiment", "in", "out", "not judged", "shows"]);
    for document in &report.experiments {
        let [within, wrong, open] =
            [Verdict::In, Verdict::Out, Verdict::NotJudged].map(|verdict| document.count(verdict).to_string());
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
    match folder {
        Some(folder) => writeln!(out, "the page: {}", folder.join("index.html").display()),
        None => writeln!(out, "nothing was written: --out DIR makes a page with pictures"),
    }
}
