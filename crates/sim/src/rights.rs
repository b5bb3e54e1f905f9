//! Scenarios in which producers need access rights, and an operator revokes and restores these rights. Each scenario is
//! derived from a scenario of another family. Besides the rights, only the number of events, the number of calls and
//! the pauses between the calls are changed.

use crate::scenario::Scenario;
use crate::seeded_rng::SeededRng;

/// Minimum number of calls, and minimum of the longest pause between them. Rights change over seconds, so calls must
/// take as long.
const CALLS_MIN: u32 = 120;
const PAUSE_MS_MIN: u64 = 400;
/// Number of additional events in scenarios with access rights. These events are rare, so hardly any of them is
/// submitted by several producers. This helps the checker to find mistakes. If the system wrongly records an event for
/// a producer without rights, a correct record of the same event by another producer would hide the mistake.
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

/// Returns the range of events from which a call draws its event, as the first event and the number of events. If the
/// scenario has access rights, a random number decides between the usual events and the additional rare events. Without
/// access rights, no random number is drawn, so other scenarios stay unchanged.
pub(crate) fn events_of_draw(scenario: &Scenario, rng: &mut SeededRng) -> (u64, u64) {
    if !scenario.rights {
        return (0, scenario.events);
    }
    let usual = scenario.events - RARE_EVENTS;
    if rng.below(RARE_EVERY) == 0 { (usual, RARE_EVENTS) } else { (0, usual) }
}
