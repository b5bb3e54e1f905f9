//! The owner of a group of slices: takes submissions, messages of other nodes and the time, gives commands.
//!
//! Promises: the same inputs in the same order give the same commands; every submission gets exactly one reply, a retry
//! at the newest place that asked. Must not know: threads, clocks (moments are passed in), how commands are carried
//! out.

mod claiming;
mod clock;
mod copying;
mod divided;
mod former_filter;
mod from_copies;
mod gap;
mod guard;
mod lease;
mod limits;
mod parts;
mod persisting;
mod present;
mod rescan;
pub mod rules;
mod site;
mod state;
mod thresholds;
mod together;
mod unsure;
mod wholeness;

use std::collections::BTreeSet;

use firstseen_filter::{BuildError, FilterSlice, PartError, Unit};

use crate::ids::{FilterId, Incarnation, NodeId};
use crate::map::{ClusterMap, Ending, FilterRecord};
use crate::plan::SlicedBuildError;
use crate::protocol::{
    AskCells, BackupCells, CellParts, CheckpointCursor, Climbed, Command, Entry, Moment, MonotonicMs, PeerMessage,
    Record, Submission,
};
use crate::verdict::Reason;
use divided::{DividedGroup, Level};
use site::Site;
use together::TogetherGroup;

pub use divided::refuse;
pub use guard::{Admission, ReplayGuard, Standing};
pub use lease::{CLOCK_RATE_PARTS, Lease, leases_over_after_ms};
pub use limits::{OwnerLimits, Shares};
pub use state::{ClaimCounts, DecisionCounts, GroupState, HopCounts, OwedCounts, SliceState};

/// The slices of one group that a node owns, and what is in flight there.
pub struct GroupOwner {
    filter: FilterId,
    group: u32,
    machine: Machine,
}

/// The machine of the group.
enum Machine {
    /// One slice has all positions of an event.
    Together(Box<TogetherGroup>),
    /// The positions of an event are divided over several slices.
    Divided(Box<DividedGroup>),
}

/// Has whichever machine it is do the same.
macro_rules! either {
    ($machine:expr, $group:ident => $work:expr) => {
        match $machine {
            Machine::Together($group) => $work,
            Machine::Divided($group) => $work,
        }
    };
}

impl GroupOwner {
    /// Empty slices of `group` of `filter`, those that node `me` has in `map`.
    ///
    /// # Errors
    /// [`SlicedBuildError`]: no memory, or a group that the map does not give to this node.
    pub fn build(
        filter: FilterId,
        map: &ClusterMap,
        group: u32,
        me: NodeId,
        limits: OwnerLimits,
    ) -> Result<Self, SlicedBuildError> {
        let record = map.filters.get(&filter).ok_or(SlicedBuildError::Filter(filter))?;
        if own_slices(record, group, me).next().is_none() {
            return Err(SlicedBuildError::Group { filter, group, node: me });
        }
        if let Unit::Milliseconds(0) | Unit::Events(0) = record.definition.group.unit {
            return Err(BuildError::Window.into());
        }
        let incarnation = map.nodes.get(&me).map_or(Incarnation::default(), |node| node.incarnation);
        let site = Site { filter, group, me, incarnation };
        let machine = if record.has_flights() {
            let level = Level::of(map, filter, record)?;
            Machine::Divided(Box::new(DividedGroup::new(site, map, record, level, &limits)?))
        } else {
            Machine::Together(Box::new(TogetherGroup::new(site, map, record, &limits)?))
        };
        Ok(Self { filter, group, machine })
    }

    /// Takes up an entry that an earlier process of this node has persisted, in the order of the journal, before
    /// anything else is done with the group.
    ///
    /// # Errors
    /// [`PartError`] where it is none of this group: nothing that follows can be relied on.
    pub fn restore(&mut self, entry: Entry, now: Moment) -> Result<(), PartError> {
        either!(&mut self.machine, group => group.restore(entry, now))
    }

    /// All persisted entries have been taken up; `is_whole` says whether they have all that was ever recorded here,
    /// which the map does not know yet.
    pub fn end_restore(&mut self, is_whole: bool) {
        either!(&mut self.machine, group => group.end_restore(is_whole))
    }

    /// Begins a checkpoint, which makes earlier records unnecessary. Returns all but the cells: records of an entry
    /// each, so that none is very long. `is_complete` says whether the group has all that was ever recorded in it.
    pub fn checkpoint(&self, is_complete: bool) -> Vec<Record> {
        let entries = either!(&self.machine, group => group.checkpoint(is_complete));
        entries.into_iter().map(|entry| self.record(vec![entry])).collect()
    }

    /// The next cells of a checkpoint, about `bytes_max` bytes of memory, in records of a run each; None when there are
    /// no more. Then the checkpoint's end is due.
    pub fn checkpoint_cells(&self, cursor: &mut CheckpointCursor, bytes_max: usize) -> Option<Vec<Record>> {
        let entries = either!(&self.machine, group => cursor.next(&group.slices(), bytes_max));
        entries.map(|entries| entries.into_iter().map(|entry| self.record(vec![entry])).collect())
    }

    /// The end of a checkpoint.
    pub fn checkpoint_end(&self) -> Record {
        self.record(vec![Entry::CheckpointEnd])
    }

    /// Cells of a slice for a backup; none where the slice is not here, or its kind has no parts.
    pub fn read_cells(&mut self, ask: &AskCells) -> Option<BackupCells> {
        either!(&mut self.machine, group => group.read_cells(ask))
    }

    /// Puts cells of a backup in, in the order in which they were read. The slice is no more complete than before.
    ///
    /// # Errors
    /// [`PartError`] where they are none of a slice here.
    pub fn write_cells(&mut self, parts: CellParts, now: Moment) -> Result<(), PartError> {
        either!(&mut self.machine, group => group.write_cells(parts, now))
    }

    fn record(&self, entries: Vec<Entry>) -> Record {
        Record { filter: self.filter, group: self.group, entries }
    }

    /// Whether all slices here have had everything that was ever recorded in them, as the map says.
    pub fn is_complete(&self) -> bool {
        either!(&self.machine, group => group.is_complete())
    }

    /// Whether other nodes may still send what slices here missed, or have sent it and the map does not say so yet.
    /// Catching up begins with a map, and ends for good: with the next one, or when a node says that it cannot
    /// hand over.
    pub fn is_catching_up(&self) -> bool {
        either!(&self.machine, group => group.is_catching_up())
    }

    /// Slices that have come to this node since the group was built, and that it has no memory for: building them is
    /// tried again at every change of the map, and they are not complete before.
    pub fn unbuilt_slices(&self) -> usize {
        match &self.machine {
            Machine::Together(_) => 0,
            Machine::Divided(group) => group.unbuilt_slices(),
        }
    }

    /// Bytes of cells at present.
    pub fn bytes(&self) -> u64 {
        either!(&self.machine, group => group.slices().into_iter().flatten().map(FilterSlice::bytes).sum())
    }

    /// Gives the commands that the inputs since the last time have set off, to be carried out in this order.
    pub fn take_commands(&mut self, commands: &mut Vec<Command>) {
        either!(&mut self.machine, group => group.take_commands(commands))
    }

    /// Whether inputs that came in together share messages, if commands are taken when all of them were worked on.
    pub fn gathers(&self) -> bool {
        matches!(self.machine, Machine::Divided(_))
    }

    /// Takes up a submission; its reply comes now or later.
    pub fn submit(&mut self, submission: Submission, now: Moment) {
        either!(&mut self.machine, group => group.submit(submission, now))
    }

    /// A producer has ended: until it sends again, its events neither bear out the times of others nor hold them back.
    pub fn end_producer(&mut self, producer: u128) {
        either!(&mut self.machine, group => group.present_mut().clock_mut().end_producer(producer))
    }

    /// Takes a message of another node, in the order of its link.
    pub fn receive(&mut self, from: NodeId, message: PeerMessage, now: Moment) {
        either!(&mut self.machine, group => group.receive(from, message, now))
    }

    /// The level above has answered a climb.
    pub fn climbed(&mut self, climbed: &Climbed, now: Moment) {
        match &mut self.machine {
            // Such a group has no level above.
            Machine::Together(_) => {}
            Machine::Divided(group) => group.climbed(climbed, now),
        }
    }

    /// The process of a node is gone, and with it all messages in flight to it.
    pub fn peer_lost(&mut self, peer: NodeId, now: Moment) {
        match &mut self.machine {
            // The map that says so comes next.
            Machine::Together(_) => {}
            Machine::Divided(group) => group.peer_lost(peer, now),
        }
    }

    /// These nodes, and no others, have been out of reach for so long that events are not to wait for them.
    pub fn reach_changed(&mut self, unreachable: &BTreeSet<NodeId>, now: Moment) {
        match &mut self.machine {
            Machine::Together(group) => group.reach_changed(unreachable),
            Machine::Divided(group) => group.reach_changed(unreachable, now),
        }
    }

    /// The group's share of what the node has, from now on.
    pub fn set_shares(&mut self, shares: Shares, now: Moment) {
        either!(&mut self.machine, group => group.set_shares(&shares, now.monotonic_ms))
    }

    /// The node counts as started anew though its process goes on, as the others had given it up: events in flight here
    /// are given up too, and cells may be missing. The map that says so comes next.
    pub fn begin_anew(&mut self, incarnation: Incarnation, now: Moment) {
        either!(&mut self.machine, group => group.begin_anew(incarnation, now))
    }

    /// The disk hangs that this group's replies wait for: every caller that waits gets the reply unknown, and may ask
    /// another copy under the same name. The map that gives the group to others comes next.
    pub fn give_up_flights(&mut self, now: Moment) {
        either!(&mut self.machine, group => group.give_up_flights(now))
    }

    /// Until when the node may record. A group that gets no lease may for ever.
    pub fn set_lease(&mut self, lease: Lease) {
        either!(&mut self.machine, group => group.present_mut().set_lease(lease))
    }

    /// Why the time of day is not to be relied on from now on, where that is so (`clocks.rs`): a filter with a window
    /// of time then takes up no events, and is not called complete because time has passed. A group that gets no doubt
    /// relies on the time of day.
    pub fn set_doubt(&mut self, doubt: Option<Reason>) {
        either!(&mut self.machine, group => group.present_mut().set_doubt(doubt))
    }

    /// The map has changed.
    pub fn map_changed(&mut self, map: &ClusterMap, now: Moment) {
        match (&mut self.machine, map.filters.get(&self.filter)) {
            (Machine::Together(group), record) => group.map_changed(map, record, now),
            (Machine::Divided(group), Some(record)) => group.map_changed(map, record, now),
            // The filter is dropped, and the node ends this owner.
            (Machine::Divided(group), None) => group.end_dropped(now),
        }
    }

    /// Does the work that is due by time: deadlines, and names that need not be remembered any more.
    pub fn tick(&mut self, now: Moment) {
        either!(&mut self.machine, group => group.tick(now))
    }

    /// The monotonic time at which [`Self::tick`] has something to do, if nothing else happens before.
    pub fn next_tick_ms(&self) -> Option<MonotonicMs> {
        either!(&self.machine, group => group.next_tick_ms())
    }

    /// The node is about to stop: events in flight go on, nothing new is taken up.
    pub fn drain(&mut self, now: Moment) {
        match &mut self.machine {
            Machine::Together(group) => group.drain(),
            Machine::Divided(group) => group.drain(now),
        }
    }

    /// The group as it is now. How densely its slices are set is estimated from `sample_bytes` of their cells together,
    /// but by 4 KiB of each at least; `usize::MAX` reads all of them.
    pub fn state(&mut self, sample_bytes: usize) -> GroupState {
        either!(&mut self.machine, group => group.state(sample_bytes))
    }

    /// Events that are neither answered nor refused yet, or whose cells are not all set; reads no cells.
    pub fn inflight_events(&self) -> u64 {
        either!(&self.machine, group => group.inflight_events())
    }

    /// Whether no event is in flight here or has still to climb, and no other node waits for the end of events that
    /// were headed here.
    pub fn is_idle(&self) -> bool {
        let is_awaited = match &self.machine {
            Machine::Together(_) => false,
            Machine::Divided(group) => group.is_awaited(),
        };
        self.inflight_events() == 0 && self.owed_events() == 0 && !is_awaited
    }

    /// Events that a level of a tree has decided without the level above, and that have not climbed yet.
    pub fn owed_events(&self) -> u64 {
        match &self.machine {
            Machine::Together(_) => 0,
            Machine::Divided(group) => group.owed_events(),
        }
    }

    /// How far the group has come since it was closed.
    pub fn ending(&self, now: Moment) -> Ending {
        either!(&self.machine, group => group.ending(now))
    }

    /// The greatest time accepted so far, in milliseconds since 1970, if any; reads no cells.
    pub fn clock_ms(&self) -> Option<u64> {
        either!(&self.machine, group => group.present().clock().clock_ms())
    }
}

/// The slices of the group that node `me` has, by number.
pub(crate) fn own_slices(record: &FilterRecord, group: u32, me: NodeId) -> impl Iterator<Item = u32> {
    let slicing = record.definition.slicing;
    let slices = if group < slicing.groups() { slicing.slices_of(group) } else { 0..0 };
    slices.filter(move |slice| record.copies_of(*slice).any(|copy| copy.node == me))
}
