//! Which fields of a record the user wants. Must not know: formats, where fields are.

use std::ops::Range;
use std::sync::Arc;

/// A field that the user wants, or the whole record without its line end.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Whole,
    Named(Arc<str>),
}

/// The wanted fields, one slot each: first the key fields, then those of the time, then the source.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) key_count: usize,
    /// The slots of the time; empty where no time is wanted.
    pub(crate) time: Range<usize>,
    pub(crate) source: Option<usize>,
}

impl Slots {
    pub(crate) fn new(key: &[String], time: &[String], source: Option<&str>) -> Self {
        let named = |name: &str| Wanted::Named(name.into());
        let mut wanted: Vec<Wanted> = key.iter().map(|name| named(name)).collect();
        if wanted.is_empty() {
            wanted.push(Wanted::Whole);
        }
        let key_count = wanted.len();
        wanted.extend(time.iter().map(String::as_str).chain(source).map(named));
        let time_slots = key_count..key_count + time.len();
        let source_slot = source.map(|_| wanted.len() - 1);
        Self { wanted, key_count, time: time_slots, source: source_slot }
    }

    /// The name of a slot for messages.
    pub(crate) fn name(&self, slot: usize) -> Arc<str> {
        match self.wanted.get(slot) {
            Some(Wanted::Named(name)) => Arc::clone(name),
            _ => "record".into(),
        }
    }
}
