//! How the work of a filter is spread over its slices (Koloniari 2011, section 3.1).

use firstseen_filter::rates::slicing;

/// What one slice has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Positions tested. A visited slice tests all positions of the event that it holds.
    pub positions_tested: u64,
    /// Visits that tested.
    pub test_visits: u64,
    /// Visits that recorded. Where one slice has all of an event's positions, test and record are one visit.
    pub record_visits: u64,
}

impl Load {
    /// Counts visits that test all of the `hashes` positions of an event, and record some of these events.
    #[inline]
    pub(crate) fn count(&mut self, hashes: u64, tested: u64, recorded: u64) {
        self.positions_tested += tested * hashes;
        self.test_visits += tested;
        self.record_visits += recorded;
    }
}

/// Jain's fairness of the positions tested: 1 when all slices tested the same number, 1/S when one slice tested all,
/// not a number when nothing was tested.
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

/// The greatest share of the positions tested that one slice has: 1/S when all are equal; 0 when nothing was tested.
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
