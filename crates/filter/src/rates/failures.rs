//! Error rates of verdicts while slices are down (Koloniari et al. 2011, section 3.2).
//!
//! The formulas give the expected false positives and false negatives of every policy for slices that have failed. In
//! all formulas, phi is the share of slices that are down, and p is the fill of a live slice.
//!
//! A false negative is a recorded event that is called distinct. All live cells of a recorded event are set, so the
//! live cells never cause this error. It happens only with policies that require a number of live cells, if too many
//! cells of the event lie on failed slices.
//!
//! This module does not depend on which slice is down.

use super::slicing::choose;

/// Returns the false-positive rate of a horizontal filter that calls an event a duplicate if the slice of the event has
/// failed: `phi + (1 - phi) p^k`. This policy has no false negatives (Koloniari et al. 2011, section 3.2).
///
/// ```
/// use firstseen_filter::rates::failures;
/// assert_eq!(failures::horizontal_as_duplicate(0.25, 0.5, 2), 0.25 + 0.75 * 0.25);
/// ```
pub fn horizontal_as_duplicate(phi: f64, fill: f64, hashes: u32) -> f64 {
    phi + (1.0 - phi) * fill.powi(hashes as i32)
}

/// Returns the false-positive rate of a vertical filter that counts all cells of failed slices as set: `(phi + (1 -
/// phi) p)^k`. This policy has no false negatives (Koloniari et al. 2011, section 3.2).
///
/// ```
/// use firstseen_filter::rates::failures;
/// assert_eq!(failures::vertical_as_duplicate(0.5, 0.5, 2), 0.5625);
/// ```
pub fn vertical_as_duplicate(phi: f64, fill: f64, hashes: u32) -> f64 {
    (phi + (1.0 - phi) * fill).powi(hashes as i32)
}

/// Error rates of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Share of new events that are called duplicates.
    pub false_positives: f64,
    /// Share of recorded events that are called distinct.
    pub false_negatives: f64,
}

/// Rule by which a vertical filter decides from the cells of an event that are alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The event is a duplicate if at least x cells are alive and set. This is the rule as printed in Koloniari et al.
    /// 2011.
    Literal,
    /// The event is a duplicate if two conditions hold: at least x of its cells are alive and set, as in the literal
    /// rule, and no live cell of the event is unset. An unset live cell proves that the event is distinct. The strict
    /// rule therefore has fewer false positives than the literal rule for every x.
    Strict,
}

/// Returns the error rates of a vertical filter that calls an event a duplicate if at least x of its k cells are alive
/// and set.
///
/// The formulas use `q = (1 - phi) p`, which is the probability that a position is alive and set:
///
/// - The false-positive rate by the literal rule is `sum over i >= x of C(k,i) q^i (1-q)^(k-i)`.
/// - The false-positive rate by the strict rule is `sum over i >= x of C(k,i) q^i phi^(k-i)`.
/// - The false-negative rate by both rules is `sum over i >= k-x+1 of C(k,i) phi^i (1-phi)^(k-i)`.
///
/// Koloniari et al. 2011, section 3.2, print these formulas with `q^x` and without `C(k,i)`.
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

/// Returns the probability that exactly `count` of the k positions of an event are in one state, and that all other
/// positions are in a second state. The parameter `chance` is the probability of the first state for a single position,
/// and `other` is the probability of the second state. Their sum may be below 1, because there may be further states,
/// which are excluded here.
fn of_positions(hashes: u32, count: u32, chance: f64, other: f64) -> f64 {
    choose(f64::from(hashes), count) * chance.powi(count as i32) * other.powi((hashes - count) as i32)
}

/// Returns the false-positive rate of a diced filter (first horizontal, then vertical slicing) that counts all cells of
/// failed slices as set. The filter has `groups * per_group` slices, and f of them are down.
///
/// The slices of such a filter form groups, and all cells of an event lie in one group. The number f_g of failed slices
/// among the S' slices of a group follows a hypergeometric distribution. The rate is the mean of `(f_g/S' + (1 -
/// f_g/S') p)^k` over this distribution.
///
/// Equation 7 of Koloniari et al. 2011 gives a different rate for two reasons. Its second term is misprinted and should
/// be `1 - f/(S S')`. Even with this correction, the equation describes only filters that are sliced vertically first
/// and horizontally second.
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

/// Returns the error rates of an h-v diced filter with the x-of-k rule. This is [`x_of_k`], averaged over the failures
/// in an event's group.
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

/// Returns the mean of `f` over the groups of a filter, if `failed` randomly chosen slices are down. The argument of
/// `f` is the share of a group's slices that are down. The result is not a number if more slices are down than exist.
fn over_group_failures(groups: u32, per_group: u32, failed: u32, f: impl Fn(f64) -> f64) -> f64 {
    let others = (f64::from(groups) - 1.0) * f64::from(per_group);
    let all = choose(others + f64::from(per_group), failed);
    let terms = (0..=failed.min(per_group)).map(|here| {
        let ways = choose(f64::from(per_group), here) * choose(others, failed - here);
        ways / all * f(f64::from(here) / f64::from(per_group))
    });
    terms.sum()
}

/// Returns the number of slices that a horizontal filter needs to keep its false-positive rate at or below `rate_max`
/// while f slices are down. The filter calls an event a duplicate if the slice of the event has failed. If the rate
/// without failures is P, the number is `f (1 - P) / (rate_max - P)` (Koloniari et al. 2011, section 3.2).
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

/// Returns the number of slices that a vertical filter needs to keep its false-positive rate at or below `rate_max`
/// while f slices are down. The filter counts all cells of failed slices as set.
///
/// If the rate without failures is P, the number is `f (1 - P^(1/k)) / (rate_max^(1/k) - P^(1/k))`. The formula in
/// Koloniari et al. 2011, section 3.2, lacks a root.
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
