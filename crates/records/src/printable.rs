//! Converts text from outside, such as field values, to text that is safe to print on a terminal. Control characters
//! are escaped, so the text cannot move the cursor, and a long text is cut.

/// Maximum number of characters of a text that are shown.
const LETTERS_MAX: usize = 90;

/// Maximum number of characters of a value that are shown within a message.
const VALUE_LETTERS_MAX: usize = 40;

/// Returns a text that is safe to print. Control characters are replaced with escapes, and a long text is cut.
///
/// ```
/// use firstseen_records::printable;
/// assert_eq!(printable("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
/// assert_eq!(printable(&"é".repeat(91)), "é".repeat(90) + "...");
/// assert_eq!(printable(&"é".repeat(90)), "é".repeat(90));
/// ```
pub fn printable(text: &str) -> String {
    cut_after(text, LETTERS_MAX)
}

/// Returns the value of a field in a form that is safe to print within a message. Bytes that are not UTF-8 are
/// replaced. The text is cut earlier than by [`printable`], so that the message stays short.
pub fn printable_value(value: &[u8]) -> String {
    // A character takes at most four bytes. One more character than the limit is needed to see that the text must be
    // cut.
    let shown = &value[..value.len().min(4 * (VALUE_LETTERS_MAX + 1))];
    cut_after(&String::from_utf8_lossy(shown), VALUE_LETTERS_MAX)
}

fn cut_after(text: &str, letters_max: usize) -> String {
    let mut shown = String::new();
    for (place, letter) in text.chars().enumerate() {
        if place == letters_max {
            shown.push_str("...");
            break;
        }
        if letter.is_control() { shown.extend(letter.escape_default()) } else { shown.push(letter) }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_short_and_safe_in_any_bytes() {
        assert_eq!(printable_value(b"soon\x1b[2J\n"), "soon\\u{1b}[2J\\n");
        assert_eq!(printable_value(&[b'x'; 40]), "x".repeat(40));
        assert_eq!(printable_value(&[b'x'; 1 << 20]), "x".repeat(40) + "...");
        assert_eq!(printable_value("\u{1f600}".repeat(50).as_bytes()), "\u{1f600}".repeat(40) + "...");
        assert_eq!(printable_value(b"a\xffb"), "a\u{fffd}b");
    }
}
