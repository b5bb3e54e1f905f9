//! Formulas that only experiments need. All other formulas are in `firstseen_filter::rates`.
//!
//! Each formula is documented with its derivation.
//!
//! This module does not depend on filters or streams.

pub mod ageing;
pub mod jumping;
pub mod popularity;

pub use ageing::AgePartitioned;
use firstseen_filter::rates::plain;
use statrs::distribution::{Binomial, Discrete};

/// Jumping window of counters that starts empty and receives distinct events.
#[derive(Clone, Copy, Debug)]
pub struct JumpingCounters {
    /// Number of cells (m).
    pub cells: f64,
    /// Number of positions per event (k).
    pub hashes: u32,
    /// Number of events per sub-window.
    pub sub_window_events: f64,
    /// Number of sub-windows that are alive at once, including the current one.
    pub sub_windows: usize,
}

impl JumpingCounters {
    /// Returns the mean false-positive rate over the sub-windows `from..to`. The filter starts empty, and records only
    /// events that it calls distinct.
    ///
    /// Metwally et al. 2005, section 3.3, have no formula for this rate. A cell is either empty, or was last marked in
    /// the sub-window of age a. F is the share of cells that are not empty. An event always marks its own empty cells,
    /// because it is distinct in that case. It marks another cell unless all its other k - 1 cells are taken, that is
    /// with the probability `1 - F^(k-1)`. With `h = k/m` per event, the shares s_a of the ages follow the equations
    ///
    /// `s_0' = h (1 - F) + h (1 - F^(k-1)) (s_1 + s_2 + ..)`, `s_a' = -h (1 - F^(k-1)) s_a`.
    ///
    /// Within a sub-window, the shares of cells by age follow the equations. When the window jumps to the next
    /// sub-window, the age of every set cell increases by one, and the cells of the greatest age become empty. The
    /// function integrates the equations with the midpoint rule, and returns the mean of the false-positive rate `F^k`
    /// over this course.
    ///
    /// ```
    /// use firstseen_eval::theory::JumpingCounters;
    /// use firstseen_filter::rates::plain;
    /// let jumping = JumpingCounters { cells: 4.0 * 288_539.0, hashes: 4, sub_window_events: 5e4, sub_windows: 4 };
    /// // The first window is a filter that grows from empty.
    /// let grown = plain::stream_mean(4.0 * 288_539.0, 4, 2e5);
    /// assert!((jumping.mean_rate(0, 4) / grown - 1.0).abs() < 1e-4);
    /// // Later ones are nearly as if everything were recorded.
    /// let all = plain::mean_between(4.0 * 288_539.0, 4, 1.5e5, 2e5);
    /// let ratio = jumping.mean_rate(40, 44) / all;
    /// assert!(ratio > 0.9 && ratio < 1.0, "{ratio}");
    /// ```
    pub fn mean_rate(&self, from_sub_window: u32, to_sub_window: u32) -> f64 {
        const STEPS: u32 = 400;
        let step = self.sub_window_events / f64::from(STEPS);
        let mut shares = vec![0.0; self.sub_windows];
        let mut sum = 0.0;
        let mut count = 0.0;
        for sub_window in 0..to_sub_window {
            if sub_window > 0 {
                shares.rotate_right(1);
                shares[0] = 0.0;
            }
            for _ in 0..STEPS {
                let middle = self.after(&shares, &self.slopes(&shares), step / 2.0);
                if sub_window >= from_sub_window {
                    sum += middle.iter().sum::<f64>().powi(self.hashes as i32);
                    count += 1.0;
                }
                shares = self.after(&shares, &self.slopes(&middle), step);
            }
        }
        sum / count
    }

    fn slopes(&self, shares: &[f64]) -> Vec<f64> {
        let hits = f64::from(self.hashes) / self.cells;
        let fill: f64 = shares.iter().sum();
        let again = hits * (1.0 - fill.powi(self.hashes as i32 - 1));
        let mut slopes: Vec<f64> = shares.iter().map(|share| -again * share).collect();
        slopes[0] = hits * (1.0 - fill) + again * shares[1..].iter().sum::<f64>();
        slopes
    }

    fn after(&self, shares: &[f64], slopes: &[f64], events: f64) -> Vec<f64> {
        shares.iter().zip(slopes).map(|(share, slope)| share + events * slope).collect()
    }
}

/// Returns the false-positive rate of a filter with the general slicing of Koloniari et al. 2011, section 3.3. The
/// filter has S slices of `slice_cells` cells and holds n events. For each event, `choices` functions (k1) each choose
/// a slice, and `each` positions (k2) lie in every chosen slice.
///
/// The derivation starts with the load L of a slice, which is the number of times that n events choose it. The load is
/// binomial(n k1, 1/S), and a slice with the load L has the fill `p_L = 1 - (1 - 1/c)^(k2 L)`, where c is its number of
/// cells. If a query chooses a slice i times, it finds all its cells there set with the probability `E[p_L^(k2 i)]`.
/// With r choices left and s slices that no choice has met yet, the rate follows the recursion `R(r,s) = sum over i of
/// C(r-1,i-1) (1/s)^(i-1) (1-1/s)^(r-i) E[p_L^(k2 i)] R(r-i,s-1)`.
///
/// ```
/// use firstseen_eval::theory::general_slicing_rate;
/// use firstseen_filter::rates::{plain, slicing};
/// // One choice is horizontal; as many as positions come near the uncut filter.
/// let one = general_slicing_rate(1000.0, 20, 1, 6, 2e3);
/// assert!((one / slicing::horizontal_rate(2e4, 6, 2e3, 20) - 1.0).abs() < 1e-6);
/// let all = general_slicing_rate(1000.0, 20, 6, 1, 2e3);
/// assert!(all < one && (all / plain::rate(2e4, 6, 2e3) - 1.0).abs() < 0.02);
/// ```
pub fn general_slicing_rate(slice_cells: f64, slices: u32, choices: u32, each: u32, events: f64) -> f64 {
    let loads = loads(events * f64::from(choices), 1.0 / f64::from(slices));
    let covered: Vec<f64> = (0..=choices)
        .map(|together| {
            let positions = (each * together) as i32;
            loads.iter().map(|(load, chance)| chance * plain::fill(slice_cells, each, *load).powi(positions)).sum()
        })
        .collect();
    // `rates[r]` is R(r, s), from s = 1 upward. If there are more slices than choices, the choices never meet all
    // slices.
    let mut rates: Vec<f64> = covered.clone();
    let first = slices.saturating_sub(choices) + 1;
    for s in first.max(2)..=slices {
        let here = 1.0 / f64::from(s);
        for left in (1..=choices).rev() {
            let terms = (1..=left).map(|c| {
                let others = f64::from(left - 1);
                let ways: f64 = (0..c - 1).map(f64::from).map(|i| (others - i) / (i + 1.0)).product();
                let chance = ways * here.powi(c as i32 - 1) * (1.0 - here).powi((left - c) as i32);
                chance * covered[c as usize] * if c == left { 1.0 } else { rates[(left - c) as usize] }
            });
            rates[left as usize] = terms.sum();
        }
    }
    rates[choices as usize]
}

/// Returns the possible loads of one of many places with their probabilities. The distribution is binomial, without
/// tails below 1e-16.
fn loads(trials: f64, chance: f64) -> Vec<(f64, f64)> {
    let mean = trials * chance;
    let deviation = (trials * chance * (1.0 - chance)).sqrt();
    let reach = 9.0 * deviation + 9.0;
    let least = (mean - reach).max(0.0) as u64;
    let most = (mean + reach).min(trials) as u64;
    match Binomial::new(chance, trials as u64) {
        Ok(binomial) => (least..=most).map(|load| (load as f64, binomial.pmf(load))).collect(),
        Err(_) => vec![(mean, 1.0)],
    }
}
