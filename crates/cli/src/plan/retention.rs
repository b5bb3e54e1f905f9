//! Computes how long a filter remembers an event beyond the end of its window. A filter measures time in steps, so it
//! forgets an event somewhat later than the window requires. The results are in milliseconds, or in events if the
//! window counts events.

use firstseen_filter::{FilterDefinition, Unit, Window};
use serde::Serialize;

/// When the filter forgets an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub(super) enum Retention {
    /// Never.
    Unbounded,
    /// At the next landmark, and therefore after at most one window.
    UntilLandmark,
    /// At random, so there are false negatives.
    Fading,
    /// One window after the event occurred, or up to one or two ticks later.
    Sliding(Slack),
    /// Together with its jump, one window after the event occurred or up to one jump later.
    Jumping(Slack),
}

/// How much longer than the window events are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Slack {
    /// Unit of the numbers.
    pub(super) measure: Measure,
    /// Length of a tick or a jump.
    pub(super) step: u64,
    /// Minimum time that an event is remembered beyond the window.
    pub(super) beyond_least: u64,
    /// Time beyond the window that is never reached: an event is always forgotten earlier.
    pub(super) beyond_most: u64,
}

/// Unit in which a window is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Measure {
    Milliseconds,
    Events,
}

/// Computes how long the filter remembers events. A filter divides time into units and remembers an event for `span`
/// units, counted from the unit in which the event occurred. An event of unit `t` therefore expires at the start of unit
/// `t + span`, so it is remembered for more than `span - 1` and at most `span` units.
///
/// For example, if a unit is one minute and `span` is 11, every event is remembered for more than 10 and at most 11
/// minutes. An event at the beginning of its unit is remembered longest.
pub(super) fn retention(definition: &FilterDefinition) -> Retention {
    let (measure, window, step) = match (&definition.window, &definition.unit) {
        (Window::Duration(window_ms), Unit::Milliseconds(step_ms)) => (Measure::Milliseconds, *window_ms, *step_ms),
        (Window::Events(window_events), Unit::Events(step)) => (Measure::Events, *window_events, *step),
        (Window::Unbounded, _) if definition.cells.kind().forgets_early() => {
            return Retention::Fading;
        }
        (Window::Unbounded, _) => return Retention::Unbounded,
        _ => return Retention::UntilLandmark,
    };
    let span = definition.rule.span_units;
    let [beyond_least, beyond_most] = [span - 1, span].map(|units| units.saturating_mul(step).saturating_sub(window));
    let slack = Slack { measure, step, beyond_least, beyond_most };
    if definition.cells.slides() { Retention::Sliding(slack) } else { Retention::Jumping(slack) }
}
