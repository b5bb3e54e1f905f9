//! `firstseen filter`: the filters of a cluster.
//!
//! Promises: a filter is made once, however often the request was sent; a filter is dropped only by its name. Must not
//! know: on which nodes slices are put.

mod alter;
mod create;
mod describe;
mod forgive;
mod set_clock;
mod text;
mod tree;

use std::collections::BTreeMap;
use std::io::Write;

use clap::{Args, Subcommand, ValueEnum};
use firstseen_filter::{FrequencySpec, Window, duration};
use firstseen_routing::{AnswerWhen, ClockSource, ClusterMap, Durability, FilterId, FilterRecord, Lookup, WhenLost};
use firstseen_wire::proto::admin::DropFilterRequest;

use crate::cluster;
use crate::cluster::FilterSummaries;
use crate::cluster::connect::{self, Operator, fresh_id};
use crate::exit::UsageError;
use crate::flags::filter::{FilterArgs, parse_duration_ms};
use crate::flags::tls::TlsArgs;
use crate::terminal::consent::confirms;
use crate::text::size::Count;
use alter::AlterArgs;
use tree::TreeArgs;

/// The retry horizon of a filter with a long window, in milliseconds.
const RETRY_HORIZON_MS: u64 = 60_000;

/// Flags of `firstseen filter`.
#[derive(Debug, Args)]
pub struct FilterCommandArgs {
    /// The command that was asked for.
    #[command(subcommand)]
    pub command: FilterCommand,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum FilterCommand {
    /// Make a filter, its slices spread over the nodes
    Create(Box<CreateArgs>),
    /// Change window, capacity, rate, slicing or secret of a filter while producers go on
    Alter(Box<AlterArgs>),
    /// List all filters
    List(ListArgs),
    /// Show a filter: its definition, and how each slice fares
    Describe(DescribeArgs),
    /// Count all slices as complete that have lost something: what was lost is first-seen again
    Forgive(ConfirmedArgs),
    /// Set the clock of a filter back, after broken times: what it remembers is forgotten, and producers go on
    SetClock(ConfirmedArgs),
    /// Drop a filter and all that it remembers
    Drop(ConfirmedArgs),
}

/// The cluster that is asked.
#[derive(Clone, Debug, Args)]
pub struct ClusterAddresses {
    /// Addresses of nodes; one that answers is enough
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', required = true, visible_alias = "addr")]
    pub cluster: Vec<String>,
    /// Certificates.
    #[command(flatten)]
    pub tls: TlsArgs,
}

impl ClusterAddresses {
    pub(crate) fn operator(&self) -> anyhow::Result<Operator> {
        Ok(Operator::new(self.cluster.clone(), self.tls.connector()?))
    }
}

/// Where events get their times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockArg {
    /// Events bring their times
    Event,
    /// The node where an event enters
    Wall,
}

/// How slices that share events are asked.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LookupArg {
    /// One after the other, until the first zero
    Pipelined,
    /// All at once: lower latency, more messages
    Parallel,
}

/// When the reply first-seen may be sent.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum AnswerArg {
    /// At the first zero
    Early,
    /// When every slice has recorded the event
    Safe,
}

/// The verdict on events for which too few slices are left.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum WhenLostArg {
    /// That slices are down; nothing is recorded
    Undecided,
    /// Duplicate, known or not; nothing is recorded
    Duplicate,
    /// What is left is asked: what was lost is first-seen again
    #[value(alias = "first_seen")]
    FirstSeen,
}

/// The text before the flags of `create`.
const EXAMPLES: &str = "\
# times in the events; events that count as they come; one node may be lost
firstseen filter create clicks --cluster HOST:PORT --window 24h --capacity 100M
firstseen filter create clicks --cluster HOST:PORT --window 24h --capacity 100M --clock wall
firstseen filter create clicks --cluster HOST:PORT --window 24h --capacity 100M --copies 1
`-h` lists the flags in short; firstseen plan says what a filter takes; more: docs/how-to/run-a-cluster.md";

/// Flags of `firstseen filter create`.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct CreateArgs {
    /// Name of the filter
    pub name: String,
    /// The cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
    /// The definition of the filter.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// What it counts, if it is a filter of frequencies.
    #[command(flatten)]
    pub frequencies: FrequencyArgs,
    /// Its levels, if it is a tree.
    #[command(flatten)]
    pub tree: TreeArgs,
    /// Policies of the filter.
    #[command(flatten)]
    pub policies: PolicyArgs,
}

/// A filter that counts how often events come, older ones counting less, instead of finding out whether they are new.
#[derive(Debug, Args)]
#[command(next_help_heading = "Frequencies")]
pub struct FrequencyArgs {
    /// Count events instead (kind decaying): counters decay every DURATION, or every `1000000events`; --capacity is the
    /// keys that count at one time, a million if not given
    #[arg(long, value_name = "DURATION", conflicts_with_all = [
        "window", "rule", "kind", "memory", "lateness", "layout", "cell_bits", "sub_windows", "equal_timers", "growth",
        "ticks", "stable_max", "stable_decrements",
    ])]
    pub epoch: Option<Window>,
    /// What an occurrence is worth one epoch later
    #[arg(long, default_value_t = 0.5, requires = "epoch")]
    pub lambda: f64,
}

impl FrequencyArgs {
    /// The frequencies to count, where the flags ask for that.
    fn spec(&self, filter: &FilterArgs) -> Option<FrequencySpec> {
        let spec = FrequencySpec::new(self.epoch.clone()?, self.lambda);
        Some(FrequencySpec {
            capacity_keys: filter.capacity.map_or(spec.capacity_keys, |Count(keys)| keys),
            rate: filter.fpr,
            cells: filter.cells.map(|Count(cells)| cells),
            hashes: filter.hashes,
            future_max_ms: filter.future_max.unwrap_or(spec.future_max_ms),
            ..spec
        })
    }
}

/// Policies of a filter: who stamps events, what survives, what is answered.
#[derive(Debug, Args)]
#[command(next_help_heading = "Policies")]
pub struct PolicyArgs {
    /// Who stamps events
    #[arg(long, value_enum, default_value = "event")]
    pub clock: ClockArg,
    /// How far the clocks of nodes may differ, which events that they stamp are kept longer: at least what nodes are
    /// configured with (timing.clock_skew_max_ms)
    #[arg(long, hide_short_help = true, value_name = "DURATION", default_value = "1s", value_parser = parse_duration_ms)]
    pub clock_skew: u64,
    /// How slices that share events are asked (vertical and diced slicings)
    #[arg(long, hide_short_help = true, value_enum, default_value = "pipelined")]
    pub lookup: LookupArg,
    /// When the reply first-seen may be sent, where slices share events
    #[arg(long, value_enum, default_value = "early")]
    pub answer: AnswerArg,
    /// What survives a process that ends: `memory` nothing, `durable` everything that was replied, a duration (`1s`)
    /// everything but what came last before a crash
    #[arg(long, value_name = "MODE", default_value = "memory", value_parser = parse_durability)]
    pub durability: Durability,
    /// Copies of each slice beside the first, on other nodes: with one of them lost nothing is (`--answer safe` follows)
    #[arg(long, value_name = "COPIES", default_value_t = 0)]
    pub copies: u32,
    /// Copies of each slice in all, the first included: `--replicas 2` is `--copies 1`
    #[arg(long, value_name = "REPLICAS", conflicts_with = "copies", value_parser = clap::value_parser!(u32).range(1..))]
    pub replicas: Option<u32>,
    /// Positions of an event that must lie on live, complete slices for a verdict, where slices share events; half of them
    /// if not given
    #[arg(long, hide_short_help = true, value_name = "POSITIONS", default_value_t = 0, hide_default_value = true)]
    pub min_live: u32,
    /// Positions that must be found set for a duplicate, where slices share events (x of k); with fewer on live slices an
    /// event is first-seen
    #[arg(long, hide_short_help = true, value_name = "POSITIONS", default_value_t = 0, hide_default_value = true)]
    pub set_min: u32,
    /// The verdict on events of which fewer slices are left
    #[arg(long, value_enum, default_value = "undecided")]
    pub when_lost: WhenLostArg,
    /// How long a producer may send an unanswered batch again and get the first verdicts; at most the window. By default `1m`, or
    /// the window if that is shorter
    #[arg(long, hide_short_help = true, value_name = "DURATION", value_parser = parse_duration_ms)]
    pub retry_horizon: Option<u64>,
    /// Events can be claimed, for this time at most, and are recorded when they are confirmed (`10s`)
    #[arg(long, hide_short_help = true, value_name = "LEASE", value_parser = parse_duration_ms)]
    pub claims: Option<u64>,
    /// Zone of calendar landmarks that name none
    #[arg(long, hide_short_help = true, value_name = "ZONE", default_value = "UTC")]
    pub tz: String,
    /// No error if there is a filter of this name and definition
    #[arg(long)]
    pub if_absent: bool,
}

impl PolicyArgs {
    /// Returns the copies of each slice beside the first.
    fn further_copies(&self) -> u32 {
        self.replicas.map_or(self.copies, |replicas| replicas - 1)
    }

    /// Returns the retry horizon of a filter with this window, in milliseconds: an event that is forgotten before it is retried
    /// would get another verdict.
    fn retry_horizon_ms(&self, window: &Window) -> Result<u32, UsageError> {
        let window_ms = forgets_after_ms(window);
        let horizon_ms = self.retry_horizon.unwrap_or(RETRY_HORIZON_MS.min(window_ms));
        if horizon_ms > window_ms {
            let most = duration(window_ms);
            return Err(UsageError(format!(
                "a retry after the window would find its event forgotten: --retry-horizon {most} at most"
            )));
        }
        u32::try_from(horizon_ms).map_err(|_| UsageError("--retry-horizon can be at most 49 days".to_owned()))
    }
}

/// After how long a filter with this window may have forgotten an event; the greatest number where it counts no time.
fn forgets_after_ms(window: &Window) -> u64 {
    match window {
        Window::Duration(ms) | Window::LandmarkDuration(ms) => *ms,
        _ => u64::MAX,
    }
}

/// Flags of `firstseen filter list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Flags of `firstseen filter describe`.
#[derive(Debug, Args)]
pub struct DescribeArgs {
    /// Name of the filter
    pub name: String,
    /// The cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Flags of `firstseen filter forgive`, `set-clock` and `drop`.
#[derive(Debug, Args)]
pub struct ConfirmedArgs {
    /// Name of the filter
    pub name: String,
    /// Do it without asking
    #[arg(long)]
    pub yes: bool,
    /// The cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
}

impl From<ClockArg> for ClockSource {
    fn from(clock: ClockArg) -> Self {
        match clock {
            ClockArg::Event => Self::Event,
            ClockArg::Wall => Self::Wall,
        }
    }
}

impl From<LookupArg> for Lookup {
    fn from(lookup: LookupArg) -> Self {
        match lookup {
            LookupArg::Pipelined => Self::Pipelined,
            LookupArg::Parallel => Self::Parallel,
        }
    }
}

impl From<AnswerArg> for AnswerWhen {
    fn from(answer: AnswerArg) -> Self {
        match answer {
            AnswerArg::Early => Self::Early,
            AnswerArg::Safe => Self::Safe,
        }
    }
}

impl From<WhenLostArg> for WhenLost {
    fn from(when_lost: WhenLostArg) -> Self {
        match when_lost {
            WhenLostArg::Undecided => Self::Undecided,
            WhenLostArg::Duplicate => Self::Duplicate,
            WhenLostArg::FirstSeen => Self::FirstSeen,
        }
    }
}

/// `memory`, `durable`, or the longest time for which a reply may be sent before its record is on disk.
fn parse_durability(text: &str) -> Result<Durability, String> {
    match text {
        "memory" => Ok(Durability::Memory),
        "durable" => Ok(Durability::Durable),
        duration => match parse_duration_ms(duration).map(u32::try_from) {
            Ok(Ok(interval_ms)) => Ok(Durability::Interval { interval_ms }),
            _ => Err("write memory, durable, or a duration such as 1s".to_owned()),
        },
    }
}

/// Runs `firstseen filter`.
///
/// # Errors
/// Those of the cluster; that no node answers.
pub fn run(args: &FilterCommandArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    connect::runtime()?.block_on(async {
        match &args.command {
            FilterCommand::Create(args) => create::run(args, &args.at.operator()?, out).await?,
            FilterCommand::Alter(args) => alter::run(args, &args.at.operator()?, out).await?,
            FilterCommand::List(args) => {
                let map = cluster::status::ask(&args.at.operator()?).await?.map;
                let filters = FilterSummaries::new(&map, &BTreeMap::new());
                if args.json {
                    writeln!(out, "{}", serde_json::to_string_pretty(&filters)?)?
                } else {
                    out.write_all(filters.text().as_bytes())?
                }
            }
            FilterCommand::Describe(args) => describe::run(args, &args.at.operator()?, out).await?,
            FilterCommand::Forgive(args) => forgive::run(args, &args.at.operator()?, out).await?,
            FilterCommand::SetClock(args) => set_clock::run(args, &args.at.operator()?, out).await?,
            FilterCommand::Drop(ConfirmedArgs { name, at, yes }) => {
                let operator = at.operator()?;
                find(&cluster::status::ask(&operator).await?.map, name)?;
                agreed(*yes, &format!("filter `{name}` goes, with all that it remembers"))?;
                let request = DropFilterRequest { command_id: fresh_id().into(), name: name.clone() };
                operator.call(async |mut client| client.drop_filter(request.clone()).await).await?;
                writeln!(out, "filter {name} is dropped")?;
            }
        }
        Ok(out.flush()?)
    })
}

/// Returns where `is_agreed`, or where the user at the terminal agrees now.
fn agreed(is_agreed: bool, what: &str) -> anyhow::Result<()> {
    if is_agreed || confirms(what)? { Ok(()) } else { anyhow::bail!("nothing was changed") }
}

/// Names of filters in a message at most.
const NAMES_SHOWN_MAX: usize = 12;

/// The filter of this name.
fn find<'a>(map: &'a ClusterMap, name: &str) -> anyhow::Result<(FilterId, &'a FilterRecord)> {
    map.filter_named(name).ok_or_else(|| {
        let mut there: Vec<&str> = map.filters.values().map(|filter| filter.name.as_str()).collect();
        there.sort_by_key(|other| strsim::damerau_levenshtein(other, name));
        let near = match there.first() {
            None => "the cluster has none: firstseen filter create".to_owned(),
            Some(nearest) if strsim::jaro_winkler(nearest, name) > 0.8 => format!("did you mean `{nearest}`?"),
            Some(_) if there.len() > NAMES_SHOWN_MAX => {
                format!("of the cluster's {} the nearest are {}", there.len(), there[..NAMES_SHOWN_MAX].join(", "))
            }
            Some(_) => format!("the cluster has {}", there.join(", ")),
        };
        UsageError(format!("no filter `{name}`: {near}")).into()
    })
}
