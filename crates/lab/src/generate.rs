//! `firstseen-lab generate` writes synthetic streams of events for load tests of filters. The output is reproducible:
//! the same flags and the same seed always give the same bytes. If the reader of the output closes it early, for
//! example because it is `head`, the command ends without an error.

use firstseen_cli::notice;
use std::io::{BufWriter, Write};
use std::str::FromStr;

use clap::{Args, ValueEnum, value_parser};
use firstseen_eval::stream::{Burst, Keys, StreamError, StreamSpec, TextFormat};

use firstseen_cli::exit::UsageError;
use firstseen_cli::flags::filter::parse_duration_ms;
use firstseen_cli::terminal::steps::Steps;
use firstseen_cli::text::size::Count;
use firstseen_embedded::drawn_seed;

/// Number of events between two updates of the progress.
const STEP_EVENTS: u64 = 1 << 16;
/// Number of bytes that are written at once.
const CHUNK_BYTES: usize = 1 << 16;
/// Minimum start time, in milliseconds since 1970. `firstseen dedup` reads smaller numbers as seconds.
const START_MS_MIN: u64 = 100_000_000_000;

/// Output format of the events.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum FormatArg {
    /// Comma-separated values with a header
    Csv,
    /// One JSON object per line
    Jsonl,
}

/// Flags of `firstseen-lab generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// Number of events
    #[arg(long, value_name = "N", default_value = "1M")]
    pub events: Count,
    /// Distribution of keys: `distinct`; `uniform:N` with N keys; `zipf:N:EXPONENT`; `repeats:SHARE:N`, where that
    /// share of the events has new keys, and the others repeat one of the last N new keys
    #[arg(long, value_name = "KEYS", default_value = "zipf:100k:1")]
    pub keys: KeysArg,
    /// Events per second of the events' own time, such as 0.5, 1000 or 1M
    #[arg(long, value_name = "N", default_value_t = 1000.0, value_parser = parse_rate)]
    pub rate: f64,
    /// Period with a higher rate, relative to the start of the stream: `10s..20s:5` for five times as many events; may
    /// be given several times, and where periods overlap, their factors multiply
    #[arg(long, value_name = "FROM..TO:FACTOR")]
    pub burst: Vec<BurstArg>,
    /// Time of the first event, in milliseconds since 1970; it must be in 1973 or later, because smaller numbers are
    /// read as seconds
    #[arg(long, value_name = "MS", default_value_t = 1_700_000_000_000)]
    #[arg(value_parser = value_parser!(u64).range(START_MS_MIN..))]
    pub start_ms: u64,
    /// Number of sites that events come from
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    pub sites: u32,
    /// Share of a key's events that come from its home site (with one site all do)
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    pub home_share: f64,
    /// Share of events that arrive late
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "late_max")]
    pub late_share: f64,
    /// Maximum delay of late events
    #[arg(long, value_name = "DURATION", default_value = "0s", requires = "late_share")]
    #[arg(value_parser = parse_duration_ms)]
    pub late_max: u64,
    /// Seed that determines all random choices; if not given, a random seed is used and printed
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Output format
    #[arg(long, value_enum, default_value = "csv")]
    pub format: FormatArg,
}

/// Distribution of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeysArg(Keys);

impl FromStr for KeysArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        Ok(Self(match parts[..] {
            ["distinct"] => Keys::Distinct,
            ["uniform", keys] => Keys::Uniform { keys: count(keys)? },
            ["zipf", keys, exponent] => Keys::Zipf { keys: count(keys)?, exponent: number(exponent)? },
            ["repeats", share, recent] => Keys::Repeats { distinct_share: number(share)?, recent_keys: count(recent)? },
            _ => return Err("write distinct, uniform:100k, zipf:100k:1 or repeats:0.8:10k".to_owned()),
        }))
    }
}

fn count(text: &str) -> Result<u64, String> {
    text.parse::<Count>().map(|Count(keys)| keys).map_err(|error| error.to_string())
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|error| format!("`{text}`: {error}"))
}

/// Burst: a period in which the rate of events is higher.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstArg(Burst);

impl FromStr for BurstArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once(':').and_then(|(times, factor)| Some((times.split_once("..")?, factor)));
        let Some(((from, to), factor)) = parts else {
            return Err("write FROM..TO:FACTOR, such as 10s..20s:5".to_owned());
        };
        let factor = factor.parse().map_err(|error| format!("`{factor}`: {error}"))?;
        Ok(Self(Burst { from_ms: parse_duration_ms(from)?, to_ms: parse_duration_ms(to)?, factor }))
    }
}

/// Parses a number, or a count with a unit.
fn parse_rate(text: &str) -> Result<f64, String> {
    text.parse().or_else(|_| count(text).map(|events| events as f64))
}

/// Returns the error for an impossible stream, in terms of the flags.
fn refusal(error: &StreamError) -> UsageError {
    let StreamError { field, value, rule } = error;
    let flag = match *field {
        "keys" | "exponent" | "distinct_share" | "recent_keys" => "--keys",
        "events_per_second" => "--rate",
        "bursts" => "--burst",
        "start_ms" => "--start-ms",
        "sites" => "--sites",
        "home_share" => "--home-share",
        "late_share" => "--late-share",
        "late_ms_max" => "--late-max",
        field => field,
    };
    UsageError(format!("{flag}, with {value}: {rule}"))
}

impl GenerateArgs {
    fn spec(&self) -> StreamSpec {
        StreamSpec {
            events: self.events.0,
            keys: self.keys.0,
            start_ms: self.start_ms,
            events_per_second: self.rate,
            bursts: self.burst.iter().map(|burst| burst.0).collect(),
            sites: self.sites,
            home_share: self.home_share,
            late_share: self.late_share,
            late_ms_max: self.late_max,
        }
    }
}

/// Writes a stream.
///
/// # Errors
/// Returns an error if the stream is impossible, or if it cannot be written.
pub fn run(args: &GenerateArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    if args.late_share > 0.0 && args.start_ms.saturating_sub(args.late_max) < START_MS_MIN {
        let rule = "an event that is so late would have a time before 1973, which is read as seconds";
        return Err(UsageError(format!("--late-max: {rule}: begin later, with --start-ms")).into());
    }
    let seed = args.seed.unwrap_or_else(|| drawn_seed() >> 32);
    let events = args.spec().events(seed).map_err(|error| refusal(&error))?;
    if args.seed.is_none() {
        notice!("again: --seed {seed}");
    }
    let format = match args.format {
        FormatArg::Csv => TextFormat::Csv,
        FormatArg::Jsonl => TextFormat::JsonLines,
    };
    let mut out = BufWriter::with_capacity(CHUNK_BYTES, out);
    let mut line = String::new();
    out.write_all(format.header().unwrap_or_default().as_bytes())?;
    let steps = Steps::new(args.events.0, "events", true);
    for (done, event) in (0..).zip(events) {
        line.clear();
        format.push_line(event, &mut line);
        out.write_all(line.as_bytes())?;
        if done % STEP_EVENTS == 0 {
            steps.left(args.events.0 - done);
        }
    }
    steps.end();
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_numbers_or_counts() {
        assert_eq!((parse_rate("0.5"), parse_rate("1e3"), parse_rate("2M")), (Ok(0.5), Ok(1e3), Ok(2e6)));
        assert!(parse_rate("1X").is_err_and(|error| error.contains("1X")));
    }

    #[test]
    fn keys_and_bursts_are_read() {
        let keys = |text: &str| text.parse::<KeysArg>().map(|keys| keys.0);
        assert_eq!(keys("zipf:10k:0.9"), Ok(Keys::Zipf { keys: 10_000, exponent: 0.9 }));
        assert_eq!(keys("repeats:0.8:5"), Ok(Keys::Repeats { distinct_share: 0.8, recent_keys: 5 }));
        assert!(["", "zipf", "uniform:x", "zipf:3:y", "distinct:3"].iter().all(|text| keys(text).is_err()));
        let burst = |text: &str| text.parse::<BurstArg>().map(|burst| burst.0);
        assert_eq!(burst("10s..1m:2.5"), Ok(Burst { from_ms: 10_000, to_ms: 60_000, factor: 2.5 }));
        assert!(["", "10s", "10s..20s", "10s:5", "a..b:1", "1s..2s:x"].iter().all(|text| burst(text).is_err()));
    }
}
