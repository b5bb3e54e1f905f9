//! The owner of a slice group, which is a set of slices that share events. On each node, one owner executes all
//! operations of a slice group. The input of the owner consists of submissions, messages from other nodes and the
//! current time. Its output is a list of commands that the node must execute.
//!
//! # Guarantees
//!
//! - The same inputs in the same order always give the same commands.
//! - Every submission gets exactly one reply. If a producer retries a submission, the reply goes to the connection that
//!   asked last.
//!
//! This module does not depend on threads or clocks. Callers pass the time as a parameter and execute the commands.

mod claiming;
mod clock;
mod completeness_tracker;
mod copying;
mod former_filter;
mod from_copies;
mod gap;
mod group_time;
mod guard;
mod head_changes;
mod lease;
mod limits;
mod multi_slice;
mod parts;
mod persisting;
mod rescan;
pub mod rules;
mod single_slice;
mod site;
mod state;
mod thresholds;

use std::collections::BTreeSet;

use firstseen_filter::{BuildError, FilterSlice, PartError, Unit};

use crate::ids::{FilterId, Incarnation, NodeId};
use crate::map::{ClusterMap, Ending, FilterRecord};
use crate::plan::SlicedBuildError;
use crate::protocol::{
    AskCells, BackupCells, CellParts, CheckpointCursor, Command, Entry, LevelReply, Moment, MonotonicMs, PeerMessage,
    Record, Submission,
};
use crate::verdict::Reason;
use multi_slice::{Level, MultiSliceGroup};
use single_slice::SingleSliceGroup;
use site::Site;

pub use guard::{Admission, ReplayGuard, Standing};
pub use lease::{CLOCK_RATE_PARTS, Lease, leases_over_after_ms};
pub use limits::{OwnerLimits, Shares};
pub use multi_slice::refuse;
pub use state::{ClaimCounts, DecisionCounts, GroupState, HopCounts, OwedCounts, SliceState};

/// State of one slice group on one node: the slices that the node owns, and the events that are being decided there.
pub struct GroupOwner {
    filter: FilterId,
    group: u32,
    machine: Machine,
}

/// The state machine that decides the events of a group. Which of the two machines a group uses depends on how the
/// filter is sliced.
enum Machine {
    /// One slice contains all positions of an event, so a single step tests and records the event.
    Together(Box<SingleSliceGroup>),
    /// The positions of an event are divided over several slices, so deciding the event can need messages to other
    /// nodes.
    Divided(Box<MultiSliceGroup>),
}

/// Applies the same expression to whichever machine the group uses.
macro_rules! either {
    ($machine:expr, $group:ident => $work:expr) => {
        match $machine {
            Machine::Together($group) => $work,
            Machine::Divided($group) => $work,
        }
    };
}

impl GroupOwner {
    /// Builds empty slices for the part of `group` that the cluster map `map` assigns to node `me`.
    ///
    /// # Errors
    /// Returns a [`SlicedBuildError`] if there is not enough memory, or if the map does not assign any slice of this
    /// group to the node.
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
            Machine::Divided(Box::new(MultiSliceGroup::new(site, map, record, level, &limits)?))
        } else {
            Machine::Together(Box::new(SingleSliceGroup::new(site, map, record, &limits)?))
        };
        Ok(Self { filter, group, machine })
    }

    /// Restores one journal entry that an earlier process of this node has written. The caller must restore all entries
    /// in the order of the journal before it uses the group in any other way.
    ///
    /// # Errors
    /// Returns a [`PartError`] if the entry does not belong to this group. The entries after it cannot be trusted
    /// either.
    pub fn restore(&mut self, entry: Entry, now: Moment) -> Result<(), PartError> {
        either!(&mut self.machine, group => group.restore(entry, now))
    }

    /// Ends the restore after the last journal entry. `is_whole` states whether the restored entries contain every
    /// event that was ever recorded in this group on this node. The caller must state this, because the cluster map
    /// still describes the earlier process and does not list the restart yet.
    pub fn end_restore(&mut self, is_whole: bool) {
        either!(&mut self.machine, group => group.end_restore(is_whole))
    }

    /// Begins a checkpoint, which is a snapshot of the group's state in the journal. After the checkpoint, the earlier
    /// journal records of the group are no longer needed. Returns the state without the cells, with one record per
    /// entry, so that no record becomes very long. `is_complete` states whether the group contains every event that was
    /// ever recorded in it.
    pub fn checkpoint(&self, is_complete: bool) -> Vec<Record> {
        let entries = either!(&self.machine, group => group.checkpoint(is_complete));
        entries.into_iter().map(|entry| self.record(vec![entry])).collect()
    }

    /// Returns the next cells of a checkpoint. Each record contains one run of consecutive cells, and one call returns
    /// about `bytes_max` bytes. When all cells have been returned, the result is `None`, and the caller must end the
    /// checkpoint with the record that [`Self::checkpoint_end`] returns.
    pub fn checkpoint_cells(&self, cursor: &mut CheckpointCursor, bytes_max: usize) -> Option<Vec<Record>> {
        let entries = either!(&self.machine, group => cursor.next(&group.slices(), bytes_max));
        entries.map(|entries| entries.into_iter().map(|entry| self.record(vec![entry])).collect())
    }

    /// Returns the record that ends a checkpoint.
    pub fn checkpoint_end(&self) -> Record {
        self.record(vec![Entry::CheckpointEnd])
    }

    /// Reads cells of a slice for a backup. Returns `None` if this node does not have the slice, or if cells of its
    /// kind cannot be read in parts.
    pub fn read_cells(&mut self, ask: &AskCells) -> Option<BackupCells> {
        either!(&mut self.machine, group => group.read_cells(ask))
    }

    /// Writes cells from a backup into a slice. The caller must pass the parts in the order in which it reads them from
    /// the backup. This call does not make the slice complete in the cluster map.
    ///
    /// # Errors
    /// Returns a [`PartError`] if the cells do not belong to a slice of this node.
    pub fn write_cells(&mut self, parts: CellParts, now: Moment) -> Result<(), PartError> {
        either!(&mut self.machine, group => group.write_cells(parts, now))
    }

    fn record(&self, entries: Vec<Entry>) -> Record {
        Record { filter: self.filter, group: self.group, entries }
    }

    /// Returns whether the cluster map states that all slices of this group on this node contain everything that was
    /// ever recorded in them.
    pub fn is_complete(&self) -> bool {
        either!(&self.machine, group => group.is_complete())
    }

    /// Returns whether this group is catching up, which means that its incomplete slices are about to become complete.
    /// It is catching up while other nodes may still send events that its slices missed. When all these events have
    /// arrived, it continues to do so until the cluster map lists the slices as complete.
    ///
    /// A group starts to catch up when a new map arrives. It stops with the next map, or when a node reports that it
    /// cannot hand over the events.
    pub fn is_catching_up(&self) -> bool {
        either!(&self.machine, group => group.is_catching_up())
    }

    /// Returns the number of slices that were assigned to this node after the group was built, but for which there is
    /// not enough memory. Each change of the cluster map triggers another attempt to build these slices. A slice that
    /// is not built cannot become complete.
    pub fn unbuilt_slices(&self) -> usize {
        match &self.machine {
            Machine::Together(_) => 0,
            Machine::Divided(group) => group.unbuilt_slices(),
        }
    }

    /// Returns the number of bytes that the cells take now.
    pub fn bytes(&self) -> u64 {
        either!(&self.machine, group => group.slices().into_iter().flatten().map(FilterSlice::bytes).sum())
    }

    /// Moves the commands that the inputs since the last call have caused into `commands`. The node must execute them
    /// in this order.
    pub fn take_commands(&mut self, commands: &mut Vec<Command>) {
        either!(&mut self.machine, group => group.take_commands(commands))
    }

    /// Returns whether messages to other nodes are combined if the node processes several inputs before it takes the
    /// commands.
    pub fn gathers(&self) -> bool {
        matches!(self.machine, Machine::Divided(_))
    }

    /// Accepts a submission. Its reply follows at once or later, as a command.
    pub fn submit(&mut self, submission: Submission, now: Moment) {
        either!(&mut self.machine, group => group.submit(submission, now))
    }

    /// Notes that a producer has ended. Until it sends again, its events neither confirm the event times of other
    /// producers nor hold them back.
    pub fn end_producer(&mut self, producer: u128) {
        either!(&mut self.machine, group => group.present_mut().clock_mut().end_producer(producer))
    }

    /// Handles a message from another node. Messages must be passed in the order in which the link delivers them.
    pub fn receive(&mut self, from: NodeId, message: PeerMessage, now: Moment) {
        either!(&mut self.machine, group => group.receive(from, message, now))
    }

    /// Handles the reply of the parent level of a filter tree to a query that this group sent.
    pub fn climbed(&mut self, climbed: &LevelReply, now: Moment) {
        match &mut self.machine {
            // A group of this kind is never part of a filter tree with a parent level.
            Machine::Together(_) => {}
            Machine::Divided(group) => group.climbed(climbed, now),
        }
    }

    /// Notes that the process of another node has ended. All messages in flight to that process are lost.
    pub fn peer_lost(&mut self, peer: NodeId, now: Moment) {
        match &mut self.machine {
            // The next cluster map reports this loss, and the group reacts to the map.
            Machine::Together(_) => {}
            Machine::Divided(group) => group.peer_lost(peer, now),
        }
    }

    /// Sets the nodes that have been unreachable for so long that events no longer wait for them. `unreachable`
    /// replaces the earlier set, so every node that it does not contain counts as reachable again.
    pub fn reach_changed(&mut self, unreachable: &BTreeSet<NodeId>, now: Moment) {
        match &mut self.machine {
            Machine::Together(group) => group.reach_changed(unreachable),
            Machine::Divided(group) => group.reach_changed(unreachable, now),
        }
    }

    /// Sets this group's shares of the node's memory, bandwidth and other limits.
    pub fn set_shares(&mut self, shares: Shares, now: Moment) {
        either!(&mut self.machine, group => group.set_shares(&shares, now.monotonic_ms))
    }

    /// Puts the group into the state after a restart of the node, although its process continues. This is necessary if
    /// the other nodes have marked the node down, because its cells may lack events that were recorded in the meantime.
    /// The group abandons its events in flight. The next cluster map identifies the node by its new incarnation, a
    /// number that increases with each restart.
    pub fn mark_restarted(&mut self, incarnation: Incarnation, now: Moment) {
        either!(&mut self.machine, group => group.mark_restarted(incarnation, now))
    }

    /// Abandons the events in flight, because their replies wait for a disk that does not respond. Every waiting client
    /// gets the reply `Unknown`. When the next cluster map has assigned the group to other nodes, the client can retry
    /// the event with the same idempotency key at another copy of the slice.
    pub fn abandon_in_flight(&mut self, now: Moment) {
        either!(&mut self.machine, group => group.abandon_in_flight(now))
    }

    /// Sets until when the node may record events. A group whose lease is never set may record forever.
    pub fn set_lease(&mut self, lease: Lease) {
        either!(&mut self.machine, group => group.present_mut().set_lease(lease))
    }

    /// Sets the reason why the time of day cannot be trusted, or `None` if it can be trusted (see `clocks.rs`). A group
    /// trusts it until this function is called.
    ///
    /// If the time of day cannot be trusted, a filter with a time window accepts no events. In addition, its incomplete
    /// slices do not become complete, because nobody knows whether the missing events have expired.
    pub fn set_doubt(&mut self, doubt: Option<Reason>) {
        either!(&mut self.machine, group => group.present_mut().set_doubt(doubt))
    }

    /// Applies a new version of the cluster map.
    pub fn map_changed(&mut self, map: &ClusterMap, now: Moment) {
        match (&mut self.machine, map.filters.get(&self.filter)) {
            (Machine::Together(group), record) => group.map_changed(map, record, now),
            (Machine::Divided(group), Some(record)) => group.map_changed(map, record, now),
            // The filter has been dropped. The node ends this owner.
            (Machine::Divided(group), None) => group.end_dropped(now),
        }
    }

    /// Does the work that is due by time, for example replying at deadlines and forgetting old idempotency keys.
    pub fn tick(&mut self, now: Moment) {
        either!(&mut self.machine, group => group.tick(now))
    }

    /// Returns the monotonic time at which [`Self::tick`] has work to do, if no other input arrives before.
    pub fn next_tick_ms(&self) -> Option<MonotonicMs> {
        either!(&self.machine, group => group.next_tick_ms())
    }

    /// Prepares for the node to stop. Events in flight continue, but the group accepts no new events.
    pub fn drain(&mut self, now: Moment) {
        match &mut self.machine {
            Machine::Together(group) => group.drain(),
            Machine::Divided(group) => group.drain(now),
        }
    }

    /// Returns the current state of the group. The fill of the slices is estimated from a sample of `sample_bytes`
    /// bytes of their cells in total, and from at least 4 KiB of each slice. If `sample_bytes` is `usize::MAX`, all
    /// cells are read and the fill is exact.
    pub fn state(&mut self, sample_bytes: usize) -> GroupState {
        either!(&mut self.machine, group => group.state(sample_bytes))
    }

    /// Returns the number of events that have no reply yet or whose cells are not all set. This call reads no cells.
    pub fn inflight_events(&self) -> u64 {
        either!(&self.machine, group => group.inflight_events())
    }

    /// Returns whether the group has no work left on this node. The result is `true` if none of the following applies:
    /// - An event is in flight.
    /// - An event must still be sent to the parent level of a filter tree.
    /// - Another node waits until this node has finished the events whose head node it was.
    pub fn is_idle(&self) -> bool {
        let is_awaited = match &self.machine {
            Machine::Together(_) => false,
            Machine::Divided(group) => group.is_awaited(),
        };
        self.inflight_events() == 0 && self.owed_events() == 0 && !is_awaited
    }

    /// Returns the number of events that this level of a filter tree has decided on its own and must still report to
    /// its parent level. A level decides on its own while its parent level is unreachable.
    pub fn owed_events(&self) -> u64 {
        self.owed().waiting_events
    }

    /// Returns the counts of the events that this level of a filter tree has decided on its own.
    pub fn owed(&self) -> OwedCounts {
        match &self.machine {
            Machine::Together(_) => OwedCounts::default(),
            Machine::Divided(group) => group.owed(),
        }
    }

    /// Returns how far the group has come since its filter was closed.
    pub fn ending(&self, now: Moment) -> Ending {
        either!(&self.machine, group => group.ending(now))
    }

    /// Returns the greatest event time accepted so far, in milliseconds since 1970, or `None` if there is none. This
    /// call reads no cells.
    pub fn clock_ms(&self) -> Option<u64> {
        either!(&self.machine, group => group.present().clock().clock_ms())
    }
}

/// Returns the numbers of the slices of the group that node `me` has.
pub(crate) fn own_slices(record: &FilterRecord, group: u32, me: NodeId) -> impl Iterator<Item = u32> {
    let slicing = record.definition.slicing;
    let slices = if group < slicing.groups() { slicing.slices_of(group) } else { 0..0 };
    slices.filter(move |slice| record.copies_of(*slice).any(|copy| copy.node == me))
}
