//! Recognises texts that do not consist of UTF-8 lines with newlines. These are texts in UTF-16 or UTF-32 without a
//! byte order mark, texts whose lines end with a carriage return alone, and texts whose records end with NUL bytes.

use memchr::{memchr, memchr_iter};

use crate::byte_kind::ByteKind;

/// Minimum number of UTF-16 or UTF-32 units that are needed for a guess.
const UNITS_MIN: usize = 2;

/// Returns the kind of a text that begins with `head`. `None` means that the text consists of ordinary lines.
pub(crate) fn kind_of_text(head: &[u8]) -> Option<ByteKind> {
    if memchr(0, head).is_some() {
        return kind_of_wide_text(head).or_else(|| is_nul_terminated(head).then_some(ByteKind::NulTerminated));
    }
    has_returns_only(head).then_some(ByteKind::CarriageReturns)
}

fn kind_of_wide_text(head: &[u8]) -> Option<ByteKind> {
    if head.len() >= 4 * UNITS_MIN {
        let units = head.chunks_exact(4);
        let count = units.len();
        let low_first = units.clone().filter(|unit| unit[3] == 0 && unit[2] <= 0x10 && unit[..2] != [0, 0]).count();
        let high_first = units.filter(|unit| unit[0] == 0 && unit[1] <= 0x10 && unit[2..] != [0, 0]).count();
        if low_first == count {
            return Some(ByteKind::Utf32LittleEndian);
        }
        if high_first == count {
            return Some(ByteKind::Utf32BigEndian);
        }
    }
    if is_utf16(head, 0) {
        return Some(ByteKind::Utf16LittleEndian);
    }
    is_utf16(head, 1).then_some(ByteKind::Utf16BigEndian)
}

/// Returns whether the input looks like UTF-16 text, in which each unit consists of a low byte and a high byte.
/// `parity` selects the byte order: 0 means that the low bytes are at even offsets (little-endian), and 1 means that
/// they are at odd offsets (big-endian).
///
/// The function requires that a large enough share of the high bytes is zero. Text in any script satisfies this,
/// because it contains spaces, digits or line ends, whose high bytes are zero.
///
/// The function also requires that no low byte is zero. As a consequence, it does not recognise a text with a character
/// such as U+4E00, whose low byte is zero.
fn is_utf16(head: &[u8], parity: usize) -> bool {
    let units = head.chunks_exact(2);
    let count = units.len();
    let mut ascii = 0;
    let mut line_ends = 0;
    for unit in units {
        let low = unit[parity];
        let high = unit[1 - parity];
        if low == 0 || (high == b'\n' && low != b'\n') {
            return false;
        }
        if high == 0 {
            ascii += 1;
            line_ends += usize::from(low == b'\n');
        } else if low == b'\n' {
            return false;
        }
    }
    // The letters of most scripts have a nonzero high byte. In texts of these scripts, line ends show that the text is
    // UTF-16.
    let least = if line_ends > 0 { count / 16 } else { count / 2 };
    count >= UNITS_MIN && ascii > least
}

/// Returns whether the lines of a text end with a carriage return alone, without a newline. CSV files of old
/// spreadsheets have such lines. A newline inside a quoted field does not count, because it belongs to the field.
fn has_returns_only(head: &[u8]) -> bool {
    let Some(first) = memchr(b'\r', head) else { return false };
    // This check decides about most files: either the first carriage return is part of a line end, or a newline
    // precedes it.
    if head.get(first + 1).is_none_or(|next| *next == b'\n') {
        return false;
    }
    if memchr(b'\n', head).is_none() {
        return true;
    }
    let mut is_quoted = false;
    let mut returns = 0;
    let mut begins_field = true;
    for byte in head {
        match byte {
            b'"' if is_quoted || begins_field => is_quoted = !is_quoted,
            b'\n' if !is_quoted => return false,
            b'\r' if !is_quoted => returns += 1,
            _ => {}
        }
        // A doubled quote closes and opens again.
        begins_field = matches!(byte, b'\r' | b',' | b';' | b'\t' | b'"');
    }
    returns > 1 && !is_quoted
}

/// Returns whether the records of an input seem to end with NUL bytes, as in the output of `find -print0`. The result
/// is true if the input has no newline, at least two texts that are separated by single NUL bytes, and no other control
/// characters that would indicate binary data.
fn is_nul_terminated(head: &[u8]) -> bool {
    if memchr(b'\n', head).is_some() || head.first() == Some(&0) {
        return false;
    }
    let mut last = None;
    for place in memchr_iter(0, head) {
        if last.is_some_and(|last| last + 1 == place) {
            return false;
        }
        last = Some(place);
    }
    let has_controls = head.iter().any(|byte| matches!(byte, 1..=8 | 0x0E..=0x1A));
    let texts = head.split(|byte| *byte == 0).filter(|text| !text.is_empty());
    !has_controls && texts.count() >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str, is_big_endian: bool) -> Vec<u8> {
        let units = text.encode_utf16();
        units.flat_map(|unit| if is_big_endian { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    }

    #[test]
    fn wide_text_is_known_without_a_mark() {
        for text in ["a\n", "k,t\r\na,1\r\n", "{\"id\": 1}\n", "имя,дата\nАнна,1\n", "名前,日付\n花子,1\n", "ab"]
        {
            assert_eq!(kind_of_text(&utf16(text, false)), Some(ByteKind::Utf16LittleEndian), "{text:?}");
            assert_eq!(kind_of_text(&utf16(text, true)), Some(ByteKind::Utf16BigEndian), "{text:?}");
            let low_first: Vec<u8> = text.chars().flat_map(|letter| u32::from(letter).to_le_bytes()).collect();
            let high_first: Vec<u8> = text.chars().flat_map(|letter| u32::from(letter).to_be_bytes()).collect();
            assert_eq!(kind_of_text(&low_first), Some(ByteKind::Utf32LittleEndian), "{text:?}");
            assert_eq!(kind_of_text(&high_first), Some(ByteKind::Utf32BigEndian), "{text:?}");
        }
    }

    #[test]
    fn nul_bytes_alone_do_not_make_wide_text() {
        for text in
            [&b"a\0b\nc\0d\n"[..], b"\0\0\0\0a\n", b"\0a\n", b"a\n\0\0\0\0b\n", b"\0", b"\0\0\0\0\0\0\0\0", b"a\0"]
        {
            assert_eq!(kind_of_text(text), None, "{text:?}");
        }
        let hole = [vec![0; 4096], b"2024-01-01 a\n2024-01-01 b\n".to_vec()].concat();
        assert_eq!(kind_of_text(&hole), None);
    }

    #[test]
    fn lines_that_end_with_a_return_alone_are_known() {
        for text in [&b"a\rb\ra\r"[..], b"k,t\r\"a\nb\",1\rc,2\r", b"a\rb", b"\"a\"\"b\nc\",1\rd\r"] {
            assert_eq!(kind_of_text(text), Some(ByteKind::CarriageReturns), "{text:?}");
        }
        for text in
            [&b"a\r\nb\r\n"[..], b"a\nb\n", b"a\r", b"10 %\r20 %\r100 %\n", b"a\nb\r\n", b"", b"\"a\rb\"\n", b"a\r\r\n"]
        {
            assert_eq!(kind_of_text(text), None, "{text:?}");
        }
    }

    #[test]
    fn records_that_end_with_nul_bytes_are_known() {
        for text in [&b"one\0two\0one\0"[..], b"./a b\0./c\0", b"one\0two"] {
            assert_eq!(kind_of_text(text), Some(ByteKind::NulTerminated), "{text:?}");
        }
        for text in [&b"one\0two\n"[..], b"one\0\0\0\0two", b"one\0"] {
            assert_eq!(kind_of_text(text), None, "{text:?}");
        }
    }
}
