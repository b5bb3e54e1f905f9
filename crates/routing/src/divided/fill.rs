//! How full the newest generation of a group is, as far as one node can tell from its own slices.
//!
//! Promises: where one node has all slices, the events are counted exactly; otherwise they are estimated from those whose
//! head this node is, as heads are uniform over slices. Must not know: cells, when a generation is committed.
//!
//! The embedded engine opens a generation when the newest is full, at that event. A cluster has to agree on it first, so
//! it is asked for a little earlier, and each node judges by its own estimate: generations open at other events, and where
//! events are refused is as uncertain as the root of the events counted.

use firstseen_filter::{GENERATIONS_MAX, Geometry, Growth, Limit, LiveEvents, WindowRule};

/// A generation is asked for when the newest has room for less than one part in this many of its capacity.
const ROOM_PARTS: u64 = 8;

/// The newest generation of a group.
pub(crate) struct Fill {
    growth: Option<Growth>,
    rule: WindowRule,
    /// All slices of the group together.
    whole: Geometry,
    slices: u64,
    /// The committed number of the newest generation.
    newest: u64,
    live: LiveEvents,
    /// Slices of events recorded here, beyond whole shares of all slices.
    carry: u64,
    now: u64,
}

/// Whether another event may be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Yes.
    Free,
    /// Yes, and the next generation should be opened.
    Scarce,
    /// Not in this generation.
    None,
}

impl Fill {
    pub(crate) fn new(growth: Option<Growth>, rule: WindowRule, whole: Geometry, slices: u64) -> Self {
        Self { growth, rule, whole, slices, newest: 0, live: LiveEvents::default(), carry: 0, now: 0 }
    }

    /// The committed number of the newest generation.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// Generations open up to `number`, as was committed.
    pub(crate) fn open(&mut self, number: u64) {
        if number > self.newest {
            self.newest = number;
            self.live = LiveEvents::default();
            self.carry = 0;
        }
    }

    pub(crate) fn advance(&mut self, unit: u64) {
        if unit > self.now {
            self.now = unit;
            self.live.advance(&self.rule, unit);
        }
    }

    /// A new event was recorded whose head is this node, which has `own_slices` of the slices.
    pub(crate) fn record(&mut self, own_slices: u64) {
        self.carry += self.slices;
        if let Some(events) = self.carry.checked_div(own_slices) {
            self.live.record(self.now, events);
            self.carry -= events * own_slices;
        }
    }

    /// Room in the newest generation, of which the own slices use `used_cells`.
    pub(crate) fn room(&self, used_cells: u64, own_slices: u64) -> Room {
        let Some(growth) = &self.growth else { return Room::Free };
        let used_cells = (used_cells * self.slices).checked_div(own_slices).unwrap_or(0);
        let room = growth.room(self.newest, &self.whole, &self.live, self.now, used_cells);
        match room {
            0 => Room::None,
            room if room <= growth.capacity_events / ROOM_PARTS => Room::Scarce,
            _ => Room::Free,
        }
    }

    /// Whether used cells of the own slices matter.
    pub(crate) fn limited_by_density(&self) -> bool {
        self.growth.is_some_and(|growth| growth.limit == Limit::Density)
    }

    /// Most generations alive at once.
    pub(crate) fn generations_max(&self) -> u64 {
        self.growth.map_or(1, |growth| u64::from(growth.generations_max.min(GENERATIONS_MAX)))
    }
}
