//! Slices that share events, on the nodes of a cluster: what one node does for one group.
//!
//! An event goes to its *head* (elsewhere: the leader of its key), the node of its first position that is not gone. The
//! head has the event in flight, tests its own slices and sends the event on from node to node until one finds a zero.
//! A new event is set in all of its slices, and stays in flight until all have acknowledged: the next event of the same
//! positions finds it there, whichever of its positions comes first.
//!
//! Promises: of all submissions of one event, one gets the reply first-seen; a test sets nothing; no safe reply
//! leaves before its sets are acknowledged under the present map. Must not know: threads, clocks (moments are passed in), how
//! messages travel.
//!
//! [`DividedGroup`] is wiring, in three files: this one has the messages of other nodes and what leaves, `steps.rs` the
//! way of events, `follow.rs` maps, time and the loss of nodes. Each part owns its state: [`LocalState`] the node's share
//! of the group (placement, cells, room, clock, level of a tree), [`InFlight`] events and sets, [`Claims`] what was
//! granted, [`Replays`] the replay guard, [`Outbox`] messages, [`ToPersist`] the journal's entries. Handlers carry out the
//! steps of an event. Each borrows only the parts that it may touch, and returns the step that follows
//! (`decide::Next`):
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
//! Messages, replies and what is to be persisted gather until they are taken, so that inputs that came in together
//! share messages.
//!
//! A process that ends takes its guard and its cells with it, unless they are persisted (`durable.rs`). Slices that
//! have lost cells are set, but do not vote (`divided/placement.rs`), until everything that they may lack has expired
//! or was handed over (`membership/gap.rs`), or was fetched from another copy (`copying.rs`). Where too few
//! slices vote on an event, the filter's policy decides the reply (`thresholds.rs`). A retry whose cells are found is
//! undecided where its own first try may have set them (`facts.rs`).
//!
//! Differences from the embedded engine: nodes agree on generations, so these open a little earlier and by estimate
//! (`fill.rs`); a slice opens one when the first event is set there.

mod claims;
mod climb;
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
mod membership;
mod outbox;
mod own;
mod passage;
mod placement;
mod recording;
mod replies;
mod restoring;
mod sets;
mod steps;
mod testing;
mod tree;
mod verdicts;

use firstseen_filter::{FilterSlice, PartError};

use super::guard::ReplayGuard;
use super::limits::{OwnerLimits, Shares};
use super::present::Present;
use super::rules::Rule;
use super::site::{Sender, Site};
use super::state::{Counts, GroupState};
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
pub use passage::refuse;
pub(crate) use tree::Level;

/// The slices of one group that a node has, and the events that it is the head of.
pub(crate) struct DividedGroup {
    local: LocalState,
    in_flight: InFlight,
    claims: Claims,
    replays: Replays,
    outbox: Outbox,
    kept: ToPersist,
    counts: Counts,
}

impl DividedGroup {
    /// The slices that `record` gives to this node, empty.
    ///
    /// # Errors
    /// [`SlicedBuildError`]: no memory, or a definition whose cells are not divided.
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

    /// Begins by the first map.
    fn begin_by(&mut self, map: &ClusterMap, record: &FilterRecord) {
        self.local.open_generation(record);
        self.local.membership.begin_by(map, record, &mut self.outbox);
        self.local.spread_heads();
        let placement = self.local.membership.placement();
        if record.epoch != Epoch::FIRST || !placement.is_complete_here() {
            self.claims.become_unsure(None, placement);
        }
    }

    /// Takes a message of another node.
    pub(crate) fn receive(&mut self, from: NodeId, message: PeerMessage, now: Moment) {
        let Self { local, claims, outbox, kept, .. } = self;
        local.present.begin(now);
        let epoch = local.membership.placement().epoch();
        // A head by another map must get no answer by this one: two heads could find the same zero. By a newer map
        // there may be more slices here that are to be set. Answers need no fence: a change of epoch ends every test that
        // is under way, and no ticket is given twice.
        claims.hear_by_which_map(from, message.epoch);
        if message.body.is_fenced() && message.epoch != epoch && local.present.keeps(Rule::FencesEpochs) {
            local.membership.has_refused(from, &local.present, &local.own);
            // Nothing was done, so the answer may overtake others.
            let refused = refuse(from, PeerMessage { epoch, ..message }, Reason::StaleMap);
            refused.into_iter().for_each(|answer| outbox.push(answer));
            return self.finish();
        }
        match message.body {
            PeerBody::Test(batch) => {
                passage::test(&batch, &mut local.own, &local.membership, local.tree.is_any(), outbox);
            }
            PeerBody::ClaimTests(tests) => claims.answer(from, &tests, local, outbox),
            PeerBody::Set(batch) => {
                // The sender knows that the generation was committed.
                local.fill.open(batch.generation);
                let cells = passage::set(from, &batch, &mut local.own, local.membership.placement(), outbox);
                if cells == 0 && !batch.stamps.is_empty() {
                    local.membership.has_refused(from, &local.present, &local.own);
                }
                if cells > 0 && local.present.keeps(Rule::KeepsPeerSets) {
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
            PeerBody::Cells(parts) => local.hear_cells(parts, message.epoch, kept),
            PeerBody::Mirror(_, mirrored) => self.intake().hear_replies(&mirrored),
            PeerBody::HandedOver(handed) => local.membership.hear_handed_over(from, handed, now.monotonic_ms),
        }
        self.finish();
    }

    /// Gives what the inputs since the last time have set off. What is persisted goes first, as messages and replies
    /// rest on it.
    pub(crate) fn take_commands(&mut self, commands: &mut Vec<Command>) {
        let Self { kept, local, outbox, .. } = self;
        if !local.present.keeps(Rule::PersistsFirst) {
            outbox.flush(commands);
        }
        kept.take(&local.membership.site(), commands);
        outbox.flush(commands);
    }

    /// Takes up an entry that an earlier process of this node has persisted.
    pub(crate) fn restore(&mut self, entry: Entry, now: Moment) -> Result<(), PartError> {
        self.local.present.begin(now);
        self.kept.restore(entry, &mut self.local, &mut self.replays.guard)
    }

    /// All has been taken up.
    pub(crate) fn end_restore(&mut self, is_whole: bool) {
        self.kept.end_restore(is_whole, &mut self.local, &mut self.replays.guard);
    }

    /// Begins a checkpoint: all but the cells.
    pub(crate) fn checkpoint(&self, is_complete: bool) -> Vec<Entry> {
        self.kept.checkpoint(is_complete, &self.local, &self.replays.guard, &self.in_flight.flights)
    }

    /// Cells of a slice for a backup. `None` if the slice is not here.
    pub(crate) fn read_cells(&mut self, ask: &AskCells) -> Option<BackupCells> {
        self.local.read_cells(ask)
    }

    /// Puts cells of a backup in.
    pub(crate) fn write_cells(&mut self, parts: CellParts, now: Moment) -> Result<(), PartError> {
        self.local.present.begin(now);
        let put = self.local.write_cells(parts, &mut self.kept);
        self.finish();
        put
    }

    pub(crate) fn present(&self) -> &Present {
        &self.local.present
    }

    pub(crate) fn present_mut(&mut self) -> &mut Present {
        &mut self.local.present
    }

    /// The group's share of what the node has, from now on.
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

    /// See [`super::GroupOwner::is_catching_up`].
    pub(crate) fn is_catching_up(&self) -> bool {
        self.local.membership.is_catching_up()
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.local.membership.wholeness().is_complete()
    }

    /// By their number in the group.
    pub(crate) fn slices(&self) -> Vec<Option<&FilterSlice>> {
        self.local.own.each()
    }

    pub(crate) fn unbuilt_slices(&self) -> usize {
        self.local.unbuilt_slices()
    }

    /// Whether another node waits for this one to end the events that it has headed.
    pub(crate) fn is_awaited(&self) -> bool {
        self.local.membership.handing().is_awaited()
    }

    /// Events that this level has decided without the level above, and that have not climbed yet.
    pub(crate) fn owed_events(&self) -> u64 {
        self.local.tree.owed_counts().waiting_events
    }

    /// How far the group has come since it was closed.
    pub(crate) fn ending(&self, now: Moment) -> Ending {
        let LocalState { present, membership, own, .. } = &self.local;
        Ending {
            has_ended: present.absent().is_some() && self.in_flight.has_ended_before_close(),
            newest_unit: present.clock().now_unit().max(own.now_unit()),
            // A node that heads no events is shown no producer's clock.
            present_unit: (membership.placement().asked_here() > 0).then(|| present.unit_at(now)),
        }
    }

    /// The group as it is now; its slices are estimated from samples.
    pub(crate) fn state(&mut self, sample_bytes: usize) -> GroupState {
        let slices = self.local.slice_states(sample_bytes);
        let LocalState { present, membership, own, tree, .. } = &self.local;
        GroupState {
            owed: tree.owed_counts(),
            claims: self.claims.counts(present.now_ms()),
            mended_runs: membership.mended_runs(),
            inflight_events: self.inflight_events(),
            astray_events: self.in_flight.flights.astray(),
            ..self.counts.state(slices, own.test_node_visits, own.set_node_visits, &self.replays.guard, present.clock())
        }
    }
}
