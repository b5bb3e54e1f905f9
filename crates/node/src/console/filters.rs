//! Creates the description of one filter in the console's overview. The description depends only on the cluster map and
//! on the status samples of the nodes, so the same input always gives the same description. A sum over the nodes of the
//! filter is `None` if none of these nodes has answered.

use std::collections::BTreeMap;

use firstseen_filter::Growth;
use firstseen_routing::{Branch, ClusterMap, FilterId, FilterRecord, SlicedDefinition};
use firstseen_wire::proto::peer::FilterSample;

use super::history::rounded;
use super::overview::{ClaimsLine, FilterLine, SliceCounts, Undecided, Verdicts, is_harmless};
use super::rates::{Counted, RecentSamples, quantile_ms, undecided};
use super::sample::reason_of;

/// Creates the description of a filter.
pub(super) fn line(map: &ClusterMap, said: &RecentSamples, id: FilterId, record: &FilterRecord) -> FilterLine {
    let definition = &record.definition;
    let nodes = record.nodes();
    let counted: Vec<Counted<'_>> = nodes.iter().filter_map(|node| said.filter(*node, id.0)).collect();
    let silent = nodes.iter().filter(|node| said.of(**node).is_none());
    let silent_nodes = silent.map(|node| map.node_name(*node).to_owned());
    let (live_events, full) = fullness(definition, &counted);
    let latencies = latencies(&counted);
    FilterLine {
        name: record.name.clone(),
        number: id.0,
        kind: definition.group.cells.kind().to_string(),
        window: definition.group.window.to_string(),
        slicing: definition.slicing.to_string(),
        capacity_events: group_capacity_events(definition)
            .map(|events| events.saturating_mul(definition.slicing.groups().into())),
        live_events,
        // A filter that was replaced by another one records no more events.
        full: full.filter(|_| record.line.closed.is_none()),
        made_for_rate: definition.group.rate,
        expected_rate: counted.iter().map(|it| it.now.expected_rate_max).reduce(f64::max),
        measured_rate: measured_rate(&counted),
        verdicts: verdicts(&counted, record.line.closed.is_some()),
        p50_ms: quantile_ms(&latencies, 0.5).map(rounded),
        p99_ms: quantile_ms(&latencies, 0.99).map(rounded),
        slices: slices(map, record),
        silent_nodes: silent_nodes.collect(),
        claims: claims(record, &counted),
        history: None,
    }
}

/// Returns the number of events that a slice group has room for. Returns `None` if only the memory of the filter was
/// given.
fn group_capacity_events(definition: &SlicedDefinition) -> Option<u64> {
    let Growth { capacity_events, generations_max, .. } = definition.group.cells.growth()?;
    Some(capacity_events.saturating_mul(u64::from((*generations_max).max(1))))
}

/// Returns the number of events that have not expired, and the fullness of the fullest slice.
fn fullness(definition: &SlicedDefinition, counted: &[Counted<'_>]) -> (Option<u64>, Option<f64>) {
    let slices: u64 = counted.iter().map(|it| u64::from(it.now.counting_slices)).sum();
    let events: u64 = counted.iter().map(|it| it.now.live_events).sum();
    let most = counted.iter().map(|it| it.now.live_events_max).max().unwrap_or(0);
    if slices == 0 {
        return (None, None);
    }
    // If slices divide the positions of an event, each slice counts the events that have a position in it.
    let per_group = definition.slicing.slices_per_group().max(1);
    let hashes = definition.group.cells.geometry().map_or(1, |geometry| geometry.hashes());
    let share = match per_group {
        1 => 1.0,
        per_group => 1.0 - (1.0 - 1.0 / f64::from(per_group)).powf(f64::from(hashes)),
    };
    let live_events = match per_group {
        1 => events,
        _ => (events as f64 / slices as f64 / share * f64::from(definition.slicing.groups())).round() as u64,
    };
    let capacity = group_capacity_events(definition).filter(|capacity| *capacity > 0);
    let full = capacity.map(|capacity| most as f64 / share / capacity as f64);
    (Some(live_events), full.map(|full| (full * 1e4).round() / 1e4))
}

/// Returns the measured false-positive rate of a filter. Producers that audit the filter know which of their keys occur
/// for the first time, and report how many of these keys were wrongly called duplicates. The rate is the share of such
/// errors among the audited keys. Returns `None` if no producer audits the filter.
fn measured_rate(counted: &[Counted<'_>]) -> Option<f64> {
    let tests: u64 = counted.iter().map(|it| it.now.audited_tests).sum();
    let errors: u64 = counted.iter().map(|it| it.now.audited_false_positives).sum();
    (tests > 0).then(|| errors as f64 / tests as f64)
}

fn latencies(counted: &[Counted<'_>]) -> Vec<u64> {
    let mut sums: Vec<u64> = Vec::new();
    for batches in counted.iter().filter(|it| it.has_window()).map(Counted::latencies) {
        sums.resize(sums.len().max(batches.len()), 0);
        sums.iter_mut().zip(batches).for_each(|(sum, batches)| *sum += batches);
    }
    sums
}

/// Reason that an altered filter gives while a node has not learned about its successor. The callers then ask the
/// successor.
const NOT_READY: &str = "not_ready";

/// Returns whether the reason with this number is harmless. A reason that this version does not know is not harmless.
fn is_usual_number(number: u64, is_former: bool) -> bool {
    reason_of(number).is_some_and(|reason| is_usual(&reason, is_former))
}

/// Returns whether a reason does not indicate a problem of the cluster. `is_former` says whether the filter was
/// replaced by another one.
fn is_usual(reason: &str, is_former: bool) -> bool {
    is_harmless(reason) || is_former && reason == NOT_READY
}

/// Returns how fast a counter rises per second, summed over the nodes whose rate is known.
pub(super) fn rate(counted: &[Counted<'_>], count: impl Fn(&FilterSample) -> u64) -> Option<f64> {
    counted.iter().filter_map(|it| it.per_s(&count)).reduce(|sum, rate| sum + rate).map(rounded)
}

/// Returns the number of undecided events whose reason has a number for which `is_meant` holds.
fn undecided_for(sample: &FilterSample, is_meant: impl Fn(u64) -> bool) -> u64 {
    undecided(sample).filter(|(number, _)| is_meant(*number)).map(|(_, events)| events).sum()
}

fn verdicts(counted: &[Counted<'_>], is_former: bool) -> Verdicts {
    let mut reasons: BTreeMap<u64, u64> = BTreeMap::new();
    for (reason, events) in counted.iter().flat_map(|it| undecided(it.now)) {
        *reasons.entry(reason).or_default() += events;
    }
    let by_reason = reasons.into_iter().map(|(number, events)| {
        let reason = reason_of(number).unwrap_or_else(|| format!("reason_{number}"));
        let per_s = rate(counted, |sample| undecided_for(sample, |reason| reason == number));
        Undecided { harmless: is_usual(&reason, is_former), reason, per_s, events }
    });
    Verdicts {
        first_seen_per_s: rate(counted, |sample| sample.first_seen),
        duplicate_per_s: rate(counted, |sample| sample.duplicate),
        undecided_per_s: rate(counted, |sample| undecided_for(sample, |number| !is_usual_number(number, is_former))),
        undecided: by_reason.collect(),
    }
}

/// Returns the rates, in events per second, of the events that a tree level could not decide on its own and for which
/// it asked its parent level. The first rate counts the events for which the parent level replied "new" or "undecided".
/// The second rate counts the events for which it replied "duplicate".
///
/// Events that a tree level passes to its parent level are counted twice, once by each of the two levels. A caller that
/// adds up the verdicts of several levels must therefore subtract these rates, so that each event counts only once.
pub(super) fn climbed_per_s(said: &RecentSamples, id: FilterId, record: &FilterRecord) -> [f64; 2] {
    let mut rates = [0.0; 2];
    for counted in record.nodes().iter().filter_map(|node| said.filter(*node, id.0)) {
        let new =
            counted.per_s(|sample| sample.climbs.map_or(0, |climbs| climbs.events.saturating_sub(climbs.duplicate)));
        let known = counted.per_s(|sample| sample.climbs.map_or(0, |climbs| climbs.duplicate));
        rates[0] += new.unwrap_or(0.0);
        rates[1] += known.unwrap_or(0.0);
    }
    rates
}

/// Counts the slices by their state in the cluster map.
fn slices(map: &ClusterMap, record: &FilterRecord) -> SliceCounts {
    let mut counts = SliceCounts { all: record.owners.len() as u64, ..SliceCounts::default() };
    counts.moving = record.moves().count() as u64;
    for slice in 0..record.owners.len() as u32 {
        let mut settled = record.copies_of(slice).filter(|copy| record.arriving_since(slice, copy.node).is_none());
        if map.is_complete(record, slice) {
            counts.complete += 1;
            counts.copy_lacks += u64::from(settled.any(|copy| !map.is_complete_copy(copy)));
        } else if settled.all(|copy| map.is_gone(copy)) {
            counts.down += 1;
        } else {
            counts.set_only += 1;
        }
    }
    counts
}

/// In a filter tree, claims are held at the root.
fn claims(record: &FilterRecord, counted: &[Counted<'_>]) -> Option<ClaimsLine> {
    record.policies.claim_lease_max_ms.filter(|_| record.branch.as_ref().is_none_or(Branch::is_root))?;
    let held = counted.iter().filter_map(|it| it.now.claims);
    Some(held.fold(ClaimsLine::default(), |line, held| ClaimsLine {
        open: Some(line.open.unwrap_or(0) + held.open),
        bytes: Some(line.bytes.unwrap_or(0) + held.bytes),
        unsure_ms: line.unsure_ms.max(Some(held.unsure_ms)),
    }))
}
