//! Flags of `firstseen estimate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};
use firstseen_filter::{FRACTION_BITS_MAX, HASHES_MAX, Window};

use crate::flags::filter::parse_duration_ms;
use crate::flags::input::InputArgs;
use crate::flags::run::RunArgs;
use crate::input::is_stdin;
use crate::text::size::{Count, rate};

/// Maximum number of keys that a report can name.
pub const TOP_MAX: usize = 10_000;

/// How counters are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StorageArg {
    /// 16 bits per counter: faster, but a key that occurs more than 65,535 / 2^f times can no longer be counted
    Basic,
    /// 4 or 8 bits per counter, with extensions for larger values: less memory if few keys are frequent
    Extended,
}

/// How counters decay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DecayRuleArg {
    /// Down to zero, with a fraction in each counter: at most epsilon below the true value
    Lasting,
    /// As in the paper, rounding up: never below the true value, but never back to zero either
    Literal,
}

/// How estimates are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EstimateFormat {
    /// Estimate, tab, record
    Text,
    /// One JSON object on a line: `{"estimate":1.5,"key":["field",...]}`
    Json,
}

/// Flags of `firstseen estimate`.
#[derive(Debug, Args)]
pub struct EstimateArgs {
    /// Flags that describe the input.
    #[command(flatten)]
    pub input: InputArgs,
    /// Flags that say how occurrences are counted.
    #[command(flatten)]
    pub decay: DecayArgs,
    /// Flags that say what is written.
    #[command(flatten)]
    pub output: EstimateOutputArgs,
    /// Flags that say how to run and what to report.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Flags that say how occurrences are counted: decay, epochs and counters.
#[derive(Debug, Args)]
#[command(next_help_heading = "Decay")]
pub struct DecayArgs {
    /// Value of an occurrence after one epoch: with 0.5 it counts 1 now, a half in the next epoch, and a quarter in the
    /// epoch after that. Values near 1 decay slowly, values near 0 quickly
    #[arg(long, default_value_t = 0.5, allow_negative_numbers = true)]
    pub lambda: f64,
    /// Length of an epoch, aligned to the clock (`1h`, `15m`, `1d`), or `1000000events`
    #[arg(long, value_name = "DURATION", default_value = "1h", allow_hyphen_values = true)]
    pub epoch: Window,
    /// Number of different keys with a nonzero count at one time. More keys are counted too, but then estimates of rare
    /// keys rise
    #[arg(long, value_name = "KEYS", default_value = "1M", allow_negative_numbers = true)]
    pub capacity: Count,
    /// Highest acceptable share of keys never seen before whose estimate is above zero
    #[arg(long, value_name = "RATE", default_value = "0.01", allow_negative_numbers = true, value_parser = rate)]
    pub fpr: f64,
    /// Number of cells (m) instead of a capacity and a rate
    #[arg(long, short = 'm', value_name = "M", allow_negative_numbers = true)]
    pub cells: Option<Count>,
    /// Number of positions per key (k)
    #[arg(long, short = 'k', value_name = "K", allow_negative_numbers = true,
        value_parser = value_parser!(u32).range(1..=i64::from(HASHES_MAX)))]
    pub hashes: Option<u32>,
    /// How counters are stored
    #[arg(long, value_enum, default_value = "extended")]
    pub storage: StorageArg,
    /// How counters decay
    #[arg(long, value_enum, default_value = "lasting")]
    pub rule: DecayRuleArg,
    /// Fractional bits (f) of a counter with rule lasting: each further bit halves epsilon (1/8 with f = 4, lambda =
    /// 0.5)
    #[arg(long, value_name = "F", default_value_t = 4, allow_negative_numbers = true,
        value_parser = value_parser!(u32).range(2..=i64::from(FRACTION_BITS_MAX)))]
    pub fraction_bits: u32,
    /// How far ahead of other records' times a record's time is accepted without confirmation. A record further ahead
    /// is rejected unless other records confirm its time. The default is a sixteenth of an epoch, but at least 1s and
    /// at most 5m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms, allow_hyphen_values = true)]
    pub future_max: Option<u64>,
    /// Seed of the hash. The default is a random seed, which the report shows
    #[arg(long)]
    pub seed: Option<u64>,
}

/// Flags that say what is written.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct EstimateOutputArgs {
    /// Write the records whose estimate is at least X, unchanged, to standard output or --out
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub min_estimate: Option<f64>,
    /// Write the records of --min-estimate to FILE instead of standard output
    #[arg(long, value_name = "FILE", requires = "min_estimate")]
    pub out: Option<PathBuf>,
    /// Write the estimate of every record to FILE; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub per_event: Option<PathBuf>,
    /// Format of --per-event
    #[arg(long, value_enum, default_value = "text", requires = "per_event")]
    pub per_event_format: EstimateFormat,
    /// Report this number of keys, those with the greatest estimates
    #[arg(long, value_name = "N", default_value_t = 10, allow_negative_numbers = true,
        value_parser = parse_top)]
    pub top: usize,
}

impl EstimateOutputArgs {
    /// Returns whether estimates go to standard output.
    pub(super) fn writes_events_to_stdout(&self) -> bool {
        self.per_event.as_deref().is_some_and(is_stdin)
    }

    /// Returns whether the records of `--min-estimate` go to standard output.
    pub(super) fn writes_records_to_stdout(&self) -> bool {
        self.min_estimate.is_some() && self.out.is_none()
    }
}

fn parse_top(text: &str) -> Result<usize, String> {
    let top = text.parse().ok().filter(|top| *top <= TOP_MAX);
    top.ok_or_else(|| format!("choose 0 to {TOP_MAX}"))
}
