//! How full the newest generation of a group is, as far as one node can tell from its own slices.
//!
//! Promises: where one node has all slices, the events are counted exactly; otherwise they are estimated from those whose
//! head this node is, as heads are uniform over slices, and where that leaves little room, from the cells in use. Must not
//! know: cells, when a generation is committed.
//!
//! A key is counted again when it is first-seen again because another node has lost its cells with its process. Its cells
//! here are set already, so those in use do not count it twice. Words of generations are not counted: there a key that
//! comes again after such a loss takes the room of two until its window is over.
//!
//! The embedded engine opens a generation when the newest is full, at that event. A cluster has to agree on it first,
//! so it is proposed a little earlier, and each node judges by its own estimate. The estimate is off by about the
//! square root of the number of events: so generations open at other events, and a full filter begins to refuse at
//! another.

use firstseen_filter::rates::plain;
use firstseen_filter::{
    Ability, FilterDefinition, GENERATIONS_MAX, GenerationNumber, Geometry, Growth, Limit, LiveEvents, UnitNumber,
    WindowRule,
};

use crate::protocol::MonotonicMs;

/// The next generation is proposed when the newest has room for less than one part in this many of its capacity.
const ROOM_PARTS: u64 = 8;
/// A generation that was not committed is proposed again after so long.
const ASK_AGAIN_MS: u64 = 1000;

/// The newest generation of a group.
pub(crate) struct Fill {
    growth: Option<Growth>,
    /// Whether the kind counts the cells in use.
    counts_cells: bool,
    /// The rate of false positives that was asked for.
    rate: f64,
    rule: WindowRule,
    /// All slices of the group together.
    whole: Geometry,
    slices: u64,
    /// Slices over which heads are spread: those that are not gone.
    served_slices: u64,
    asked_slices: u64,
    /// The committed number of the newest generation.
    newest: GenerationNumber,
    /// The generation proposed last, and when.
    asked: Option<(GenerationNumber, MonotonicMs)>,
    live: LiveEvents,
    /// Slices of events recorded here, beyond whole shares of all slices.
    carry: u64,
    now: UnitNumber,
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
    /// For a group of this definition, whose `slices` slices are `whole` together.
    pub(crate) fn new(group: &FilterDefinition, whole: Geometry, slices: u64) -> Self {
        Self {
            growth: group.cells.growth().copied(),
            counts_cells: group.cells.kind().can(Ability::CountUsedCells),
            rate: group.rate,
            rule: group.counted_rule(),
            whole,
            slices,
            served_slices: slices,
            asked_slices: 0,
            newest: GenerationNumber::FIRST,
            asked: None,
            live: LiveEvents::default(),
            carry: 0,
            now: UnitNumber::FIRST,
        }
    }

    /// Heads are spread over so many slices from now on, of which this node has `asked_slices`.
    pub(crate) fn spread_over(&mut self, served_slices: usize, asked_slices: usize) {
        self.served_slices = (served_slices as u64).max(1);
        self.asked_slices = asked_slices as u64;
    }

    /// The committed number of the newest generation.
    pub(crate) fn newest(&self) -> GenerationNumber {
        self.newest
    }

    /// Generations open up to `number`, as was committed.
    pub(crate) fn open(&mut self, number: GenerationNumber) {
        if number > self.newest {
            self.newest = number;
            self.live = LiveEvents::default();
            self.carry = 0;
        }
    }

    /// The next generation, where it is to be proposed; not again for a while.
    pub(crate) fn ask_for_next(&mut self, now_ms: MonotonicMs) -> Option<GenerationNumber> {
        let number = self.newest.after(1);
        if let Some((asked, at_ms)) = self.asked
            && asked == number
            && now_ms.since(at_ms) < ASK_AGAIN_MS
        {
            return None;
        }
        self.asked = Some((number, now_ms));
        Some(number)
    }

    pub(crate) fn advance(&mut self, unit: UnitNumber) {
        if unit > self.now {
            self.now = unit;
            self.live.advance(&self.rule, unit);
        }
    }

    /// A new event was recorded whose head is this node.
    pub(crate) fn record(&mut self) {
        self.carry += self.served_slices;
        if let Some(events) = self.carry.checked_div(self.asked_slices) {
            self.live.record(self.now, events);
            self.carry -= events * self.asked_slices;
        }
    }

    /// Events counted in the newest generation.
    pub(crate) fn counted(&self) -> &LiveEvents {
        &self.live
    }

    /// Takes up the count of an earlier process of this node.
    pub(crate) fn restore(&mut self, counted: LiveEvents) {
        self.now = self.now.max(counted.newest_unit().unwrap_or_default());
        self.live = counted;
    }

    /// Takes up an estimate from the events that had cells in one of the slices, `of_slice`, where that is more than is
    /// counted.
    pub(crate) fn adopt(&mut self, of_slice: &LiveEvents) {
        let misses_slice = (1.0 - 1.0 / self.slices.max(1) as f64).powf(f64::from(self.whole.hashes()));
        let all = of_slice.times(1.0 / (1.0 - misses_slice));
        if all.total() > self.live.total() {
            self.restore(all);
        }
    }

    /// Room in the newest generation beside events that are pending, of which the own slices use `used_cells`; these are counted
    /// only where they matter.
    pub(crate) fn room(&self, own_slices: u64, pending: u64, used_cells: impl FnOnce() -> u64) -> Room {
        let Some((growth, room_events)) = self.growth.as_ref().zip(self.room_events(own_slices, used_cells)) else {
            return Room::Free;
        };
        match room_events.saturating_sub(pending) {
            0 => Room::None,
            room_events if room_events <= growth.capacity_events / ROOM_PARTS => Room::Scarce,
            _ => Room::Free,
        }
    }

    /// Events that find room in the newest generation; none where that has no limit.
    pub(crate) fn room_events(&self, own_slices: u64, used_cells: impl FnOnce() -> u64) -> Option<u64> {
        let growth = self.growth.as_ref()?;
        if growth.limit == Limit::Density {
            return Some(self.room_beside(growth, self.of_all(used_cells(), own_slices)));
        }
        let counted = self.room_beside(growth, 0);
        let is_scarce = counted <= growth.capacity_events / ROOM_PARTS;
        if !is_scarce || !self.counts_cells || self.asked_slices >= self.slices {
            return Some(counted);
        }
        let events = self.events_in(self.of_all(used_cells(), own_slices));
        Some(counted.max(growth.capacity_events.saturating_sub(events)))
    }

    /// Events that find room in the newest generation, of which all slices together use so many cells.
    fn room_beside(&self, growth: &Growth, used_cells: u64) -> u64 {
        growth.room(self.newest, &self.whole, &self.live, self.now, used_cells)
    }

    /// The cells that all slices use, by an estimate from those that the own slices use.
    fn of_all(&self, used_cells: u64, own_slices: u64) -> u64 {
        (used_cells * self.slices).checked_div(own_slices).unwrap_or(0)
    }

    /// Different events behind so many cells in use.
    fn events_in(&self, used_cells: u64) -> u64 {
        let cells = self.whole.cells() as f64;
        plain::events_from_fill(cells, self.whole.hashes(), (used_cells as f64 / cells).min(1.0)) as u64
    }

    /// Whether an event finds this many positions set by others more often than the filter may err.
    pub(crate) fn is_likely_set(&self, positions: usize) -> bool {
        let fill = plain::fill(self.whole.cells() as f64, self.whole.hashes(), self.live.total() as f64);
        plain::rate_from_fill(positions as u32, fill) > self.rate
    }

    /// Most generations alive at once.
    pub(crate) fn generations_max(&self) -> u64 {
        self.growth.map_or(1, |growth| u64::from(growth.generations_max.min(GENERATIONS_MAX)))
    }
}
