//! Verdicts while slices are down (K11 3.2).
//!
//! Promises: expected false positives and false negatives of every policy. Must not know: which slice is down.
//!
//! phi is the share of slices that are down; p the fill of a live one. A false negative is an event that the filter
//! holds and that is called distinct; its cells are all set where they are alive.

use super::slicing::choose;

/// Horizontal, failed = duplicate: `phi + (1 - phi) p^k` false positives, no false negatives (K11 3.2).
///
/// ```
/// use firstseen_filter::rates::failures;
/// assert_eq!(failures::horizontal_as_duplicate(0.25, 0.5, 2), 0.25 + 0.75 * 0.25);
/// ```
pub fn horizontal_as_duplicate(phi: f64, fill: f64, hashes: u32) -> f64 {
    phi + (1.0 - phi) * fill.powi(hashes as i32)
}

/// Vertical, failed = duplicate: `(phi + (1 - phi) p)^k` false positives, no false negatives (K11 3.2).
///
/// ```
/// use firstseen_filter::rates::failures;
/// assert_eq!(failures::vertical_as_duplicate(0.5, 0.5, 2), 0.5625);
/// ```
pub fn vertical_as_duplicate(phi: f64, fill: f64, hashes: u32) -> f64 {
    (phi + (1.0 - phi) * fill).powi(hashes as i32)
}

/// The errors of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Share of the new events that are called duplicates.
    pub false_positives: f64,
    /// Share of the held events that are called distinct.
    pub false_negatives: f64,
}

/// When a vertical filter believes an event's surviving cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Duplicate if at least x cells are alive and set (the words of K11).
    Literal,
    /// Also no alive cell is unset, which would prove the event distinct. Better at every x.
    Strict,
}

/// Vertical, duplicate if at least x of k cells are alive and set. With `q = (1 - phi) p`:
/// literal `FP = sum over i >= x of C(k,i) q^i (1-q)^(k-i)`, strict `FP = sum over i >= x of C(k,i) q^i phi^(k-i)`,
/// both `FN = sum over i >= k-x+1 of C(k,i) phi^i (1-phi)^(k-i)` (K11 3.2, printed with `q^x` and without `C(k,i)`).
///
/// ```
/// use firstseen_filter::rates::failures::{self, Rule};
/// let strict = failures::x_of_k(0.2, 0.5, 8, 4, Rule::Strict);
/// let literal = failures::x_of_k(0.2, 0.5, 8, 4, Rule::Literal);
/// assert!(strict.false_positives < literal.false_positives);
/// assert_eq!(strict.false_negatives, literal.false_negatives);
/// // x = 0 believes everything that nothing disproves.
/// let trusting = failures::x_of_k(0.2, 0.5, 8, 0, Rule::Strict);
/// assert!((trusting.false_positives - failures::vertical_as_duplicate(0.2, 0.5, 8)).abs() < 1e-15);
/// assert_eq!(trusting.false_negatives, 0.0);
/// ```
pub fn x_of_k(phi: f64, fill: f64, hashes: u32, least_set: u32, rule: Rule) -> Errors {
    let set = (1.0 - phi) * fill;
    let otherwise = match rule {
        Rule::Literal => 1.0 - set,
        Rule::Strict => phi,
    };
    let lost_least = (hashes + 1).saturating_sub(least_set);
    Errors {
        false_positives: (least_set..=hashes).map(|count| of_positions(hashes, count, set, otherwise)).sum(),
        false_negatives: (lost_least..=hashes).map(|count| of_positions(hashes, count, phi, 1.0 - phi)).sum(),
    }
}

/// The chance that `count` of k positions are of a kind that one is with `chance`, and all others of one with `other`.
fn of_positions(hashes: u32, count: u32, chance: f64, other: f64) -> f64 {
    choose(f64::from(hashes), count) * chance.powi(count as i32) * other.powi((hashes - count) as i32)
}

/// h-v diced, failed = duplicate: f of the `groups * per_group` slices are down. An event's cells lie in one group,
/// whose failures are hypergeometric: the mean over groups of `(f_g/S' + (1 - f_g/S') p)^k` (K11 eq. 7, whose second
/// term should read `1 - f/(S S')` and even so describes v-h only).
///
/// ```
/// use firstseen_filter::rates::failures;
/// // One failure of 2 x 2 slices: half the events lose half their slices.
/// let rate = failures::diced_as_duplicate(2, 2, 1, 0.5, 2);
/// assert!((rate - (0.5625 + 0.25) / 2.0).abs() < 1e-15);
/// ```
pub fn diced_as_duplicate(groups: u32, per_group: u32, failed: u32, fill: f64, hashes: u32) -> f64 {
    over_group_failures(groups, per_group, failed, |phi| vertical_as_duplicate(phi, fill, hashes))
}

/// h-v diced, x of k: [`x_of_k`] averaged over the failures of an event's group.
///
/// ```
/// use firstseen_filter::rates::failures::{self, Rule};
/// // One group is a vertical filter.
/// assert_eq!(
///     failures::diced_x_of_k(1, 4, 1, 0.5, 4, 2, Rule::Strict),
///     failures::x_of_k(0.25, 0.5, 4, 2, Rule::Strict)
/// );
/// ```
pub fn diced_x_of_k(
    groups: u32,
    per_group: u32,
    failed: u32,
    fill: f64,
    hashes: u32,
    least_set: u32,
    rule: Rule,
) -> Errors {
    Errors {
        false_positives: over_group_failures(groups, per_group, failed, |phi| {
            x_of_k(phi, fill, hashes, least_set, rule).false_positives
        }),
        false_negatives: over_group_failures(groups, per_group, failed, |phi| {
            x_of_k(phi, fill, hashes, least_set, rule).false_negatives
        }),
    }
}

/// The mean of `f(share of a group's slices that are down)` when `failed` of all slices are down at random.
/// Not a number if more are down than there are.
fn over_group_failures(groups: u32, per_group: u32, failed: u32, f: impl Fn(f64) -> f64) -> f64 {
    let others = (f64::from(groups) - 1.0) * f64::from(per_group);
    let all = choose(others + f64::from(per_group), failed);
    let terms = (0..=failed.min(per_group)).map(|here| {
        let ways = choose(f64::from(per_group), here) * choose(others, failed - here);
        ways / all * f(f64::from(here) / f64::from(per_group))
    });
    terms.sum()
}

/// The slices that a horizontal filter needs so that f failures keep its rate at most `rate_max` when its own rate is
/// P and failed = duplicate: `f (1 - P) / (rate_max - P)` (K11 3.2).
///
/// ```
/// use firstseen_filter::rates::failures;
/// let slices = failures::slices_horizontal(2.0, 0.01, 0.05);
/// assert!((slices - 49.5).abs() < 1e-9);
/// assert!((failures::horizontal_as_duplicate(2.0 / slices, 0.1, 2) - 0.05).abs() < 1e-12);
/// ```
pub fn slices_horizontal(failed: f64, rate: f64, rate_max: f64) -> f64 {
    failed * (1.0 - rate) / (rate_max - rate)
}

/// The slices that a vertical filter needs, likewise: `f (1 - P^(1/k)) / (rate_max^(1/k) - P^(1/k))` (K11 3.2; the
/// printed one lacks a root).
///
/// ```
/// use firstseen_filter::rates::failures;
/// let slices = failures::slices_vertical(2.0, 0.01, 0.05, 4);
/// assert!((failures::vertical_as_duplicate(2.0 / slices, 0.01f64.powf(0.25), 4) - 0.05).abs() < 1e-12);
/// ```
pub fn slices_vertical(failed: f64, rate: f64, rate_max: f64, hashes: u32) -> f64 {
    let exponent = 1.0 / f64::from(hashes);
    let fill = rate.powf(exponent);
    failed * (1.0 - fill) / (rate_max.powf(exponent) - fill)
}
