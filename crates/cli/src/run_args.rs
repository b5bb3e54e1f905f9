//! Flags that `dedup` and `estimate` share: bad records, the saved filter, the report.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::report::ReportFormat;

/// How answers are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VerifyArg {
    /// Keep the exact answer beside: memory for every key that counts
    Exact,
}

/// How to run, and what is told.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
pub struct RunArgs {
    /// Records that cannot be read go to FILE; by default they are only told
    #[arg(long, value_name = "FILE")]
    pub rejected: Option<PathBuf>,
    /// Exit with 2 if a record could not be read
    #[arg(long)]
    pub strict: bool,
    /// Only test: records change nothing in the filter
    #[arg(long)]
    pub lookup: bool,
    /// Load the filter from FILE, and save it there at the end
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
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
