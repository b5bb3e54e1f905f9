//! Formats numbers for the page and for the results in the repository.
//!
//! Numbers have four significant digits.
//!
//! This module does not depend on what is counted.

/// Formats a number with four significant digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if !(1e-3..1e6).contains(&size) => format!("{value:.3e}"),
        size if value.fract() == 0.0 && size < 1e6 => format!("{value}"),
        size => format!("{value:.*}", (3 - size.log10().floor() as i32).max(0) as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_four_digits() {
        let shown = [0.0, 4.0, 0.012_345_6, 123.456, 1234.56, 0.000_123_456, 12_345_678.0].map(number);
        assert_eq!(shown, ["0", "4", "0.01235", "123.5", "1235", "1.235e-4", "1.235e7"]);
    }
}
