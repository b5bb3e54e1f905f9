//! Looks up events in a sliced filter as if some of its slices were down (Koloniari et al. 2011, section 3.2). If
//! slices of an event are down, a rule decides the verdict from the event's remaining cells.
//!
//! Experiments and tests count how often the verdicts by such a rule are wrong, and compare the result with the
//! formulas in `firstseen_filter::rates::failures`. The filter is in the same process, so no nodes are needed.
//!
//! If all slices of an event are available, the verdict is the same as that of the filter itself.
//!
//! This module does not depend on nodes or on the reason why slices are down.

#[cfg(test)]
mod tests;

use firstseen_filter::rates::failures::Rule;
use firstseen_filter::{Digest, Stamp};
use firstseen_routing::{Route, SlicedFilter};

/// Rule that decides whether an event is called a duplicate while some of its slices may be down. There are two
/// conditions:
///
/// - At least `set_min` (x) of the event's k cells must be set on slices that are not down.
/// - The strict rule also requires that none of the event's cells on these slices is empty.
///
/// The least and the greatest x have a simple meaning for the strict rule. With x = 0, the cells on slices that are
/// down count as set. With x = k, they count as empty, so an event is first-seen if one of its slices is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Belief {
    /// Minimum number of live and set cells (x of k).
    pub(crate) set_min: u32,
    /// Whether a live cell that is not set proves that the event is distinct.
    pub(crate) rule: Rule,
}

/// Returns whether an event that occurs at the present time of the filter is called a duplicate. Slices for which
/// `is_down` is true are not queried. Returns `None` if the cells of this kind or layout cannot be tested individually.
/// The function does not support filters that grow.
pub(crate) fn is_duplicate_while_down(
    filter: &SlicedFilter,
    event: Digest,
    is_down: impl Fn(u32) -> bool,
    belief: Belief,
) -> Option<bool> {
    let mut route = Route::default();
    filter.plan().route(event, &mut route);
    let stamp = Stamp::on_time(filter.now_unit());
    let mut set = 0;
    let mut is_disproved = false;
    for step in route.steps().filter(|step| !is_down(step.slice)) {
        for position in step.positions {
            if filter.slice(step.slice)?.test_at(&[*position], stamp)?.is_hit() {
                set += 1
            } else {
                is_disproved = true
            }
        }
    }
    Some(set >= belief.set_min && (belief.rule == Rule::Literal || !is_disproved))
}
