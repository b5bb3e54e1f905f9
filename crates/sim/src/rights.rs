//! Scenarios in which producers need access rights, and an operator revokes and restores these rights. Each scenario is
//! derived from a scenario of another family. Apart from the rights, it differs only in having more events, and
//! possibly more calls and longer pauses between them.

use crate::scenario::Scenario;
use crate::seeded_rng::SeededRng;

/// Minimum number of calls, and minimum of the longest pause between them. Rights change over seconds, so calls must
/// take as long.
const CALLS_MIN: u32 = 120;
const PAUSE_MS_MIN: u64 = 400;
/// Number of additional events in scenarios with access rights. The events are so many that hardly any of them is
/// submitted by several producers, which helps the checker to find mistakes. For example, the system may wrongly record
/// an event for a producer without rights. If another producer with the right had recorded the same event, the mistake
/// would not be visible.
const RARE_EVENTS: u64 = 300;
/// One in this many calls uses one of the additional events.
const RARE_EVERY: u64 = 3;

/// Returns the scenario with access rights.
pub(crate) fn with_rights(scenario: Scenario) -> Scenario {
    Scenario {
        rights: true,
        events: scenario.events + RARE_EVENTS,
        calls: scenario.calls.max(CALLS_MIN),
        pause_max_ms: scenario.pause_max_ms.max(PAUSE_MS_MIN),
        ..scenario
    }
}

/// Returns the range of events from which a call chooses its event. The result is the first event and the number of
/// events.
///
/// If the scenario has access rights, a random number decides between the usual events and the additional rare events.
/// Without access rights, only the usual events exist, and the function draws no random number, so that these scenarios
/// do not depend on the existence of access rights.
pub(crate) fn events_of_draw(scenario: &Scenario, rng: &mut SeededRng) -> (u64, u64) {
    if !scenario.rights {
        return (0, scenario.events);
    }
    let usual = scenario.events - RARE_EVENTS;
    if rng.below(RARE_EVERY) == 0 { (usual, RARE_EVENTS) } else { (0, usual) }
}
