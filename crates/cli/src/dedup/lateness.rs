//! Counts records that came later than the lateness of the filter allows. The filter judges such a record as if it had
//! come just in time, with a later time than its own, so its verdict may be wrong. The messages of this module tell the
//! user how many records were affected, and which flag avoids it.

use firstseen_filter::{FilterDefinition, Lateness, Stamp, Unit, UnitNumber, Window, duration};
use firstseen_routing::Answer;

use super::LateArg;
use crate::unjudged::UnjudgedArg;

/// Counts of records that came later than the lateness allows, but not so late that `--late` applies to them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PastLateness {
    /// Number of these records.
    pub(super) events: u64,
    /// Greatest distance in units between such a record and the oldest time that the lateness still allowed.
    most_units: u64,
    /// Index of the first such record among the events that were answered last.
    pub(super) first: Option<usize>,
}

impl PastLateness {
    /// Counts the late records among the events that have just been answered. `now_unit` is the unit that the filter's
    /// clock shows.
    pub(super) fn count(&mut self, stamps: &[Stamp], answers: &[Answer], now_unit: UnitNumber) {
        self.first = None;
        for (event, (stamp, answer)) in stamps.iter().zip(answers).enumerate() {
            // A key that is only looked up, with a time ahead of the clock, is also judged later than its own time. The
            // comparison with the clock excludes it here.
            if stamp.unit < stamp.judged && stamp.judged <= now_unit && answer.is_placed() {
                self.events += 1;
                self.first = self.first.or(Some(event));
                self.most_units = self.most_units.max(stamp.judged.since(stamp.unit));
            }
        }
    }

    /// Returns an explanation that is printed after the number of these records.
    pub(super) fn meaning(&self, definition: &FilterDefinition) -> String {
        let latest = match definition.unit {
            Unit::Milliseconds(unit_ms) => {
                // One unit is added, because users take the number in the message as a sufficient value for
                // `--lateness`.
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

/// Returns the text that a report prints after the number of late records. The text says what the flags `--late` and
/// `--unjudged` made of these records, and which flag avoids late records. `definition` is the definition of a filter
/// in this process. It is `None` for a filter of a cluster, because this command cannot change the settings of such a
/// filter. `is_by_order` says that records were late because of the order of the input, so that a flag helps.
pub(super) fn late_meaning(
    late: Option<LateArg>,
    unjudged: UnjudgedArg,
    definition: Option<&FilterDefinition>,
    is_by_order: bool,
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
    let helps = match helps.filter(|_| is_by_order) {
        Some(helps) => format!("; {helps} judges more of them"),
        None => String::new(),
    };
    format!(": {before}: {verdict}{helps}")
}

/// Returns how late records may come and still be judged at their own time, in milliseconds. The result is 0 if the
/// window has no lateness.
pub(super) fn lateness_ms(definition: &FilterDefinition) -> u64 {
    match definition.unit {
        Unit::Milliseconds(unit_ms) => definition.rule.lateness_units.saturating_mul(unit_ms),
        _ => 0,
    }
}

/// Returns the flags that reduce the number of late records.
fn helps(definition: &FilterDefinition) -> Option<&'static str> {
    match definition.window {
        Window::Duration(_) if definition.cells.kind().properties().lateness == Lateness::Refused => {
            Some("--kind timing with a sufficient --lateness")
        }
        Window::Duration(_) => Some("a greater --lateness"),
        _ => None,
    }
}
