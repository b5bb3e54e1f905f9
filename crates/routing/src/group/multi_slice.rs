//! State machine of a group whose slices share events and lie on several nodes. This module contains what one node does
//! for one slice group.
//!
//! Each event goes to its *head*, which is the node of the event's first position that is not gone. Other systems call
//! this node the leader of a key. The head tests its own slices, and sends the event from node to node until one of
//! them finds an empty cell, which proves that the event is new. The cells of a new event are then set in all slices of
//! the event. The head keeps the event in flight until all nodes have acknowledged this. If the same event is submitted
//! again meanwhile, the head finds it in flight and does not call it first-seen twice.
//!
//! # Guarantees
//!
//! - Of all submissions of one event within the filter's window, at most one gets the reply first-seen.
//! - Testing an event sets no cells.
//! - In safe mode, first-seen is replied only after all nodes have acknowledged, under the present cluster map, that
//!   they have set the event's cells.
//!
//! This module does not depend on threads, clocks or how messages travel; callers pass the time as a parameter.
//!
//! # Structure
//!
//! [`MultiSliceGroup`] connects the parts, in three files. This file handles messages from other nodes and outgoing
//! commands. `steps.rs` moves events through their steps. `follow.rs` handles cluster maps, time and the loss of nodes.
//!
//! Each part owns its state. [`LocalState`] is the node's share of the group (placement, cells, room, clock, level of a
//! filter tree). [`InFlight`] contains events and sets in flight, [`Claims`] the granted claims, [`Replays`] the replay
//! guard, [`Outbox`] outgoing messages, and [`ToPersist`] the journal's entries. Handlers execute the steps of an
//! event. A handler borrows only the parts that it may change or read, and returns the next step (`decide::Next`):
//!
//! | handler | changes | reads |
//! |---|---|---|
//! | `Intake` (`intake.rs`) | replay guard, clock, events in flight, claims, journal | the rest of the local state |
//! | `Testing` (`testing.rs`) | own slices (visits), events in flight, outbox | local state, claims |
//! | `Recording` (`recording.rs`) | own slices, room, missed events, sets, outbox, journal | placement |
//! | `Climbing` (`climb.rs`) | tree, events in flight, room, outbox | own slices |
//! | `Verdicts` (`verdicts.rs`) | events in flight, claims | local state |
//! | `Replying` (`replies.rs`) | batches, guard, outbox, journal | local state |
//!
//! Messages, replies and journal entries are collected until the node takes them, so inputs that arrive together share
//! messages.
//!
//! # Lost state
//!
//! A process that ends loses its replay guard and cells unless they are persisted (`durable.rs`). Slices that have lost
//! cells still record new events, but do not vote on verdicts (`multi_slice/placement.rs`). They vote again when
//! everything that they may lack has expired, was handed over (`membership/gap.rs`), or was fetched from another copy
//! (`copying.rs`). If too few slices vote on an event, the filter's policy decides the reply (`thresholds.rs`). A retry
//! whose cells are found is undecided if its own first try may have set them (`facts.rs`).
//!
//! # Differences from the embedded engine
//!
//! A generation is a set of cells that opens when the previous set is full. In a cluster, the nodes agree on each new
//! generation through the cluster map. Because this agreement takes time, each node proposes the next generation a
//! little before the current one is full, based on an estimate of the fill (`fill.rs`). Generations therefore open
//! somewhat earlier than in the embedded engine.
//!
//! When the cluster has agreed on a new generation, each slice opens the generation when the first event is set in it.

mod claims;
mod copying;
mod decide;
mod durable;
mod facts;
mod fill;
mod flights;
mod follow;
mod in_flight;
mod intake;
mod local;
mod local_slices;
mod membership;
mod outbox;
mod parent_queries;
mod placement;
mod recording;
mod remote_events;
mod replies;
mod restoring;
mod sets;
mod steps;
mod testing;
mod tree;
mod verdicts;

use firstseen_filter::{FilterSlice, PartError};

use super::group_time::GroupTime;
use super::guard::ReplayGuard;
use super::limits::{OwnerLimits, Shares};
use super::rules::Rule;
use super::site::{Sender, Site};
use super::state::{Counts, GroupState, OwedCounts};
use crate::ids::{Epoch, NodeId};
use crate::map::{ClusterMap, Ending, FilterRecord};
use crate::plan::SlicedBuildError;
use crate::protocol::{AskCells, BackupCells, CellParts, Command, Entry, Moment, MonotonicMs, PeerBody, PeerMessage};
use crate::verdict::Reason;
use claims::Claims;
use durable::ToPersist;
use in_flight::InFlight;
use intake::Replays;
use local::LocalState;
use outbox::Outbox;
pub use remote_events::refuse;
pub(crate) use tree::Level;

/// The slices of one group that a node has, and the events that the node heads.
pub(crate) struct MultiSliceGroup {
    local: LocalState,
    in_flight: InFlight,
    claims: Claims,
    replays: Replays,
    outbox: Outbox,
    kept: ToPersist,
    counts: Counts,
}

impl MultiSliceGroup {
    /// Creates the group with empty slices, as `record` assigns them to this node.
    ///
    /// # Errors
    /// Returns a [`SlicedBuildError`] if there is not enough memory, or if cells of this definition cannot be divided
    /// over slices.
    pub(crate) fn new(
        site: Site,
        map: &ClusterMap,
        record: &FilterRecord,
        level: Option<Level>,
        limits: &OwnerLimits,
    ) -> Result<Self, SlicedBuildError> {
        let sender = Sender { filter: site.filter, epoch: record.epoch, group: site.group };
        let horizon_ms = u64::from(record.policies.retry_horizon_ms);
        let mut divided = Self {
            local: LocalState::new(site, map, record, level, limits)?,
            in_flight: InFlight::default(),
            claims: Claims::new(map, record, limits),
            replays: Replays::new(ReplayGuard::new(horizon_ms, limits.guard_bytes_max)),
            outbox: Outbox::new(sender, limits.rules),
            kept: ToPersist::new(record.policies.durability),
            counts: Counts::default(),
        };
        divided.begin_by(map, record);
        Ok(divided)
    }

    /// Applies the first cluster map.
    fn begin_by(&mut self, map: &ClusterMap, record: &FilterRecord) {
        self.local.open_generation(record);
        self.local.membership.begin_by(map, record, &mut self.outbox);
        self.local.spread_heads();
        let placement = self.local.membership.placement();
        if record.epoch != Epoch::FIRST || !placement.is_complete_here() {
            self.claims.note_head_change(None, placement);
        }
    }

    /// Handles a message from another node.
    pub(crate) fn receive(&mut self, from: NodeId, message: PeerMessage, now: Moment) {
        let Self { local, claims, outbox, kept, .. } = self;
        local.present.begin(now);
        let epoch = local.membership.placement().epoch();
        // A head with another cluster map must not get a reply by this map, because two heads could find the same empty
        // cell. By a newer map there may also be more slices here that must be set. Replies need no fence: a change of
        // epoch ends every test that is under way, and a ticket is never used twice.
        claims.hear_by_which_map(from, message.epoch);
        if message.body.is_fenced() && message.epoch != epoch && local.present.keeps(Rule::FencesEpochs) {
            local.membership.has_refused(from, &local.present, &local.own);
            // Nothing was done for this message, so the rejection may overtake other replies.
            let refused = refuse(from, PeerMessage { epoch, ..message }, Reason::StaleMap);
            refused.into_iter().for_each(|answer| outbox.push(answer));
            return self.finish();
        }
        match message.body {
            PeerBody::Test(batch) => {
                remote_events::test(&batch, &mut local.own, &local.membership, local.tree.is_any(), outbox);
            }
            PeerBody::ClaimTests(tests) => claims.answer(from, &tests, local, outbox),
            PeerBody::Set(batch) => {
                // The sender knows that the cluster map contains this generation.
                local.fill.open(batch.generation);
                let cells = remote_events::set(from, &batch, &mut local.own, local.membership.placement(), outbox);
                if cells == 0 && !batch.stamps.is_empty() {
                    local.membership.has_refused(from, &local.present, &local.own);
                }
                if cells > 0 && local.present.keeps(Rule::PersistsPeerSets) {
                    kept.set_all(batch);
                }
            }
            PeerBody::Resolved(resolved) => self.resolved(&resolved),
            PeerBody::SetAcks(acks) => self.acknowledged(from, &acks, message.epoch),
            PeerBody::AskPast => {
                local.membership.send_past(from, message.epoch, &local.present, &local.own, outbox);
                let first_free = self.in_flight.flights.first_free();
                local.membership.hand_over_again(from, first_free, now.monotonic_ms);
            }
            PeerBody::Past(past) => local.membership.hear_past(from, past, message.epoch),
            PeerBody::AskCells(ask) => local.send_cells(from, &ask, message.epoch, outbox),
            PeerBody::Cells(parts) => local.receive_cells(parts, message.epoch, kept),
            PeerBody::Mirror(_, mirrored) => self.intake().hear_replies(&mirrored),
            PeerBody::HandedOver(handed) => local.membership.receive_handed_over(from, handed, now.monotonic_ms),
        }
        self.finish();
    }

    /// Moves the commands that were caused since the last call into `commands`. Journal records come before messages
    /// and replies, because these may be sent only when the records are persisted.
    pub(crate) fn take_commands(&mut self, commands: &mut Vec<Command>) {
        let Self { kept, local, outbox, .. } = self;
        if !local.present.keeps(Rule::PersistsFirst) {
            outbox.flush(commands);
        }
        let owed = local.tree.take_journal();
        if local.present.keeps(Rule::PersistsOwedEvents) {
            kept.owed(owed);
        }
        kept.take(&local.membership.site(), commands);
        outbox.flush(commands);
    }

    /// Restores an entry that an earlier process of this node has persisted.
    pub(crate) fn restore(&mut self, entry: Entry, now: Moment) -> Result<(), PartError> {
        self.local.present.begin(now);
        self.kept.restore(entry, &mut self.local, &mut self.replays.guard)
    }

    /// Ends the restore after the last entry.
    pub(crate) fn end_restore(&mut self, is_whole: bool) {
        self.kept.end_restore(is_whole, &mut self.local, &mut self.replays.guard);
        if self.local.tree.decides_alone() {
            // The journal does not tell which replies were degraded. The earlier process may have decided any event alone.
            self.replays.degraded_ms = Some(self.local.present.now_ms());
        }
    }

    /// Begins a checkpoint and returns everything except the cells.
    pub(crate) fn checkpoint(&self, is_complete: bool) -> Vec<Entry> {
        self.kept.checkpoint(is_complete, &self.local, &self.replays.guard, &self.in_flight.flights)
    }

    /// Reads cells of a slice for a backup. Returns `None` if the slice is not on this node.
    pub(crate) fn read_cells(&mut self, ask: &AskCells) -> Option<BackupCells> {
        self.local.read_cells(ask)
    }

    /// Writes cells from a backup into a slice.
    pub(crate) fn write_cells(&mut self, parts: CellParts, now: Moment) -> Result<(), PartError> {
        self.local.present.begin(now);
        let put = self.local.write_cells(parts, &mut self.kept);
        self.finish();
        put
    }

    pub(crate) fn present(&self) -> &GroupTime {
        &self.local.present
    }

    pub(crate) fn present_mut(&mut self) -> &mut GroupTime {
        &mut self.local.present
    }

    /// Sets this group's shares of the node's resources.
    pub(crate) fn set_shares(&mut self, shares: &Shares, now_ms: MonotonicMs) {
        self.replays.guard.set_bytes_max(shares.guard_bytes_max, now_ms);
        let limits = self.local.present.limits_mut();
        limits.share(shares);
        limits.inflight_events_max = shares.inflight_events_max;
        if let Some(claiming) = self.claims.get_mut() {
            claiming.set_bytes_max(shares.claims_bytes_max);
        }
    }

    pub(crate) fn inflight_events(&self) -> u64 {
        self.in_flight.flights.open_events() as u64
    }

    /// Returns whether slices are catching up (see [`super::GroupOwner::is_catching_up`]).
    pub(crate) fn is_catching_up(&self) -> bool {
        self.local.membership.is_catching_up()
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.local.membership.completeness().is_complete()
    }

    /// Returns the slices by their number in the group. Slices of other nodes are `None`.
    pub(crate) fn slices(&self) -> Vec<Option<&FilterSlice>> {
        self.local.own.each()
    }

    pub(crate) fn unbuilt_slices(&self) -> usize {
        self.local.unbuilt_slices()
    }

    /// Returns whether another node waits until this node has finished the events that it headed.
    pub(crate) fn is_awaited(&self) -> bool {
        self.local.membership.handing().is_awaited()
    }

    /// Returns the counts of the events that this level of a filter tree has decided without its parent level.
    pub(crate) fn owed(&self) -> OwedCounts {
        self.local.tree.owed_counts()
    }

    /// Returns how far the group has come since its filter was closed.
    pub(crate) fn ending(&self, now: Moment) -> Ending {
        let LocalState { present, membership, own, .. } = &self.local;
        Ending {
            has_ended: present.absent().is_some() && self.in_flight.has_ended_before_close(),
            newest_unit: present.clock().now_unit().max(own.now_unit()),
            // A node that heads no events gets no readings of producers' clocks, so it does not know the present.
            present_unit: (membership.placement().asked_here() > 0).then(|| present.unit_at(now)),
        }
    }

    /// Returns the current state of the group. The fill of its slices is estimated from samples.
    pub(crate) fn state(&mut self, sample_bytes: usize) -> GroupState {
        let slices = self.local.slice_states(sample_bytes);
        let LocalState { present, membership, own, tree, .. } = &self.local;
        GroupState {
            owed: tree.owed_counts(),
            claims: self.claims.counts(present.now_ms()),
            mended_runs: membership.mended_runs(),
            inflight_events: self.inflight_events(),
            missing_in_flight: self.in_flight.flights.astray(),
            ..self.counts.state(slices, own.test_node_visits, own.set_node_visits, &self.replays.guard, present.clock())
        }
    }
}
