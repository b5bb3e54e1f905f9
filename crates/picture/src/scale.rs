//! Scale of an axis: it maps values to positions, and chooses the values that get a label.
//!
//! Every finite value has a position on the axis. The labels of the axis are 1, 2 or 5 times a power of ten. If all
//! values are integers, all labels are integers too. A logarithmic axis that shows only a few measured values is
//! labelled with these values instead.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

/// Approximate maximum number of labels on an axis.
const LABELS: f64 = 9.0;
/// Maximum number of measured values that a logarithmic axis uses as labels.
const MEASURED_MAX: usize = 8;
/// Minimum distance between two measured values that are used as labels, as a fraction of the length of the axis. If
/// two values were closer to each other, the label of one value would cover the label of the other.
const APART_MIN: f64 = 0.06;

/// Positions and labels of an axis, in the form that the drawing library expects.
pub(super) struct Places {
    places: RangedCoordf64,
    labels: Vec<f64>,
}

impl Ranged for Places {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, pixels: (i32, i32)) -> i32 {
        self.places.map(place, pixels)
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.labels.clone()
    }

    fn range(&self) -> Range<f64> {
        self.places.range()
    }
}

/// Scale of an axis. Positions are the values, or their logarithms to base 10.
pub(super) struct Scale {
    is_log: bool,
    from: f64,
    to: f64,
    labels: Vec<f64>,
}

impl Scale {
    /// Creates the scale of an axis that contains all of `values`, with a margin at both ends. If `from_zero` is set, a
    /// linear axis begins at 0. There is one exception: if all values are so large that more than half of the axis
    /// would be empty, the axis begins near the smallest value.
    pub(super) fn of(is_log: bool, values: Vec<f64>, from_zero: bool) -> Self {
        // Integer values are counts, so labels between two integers would make no sense.
        let step_min = if values.iter().all(|value| value.fract() == 0.0) { 1.0 } else { 0.0 };
        let places = values
            .into_iter()
            .filter(|value| has_place(is_log, *value))
            .map(|value| if is_log { value.log10() } else { value });
        let (least, most) =
            places.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), place| (least.min(place), most.max(place)));
        let (least, most) = if least <= most { (least, most) } else { (0.0, 1.0) };
        let least = if from_zero && !is_log && least > 0.0 && least < most / 2.0 { 0.0 } else { least };
        let margin = if most > least { 0.05 * (most - least) } else { 0.5 * most.abs().max(1.0) };
        let from = if least == 0.0 && from_zero { 0.0 } else { least - margin };
        let to = most + margin;
        let labels = if is_log { log_labels(from, to) } else { linear_labels(from, to, step_min) };
        Self { is_log, from, to, labels }
    }

    /// Replaces the labels of a logarithmic axis with the values `measured`, which are in ascending order. The labels
    /// stay unchanged if there are too many values to show, or if two values are too close to each other for their
    /// labels to be readable. The labels of a linear axis never change.
    pub(super) fn labelled(mut self, measured: &[f64]) -> Self {
        let places: Vec<f64> =
            measured.iter().filter(|value| self.has(**value)).map(|value| self.place(*value)).collect();
        let apart = places.windows(2).all(|pair| pair[1] - pair[0] >= APART_MIN * (self.to - self.from));
        if self.is_log && apart && (2..=MEASURED_MAX).contains(&places.len()) {
            self.labels = places;
        }
        self
    }

    /// Returns whether a value has a place on the axis. A logarithmic axis contains only values above 0.
    pub(super) fn has(&self, value: f64) -> bool {
        has_place(self.is_log, value)
    }

    /// Returns the position of a value. A value that a logarithmic axis does not contain is placed at the lower end of
    /// the axis.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = if self.is_log { value.log10() } else { value };
        if place.is_nan() { self.from } else { place.clamp(self.from, self.to) }
    }

    /// Returns the positions and labels for the drawing library.
    pub(super) fn places(&self) -> Places {
        Places { places: (self.from..self.to).into(), labels: self.labels.clone() }
    }

    /// Returns the length of the axis, in the unit of positions.
    pub(super) fn length(&self) -> f64 {
        self.to - self.from
    }

    /// Returns the number of labels on the axis.
    pub(super) fn ticks(&self) -> usize {
        self.labels.len()
    }

    /// Returns the label at a position.
    pub(super) fn label(&self, place: f64) -> String {
        let value = if self.is_log { 10f64.powf(place) } else { place };
        number(value)
    }
}

fn has_place(is_log: bool, value: f64) -> bool {
    value.is_finite() && (!is_log || value > 0.0)
}

/// Formats a number with as few digits as are needed to read it.
fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e6).contains(&value.abs()) {
        let text = format!("{value:.1e}");
        return text.replace(".0e", "e");
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn linear_labels(from: f64, to: f64, step_min: f64) -> Vec<f64> {
    let rough = ((to - from) / LABELS).max(step_min.min(to - from));
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = (from / step).ceil() as i64;
    let last = (to / step).floor() as i64;
    (first..=last).map(|index| index as f64 * step).collect()
}

fn log_labels(from: f64, to: f64) -> Vec<f64> {
    let decades = to - from;
    let digits: &[f64] = match decades {
        few if few <= 1.0 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
        some if some <= 3.5 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let every = (decades / LABELS).ceil().max(1.0) as i64;
    let powers = (from.floor() as i64..=to.ceil() as i64).filter(|power| power.rem_euclid(every) == 0);
    let labels = powers.flat_map(|power| digits.iter().map(move |digit| power as f64 + digit.log10()));
    labels.filter(|place| (from..=to).contains(place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_round_and_few() {
        let labels = |is_log, values: &[f64]| {
            let scale = Scale::of(is_log, values.to_vec(), true);
            scale.labels.iter().map(|place| scale.label(*place)).collect::<Vec<_>>()
        };
        assert_eq!(labels(false, &[4.0, 10.0]), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(true, &[1e-4, 2e-2]), ["1e-4", "2e-4", "5e-4", "0.001", "0.002", "0.005", "0.01", "0.02"]);
        assert_eq!(labels(true, &[1e-7, 1.0]).len(), 8);
        assert!(labels(true, &[1e-15, 1.0]).contains(&"1e-14".to_owned()));
        assert_eq!(labels(false, &[0.0, 1.0, 3.0]), ["0", "1", "2", "3"], "counts");
        assert_eq!(labels(false, &[0.0, 0.5, 3.0])[1], "0.5");
        for values in [&[0.0, 0.0][..], &[], &[7.0]] {
            assert!((2..=11).contains(&labels(false, values).len()), "{values:?}");
        }
    }

    #[test]
    fn a_logarithmic_axis_is_labelled_where_it_was_measured() {
        let labels = |is_log, measured: &[f64]| {
            let scale = Scale::of(is_log, measured.to_vec(), false).labelled(measured);
            scale.labels.iter().map(|place| scale.label(*place)).collect::<Vec<_>>()
        };
        assert_eq!(labels(true, &[10.0, 20.0, 40.0, 80.0]), ["10", "20", "40", "80"]);
        let many: Vec<f64> = (10..19).map(f64::from).collect();
        for other in [&many[..], &[10.0, 10.1, 80.0], &[5.0]] {
            assert_ne!(
                labels(true, other).len(),
                other.len(),
                "{other:?}: too many values, too close together, or too few"
            );
        }
        assert!(
            labels(false, &[10.0, 20.0, 40.0, 80.0]).contains(&"30".to_owned()),
            "the labels of a linear axis do not change"
        );
    }

    #[test]
    fn what_has_no_place_stands_at_the_end() {
        let scale = Scale::of(true, vec![1e-3, 1.0, 0.0, f64::NAN, f64::INFINITY], true);
        assert_eq!((scale.place(0.0), scale.place(f64::NAN)), (scale.from, scale.from));
        assert_eq!(scale.place(f64::INFINITY), scale.to);
        assert!(!scale.has(0.0) && scale.has(1e-9));
        assert!(scale.from < -3.0 && scale.to > 0.0);
    }
}
