//! Flags that `dedup` and `estimate` share: what to do with unreadable records, where to save the filter, and how to
//! report.

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
use crate::state::{Definition, SavedState, lock_path};
use crate::text::numbers::grouped;
use crate::unjudged::UnjudgedArg;

/// How the errors of the filter's answers are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VerifyArg {
    /// Compute the exact answers too, which takes memory for every key in the window
    Exact,
}

/// Flags that say how to run and what to report.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
pub struct RunArgs {
    /// Write records that are unreadable, or have an implausible time, to FILE. Otherwise --unjudged says what happens
    /// to them
    #[arg(long, value_name = "FILE")]
    pub rejected: Option<PathBuf>,
    /// What to do with a record that cannot be judged: the record is unreadable, has no key, comes too late or has an
    /// implausible time, the filter is full, or the cluster has a problem
    #[arg(long, value_enum, default_value = "pass")]
    pub unjudged: UnjudgedArg,
    /// Exit with code 2 at the end if a record could not be judged
    #[arg(long)]
    pub strict: bool,
    /// Only look keys up in the saved filter or the filter of the cluster, and record nothing in it
    #[arg(long)]
    pub lookup: bool,
    /// Load the filter from FILE, and save it there during the run (--state-every) and at the end. It is saved only
    /// after the records that it counts as passed on were written. After a crash, records may therefore pass twice, but
    /// none is lost. Output files (--out and others) are then appended to, not replaced
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Time between two saves of the state while records come. It is also saved after every GiB of input; 0: only at
    /// the end
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration_ms, requires = "state")]
    pub state_every: u64,
    /// Measure the errors compared with exact answers
    #[arg(long, value_enum)]
    pub verify: Option<VerifyArg>,
    /// Format of the report
    #[arg(long, value_enum, default_value = "text")]
    pub report: ReportFormat,
    /// Write the report to FILE instead of stderr
    #[arg(long, value_name = "FILE")]
    pub report_file: Option<PathBuf>,
}

/// Warns that standard output is appended to a file with content (`>> FILE`) although there is no saved state that
/// knows these records.
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
    /// Returns the time between two saves during the run. `None` means that the state is saved only at the end.
    pub(crate) fn state_every(&self) -> Option<Duration> {
        (self.state_every > 0).then(|| Duration::from_millis(self.state_every))
    }

    /// Returns the file in which the filter is saved. `None` means that the run keeps no state, or only looks keys up.
    pub(crate) fn saved_to(&self) -> Option<&Path> {
        self.state.as_deref().filter(|_| !self.lookup)
    }

    /// Returns the path of the lock file that prevents other runs from saving the state at the same time.
    pub(crate) fn lock_path(&self) -> Option<PathBuf> {
        self.saved_to().map(lock_path)
    }

    /// Returns what this run does with the records that earlier runs wrote to the files of `outputs`. A run without a
    /// saved filter replaces these records. A run with a saved filter must keep them: the filter reports the same
    /// records as duplicates, so this run would not write them again.
    ///
    /// The method prints a warning if an output has content although the file of the saved filter does not exist yet.
    /// The new filter then does not know the records of the output, so the run may append a record that the output
    /// already contains.
    ///
    /// `quotes` is passed on to [`Earlier::Kept`]. It is the byte between two fields if quoted fields may contain line
    /// breaks, and `None` if quotes have no meaning.
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
        // The first output is the output of the records that pass.
        if outputs.first().is_some_and(|out| out.is_none()) && !state.exists() {
            warn_of_appending(state);
        }
        Earlier::Kept { quotes }
    }

    /// Returns what this run does with the records that earlier runs wrote, if records cannot be appended to a file. A
    /// run with a saved filter must keep them, so it needs outputs with other names.
    pub(crate) fn earlier_of_files(&self) -> Earlier {
        if self.state.is_some() { Earlier::Kept { quotes: None } } else { Earlier::Replaced }
    }

    /// Returns the saved filter to continue from. `None` means that no filter is saved yet, or that the run keeps none.
    ///
    /// # Errors
    /// Returns an error if the saved filter cannot be used, or if `--verify` asks for exact answers, which would lack
    /// the events that the saved filter already knows.
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
