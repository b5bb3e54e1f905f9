//! Flags of `firstseen estimate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};
use firstseen_filter::{FRACTION_BITS_MAX, HASHES_MAX, Window};

use crate::flags::filter::parse_duration_ms;
use crate::flags::input::InputArgs;
use crate::flags::run::RunArgs;
use crate::input::is_stdin;
use crate::text::size::{Count, rate};

/// The most keys that a report may name.
pub const TOP_MAX: usize = 10_000;

/// How counters are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StorageArg {
    /// 16 bits each: faster, but a key that occurs more than 65,535 / 2^f times can no longer be counted
    Basic,
    /// 4 or 8 bits each, with extensions where more is needed: less memory where few keys are frequent
    Extended,
}

/// How counters decay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DecayRuleArg {
    /// To zero, with a fraction in each counter: at most epsilon below the truth
    Lasting,
    /// As in the paper, rounding up: never below the truth, but never back to zero either
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
    /// The input.
    #[command(flatten)]
    pub input: InputArgs,
    /// What is counted.
    #[command(flatten)]
    pub decay: DecayArgs,
    /// What is written.
    #[command(flatten)]
    pub output: EstimateOutputArgs,
    /// How to run.
    #[command(flatten)]
    pub run: RunArgs,
}

/// How occurrences count: decay, epochs, counters.
#[derive(Debug, Args)]
#[command(next_help_heading = "Decay")]
pub struct DecayArgs {
    /// What an occurrence is worth one epoch later: with 0.5 it counts 1 now, a half in the next epoch, a quarter in
    /// the one after. Near 1 slow, near 0 fast
    #[arg(long, default_value_t = 0.5, allow_negative_numbers = true)]
    pub lambda: f64,
    /// Length of an epoch, aligned to the clock (`1h`, `15m`, `1d`), or `1000000events`
    #[arg(long, value_name = "DURATION", default_value = "1h", allow_hyphen_values = true)]
    pub epoch: Window,
    /// Different keys that count at one time. More are counted too, but estimates of rare keys rise
    #[arg(long, value_name = "KEYS", default_value = "1M", allow_negative_numbers = true)]
    pub capacity: Count,
    /// Highest acceptable rate of keys never seen whose estimate is above zero
    #[arg(long, value_name = "RATE", default_value = "0.01", allow_negative_numbers = true, value_parser = rate)]
    pub fpr: f64,
    /// Cells (m) instead of a capacity and a rate
    #[arg(long, short = 'm', value_name = "M", allow_negative_numbers = true)]
    pub cells: Option<Count>,
    /// Positions a key (k)
    #[arg(long, short = 'k', value_name = "K", allow_negative_numbers = true,
        value_parser = value_parser!(u32).range(1..=i64::from(HASHES_MAX)))]
    pub hashes: Option<u32>,
    /// How counters are kept
    #[arg(long, value_enum, default_value = "extended")]
    pub storage: StorageArg,
    /// How counters decay
    #[arg(long, value_enum, default_value = "lasting")]
    pub rule: DecayRuleArg,
    /// Fractional bits (f) of a counter of rule lasting: each halves epsilon (1/8 with f = 4, lambda = 0.5)
    #[arg(long, value_name = "F", default_value_t = 4, allow_negative_numbers = true,
        value_parser = value_parser!(u32).range(2..=i64::from(FRACTION_BITS_MAX)))]
    pub fraction_bits: u32,
    /// How far ahead of the others a record is taken by its own word; one further ahead is rejected unless others bear its
    /// time out. By default a sixteenth of an epoch, but 1s at least and 5m at most
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms, allow_hyphen_values = true)]
    pub future_max: Option<u64>,
    /// Seed of the hash; by default drawn at random, and named in the report
    #[arg(long)]
    pub seed: Option<u64>,
}

/// What is written.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct EstimateOutputArgs {
    /// Write the records whose estimate is at least X, unchanged, to standard output or --out
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub min_estimate: Option<f64>,
    /// The records of --min-estimate go to FILE instead of standard output
    #[arg(long, value_name = "FILE", requires = "min_estimate")]
    pub out: Option<PathBuf>,
    /// Write the estimate of every record to FILE; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub per_event: Option<PathBuf>,
    /// How --per-event writes
    #[arg(long, value_enum, default_value = "text", requires = "per_event")]
    pub per_event_format: EstimateFormat,
    /// Report so many keys, those with the greatest estimates
    #[arg(long, value_name = "N", default_value_t = 10, allow_negative_numbers = true,
        value_parser = parse_top)]
    pub top: usize,
}

impl EstimateOutputArgs {
    /// Whether estimates go to standard output.
    pub(super) fn writes_events_to_stdout(&self) -> bool {
        self.per_event.as_deref().is_some_and(is_stdin)
    }

    /// Whether chosen records go to standard output.
    pub(super) fn writes_records_to_stdout(&self) -> bool {
        self.min_estimate.is_some() && self.out.is_none()
    }
}

fn parse_top(text: &str) -> Result<usize, String> {
    let top = text.parse().ok().filter(|top| *top <= TOP_MAX);
    top.ok_or_else(|| format!("choose 0 to {TOP_MAX}"))
}
