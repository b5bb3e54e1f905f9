//! Flags of `pipe`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use firstseen_pipe::kafka::Address;
use firstseen_pipe::{KeySource, TimeSource};

use crate::flags::filter::{KindArg, parse_duration_ms};
use crate::text::size::{Count, rate};

/// What happens to events about which the filter cannot decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UndecidedArg {
    /// Write them to the output
    Pass,
    /// Write them to the topic of --dead-letter
    Aside,
}

/// What the pipe guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GuaranteeArg {
    /// Messages and offsets are committed in one transaction
    ExactlyOnce,
    /// Offsets are committed after the messages, so that a crash can repeat messages
    AtLeastOnce,
}

/// Flags of `pipe`.
#[derive(Debug, Args)]
pub struct PipeArgs {
    /// Topics and the group.
    #[command(flatten)]
    pub topics: TopicArgs,
    /// Keys, times and the filter.
    #[command(flatten)]
    pub events: EventArgs,
    /// How the pipe runs.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Flags that say which topics are read and written.
#[derive(Debug, Args)]
#[command(next_help_heading = "Topics")]
pub struct TopicArgs {
    /// Topics to read: `kafka://BROKER[:PORT][,BROKER...]/TOPIC[,TOPIC...]`
    #[arg(long, value_name = "URL")]
    pub from: Address,
    /// Topic to which first-seen messages are written, with their partition number, key, headers, timestamp and bytes
    #[arg(long, value_name = "URL")]
    pub to: Address,
    /// Consumer group. Pipes of one group share the partitions, and a pipe continues where the group has stopped
    #[arg(long, value_name = "NAME")]
    pub group: String,
    /// Topic to which duplicates are written, in the same transaction. Without it they are counted and left out
    #[arg(long, value_name = "URL")]
    pub duplicates: Option<Address>,
    /// Topic to which messages are written that have no readable key or time. Without it the pipe stops at such a
    /// message, and names its topic, partition and offset
    #[arg(long, value_name = "URL")]
    pub dead_letter: Option<Address>,
    /// File with client properties of librdkafka, one `name=value` in a line, such as credentials
    #[arg(long, value_name = "FILE")]
    pub kafka_config: Option<PathBuf>,
    /// Read a compacted topic, too. The first message of a key passes, and later ones within the window do not
    #[arg(long)]
    pub allow_compacted: bool,
}

/// Flags that say which messages are equal.
#[derive(Debug, Args)]
#[command(next_help_heading = "Events and filter")]
pub struct EventArgs {
    /// What is compared: `@key`, `@value`, `@header:NAME` or `json:FIELD[,FIELD]`. Several flags form one key
    #[arg(long, value_name = "SOURCE", default_value = "@key")]
    pub key: Vec<KeySource>,
    /// Time of an event: `@timestamp` or `json:FIELD`
    #[arg(long, value_name = "SOURCE", default_value = "@timestamp")]
    pub time: TimeSource,
    /// How long a key counts as seen: `24h`, `unbounded`, `landmark:day@UTC` and others as in `firstseen dedup`. `none`
    /// copies every message
    #[arg(long)]
    pub window: String,
    /// Number of events of one partition in one window (`10M`). Without it the filter starts small and grows
    #[arg(long, value_name = "EVENTS")]
    pub capacity: Option<Count>,
    /// Highest acceptable rate of false positives, which are new events that count as duplicates (`1e-6`)
    #[arg(long, value_name = "RATE", default_value = "1e-6", value_parser = rate)]
    pub fpr: f64,
    /// Kind of filter. The default is the one of `firstseen dedup`
    #[arg(long, value_enum)]
    pub kind: Option<KindArg>,
    /// How late an event may come and still be judged exactly (`5m`). The default is an eighth of a sliding window
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms)]
    pub lateness: Option<u64>,
    /// How far ahead of other events' times a time is accepted without confirmation. The default is a sixteenth of the
    /// window, but at least 1s and at most 5m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms)]
    pub future_max: Option<u64>,
}

/// Flags that say how the pipe runs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
pub struct RunArgs {
    /// Write duplicates to the output as well, with a header `firstseen-reason: duplicate`, to see what would be left
    /// out
    #[arg(long)]
    pub shadow: bool,
    /// What to do with an event about which the filter cannot decide: its time is late or implausible, or the filter is
    /// full
    #[arg(long, value_enum, default_value = "pass")]
    pub undecided: UndecidedArg,
    /// Refuse to start if this guarantee cannot hold. The default is exactly-once if all topics are in one cluster, and
    /// at-least-once otherwise
    #[arg(long, value_enum)]
    pub guarantee: Option<GuaranteeArg>,
    /// Maximum number of messages in one transaction
    #[arg(long, value_name = "MESSAGES", default_value = "10k")]
    pub batch: Count,
    /// Maximum time that the first message of a transaction waits for further ones
    #[arg(long, value_name = "DURATION", default_value = "20ms", value_parser = parse_linger_ms)]
    pub linger: u64,
    /// Folder for checkpoints of the filters, which make a start short. Without it a start reads the messages of one
    /// window again
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Address at which /metrics, /readyz and /livez are served (`127.0.0.1:9100`)
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
    /// Stop at the end that the input has at the start
    #[arg(long)]
    pub until_end: bool,
    /// Print the report as JSON to standard output
    #[arg(long)]
    pub json: bool,
}

/// Parses a short duration such as `20ms`, `1s` or `0`.
fn parse_linger_ms(text: &str) -> Result<u64, String> {
    if let Some(ms) = text.strip_suffix("ms") {
        return ms.parse().map_err(|_| "write a duration such as 20ms or 1s".to_owned());
    }
    parse_duration_ms(text)
}
