//! What outputs and reports need of the records of a block, in whatever form an input has them. Must not know: where
//! records come from, where they go.

use firstseen_filter::{Digest, FilterSecret};

use crate::{Block, ParsedBlock};

/// The records of a block in the form in which an input has them: the bytes of lines, rows of columns, messages.
///
/// The [`ParsedBlock`] beside it has what a filter needs of each record. Its spans are the handles of the records: an
/// input and the outputs for its form agree on what they count. In a [`Block`] they are places of bytes; in a row group
/// row `n` would be the span from `n` to `n + 1`.
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
    /// Returns the values of the key fields of event `index`, as they were hashed, for people to read.
    fn key_parts(&self, parsed: &ParsedBlock, index: usize) -> Vec<String>;

    /// Returns the digest of each event's key under another secret, in the order of [`ParsedBlock::digests`].
    fn digests_under(&self, parsed: &ParsedBlock, secret: &FilterSecret) -> Vec<Digest>;

    /// Returns how many bytes the records have in this form.
    fn size_bytes(&self) -> usize;

    /// Returns the records as text, which shows what an input looks like; nothing where they are no text.
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
