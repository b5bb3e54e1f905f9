//! Lookups while slices are down, in one place (K11 3.2): for measuring what a policy gets wrong beside its formula
//! (`firstseen_filter::rates::failures`).
//!
//! Promises: of an event none of whose slices is down, the answer is that of the filter. Must not know: why slices are
//! down, nodes.

use firstseen_filter::rates::failures::Rule;
use firstseen_filter::{Digest, Stamp};

use super::sliced::SlicedFilter;
use crate::plan::Route;

/// When an event is a duplicate of which some slices may be down: at least `set_min` (x) of its k cells are alive and set,
/// and by the strict rule none that is alive is not. With 0 a slice that is down counts as if it had the event, with k as
/// if it had not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belief {
    /// x of k.
    pub set_min: u32,
    /// Whether a cell that is alive and not set proves the event distinct.
    pub rule: Rule,
}

impl SlicedFilter {
    /// Whether an event that occurs now is a duplicate, while `is_down` says of slices that they cannot be asked. `None`
    /// where the kind or the layout has no cells that can be asked one by one. For filters that do not grow.
    ///
    /// ```
    /// use firstseen_filter::rates::failures::Rule;
    /// use firstseen_filter::{FilterSecret, FilterSpec, Kind, Layout};
    /// use firstseen_routing::{Answer, Belief, SlicedDefinition, SlicedFilter};
    /// let window = "unbounded".parse().unwrap();
    /// let spec = FilterSpec { cells: Some(8000), hashes: Some(8), ..FilterSpec::new(Kind::Bloom, window) };
    /// let definition = SlicedDefinition::new(&spec, "vertical:8".parse().unwrap()).unwrap();
    /// let mut filter = SlicedFilter::build(&definition).unwrap();
    /// let (click, other) = (FilterSecret::from_seed(1).digest(b"click-1"), FilterSecret::from_seed(1).digest(b"click-2"));
    /// filter.observe_batch(&[click], &[], &mut [Answer::Undecided]);
    /// let all_down = |_| true;
    /// let told = |set_min, event| filter.is_duplicate_while_down(event, all_down, Belief { set_min, rule: Rule::Strict });
    /// assert_eq!((told(0, click), told(0, other)), (Some(true), Some(true)));
    /// assert_eq!((told(1, click), told(1, other)), (Some(false), Some(false)));
    /// ```
    pub fn is_duplicate_while_down(
        &self,
        event: Digest,
        is_down: impl Fn(u32) -> bool,
        belief: Belief,
    ) -> Option<bool> {
        let mut route = Route::default();
        self.plan().route(event, &mut route);
        let stamp = Stamp::on_time(self.now_unit());
        let (mut set, mut is_disproved) = (0, false);
        for step in route.steps().filter(|step| !is_down(step.slice)) {
            for position in step.positions {
                if self.slice(step.slice)?.test_at(&[*position], stamp)?.is_hit() {
                    set += 1
                } else {
                    is_disproved = true
                }
            }
        }
        Some(set >= belief.set_min && (belief.rule == Rule::Literal || !is_disproved))
    }
}
