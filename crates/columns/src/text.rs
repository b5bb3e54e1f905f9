//! Writes values as the text that is hashed. `docs/reference/hashing.md` specifies this text for each type.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::civil::Date;

/// Memory for the text of one value, which is used again for the next value.
#[derive(Clone, Default)]
pub(crate) struct Text {
    integer: itoa::Buffer,
    text: String,
}

impl Text {
    /// Writes an integer in decimal digits.
    pub(crate) fn integer(&mut self, value: impl itoa::Integer) -> &[u8] {
        self.integer.format(value).as_bytes()
    }

    /// Writes a floating-point number with the fewest digits that read back as the same number, without an exponent. A
    /// number without decimals has no point, and the zero has no sign.
    pub(crate) fn float(&mut self, value: impl std::fmt::Display + PartialEq + Default) -> &[u8] {
        let zero = Default::default();
        if value == zero { self.write(&zero) } else { self.write(&value) }
    }

    /// Writes a moment in UTC (RFC 3339), with the decimals of a second that it needs. `nanos` counts from 1970.
    pub(crate) fn moment(&mut self, nanos: i128) -> &[u8] {
        match Timestamp::from_nanosecond(nanos) {
            Ok(moment) => self.write(&moment),
            // The calendar ends with the year 9999.
            Err(_) => self.write(&nanos),
        }
    }

    /// Writes a local time without a zone, such as `2024-05-01T12:00:00`. `nanos` counts from the beginning of 1970.
    pub(crate) fn local(&mut self, nanos: i128) -> &[u8] {
        match Timestamp::from_nanosecond(nanos) {
            Ok(moment) => self.write(&moment.to_zoned(jiff::tz::TimeZone::UTC).datetime()),
            Err(_) => self.write(&nanos),
        }
    }

    /// Writes a date, such as `2024-05-01`. `days` counts from 1970-01-01.
    pub(crate) fn date(&mut self, days: i64) -> &[u8] {
        const FIRST: Date = jiff::civil::date(1970, 1, 1);
        let date = jiff::Span::new().try_days(days).and_then(|span| FIRST.checked_add(span));
        match date {
            Ok(date) => self.write(&date),
            Err(_) => self.write(&days),
        }
    }

    /// Writes any value in its usual form.
    pub(crate) fn write(&mut self, value: &impl std::fmt::Display) -> &[u8] {
        self.text.clear();
        // Writing to memory cannot fail.
        let _ = write!(self.text, "{value}");
        self.text.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_the_page_on_hashing_says() {
        let mut text = Text::default();
        assert_eq!(text.integer(-7i64), b"-7");
        assert_eq!(text.float(0.1f32), b"0.1");
        assert_eq!(text.float(-0.0f64), b"0");
        assert_eq!(text.float(2.0f64), b"2");
        assert_eq!(text.float(1e21f64), b"1000000000000000000000");
        assert_eq!(text.float(f64::NAN), b"NaN");
        assert_eq!(text.moment(1_714_564_800_000_000_000), b"2024-05-01T12:00:00Z");
        assert_eq!(text.moment(1_714_564_800_250_000_000), b"2024-05-01T12:00:00.25Z");
        assert_eq!(text.local(-1_000_000), b"1969-12-31T23:59:59.999");
        assert_eq!(text.date(19_844), b"2024-05-01");
        assert_eq!(text.date(i64::MAX), i64::MAX.to_string().as_bytes());
        assert_eq!(text.moment(i128::MAX), i128::MAX.to_string().as_bytes());
    }
}
