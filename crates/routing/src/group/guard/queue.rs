//! A queue that is sorted by age and whose entries can also be found by key. Finding an entry, adding one at the back
//! and removing one at the front take constant amortised time. No entry needs a separate memory allocation.

use std::collections::VecDeque;

use hashbrown::HashTable;

/// An entry of a [`KeyedQueue`], which is found by its key.
pub(crate) trait Keyed {
    /// Type of the key. No two entries have the same key.
    type Key: Copy + PartialEq;

    /// Returns the key of this entry.
    fn key(&self) -> Self::Key;

    /// Returns a hash of a key. All bits of the hash must be well distributed.
    fn hash(key: Self::Key) -> u64;
}

/// A queue of entries, oldest first, with an index by key.
pub(crate) struct KeyedQueue<E> {
    /// Number of entries removed so far, which is the place of the entry at the front.
    first: u64,
    entries: VecDeque<E>,
    /// Index from the hash of a key to the place of its entry.
    places: HashTable<u64>,
}

impl<E: Keyed> KeyedQueue<E> {
    /// Upper bound of the memory of an entry in bytes. The queue and the index are at least half full when they grow.
    pub(crate) const ENTRY_BYTES: u64 = 2 * size_of::<E>() as u64 + 2 * 8 + 2 * 8;

    pub(crate) fn new() -> Self {
        Self { first: 0, entries: VecDeque::new(), places: HashTable::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the entry with this key.
    #[inline]
    pub(crate) fn find_mut(&mut self, key: E::Key) -> Option<&mut E> {
        let Self { first, entries, places } = self;
        let place = places.find(E::hash(key), |place| {
            let entry = entries.get((place - *first) as usize);
            entry.is_some_and(|entry| entry.key() == key)
        });
        entries.get_mut((place? - *first) as usize)
    }

    /// Adds an entry at the back. The queue must not contain its key yet.
    pub(crate) fn push_back(&mut self, entry: E) -> &mut E {
        let Self { first, entries, places } = self;
        let place = *first + entries.len() as u64;
        let hash = E::hash(entry.key());
        entries.push_back(entry);
        // Every place in the index refers to an entry of the queue.
        places.insert_unique(hash, place, |place| {
            entries.get((place - *first) as usize).map_or(0, |entry| E::hash(entry.key()))
        });
        let back = entries.len() - 1;
        &mut entries[back]
    }

    /// Returns all entries, oldest first.
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

/// Returns a hash of three words, computed by folded multiplication. The hash needs no secret key, because producers
/// are authenticated.
pub(crate) fn mix(name: u128, number: u64) -> u64 {
    let named = fold(name as u64 ^ 0x9E37_79B9_7F4A_7C15, (name >> 64) as u64 ^ 0xBF58_476D_1CE4_E5B9);
    fold(named ^ number, 0x94D0_49BB_1331_11EB) ^ number.rotate_left(32)
}

fn fold(first: u64, second: u64) -> u64 {
    let product = u128::from(first) * u128::from(second);
    product as u64 ^ (product >> 64) as u64
}
