//! Flags that `dedup` and `estimate` share: bad records, the saved filter, the report.

use std::fs;
use std::io::stdout;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};

use crate::exit::UsageError;
use crate::flags::filter::parse_duration_ms;
use crate::output::Earlier;
use crate::report::ReportFormat;
use crate::state::lock::Lock;
use crate::state::{Definition, SavedState};
use crate::text::numbers::grouped;
use crate::unjudged::UnjudgedArg;

/// How the errors of answers are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VerifyArg {
    /// Keep the exact answer beside: memory for every key that counts
    Exact,
}

/// How to run, and what to report.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
pub struct RunArgs {
    /// Records that cannot be read, or whose time is doubted, go to FILE; by default --unjudged says what becomes of them
    #[arg(long, value_name = "FILE")]
    pub rejected: Option<PathBuf>,
    /// What to do with a record that cannot be judged: one that cannot be read, has no key, comes too late, finds the filter
    /// full or the cluster in trouble, or has a time that is doubted
    #[arg(long, value_enum, default_value = "pass")]
    pub unjudged: UnjudgedArg,
    /// Exit with 2 at the end if a record could not be judged
    #[arg(long)]
    pub strict: bool,
    /// Only test against the saved filter, or that of the cluster: records change nothing in it
    #[arg(long)]
    pub lookup: bool,
    /// Load the filter from FILE; save it there on the way (--state-every) and at the end, after the records that it calls
    /// passed on have left: after a crash records may pass twice, and none is lost. Files that are written (--out and others) are
    /// added to then, not replaced
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Save the state so often while records come, and after every GiB of input; 0: at the end only
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration_ms, requires = "state")]
    pub state_every: u64,
    /// Measure the errors against the exact answer
    #[arg(long, value_enum)]
    pub verify: Option<VerifyArg>,
    /// How to report
    #[arg(long, value_enum, default_value = "text")]
    pub report: ReportFormat,
    /// The report goes to FILE instead of stderr
    #[arg(long, value_name = "FILE")]
    pub report_file: Option<PathBuf>,
}

/// Says that standard output goes to a file which has bytes already (`>> FILE`), where there is no state that knows them.
fn warn_of_appending(state: &Path) {
    let file = stdout().as_fd().try_clone_to_owned().map(fs::File::from);
    let Ok(found) = file.and_then(|file| file.metadata()) else { return };
    if found.is_file() && found.len() > 0 {
        notice!(
            "firstseen: standard output goes to a file with {} bytes of an earlier run, which {} does not know: what passes now is added \
             to them (to start over, use > instead of >>)",
            grouped(found.len()),
            state.display()
        );
    }
}

impl RunArgs {
    /// How often the state is saved on the way.
    pub(crate) fn state_every(&self) -> Option<Duration> {
        (self.state_every > 0).then(|| Duration::from_millis(self.state_every))
    }

    /// The file in which the filter is saved; none for a run that keeps no state, or only looks up.
    pub(crate) fn saved_to(&self) -> Option<&Path> {
        self.state.as_deref().filter(|_| !self.lookup)
    }

    /// The lock file that keeps other runs from saving the state meanwhile.
    pub(crate) fn lock_path(&self) -> Option<PathBuf> {
        self.saved_to().map(Lock::path_for)
    }

    /// Whether older records in the files of `outputs` stay. They do where a filter is saved, as it knows them. Where
    /// there is no saved filter yet, a message says so, as the user may want to start over. `quotes` as in
    /// [`Earlier::Kept`].
    pub(crate) fn earlier(&self, outputs: &[&Option<PathBuf>], quotes: Option<u8>) -> Earlier {
        let Some(state) = &self.state else { return Earlier::Replaced };
        for path in outputs.iter().copied().flatten().filter(|_| !state.exists()) {
            if let Ok(found) = fs::metadata(path)
                && found.is_file()
                && found.len() > 0
            {
                let path = path.display();
                let bytes = grouped(found.len());
                notice!(
                    "firstseen: {path} has {bytes} bytes of an earlier run, which {} does not know: what passes now is added to \
                     them (to start over, delete {path} first)",
                    state.display()
                );
            }
        }
        // The first of the outputs is that of the records which pass.
        if outputs.first().is_some_and(|out| out.is_none()) && !state.exists() {
            warn_of_appending(state);
        }
        Earlier::Kept { quotes }
    }

    /// The saved filter to continue from; `None` if this run is to make it, or keeps none.
    ///
    /// # Errors
    /// Where it cannot be used, or the exact answer would lack the events that it knows.
    pub fn saved<D: Definition>(&self) -> anyhow::Result<Option<SavedState<D>>> {
        if self.lookup && self.state.is_none() {
            bail!(UsageError("--lookup asks a filter that is there already: name it with --state FILE".to_owned()));
        }
        let saved = self.state.as_deref();
        let saved = saved.map(|path| SavedState::open(path, self.lookup)).transpose()?.flatten();
        if self.verify.is_some() && (saved.is_some() || self.lookup) {
            let reason =
                "--verify exact knows only what this run has seen: leave out --lookup, and start with no --state";
            bail!(UsageError(reason.to_owned()));
        }
        Ok(saved)
    }
}
