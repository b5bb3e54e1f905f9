//! Effects of dividing a filter into S slices on its rate, its messages and its balance (Koloniari et al. 2011, section
//! 3).
//!
//! The functions return expected values for uniformly distributed digests. In the formulas, S is the number of places
//! that a lookup can visit. A place is normally a slice. If a lookup tests all slices of a node in a single visit, a
//! place is a node, and S is the number of nodes.
//!
//! This module does not depend on where a slice lives.

use super::{
    mean::{GAUSS, for_each_load},
    plain,
};

/// Returns the false-positive rate of a horizontal filter of m cells in S classic slices. The slices have different
/// loads, because each of the n events falls on a random slice. The loads are binomial(n, 1/S), and the result is the
/// mean of `plain::rate(m/S, k, load)` over these loads. It is slightly above the rate of the unsliced filter. Equation
/// 4 of Koloniari et al. 2011 gives a lower rate, because it assumes that every slice has a load of n/S.
///
/// Slices with blocked layouts need no formula of their own, because slicing does not change the loads of the blocks.
///
/// ```
/// use firstseen_filter::rates::{plain, slicing};
/// let (whole, sliced) = (plain::rate(1e4, 7, 1e3), slicing::horizontal_rate(1e4, 7, 1e3, 50));
/// assert!(sliced > 1.05 * whole && sliced < 3.0 * whole, "{whole} {sliced}");
/// assert!((slicing::horizontal_rate(1e4, 7, 1e3, 1) / whole - 1.0).abs() < 1e-12);
/// ```
pub fn horizontal_rate(cells: f64, hashes: u32, events: f64, slices: u32) -> f64 {
    let slices = f64::from(slices);
    let mut sum = 0.0;
    let total = for_each_load(events, 1.0 / slices, |load, weight| {
        sum += weight * plain::rate(cells / slices, hashes, load);
    });
    sum / total
}

/// Returns the mean number of different slices that contain the k positions of an event in a vertical filter: `S (1 -
/// (1 - 1/S)^k)` (Koloniari et al. 2011, section 3.1). A pipelined lookup of a duplicate visits this number of slices,
/// and so does the recording of an event.
///
/// ```
/// use firstseen_filter::rates::slicing;
/// assert_eq!(slicing::slices_touched(1, 8), 1.0);
/// assert_eq!(slicing::slices_touched(2, 2), 1.5);
/// ```
pub fn slices_touched(slices: u32, hashes: u32) -> f64 {
    let slices = f64::from(slices);
    slices * -(f64::from(hashes) * (-1.0 / slices).ln_1p()).exp_m1()
}

/// Returns the mean number of slices that a pipelined lookup of a distinct event visits, if the share p of all cells is
/// set. The lookup visits slices in the order of the positions. In each slice it tests all positions of the event that
/// lie there, and it stops at the first unset cell.
///
/// The number follows from a recursion. Let V(r,s) be the number of visits with r positions left and s slices not yet
/// visited. Then `V(r,s) = 1 + sum over c in 1..r of C(r-1,c-1) (1/s)^(c-1) (1-1/s)^(r-c) p^c V(r-c,s-1)`, and `V(r,1)
/// = 1` (Koloniari et al. 2011, section 3.1).
///
/// ```
/// use firstseen_filter::rates::slicing;
/// assert_eq!(slicing::visits(8, 8, 0.0), 1.0);
/// // Two positions, two slices: the second is visited if the positions differ in slice and the first is set.
/// assert_eq!(slicing::visits(2, 2, 0.5), 1.25);
/// assert!((slicing::visits(8, 8, 1.0) - slicing::slices_touched(8, 8)).abs() < 1e-12);
/// ```
pub fn visits(slices: u32, hashes: u32, fill: f64) -> f64 {
    over_pipeline(slices, hashes, fill, |_| 1.0)
}

/// Returns the mean number of positions that a pipelined lookup of a distinct event tests, if the share p of all cells
/// is set.
///
/// The number follows from a recursion that is similar to that of [`visits`]. Let T(r,s) be the number of tested
/// positions with r positions left and s slices not yet visited. Then `T(r,s) = sum over c in 1..=r of C(r-1,c-1)
/// (1/s)^(c-1) (1-1/s)^(r-c) (c + p^c T(r-c,s-1))`, and `T(r,1) = r`.
///
/// ```
/// use firstseen_filter::rates::slicing;
/// assert_eq!(slicing::positions_tested(1, 8, 0.5), 8.0);
/// // Two positions, two slices: both are tested if they lie together, or the first is set.
/// assert_eq!(slicing::positions_tested(2, 2, 0.5), 1.75);
/// assert!((slicing::positions_tested(40, 8, 1.0) - 8.0).abs() < 1e-12);
/// ```
pub fn positions_tested(slices: u32, hashes: u32, fill: f64) -> f64 {
    over_pipeline(slices, hashes, fill, f64::from)
}

/// Returns the cost of a pipelined lookup of a distinct event. A visit to a slice that has c of its positions costs
/// `cost(c)`.
fn over_pipeline(slices: u32, hashes: u32, fill: f64, cost: impl Fn(u32) -> f64) -> f64 {
    // `by_left[r]` is the cost with r positions left and s slices. s grows from 1 to the number of slices. If there are
    // more slices than positions, the slices are never exhausted.
    let mut by_left: Vec<f64> = (0..=hashes).map(&cost).collect();
    by_left[0] = 0.0;
    let first = slices.saturating_sub(hashes) + 1;
    for s in first.max(2)..=slices {
        let here = 1.0 / f64::from(s);
        for left in (1..=hashes).rev() {
            let terms = (1..=left).map(|c| {
                let ways = choose(f64::from(left - 1), c - 1) * here.powi(c as i32 - 1);
                let elsewhere = (1.0 - here).powi((left - c) as i32);
                ways * elsewhere * (cost(c) + fill.powi(c as i32) * by_left[(left - c) as usize])
            });
            by_left[left as usize] = terms.sum();
        }
    }
    by_left[hashes as usize]
}

/// Mean number of visits for an event of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visits {
    /// Number of slices visited by the test pass. Koloniari et al. 2011 count this pass only.
    pub test: f64,
    /// Number of slices that are visited to test an event and then to set it. To set a distinct event, every slice that
    /// holds one of its cells is visited. The test of a distinct event ends at a slice with an unset cell. If an
    /// implementation sets the cells of that slice during the test, it needs one visit less for each distinct event.
    pub test_and_set: f64,
}

/// Returns the mean number of [`visits`] per event of a stream that fills m cells from empty with n distinct events.
/// The parameter `duplicates_share` is the share of lookups that are duplicates. A duplicate visits all slices that
/// hold its cells. The emptier the filter is, the fewer slices a distinct event visits, because the lookup ends at the
/// first unset cell (Koloniari et al. 2011, section 3.1).
///
/// ```
/// use firstseen_filter::rates::slicing;
/// let all_new = slicing::stream_visits(8, 8, 1e6, 8e4, 0.0);
/// assert!(all_new.test > 1.0 && all_new.test < slicing::visits(8, 8, 0.473));
/// // False positives, 0.04 % of them, set nothing.
/// let set = (all_new.test_and_set - all_new.test) / slicing::slices_touched(8, 8);
/// assert!(set < 0.9999 && set > 0.999, "{set}");
/// let all_old = slicing::stream_visits(8, 8, 1e6, 8e4, 1.0);
/// assert_eq!(all_old.test, slicing::slices_touched(8, 8));
/// ```
pub fn stream_visits(slices: u32, hashes: u32, cells: f64, events: f64, duplicates_share: f64) -> Visits {
    let by_node = GAUSS.iter().map(|(node, weight)| {
        let fill = plain::fill(cells, hashes, node * events);
        weight * visits(slices, hashes, fill)
    });
    let distinct: f64 = by_node.sum();
    let touched = slices_touched(slices, hashes);
    let test = duplicates_share * touched + (1.0 - duplicates_share) * distinct;
    let distinct_share = (1.0 - duplicates_share) * (1.0 - plain::stream_mean(cells, hashes, events));
    Visits { test, test_and_set: test + distinct_share * touched }
}

/// Returns Jain's fairness index of measured loads, `(sum x)^2 / (S sum x^2)` for the loads x of S slices. The index is
/// 1 if all loads are equal, and 1/S if one slice has the whole load.
///
/// ```
/// use firstseen_filter::rates::slicing;
/// assert_eq!(slicing::fairness(&[3.0, 3.0]), 1.0);
/// assert_eq!(slicing::fairness(&[3.0, 0.0, 0.0]), 1.0 / 3.0);
/// ```
pub fn fairness(loads: &[f64]) -> f64 {
    let sum: f64 = loads.iter().sum();
    sum * sum / (loads.len() as f64 * loads.iter().map(|load| load * load).sum::<f64>())
}

/// Returns the expected fairness of the loads of S slices in a horizontal filter: `1 / (1 + (S-1) q)`. Here q is the
/// sum of the squares of the shares that the keys have in the stream.
///
/// ```
/// use firstseen_filter::rates::slicing;
/// assert_eq!(slicing::fairness_horizontal(5, 0.0), 1.0);
/// assert_eq!(slicing::fairness_horizontal(5, 1.0), 0.2);
/// ```
pub fn fairness_horizontal(slices: u32, share_squares: f64) -> f64 {
    1.0 / (1.0 + (f64::from(slices) - 1.0) * share_squares)
}

/// Returns the expected fairness of the loads of S slices in a vertical filter: `1 / (1 + (S-1) q/k)`. It is higher
/// than in a horizontal filter, because the load of a key is spread over k positions. The fairness of diced filters
/// lies between this value and [`fairness_horizontal`].
///
/// ```
/// use firstseen_filter::rates::slicing;
/// assert_eq!(slicing::fairness_vertical(5, 4, 1.0), 0.5);
/// ```
pub fn fairness_vertical(slices: u32, hashes: u32, share_squares: f64) -> f64 {
    fairness_horizontal(slices, share_squares / f64::from(hashes))
}

/// Returns the binomial coefficient C(n, count).
pub(super) fn choose(n: f64, count: u32) -> f64 {
    (0..count).map(f64::from).map(|i| (n - i) / (i + 1.0)).product()
}
