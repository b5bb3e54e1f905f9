//! Formats numbers and durations for messages.
//!
//! A formatted value has at most about twenty characters, however large or small the number is.
//!
//! This module does not depend on what a number counts.

use std::fmt;

/// Numbers that are written without an exponent. Smaller and larger numbers are written with powers of ten.
const PLAIN: std::ops::Range<f64> = 1e-6..1e15;
/// Maximum length of an exact number with an exponent. Longer numbers are rounded, so that people can read them at a
/// glance.
const LETTERS_MAX: usize = 8;

/// Formats `value` as people write it: `0.01`, `1e-30`, `1.84e19`.
pub(crate) fn number(value: &f64) -> impl fmt::Display + use<> {
    let value = *value;
    if PLAIN.contains(&value.abs()) || value == 0.0 || !value.is_finite() {
        value.to_string()
    } else {
        let exact = format!("{value:e}");
        if exact.len() <= LETTERS_MAX { exact } else { format!("{value:.2e}") }
    }
}

/// Formats `value`, which must be above 0, with three significant digits, such as `5.87e-9`. The result is rounded up,
/// so that it is never below `value`.
pub(crate) fn not_below(value: &f64) -> String {
    let value = *value;
    let digits = format!("{value:.2e}");
    match digits.split_once('e') {
        // The nearest number of three digits is below `value`, so the next larger one is used.
        Some((digits, power)) if format!("{digits}e{power}").parse::<f64>().is_ok_and(|nearest| nearest < value) => {
            let next = digits.parse::<f64>().map_or(value, |digits| digits + 0.01);
            number(&format!("{next:.2}e{power}").parse().unwrap_or(value)).to_string()
        }
        _ => number(&digits.parse().unwrap_or(value)).to_string(),
    }
}

/// Formats a duration in its two largest units that are not zero. Smaller units are omitted.
///
/// ```
/// use firstseen_filter::duration;
/// assert_eq!([duration(675_000), duration(28_125), duration(86_400_000)], ["11m 15s", "28s 125ms", "1d"]);
/// ```
pub fn duration(length_ms: u64) -> String {
    let mut left_ms = length_ms;
    let mut parts = Vec::new();
    for (name, unit_ms) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)] {
        if left_ms >= unit_ms && parts.len() < 2 {
            parts.push(format!("{}{name}", left_ms / unit_ms));
            left_ms %= unit_ms;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = |value: f64| number(&value).to_string();
        assert_eq!([shown(0.0), shown(0.01), shown(-2.5), shown(1e6)], ["0", "0.01", "-2.5", "1000000"]);
        assert_eq!([shown(1e30), shown(1e-30), shown(u64::MAX as f64)], ["1e30", "1e-30", "1.84e19"]);
        assert_eq!([shown(f64::NAN), shown(f64::INFINITY)], ["NaN", "inf"]);
    }

    #[test]
    fn what_is_at_least_is_not_rounded_down() {
        let shown = [5.8673e-9, 1.1734e-8, 1.0e-8, 2e-9, 9.996e-9, 0.012_341].map(|value| not_below(&value));
        assert_eq!(shown, ["5.87e-9", "1.18e-8", "1e-8", "2e-9", "1e-8", "0.0124"]);
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(
            [duration(675_000), duration(86_400_000), duration(1), duration(90_061_001), duration(0)],
            ["11m 15s", "1d", "1ms", "1d 1h", "0s"]
        );
    }
}
