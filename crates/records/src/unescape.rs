//! Decodes the inside of a JSON string. This module does not depend on what the string is used for.

use serde::de::{Deserializer, Error, Visitor};
use std::fmt;

/// Appends the contents of a JSON string. `escaped` is the text between its quotes.
///
/// An escape sequence of a JSON string may stand for one half of a surrogate pair without the other half. Such a half
/// is not a character, so it has no UTF-8 encoding. This function encodes it in the three bytes that the rules of UTF-8
/// would give (an encoding called WTF-8). Different spellings of the same string therefore have the same result, and no
/// valid text has this result.
pub(crate) fn unescape(escaped: &[u8], values: &mut Vec<u8>) {
    let quoted = [b"\"", escaped, b"\""].concat();
    let mut read = serde_json::Deserializer::from_slice(&quoted);
    if read.deserialize_bytes(Contents(values)).is_err() {
        // This case does not occur, because the caller has already parsed the string.
        values.extend_from_slice(escaped);
    }
}

/// Receives the contents of a string, and appends them.
struct Contents<'a>(&'a mut Vec<u8>);

impl Visitor<'_> for Contents<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E: Error>(self, contents: &[u8]) -> Result<(), E> {
        self.0.extend_from_slice(contents);
        Ok(())
    }
}
