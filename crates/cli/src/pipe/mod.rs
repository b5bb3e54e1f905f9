//! The command `pipe`: copies a topic to another topic without its duplicates. The crate `firstseen-pipe` does the work;
//! this module reads flags, prints lines for the user, and serves metrics.

mod args;
mod http;
mod metrics;
mod progress;
mod report;
mod setup;

use std::process::ExitCode;

use anyhow::Context;
use firstseen_pipe::{Counts, Ended, Pipe, PipeError};

pub use self::args::PipeArgs;
use self::http::Endpoint;
use self::progress::PipeProgress;
use crate::exit::{INTERRUPTED, UsageError};
use crate::terminal::stop::Stop;

/// Runs the command.
///
/// # Errors
/// Returns an error if the pipe cannot start, or cannot continue.
pub fn run(args: &PipeArgs) -> anyhow::Result<ExitCode> {
    let counts = Counts::default();
    let stop = Stop::on_signal(|| {})?;
    let setup = setup::prepare(args).map_err(with_usage)?;
    // The endpoint is opened before the group is joined, so that a port in use does not cause a rebalance.
    let endpoint = match &args.run.http {
        Some(address) => Some(Endpoint::open(address, counts.clone())?),
        None => None,
    };
    let parts = setup.open(args).map_err(with_usage)?;
    notice!("firstseen: {}", setup.start_line(args));
    if let Some(endpoint) = &endpoint {
        notice!("firstseen: metrics are served at http://{}/metrics", endpoint.address());
    }
    let progress = PipeProgress::start(counts.clone());
    let mut pipe = Pipe::new(parts, setup.settings(args), counts.clone());
    let ended = pipe.run(&|| stop.is_set(), &mut |line| progress.note(line));
    progress.end();
    report::print(args, &counts.figures(), ended.as_ref().ok()).context("cannot write the report")?;
    match ended.map_err(with_usage)? {
        Ended::AtEnd => Ok(ExitCode::SUCCESS),
        Ended::Stopped => Ok(ExitCode::from(INTERRUPTED)),
    }
}

/// Marks an error that the user must correct in the command line or in the topics.
fn with_usage(error: PipeError) -> anyhow::Error {
    if error.is_usage() { UsageError(error.to_string()).into() } else { error.into() }
}
