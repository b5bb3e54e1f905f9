//! Which fields of a record the user wants. Must not know: formats, where fields are.

use std::sync::Arc;

/// A field that the user wants, or the whole record without its line end.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Whole,
    Named(Arc<str>),
}

/// The wanted fields, one slot each: first the key fields, then the time, then the source.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) key_count: usize,
    pub(crate) time: Option<usize>,
    pub(crate) source: Option<usize>,
}

impl Slots {
    pub(crate) fn new(key: &[String], time: Option<&str>, source: Option<&str>) -> Self {
        let named = |name: &str| Wanted::Named(name.into());
        let mut wanted: Vec<Wanted> = key.iter().map(|name| named(name)).collect();
        if wanted.is_empty() {
            wanted.push(Wanted::Whole);
        }
        let key_count = wanted.len();
        wanted.extend(time.into_iter().chain(source).map(named));
        let time_slot = time.map(|_| key_count);
        let source_slot = source.map(|_| wanted.len() - 1);
        Self { wanted, key_count, time: time_slot, source: source_slot }
    }

    /// The name of a slot for messages.
    pub(crate) fn name(&self, slot: usize) -> Arc<str> {
        match self.wanted.get(slot) {
            Some(Wanted::Named(name)) => Arc::clone(name),
            _ => "record".into(),
        }
    }
}
