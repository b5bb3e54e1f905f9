//! Table of the claims on those events whose head node is this node, for one slice group.
//!
//! # Guarantees
//!
//! - An event has at most one entry, which describes the latest grant of the event.
//! - An entry takes at most [`ClaimTable::ENTRY_BYTES_MAX`] bytes, and all entries together never exceed the configured
//!   limit.
//! - Each call examines a bounded number of entries, except for the calls whose documentation says that they visit
//!   every entry.
//!
//! The table does not decide what a call becomes. That decision is made by [`before_test`](super::before_test).

use hashbrown::HashTable;

use crate::protocol::{Fence, MonotonicMs};

/// Number of entries that one grant examines to find entries whose lease has ended.
const SWEPT_AT_ONCE: usize = 8;
/// Divisor that determines how much of the claim table one cleanup pass examines. A pass consists of several sweeps,
/// and each sweep examines [`SWEPT_AT_ONCE`] entries. The divisor is chosen so that the sweeps of one pass examine a
/// quarter of all entries. Four passes therefore cover the whole table, and each single pass stays short.
///
/// Each pass also makes [`PASSED_MIN`] additional sweeps, so that a single pass covers a small table completely.
const PASSED_PARTS: usize = 4 * SWEPT_AT_ONCE;
const PASSED_MIN: usize = 128;
/// Growth of a full vector of entries: its capacity grows by one part in this number (by an eighth).
const GROWTH: usize = 8;

/// Claim on one event.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Hash of the event's positions, as two halves. A `u128` is aligned to 16 bytes, which would make each entry 8
    /// bytes larger.
    event: [u64; 2],
    fence: Fence,
    /// Time at which the lease ends.
    until: MonotonicMs,
    /// Identifies the claim, so that a retry is recognized.
    tag: u64,
}

impl Entry {
    fn hash(&self) -> u64 {
        hash(self.event)
    }
}

/// Grant of a claim on an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedBy {
    /// Fencing token that identifies the grant.
    pub fence: Fence,
    /// Tag of the claim, which a retry of the claim has too.
    pub tag: u64,
}

/// State of an event in the claim table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// The table has no entry for the event.
    Free,
    /// A consumer holds the event, and its lease is active.
    Held {
        /// Grant to which the lease belongs.
        by: ClaimedBy,
        /// Remaining duration of the lease in milliseconds, always more than 0.
        left_ms: u64,
    },
    /// A consumer held the event, but its lease has ended.
    Expired {
        /// Grant to which the lease belonged.
        by: ClaimedBy,
    },
}

/// Table of claims, with one entry for each claimed event.
///
/// ```
/// use firstseen_routing::{ClaimTable, ClaimedBy, Epoch, Fence, FilterId, Holding, Incarnation, MonotonicMs};
/// let mut table = ClaimTable::new(1 << 20, 10_000);
/// let fence = Fence::new(FilterId(7), Epoch(3), Incarnation(1), 0).unwrap();
/// let by = ClaimedBy { fence, tag: 99 };
/// let (until, earlier) = (MonotonicMs(10_000), MonotonicMs(4_000));
/// assert!(table.hold(0xC11C, by, until, MonotonicMs::START));
/// assert_eq!(table.holding(0xC11C, earlier), Holding::Held { by, left_ms: 6_000 });
/// assert_eq!(table.holding(0xC11C, until), Holding::Expired { by });
/// assert!(table.let_go(0xC11C, fence));
/// assert_eq!(table.holding(0xC11C, earlier), Holding::Free);
/// ```
pub struct ClaimTable {
    entries: Vec<Entry>,
    /// Index of each event's entry in `entries`.
    places: HashTable<u32>,
    /// Index of the entry that the next sweep examines first.
    hand: usize,
    entries_max: usize,
    /// How long an entry is kept after its lease has ended, in milliseconds, unless the table needs the memory earlier.
    kept_ms: u64,
}

impl ClaimTable {
    /// Maximum memory that one claim takes in the table, in bytes. It is the sum of two parts:
    ///
    /// - The entry of the claim in the vector of entries. The capacity of the vector may exceed the number of entries
    ///   by an eighth.
    /// - The share of the claim in the hash table of indexes. The hash table doubles when it is seven eighths full, so
    ///   it has at most 2.3 places for each entry. Each place takes five bytes.
    pub const ENTRY_BYTES_MAX: u64 = (size_of::<Entry>() + size_of::<Entry>() / GROWTH) as u64 + 12;

    /// Creates an empty table that takes at most `bytes_max` bytes of memory. Each entry stands for a claim. When the
    /// lease of a claim has ended, the table keeps its entry for `kept_ms` further milliseconds, but it removes the
    /// entry earlier if a new claim needs the memory.
    pub fn new(bytes_max: u64, kept_ms: u64) -> Self {
        let mut table = Self { entries: Vec::new(), places: HashTable::new(), hand: 0, entries_max: 0, kept_ms };
        table.set_bytes_max(bytes_max);
        table
    }

    /// Sets the maximum memory of the table to `bytes_max` bytes. If the table already takes more, active claims stay
    /// in the table, and the table rejects further claims until enough entries have been removed.
    pub fn set_bytes_max(&mut self, bytes_max: u64) {
        let entries_max = (bytes_max / Self::ENTRY_BYTES_MAX).min(u64::from(u32::MAX));
        self.entries_max = entries_max as usize;
    }

    /// Returns the state of `event` at the time `now`.
    pub fn holding(&self, event: u128, now: MonotonicMs) -> Holding {
        let Some(place) = self.place(event) else { return Holding::Free };
        let Entry { fence, until, tag, .. } = self.entries[place];
        let by = ClaimedBy { fence, tag };
        match until.since(now) {
            0 => Holding::Expired { by },
            left_ms => Holding::Held { by, left_ms },
        }
    }

    /// Records that a claim was granted on `event` and is active until the given time. An earlier grant of the same
    /// event is replaced. If the event needs a further entry and the table is full, this method changes nothing and
    /// returns `false`.
    pub fn hold(&mut self, event: u128, by: ClaimedBy, until: MonotonicMs, now: MonotonicMs) -> bool {
        let ClaimedBy { fence, tag } = by;
        let entry = Entry { event: halves(event), fence, until, tag };
        if let Some(place) = self.place(event) {
            self.entries[place] = entry;
            return true;
        }
        self.sweep(now);
        if self.entries.len() >= self.entries_max {
            return false;
        }
        let place = self.entries.len() as u32;
        self.places.insert_unique(hash(halves(event)), place, |place| self.entries[*place as usize].hash());
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact((self.entries.len() / GROWTH).max(1));
        }
        self.entries.push(entry);
        true
    }

    /// Removes the grant with this fence, and returns whether the table had it.
    pub fn let_go(&mut self, event: u128, fence: Fence) -> bool {
        let place = self.place(event).filter(|place| self.entries[*place].fence == fence);
        place.map(|place| self.remove(place)).is_some()
    }

    /// Removes the entry of an event, because the event is recorded now.
    pub fn forget(&mut self, event: u128) {
        if let Some(place) = self.place(event) {
            self.remove(place);
        }
    }

    /// Removes all claims whose leases have ended. This method visits every entry.
    pub fn drop_expired(&mut self, now: MonotonicMs) {
        let mut place = 0;
        while let Some(entry) = self.entries.get(place) {
            if entry.until <= now {
                self.remove(place);
            } else {
                place += 1;
            }
        }
    }

    /// Examines a part of all entries, removes those whose leases ended more than `kept_ms` ago, and returns unused
    /// memory.
    pub fn pass(&mut self, now: MonotonicMs) {
        (0..self.entries.len() / PASSED_PARTS + PASSED_MIN).for_each(|_| self.sweep(now));
        if self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to(2 * self.entries.len());
            let Self { places, entries, .. } = self;
            places.shrink_to(2 * entries.len(), |place| entries[*place as usize].hash());
        }
    }

    /// Returns the number of events that have an active lease. This method visits every entry.
    pub fn held(&self, now: MonotonicMs) -> usize {
        self.entries.iter().filter(|entry| entry.until > now).count()
    }

    /// Returns the number of entries. Entries whose lease has ended count until they are removed.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the table has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns whether further passes would change nothing, because the table is empty and has returned its memory.
    pub fn is_at_rest(&self) -> bool {
        self.entries.is_empty() && self.entries.capacity() == 0 && self.places.capacity() == 0
    }

    /// Returns the allocated memory in bytes.
    pub fn bytes(&self) -> u64 {
        (self.entries.capacity() * size_of::<Entry>() + self.places.allocation_size()) as u64
    }

    fn place(&self, event: u128) -> Option<usize> {
        let halves = halves(event);
        let place = self.places.find(hash(halves), |place| self.entries[*place as usize].event == halves);
        place.map(|place| *place as usize)
    }

    /// Examines the next few entries of the claim table, and removes entries of claims that have ended. After the lease
    /// of a claim has ended, its entry normally stays for another `kept_ms` milliseconds, so that the last holder can
    /// still confirm the claim. If the table is full, the entry is removed as soon as the lease has ended, because the
    /// room is needed for other claims.
    fn sweep(&mut self, now: MonotonicMs) {
        for _ in 0..SWEPT_AT_ONCE {
            if self.entries.is_empty() {
                return;
            }
            let kept_ms = if self.entries.len() < self.entries_max { self.kept_ms } else { 0 };
            self.hand = if self.hand < self.entries.len() { self.hand } else { 0 };
            if self.entries[self.hand].until.after(kept_ms) <= now {
                self.remove(self.hand);
            } else {
                self.hand += 1;
            }
        }
    }

    /// Removes an entry. The last entry of the vector moves to the place of the removed entry.
    fn remove(&mut self, place: usize) {
        let gone = self.entries.swap_remove(place);
        let last = self.entries.len() as u32;
        let place = place as u32;
        if let Ok(found) = self.places.find_entry(gone.hash(), |other| *other == place) {
            found.remove();
        }
        if let Some(moved) = self.entries.get(place as usize)
            && let Some(moved) = self.places.find_mut(moved.hash(), |other| *other == last)
        {
            *moved = place;
        }
    }
}

fn halves(event: u128) -> [u64; 2] {
    [event as u64, (event >> 64) as u64]
}

/// Returns the hash under which the hash table stores an event. An event is identified by two numbers, which are hash
/// values already. However, some of their bits can be zero for all events, so these numbers alone would place many
/// events next to each other. The multiplication distributes the remaining bits over the whole result.
fn hash([low, high]: [u64; 2]) -> u64 {
    let product = u128::from(low ^ high) * 0x9E37_79B9_7F4A_7C15;
    product as u64 ^ (product >> 64) as u64
}
