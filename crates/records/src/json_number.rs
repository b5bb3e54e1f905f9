//! Converts all spellings of a JSON number to one form. This module does not depend on where numbers occur or what they
//! are used for.

use std::borrow::Cow;

/// Maximum number of zeros that are added to write a number without an exponent. A number that would need more zeros
/// keeps an exponent in its canonical form. Every number that fits into an `f64` needs fewer zeros, so only extremely
/// large or small numbers have an exponent.
const ZEROS_MAX: usize = 400;

/// Maximum number of digits of an exponent. A number with a longer exponent is left as it is written.
const EXPONENT_DIGITS_MAX: usize = 18;

/// Returns the canonical form of a JSON number, so that equal numbers have equal texts. For example, `1000`, `1e3`,
/// `1000.0` and `1.0E+3` all have the form `1000`. The function never rounds, so long integers that differ in one digit
/// have different forms.
///
/// The canonical form is a number without an exponent, without zeros at the end of its decimals, and without a minus
/// sign in front of zero. Programs usually write numbers in this form, so most numbers need no change. A number that
/// would begin or end with more than 400 zeros is an exception and is written with an exponent (`1e500`). A text that
/// is not a number is returned unchanged.
///
/// ```
/// use firstseen_records::canonical_number;
/// for number in ["1000", "1e3", "1000.0", "1.0E+3", "100000e-2"] {
///     assert_eq!(&canonical_number(number.as_bytes())[..], b"1000");
/// }
/// assert_eq!(&canonical_number(b"-0.250")[..], b"-0.25");
/// assert_eq!(&canonical_number(b"90071992547409930")[..], b"90071992547409930");
/// ```
pub fn canonical_number(text: &[u8]) -> Cow<'_, [u8]> {
    if is_canonical(text) {
        return Cow::Borrowed(text);
    }
    let mut form = Vec::with_capacity(text.len());
    append_canonical(text, &mut form);
    Cow::Owned(form)
}

/// Returns whether a quick check shows that a number is canonical. The result may be false for a canonical number.
pub(crate) fn is_canonical(text: &[u8]) -> bool {
    if text.len() > ZEROS_MAX || text == b"-0" {
        return false;
    }
    // Of all characters in a number, only the letters of an exponent are greater than the digits.
    let has_exponent = text.iter().any(|byte| *byte > b'9');
    !has_exponent && (text.last() != Some(&b'0') || !text.contains(&b'.'))
}

/// Appends the canonical form of the number `text` to `form`.
pub(crate) fn append_canonical(text: &[u8], form: &mut Vec<u8>) {
    let Some(number) = Number::read(text) else { return form.extend_from_slice(text) };
    number.append(form);
}

/// A number in the form `0.D * 10^point`, where `D` is a sequence of digits. For example, 1250 is `0.125 * 10^4`. `D`
/// consists of the digits of `whole` followed by the digits of `fraction`. It neither begins nor ends with a zero, so
/// equal numbers have equal digits, and the number zero has no digits at all.
struct Number<'a> {
    is_negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    point: i64,
}

impl<'a> Number<'a> {
    /// Parses a number. Returns `None` if the text is not a number, or if its exponent is too long.
    fn read(text: &'a [u8]) -> Option<Self> {
        let is_negative = text.first() == Some(&b'-');
        let unsigned = &text[usize::from(is_negative)..];
        let mantissa_end = unsigned.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(unsigned.len());
        let (mantissa, exponent) = unsigned.split_at(mantissa_end);
        let whole_end = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
        let whole = &mantissa[..whole_end];
        let fraction = mantissa.get(whole_end + 1..).unwrap_or_default();
        if whole.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
            return None;
        }
        let mut number = Self { is_negative, whole, fraction, point: i64::try_from(whole.len()).ok()? };
        number.trim();
        if number.is_zero() {
            return Some(Self { is_negative: false, point: 0, ..number });
        }
        number.point += read_exponent(exponent)?;
        Some(number)
    }

    /// Removes zeros at both ends of the digits.
    fn trim(&mut self) {
        let zeros = leading_zeros(self.whole);
        self.point -= zeros as i64;
        self.whole = &self.whole[zeros..];
        if self.whole.is_empty() {
            let zeros = leading_zeros(self.fraction);
            self.point -= zeros as i64;
            self.fraction = &self.fraction[zeros..];
        }
        self.fraction = without_trailing_zeros(self.fraction);
        if self.fraction.is_empty() {
            self.whole = without_trailing_zeros(self.whole);
        }
    }

    fn is_zero(&self) -> bool {
        self.whole.is_empty() && self.fraction.is_empty()
    }

    fn append(&self, form: &mut Vec<u8>) {
        if self.is_negative {
            form.push(b'-');
        }
        if self.is_zero() {
            return form.push(b'0');
        }
        let digits = self.whole.len() + self.fraction.len();
        match usize::try_from(self.point) {
            Ok(point) if point >= digits && point - digits <= ZEROS_MAX => {
                self.append_digits(digits, form);
                form.resize(form.len() + point - digits, b'0');
            }
            Ok(point) if (1..digits).contains(&point) => self.append_digits(point, form),
            _ if self.point <= 0 && self.point.unsigned_abs() <= ZEROS_MAX as u64 => {
                form.extend_from_slice(b"0.");
                form.resize(form.len() + self.point.unsigned_abs() as usize, b'0');
                self.append_digits(digits, form);
            }
            _ => {
                self.append_digits(1, form);
                form.extend_from_slice(format!("e{}", self.point - 1).as_bytes());
            }
        }
    }

    /// Appends all digits, with a decimal point after the first `point` digits unless these are all digits.
    fn append_digits(&self, point: usize, form: &mut Vec<u8>) {
        let start = form.len();
        form.extend_from_slice(self.whole);
        form.extend_from_slice(self.fraction);
        if start + point < form.len() {
            form.insert(start + point, b'.');
        }
    }
}

fn leading_zeros(digits: &[u8]) -> usize {
    digits.iter().take_while(|digit| **digit == b'0').count()
}

fn without_trailing_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
    &digits[..digits.len() - zeros]
}

/// Returns the value of the exponent of a number, for example 3 for `e+3`. If the text is empty, the number has no
/// exponent, and the result is 0. Returns `None` if the text is not an exponent, or if it has too many digits.
fn read_exponent(text: &[u8]) -> Option<i64> {
    let Some(signed) = text.get(1..) else { return Some(0) };
    let (is_negative, digits) = match signed {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let digits = &digits[leading_zeros(digits)..];
    if digits.len() > EXPONENT_DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    Some(if is_negative { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        let form = String::from_utf8(canonical_number(text.as_bytes()).into_owned()).unwrap();
        let again = canonical_number(form.as_bytes()).into_owned();
        assert_eq!(String::from_utf8(again).unwrap(), form, "a canonical form is its own canonical form");
        form
    }

    #[test]
    fn spellings_of_one_number_have_one_form() {
        for (form, spellings) in [
            ("0", &["0", "-0", "0.0", "-0.000", "0e5", "0E-7", "0e99999999999999999999"][..]),
            ("1000", &["1000", "1e3", "1E3", "1e+3", "1e03", "1000.0", "0.1e4", "10.00e2", "100000e-2"]),
            ("-1000", &["-1000", "-1e3", "-1000.000"]),
            ("15.26", &["15.26", "15.260", "1.526e1", "1526e-2", "0.001526E+4"]),
            ("0.0005", &["0.0005", "5e-4", "0.5e-3", "0.00050"]),
            ("-0.5", &["-0.5", "-5e-1", "-0.50"]),
            ("10.01", &["10.01", "1001e-2", "1.001e1"]),
            ("1e500", &["1e500", "10e499", "0.1E501", "1.000e+500"]),
            ("1.5e-500", &["1.5e-500", "15e-501", "0.15e-499"]),
        ] {
            for spelling in spellings {
                assert_eq!(canonical(spelling), form, "{spelling}");
            }
        }
    }

    #[test]
    fn no_digit_is_lost() {
        // An earlier design would have compared keys as f64, where 2^53 and 2^53 + 1 are the same number.
        for (one, other) in [
            ("9007199254740992", "9007199254740993"),
            ("18446744073709551615", "18446744073709551616"),
            ("0.1", "0.10000000000000000001"),
            ("1e400", "1e401"),
            ("1e99999999999999999998", "1e99999999999999999999"),
        ] {
            assert_ne!(canonical(one), canonical(other));
        }
        let long = "123456789".repeat(200);
        assert_eq!(canonical(&long), long);
        assert_eq!(canonical(&format!("{long}.000")), long);
        assert_eq!(canonical(&format!("{long}e0")), long);
    }

    #[test]
    fn an_exponent_from_outside_takes_no_memory() {
        for text in ["1e999999999", "1e-999999999", "7e123456789012345678"] {
            assert!(canonical(text).len() <= text.len(), "{text}");
        }
        assert_eq!(canonical(&format!("1e{ZEROS_MAX}")), format!("1{}", "0".repeat(ZEROS_MAX)));
        assert_eq!(canonical(&format!("1{}", "0".repeat(ZEROS_MAX + 1))), format!("1e{}", ZEROS_MAX + 1));
    }

    #[test]
    fn what_is_no_number_stays() {
        for text in ["", "-", ".5", "1e", "1e+", "1x", "true", "1e99999999999999999999"] {
            assert_eq!(canonical(text), text);
        }
    }
}
