//! Where a field's value stands in a block, and how it is written there. Must not know: which format it came from.

use crate::canonical::{Memory, push_canonical};
use crate::json_number::append_canonical;
use crate::unescape::unescape;
use memchr::memchr;
use std::borrow::Cow;
use std::ops::Range;

/// How a value is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// There is no value.
    #[default]
    Absent,
    /// As its bytes are.
    Raw,
    /// With quotes: from the opening one on, with doubled quotes inside.
    CsvQuoted,
    /// The inside of a JSON string, with escapes.
    JsonText,
    /// A number of JSON that may be in another form than the canonical one.
    JsonNumber,
    /// A JSON object, whose value is its canonical form.
    JsonObject,
    /// A value that stands for none: JSON's `null`, `-` in a log. As its bytes are, where it is taken for a value.
    NoValue,
}

/// A value's place in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSpan {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) encoding: Encoding,
}

impl FieldSpan {
    /// Blocks are far below 4 GiB (`BlockOptions`), so that places in them fit 32 bits.
    #[inline(always)]
    pub(crate) fn raw(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32, encoding: Encoding::Raw }
    }

    /// A place without bytes that stands for a value that is missing there.
    pub(crate) fn no_value(at: usize) -> Self {
        Self { encoding: Encoding::NoValue, ..Self::raw(at, at) }
    }

    /// Whether there is a value, which may be empty.
    #[inline(always)]
    pub(crate) fn is_present(self) -> bool {
        !matches!(self.encoding, Encoding::Absent | Encoding::NoValue)
    }

    /// Whether there is no value, or an empty one.
    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        // Most fields are longer than anything that stands for no value.
        self.end - self.start <= 2 && self.is_short_empty()
    }

    #[inline]
    fn is_short_empty(self) -> bool {
        match self.encoding {
            Encoding::Raw => self.start == self.end,
            // Only the two quotes.
            Encoding::CsvQuoted => self.end - self.start == 2,
            Encoding::JsonText | Encoding::JsonNumber | Encoding::JsonObject => false,
            Encoding::Absent | Encoding::NoValue => true,
        }
    }

    /// Returns whether there may be no value, or nothing but blanks: [`Self::has_no_value`] decides.
    #[inline(always)]
    pub(crate) fn may_have_no_value(self, bytes: &[u8]) -> bool {
        self.is_empty() || bytes[self.start as usize + usize::from(self.encoding == Encoding::CsvQuoted)] == b' '
    }

    /// Returns whether there is no value, or nothing but blanks.
    #[cold]
    pub(crate) fn has_no_value(self, bytes: &[u8]) -> bool {
        self.is_empty() || self.decode(bytes).trim_ascii().is_empty()
    }

    #[inline(always)]
    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The value; borrowed unless it has to be rewritten.
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

    /// The value with the digits of a number as they are written.
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

/// `"a""b"c` is `a"bc`: quotes are doubled inside, and text behind the closing quote belongs to the field.
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
