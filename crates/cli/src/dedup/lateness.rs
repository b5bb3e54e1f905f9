//! Records that come later than the lateness allows: how many there are, what became of them, and which flag helps.
//!
//! Promises: a record is counted where the filter has judged it otherwise than at its own time. Must not know: where records go.

use firstseen_filter::{FilterDefinition, Lateness, Stamp, Unit, UnitNumber, Window, duration};
use firstseen_routing::Answer;

use super::LateArg;
use crate::unjudged::UnjudgedArg;

/// Records that came later than the lateness allows, and not so late that `--late` answers them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PastLateness {
    /// How many.
    pub(super) events: u64,
    /// By how many units the edge of the lateness was past the one that was furthest behind it.
    most_units: u64,
    /// The first one among the events that were answered last.
    pub(super) first: Option<usize>,
}

impl PastLateness {
    /// Counts those among events that have just been answered by a clock that shows `now_unit`.
    pub(super) fn count(&mut self, stamps: &[Stamp], answers: &[Answer], now_unit: UnitNumber) {
        self.first = None;
        for (event, (stamp, answer)) in stamps.iter().zip(answers).enumerate() {
            // What is looked up ahead of the clock is judged later than it could be recorded, too.
            if stamp.unit < stamp.judged && stamp.judged <= now_unit && answer.is_placed() {
                self.events += 1;
                self.first = self.first.or(Some(event));
                self.most_units = self.most_units.max(stamp.judged.since(stamp.unit));
            }
        }
    }

    /// What is said beside their number.
    pub(super) fn meaning(&self, definition: &FilterDefinition) -> String {
        let latest = match definition.unit {
            Unit::Milliseconds(unit_ms) => {
                // One more, as a person takes it for a lateness that is enough.
                let units = self.most_units.saturating_add(definition.rule.lateness_units).saturating_add(1);
                format!(", the latest about {} after younger records", duration(units.saturating_mul(unit_ms)))
            }
            _ => String::new(),
        };
        let helps = match helps(definition) {
            Some(helps) => format!("; {helps} judges them exactly"),
            None => String::new(),
        };
        format!(
            ": later than --lateness allows{latest}; judged as if they had come just in time, so that repeats may have passed as \
             first-seen{helps}"
        )
    }
}

/// What is said beside the number of records that `--late` has answered, of a filter in a cluster without its definition.
pub(super) fn late_meaning(
    late: Option<LateArg>,
    unjudged: UnjudgedArg,
    definition: Option<&FilterDefinition>,
) -> String {
    let before = match definition.map(|definition| &definition.window) {
        Some(Window::LandmarkDuration(_) | Window::LandmarkCalendar(_)) => "of before the last landmark",
        _ => "older than the window and --lateness together",
    };
    let verdict = match late {
        None | Some(LateArg::Undecided) if unjudged == UnjudgedArg::Drop => "dropped (--unjudged drop)",
        None | Some(LateArg::FirstSeen) => {
            "passed on and not remembered, so that repeats of them pass, too (--late first-seen)"
        }
        Some(LateArg::Duplicate) => "dropped, also where they had never been seen (--late duplicate)",
        Some(LateArg::Undecided) => "passed on, not remembered, and counted as undecided (--late undecided)",
    };
    let helps = match definition {
        Some(definition) => helps(definition),
        None => Some("a filter that was created with a greater --lateness"),
    };
    let helps = helps.map_or(String::new(), |helps| format!("; {helps} judges more of them"));
    format!(": {before}: {verdict}{helps}")
}

/// How late records may come and still be judged at their own time; 0 where the window has no lateness.
pub(super) fn lateness_ms(definition: &FilterDefinition) -> u64 {
    match definition.unit {
        Unit::Milliseconds(unit_ms) => definition.rule.lateness_units.saturating_mul(unit_ms),
        _ => 0,
    }
}

/// What makes fewer records late.
fn helps(definition: &FilterDefinition) -> Option<&'static str> {
    match definition.window {
        Window::Duration(_) if definition.cells.kind().properties().lateness == Lateness::Refused => {
            Some("--kind timing with a sufficient --lateness")
        }
        Window::Duration(_) => Some("a greater --lateness"),
        _ => None,
    }
}
