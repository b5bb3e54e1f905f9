//! Filters that do not keep events long enough for clocks that differ.
//!
//! Promises: the refusal says the flag that helps. Must not know: how clocks are measured.

use firstseen_filter::{Ability, Unit, Window, duration};
use firstseen_routing::{ClockSource, SlicedDefinition};
use firstseen_wire::status::ErrorKind;
use tonic::Status;

/// Where nodes stamp events, the clock of the next head may be ahead of this one's: cells must not be gone by then.
pub(super) fn keeps_for_other_clocks(
    name: &str,
    definition: &SlicedDefinition,
    clock: ClockSource,
    clock_skew_max_ms: u64,
) -> Result<(), Status> {
    let group = &definition.group;
    let (Window::Duration(window_ms), Unit::Milliseconds(unit_ms)) = (&group.window, &group.unit) else {
        return Ok(());
    };
    let kept_ms = group.rule.span_units.saturating_sub(1).saturating_mul(*unit_ms);
    let wanted_ms = window_ms.saturating_add(clock_skew_max_ms);
    let keeps_exactly = group.cells.kind().can(Ability::KeepForWindow);
    if clock != ClockSource::Wall || !keeps_exactly || kept_ms >= wanted_ms {
        return Ok(());
    }
    Err(ErrorKind::Invalid.status(format!(
        "filter `{name}`: nodes stamp its events, and their clocks may differ by {} (timing.clock_skew_max_ms), but it \
         keeps a window of {} for {}: say --clock-skew {}",
        duration(clock_skew_max_ms),
        duration(*window_ms),
        duration(kept_ms),
        Window::Duration(clock_skew_max_ms)
    )))
}
