//! Resolves the specification of a cuckoo filter into sizes. The false-positive rate determines the length of
//! fingerprints. The length of fingerprints determines how many ticks a bucket can distinguish. Both together determine
//! the number of buckets.

use super::resolve::{check as check_all, given_capacity, growth_of};
use super::size::capacity_within;
use super::units::{Units, lateness_of, unit_of};
use super::{FilterSpec, GrowthSpec, SpecError, no};
use crate::buckets::REGION_BYTES;
use crate::definition::{Asked, CellDefinition, CuckooCells, FilterDefinition};
use crate::growth::{Growth, Limit};
use crate::rates::{SizingError, cuckoo, growth};
use crate::{BucketShape, FIRST_CAPACITY_EVENTS, Geometry, Layout, Refresh, Unit, Window, WindowRule, duration};

/// Number of standard deviations by which the events of a window may exceed the capacity. Events arrive at random, so a
/// window sometimes has slightly more events than planned. The filter must not reject events because of such a small
/// excess.
const DEVIATIONS: f64 = 4.0;

pub(super) fn resolve(spec: &FilterSpec) -> Result<FilterDefinition, SpecError> {
    check_all(spec)?;
    check(spec)?;
    let size = given_capacity(spec).or(spec.memory_bytes);
    if size.is_none() && spec.growth.is_none() {
        return Err(SpecError::CapacityNeeded(spec.kind));
    }
    let rule = growth_of(spec, size)?;
    if rule.generations_max > 1 && rule != (GrowthSpec { limit: Limit::Cardinality, ratio: 1.0, ..rule }) {
        return no(spec, "growth by density, or in size", "its generations are of one size, and limited by events");
    }
    if rule.generations_max > 1 && spec.refresh == Refresh::Refresh {
        let instead = "refreshed events stay in their generation; give a capacity for a whole window";
        return no(spec, "growth under refresh", instead);
    }
    let generation_rate = match rule.generations_max {
        1 => spec.rate,
        generations => growth::generation_rate(spec.rate, f64::from(generations)),
    };
    let (print, units) = print(spec, generation_rate).map_err(|error| match error {
        // The user's rate is that of all generations together, so the error must report the limit for all of them.
        SpecError::Sizing(SizingError::Prints { least, .. }) => {
            let least = growth::live_rate(least, f64::from(rule.generations_max));
            SizingError::Prints { rate: spec.rate, least }.into()
        }
        error => error,
    })?;
    let capacity = match (given_capacity(spec), spec.memory_bytes) {
        (Some(events), _) => events,
        (None, Some(bytes)) if bytes < REGION_BYTES as u64 => {
            return Err(SpecError::Memory { bytes, least: REGION_BYTES as u64 });
        }
        (None, Some(bytes)) => capacity_within(bytes, |events| {
            print.geometry(live_events(&units, spec, events)).map(|geometry| geometry.bytes())
        })?,
        (None, None) => FIRST_CAPACITY_EVENTS,
    };
    let live_events = live_events(&units, spec, capacity);
    let growth = Growth {
        limit: Limit::Cardinality,
        generations_max: rule.generations_max,
        ratio: 1.0,
        capacity_events: live_events.ceil() as u64,
        generation_rate,
        jumps: None,
    };
    Ok(FilterDefinition {
        window: spec.window.clone(),
        unit: units.unit.clone(),
        rule: units.rule,
        future_max_ms: spec.future_max_ms,
        cells: CellDefinition::Cuckoo(CuckooCells {
            geometry: print.geometry(live_events)?,
            refresh: spec.refresh,
            growth,
            asked: Asked::default(),
        }),
        rate: spec.rate,
        capacity_events: given_capacity(spec).or(spec.memory_bytes.map(|_| capacity)),
    })
}

fn check(spec: &FilterSpec) -> Result<(), SpecError> {
    if spec.cells.is_some() {
        return no(spec, "size in cells", "a full filter of this kind rejects events, so give a capacity or memory");
    }
    if spec.hashes.is_some() {
        return no(spec, "number of positions", "an event has one fingerprint; leave it out");
    }
    if spec.layout.is_some() {
        return no(spec, "choice of layout", "an event has two buckets; leave it out");
    }
    if spec.cell_bits.is_some() {
        return no(spec, "choice of cell width", "the rate decides how long fingerprints are; leave it out");
    }
    Ok(())
}

/// Fingerprints of a bucket, and the width of the expiry times next to them.
#[derive(Clone, Copy)]
struct Print {
    shape: BucketShape,
    time_bits: u8,
}

impl Print {
    /// Returns the geometry for `live_events` entries at the design load: `n / (S load)` buckets, rounded up to whole
    /// regions.
    fn geometry(self, live_events: f64) -> Result<Geometry, SpecError> {
        let slots = (live_events / cuckoo::load(self.shape)).ceil() as u64;
        let layout = Layout::Buckets { time_bits: self.time_bits };
        Ok(Geometry::new(slots.max(1), 1, self.shape.print_bits(), layout)?)
    }
}

/// Returns the shortest fingerprints that achieve the rate, with the requested number of ticks or as many ticks as 64
/// bits can hold.
fn print(spec: &FilterSpec, rate: f64) -> Result<(Print, Units), SpecError> {
    let mut ticks_max = None;
    for time_bits in [64, 128] {
        let shape = BucketShape::new(cuckoo::print_bits(rate, time_bits)?, time_bits);
        if let Some(units) = units(spec, shape)? {
            return Ok((Print { shape, time_bits }, units));
        }
        ticks_max = (1..shape.ticks()).rev().find(|ticks| {
            units(&FilterSpec { ticks: Some(*ticks), ..spec.clone() }, shape).is_ok_and(|units| units.is_some())
        });
    }
    let most = match ticks_max {
        Some(most) => format!("{} at most", counted(most)),
        None => "too much for any number of ticks".to_owned(),
    };
    Err(SpecError::Reach {
        window: spec.window.clone(),
        what: match (spec.ticks, spec.lateness_ms) {
            (Some(ticks), None | Some(0)) => format!("{} ({most})", counted(ticks)),
            (Some(ticks), Some(ms)) => format!("{} and a lateness of {} ({most})", counted(ticks), duration(ms)),
            (None, ms) => format!("a lateness of {}", duration(ms.unwrap_or(0))),
        },
        instead: "choose fewer ticks, less lateness, or kind timing",
    })
}

fn counted(ticks: u32) -> String {
    if ticks == 1 { "1 tick".to_owned() } else { format!("{ticks} ticks") }
}

/// Divides the window into ticks. The number of ticks is the requested number, if the user has requested one. Otherwise
/// it is the greatest number that a bucket can distinguish. Returns `None` if a bucket cannot distinguish enough ticks.
///
/// An event expires at `tick + ceil(W / tick length) + 1`, as in a filter of timers. The additional tick is needed
/// because an event may arrive at the end of its tick, and must still be remembered for the whole window.
fn units(spec: &FilterSpec, shape: BucketShape) -> Result<Option<Units>, SpecError> {
    let (window, is_time) = match spec.window {
        Window::Duration(window_ms) => (window_ms, true),
        Window::Events(events) => (events, false),
        _ => {
            let instead = "ask for a duration (24h) or a number of events, or use kind bloom";
            return Err(SpecError::Window { kind: spec.kind, window: spec.window.clone(), instead });
        }
    };
    let lateness = lateness_of(spec, is_time, 0)?;
    let most = u64::from(shape.ticks());
    let (least, wanted) = match spec.ticks {
        Some(0) => return no(spec, "window of 0 ticks", "choose at least 1"),
        Some(ticks) => (u64::from(ticks), u64::from(ticks)),
        None => (most / 4, most - 1),
    };
    for ticks in (least.max(1)..=wanted).rev() {
        let length = window.div_ceil(ticks);
        let window_units = window.div_ceil(length);
        let rule = WindowRule { span_units: window_units + 1, lateness_units: lateness.div_ceil(length) };
        if rule.span_units.saturating_add(rule.lateness_units) <= most {
            return Ok(Some(Units { unit: unit_of(length, is_time), rule, window_units }));
        }
    }
    Ok(None)
}

/// Returns the number of entries that the filter must hold at once if a window brings `capacity` events (n). An entry
/// lives for T' ticks, and its place stays occupied for L further ticks because of the lateness. The window has T' - 1
/// ticks, so the mean number of entries is `n (T' + L) / (T' - 1)`. The function adds an allowance for random variation
/// to this mean.
fn live_events(units: &Units, spec: &FilterSpec, capacity: u64) -> f64 {
    let (window, unit) = match (&spec.window, &units.unit) {
        (Window::Duration(window), Unit::Milliseconds(unit)) | (Window::Events(window), Unit::Events(unit)) => {
            (*window as f64, *unit as f64)
        }
        _ => (units.window_units as f64, 1.0),
    };
    let kept = (units.rule.span_units + units.rule.lateness_units) as f64 * unit;
    let mean = capacity as f64 * kept / window;
    mean + DEVIATIONS * mean.sqrt()
}
