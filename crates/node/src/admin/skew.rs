//! Rejects definitions of filters that would forget events too early because the clocks of two nodes differ. This can
//! happen if the filter keeps events for hardly longer than its window. The error message names the flag of the command
//! line that makes the filter keep events longer.

use firstseen_filter::{Ability, Unit, Window, duration};
use firstseen_routing::{ClockSource, SlicedDefinition};
use firstseen_wire::status::ErrorKind;
use tonic::Status;

/// Checks that a filter keeps its events long enough to tolerate clocks that differ from node to node. Only filters
/// whose nodes stamp events with their own clocks need this check. If events carry their own times, the clocks of the
/// nodes do not matter.
///
/// The head node of an event, which is the node that decides the event, stamps it with its own clock. Suppose that
/// another node becomes the head node later, and that its clock is ahead by `clock_skew_max_ms`, the largest tolerated
/// difference. By this clock, the cells of the event would expire too early. The filter must therefore keep its events
/// for at least the window plus `clock_skew_max_ms`.
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
        "filter `{name}`: the nodes assign the times of its events, and their clocks may differ by {} \
         (timing.clock_skew_max_ms), but it keeps a window of {} for {}: use --clock-skew {}",
        duration(clock_skew_max_ms),
        duration(*window_ms),
        duration(kept_ms),
        Window::Duration(clock_skew_max_ms)
    )))
}
