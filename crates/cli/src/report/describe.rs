//! Describes the definition of a filter in one line for users, and as the flags that produce it.

use firstseen_embedded::lateness_default_ms;
use firstseen_filter::{
    BucketShape, CellDefinition, FilterDefinition, Geometry, Growth, Kind, Lateness, Layout, Refresh, Unit, Window,
    WindowRule, duration,
};
use firstseen_routing::SlicedDefinition;

use crate::state::Definition;
use crate::text::numbers::grouped;

impl Definition for SlicedDefinition {
    fn answers_like(&self, other: &Self) -> bool {
        Self::answers_like(self, other)
    }

    fn asked_like(&self, other: &Self) -> Self {
        let mut like = self.clone();
        if window_of(&self.group) == window_of(&other.group)
            && let Some(asked) = like.group.cells.asked_mut()
        {
            *asked = other.group.cells.asked();
        }
        like
    }

    fn describe(&self) -> String {
        describe(self)
    }

    fn flags(&self) -> Vec<(&'static str, String)> {
        let group = &self.group;
        let refreshes = group.cells.refresh() == Refresh::Refresh;
        vec![
            ("--window", group.window.to_string()),
            ("--kind", group.cells.kind().to_string()),
            ("--capacity", asked_for(asked_capacity_events(self).map(|events| events.to_string()))),
            ("--fpr", group.rate.to_string()),
            ("--slicing", self.slicing.to_string()),
            ("--rule", if refreshes { "refresh" } else { "fixed" }.to_owned()),
            ("--lateness", asked_for(asked_lateness(group).map(|lateness| lateness.to_string()))),
            ("--ticks", asked_for(group.cells.asked().ticks.map(|ticks| ticks.to_string()))),
            clock_flag(&group.window, group.future_max_ms),
        ]
    }
}

/// Returns the parts of a definition that determine its lateness and its ticks.
fn window_of(group: &FilterDefinition) -> (Kind, f64, &Window, &Unit, WindowRule, Option<Layout>) {
    let FilterDefinition { window, unit, rule, cells, rate, .. } = group;
    (cells.kind(), *rate, window, unit, *rule, cells.geometry().map(Geometry::layout))
}

/// Returns the flag for the source of times, or the flag for how far ahead of the clock a time is accepted without
/// confirmation.
pub(crate) fn clock_flag(window: &Window, future_max_ms: u64) -> (&'static str, String) {
    let is_asked_for = future_max_ms != window.future_default_ms();
    match future_max_ms {
        u64::MAX => ("--clock", "wall".to_owned()),
        _ => ("--future-max", asked_for(is_asked_for.then(|| Window::Duration(future_max_ms).to_string()))),
    }
}

fn asked_for(value: Option<String>) -> String {
    value.unwrap_or_else(|| "(default)".to_owned())
}

/// Returns the number of events for which the filter has room within one window. `None` means that the window itself is
/// defined by this number of events. The report then shows the number as part of the window, and need not repeat it.
///
/// If the filter has several slice groups, the number is slightly greater than the capacity that the user asked for.
/// Events are distributed over the groups at random, so a group can receive more events than its mean share. Each group
/// therefore has room for more events than this share.
fn asked_capacity_events(definition: &SlicedDefinition) -> Option<u64> {
    let group = &definition.group;
    let capacity_events = group.capacity_events?.saturating_mul(definition.slicing.groups().into());
    match group.window {
        Window::Events(events) | Window::LandmarkEvents(events) if events == capacity_events => None,
        _ => Some(capacity_events),
    }
}

/// Returns the lateness if it differs from the default for kind and window.
fn asked_lateness(group: &FilterDefinition) -> Option<Window> {
    let (Window::Duration(_), Unit::Milliseconds(unit_ms)) = (&group.window, &group.unit) else { return None };
    let is_free = group.cells.kind().properties().lateness == Lateness::Free;
    let default_ms = lateness_default_ms(&group.window).filter(|_| is_free).unwrap_or(0);
    let units = group.rule.lateness_units;
    let lateness_ms = group.cells.asked().lateness_ms.unwrap_or(units.saturating_mul(*unit_ms));
    (units != default_ms.div_ceil((*unit_ms).max(1))).then_some(Window::Duration(lateness_ms))
}

/// Returns a description such as `timing, 10,000,000 cells of 8 bits (m), 7 of them an event (k), in 2 cache lines,
/// ...`.
pub fn describe(definition: &SlicedDefinition) -> String {
    let group = &definition.group;
    let cells = &group.cells;
    let mut parts = vec![cells.kind().to_string(), shape(cells)];
    parts.extend((cells.refresh() == Refresh::Refresh).then(|| "refreshed by duplicates".to_owned()));
    parts.extend(cells.detail());
    parts.extend(cells.growth().and_then(grows));
    parts.extend(unit(&group.unit, group.rule.span_units));
    parts.extend(lateness(group));
    match (definition.slicing.slices(), definition.slicing.groups()) {
        (..=1, _) => {}
        // With several slice groups, sizes and limits in the text are those of one group.
        (_, 2..) => parts.push(format!("each of the {} groups of {}", definition.slicing.groups(), definition.slicing)),
        (..) => parts.push(definition.slicing.to_string()),
    }
    parts.extend(room_events(definition).map(|events| {
        // The sizes before this part are those of one group.
        let whose = if definition.slicing.groups() > 1 { "the whole filter has " } else { "" };
        format!("{whose}room for {} events", grouped(events))
    }));
    parts.join(", ")
}

/// Returns the number of events that all slice groups together have room for. `None` means that the filter does not
/// reject further events.
fn room_events(definition: &SlicedDefinition) -> Option<u64> {
    let growth = definition.group.cells.growth()?;
    let events = growth.capacity_events.saturating_mul(definition.slicing.groups().into());
    (growth.generations_max == 1).then_some(events)
}

fn shape(cells: &CellDefinition) -> String {
    let count = grouped(cells.cells());
    let hashes = cells.hashes();
    let Some(geometry) = cells.geometry() else {
        return format!("{count} cells (m), {hashes} of them an event (k)");
    };
    let bits = geometry.cell_bits();
    let layout = match geometry.layout() {
        Layout::Classic => "anywhere".to_owned(),
        Layout::Partitioned => "each in a part of its own".to_owned(),
        Layout::Blocked { lines: 1 } => "in 1 cache line".to_owned(),
        Layout::Blocked { lines } => format!("in {lines} cache lines"),
        Layout::Buckets { time_bits } => {
            let bucket = BucketShape::new(bits, time_bits).slots();
            return format!(
                "{count} places for fingerprints of {bits} bits, in buckets of {bucket}, two of them an event"
            );
        }
    };
    let plural = if bits == 1 { "" } else { "s" };
    format!("{count} cells of {bits} bit{plural} (m), {hashes} of them an event (k), {layout}")
}

fn grows(growth: &Growth) -> Option<String> {
    let most = growth.generations_max;
    match growth.ratio {
        _ if most <= 1 => None,
        ..=1.0 => Some(format!("grows to at most {most} times its capacity, by equal generations")),
        ratio => Some(format!("grows to at most {most} generations, each {ratio} times as large as the one before")),
    }
}

/// Returns a description of how late events may come, if this lateness costs memory.
fn lateness(group: &FilterDefinition) -> Option<String> {
    let (Lateness::TakesMemory, Unit::Milliseconds(ms)) = (group.cells.kind().properties().lateness, &group.unit)
    else {
        return None;
    };
    let units = group.rule.lateness_units;
    (units > 0).then(|| format!("up to {} late", duration(units.saturating_mul(*ms))))
}

fn unit(unit: &Unit, span_units: u64) -> Option<String> {
    match unit {
        // A decaying filter has epochs, and its window has no end.
        Unit::Milliseconds(ms) if span_units == u64::MAX => Some(format!("epochs of {}", duration(*ms))),
        Unit::Events(1) if span_units == u64::MAX => Some("epochs of 1 event".to_owned()),
        Unit::Events(events) if span_units == u64::MAX => Some(format!("epochs of {} events", grouped(*events))),
        Unit::Milliseconds(ms) if span_units > 1 => Some(format!("time in steps of {}", duration(*ms))),
        Unit::Events(1) if span_units > 1 => Some("counted event by event".to_owned()),
        Unit::Events(events) if span_units > 1 => Some(format!("counted in steps of {} events", grouped(*events))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSpec, GrowthSpec, Limit};
    use firstseen_routing::Slicing;

    use super::*;

    fn described(spec: FilterSpec) -> String {
        describe(&SlicedDefinition::new(&spec, Slicing::NONE).unwrap())
    }

    /// Regression test. After "each of the 3 groups", the room of the whole filter read as the room of a group.
    #[test]
    fn the_room_is_that_of_the_whole_filter() {
        let spec =
            FilterSpec { capacity_events: Some(100_000), ..FilterSpec::new(Kind::Timing, Window::Duration(1000)) };
        let text = describe(&SlicedDefinition::new(&spec, "horizontal:3".parse().unwrap()).unwrap());
        let (_, room) =
            text.split_once("each of the 3 groups of horizontal:3, the whole filter has room for ").unwrap();
        let events: u64 = room.split(' ').next().unwrap().replace(',', "").parse().unwrap();
        assert!((100_000..130_000).contains(&events), "{text}");
        assert!(described(spec).contains(", room for "), "there is one group");
    }

    #[test]
    fn steps_and_growth_read_as_they_are() {
        let of = |kind, window: &str| FilterSpec {
            capacity_events: Some(100),
            ..FilterSpec::new(kind, window.parse().unwrap())
        };
        for (window, said) in
            [("60events", "counted event by event"), ("60000events", "counted in steps of 469 events")]
        {
            let text = described(FilterSpec { capacity_events: None, ..of(Kind::Timing, window) });
            assert!(text.contains(said) && !text.contains(" 1 events"), "{text}");
        }
        let grows = |kind, generations_max, ratio| {
            let growth = Some(GrowthSpec { limit: Limit::Cardinality, generations_max, ratio });
            described(FilterSpec { growth, ..of(kind, "1h") })
        };
        let equal = "grows to at most 4 times its capacity, by equal generations";
        assert!(grows(Kind::Cuckoo, 4, 1.0).contains(equal), "{}", grows(Kind::Cuckoo, 4, 1.0));
        let larger = "grows to at most 16 generations, each 2 times as large as the one before";
        assert!(grows(Kind::Timing, 16, 2.0).contains(larger), "{}", grows(Kind::Timing, 16, 2.0));
        assert!(!grows(Kind::Cuckoo, 1, 1.0).contains("grows"), "{}", grows(Kind::Cuckoo, 1, 1.0));
    }
}
