//! Lookups while slices are down, in one place (K11 3.2), to measure the errors of a policy beside its formula
//! (`firstseen_filter::rates::failures`).
//!
//! Promises: for an event none of whose slices is down, the verdict is that of the filter. Must not know: why slices
//! are down, nodes.

#[cfg(test)]
mod tests;

use firstseen_filter::rates::failures::Rule;
use firstseen_filter::{Digest, Stamp};
use firstseen_routing::{Route, SlicedFilter};

/// When an event counts as a duplicate some of whose slices may be down: at least `set_min` (x) of its k cells are live
/// and set; by the strict rule also none that is live may be empty. With x = 0 a slice that is down counts as if it had
/// the event, with x = k as if it had not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Belief {
    /// x of k.
    pub(crate) set_min: u32,
    /// Whether a cell that is live and not set proves the event distinct.
    pub(crate) rule: Rule,
}

/// Whether an event that occurs now is a duplicate, where slices that `is_down` cannot be asked. `None` where the kind
/// or the layout has no cells that can be tested one by one. For filters that do not grow.
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
