//! Flags that define which filter to build.

use std::str::FromStr;
use std::sync::LazyLock;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum, value_parser};
use firstseen_embedded::{KindChoice, Stamps, meant};
use firstseen_filter::{FilterSpec, GENERATIONS_MAX, GrowthSpec, HASHES_MAX, Kind, Layout, Limit, Refresh, Window};
use firstseen_routing::Slicing;

use crate::exit::UsageError;
use crate::text::size::{ByteSize, Count, rate};

/// A kind of filter that finds duplicates.
#[derive(Clone, Copy, Debug)]
pub struct KindArg(Kind);

impl ValueEnum for KindArg {
    fn value_variants<'a>() -> &'a [Self] {
        static KINDS: LazyLock<Vec<KindArg>> =
            LazyLock::new(|| Kind::ALL.into_iter().filter(|kind| !kind.estimates_frequencies()).map(KindArg).collect());
        &KINDS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let properties = self.0.properties();
        Some(PossibleValue::new(properties.name).help(properties.summary))
    }
}

impl From<KindArg> for Kind {
    fn from(KindArg(kind): KindArg) -> Self {
        kind
    }
}

/// The occurrence of a key from which its window is measured.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RuleArg {
    /// From the occurrence that was passed on
    Fixed,
    /// From the last occurrence: every duplicate starts the window again
    Refresh,
}

/// What is counted to determine whether a generation of a filter is full.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LimitArg {
    /// Recorded events
    Cardinality,
    /// Cells in use
    Density,
}

/// How the positions of an event are distributed over the cells.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LayoutArg {
    /// Anywhere, as in the papers
    Classic,
    /// Each position in its own part of the cells
    Partitioned,
    /// In one cache line
    Blocked1,
    /// In two neighbouring cache lines
    Blocked2,
    /// In four neighbouring cache lines
    Blocked4,
}

/// Help heading of flags that only few users need.
const RARE: &str = "Filter, rarely needed";

/// Flags that define which filter to build.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Filter")]
pub struct FilterArgs {
    /// How long a key counts as seen: `24h`, `10000000events`, `unbounded`, `landmark:1d`, `landmark:1000events`,
    /// `landmark:day` (also hour, week; with a time zone: `landmark:day@Europe/Athens`)
    #[arg(long, default_value = "unbounded", allow_hyphen_values = true)]
    pub window: String,
    /// Occurrence from which a sliding window is measured
    #[arg(long, value_enum, default_value = "fixed")]
    pub rule: RuleArg,
    /// Kind of filter. The default is bloom without a window and with landmarks. Otherwise it is timing or cuckoo,
    /// whichever needs less memory, and timing without a capacity
    #[arg(long, value_enum)]
    pub kind: Option<KindArg>,
    /// Number of events in one window (`10M`). Without it the filter starts small and grows; a filter of a cluster
    /// grows only with `--growth equal:4`
    #[arg(long, alias = "events-per-window", value_name = "EVENTS", allow_negative_numbers = true)]
    pub capacity: Option<Count>,
    /// Highest acceptable rate of false positives, which are new events reported as duplicates (`0.01`, `1%`, `1e-8`)
    #[arg(long, value_name = "RATE", default_value = "0.01", allow_negative_numbers = true, value_parser = rate)]
    pub fpr: f64,
    /// Memory for the cells instead of a capacity (`64MiB`)
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub memory: Option<ByteSize>,
    /// Cut the filter into slices: none, horizontal:S, vertical:S, horizontal-vertical:SxT, vertical-horizontal:SxT.
    /// The default is none in one process, and one horizontal slice per node in a cluster
    #[arg(long)]
    pub slicing: Option<Slicing>,
    /// How late a record may come and still be judged exactly (`5m`). The default is an eighth of a sliding window, and
    /// 0 for `--kind cuckoo`. `auto` measures the lateness of the first records (64 KiB of a file, one read of a
    /// stream), and prints its choice
    #[arg(long, value_name = "DURATION", value_parser = parse_lateness, allow_hyphen_values = true)]
    pub lateness: Option<LatenessArg>,
    /// How far ahead of other records' times a record's time is accepted without confirmation. A record further ahead
    /// is rejected unless other records confirm its time. The default is a sixteenth of the window, but at least 1s and
    /// at most 5m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms, allow_hyphen_values = true)]
    pub future_max: Option<u64>,
    /// Seed of the hash. The default is a random seed, which the report shows
    #[arg(long, help_heading = RARE, hide_short_help = true)]
    pub seed: Option<u64>,
    /// Number of cells (m) instead of a capacity. The filter then never becomes full, but its rate of false positives
    /// rises
    #[arg(long, help_heading = RARE, hide_short_help = true, short = 'm', value_name = "M", allow_negative_numbers = true)]
    pub cells: Option<Count>,
    /// Number of positions per event (k)
    #[arg(long, help_heading = RARE, hide_short_help = true, short = 'k', value_name = "K", allow_negative_numbers = true,
        value_parser = value_parser!(u32).range(1..=i64::from(HASHES_MAX)))]
    pub hashes: Option<u32>,
    /// How the positions of an event are distributed
    #[arg(long, help_heading = RARE, hide_short_help = true, value_enum)]
    pub layout: Option<LayoutArg>,
    /// Bits per cell of kind timing or generations: 8 or 16
    #[arg(long, help_heading = RARE, hide_short_help = true, value_name = "BITS")]
    pub cell_bits: Option<u32>,
    /// Number of sub-windows (Q) of a jumping window
    #[arg(long, help_heading = RARE, hide_short_help = true, value_name = "Q")]
    pub sub_windows: Option<u32>,
    /// Number of ticks in the window of kind cuckoo. The default is 9 to 41, depending on the rate of false positives.
    /// Up to at least 79 are possible, and 107 at 1e-8, for more memory
    #[arg(long, help_heading = RARE, hide_short_help = true, value_name = "N")]
    pub ticks: Option<u32>,
    /// k' of the equal-timers heuristic: fewer false positives, but false negatives
    #[arg(long, help_heading = RARE, hide_short_help = true, value_name = "K'", default_value_t = 0)]
    pub equal_timers: u32,
    /// How the filter grows beyond its capacity: none, equal:N (at most N generations), geometric:R (ratio R)
    #[arg(long, help_heading = RARE, hide_short_help = true, value_name = "RULE")]
    pub growth: Option<GrowthArg>,
    /// By what a generation is full
    #[arg(
        long,
        help_heading = RARE,
        hide_short_help = true,
        value_enum,
        value_name = "MEASURE",
        default_value = "cardinality",
        requires = "growth"
    )]
    pub grow_by: LimitArg,
    /// Flags that only kind stable has.
    #[command(flatten)]
    pub stable: StableArgs,
}

/// Flags that only kind stable has.
#[derive(Clone, Debug, Args)]
pub struct StableArgs {
    /// Max of kind stable: value of a freshly set cell
    #[arg(long, help_heading = RARE, hide_short_help = true, value_name = "MAX")]
    pub stable_max: Option<u8>,
    /// P of kind stable: cells that an event decrements
    #[arg(long, help_heading = RARE, hide_short_help = true, value_name = "P", value_parser = parse_decrements, allow_negative_numbers = true)]
    pub stable_decrements: Option<f64>,
}

/// How late records may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatenessArg {
    /// A fixed lateness, in milliseconds.
    Ms(u64),
    /// The lateness is measured from the first records of the input.
    Auto,
}

fn parse_lateness(text: &str) -> Result<LatenessArg, String> {
    if text == "auto" {
        return Ok(LatenessArg::Auto);
    }
    parse_duration_ms(text).map(LatenessArg::Ms).map_err(|error| format!("{error}, or auto"))
}

/// Parses a duration such as `90s`, `24h` or `0`, and returns it in milliseconds.
pub fn parse_duration_ms(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(Window::Duration(ms)) => Ok(ms),
        _ if text.trim_end_matches(char::is_alphabetic) == "0" => Ok(0),
        _ => Err("write a duration such as 90s, 15m, 24h or 7d".to_owned()),
    }
}

fn parse_decrements(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(decrements) if f64::is_finite(decrements) && decrements > 0.0 => Ok(decrements),
        _ => Err("P must be a number above 0, such as 10".to_owned()),
    }
}

/// How a filter grows: the maximum number of generations, and the ratio of the sizes of consecutive generations.
#[derive(Clone, Copy, Debug)]
pub struct GrowthArg {
    /// Maximum number of generations.
    pub generations_max: u32,
    /// Ratio of the size of a generation to the size of the generation before it.
    pub ratio: f64,
}

impl FromStr for GrowthArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule = match text.split_once(':') {
            None if text == "none" => Some((1, 1.0)),
            Some(("equal", most)) => most.parse().ok().map(|most| (most, 1.0)),
            Some(("geometric", ratio)) => {
                ratio.parse().ok().filter(|ratio| *ratio > 1.0).map(|ratio| (GENERATIONS_MAX, ratio))
            }
            _ => None,
        };
        let (generations_max, ratio) = rule.ok_or("choose none, equal:4, or geometric:2 (a ratio above 1)")?;
        Ok(Self { generations_max, ratio })
    }
}

impl FilterArgs {
    /// Returns the window. A calendar window that names no time zone uses `zone`.
    ///
    /// # Errors
    /// Returns an error if the window cannot be parsed.
    pub fn window(&self, zone: &str) -> anyhow::Result<Window> {
        let window =
            self.window.parse().map_err(|error: firstseen_filter::WindowError| UsageError(error.to_string()))?;
        match window {
            Window::LandmarkCalendar(calendar) if !self.window.contains('@') => {
                let calendar = calendar.in_zone(zone).map_err(|error| UsageError(error.to_string()))?;
                Ok(Window::LandmarkCalendar(calendar))
            }
            window => Ok(window),
        }
    }

    /// Returns the filter for `window` that the flags ask for, and the filters that the same flags built with earlier
    /// defaults.
    pub(crate) fn meant(&self, window: Window, seed: u64, slicing: Slicing, stamps: Stamps) -> KindChoice {
        match self.kind {
            Some(kind) => KindChoice::only(self.of_kind(kind.into(), window, seed)),
            None => meant(&self.of_kind(Kind::Bloom, window, seed), slicing, stamps),
        }
    }

    fn of_kind(&self, kind: Kind, window: Window, seed: u64) -> FilterSpec {
        let limit = match self.grow_by {
            LimitArg::Cardinality => Limit::Cardinality,
            LimitArg::Density => Limit::Density,
        };
        let growth =
            self.growth.map(|GrowthArg { generations_max, ratio }| GrowthSpec { limit, generations_max, ratio });
        FilterSpec {
            rate: self.fpr,
            capacity_events: self.capacity.map(|Count(events)| events),
            memory_bytes: self.memory.map(|ByteSize(bytes)| bytes),
            cells: self.cells.map(|Count(cells)| cells),
            hashes: self.hashes,
            layout: self.layout.map(|layout| match layout {
                LayoutArg::Classic => Layout::Classic,
                LayoutArg::Partitioned => Layout::Partitioned,
                LayoutArg::Blocked1 => Layout::Blocked { lines: 1 },
                LayoutArg::Blocked2 => Layout::Blocked { lines: 2 },
                LayoutArg::Blocked4 => Layout::Blocked { lines: 4 },
            }),
            cell_bits: self.cell_bits,
            jumps: self.sub_windows,
            ticks: self.ticks,
            refresh: match self.rule {
                RuleArg::Fixed => Refresh::Fixed,
                RuleArg::Refresh => Refresh::Refresh,
            },
            lateness_ms: match self.lateness {
                Some(LatenessArg::Ms(lateness_ms)) => Some(lateness_ms),
                Some(LatenessArg::Auto) | None => None,
            },
            future_max_ms: self.future_max.unwrap_or_else(|| window.future_default_ms()),
            equal_timers: self.equal_timers,
            growth,
            stable_max: self.stable.stable_max,
            stable_decrements: self.stable.stable_decrements,
            seed,
            ..FilterSpec::new(kind, window)
        }
    }
}
