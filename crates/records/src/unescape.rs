//! From the inside of a JSON string to its contents. Must not know: which string it is.

use serde::de::{Deserializer, Error, Visitor};
use std::fmt;

/// Appends the contents of a JSON string of which `escaped` is the inside.
///
/// Half of a surrogate pair stands for no character; it becomes the three bytes that UTF-8 would give it if it could
/// (WTF-8): the same for every spelling, and equal to no text.
pub(crate) fn unescape(escaped: &[u8], values: &mut Vec<u8>) {
    let quoted = [b"\"", escaped, b"\""].concat();
    let mut read = serde_json::Deserializer::from_slice(&quoted);
    if read.deserialize_bytes(Contents(values)).is_err() {
        // The caller has parsed the string, so it is one.
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
