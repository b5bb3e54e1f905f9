//! A filter's definition in one line for people.

use firstseen_filter::{CellDefinition, Geometry, Growth, Layout, Refresh, Unit};
use firstseen_routing::SlicedDefinition;

use crate::state::Definition;

impl Definition for SlicedDefinition {
    fn describe(&self) -> String {
        describe(self)
    }
}

/// `timing, 10,000,000 cells, k 7, blocks of 2 lines, ...`.
pub fn describe(definition: &SlicedDefinition) -> String {
    let group = &definition.group;
    let mut parts = vec![group.cells.kind().to_string()];
    match &group.cells {
        CellDefinition::Bloom { geometry, growth } | CellDefinition::Generations { geometry, growth } => {
            parts.push(shape(geometry));
            parts.extend(growth.as_ref().map(grows));
        }
        CellDefinition::Timing { geometry, refresh, equal_timers, growth } => {
            parts.push(shape(geometry));
            parts.extend((*refresh == Refresh::Refresh).then(|| "refreshed by duplicates".to_owned()));
            parts.extend((*equal_timers > 0).then(|| format!("{equal_timers} equal timers")));
            parts.extend(growth.as_ref().map(grows));
        }
        CellDefinition::JumpingCounting { cells, hashes, .. }
        | CellDefinition::SlidingCounting { cells, hashes, .. } => {
            parts.push(format!("m {cells}, k {hashes}"));
        }
        CellDefinition::Stable { shape, .. } => {
            let stable = format!("m {}, k {}, Max {}, P {:.3}", shape.cells, shape.hashes, shape.max, shape.decrements);
            parts.push(stable);
        }
        CellDefinition::Decaying { shape } => {
            parts.push(format!("m {}, k {}, lambda {}", shape.cells, shape.hashes, shape.rule.lambda()));
        }
    }
    parts.extend(unit(&group.unit, group.rule.span_units));
    match (definition.slicing.slices(), definition.slicing.groups()) {
        (..=1, _) => {}
        // Sizes and limits are those of one group.
        (_, 2..) => parts.push(format!("each of the {} groups of {}", definition.slicing.groups(), definition.slicing)),
        (..) => parts.push(definition.slicing.to_string()),
    }
    parts.join(", ")
}

fn shape(geometry: &Geometry) -> String {
    let layout = match geometry.layout() {
        Layout::Classic => "classic".to_owned(),
        Layout::Partitioned => "partitioned".to_owned(),
        Layout::Blocked { lines } => format!("blocked {lines}"),
    };
    let width = if geometry.cell_bits() > 1 { format!(" of {} bits", geometry.cell_bits()) } else { String::new() };
    format!("m {}{width}, k {}, {layout}", geometry.cells(), geometry.hashes())
}

fn grows(growth: &Growth) -> String {
    match growth.generations_max {
        1 => format!("refuses beyond {} events", growth.capacity_events),
        most => format!("grows to {most} generations by {}", growth.ratio),
    }
}

fn unit(unit: &Unit, span_units: u64) -> Option<String> {
    match unit {
        // What decays has no end, only epochs.
        Unit::Milliseconds(ms) if span_units == u64::MAX => Some(format!("epochs of {ms} ms")),
        Unit::Events(events) if span_units == u64::MAX => Some(format!("epochs of {events} events")),
        Unit::Milliseconds(ms) if span_units > 1 => Some(format!("{span_units} units of {ms} ms")),
        Unit::Events(events) if span_units > 1 => Some(format!("{span_units} units of {events} events")),
        _ => None,
    }
}
