//! A queue in order of age whose entries are also found by key.
//!
//! Promises: finding, adding at the back and removing at the front take constant time, amortised; no allocation for an
//! entry of its own. Must not know: what entries mean, when they are too old.

use std::collections::VecDeque;

use hashbrown::HashTable;

/// The key by which a queue finds an entry.
pub(crate) trait Keyed {
    /// Two words, different for any two entries.
    type Key: Copy + PartialEq;

    /// The key of this entry.
    fn key(&self) -> Self::Key;

    /// A hash of a key, good in all of its bits.
    fn hash(key: Self::Key) -> u64;
}

/// Entries, oldest first; no two with the same key.
pub(crate) struct KeyedQueue<E> {
    /// Entries removed so far: the place of the front.
    first: u64,
    entries: VecDeque<E>,
    /// Places, found by the key of what is there.
    places: HashTable<u64>,
}

impl<E: Keyed> KeyedQueue<E> {
    /// Bytes of an entry, at most: queue and table are at least half full when they grow.
    pub(crate) const ENTRY_BYTES: u64 = 2 * size_of::<E>() as u64 + 2 * 8 + 2 * 8;

    pub(crate) fn new() -> Self {
        Self { first: 0, entries: VecDeque::new(), places: HashTable::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry of this key.
    #[inline]
    pub(crate) fn find_mut(&mut self, key: E::Key) -> Option<&mut E> {
        let Self { first, entries, places } = self;
        let place = places.find(E::hash(key), |place| {
            let entry = entries.get((place - *first) as usize);
            entry.is_some_and(|entry| entry.key() == key)
        });
        entries.get_mut((place? - *first) as usize)
    }

    /// Adds an entry whose key is not there.
    pub(crate) fn push_back(&mut self, entry: E) -> &mut E {
        let Self { first, entries, places } = self;
        let place = *first + entries.len() as u64;
        let hash = E::hash(entry.key());
        entries.push_back(entry);
        // Every place in the table is one of the queue.
        places.insert_unique(hash, place, |place| {
            entries.get((place - *first) as usize).map_or(0, |entry| E::hash(entry.key()))
        });
        let back = entries.len() - 1;
        &mut entries[back]
    }

    /// All entries, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &E> {
        self.entries.iter()
    }

    pub(crate) fn front(&self) -> Option<&E> {
        self.entries.front()
    }

    pub(crate) fn pop_front(&mut self) -> Option<E> {
        let entry = self.entries.pop_front()?;
        let place = self.first;
        let hash = E::hash(entry.key());
        self.first += 1;
        if let Ok(found) = self.places.find_entry(hash, |other| *other == place) {
            found.remove();
        }
        Some(entry)
    }
}

/// A hash of three words, by folded multiplication. Producers are authenticated, so it need not be secret.
pub(crate) fn mix(name: u128, number: u64) -> u64 {
    let named = fold(name as u64 ^ 0x9E37_79B9_7F4A_7C15, (name >> 64) as u64 ^ 0xBF58_476D_1CE4_E5B9);
    fold(named ^ number, 0x94D0_49BB_1331_11EB) ^ number.rotate_left(32)
}

fn fold(first: u64, second: u64) -> u64 {
    let product = u128::from(first) * u128::from(second);
    product as u64 ^ (product >> 64) as u64
}
