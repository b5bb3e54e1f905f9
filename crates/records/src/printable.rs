//! Makes text from outside safe for a terminal.
//!
//! Promises: the text cannot move the cursor, and is not long. Must not know: what it means.

/// Letters of a text that are shown.
const LETTERS_MAX: usize = 90;

/// A text that is safe to print: control characters are written as escapes, and a long text is cut.
///
/// ```
/// use firstseen_records::printable;
/// assert_eq!(printable("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
/// assert_eq!(printable(&"é".repeat(91)), "é".repeat(90) + "...");
/// assert_eq!(printable(&"é".repeat(90)), "é".repeat(90));
/// ```
pub fn printable(text: &str) -> String {
    let mut shown = String::new();
    for (place, letter) in text.chars().enumerate() {
        if place == LETTERS_MAX {
            shown.push_str("...");
            break;
        }
        if letter.is_control() { shown.extend(letter.escape_default()) } else { shown.push(letter) }
    }
    shown
}
