//! Scenarios in which producers need rights: each other family, with an operator who takes rights away and grants them again.
//!
//! Promises: all but the rights, the number of events, and for how long producers go on, is as the seed draws it. Must not
//! know: what producers do.

use crate::dice::Dice;
use crate::scenario::Scenario;

/// Rights come and go over seconds, so calls must, too.
const CALLS_MIN: u32 = 120;
const PAUSE_MS_MIN: u64 = 400;
/// So many events more, of which hardly one is asked about by several producers: what was refused to one is not hidden by
/// what others have recorded.
const RARE_EVENTS: u64 = 300;
/// One of so many calls is about one of these.
const RARE_EVERY: u64 = 3;

/// The same with rights.
pub(crate) fn with_rights(scenario: Scenario) -> Scenario {
    Scenario {
        rights: true,
        events: scenario.events + RARE_EVENTS,
        calls: scenario.calls.max(CALLS_MIN),
        pause_max_ms: scenario.pause_max_ms.max(PAUSE_MS_MIN),
        ..scenario
    }
}

/// The events among which a caller draws one: the first, and how many. Dice fall only where there are rare events.
pub(crate) fn events_of_draw(scenario: &Scenario, dice: &mut Dice) -> (u64, u64) {
    if !scenario.rights {
        return (0, scenario.events);
    }
    let usual = scenario.events - RARE_EVENTS;
    if dice.below(RARE_EVERY) == 0 { (usual, RARE_EVENTS) } else { (0, usual) }
}
