//! Formats the description of a filter as text for users.

use std::fmt::Write as _;

use firstseen_filter::duration;
use firstseen_routing::{Durability, FilterPolicies, Thresholds, WhenLost};
use jiff::Timestamp;

use super::describe::{Description, Former, Owner, Slice, SliceHealth, Tree};
use crate::cluster::claims::pending;
use crate::cluster::places::{self, mode_name};
use crate::report::describe::describe as define;
use crate::text::lines::folded;
use crate::text::numbers::{grouped, rate};
use crate::text::size::ByteSize;
use crate::text::table::Table;

impl Description<'_> {
    /// Returns the description as text: one line for each fact, followed by a table of slices.
    pub(super) fn text(&self) -> String {
        let Self { name, number, epoch, definition, policies, tree, slices, nodes, .. } = self;
        let mut text = Facts::default();
        text.add("filter", format!("{name}, number {number}; epoch {epoch}, which rises when nodes go or come back"));
        text.add("definition", format!("{}, window {}", define(definition), definition.group.window));
        text.add("policies", answers(policies));
        if let Some(clock_ms) = nodes.iter().filter_map(|node| node.clock_ms).max() {
            text.add("clock", format!("{}, the greatest time of an event so far", time(clock_ms)));
        }
        text.add("durability", promise(policies.durability));
        if policies.copies > 0 {
            text.add("copies", format!("{} of each slice, on nodes of their own", policies.copies + 1));
        }
        // In a tree, claims are held by the nodes of the root.
        let has_claims = self.tree.is_none() || nodes.iter().any(|node| node.claims.is_some());
        if let Some(lease_max_ms) = policies.claim_lease_max_ms.filter(|_| has_claims) {
            text.add("claims", claims(lease_max_ms.get(), nodes));
        }
        text.add("slices down", thresholds(policies, definition.slicing.divides_cells()));
        if let Some(Tree { mode, place, places }) = tree {
            let levels = places.iter().map(|place| place.level).max().unwrap_or(0) + 1;
            let shape = format!("{}, {levels} levels, {} places", mode_name(*mode), places.len());
            text.add("tree", format!("{shape}; this is place {place}"));
        }
        if let Some(former) = &self.former {
            text.add("former", stays(former));
            if let Some(claims) = former.claims {
                text.add("", format!("claims there: {}", pending([("its head", claims)].into_iter())));
            }
        }
        if let Some(follower) = self.followed_by {
            text.add("closed", format!("number {follower} has replaced it, and is asked for events that are not here"));
        }
        text.add("memory", memory(slices, nodes));
        if !definition.slicing.divides_cells() {
            text.add("expected fpr", expected_fpr(slices));
        }
        for node in nodes {
            if let Some(error) = &node.error {
                text.add("no answer", format!("from {} ({}): {error}", node.node, node.address));
            }
        }
        let Facts(mut text) = text;
        if let Some(Tree { places, .. }) = tree {
            text += &format!("\n{}\n", places::table(places));
        }
        text.push_str(&table(slices));
        text + &notes(slices)
    }
}

/// Lines with a name and a fact each.
#[derive(Default)]
struct Facts(String);

impl Facts {
    fn add(&mut self, name: &str, fact: String) {
        let _ = writeln!(self.0, "{}", folded(&format!("{name:<14} {fact}"), 15));
    }
}

/// Returns how events are stamped, looked up and answered, as text.
fn answers(FilterPolicies { clock, lookup, answer, retry_horizon_ms, .. }: &FilterPolicies) -> String {
    let policies = format!("clock {clock:?}, lookup {lookup:?}, answer {answer:?}").to_lowercase();
    format!("{policies}, a retry is known for {}", duration(u64::from(*retry_horizon_ms)))
}

fn memory(slices: &[Slice<'_>], nodes: &[Owner<'_>]) -> String {
    let bytes = slices.iter().filter_map(|slice| slice.state.as_ref()).map(|state| state.bytes).sum();
    let guard_bytes = nodes.iter().map(|node| node.guard_bytes).sum();
    let per_second = nodes.iter().map(|node| node.guard_bytes_per_horizon_second).sum::<f64>().ceil() as u64;
    format!(
        "{} of cells, {} to know retries by ({} a second)",
        ByteSize(bytes),
        ByteSize(guard_bytes),
        ByteSize(per_second)
    )
}

/// Returns the mean false-positive rate of the slices that lookups ask, as text.
fn expected_fpr(slices: &[Slice<'_>]) -> String {
    let asked = slices.iter().filter(|slice| slice.asked).filter_map(|slice| slice.state.as_ref());
    let rates: Vec<f64> = asked.map(|state| state.expected_rate).collect();
    match rates.len() {
        0 => "unknown: no node has sent it for a slice".to_owned(),
        known => format!("{} over {known} slices", rate(rates.iter().sum::<f64>() / known as f64)),
    }
}

/// Returns the progress of an alteration, as text.
fn stays(former: &Former<'_>) -> String {
    let Former { name, number, awaited, expires_ms, not_passed, .. } = former;
    let what = format!("{name}, number {number}");
    match expires_ms {
        _ if !awaited.is_empty() => {
            let nodes = awaited.join(", ");
            format!("{what}, is asked first; new events wait until {nodes} have ended what they had in flight")
        }
        Some(expires_ms) => {
            let nodes = not_passed.join(", ");
            format!(
                "{what}, is asked first until its clock shows {} and retries are over (on {nodes})",
                time(*expires_ms)
            )
        }
        None => format!("{what}, is asked first until all its events have expired (on {})", not_passed.join(", ")),
    }
}

/// Returns how many events are claimed, and which nodes hold the claims, as text.
fn claims(lease_max_ms: u32, nodes: &[Owner<'_>]) -> String {
    let all = nodes.iter().filter_map(|node| Some((node.node, node.claims?)));
    format!("held for {} at most; {}", duration(lease_max_ms.into()), pending(all))
}

/// Returns which events survive the end of a process, as text.
fn promise(durability: Durability) -> String {
    match durability {
        Durability::Memory => "memory: a node that ends loses its slices".to_owned(),
        Durability::Interval { interval_ms } => {
            format!("interval: a crash loses at most the last {}", duration(interval_ms.into()))
        }
        Durability::Durable => "durable: every event whose reply was sent survives power loss of all nodes".to_owned(),
    }
}

/// Returns a time in milliseconds since 1970 as date and time.
fn time(time_ms: u64) -> String {
    let timestamp = i64::try_from(time_ms).ok().and_then(|time_ms| Timestamp::from_millisecond(time_ms).ok());
    timestamp.map_or_else(|| format!("{time_ms} ms"), |timestamp| timestamp.to_string())
}

/// Returns the number of available positions below which slices count as down, and the verdict in that case, as text.
fn thresholds(FilterPolicies { thresholds, when_lost, .. }: &FilterPolicies, shares_events: bool) -> String {
    let Thresholds { min_live, set_min } = thresholds;
    let needs = match min_live {
        0 => "a verdict needs half of the positions live".to_owned(),
        min_live => format!("a verdict needs {min_live} positions live"),
    };
    let duplicate = if *set_min > 0 { format!(", a duplicate {set_min} set") } else { String::new() };
    let lost = match when_lost {
        WhenLost::Undecided => "undecided",
        WhenLost::Duplicate => "a duplicate",
        WhenLost::FirstSeen => "decided by what is left",
    };
    if shares_events {
        format!("{needs}{duplicate}; otherwise an event that none denies is {lost}")
    } else {
        format!("an event whose slice is down is {lost}")
    }
}

fn table(slices: &[Slice<'_>]) -> String {
    let heading = ["slice", "node", "state", "start", "live", "fill", "fpr", "memory", "gens", "tested", "recorded"];
    let mut table = Table::new(&heading);
    for slice in slices {
        let number = match slice.copy {
            0 => slice.slice.to_string(),
            copy => format!("{} copy {copy}", slice.slice),
        };
        let of_map = [number, slice.node.to_owned(), state(slice).to_owned(), start(slice)];
        table.row(of_map.into_iter().chain(figures(slice.state.as_ref())));
    }
    table.text()
}

/// Returns the columns that only the node of a slice can report.
fn figures(state: Option<&SliceHealth>) -> [String; 7] {
    let Some(state) = state else { return std::array::from_fn(|_| "?".to_owned()) };
    [
        state.live_events.map_or_else(|| "-".to_owned(), grouped),
        state.fill.map_or_else(|| "-".to_owned(), |fill| format!("{:.1} %", 100.0 * fill)),
        rate(state.expected_rate),
        ByteSize(state.bytes).to_string(),
        state.generations.to_string(),
        grouped(state.test_visits),
        grouped(state.record_visits),
    ]
}

/// Returns the state of a slice in one or two words for the table. [`notes`] explains these words.
fn state(slice: &Slice<'_>) -> &'static str {
    match &slice.state {
        _ if slice.down => "down",
        _ if slice.missing => "missing",
        _ if slice.moves_from.is_some() => "moving",
        None => "unknown",
        Some(state) if !state.ready => "not ready",
        Some(_) if slice.complete => "complete",
        Some(_) => "set-only",
    }
}

/// Returns the start of the slice's node since which the slice has had this state.
fn start(slice: &Slice<'_>) -> String {
    match state(slice) {
        "complete" => slice.complete_since.to_string(),
        "set-only" => slice.node_start.to_string(),
        _ => "-".to_owned(),
    }
}

/// Returns the notes below the table, which explain its words and list facts about single slices.
fn notes(slices: &[Slice<'_>]) -> String {
    let mut notes = vec![
        "start: how often the node of a slice had been started when it began to have everything, or to be set-only; live: \
         events that count; gens: generations of cells"
            .to_owned(),
    ];
    for (word, meaning) in [
        ("down", "its node does not answer the others"),
        ("missing", "its node cannot hold it, see its log"),
        (
            "set-only",
            "events are recorded there, and what is not there says nothing until all that is missing has expired",
        ),
    ] {
        if slices.iter().any(|slice| state(slice) == word) {
            notes.push(format!("{word}: {meaning}"));
        }
    }
    for slice in slices {
        let number = slice.slice;
        let node = slice.node;
        if let (Some(from), "moving") = (slice.moves_from, state(slice)) {
            notes.push(format!("slice {number} is on its way from {from} to {node}"));
        }
        let from_ms = slice.state.as_ref().and_then(|state| state.complete_from_ms);
        if let (Some(from_ms), "set-only") = (from_ms, state(slice)) {
            notes.push(format!("slice {number} on {node} is set-only until {}", time(from_ms)));
        }
    }
    notes.iter().map(|note| folded(note, 2) + "\n").collect()
}
