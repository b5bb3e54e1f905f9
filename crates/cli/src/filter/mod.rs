//! Implements `firstseen filter`, which creates, lists, changes and drops the filters of a cluster. Each request has an
//! id, so the cluster creates a filter only once even if the command has to send the request several times.

mod alter;
mod create;
mod describe;
mod forgive;
mod place;
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
use place::PlaceArgs;
use tree::TreeArgs;

/// Default retry horizon of a filter with a long window, in milliseconds.
const RETRY_HORIZON_MS: u64 = 60_000;

/// Flags of `firstseen filter`.
#[derive(Debug, Args)]
pub struct FilterCommandArgs {
    /// The command to run.
    #[command(subcommand)]
    pub command: FilterCommand,
}

/// The commands of `firstseen filter`.
#[derive(Debug, Subcommand)]
pub enum FilterCommand {
    /// Create a filter, with its slices distributed over the nodes
    Create(Box<CreateArgs>),
    /// Change window, capacity, rate, slicing or secret of a filter while producers continue
    Alter(Box<AlterArgs>),
    /// List all filters
    List(ListArgs),
    /// Show a filter: its definition, and the state of each slice
    Describe(DescribeArgs),
    /// Mark all slices with lost events as complete: lost events are first-seen again
    Forgive(ConfirmedArgs),
    /// Set the clock of a filter back, after wrong times: the filter forgets all events, and producers continue
    SetClock(ConfirmedArgs),
    /// Add places to a tree and remove them, while producers at other places continue
    Place(PlaceArgs),
    /// Drop a filter and all events that it remembers
    Drop(ConfirmedArgs),
}

/// Flags that say how to connect to the cluster.
#[derive(Clone, Debug, Args)]
pub struct ClusterAddresses {
    /// Addresses of nodes; one reachable node is enough
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', required = true, visible_alias = "addr")]
    pub cluster: Vec<String>,
    /// Flags for certificates and tokens.
    #[command(flatten)]
    pub tls: TlsArgs,
}

impl ClusterAddresses {
    pub(crate) fn operator(&self) -> anyhow::Result<Operator> {
        Ok(Operator::new(self.cluster.clone(), self.tls.connector()?))
    }
}

/// Source of the times of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockArg {
    /// The events contain their times
    Event,
    /// The node at which an event enters the cluster sets its time
    Wall,
}

/// How slices that share events are asked.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LookupArg {
    /// One after the other, until the first empty cell
    Pipelined,
    /// All at the same time: lower latency, more messages
    Parallel,
}

/// When the reply first-seen may be sent.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum AnswerArg {
    /// At the first empty cell, which proves that the event is new
    Early,
    /// When every slice has recorded the event
    Safe,
}

/// Verdict on events for which too few slices are available.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum WhenLostArg {
    /// Undecided, because slices are down; nothing is recorded
    Undecided,
    /// Duplicate, whether or not the event was seen; nothing is recorded
    Duplicate,
    /// The available slices decide: lost events are first-seen again
    #[value(alias = "first_seen")]
    FirstSeen,
}

/// Text before the flags in the help of `create`.
const EXAMPLES: &str = "\
# times in the events; events that count as they come; one node may be lost
firstseen filter create clicks --cluster HOST:PORT --window 24h --capacity 100M
firstseen filter create clicks --cluster HOST:PORT --window 24h --capacity 100M --clock wall
firstseen filter create clicks --cluster HOST:PORT --window 24h --capacity 100M --copies 1
`-h` lists the flags in short; firstseen plan sizes a filter; more: docs/how-to/run-a-cluster.md";

/// Help of flags that `firstseen dedup` also has, where they differ.
const CAPACITY: &str = "Number of events in one window (`10M`). A filter of a cluster needs it, or --memory or \
                        --cells, or it grows by --growth equal:4";
const LATENESS: &str = "How late a record may come and still be judged exactly (`5m`). The default is an eighth of a \
                        sliding window, and 0 for `--kind cuckoo` and `--clock wall`";
const SEED: &str = "Seed of the secret with which events are hashed, for runs that can be repeated. The default is a \
                    random secret, which the nodes keep";

/// Flags of `firstseen filter create`.
#[derive(Debug, Args)]
#[command(
    before_help = EXAMPLES,
    mut_arg("capacity", |arg| arg.help(CAPACITY)),
    mut_arg("lateness", |arg| arg.help(LATENESS)),
    mut_arg("seed", |arg| arg.help(SEED)),
)]
pub struct CreateArgs {
    /// Name of the filter
    pub name: String,
    /// Flags that say how to connect to the cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
    /// Flags that define the filter.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Flags of a filter that counts frequencies.
    #[command(flatten)]
    pub frequencies: FrequencyArgs,
    /// Flags that define the levels of a tree.
    #[command(flatten)]
    pub tree: TreeArgs,
    /// Flags with the policies of the filter.
    #[command(flatten)]
    pub policies: PolicyArgs,
}

/// Flags of a filter that counts how often events occur, instead of finding out whether they are new. Older occurrences
/// count less.
#[derive(Debug, Args)]
#[command(next_help_heading = "Frequencies")]
pub struct FrequencyArgs {
    /// Count events instead (kind decaying): counters decay every DURATION, or every `1000000events`. --capacity is
    /// then the number of keys that count at one time, a million by default
    #[arg(long, value_name = "DURATION", conflicts_with_all = [
        "window", "rule", "kind", "memory", "lateness", "layout", "cell_bits", "sub_windows", "equal_timers", "growth",
        "ticks", "stable_max", "stable_decrements",
    ])]
    pub epoch: Option<Window>,
    /// Value of an occurrence after one epoch
    #[arg(long, default_value_t = 0.5, requires = "epoch")]
    pub lambda: f64,
}

impl FrequencyArgs {
    /// Returns the frequencies to count, if the flags ask for that.
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

/// Flags with the policies of a filter: where times come from, which data survives a failure, and which verdict is
/// given.
#[derive(Debug, Args)]
#[command(next_help_heading = "Policies")]
pub struct PolicyArgs {
    /// Where the times of events come from
    #[arg(long, value_enum, default_value = "event")]
    pub clock: ClockArg,
    /// How far the clocks of nodes may differ. Events that nodes stamp are kept longer by this time. It must be at
    /// least the nodes' setting timing.clock_skew_max_ms
    #[arg(long, hide_short_help = true, value_name = "DURATION", default_value = "1s", value_parser = parse_duration_ms)]
    pub clock_skew: u64,
    /// How slices that share events are asked (vertical and diced slicings)
    #[arg(long, hide_short_help = true, value_enum, default_value = "pipelined")]
    pub lookup: LookupArg,
    /// When the reply first-seen may be sent, if slices share events
    #[arg(long, value_enum, default_value = "early")]
    pub answer: AnswerArg,
    /// Which data survives the end of a process: with `memory` none, with `durable` every event whose reply was sent,
    /// with a duration (`1s`) every event except those of that time before a crash
    #[arg(long, value_name = "MODE", default_value = "memory", value_parser = parse_durability)]
    pub durability: Durability,
    /// Further copies of each slice, on other nodes: if one copy is lost, no data is lost (implies `--answer safe`)
    #[arg(long, value_name = "COPIES", default_value_t = 0)]
    pub copies: u32,
    /// Total number of copies of each slice, including the first: `--replicas 2` is the same as `--copies 1`
    #[arg(long, value_name = "REPLICAS", conflicts_with = "copies", value_parser = clap::value_parser!(u32).range(1..))]
    pub replicas: Option<u32>,
    /// Minimum number of positions of an event that must be on live, complete slices for a verdict, if slices share
    /// events. The default is half of them
    #[arg(long, hide_short_help = true, value_name = "POSITIONS", default_value_t = 0, hide_default_value = true)]
    pub min_live: u32,
    /// Minimum number of set positions for a duplicate, if slices share events (x of k). With fewer positions on live
    /// slices, an event is first-seen
    #[arg(long, hide_short_help = true, value_name = "POSITIONS", default_value_t = 0, hide_default_value = true)]
    pub set_min: u32,
    /// Verdict on events with fewer available positions
    #[arg(long, value_enum, default_value = "undecided")]
    pub when_lost: WhenLostArg,
    /// How long a producer may retry an unanswered batch and get the first verdicts, at most the window. The default is
    /// `1m`, or the window if that is shorter
    #[arg(long, hide_short_help = true, value_name = "DURATION", value_parser = parse_duration_ms)]
    pub retry_horizon: Option<u64>,
    /// Allow claims of events for at most this time; claimed events are recorded when they are confirmed (`10s`)
    #[arg(long, hide_short_help = true, value_name = "LEASE", value_parser = parse_duration_ms)]
    pub claims: Option<u64>,
    /// Time zone of calendar landmarks without a zone
    #[arg(long, hide_short_help = true, value_name = "ZONE", default_value = "UTC")]
    pub tz: String,
    /// Succeed without a change if this filter exists with this definition
    #[arg(long)]
    pub if_absent: bool,
}

impl PolicyArgs {
    /// Returns the number of further copies of each slice.
    fn further_copies(&self) -> u32 {
        self.replicas.map_or(self.copies, |replicas| replicas - 1)
    }

    /// Returns the retry horizon of a filter with this window, in milliseconds. The retry horizon is the time for which
    /// a producer may retry a batch and get the same verdicts. It cannot be longer than the window, because a retry
    /// after the window would find its events forgotten and report them as first-seen.
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

/// Returns the shortest time in milliseconds after which a filter with this window may forget an event. If the window
/// is not measured in time, this time is not known, and the function returns the greatest possible number.
fn forgets_after_ms(window: &Window) -> u64 {
    match window {
        Window::Duration(ms) | Window::LandmarkDuration(ms) => *ms,
        _ => u64::MAX,
    }
}

/// Flags of `firstseen filter list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Flags that say how to connect to the cluster.
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
    /// Flags that say how to connect to the cluster.
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
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
    /// Flags that say how to connect to the cluster.
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

/// Parses `memory`, `durable`, or the longest time by which a reply may be sent before its record is on disk.
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
/// Returns the errors of the cluster, or an error if no node answers.
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
            FilterCommand::Place(args) => place::run(args, out).await?,
            FilterCommand::Drop(ConfirmedArgs { name, at, yes }) => {
                let operator = at.operator()?;
                find(&cluster::status::ask(&operator).await?.map, name)?;
                agreed(*yes, &format!("filter `{name}` would be dropped, with all events that it remembers"))?;
                let request = DropFilterRequest { command_id: fresh_id().into(), name: name.clone() };
                operator.call(async |mut client| client.drop_filter(request.clone()).await).await?;
                writeln!(out, "filter {name} is dropped")?;
            }
        }
        Ok(out.flush()?)
    })
}

/// Returns if `is_agreed` is set, or if the user at the terminal confirms.
fn agreed(is_agreed: bool, what: &str) -> anyhow::Result<()> {
    if is_agreed || confirms(what)? { Ok(()) } else { anyhow::bail!("nothing was changed") }
}

/// Maximum number of filter names in a message.
const NAMES_SHOWN_MAX: usize = 12;

/// Returns the filter of this name.
fn find<'a>(map: &'a ClusterMap, name: &str) -> anyhow::Result<(FilterId, &'a FilterRecord)> {
    map.filter_named(name).ok_or_else(|| not_found(map, name).into())
}

/// Returns the error about a filter that `map` does not contain. The map that a node sends contains only the filters
/// that the principal of the command may see, so the filter may exist.
fn not_found(map: &ClusterMap, name: &str) -> UsageError {
    let mut there: Vec<&str> = map.filters.values().map(|filter| filter.name.as_str()).collect();
    if let Some(nearest) = firstseen_records::nearest_name(name, there.iter().copied()) {
        return UsageError(format!("no filter `{name}`: did you mean `{nearest}`?"));
    }
    there.sort_by_key(|other| strsim::damerau_levenshtein(other, name));
    let others = match there.first() {
        None => "you may see no filter of this cluster".to_owned(),
        Some(_) if there.len() > NAMES_SHOWN_MAX => {
            let nearest = there[..NAMES_SHOWN_MAX].join(", ");
            format!("of the {} filters that you may see, the nearest are {nearest}", there.len())
        }
        Some(_) => format!("the filters that you may see are {}", there.join(", ")),
    };
    UsageError(format!(
        "no filter `{name}` that you may see: {others}; create it with `firstseen filter create {name}`, or have the \
         right to see it granted with `firstseen access grant`"
    ))
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSpec, Kind};
    use firstseen_routing::{Epoch, FilterHistory, FilterPolicies, SlicedDefinition, Slicing};

    use super::*;

    fn map(names: &[&str]) -> ClusterMap {
        let spec = FilterSpec { capacity_events: Some(1000), ..FilterSpec::new(Kind::Timing, Window::Duration(1000)) };
        let definition = SlicedDefinition::new(&spec, Slicing::NONE).unwrap();
        let records = names.iter().map(|name| FilterRecord {
            name: (*name).to_owned(),
            definition: definition.clone(),
            epoch: Epoch::FIRST,
            policies: FilterPolicies::default(),
            owners: Vec::new(),
            copies: Vec::new(),
            generations: Vec::new(),
            branch: None,
            line: FilterHistory::default(),
        });
        ClusterMap { filters: (1..).map(FilterId).zip(records).collect(), ..ClusterMap::default() }
    }

    /// Regression test. A principal that may see only `webhooks` was told that the cluster has no other filter.
    #[test]
    fn a_filter_that_is_not_in_the_map_may_exist_nevertheless() {
        let said = find(&map(&["webhooks"]), "billing").unwrap_err().to_string();
        assert!(
            said.contains("no filter `billing` that you may see: the filters that you may see are webhooks"),
            "{said}"
        );
        assert!(said.contains("firstseen access grant") && said.contains("filter create billing"), "{said}");
        assert!(find(&map(&[]), "billing").unwrap_err().to_string().contains("you may see no filter of this cluster"));
        let near = find(&map(&["webhooks"]), "webhook").unwrap_err().to_string();
        assert_eq!(near, "no filter `webhook`: did you mean `webhooks`?");
    }
}
