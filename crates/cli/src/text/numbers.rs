//! Formats counts and rates for users. A count is written with separators between the thousands, for example `1,200`. A
//! rate is written without a sign.

/// Returns a number with separators between thousands, for example `1,234,567` for `1234567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns a rate as text for users.
pub(crate) fn rate(rate: f64) -> String {
    // The sum of an empty list of rates is -0, which would be shown with a sign.
    let rate = rate + 0.0;
    match rate {
        0.0 => "0 %".to_owned(),
        1e-4.. => format!("{:.4} %", 100.0 * rate),
        _ => format!("{rate:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn no_rate_has_a_sign() {
        let none: [f64; 0] = [];
        assert_eq!([none.iter().sum(), 0.0, 0.25, 2e-6].map(rate), ["0 %", "0 %", "25.0000 %", "2.0e-6"]);
    }
}
