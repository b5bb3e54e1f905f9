//! How long an event is kept beyond its window.
//!
//! Promises: what `firstseen_filter::WindowRule` gives, in milliseconds or events. Must not know: cells.

use firstseen_filter::{FilterDefinition, Unit, Window};
use serde::Serialize;

/// When an event is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub(super) enum Retention {
    /// Never.
    Unbounded,
    /// At the next landmark, so after a window at most.
    UntilLandmark,
    /// At random: there are false negatives.
    Fading,
    /// A window after its sighting, or up to a tick or two later.
    Sliding(Slack),
    /// With its jump, a window after its sighting or up to a jump later.
    Jumping(Slack),
}

/// How much longer than the window events are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Slack {
    /// What the numbers count.
    pub(super) measure: Measure,
    /// Length of a tick or a jump.
    pub(super) step: u64,
    /// An event is kept at least so long beyond the window.
    pub(super) beyond_least: u64,
    /// And it is kept for less than so long beyond the window.
    pub(super) beyond_most: u64,
}

/// What a window is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Measure {
    Milliseconds,
    Events,
}

/// An event of unit `t` expires at the start of unit `t + span`: it is kept for more than `span - 1` units and at most
/// `span` of them.
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
