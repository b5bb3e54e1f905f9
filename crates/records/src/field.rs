//! The position of a field's value in a block of records, and the encoding of the value at that position. The encoding
//! says how to get the value from the bytes: they may be the value itself, the inside of a CSV quote, or a JSON string
//! with escape sequences.

use crate::canonical::{Memory, push_canonical};
use crate::json_number::append_canonical;
use crate::unescape::unescape;
use memchr::memchr;
use std::borrow::Cow;
use std::ops::Range;

/// How a value is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The field has no value.
    #[default]
    Absent,
    /// The value consists of the bytes as they are.
    Raw,
    /// The value begins with a quote, and quotes inside are doubled.
    CsvQuoted,
    /// The value is the inside of a JSON string, with escapes.
    JsonText,
    /// The value is a JSON number, which may not be in its canonical form.
    JsonNumber,
    /// The value is the canonical form of a JSON object.
    JsonObject,
    /// The bytes stand for a missing value: `null` in JSON, or `-` in a log. If missing values are compared, the bytes
    /// are used as they are.
    NoValue,
}

/// Position of a value in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSpan {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) encoding: Encoding,
}

impl FieldSpan {
    /// Returns the span of an unencoded value. Positions fit into 32 bits, because blocks are far smaller than 4 GiB
    /// (`BlockOptions`).
    #[inline(always)]
    pub(crate) fn raw(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32, encoding: Encoding::Raw }
    }

    /// Returns an empty span at `at`, which stands for a missing value there.
    pub(crate) fn no_value(at: usize) -> Self {
        Self { encoding: Encoding::NoValue, ..Self::raw(at, at) }
    }

    /// Returns whether the field has a value, which may be empty.
    #[inline(always)]
    pub(crate) fn is_present(self) -> bool {
        !matches!(self.encoding, Encoding::Absent | Encoding::NoValue)
    }

    /// Returns whether the field has no value or an empty value.
    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        // Most fields are longer than any text that stands for a missing value.
        self.end - self.start <= 2 && self.is_short_empty()
    }

    #[inline]
    fn is_short_empty(self) -> bool {
        match self.encoding {
            Encoding::Raw => self.start == self.end,
            // An empty value consists only of the two quotes.
            Encoding::CsvQuoted => self.end - self.start == 2,
            Encoding::JsonText | Encoding::JsonNumber | Encoding::JsonObject => false,
            Encoding::Absent | Encoding::NoValue => true,
        }
    }

    /// Returns whether the value may be missing or consist only of blanks. [`Self::has_no_value`] gives the exact
    /// answer.
    #[inline(always)]
    pub(crate) fn may_have_no_value(self, bytes: &[u8]) -> bool {
        self.is_empty() || bytes[self.start as usize + usize::from(self.encoding == Encoding::CsvQuoted)] == b' '
    }

    /// Returns whether the value is missing or consists only of blanks.
    #[cold]
    pub(crate) fn has_no_value(self, bytes: &[u8]) -> bool {
        self.is_empty() || self.decode(bytes).trim_ascii().is_empty()
    }

    #[inline(always)]
    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns the value. It is borrowed unless it must be converted.
    pub(crate) fn decode(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        let written = &bytes[self.range()];
        match (self.encoding, written) {
            (Encoding::Absent, _) => Cow::Borrowed(&[]),
            (Encoding::Raw | Encoding::NoValue, _) => Cow::Borrowed(written),
            (Encoding::CsvQuoted, [b'"', inside @ .., b'"']) if memchr(b'"', inside).is_none() => Cow::Borrowed(inside),
            (Encoding::CsvQuoted | Encoding::JsonText | Encoding::JsonNumber | Encoding::JsonObject, _) => {
                let mut value = Vec::with_capacity(written.len());
                self.decode_into(bytes, &mut value);
                Cow::Owned(value)
            }
        }
    }

    /// Returns the value, with the digits of a number as they are written.
    pub(crate) fn decode_as_written(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        match self.encoding {
            Encoding::JsonNumber => Cow::Borrowed(&bytes[self.range()]),
            _ => self.decode(bytes),
        }
    }

    /// Appends the value to `values`.
    pub(crate) fn decode_into(self, bytes: &[u8], values: &mut Vec<u8>) {
        let written = &bytes[self.range()];
        match self.encoding {
            Encoding::Absent => {}
            Encoding::Raw | Encoding::NoValue => values.extend_from_slice(written),
            Encoding::CsvQuoted => unquote(written, values),
            Encoding::JsonText => unescape(written, values),
            Encoding::JsonNumber => append_canonical(written, values),
            Encoding::JsonObject => push_canonical(written, &[], &mut Memory::default(), values),
        }
    }
}

/// Appends the value of a field with quotes. For example, the field `"a""b"c` has the value `a"bc`. Inside the quotes,
/// two quotes in a row stand for one quote, and any text after the closing quote belongs to the value.
fn unquote(quoted: &[u8], values: &mut Vec<u8>) {
    let mut rest = quoted.strip_prefix(b"\"").unwrap_or(quoted);
    while let Some(quote) = memchr(b'"', rest) {
        let is_doubled = rest.get(quote + 1) == Some(&b'"');
        values.extend_from_slice(&rest[..quote + usize::from(is_doubled)]);
        rest = &rest[quote + 1 + usize::from(is_doubled)..];
        if !is_doubled {
            break;
        }
    }
    values.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(written: &str, encoding: Encoding) -> Vec<u8> {
        let span = FieldSpan { start: 0, end: written.len() as u32, encoding };
        span.decode(written.as_bytes()).into_owned()
    }

    fn decoded(written: &str, encoding: Encoding) -> String {
        String::from_utf8(bytes(written, encoding)).unwrap()
    }

    #[test]
    fn values_lose_their_quotes_and_escapes() {
        for (written, value) in
            [("\"a\"", "a"), ("\"\"", ""), ("\"a\"\"b\"", "a\"b"), ("\"a\"b\"c", "ab\"c"), ("\"\"\"\"", "\"")]
        {
            assert_eq!(decoded(written, Encoding::CsvQuoted), value, "{written}");
        }
        for (written, value) in [(r"a\nb", "a\nb"), (r"\u00e4\/", "\u{e4}/"), (r"\ud83d\ude00", "\u{1f600}")] {
            assert_eq!(decoded(written, Encoding::JsonText), value, "{written}");
        }
    }

    #[test]
    fn half_a_pair_has_one_form_and_is_no_text() {
        let half = bytes(r"a\ud800b", Encoding::JsonText);
        assert_eq!(half, b"a\xed\xa0\x80b");
        assert_eq!(bytes(r"\u0061\uD800b", Encoding::JsonText), half);
        assert_eq!(decoded(r"a\\ud800b", Encoding::JsonText), r"a\ud800b");
        assert_ne!(bytes(r"\udc00", Encoding::JsonText), bytes(r"\udc01", Encoding::JsonText));
        assert_eq!(bytes(r"\ud800\ud83d\ude00", Encoding::JsonText), b"\xed\xa0\x80\xf0\x9f\x98\x80");
    }
}
