//! The interface through which outputs and reports access the records of a block. Inputs may store records in different
//! forms, such as lines of text, rows of columns or messages, and each form implements this interface.

use firstseen_filter::{Digest, FilterSecret};

use crate::{Block, ParsedBlock};

/// Records of a block in the form in which an input has them: the bytes of lines, rows of columns, or messages.
///
/// The filter needs only the digests and the times of records, which are in the accompanying [`ParsedBlock`]. To
/// identify the records themselves, the [`ParsedBlock`] contains a span for each record. The meaning of a span depends
/// on the form of the records. In a [`Block`] of text, it is a range of bytes. In a group of rows, the span of row `n`
/// could be the range from `n` to `n + 1`.
///
/// ```
/// use firstseen_filter::{Digest, FilterSecret};
/// use firstseen_records::{ParsedBlock, RecordSpan, Records};
///
/// /// Messages of a topic, each with its key.
/// #[derive(Default)]
/// struct Messages(Vec<String>);
///
/// impl Records for Messages {
///     fn key_parts(&self, _: &ParsedBlock, event: usize) -> Vec<String> {
///         vec![self.0[event].clone()]
///     }
///
///     fn digests_under(&self, _: &ParsedBlock, secret: &FilterSecret) -> Vec<Digest> {
///         self.0.iter().map(|key| secret.digest(key.as_bytes())).collect()
///     }
///
///     fn size_bytes(&self) -> usize {
///         self.0.iter().map(String::len).sum()
///     }
/// }
///
/// let messages = Messages(vec!["ann".to_owned(), "bob".to_owned()]);
/// let mut parsed = ParsedBlock::default();
/// for (digest, offset) in messages.digests_under(&parsed, &FilterSecret::from_seed(1)).into_iter().zip(0..) {
///     let span = RecordSpan { start: offset, end: offset + 1, line: u64::from(offset) + 1 };
///     parsed.push(span, digest, Some(1_700_000_000_000));
/// }
/// assert_eq!((parsed.len(), messages.key_parts(&parsed, 1)), (2, vec!["bob".to_owned()]));
/// ```
pub trait Records: Default + Send + Sync + 'static {
    /// Returns the values of the key fields of event `index` as they were hashed, as text for users.
    fn key_parts(&self, parsed: &ParsedBlock, index: usize) -> Vec<String>;

    /// Returns the digest of each event's key with a different secret, in the order of [`ParsedBlock::digests`].
    fn digests_under(&self, parsed: &ParsedBlock, secret: &FilterSecret) -> Vec<Digest>;

    /// Returns the size of the records in bytes, in this form.
    fn size_bytes(&self) -> usize;

    /// Returns the records as text, which is used to describe what an input looks like. The result is empty if the
    /// records are not text.
    fn text(&self) -> &[u8] {
        &[]
    }
}

impl Records for Block {
    fn key_parts(&self, parsed: &ParsedBlock, index: usize) -> Vec<String> {
        parsed.key_parts(index, self)
    }

    fn digests_under(&self, parsed: &ParsedBlock, secret: &FilterSecret) -> Vec<Digest> {
        parsed.digests_under(secret, self)
    }

    fn size_bytes(&self) -> usize {
        self.bytes().len()
    }

    fn text(&self) -> &[u8] {
        self.bytes()
    }
}
