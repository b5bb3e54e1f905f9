//! The fields of a record that the user wants. This module does not depend on formats or on where fields are.

use crate::EmptyKey;
use std::ops::Range;
use std::sync::Arc;

/// A field that the user wants, or the whole record without its line end.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Whole,
    Named(Arc<str>),
    /// A column by its index, which the user did not name.
    Column(usize),
}

/// The wanted fields, one slot for each: first the key fields, then the fields of the time, then the source.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) key_count: usize,
    /// Slots of the time. The range is empty if no time is wanted.
    pub(crate) time: Range<usize>,
    pub(crate) source: Option<usize>,
    /// Whether the key is the whole record, or the whole record except some fields. Empty fields are then part of the
    /// key.
    pub(crate) is_whole: bool,
    pub(crate) empty_key: EmptyKey,
}

impl Slots {
    pub(crate) fn new(key: &[String], time: &[String], source: Option<&str>) -> Self {
        let mut wanted: Vec<Wanted> = key.iter().map(|name| Wanted::Named(name.as_str().into())).collect();
        if wanted.is_empty() {
            wanted.push(Wanted::Whole);
        }
        let key_count = wanted.len();
        wanted.extend(time.iter().map(String::as_str).chain(source).map(|name| Wanted::Named(name.into())));
        let time_slots = key_count..key_count + time.len();
        let source_slot = source.map(|_| wanted.len() - 1);
        Self {
            wanted,
            key_count,
            time: time_slots,
            source: source_slot,
            is_whole: key.is_empty(),
            empty_key: EmptyKey::default(),
        }
    }

    /// Returns the same slots with these columns as the key.
    pub(crate) fn with_key_columns(&self, columns: &[usize]) -> Self {
        let key = columns.iter().map(|column| Wanted::Column(*column));
        let rest = self.wanted[self.key_count..].iter().cloned();
        Self {
            wanted: key.chain(rest).collect(),
            key_count: columns.len(),
            time: self.time.start - self.key_count + columns.len()..self.time.end - self.key_count + columns.len(),
            source: self.source.map(|slot| slot - self.key_count + columns.len()),
            ..self.clone()
        }
    }

    /// Returns whether at least one field is wanted, and not only the whole record.
    pub(crate) fn wants_fields(&self) -> bool {
        self.wanted.iter().any(|wanted| !matches!(wanted, Wanted::Whole))
    }

    /// Returns the name of a slot for messages.
    pub(crate) fn name(&self, slot: usize) -> Arc<str> {
        match self.wanted.get(slot) {
            Some(Wanted::Named(name)) => Arc::clone(name),
            Some(Wanted::Column(column)) => (column + 1).to_string().into(),
            _ => "record".into(),
        }
    }
}
