//! A batch of rows as the records of a block.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_schema::Schema;
use firstseen_filter::{Digest, FilterSecret};
use firstseen_records::{ParsedBlock, Records};

use crate::column::{Column, Values};
use crate::key::{Key, KeyHasher, RowKey};

/// A batch of rows that was parsed. The span of a record is the number of its row in the batch.
#[derive(Clone, Debug)]
pub struct Rows {
    batch: RecordBatch,
    key: Arc<Key>,
    key_columns: Vec<Column>,
}

impl Default for Rows {
    fn default() -> Self {
        let batch = RecordBatch::new_empty(Arc::new(Schema::empty()));
        Self { batch, key: Arc::default(), key_columns: Vec::new() }
    }
}

impl Rows {
    pub(crate) fn new(batch: RecordBatch, key: Arc<Key>, key_columns: Vec<Column>) -> Self {
        Self { batch, key, key_columns }
    }

    /// Returns the rows with all of their columns.
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }
}

impl Records for Rows {
    fn key_parts(&self, parsed: &ParsedBlock, index: usize) -> Vec<String> {
        let span = parsed.spans().get(index);
        span.map_or_else(Vec::new, |span| self.key.parts(&self.key_columns, span.start as usize))
    }

    fn digests_under(&self, parsed: &ParsedBlock, secret: &FilterSecret) -> Vec<Digest> {
        let values: Vec<Values<'_>> = self.key_columns.iter().map(Column::values).collect();
        let mut hasher = KeyHasher::default();
        let rows = parsed.spans().iter().map(|span| span.start as usize);
        let keys = rows.map(|row| hasher.hash(&self.key, &values, row, secret));
        // Every event has a key, because it was hashed before.
        keys.filter_map(|key| if let RowKey::Digest(digest) = key { Some(digest) } else { None }).collect()
    }

    fn size_bytes(&self) -> usize {
        let columns = self.batch.columns().iter();
        columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or_default()).sum()
    }
}
