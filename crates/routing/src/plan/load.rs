//! Measures how evenly the work of a filter is spread over its slices (Koloniari et al. 2011, section 3.1).

use firstseen_filter::rates::slicing;

/// Work that one slice has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of positions tested. A visited slice tests all of the event's positions that it holds.
    pub positions_tested: u64,
    /// Number of visits that tested an event.
    pub test_visits: u64,
    /// Number of visits that recorded an event. If one slice holds all positions of an event, the test and the
    /// recording are a single visit.
    pub record_visits: u64,
}

impl Load {
    /// Counts `tested` visits that test all of the `hashes` positions of an event, `recorded` of which also record the
    /// event.
    #[inline]
    pub(crate) fn count(&mut self, hashes: u64, tested: u64, recorded: u64) {
        self.positions_tested += tested * hashes;
        self.test_visits += tested;
        self.record_visits += recorded;
    }
}

/// Returns Jain's fairness index of the numbers of positions that the slices have tested, which measures how evenly the
/// work is spread. The index is 1 if all S slices tested the same number of positions, and 1/S if a single slice tested
/// all of them. It is NaN if no position was tested.
///
/// ```
/// use firstseen_routing::{Load, fairness};
/// let tested = |positions_tested| Load { positions_tested, ..Load::default() };
/// assert_eq!(fairness(&[tested(3), tested(3)]), 1.0);
/// assert_eq!(fairness(&[tested(3), tested(0)]), 0.5);
/// ```
pub fn fairness(loads: &[Load]) -> f64 {
    let tested: Vec<f64> = loads.iter().map(|load| load.positions_tested as f64).collect();
    slicing::fairness(&tested)
}

/// Returns the share of all tested positions that the busiest slice has tested. The share is 1/S if all S slices tested
/// the same number of positions, and 1 if one slice tested all of them. It is 0 if no position was tested.
///
/// ```
/// use firstseen_routing::{Load, greatest_share};
/// let tested = |positions_tested| Load { positions_tested, ..Load::default() };
/// assert_eq!(greatest_share(&[tested(3), tested(1)]), 0.75);
/// ```
pub fn greatest_share(loads: &[Load]) -> f64 {
    let total: u64 = loads.iter().map(|load| load.positions_tested).sum();
    let greatest = loads.iter().map(|load| load.positions_tested).max().unwrap_or(0);
    greatest as f64 / total.max(1) as f64
}
