//! Averages over binomial loads, and over a load that grows from zero.
//!
//! The relative errors are far smaller than any simulation can detect.
//!
//! This module does not depend on what is averaged.

/// Standard deviation above which the loads are taken from the grid of a normal distribution.
const GRID_DEVIATION: f64 = 512.0;
/// Number of grid points per standard deviation, and number of standard deviations on either side.
const GRID: (f64, i32) = (16.0, 9);
/// Weight relative to the greatest weight below which the rest of a tail is ignored.
const TAIL: f64 = 1e-18;

/// Passes the possible loads of one slice or block to `visit`, each with its relative weight. The load is the number of
/// events that fall on this slice or block, out of `trials` events that each fall on it with the probability `p`. The
/// weights do not add up to 1, so the function returns their sum. To obtain a mean, divide the weighted total by this
/// sum.
pub(super) fn for_each_load(trials: f64, p: f64, mut visit: impl FnMut(f64, f64)) -> f64 {
    let deviation = (trials * p * (1.0 - p)).sqrt();
    if deviation <= GRID_DEVIATION {
        return walk(trials, p, visit);
    }
    let mut total = 0.0;
    let (step, reach) = GRID;
    for index in -reach * step as i32..=reach * step as i32 {
        let z = f64::from(index) / step;
        let weight = (-z * z / 2.0).exp();
        visit((trials * p + z * deviation).clamp(0.0, trials), weight);
        total += weight;
    }
    total
}

/// Works like [`for_each_load`], but passes every load with a relevant weight to `visit`, even if there are many such
/// loads. [`for_each_load`] calls this function if there are few loads. The function begins with the most likely load
/// and proceeds to greater loads, and afterwards proceeds from the most likely load to smaller ones.
pub(super) fn walk(trials: f64, p: f64, mut visit: impl FnMut(f64, f64)) -> f64 {
    if p >= 1.0 {
        visit(trials.round(), 1.0);
        return 1.0;
    }
    let odds = p / (1.0 - p);
    let mode = ((trials + 1.0) * p).floor().min(trials.floor());
    let mut load = mode;
    let mut weight = 1.0;
    let mut total = 0.0;
    while weight > TAIL {
        visit(load, weight);
        total += weight;
        weight *= odds * (trials - load) / (load + 1.0);
        load += 1.0;
    }
    load = mode;
    weight = 1.0;
    while load >= 1.0 {
        weight *= load / ((trials - load + 1.0) * odds);
        load -= 1.0;
        if weight <= TAIL {
            break;
        }
        visit(load, weight);
        total += weight;
    }
    total
}

/// Nodes in (0, 1) and weights of the Gauss-Legendre rule with 8 points, which is exact for polynomials up to degree
/// 15.
pub(super) const GAUSS: [(f64, f64); 8] = {
    const HALVES: [(f64, f64); 4] = [
        (0.183_434_642_495_649_8, 0.362_683_783_378_362),
        (0.525_532_409_916_329, 0.313_706_645_877_887_3),
        (0.796_666_477_413_626_7, 0.222_381_034_453_374_5),
        (0.960_289_856_497_536_3, 0.101_228_536_290_376_3),
    ];
    let mut rule = [(0.0, 0.0); 8];
    let mut index = 0;
    while index < 4 {
        let (node, weight) = HALVES[index];
        rule[index] = (0.5 - node / 2.0, weight / 2.0);
        rule[7 - index] = (0.5 + node / 2.0, weight / 2.0);
        index += 1;
    }
    rule
};

/// Returns the mean of `f(i)` over all `i` in `from..to`. If `f(i)` is the false-positive rate after `i` events, the
/// result is the mean rate of a stream in which event `i` finds `i` events before it. For short streams, the function
/// adds up all values. For longer streams, it uses an integral with the first term of the Euler-Maclaurin formula.
pub(super) fn over_stream(from: f64, to: f64, f: impl Fn(f64) -> f64) -> f64 {
    const SUMMED: f64 = 4096.0;
    const PANELS: u32 = 4;
    let events = to - from;
    if events < 2.0 {
        return f(from);
    }
    if events <= SUMMED {
        let count = events.floor() as u32;
        return (0..count).map(|index| f(from + f64::from(index))).sum::<f64>() / f64::from(count);
    }
    let mut sum = 0.0;
    for panel in 0..PANELS {
        let points = GAUSS.iter().map(|(node, weight)| {
            let at = from + (f64::from(panel) + node) / f64::from(PANELS) * events;
            weight * f(at)
        });
        sum += points.sum::<f64>();
    }
    let integral = sum / f64::from(PANELS);
    integral - (f(to) - f(from)) / (2.0 * events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_have_the_mean_and_the_variance_of_a_binomial() {
        for (trials, p) in [(1.0, 0.5), (10.0, 0.3), (1e6, 1e-5), (1e6, 0.125), (1e9, 0.125), (7.0, 1.0)] {
            let (mut first, mut second) = (0.0, 0.0);
            let total = for_each_load(trials, p, |load, weight| {
                first += load * weight;
                second += (load - trials * p).powi(2) * weight;
            });
            let variance = trials * p * (1.0 - p);
            assert!((first / total / (trials * p) - 1.0).abs() < 1e-9, "{trials} {p}");
            assert!((second / total - variance).abs() <= 1e-6 * variance, "{trials} {p}");
        }
    }

    #[test]
    fn a_mean_over_a_stream_is_that_of_the_sum() {
        let f = |i: f64| (i / 1e5).powi(10);
        let exact = (0..100_000u32).map(|i| f(f64::from(i))).sum::<f64>() / 1e5;
        assert!((over_stream(0.0, 1e5, f) / exact - 1.0).abs() < 1e-8);
        assert_eq!(over_stream(0.0, 3.0, |i| i), 1.0);
    }
}
