//! What cutting a filter into S slices does to its rate, its messages and its balance (K11 3).
//!
//! Promises: expectations over uniform digests. Must not know: where a slice lives. S is the number of places that can
//! be visited: nodes, where slices of one node are tested in one visit.

use super::{
    mean::{GAUSS, for_each_load},
    plain,
};

/// The rate of a horizontal filter of m cells in S classic slices: the loads of slices are binomial(n, 1/S), so the
/// mean over loads of `plain::rate(m/S, k, load)`, slightly above the rate of the whole (K11 eq. 4 takes every load as
/// n/S). Horizontal slices of blocks need no formula of their own: block loads are the same.
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

/// Different slices that the k positions of an event touch in a vertical filter, on average: `S (1 - (1 - 1/S)^k)` (K11
/// 3.1). A pipelined lookup of a duplicate visits as many, and so does a set.
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

/// Slices that a pipelined lookup of a distinct event visits at fill p: in the order of its positions, testing at each
/// slice all positions that lie there, until one is unset. With r positions left and s slices not yet visited
/// `V(r,s) = 1 + sum over c in 1..r of C(r-1,c-1) (1/s)^(c-1) (1-1/s)^(r-c) p^c V(r-c,s-1)`, `V(r,1) = 1` (K11 3.1).
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

/// Positions that a pipelined lookup of a distinct event tests at fill p, at the slices that it visits:
/// `T(r,s) = sum over c in 1..=r of C(r-1,c-1) (1/s)^(c-1) (1-1/s)^(r-c) (c + p^c T(r-c,s-1))`, `T(r,1) = r` (as [`visits`]).
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

/// The cost of a pipelined lookup of a distinct event, where a visit to a slice that has c of its positions costs
/// `cost(c)`.
fn over_pipeline(slices: u32, hashes: u32, fill: f64, cost: impl Fn(u32) -> f64) -> f64 {
    // by_left[r]: with r positions left and s slices, from s = 1 up to all; more slices than positions are never exhausted.
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

/// Visits of an average event of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visits {
    /// Slices visited by the test pass, which K11 counts.
    pub test: f64,
    /// Slices visited by test and set: the set pass of distinct events visits every slice that holds one of their
    /// cells. (Where the slice that finds the unset cell sets its own at once, one less for each of them.)
    pub test_and_set: f64,
}

/// [`visits`] of a stream that fills m cells from empty with n distinct events, when a share of the lookups are
/// duplicates: distinct ones meet the growing fill, duplicates visit all their slices (K11 3.1).
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

/// Jain's fairness of measured loads: `(sum x)^2 / (S sum x^2)`, 1 when all are equal, 1/S when one has all.
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

/// Expected fairness of a horizontal filter: `1 / (1 + (S-1) q)`, q being the sum over keys of the square of the
/// key's share of the stream.
///
/// ```
/// use firstseen_filter::rates::slicing;
/// assert_eq!(slicing::fairness_horizontal(5, 0.0), 1.0);
/// assert_eq!(slicing::fairness_horizontal(5, 1.0), 0.2);
/// ```
pub fn fairness_horizontal(slices: u32, share_squares: f64) -> f64 {
    1.0 / (1.0 + (f64::from(slices) - 1.0) * share_squares)
}

/// Expected fairness of a vertical filter, whose keys spread over k positions: `1 / (1 + (S-1) q/k)`. Diced filters lie
/// between this and [`fairness_horizontal`].
///
/// ```
/// use firstseen_filter::rates::slicing;
/// assert_eq!(slicing::fairness_vertical(5, 4, 1.0), 0.5);
/// ```
pub fn fairness_vertical(slices: u32, hashes: u32, share_squares: f64) -> f64 {
    fairness_horizontal(slices, share_squares / f64::from(hashes))
}

/// The binomial coefficient C(n, count).
pub(super) fn choose(n: f64, count: u32) -> f64 {
    (0..count).map(f64::from).map(|i| (n - i) / (i + 1.0)).product()
}
