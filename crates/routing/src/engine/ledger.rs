//! Counts the events that the slices of one group have recorded together, and decides when the slices open a new
//! generation.
//!
//! All slices of a group open a new generation at the same time, when all of them together are full. An event can then
//! be tested within one generation, although its cells lie in several slices. If each slice opened generations on its
//! own, a test would have to combine the generations of all slices, and false positives would be more frequent. With L
//! generations and k positions, their probability would be `(1 - (1-p)^L)^k` instead of `1 - (1-P)^L`, where p is the
//! probability that a position is set in one generation, and P is the probability that all k positions are set in one
//! generation (Koloniari et al. 2011, section 5).
//!
//! A sliced filter opens generations at the same events as the same filter without slices.

use std::io::{self, Read, Write};

use firstseen_filter::{
    FilterSlice, GENERATIONS_MAX, GenerationNumber, Geometry, Growth, Limit, LiveEvents, UnitNumber, WindowRule,
};

use crate::plan::{SlicePlan, Slicing};

/// Generations of one slice group.
pub(crate) struct Ledger {
    slicing: Slicing,
    window: WindowRule,
    growth: Option<Growth>,
    kept_units: u64,
    /// Greatest unit of all events so far.
    now: UnitNumber,
    /// Number of the oldest generation, counted since the filter was created.
    oldest: GenerationNumber,
    /// Generations, oldest first. The list is never empty.
    stack: Vec<GroupGeneration>,
    /// Number of cells in use in the newest generation, if density limits the generation.
    used_cells: u64,
}

/// One generation, which exists in all slices of the group.
pub(crate) struct GroupGeneration {
    pub(crate) plan: SlicePlan,
    live: LiveEvents,
}

impl Ledger {
    /// Creates the ledger of a slice group, which is the list of generations that all slices of the group share. All
    /// slices must be empty. Returns `None` in two cases:
    /// - One slice holds all positions of an event. Each slice then manages its generations alone.
    /// - The filter kind does not support that the positions of an event are divided over several slices.
    pub(crate) fn new(
        slicing: Slicing,
        window: WindowRule,
        growth: Option<Growth>,
        slice: &FilterSlice,
    ) -> Option<Self> {
        let plan = SlicePlan::new(slicing, *slice.geometry()).ok()?;
        let stack = vec![GroupGeneration { plan, live: LiveEvents::default() }];
        let kept_units = slice.kept_units()?;
        Some(Self {
            slicing,
            window,
            growth,
            kept_units,
            now: UnitNumber::FIRST,
            oldest: GenerationNumber::FIRST,
            stack,
            used_cells: 0,
        })
    }

    /// Returns the generations with their numbers, oldest first.
    pub(crate) fn generations(&self) -> impl ExactSizeIterator<Item = (GenerationNumber, &GroupGeneration)> {
        self.stack.iter().enumerate().map(|(index, generation)| (self.oldest.after(index as u64), generation))
    }

    pub(crate) fn oldest(&self) -> GenerationNumber {
        self.oldest
    }

    pub(crate) fn newest(&self) -> GenerationNumber {
        self.oldest.after(self.stack.len() as u64).before(1)
    }

    pub(crate) fn live_events(&self) -> u64 {
        self.stack.iter().map(|generation| generation.live.total()).sum()
    }

    /// Returns whether the number of used cells limits a generation.
    pub(crate) fn limited_by_density(&self) -> bool {
        self.growth.is_some_and(|growth| growth.limit == Limit::Density)
    }

    /// Moves the window to unit `next`, if that is later than the present unit.
    pub(crate) fn advance(&mut self, next: UnitNumber, slices: &mut [FilterSlice]) {
        if next <= self.now {
            return;
        }
        self.now = next;
        self.stack.iter_mut().for_each(|generation| generation.live.advance(&self.window, next));
        let older = &self.stack[..self.stack.len() - 1];
        let emptied = older.iter().take_while(|generation| {
            generation.live.newest_unit().is_none_or(|unit| unit.after(self.kept_units) <= next)
        });
        let dropped = emptied.count();
        self.stack.drain(..dropped);
        self.oldest = self.oldest.after(dropped as u64);
        if self.limited_by_density() {
            self.count_used(slices);
        }
    }

    /// Moves all slices to the present unit, and counts the cells in use.
    fn count_used(&mut self, slices: &mut [FilterSlice]) {
        slices.iter_mut().for_each(|slice| slice.advance(self.now));
        self.used_cells = slices.iter().map(FilterSlice::used_cells).sum();
    }

    /// Returns whether another event may be recorded. If the newest generation is full, this method first opens a new
    /// generation in all slices.
    pub(crate) fn make_room(&mut self, slices: &mut [FilterSlice]) -> bool {
        let Some(growth) = self.growth else { return true };
        if self.room_in_newest(&growth) > 0 {
            return true;
        }
        if self.stack.len() >= growth.generations_max.min(GENERATIONS_MAX) as usize {
            return false;
        }
        self.open(slices) && self.room_in_newest(&growth) > 0
    }

    fn room_in_newest(&self, growth: &Growth) -> u64 {
        let Some(newest) = self.stack.last() else { return 0 };
        let slices = u64::from(self.slicing.slices_per_group());
        match whole(newest.plan.slice(), slices) {
            Some(geometry) => growth.room(self.newest(), &geometry, &newest.live, self.now, self.used_cells),
            None => 0,
        }
    }

    fn open(&mut self, slices: &mut [FilterSlice]) -> bool {
        // Empty generations are dropped first, so that no slice keeps more generations than the group.
        slices.iter_mut().for_each(|slice| slice.advance(self.now));
        for opened in 0..slices.len() {
            if slices[opened].open_generation().is_err() {
                slices[..opened].iter_mut().for_each(FilterSlice::close_generation);
                return false;
            }
        }
        match self.plan_of(self.newest().after(1), slices) {
            Some(plan) => self.stack.push(GroupGeneration { plan, live: LiveEvents::default() }),
            None => return false,
        }
        self.used_cells = 0;
        true
    }

    /// Returns the plan of a generation, or `None` if the slices that have the generation disagree about its shape.
    fn plan_of(&self, number: GenerationNumber, slices: &[FilterSlice]) -> Option<SlicePlan> {
        let mut shapes = slices.iter().filter_map(|slice| slice.generation_geometry(number));
        let Some(shape) = shapes.next() else {
            // All slices have dropped the generation. It is tested only until the group notices that it is empty.
            return SlicePlan::new(self.slicing, *slices.first()?.geometry()).ok();
        };
        if shapes.any(|other| other != shape) {
            return None;
        }
        SlicePlan::new(self.slicing, shape).ok()
    }

    /// Counts an event that was recorded in the newest generation, and `newly_used` cells that came into use.
    pub(crate) fn record(&mut self, newly_used: u64) {
        self.used_cells += newly_used;
        if let Some(newest) = self.stack.last_mut() {
            newest.live.record(self.now, 1);
        }
    }

    /// Notes that a duplicate was recorded again in generation `number`, which extends its life.
    pub(crate) fn refresh(&mut self, number: GenerationNumber, newly_used: u64) {
        self.used_cells += newly_used;
        if let Some(generation) = self.stack.get_mut(number.since(self.oldest).unwrap_or(0) as usize) {
            generation.live.refresh(self.now);
        }
    }

    pub(crate) fn write_body(&self, sink: &mut dyn Write) -> io::Result<()> {
        for value in [self.now.0, self.oldest.0, self.stack.len() as u64] {
            sink.write_all(&value.to_le_bytes())?;
        }
        self.stack.iter().try_for_each(|generation| generation.live.write(sink))
    }

    /// Restores the state of a ledger with the same definition. The slices must be restored before.
    pub(crate) fn read_body(&mut self, source: &mut dyn Read, slices: &mut [FilterSlice]) -> io::Result<()> {
        let mut numbers = [[0; 8]; 3];
        numbers.iter_mut().try_for_each(|bytes| source.read_exact(bytes))?;
        let [now, oldest, generations] = numbers.map(u64::from_le_bytes);
        let most = self.growth.map_or(1, |growth| u64::from(growth.generations_max.min(GENERATIONS_MAX)));
        if !(1..=most).contains(&generations) || oldest > u64::MAX - most {
            return Err(invalid("more generations than the filter may have"));
        }
        let newest = oldest + generations - 1;
        if slices.iter().any(|slice| slice.newest_generation().0 != newest) {
            return Err(invalid("slices of one group with different generations"));
        }
        self.stack.clear();
        for number in oldest..=newest {
            let live = LiveEvents::read(source, self.kept_units.saturating_add(2))?;
            let plan = self
                .plan_of(GenerationNumber(number), slices)
                .ok_or_else(|| invalid("slices of one group with different sizes"))?;
            self.stack.push(GroupGeneration { plan, live });
        }
        (self.now, self.oldest) = (UnitNumber(now), GenerationNumber(oldest));
        self.used_cells = slices.iter().map(FilterSlice::used_cells).sum();
        Ok(())
    }
}

/// Returns the geometry of all slices of a group together.
fn whole(slice: &Geometry, slices: u64) -> Option<Geometry> {
    Geometry::new(slice.cells().checked_mul(slices)?, slice.hashes(), slice.cell_bits(), slice.layout()).ok()
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
