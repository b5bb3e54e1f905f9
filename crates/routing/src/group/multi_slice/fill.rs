//! Estimates how full the newest generation of a group is, from what one node can see in its own slices.
//!
//! Only a node that has all slices of the group can count the recorded events exactly. Every other node uses up to two
//! estimates:
//!
//! - The first estimate is based on the number of events whose head is this node, because heads are distributed
//!   uniformly over the slices.
//! - If the first estimate leaves little room, the node also estimates the number of events from the number of its
//!   cells in use. It then uses the estimate that leaves more room.
//!
//! The count of events can be too high. If another node loses its cells, events that were already counted become
//! first-seen again and are counted a second time. The number of cells in use corrects this error. The cells of such an
//! event are still set on this node, so recording the event again does not increase the number of cells in use.
//!
//! The kind `generations` cannot use this correction, because it does not count cells in use. In a filter of this kind,
//! an event that was counted twice takes the room of two events until its window ends.
//!
//! The embedded engine opens a new generation at exactly the event that finds the newest generation full. In a cluster,
//! the nodes must first agree on a new generation, so each node proposes it a little earlier, based on its own
//! estimate. The error of this estimate is about the square root of the number of events.
//!
//! As a consequence, a cluster opens a generation at a different event than the embedded engine. A filter that has no
//! room for further generations rejects events when it is full, and the first rejected event also differs.

use firstseen_filter::rates::plain;
use firstseen_filter::{
    Ability, FilterDefinition, GENERATIONS_MAX, GenerationNumber, Geometry, Growth, Limit, LiveEvents, UnitNumber,
    WindowRule,
};

use crate::protocol::MonotonicMs;

/// Divisor that determines when a node proposes the next generation. With a value of 8, the node proposes it when the
/// remaining room of the newest generation is at most one eighth of its capacity.
const ROOM_PARTS: u64 = 8;
/// Time in milliseconds after which a generation that was not committed is proposed again.
const REQUEST_RETRY_MS: u64 = 1000;

/// The newest generation of a group.
pub(crate) struct Fill {
    growth: Option<Growth>,
    /// Whether cells of this kind are counted when they are used.
    counts_cells: bool,
    /// The rate of false positives that the filter was configured for.
    rate: f64,
    rule: WindowRule,
    /// Geometry of all slices of the group together.
    whole: Geometry,
    slices: u64,
    /// Number of slices over which heads are distributed, which are the slices that are not gone.
    served_slices: u64,
    asked_slices: u64,
    /// Number of the newest generation that the cluster map contains.
    newest: GenerationNumber,
    /// The generation that was proposed last, and the time of the proposal.
    asked: Option<(GenerationNumber, MonotonicMs)>,
    live: LiveEvents,
    /// Remainder of the events recorded here, in slices, that does not make up a whole share of all slices.
    carry: u64,
    now: UnitNumber,
}

/// Whether another event may be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// The event may be recorded.
    Free,
    /// The event may be recorded, and the next generation should be opened.
    Scarce,
    /// The event may not be recorded in this generation.
    None,
}

impl Fill {
    /// Creates the state for a group of this definition. Its `slices` slices together have the geometry `whole`.
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

    /// Sets the number of slices over which heads are distributed from now on. `asked_slices` is the number of these
    /// slices on this node.
    pub(crate) fn spread_over(&mut self, served_slices: usize, asked_slices: usize) {
        self.served_slices = (served_slices as u64).max(1);
        self.asked_slices = asked_slices as u64;
    }

    /// Returns the number of the newest generation that the cluster map contains.
    pub(crate) fn newest(&self) -> GenerationNumber {
        self.newest
    }

    /// Notes that the cluster map now contains generations up to `number`.
    pub(crate) fn open(&mut self, number: GenerationNumber) {
        if number > self.newest {
            self.newest = number;
            self.live = LiveEvents::default();
            self.carry = 0;
        }
    }

    /// Returns the number of the next generation if it should be proposed. Further calls return `None` for a while.
    pub(crate) fn ask_for_next(&mut self, now_ms: MonotonicMs) -> Option<GenerationNumber> {
        let number = self.newest.after(1);
        if let Some((asked, at_ms)) = self.asked
            && asked == number
            && now_ms.since(at_ms) < REQUEST_RETRY_MS
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

    /// Notes that a new event was recorded whose head is this node.
    pub(crate) fn record(&mut self) {
        self.carry += self.served_slices;
        if let Some(events) = self.carry.checked_div(self.asked_slices) {
            self.live.record(self.now, events);
            self.carry -= events * self.asked_slices;
        }
    }

    /// Returns the events counted in the newest generation.
    pub(crate) fn counted(&self) -> &LiveEvents {
        &self.live
    }

    /// Restores the count of an earlier process of this node.
    pub(crate) fn restore(&mut self, counted: LiveEvents) {
        self.now = self.now.max(counted.newest_unit().unwrap_or_default());
        self.live = counted;
    }

    /// Raises the count of recorded events if the count of one slice indicates that it is too low. `of_slice` counts
    /// the events that have cells in this slice, which are only a part of all events. For example, if an event has
    /// cells in a given slice with a probability of one half, the number of all events is about twice this count. If
    /// that estimate is not above the present count, nothing changes.
    pub(crate) fn adopt(&mut self, of_slice: &LiveEvents) {
        let misses_slice = (1.0 - 1.0 / self.slices.max(1) as f64).powf(f64::from(self.whole.hashes()));
        let all = of_slice.times(1.0 / (1.0 - misses_slice));
        if all.total() > self.live.total() {
            self.restore(all);
        }
    }

    /// Returns whether the newest generation has room for another event. `pending` further events are about to be
    /// recorded, and they count as if they were already recorded. The callback `used_cells` returns the number of cells
    /// in use in this node's slices. Because counting takes time, it is called only if its result can make a
    /// difference.
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

    /// Returns the number of events for which the newest generation has room, or `None` if it has no limit.
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

    /// Returns the number of events for which the newest generation has room if all slices together use `used_cells`
    /// cells.
    fn room_beside(&self, growth: &Growth, used_cells: u64) -> u64 {
        growth.room(self.newest, &self.whole, &self.live, self.now, used_cells)
    }

    /// Estimates the number of cells that all slices use from the number that this node's slices use.
    fn of_all(&self, used_cells: u64, own_slices: u64) -> u64 {
        (used_cells * self.slices).checked_div(own_slices).unwrap_or(0)
    }

    /// Estimates the number of different events from the number of cells in use.
    fn events_in(&self, used_cells: u64) -> u64 {
        let cells = self.whole.cells() as f64;
        plain::events_from_fill(cells, self.whole.hashes(), (used_cells as f64 / cells).min(1.0)) as u64
    }

    /// Returns whether other events set this many positions of an event with a higher probability than the filter's
    /// configured error rate.
    pub(crate) fn is_likely_set(&self, positions: usize) -> bool {
        let fill = plain::fill(self.whole.cells() as f64, self.whole.hashes(), self.live.total() as f64);
        plain::rate_from_fill(positions as u32, fill) > self.rate
    }

    /// Returns the maximum number of generations that exist at the same time.
    pub(crate) fn generations_max(&self) -> u64 {
        self.growth.map_or(1, |growth| u64::from(growth.generations_max.min(GENERATIONS_MAX)))
    }
}
