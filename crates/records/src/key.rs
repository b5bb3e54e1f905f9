//! Computes the digest of a record from its key fields. This module does not depend on formats or blocks.

use crate::canonical::{IgnoredPath, Memory, push_canonical};
use crate::field::{Encoding, FieldSpan};
use crate::{KeyNormalization, normalize_url};
use firstseen_filter::{Digest, FilterSecret};
use std::borrow::Cow;
use std::sync::Arc;

/// Rules that convert the values of a key to one form.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyRules {
    pub(crate) normalization: KeyNormalization,
    /// Members of JSON objects that are not part of the key.
    pub(crate) ignored: Arc<[IgnoredPath]>,
}

impl KeyRules {
    /// Returns the value of a key field as it is hashed and shown.
    pub(crate) fn value<'b>(&self, field: FieldSpan, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let value = if field.encoding == Encoding::JsonObject {
            let mut form = Vec::new();
            push_canonical(&bytes[field.range()], &self.ignored, &mut Memory::default(), &mut form);
            Cow::Owned(form)
        } else {
            field.decode(bytes)
        };
        match (self.normalization, value) {
            (KeyNormalization::None, value) => value,
            (KeyNormalization::Url, Cow::Borrowed(url)) => normalize_url(url),
            (KeyNormalization::Url, Cow::Owned(url)) => Cow::Owned(normalize_url(&url).into_owned()),
        }
    }
}

/// Hashes keys. A key of one field is hashed as its value. A key of several fields is hashed with
/// [`FilterSecret::digest_parts`].
#[derive(Clone, Debug)]
pub(crate) struct KeyHasher {
    secret: FilterSecret,
    rules: KeyRules,
    memory: Memory,
    scratch: Vec<u8>,
    values: Vec<u8>,
    value_ends: Vec<usize>,
}

impl KeyHasher {
    pub(crate) fn new(secret: FilterSecret, rules: KeyRules) -> Self {
        Self {
            secret,
            rules,
            memory: Memory::default(),
            scratch: Vec::new(),
            values: Vec::new(),
            value_ends: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn digest(&mut self, bytes: &[u8], key: &[FieldSpan]) -> Digest {
        let is_plain = self.rules.normalization == KeyNormalization::None
            && key.iter().all(|field| field.encoding == Encoding::Raw);
        match key {
            _ if !is_plain => self.digest_values(bytes, key),
            [field] => self.secret.digest(&bytes[field.range()]),
            _ => self.secret.digest_parts(key.iter().map(|field| &bytes[field.range()]), &mut self.scratch),
        }
    }

    fn digest_values(&mut self, bytes: &[u8], key: &[FieldSpan]) -> Digest {
        self.values.clear();
        self.value_ends.clear();
        for field in key {
            match (self.rules.normalization, field.encoding) {
                (KeyNormalization::None, Encoding::JsonObject) => {
                    let text = &bytes[field.range()];
                    push_canonical(text, &self.rules.ignored, &mut self.memory, &mut self.values);
                }
                (KeyNormalization::None, _) => field.decode_into(bytes, &mut self.values),
                (KeyNormalization::Url, _) => self.values.extend_from_slice(&self.rules.value(*field, bytes)),
            }
            self.value_ends.push(self.values.len());
        }
        if key.len() == 1 {
            return self.secret.digest(&self.values);
        }
        let starts = std::iter::once(0).chain(self.value_ends.iter().copied());
        let parts = starts.zip(&self.value_ends).map(|(start, &end)| &self.values[start..end]);
        self.secret.digest_parts(parts, &mut self.scratch)
    }
}
