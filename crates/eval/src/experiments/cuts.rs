//! Effect of each way of slicing a filter on its false-positive rate (Koloniari et al. 2011, section 3), over a stream
//! that fills the filter.
//!
//! The formulas hold for events that fall uniformly.
//!
//! This module does not depend on filters or streams.

use firstseen_filter::rates::{plain, slicing};

/// Way of slicing a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Horizontal,
    Vertical,
    HorizontalVertical,
    VerticalHorizontal,
}

/// Number of slices of the second division, for slicings with two divisions.
pub(super) const INNER: u32 = 5;

/// Number of points in the filling over which a mean is taken.
const STEPS: u32 = 64;

impl Way {
    pub(super) const ALL: [Self; 4] =
        [Self::Vertical, Self::Horizontal, Self::HorizontalVertical, Self::VerticalHorizontal];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Horizontal => "horizontal",
            Self::Vertical => "vertical",
            Self::HorizontalVertical => "horizontal, then vertical in 5",
            Self::VerticalHorizontal => "vertical, then horizontal in 5",
        }
    }

    /// Returns the text of a slicing into `slices` slices in total. With two divisions the number must be a multiple of
    /// [`INNER`].
    pub(super) fn slicing(self, slices: u32) -> String {
        match self {
            Self::Horizontal => format!("horizontal:{slices}"),
            Self::Vertical => format!("vertical:{slices}"),
            Self::HorizontalVertical => format!("horizontal-vertical:{}x{INNER}", slices / INNER),
            Self::VerticalHorizontal => format!("vertical-horizontal:{}x{INNER}", slices / INNER),
        }
    }

    /// Returns the number of slices over which events are divided (H), and the number of ranges into which cells are
    /// divided (V).
    pub(super) fn divides(self, slices: u32) -> (u32, u32) {
        match self {
            Self::Horizontal => (slices, 1),
            Self::Vertical => (1, slices),
            Self::HorizontalVertical => (slices / INNER, INNER),
            Self::VerticalHorizontal => (INNER, slices / INNER),
        }
    }

    /// Returns the mean rate over n distinct events that fill m cells from empty.
    pub(super) fn stream_rate(self, slices: u32, cells: f64, hashes: u32, events: f64) -> f64 {
        let rates = (0..STEPS).map(|step| {
            let before = (f64::from(step) + 0.5) / f64::from(STEPS) * events;
            match self {
                Self::Vertical => plain::rate(cells, hashes, before),
                Self::Horizontal => slicing::horizontal_rate(cells, hashes, before, slices),
                Self::HorizontalVertical => slicing::horizontal_rate(cells, hashes, before, slices / INNER),
                Self::VerticalHorizontal => Ranges { cells, hashes, ranges: slices / INNER, parts: INNER }.rate(before),
            }
        });
        rates.sum::<f64>() / f64::from(STEPS)
    }
}

/// Vertical filter whose ranges are each divided into parts by a hash function of their own.
struct Ranges {
    cells: f64,
    hashes: u32,
    ranges: u32,
    parts: u32,
}

impl Ranges {
    /// Returns the false-positive rate after `events` events. The cells of the filter are divided into ranges, and each
    /// range is divided into parts.
    ///
    /// Each position of a query lies in a random range. Within a range, all positions of the query lie in the same
    /// part. If c positions lie in a range, they are therefore all set with the probability `E[p^c]`. Here p is the
    /// share of set cells in a part. It depends on the load of the part, and E is the mean over all loads that a part
    /// can have.
    ///
    /// The function computes the rate by a recursion over the ranges. Let `R(r,s)` be the probability that r positions
    /// are all set if they lie in s ranges that the recursion has not considered yet. Each step considers one range,
    /// namely that of the first of these positions, and c is the number of positions in this range. The result is
    /// `R(r,s) = sum over c of C(r-1,c-1) (1/s)^(c-1) (1-1/s)^(r-c) E[p^c] R(r-c,s-1)`.
    fn rate(&self, events: f64) -> f64 {
        let covered: Vec<f64> = (0..=self.hashes).map(|together| self.covered(together, events)).collect();
        self.left(self.hashes, self.ranges, &covered)
    }

    fn left(&self, left: u32, ranges: u32, covered: &[f64]) -> f64 {
        if left == 0 {
            return 1.0;
        }
        let here = 1.0 / f64::from(ranges);
        let terms = (1..=left).map(|c| {
            let ways: f64 = (0..c - 1).map(|i| f64::from(left - 1 - i) / f64::from(i + 1)).product();
            let elsewhere = (1.0 - here).powi((left - c) as i32);
            if elsewhere == 0.0 && c < left {
                return 0.0;
            }
            ways * here.powi(c as i32 - 1) * elsewhere * covered[c as usize] * self.left(left - c, ranges - 1, covered)
        });
        terms.sum()
    }

    /// Returns `E[p^c]`, which is the probability that c given cells in the same part are all set. Here p is the share
    /// of set cells in the part, and E is the mean over all loads that a part can have.
    ///
    /// Recorded events have set the cells at their positions. The load h of a part is the number of such positions that
    /// lie in the part (hits). After h hits on a part with `c_part` cells, the share of its set cells is `p = 1 -
    /// e^(-h/c_part)`.
    ///
    /// The number h of hits differs from part to part, so the function averages over h. It uses the Gauss-Hermite rule
    /// with three points, which needs the mean and the variance of h:
    ///
    /// - With V ranges of H parts each, one event hits a part `k / (V H)` times on average.
    /// - The mean square of this number is `E[c^2] / H`. Here c is the number of positions that the event has in a
    ///   range, with the distribution binomial(k, 1/V). The divisor is H because all c positions lie in only one of the
    ///   H parts.
    fn covered(&self, together: u32, events: f64) -> f64 {
        let k = f64::from(self.hashes);
        let ranges = f64::from(self.ranges);
        let parts = f64::from(self.parts);
        let mean = k / ranges / parts;
        let second = (k / ranges * (1.0 - 1.0 / ranges) + (k / ranges).powi(2)) / parts;
        let reach = (3.0 * events * (second - mean * mean)).sqrt();
        let middle = events * mean;
        let [low, at_mean, high] = [middle - reach, middle, middle + reach]
            .map(|hits| (-(-hits.max(0.0) * ranges * parts / self.cells).exp_m1()).powi(together as i32));
        (low + 4.0 * at_mean + high) / 6.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_is_vertical_and_one_range_is_horizontal() {
        let rate = |ranges, parts| Ranges { cells: 5e4, hashes: 4, ranges, parts }.rate(6e3);
        let (plain, horizontal) = (plain::rate(5e4, 4, 6e3), slicing::horizontal_rate(5e4, 4, 6e3, 10));
        assert!((rate(8, 1) / plain - 1.0).abs() < 2e-3, "{} {plain}", rate(8, 1));
        assert!((rate(1, 10) / horizontal - 1.0).abs() < 5e-3, "{} {horizontal}", rate(1, 10));
    }
}
