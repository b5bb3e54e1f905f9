//! Implements `firstseen filter alter`, which changes the definition of a filter, for example its capacity. The cluster
//! creates a new filter of the same name, and the present filter becomes its predecessor. Lookups ask the predecessor
//! first until all its events have expired, so no event is forgotten by the change.
//!
//! # Guarantees
//!
//! - Window, rate, kind, slicing, lateness and ticks stay as the user originally specified them, unless a flag changes
//!   them. This holds for any number of alterations, and across all sliding kinds.
//! - A filter of kind cuckoo becomes a filter of kind timing if fingerprints cannot provide the requested settings.
//! - The command prints the new definition. With `--plan` it changes nothing.
//!
//! This module does not depend on how both filters are asked about an event.

use std::io::Write;

use anyhow::Context;
use clap::Args;
use firstseen_embedded::lateness_default_ms;
use firstseen_filter::{Ability, Asked, FilterSpec, GrowthSpec, Lateness, Limit, SpecError, Unit, Window, duration};
use firstseen_routing::{
    ClockSource, ClusterMap, DefinitionError, FilterId, FilterRecord, NodeId, SlicedDefinition, Slicing,
};
use firstseen_wire::map::{definition_json, filter_record};
use firstseen_wire::proto::admin::{AlterFilterReply, AlterFilterRequest, FinishAlterationRequest};
use serde::Serialize;
use tokio::time::{Duration, sleep};

use super::{ClusterAddresses, agreed, create, find, forgets_after_ms};
use crate::cluster::claims;
use crate::cluster::connect::{Operator, fresh_id};
use crate::cluster::{self, ClusterStatus};
use crate::exit::UsageError;
use crate::flags::filter::{GrowthArg, KindArg, parse_duration_ms};
use crate::report::describe::describe;
use crate::text::lines::folded;
use crate::text::size::{ByteSize, Count, rate};

/// Interval in which the nodes are asked whether their in-flight events have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Number of intervals after which nodes whose in-flight events have not ended are named.
const PATIENCE_ASKS: u32 = 50;

/// Flags of `firstseen filter alter`.
#[derive(Debug, Args)]
pub struct AlterArgs {
    /// Name of the filter
    pub name: String,
    /// Flags that say how to connect to the cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
    /// Flags that say what changes.
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Only print the result
    #[arg(long, conflicts_with_all = ["finish", "no_wait"])]
    pub plan: bool,
    /// Do not wait until the new filter is in use
    #[arg(long, conflicts_with = "finish")]
    pub no_wait: bool,
    /// End an alteration now: events that only the predecessor remembers are first-seen again
    #[arg(long, conflicts_with_all = [
        "window", "capacity", "fpr", "memory", "kind", "slicing", "lateness", "growth", "ticks", "new_secret", "seed",
    ])]
    pub finish: bool,
    /// End it without asking for confirmation
    #[arg(long, requires = "finish")]
    pub yes: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Flags that say what changes. Settings without a flag stay as they are.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filter")]
pub struct ChangeArgs {
    /// How long a key counts as seen from now on: `24h`, `landmark:1d`, ... (filter create)
    #[arg(long, allow_hyphen_values = true)]
    pub window: Option<String>,
    /// Number of events in one window (`10M`)
    #[arg(long, value_name = "EVENTS", allow_negative_numbers = true)]
    pub capacity: Option<Count>,
    /// Highest acceptable rate of false positives
    #[arg(long, value_name = "RATE", allow_negative_numbers = true, value_parser = rate)]
    pub fpr: Option<f64>,
    /// Memory for the cells instead of a capacity (`64MiB`)
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, conflicts_with = "capacity")]
    pub memory: Option<ByteSize>,
    /// Kind of filter: bloom, timing, generations or cuckoo. The default is the present kind
    #[arg(long, value_enum)]
    pub kind: Option<KindArg>,
    /// How the filter is cut into slices: none, horizontal:S, vertical:S, ... (filter create)
    #[arg(long)]
    pub slicing: Option<Slicing>,
    /// How late a record may come and still be judged exactly. The default is the present lateness, or the lateness of
    /// a new filter if the window changes
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms, allow_hyphen_values = true)]
    pub lateness: Option<u64>,
    /// Number of ticks in the window of kind cuckoo. The default is the present number, even if the filter had another
    /// sliding kind meanwhile
    #[arg(long, value_name = "N")]
    pub ticks: Option<u32>,
    /// How the filter grows beyond its capacity: none, equal:N. The default is the growth of a new filter
    #[arg(long, value_name = "RULE")]
    pub growth: Option<GrowthArg>,
    /// Hash events with a new secret, which clients and `firstseen dedup` get without a restart. Producers that send
    /// digests (`observe_digests` of the Rust client) get `altered` for new events, until the predecessor is removed
    /// and they open the filter again
    #[arg(long)]
    pub new_secret: bool,
    /// Seed of the secret that `--new-secret` creates. The default is a random seed
    #[arg(long)]
    pub seed: Option<u64>,
}

impl ChangeArgs {
    fn redefines(&self) -> bool {
        let Self { window, capacity, fpr, memory, kind, slicing, lateness, growth, ticks, .. } = self;
        let of_size = capacity.is_some() || fpr.is_some() || memory.is_some() || growth.is_some() || ticks.is_some();
        of_size || window.is_some() || kind.is_some() || slicing.is_some() || lateness.is_some()
    }

    /// Returns the definition of the new filter. Flags determine the settings that change, and all other settings are
    /// taken from `record`, which describes the present filter. `skew_max_ms` is the maximum difference in milliseconds
    /// between the clocks of the nodes.
    fn definition(&self, name: &str, record: &FilterRecord, skew_max_ms: u64) -> anyhow::Result<SlicedDefinition> {
        let old = &record.definition;
        if !self.redefines() {
            return Ok(old.clone());
        }
        let window = match &self.window {
            None => old.group.window.clone(),
            Some(window) => {
                window.parse().map_err(|error: firstseen_filter::WindowError| UsageError(error.to_string()))?
            }
        };
        let horizon_ms = u64::from(record.policies.retry_horizon_ms);
        if forgets_after_ms(&window) < horizon_ms {
            return Err(UsageError(format!(
                "filter `{name}` knows retries for {}, and a retry after a window of {window} would find its event forgotten: choose a \
                 window that is no shorter, or make another filter",
                duration(horizon_ms)
            ))
            .into());
        }
        // The capacity of a single slice group is known exactly. Several groups have additional room for the random
        // variation of their shares.
        let known = old.group.capacity_events.filter(|_| old.slicing.groups() == 1 && self.window.is_none());
        let capacity_events = self.capacity.map(|Count(events)| events).or(known.filter(|_| self.memory.is_none()));
        if capacity_events.is_none() && self.memory.is_none() {
            return Err(UsageError(format!(
                "say how many events a window of filter `{name}` brings from now on: --capacity 10M (or --memory)"
            ))
            .into());
        }
        let growth = self.growth.map(|rule| GrowthSpec {
            limit: Limit::Cardinality,
            generations_max: rule.generations_max,
            ratio: rule.ratio,
        });
        let kept = Kept::of(record, &window, self.window.is_some(), skew_max_ms);
        let ticks = self.ticks.or(kept.ticks);
        let kind = self.kind.map_or_else(|| old.group.cells.kind(), Into::into);
        let spec = FilterSpec {
            rate: self.fpr.unwrap_or(old.group.rate),
            capacity_events,
            memory_bytes: self.memory.map(|ByteSize(bytes)| bytes),
            lateness_ms: self.lateness.or(kept.lateness_ms),
            clock_skew_ms: kept.clock_skew_ms,
            future_max_ms: kept.future_max_ms,
            growth,
            ticks: self.ticks.or(ticks.filter(|_| kind.can(Ability::Ticks))),
            ..FilterSpec::new(kind, window)
        };
        let slicing = self.slicing.unwrap_or(old.slicing);
        let mut definition = SlicedDefinition::new(&spec, slicing)
            .or_else(|refusal| match &refusal {
                // With fewer ticks, fingerprints can provide the requested settings.
                DefinitionError::Spec(SpecError::Reach { .. }) if spec.ticks.is_some() => Err(refusal),
                _ => self.of_fallback(&spec, slicing).ok_or(refusal),
            })
            .map_err(|error| UsageError(error.to_string()))?;
        if let Some(asked) = definition.group.cells.asked_mut() {
            // Another kind has no ticks. The number is kept for a later alteration back to fingerprints.
            asked.ticks = ticks;
        }
        if definition.group.one_shape() {
            Ok(definition)
        } else {
            Err(UsageError(format!(
                "filter `{name}` would grow to other shapes, which a filter of a cluster cannot: use --growth equal:N"
            ))
            .into())
        }
    }
}

impl ChangeArgs {
    /// Returns the filter of the fallback kind, if no flag names a kind and the fallback kind can provide the requested
    /// settings.
    fn of_fallback(&self, spec: &FilterSpec, slicing: Slicing) -> Option<SlicedDefinition> {
        if self.kind.is_some() || self.ticks.is_some() {
            return None;
        }
        let kind = spec.kind.properties().fallback?;
        SlicedDefinition::new(&FilterSpec { kind, ticks: None, ..spec.clone() }, slicing).ok()
    }
}

/// Settings that stay if no flag changes them.
struct Kept {
    /// Lateness as the user specified it. The effective lateness is rounded up to the ticks of a filter, so it would
    /// grow with each alteration.
    lateness_ms: Option<u64>,
    /// Number of ticks that the user specified.
    ticks: Option<u32>,
    /// Additional time in milliseconds for which the filter keeps events after their window has ended. If the nodes
    /// stamp the events, a filter needs this time, because the clocks of the nodes differ. The value is the greater of
    /// two times: the time that the user specified for the present filter, and the maximum clock difference of the
    /// cluster.
    clock_skew_ms: u64,
    /// How far ahead an event's time may be and still advance the clock without confirmation, from the flag or derived
    /// from the window.
    future_max_ms: u64,
}

impl Kept {
    fn of(record: &FilterRecord, window: &Window, has_new_window: bool, skew_max_ms: u64) -> Self {
        let group = &record.definition.group;
        let skew_ms =
            |kept_ms: u64| if record.policies.clock == ClockSource::Wall { kept_ms.max(skew_max_ms) } else { 0 };
        let future_max_ms = if group.future_max_ms == group.window.future_default_ms() {
            window.future_default_ms()
        } else {
            group.future_max_ms
        };
        let Asked { ticks, lateness_ms, clock_skew_ms } = group.cells.asked();
        let (Window::Duration(window_ms), Unit::Milliseconds(unit_ms)) = (&group.window, &group.unit) else {
            return Self { lateness_ms: None, ticks, clock_skew_ms: skew_ms(0), future_max_ms };
        };
        let lateness_units = group.rule.lateness_units;
        // If lateness costs memory, the new filter has lateness only if the present filter has it.
        let takes_memory = group.cells.kind().properties().lateness == Lateness::TakesMemory;
        let has_lateness = takes_memory && lateness_units > 0;
        let lateness_ms = if has_new_window {
            lateness_default_ms(window).filter(|_| has_lateness)
        } else {
            lateness_ms.or(Some(lateness_units.saturating_mul(*unit_ms)))
        };
        let kept_ms = group.rule.span_units.saturating_sub(1).saturating_mul(*unit_ms);
        let clock_skew_ms = skew_ms(clock_skew_ms.unwrap_or(kept_ms.saturating_sub(*window_ms)));
        Self { lateness_ms, ticks, clock_skew_ms, future_max_ms }
    }
}

/// The JSON document. Its field names do not change between releases.
#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    number: FilterId,
    former_number: FilterId,
    before: &'a SlicedDefinition,
    definition: &'a SlicedDefinition,
    new_secret: bool,
    /// Memory of the new filter's cells, in addition to the memory of its predecessor.
    cells_bytes: u64,
    /// Minimum time by its clock that the predecessor stays. `None` means that its window is not measured in
    /// milliseconds.
    former_ms: Option<u64>,
    /// Whether the filter has been altered.
    done: bool,
    /// Whether all nodes have ended the events that were in flight before the alteration.
    opened: bool,
}

/// Runs `firstseen filter alter`.
pub(super) async fn run(args: &AlterArgs, operator: &Operator, out: &mut dyn Write) -> anyhow::Result<()> {
    if args.change.seed.is_some() && !args.change.new_secret {
        return Err(UsageError(format!(
            "--seed is that of a new secret, and filter `{}` would keep its own: add --new-secret to hash events anew, or leave \
             out --seed",
            args.name
        ))
        .into());
    }
    if !args.finish && !args.change.redefines() && !args.change.new_secret {
        return Err(UsageError(format!(
            "filter `{}` is not altered: no flag says what changes; give one or more of --window, --capacity, --fpr, \
             --memory, --kind, --slicing, --lateness, --ticks, --growth and --new-secret, or --finish to end an alteration",
            args.name
        ))
        .into());
    }
    let ClusterStatus { map, clock_skew_max_ms, .. } = cluster::status::ask(operator).await?;
    let (number, filter) = find(&map, &args.name)?;
    if args.finish {
        return finish(args, operator, &map, number, out).await;
    }
    let definition = args.change.definition(&args.name, filter, clock_skew_max_ms)?;
    let request = AlterFilterRequest {
        command_id: fresh_id().into(),
        name: args.name.clone(),
        filter_id: number.0,
        definition_json: definition_json(&definition),
        new_secret: args.change.new_secret,
        secret: args.change.seed.map(create::secret).unwrap_or_default().into(),
        plan: args.plan,
        forgets: false,
    };
    let reply = operator.call(async |mut client| client.alter_filter(request.clone()).await).await?;
    let AlterFilterReply { filter: altered, awaited_nodes, cells_bytes } = reply;
    let (follower, _) = filter_record(altered.context("the node does not say what it made")?)?;
    let mut document = Document {
        name: &args.name,
        number: follower,
        former_number: number,
        before: &filter.definition,
        definition: &definition,
        new_secret: args.change.new_secret,
        cells_bytes,
        former_ms: stays_ms(filter),
        done: !args.plan,
        opened: false,
    };
    if !args.json {
        print(&document, filter, out)?;
    }
    if !args.plan {
        print_awaited(&map, &awaited_nodes);
        document.opened = !args.no_wait && wait(operator, follower).await?;
    }
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?;
    } else {
        let said = match (args.plan, document.opened) {
            (true, _) => "nothing is altered: leave out --plan".to_owned(),
            (_, true) => format!("altered: `firstseen filter describe {}` shows how long both filters stay", args.name),
            (_, false) => format!("under way: `firstseen filter describe {}` shows how far it has come", args.name),
        };
        writeln!(out, "{said}")?;
    }
    Ok(())
}

/// Prints the new definition, and how long the predecessor stays.
fn print(document: &Document<'_>, filter: &FilterRecord, out: &mut dyn Write) -> anyhow::Result<()> {
    let Document { name, number, before, definition, cells_bytes, .. } = document;
    writeln!(out, "filter {name}, number {number}")?;
    let mut lines = vec![
        format!("before   {}, window {}", describe(before), before.group.window),
        format!("then     {}, window {}", describe(definition), definition.group.window),
        format!("memory   {} at most, in addition to that of the former filter", ByteSize(*cells_bytes)),
        format!(
            "former   asked first, and dropped once its events have expired by its clock (window {} and lateness), and \
             retries of {} have ended",
            before.group.window,
            duration(filter.policies.retry_horizon_ms.into())
        ),
    ];
    if document.new_secret {
        lines.push(
            "secret   a new one: producers that hash events themselves (`Batch::hashed` of the client crate) are \
             asked to hash by it, and get `altered` for new events that they do not hash by it"
                .to_owned(),
        );
    }
    for line in lines {
        writeln!(out, "{}", folded(&line, "memory   ".len()))?;
    }
    Ok(())
}

/// Returns the minimum time by its clock that the predecessor stays.
fn stays_ms(filter: &FilterRecord) -> Option<u64> {
    let group = &filter.definition.group;
    match group.unit {
        Unit::Milliseconds(unit_ms) => {
            let units = group.rule.span_units.saturating_add(group.rule.lateness_units);
            Some(units.saturating_mul(unit_ms).saturating_add(filter.policies.retry_horizon_ms.into()))
        }
        _ => None,
    }
}

fn print_awaited(map: &ClusterMap, nodes: &[u64]) {
    let name =
        |number: &u64| map.nodes.get(&NodeId(*number)).map_or_else(|| number.to_string(), |node| node.name.clone());
    let names: Vec<String> = nodes.iter().map(name).collect();
    if !names.is_empty() {
        notice!(
            "firstseen: {} may still have events in flight, and cannot be reached: new events are undecided (`not_ready`) \
             until they are back, or are drained (`firstseen cluster drain`), or the former filter is given up (`firstseen \
             filter alter --finish`)",
            names.join(", ")
        );
    }
}

/// Waits until all nodes have ended their in-flight events. Returns false if a node takes too long.
async fn wait(operator: &Operator, follower: FilterId) -> anyhow::Result<bool> {
    for _ in 0..PATIENCE_ASKS {
        let map = cluster::status::ask(operator).await?.map;
        let closed = map.former_of(follower).and_then(|(_, former)| former.line.closed.clone());
        match closed {
            Some(closed) if !closed.has_ended() => sleep(POLL_INTERVAL).await,
            _ => return Ok(true),
        }
    }
    Ok(false)
}

async fn finish(
    args: &AlterArgs,
    operator: &Operator,
    map: &ClusterMap,
    number: FilterId,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let Some((former, record)) = map.former_of(number) else {
        return Err(UsageError(format!(
            "filter `{}` is not being altered: there is no former filter, or it has gone",
            args.name
        ))
        .into());
    };
    let cost = claims::cost(operator, map, record).await;
    let what = format!("filter `{}`: what only the former filter remembers is first-seen again{cost}", args.name);
    agreed(args.yes, &what)?;
    let request = FinishAlterationRequest { command_id: fresh_id().into(), name: args.name.clone() };
    operator.call(async |mut client| client.finish_alteration(request.clone()).await).await?;
    if args.json {
        writeln!(out, "{}", serde_json::json!({ "name": args.name, "number": number, "finished": former }))?
    } else {
        writeln!(out, "the former filter of {}, number {former}, is gone", args.name)?
    }
    Ok(())
}

#[cfg(test)]
mod tests;
