//! Implements `firstseen plan`, which computes the memory, the error rate and other properties of a filter before the
//! filter is built. The sizes come from the same definition that `dedup` would build, so they are not estimates. The
//! error rates follow from the formulas of [`firstseen_filter::rates`].

mod buy;
mod costs;
mod create;
mod event_rate;
mod load;
mod memory;
mod nodes;
#[cfg(feature = "full")]
mod plot;
mod recommended;
mod retention;
mod text;
mod traits;

#[cfg(all(test, feature = "full"))]
mod tests;

use std::fmt::Display;
use std::io::Write;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;
use firstseen_embedded::default_kind;
use firstseen_filter::{Ability, FilterSpec, Kind, Window};
use firstseen_routing::{Cut, Slicing};
use serde::Serialize;

use crate::exit::UsageError;
use crate::flags::filter::{KindArg, parse_duration_ms};
use crate::text::size::{Count, rate};
use buy::{MACHINES, Machines};
use costs::Costs;
use create::Survives;
pub use event_rate::EventRate;
use memory::Reference;
use nodes::{FURTHER_COPIES_MAX, Spread};
use recommended::Recommended;

/// Flags of `firstseen plan`.
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    /// Number of different events in one window (`10M`). A window counted in events needs no capacity
    #[arg(long, aliases = ["events", "events-per-window"], value_name = "EVENTS", allow_negative_numbers = true)]
    pub capacity: Option<Count>,
    /// Number of events per time instead of per window (`1G/day`, `5000/s`)
    #[arg(long, value_name = "EVENTS/TIME", conflicts_with = "capacity")]
    pub rate: Option<EventRate>,
    /// Highest acceptable rate of false positives, which are new events reported as duplicates
    #[arg(long, value_name = "RATE", default_value = "0.01", allow_negative_numbers = true, value_parser = rate)]
    pub fpr: f64,
    /// How long a key counts as seen: `24h`, `10000000events`, `unbounded`, `landmark:1d`, `landmark:day`. The default
    /// is `24h`, and `unbounded` for kinds bloom and stable
    #[arg(long, allow_hyphen_values = true)]
    pub window: Option<Window>,
    /// Kind of filter. Without it, all kinds with such a window are compared. With several nodes, the plan is for the
    /// kind that `dedup` would choose
    #[arg(long, value_enum)]
    pub kind: Option<KindArg>,
    /// How late a record may come and still be judged exactly. The default is an eighth of the window for kind timing,
    /// where lateness takes no memory, and 0 for the other kinds
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms, allow_hyphen_values = true)]
    pub lateness: Option<u64>,
    /// Number of ticks in the window of kind cuckoo (`dedup --help`)
    #[arg(long, value_name = "N")]
    pub ticks: Option<u32>,
    /// Spread the filter over this number of nodes, with one slice each
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// Further copies of each slice, on other nodes. Without `--nodes`, the plan is for three nodes, or for one more
    /// than the copies if that is more
    #[arg(long, value_name = "COPIES")]
    pub copies: Option<u32>,
    /// Total number of copies of each slice, including the first: `--replicas 2` is the same as `--copies 1`
    #[arg(long, value_name = "REPLICAS", conflicts_with = "copies", value_parser = clap::value_parser!(u32).range(1..))]
    pub replicas: Option<u32>,
    /// Number of nodes that fail at the same time. Events of their slices are then reported as duplicates, or the plan
    /// has copies of the slices, if too many events would be
    #[arg(long, value_name = "F", conflicts_with_all = ["copies", "replicas"])]
    pub failures: Option<u32>,
    /// Highest acceptable rate of false positives while these nodes are down. The default is ten times `--fpr`
    #[arg(long, alias = "failures-fpr", value_name = "RATE", requires = "failures", allow_negative_numbers = true)]
    pub max_fpr: Option<f64>,
    /// Draw memory against the rate of false positives into this file, for each kind or for the kind of `--kind`
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Print the plan as one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The plan that is printed.
#[derive(Debug, Serialize)]
struct Plan {
    /// Load that the user asked for, in events per window.
    events_per_window: u64,
    fpr: f64,
    window: Window,
    /// Machines to buy. The first entry is the recommendation, and the other entries are alternatives.
    buy: Vec<Machines>,
    /// Kind of filter that the machines are planned for.
    buy_kind: Kind,
    /// The recommended filter among the compared filters.
    #[serde(skip_serializing_if = "Option::is_none")]
    recommended: Option<Recommended>,
    /// The planned filter, or all compared filters.
    filters: Vec<Costs>,
    /// Kinds that are impossible at this size.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<Refused>,
    /// Alternatives to a filter, for comparison.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    references: Vec<Reference>,
    /// Plan over several nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    spread: Option<Spread>,
    /// Command that creates the filter on these nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    create: Option<String>,
}

/// A kind that is impossible, with the reason.
#[derive(Debug, Serialize)]
struct Refused {
    kind: Kind,
    reason: String,
}

impl PlanArgs {
    /// Returns the number of further copies of each slice, if it is not 0.
    fn copies(&self) -> Option<u32> {
        self.copies.or(self.replicas.map(|replicas| replicas - 1)).filter(|copies| *copies > 0)
    }

    /// Returns the number of nodes. If only copies are given, this is the smallest cluster that continues when one node
    /// fails.
    fn nodes(&self) -> Option<u32> {
        self.nodes.or(self.copies().map(|copies| MACHINES.max(copies.saturating_add(1))))
    }
}

/// Computes a plan, and prints it to `out`.
///
/// # Errors
/// Returns a [`UsageError`] if the plan is impossible, or the errors of `out`.
pub fn run(args: &PlanArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let plan = match args.kind {
        Some(kind) => one_kind(args, kind.into())?,
        None if args.nodes().is_some() || args.failures.is_some() => {
            one_kind(args, chosen(args, slicing(args.nodes())?)?)?
        }
        None => all_kinds(args)?,
    };
    if let Some(path) = &args.plot {
        #[cfg(feature = "full")]
        plot::draw(args, &plan.window, args.kind.map(Kind::from), path)?;
        #[cfg(not(feature = "full"))]
        return Err(refused(format!(
            "this build of firstseen draws no pictures, so {} was not written: {}",
            path.display(),
            crate::left_out::FULL_BUILD
        )));
    }
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &plan)?;
        writeln!(out)?;
    } else {
        text::write(&plan, out)?;
    }
    Ok(out.flush()?)
}

/// Returns the kind that `dedup` or `filter create` would choose.
fn chosen(args: &PlanArgs, slicing: Slicing) -> anyhow::Result<Kind> {
    let window = args.window.clone().unwrap_or(DEFAULT_WINDOW);
    Ok(default_kind(&spec(args, Kind::Bloom, window)?, slicing))
}

/// Returns a slicing with one slice per node.
fn slicing(nodes: Option<u32>) -> anyhow::Result<Slicing> {
    match nodes.and_then(NonZeroU32::new) {
        None | Some(NonZeroU32::MIN) => Ok(Slicing::NONE),
        Some(nodes) => Slicing::new(Cut::Horizontal(nodes)).map_err(refused),
    }
}

/// Checks that there are enough nodes for the copies of a slice, because each copy is on another node.
fn check_copies(args: &PlanArgs) -> anyhow::Result<()> {
    let Some(copies) = args.copies() else { return Ok(()) };
    let Some(nodes) = args.nodes() else { return Ok(()) };
    let further_max = FURTHER_COPIES_MAX;
    if copies > further_max {
        return Err(refused(format!(
            "{copies} further copies of each slice: a filter can have {further_max} at most (--copies {further_max} is \
             --replicas {})",
            further_max + 1
        )));
    }
    if copies >= nodes {
        return Err(refused(format!(
            "{copies} further copies of each slice on {nodes} node{}: every copy needs a node of its own, so choose at \
             least {} nodes (--nodes) or fewer copies (--copies)",
            if nodes == 1 { "" } else { "s" },
            copies.saturating_add(1)
        )));
    }
    Ok(())
}

fn one_kind(args: &PlanArgs, kind: Kind) -> anyhow::Result<Plan> {
    check_copies(args)?;
    let window = args.window.clone().unwrap_or(kind.default_window());
    let spec = spec(args, kind, window)?;
    let costs = Costs::of(&spec).map_err(refused)?;
    let mut spread = Spread::of(&spec, args.nodes(), args.failures, args.max_fpr).map_err(refused)?;
    let nodes = args.nodes().and_then(NonZeroU32::new);
    let survives = match args.copies().or(spread.as_ref().and_then(Spread::copies)) {
        Some(copies) => Survives::ByCopies(copies),
        None if args.failures.is_some() => Survives::AsDuplicate,
        None => Survives::AsUsual,
    };
    let copies = if let Survives::ByCopies(copies) = survives { copies } else { 0 };
    if let Some(spread) = &mut spread {
        spread.planned_copies = copies;
    }
    let buy = Machines::choices(&spec, args.nodes(), copies).map_err(refused)?;
    let create = nodes.map(|nodes| create::command(&spec, nodes, survives)).transpose().map_err(refused)?;
    Ok(Plan {
        events_per_window: costs.events_per_window,
        fpr: args.fpr,
        window: spec.window,
        buy,
        buy_kind: kind,
        recommended: None,
        filters: vec![costs],
        refused: Vec::new(),
        references: Vec::new(),
        spread,
        create,
    })
}

fn all_kinds(args: &PlanArgs) -> anyhow::Result<Plan> {
    let window = args.window.clone().unwrap_or(DEFAULT_WINDOW);
    let mut filters = Vec::new();
    let mut cannot = Vec::new();
    for (kind, kinds_window) in kinds_for(&window) {
        let asked = compared(args, kind, kinds_window)?;
        match Costs::of(&asked) {
            Ok(costs) => filters.push((asked, costs)),
            Err(error) => cannot.push(Refused { kind, reason: error.to_string() }),
        }
    }
    let usual = chosen(args, Slicing::NONE)?;
    // If the preferred kind is impossible, a kind with the same window is used.
    let preferred = filters.iter().find(|(spec, _)| spec.kind == usual);
    let Some((asked, _)) = preferred.or_else(|| filters.iter().find(|(spec, _)| spec.window == window)) else {
        let reason = cannot.into_iter().next().map(|refused: Refused| refused.reason);
        return Err(refused(reason.unwrap_or_else(|| format!("no kind has a window `{window}`"))));
    };
    let events_per_window = asked.capacity_events.unwrap_or(0);
    let buy = Machines::choices(asked, None, 0).map_err(refused)?;
    let create = match buy.first().and_then(|first| Some((NonZeroU32::new(first.machines)?, first.copies))) {
        Some((nodes, copies)) if copies > 0 => {
            Some(create::command(asked, nodes, Survives::ByCopies(copies)).map_err(refused)?)
        }
        _ => None,
    };
    Ok(Plan {
        events_per_window,
        fpr: args.fpr,
        buy,
        buy_kind: asked.kind,
        recommended: Some(Recommended::of(asked)),
        window,
        filters: filters.into_iter().map(|(_, costs)| costs).collect(),
        refused: cannot,
        references: memory::references(events_per_window),
        spread: None,
        create,
    })
}

/// Returns the specification for one of the compared kinds, without the settings that this kind does not have.
fn compared(args: &PlanArgs, kind: Kind, window: Window) -> anyhow::Result<FilterSpec> {
    let asked = spec(args, kind, window)?;
    Ok(FilterSpec {
        lateness_ms: asked.lateness_ms.filter(|_| matches!(kind.default_window(), Window::Duration(_))),
        ticks: asked.ticks.filter(|_| kind.can(Ability::Ticks)),
        ..asked
    })
}

/// Default window: one day.
const DEFAULT_WINDOW: Window = Kind::Timing.default_window();

/// Returns the kinds that support `window`, each with its own window that comes nearest. Kinds that need less memory
/// come first.
fn kinds_for(window: &Window) -> Vec<(Kind, Window)> {
    let mut kinds: Vec<(Kind, Window)> =
        Kind::ALL.into_iter().filter_map(|kind| Some((kind, kind.nearest_window(window)?))).collect();
    kinds.sort_by(|(one, _), (other, _)| one.bits_per_event().total_cmp(&other.bits_per_event()));
    kinds
}

fn spec(args: &PlanArgs, kind: Kind, window: Window) -> anyhow::Result<FilterSpec> {
    let asked = match args.rate {
        Some(rate) => Some(events_of(rate, &window)?),
        None => args.capacity.map(|Count(events)| events),
    };
    let counted = match window {
        Window::Events(events) | Window::LandmarkEvents(events) => Some(events),
        _ => None,
    };
    let events = match (asked, counted) {
        (Some(asked), Some(counted)) if asked != counted => {
            return Err(refused(format!(
                "window `{window}` brings {counted} events, not {asked}: leave --capacity out"
            )));
        }
        (Some(events), _) | (None, Some(events)) => events,
        (None, None) => {
            return Err(refused(
                "how many events does a window bring? Say so with --capacity, such as 10M, or with --rate, such as 1G/day",
            ));
        }
    };
    Ok(FilterSpec {
        rate: args.fpr,
        capacity_events: Some(events),
        lateness_ms: args.lateness,
        ticks: args.ticks,
        ..FilterSpec::new(kind, window)
    })
}

/// Returns the number of events in a window at this load.
fn events_of(rate: EventRate, window: &Window) -> anyhow::Result<u64> {
    match window {
        Window::Duration(window_ms) | Window::LandmarkDuration(window_ms) => Ok(rate.events_in(*window_ms).max(1)),
        _ => Err(refused(format!(
            "window `{window}` is no time, so {rate} does not say how many events it brings: say so with --capacity"
        ))),
    }
}

fn refused(reason: impl Display) -> anyhow::Error {
    UsageError(reason.to_string()).into()
}
