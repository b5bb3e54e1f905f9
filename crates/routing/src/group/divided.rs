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
//! This is wiring: it dispatches an input, and brings what the input sets off to its end (`finish.rs`).
//! Messages, replies and what is to be persisted gather until they are taken, so that inputs that came in together
//! share messages.
//! Each part owns its state, and borrows the rest: `membership.rs` the node's place in the group, `in_flight.rs` events
//! and sets, `tree.rs` other levels, `durable.rs` what is persisted, `own.rs` cells, `fill.rs` room, `outbox.rs`
//! messages.
//!
//! A process that ends takes its guard and its cells with it, unless they are persisted (`durable.rs`). Slices that
//! have lost cells are set, but do not vote (`divided/placement.rs`), until everything that they may lack has expired
//! or was handed over (`membership/gap.rs`), or was fetched from another copy (`copying.rs`). Where too few
//! slices vote on an event, the filter's policy decides the reply (`thresholds.rs`). A retry whose cells are found is
//! undecided where its own first try may have set them (`resolve.rs`).
//!
//! Differences from the embedded engine: nodes agree on generations, so these open a little earlier and by estimate
//! (`fill.rs`); a slice opens one when the first event is set there.

mod claims;
mod climb;
mod copying;
mod decide;
mod durable;
mod early_duplicates;
mod fill;
mod finish;
mod flights;
mod follow;
mod in_flight;
mod line;
mod loss;
mod membership;
mod outbox;
mod own;
mod passage;
mod placement;
mod resolve;
mod sets;
mod submit;
mod tree;

use firstseen_filter::{Ability, CellDefinition, Geometry, Refresh};

use super::claiming::GroupClaims;
use super::guard::{ReplayGuard, Standing};
use super::limits::OwnerLimits;
use super::present::Present;
use super::rules::Rule;
use super::site::{Sender, Site};
use super::state::{Counts, GroupState, SliceState, begin_ms, share_of_sample};
use crate::ids::{Epoch, NodeId};
use crate::map::{AnswerWhen, ClusterMap, Durability, FilterPolicies, FilterRecord};
use crate::plan::{DefinitionError, GroupPlan, SlicedBuildError};
use crate::protocol::{Command, Moment, MonotonicMs, PeerBody, PeerMessage};
use crate::verdict::Reason;
use fill::Fill;
use in_flight::InFlight;
use membership::Membership;
use outbox::Outbox;
use own::OwnSlices;
use passage::Passing;
pub use passage::refuse;
use placement::Placement;
pub(crate) use tree::Level;
use tree::Tree;

/// The slices of one group that a node has, and the events that it is the head of.
pub(crate) struct DividedGroup {
    pub(super) present: Present,
    policies: FilterPolicies,
    refresh: Refresh,
    is_draining: bool,
    membership: Membership,
    tree: Tree,
    /// When a degraded reply was given last.
    degraded_ms: Option<MonotonicMs>,
    own: OwnSlices,
    fill: Fill,
    outbox: Outbox,
    pub(super) guard: ReplayGuard,
    standings: Vec<Standing>,
    in_flight: InFlight,
    counts: Counts,
    kept: durable::ToPersist,
    /// The claims of events, where the filter has any.
    pub(super) claiming: Option<Box<GroupClaims<Placement>>>,
}

impl DividedGroup {
    /// The slices that `record` gives to this node, empty.
    ///
    /// # Errors
    /// [`SlicedBuildError`]: no memory, or a definition whose cells are not divided.
    pub(crate) fn new(
        site: Site,
        (map, record): (&ClusterMap, &FilterRecord),
        level: Option<Level>,
        limits: &OwnerLimits,
    ) -> Result<Self, SlicedBuildError> {
        let definition = limits.with_window(record.definition.slice()?, record.policies.clock);
        let plan = GroupPlan::of_level(&record.definition)?;
        let placement = Placement::new(map, record, site.group, site.me, plan);
        let refresh = definition.cells.refresh();
        let whole = whole(&plan, &definition.cells)?;
        let fill = Fill::new(&record.definition.group, whole, u64::from(plan.slices_per_group()));
        let sender = Sender { filter: site.filter, epoch: record.epoch, group: site.group };
        let own = OwnSlices::build(definition.clone(), &placement)?;
        let mut divided = Self {
            present: Present::new(&definition, record, limits),
            policies: record.policies,
            refresh,
            is_draining: false,
            own,
            membership: Membership::new(site, placement, &definition, &record.policies, limits),
            tree: Tree::new(site.filter, site.group, level),
            degraded_ms: None,
            fill,
            outbox: Outbox::new(sender, limits.rules),
            guard: ReplayGuard::new(u64::from(record.policies.retry_horizon_ms), limits.guard_bytes_max),
            standings: Vec::new(),
            in_flight: InFlight::default(),
            counts: Counts::default(),
            kept: durable::ToPersist::new(record.policies.durability),
            claiming: GroupClaims::new(map, record, limits).map(Box::new),
        };
        divided.begin_by(map, record);
        Ok(divided)
    }

    /// Begins by the first map.
    fn begin_by(&mut self, map: &ClusterMap, record: &FilterRecord) {
        self.open_generation(record);
        self.membership.begin_by(map, record, &mut self.outbox);
        let placement = self.membership.placement();
        self.fill.spread_over(placement.served_slices(), placement.asked_here());
        if record.epoch != Epoch::FIRST || !placement.is_complete_here() {
            self.become_unsure(None);
        }
    }

    /// Takes a message of another node.
    pub(crate) fn receive(&mut self, from: NodeId, message: PeerMessage, now: Moment) {
        self.present.begin(now);
        let epoch = self.membership.placement().epoch();
        // A head by another map must get no answer by this one: two heads could find the same zero. By a newer map
        // there may be more slices here that are to be set. Answers need no fence: a change of epoch ends every test that
        // is under way, and no ticket is given twice.
        self.hear_by_which_map(from, message.epoch);
        if message.body.is_fenced() && message.epoch != epoch && self.present.keeps(Rule::FencesEpochs) {
            self.has_refused(from);
            // Nothing was done, so the answer may overtake others.
            let refused = refuse(from, PeerMessage { epoch, ..message }, Reason::StaleMap);
            refused.into_iter().for_each(|answer| self.outbox.push(answer));
            return self.finish();
        }
        match message.body {
            PeerBody::Test(batch) => {
                let Self { own, membership, outbox, .. } = self;
                let (placement, unreachable) = (membership.placement(), membership.unreachable());
                let degrades = placement.asks_incomplete_here() && !membership.wholeness().is_whole();
                passage::test(
                    &batch,
                    own,
                    placement,
                    unreachable,
                    outbox,
                    Passing { in_tree: self.tree.is_any(), degrades },
                );
            }
            PeerBody::ClaimTests(tests) => self.test_claims(from, &tests),
            PeerBody::Set(batch) => {
                // The sender knows that the generation was committed.
                self.fill.open(batch.generation);
                let cells = passage::set(from, &batch, &mut self.own, self.membership.placement(), &mut self.outbox);
                if cells == 0 && !batch.stamps.is_empty() {
                    self.has_refused(from);
                }
                if cells > 0 && self.present.keeps(Rule::KeepsPeerSets) {
                    self.kept.set_all(batch);
                }
            }
            PeerBody::Resolved(resolved) => self.resolved(&resolved),
            PeerBody::SetAcks(acks) => self.acknowledged(from, &acks, message.epoch),
            PeerBody::AskPast => {
                self.membership.send_past(from, message.epoch, &self.present, &self.own, &mut self.outbox);
                let first_free = self.in_flight.flights.first_free();
                self.membership.hand_over_again(from, first_free, now.monotonic_ms);
            }
            PeerBody::Past(past) => self.membership.hear_past(from, past, message.epoch),
            PeerBody::AskCells(ask) => self.send_cells(from, &ask, message.epoch),
            PeerBody::Cells(parts) => self.hear_cells(parts, message.epoch),
            PeerBody::Mirror(_, mirrored) => self.hear_replies(&mirrored),
            PeerBody::HandedOver(handed) => self.membership.hear_handed_over(from, handed, now.monotonic_ms),
        }
        self.finish();
    }

    /// Gives what the inputs since the last time have set off. What is persisted goes first, as messages and replies
    /// rest on it.
    pub(crate) fn take_commands(&mut self, commands: &mut Vec<Command>) {
        let Self { kept, membership, outbox, present, .. } = self;
        if !present.keeps(Rule::PersistsFirst) {
            outbox.flush(commands);
        }
        kept.take(&membership.site(), commands);
        outbox.flush(commands);
    }

    fn has_refused(&mut self, from: NodeId) {
        self.membership.has_refused(from, &self.present, &self.own);
    }

    fn open_generation(&mut self, record: &FilterRecord) {
        self.fill.open(record.generations.get(self.membership.site().group as usize).copied().unwrap_or_default());
    }

    pub(crate) fn inflight_events(&self) -> u64 {
        self.in_flight.flights.open_events() as u64
    }

    /// See [`super::GroupOwner::is_catching_up`].
    pub(crate) fn is_catching_up(&self) -> bool {
        self.membership.is_catching_up()
    }

    pub(crate) fn unbuilt_slices(&self) -> usize {
        let placement = self.membership.placement();
        let is_unbuilt = |slice: &u32| placement.holds_slice(*slice as usize) && !self.own.has(*slice);
        (0..placement.slices() as u32).filter(is_unbuilt).count()
    }

    /// Whether another node waits for this one to end the events that it has headed.
    pub(crate) fn is_awaited(&self) -> bool {
        self.membership.handing().is_awaited()
    }

    /// Events that this level has decided without the level above, and that have not climbed yet.
    pub(crate) fn owed_events(&self) -> u64 {
        self.tree.owed_counts().waiting_events
    }

    /// The group as it is now; its slices are estimated from samples.
    pub(crate) fn state(&mut self, sample_bytes: usize) -> GroupState {
        let slice_sample_bytes = share_of_sample(sample_bytes, self.own.len());
        let inflight_events = self.inflight_events();
        let placement = self.membership.placement();
        let first = self.membership.site().group.saturating_mul(placement.slices() as u32);
        let complete_from_ms =
            self.membership.complete_from_unit(&self.own).and_then(|unit| begin_ms(&self.own.definition().unit, unit));
        let (test_nodes, set_nodes) = (self.own.test_node_visits, self.own.set_node_visits);
        let states = self.own.states().map(|(index, slice, load)| {
            let (fill, expected_rate) = slice.fill_and_rate(slice_sample_bytes);
            SliceState {
                slice: first + index as u32,
                load,
                bytes: slice.bytes(),
                generations: slice.generations() as u32,
                live_events: slice.live_events(),
                fill,
                expected_rate,
                ready: true,
                complete: placement.is_slice_complete_here(index),
                complete_from_ms: complete_from_ms.filter(|_| !placement.is_slice_complete_here(index)),
            }
        });
        let slices: Vec<SliceState> = states.collect();
        GroupState {
            owed: self.tree.owed_counts(),
            claims: self.claim_counts(),
            mended_runs: self.membership.mended_runs(),
            inflight_events,
            astray_events: self.in_flight.flights.astray(),
            ..self.counts.state(slices, (test_nodes, set_nodes), &self.guard, self.present.clock())
        }
    }

    /// Whether no reply first-seen leaves before all nodes have acknowledged the event's sets. Filters in memory or
    /// with an interval, and without copies, reply at once with `--answer early`; all others are safe.
    fn replies_when_all_acknowledged(&self) -> bool {
        let policies = &self.policies;
        policies.answer == AnswerWhen::Safe || policies.durability == Durability::Durable || policies.copies > 0
    }
}

/// The shape of all slices of a group together.
fn whole(plan: &GroupPlan, cells: &CellDefinition) -> Result<Geometry, DefinitionError> {
    if let Some(geometry) = cells.geometry().filter(|_| !cells.kind().can(Ability::Divide)) {
        return Ok(*geometry);
    }
    let cell_bits = cells.geometry().map_or(1, Geometry::cell_bits);
    let hashes = plan.shape().hashes();
    Ok(Geometry::new(plan.group_cells(), hashes, cell_bits, firstseen_filter::Layout::Classic)?)
}
