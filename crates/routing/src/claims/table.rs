//! The claims of the events that one group heads.
//!
//! Promises: of one event there is one entry at most, that of its last grant; entries take [`ClaimTable::ENTRY_BYTES_MAX`]
//! bytes each at most, and never more than the limit together; a call does bounded work. Must not know: what a call
//! becomes.

use hashbrown::HashTable;

use crate::protocol::{Fence, MonotonicMs};

/// Entries that one grant looks through for one whose lease is over.
const SWEPT_AT_ONCE: usize = 8;
/// A pass sweeps once for each 32 entries, and 128 times more. So it looks at a quarter of all entries and at 1,024
/// more, which costs little.
const PASSED_PARTS: usize = 4 * SWEPT_AT_ONCE;
const PASSED_MIN: usize = 128;
/// A full vector of entries grows by one part in this many.
const GROWTH: usize = 8;

/// The claim of one event.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// A hash of the event's positions, in halves: a `u128` is aligned to 16 bytes, and an entry would take 8 more.
    event: [u64; 2],
    fence: Fence,
    /// When the lease is over.
    until: MonotonicMs,
    /// Names the claim, so that a retry is known.
    tag: u64,
}

impl Entry {
    fn hash(&self) -> u64 {
        hash(self.event)
    }
}

/// The grant of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedBy {
    /// Names the grant.
    pub fence: Fence,
    /// The tag of the claim.
    pub tag: u64,
}

/// What the table holds of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// Nothing.
    Free,
    /// A lease that is not over.
    Held {
        /// Whose.
        by: ClaimedBy,
        /// What is left of it, in milliseconds, more than 0.
        left_ms: u64,
    },
    /// A lease that is over.
    Expired {
        /// Whose it was.
        by: ClaimedBy,
    },
}

/// Claims by event.
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
    /// Where in `entries` an event is.
    places: HashTable<u32>,
    /// The next entry that is looked at when room is needed.
    hand: usize,
    entries_max: usize,
    /// For how long an entry is kept, in milliseconds, whose lease is over and whose room nobody needs.
    kept_ms: u64,
}

impl ClaimTable {
    /// Bytes that an entry takes at most: entries have room for an eighth more of them, and the table of places, which
    /// doubles when seven eighths are taken, has five bytes for each of up to 2.3 places an entry.
    pub const ENTRY_BYTES_MAX: u64 = (size_of::<Entry>() + size_of::<Entry>() / GROWTH) as u64 + 12;

    /// An empty table that takes `bytes_max` bytes at most, and keeps an entry for `kept_ms` after its lease is over, or until its
    /// room is needed.
    pub fn new(bytes_max: u64, kept_ms: u64) -> Self {
        let mut table = Self { entries: Vec::new(), places: HashTable::new(), hand: 0, entries_max: 0, kept_ms };
        table.set_bytes_max(bytes_max);
        table
    }

    /// Takes `bytes_max` bytes at most from now on. Claims that are open stay: no more are taken until they fit.
    pub fn set_bytes_max(&mut self, bytes_max: u64) {
        let entries_max = (bytes_max / Self::ENTRY_BYTES_MAX).min(u64::from(u32::MAX));
        self.entries_max = entries_max as usize;
    }

    /// What it holds of `event` now.
    pub fn holding(&self, event: u128, now: MonotonicMs) -> Holding {
        let Some(place) = self.place(event) else { return Holding::Free };
        let Entry { fence, until, tag, .. } = self.entries[place];
        let by = ClaimedBy { fence, tag };
        match until.since(now) {
            0 => Holding::Expired { by },
            left_ms => Holding::Held { by, left_ms },
        }
    }

    /// The event is held until then, instead of whatever was held of it; `false` where there is no room: then
    /// nothing changes.
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

    /// Forgets the grant of this fence; whether it was there.
    pub fn let_go(&mut self, event: u128, fence: Fence) -> bool {
        let place = self.place(event).filter(|place| self.entries[*place].fence == fence);
        place.map(|place| self.remove(place)).is_some()
    }

    /// Forgets what is held of an event that is recorded now.
    pub fn forget(&mut self, event: u128) {
        if let Some(place) = self.place(event) {
            self.remove(place);
        }
    }

    /// Forgets all claims whose leases are over. It looks at every entry.
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

    /// Forgets claims whose leases have been over for long, of a part of all entries, and gives memory back.
    pub fn pass(&mut self, now: MonotonicMs) {
        (0..self.entries.len() / PASSED_PARTS + PASSED_MIN).for_each(|_| self.sweep(now));
        if self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to(2 * self.entries.len());
            let Self { places, entries, .. } = self;
            places.shrink_to(2 * entries.len(), |place| entries[*place as usize].hash());
        }
    }

    /// Events that are held. It looks at every entry.
    pub fn held(&self, now: MonotonicMs) -> usize {
        self.entries.iter().filter(|entry| entry.until > now).count()
    }

    /// Entries, those included whose lease is over and that were not dropped yet.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether time can change nothing of it: it is empty, and has given its memory back.
    pub fn is_at_rest(&self) -> bool {
        self.entries.is_empty() && self.entries.capacity() == 0 && self.places.capacity() == 0
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        (self.entries.capacity() * size_of::<Entry>() + self.places.allocation_size()) as u64
    }

    fn place(&self, event: u128) -> Option<usize> {
        let halves = halves(event);
        let place = self.places.find(hash(halves), |place| self.entries[*place as usize].event == halves);
        place.map(|place| *place as usize)
    }

    /// Looks at a few entries, and drops those whose lease is over: at once where the table is full, otherwise `kept_ms` after the
    /// lease's end.
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

    /// The last entry takes the place of the one that goes.
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

/// Positions of events are hashes already, but not all bits of their numbers need be used: a product depends on all of
/// them.
fn hash([low, high]: [u64; 2]) -> u64 {
    let product = u128::from(low ^ high) * 0x9E37_79B9_7F4A_7C15;
    product as u64 ^ (product >> 64) as u64
}
