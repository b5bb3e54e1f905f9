//! Parses sizes in the forms that users write, for example `64MiB`, `500k`, `10M` or `1e7`. The result is the exact
//! number that was written. A size of zero and a size that is not a whole number are rejected.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Why a size cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SizeError {
    /// The text is not a number, or has an unknown unit.
    #[error("`{text}` is not a size: write a number, such as {examples}")]
    Form {
        /// The text that was to be parsed.
        text: String,
        /// Examples of valid sizes.
        examples: &'static str,
    },
    /// The number is negative.
    #[error("`{0}` is negative: choose at least 1")]
    Negative(String),
    /// The number is zero.
    #[error("`{0}` is zero: choose at least 1")]
    Zero(String),
    /// The number is not a whole number.
    #[error("`{0}` is not a whole number: choose at least 1, without a fraction")]
    Fraction(String),
    /// The number does not fit into 64 bits.
    #[error("`{0}` is too large: choose at most 2^64 - 1")]
    TooLarge(String),
}

/// Name of a unit in lower case, and the number that it stands for.
type Unit = (&'static str, u64);

const BYTE_UNITS: &[Unit] = &[
    ("", 1),
    ("b", 1),
    ("k", 1000),
    ("kb", 1000),
    ("kib", 1 << 10),
    ("m", 1_000_000),
    ("mb", 1_000_000),
    ("mib", 1 << 20),
    ("g", 1_000_000_000),
    ("gb", 1_000_000_000),
    ("gib", 1 << 30),
    ("t", 1_000_000_000_000),
    ("tb", 1_000_000_000_000),
    ("tib", 1 << 40),
];

const COUNT_UNITS: &[Unit] =
    &[("", 1), ("k", 1000), ("m", 1_000_000), ("g", 1_000_000_000), ("b", 1_000_000_000), ("t", 1_000_000_000_000)];

/// A number of bytes, at least 1.
///
/// ```
/// use firstseen_cli::text::size::ByteSize;
/// assert_eq!("64MiB".parse(), Ok(ByteSize(64 << 20)));
/// assert_eq!("1.5GB".parse(), Ok(ByteSize(1_500_000_000)));
/// assert_eq!("500k".parse(), Ok(ByteSize(500_000)));
/// assert_eq!(ByteSize(3 << 19).to_string(), "1.5 MiB");
/// assert!("-1".parse::<ByteSize>().unwrap_err().to_string().contains("negative"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

impl FromStr for ByteSize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        read(text, BYTE_UNITS, "64MiB, 1GB, 500k or 4096").map(Self)
    }
}

/// Writes the size in the largest binary unit that is not greater than the size, with one decimal place.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        match units.into_iter().find(|(_, bits)| self.0 >> bits > 0) {
            None => write!(f, "{} B", self.0),
            Some((unit, bits)) if self.0.is_multiple_of(1 << bits) => write!(f, "{} {unit}", self.0 >> bits),
            Some((unit, bits)) => write!(f, "{:.1} {unit}", self.0 as f64 / (1u64 << bits) as f64),
        }
    }
}

/// A number of events, at least 1.
///
/// ```
/// use firstseen_cli::text::size::Count;
/// for text in ["10000000", "10M", "1e7", "10_000_000"] {
///     assert_eq!(text.parse(), Ok(Count(10_000_000)));
/// }
/// assert!("0".parse::<Count>().unwrap_err().to_string().contains("zero"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(pub u64);

impl FromStr for Count {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        read(text, COUNT_UNITS, "10000000, 10M, 1e7 or 10_000_000").map(Self)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Parses a rate as users write it: `0.01`, `1e-6`, `1%`.
///
/// ```
/// use firstseen_cli::text::size::rate;
/// assert_eq!((rate("1%"), rate("0.5 %"), rate("1e-6")), (Ok(0.01), Ok(0.005), Ok(1e-6)));
/// assert!(rate("little").is_err());
/// ```
///
/// # Errors
/// Returns an error if the text is not a number.
pub fn rate(text: &str) -> Result<f64, String> {
    let (number, parts) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 100.0));
    let number: Result<f64, _> = number.parse();
    number.map(|number| number / parts).map_err(|_| format!("`{text}` is not a rate: write 0.01, 1e-6 or 1%"))
}

/// Largest absolute power of ten that is accepted. Beyond it, every number is too large or is not a whole number.
const EXPONENT_MAX: i32 = 20;

/// Parses a size. All computations use integers, so the result is exact.
fn read(text: &str, units: &[Unit], examples: &'static str) -> Result<u64, SizeError> {
    let trimmed = text.trim();
    let Some(Parts { digits, decimals, exponent, unit_size }) = parts(trimmed, units) else {
        return Err(SizeError::Form { text: text.to_owned(), examples });
    };
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Err(SizeError::Zero(text.to_owned()));
    }
    if trimmed.starts_with('-') {
        return Err(SizeError::Negative(text.to_owned()));
    }
    let mantissa: u64 = significant.parse().map_err(|_| SizeError::TooLarge(text.to_owned()))?;
    scaled(u128::from(mantissa) * u128::from(unit_size), exponent.saturating_sub(decimals), text)
}

/// The parts of a size. Its value is `digits * 10^(exponent - decimals) * unit_size`.
struct Parts {
    digits: String,
    decimals: i32,
    exponent: i32,
    unit_size: u64,
}

/// Splits a size such as `+1.5e3MiB` into its sign, digits, exponent and unit. Underscores are allowed between digits.
/// Returns `None` if the text does not have the form of a size.
fn parts(text: &str, units: &[Unit]) -> Option<Parts> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '_')).unwrap_or(unsigned.len());
    let (number, rest) = unsigned.split_at(number_end);
    let (exponent, unit) = split_exponent(rest)?;
    let unit = unit.trim_start().to_ascii_lowercase();
    let (_, unit_size) = *units.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits: String = whole.chars().chain(fraction.chars()).filter(|c| *c != '_').collect();
    let decimals = fraction.chars().filter(char::is_ascii_digit).count() as i32;
    let is_number = whole.starts_with(|c: char| c.is_ascii_digit()) && !digits.contains('.');
    is_number.then_some(Parts { digits, decimals, exponent, unit_size })
}

/// Returns the exponent and the text after it. The exponent is 0 if the text has none.
fn split_exponent(rest: &str) -> Option<(i32, &str)> {
    let Some(after) = rest.strip_prefix(['e', 'E']) else { return Some((0, rest)) };
    let sign_end = usize::from(after.starts_with(['+', '-']));
    let digits = after[sign_end..].find(|c: char| !c.is_ascii_digit()).map_or(after.len(), |end| sign_end + end);
    Some((after[..digits].parse().ok()?, &after[digits..]))
}

/// Returns `value * 10^exponent` if the result is a whole number that fits into 64 bits.
fn scaled(value: u128, exponent: i32, text: &str) -> Result<u64, SizeError> {
    let power = 10u128.pow(exponent.clamp(-EXPONENT_MAX, EXPONENT_MAX).unsigned_abs());
    let whole = if exponent >= 0 {
        value.checked_mul(power).ok_or_else(|| SizeError::TooLarge(text.to_owned()))?
    } else if value.is_multiple_of(power) && exponent >= -EXPONENT_MAX {
        value / power
    } else {
        return Err(SizeError::Fraction(text.to_owned()));
    };
    u64::try_from(whole).map_err(|_| SizeError::TooLarge(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Result<u64, SizeError> {
        text.parse().map(|ByteSize(bytes)| bytes)
    }

    fn count(text: &str) -> Result<u64, SizeError> {
        text.parse().map(|Count(count)| count)
    }

    #[test]
    fn bytes_have_decimal_and_binary_units() {
        let expected = [
            ("4096", 4096),
            ("4096B", 4096),
            ("500k", 500_000),
            ("500KB", 500_000),
            ("4KiB", 4096),
            ("64MiB", 64 << 20),
            ("64 mib", 64 << 20),
            ("1GB", 1_000_000_000),
            ("1.5GiB", 3 << 29),
            ("0.5k", 500),
            ("2T", 2_000_000_000_000),
            ("1e3k", 1_000_000),
            (" 1_024 ", 1024),
            ("+7", 7),
        ];
        for (text, value) in expected {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn counts_have_decimal_units_and_exponents() {
        let expected = [
            ("1", 1),
            ("10000000", 10_000_000),
            ("10M", 10_000_000),
            ("1e7", 10_000_000),
            ("1E+7", 10_000_000),
            ("1.25e7", 12_500_000),
            ("100e-2", 1),
            ("10_000_000", 10_000_000),
            ("2.5B", 2_500_000_000),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, value) in expected {
            assert_eq!(count(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_by_name() {
        for text in
            ["", "M", "ten", "1.2.3", ".5k", "_1", "1MiB", "1e", "1e+", "0x10", "1 000", "--1", "1ee7", "1\u{e9}"]
        {
            assert!(matches!(count(text), Err(SizeError::Form { .. })), "{text}: {:?}", count(text));
        }
        assert!(matches!(bytes("64MeB"), Err(SizeError::Form { .. })));
        for text in ["0", "0.0", "-0", "0e9", "00"] {
            assert!(matches!(count(text), Err(SizeError::Zero(_))), "{text}");
        }
        for text in ["-1", "-10M", "-0.5"] {
            assert!(matches!(count(text), Err(SizeError::Negative(_))), "{text}");
        }
        for text in ["1.5", "1e-1", "0.0001k", "1e-2000000000"] {
            assert!(matches!(count(text), Err(SizeError::Fraction(_))), "{text}");
        }
        for text in ["18446744073709551616", "1e20", "1e2000000000", "99999999999999999999999", "20000000T"] {
            assert!(matches!(count(text), Err(SizeError::TooLarge(_))), "{text}");
        }
        assert_eq!(count("-5").unwrap_err().to_string(), "`-5` is negative: choose at least 1");
    }

    #[test]
    fn a_shown_size_can_be_read_again() {
        let expected = [
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (64 << 20, "64 MiB"),
            (98_304_000, "93.8 MiB"),
            (5 << 40, "5 TiB"),
            (u64::MAX, "16384.0 PiB"),
        ];
        for (value, shown) in expected {
            assert_eq!(ByteSize(value).to_string(), shown);
        }
        assert_eq!(bytes(&ByteSize(64 << 20).to_string()), Ok(64 << 20));
        assert_eq!(count(&Count(12_345).to_string()), Ok(12_345));
    }
}
