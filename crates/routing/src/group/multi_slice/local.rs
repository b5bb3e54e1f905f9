//! What a node has of a group and knows about it, except the events that it heads.
//!
//! Each part of the local state is a type that owns its data. This file contains the operations that need several of
//! these parts. They check the room for new events, propose the next generation before the newest one is full, and
//! handle events that slices lack.

use firstseen_filter::{Ability, CellDefinition, Geometry, Layout, Refresh, UnitNumber};

use super::durable::ToPersist;
use super::fill::{Fill, Room};
use super::local_slices::OwnSlices;
use super::membership::Membership;
use super::outbox::Outbox;
use super::placement::Placement;
use super::tree::{Level, Tree};
use crate::group::group_time::GroupTime;
use crate::group::limits::OwnerLimits;
use crate::group::site::Site;
use crate::group::state::{SliceState, begin_ms, share_of_sample};
use crate::map::{ClusterMap, FilterPolicies, FilterRecord};
use crate::plan::{DefinitionError, GroupPlan, SlicedBuildError};
use crate::protocol::{Command, Proposal};
use crate::verdict::Reason;

/// A node's share of a group.
pub(super) struct LocalState {
    pub(super) present: GroupTime,
    pub(super) policies: FilterPolicies,
    pub(super) refresh: Refresh,
    pub(super) membership: Membership,
    pub(super) tree: Tree,
    /// The cells.
    pub(super) own: OwnSlices,
    /// The room in the newest generation.
    pub(super) fill: Fill,
}

impl LocalState {
    /// Creates empty slices, as `record` assigns them to this node.
    pub(super) fn new(
        site: Site,
        map: &ClusterMap,
        record: &FilterRecord,
        level: Option<Level>,
        limits: &OwnerLimits,
    ) -> Result<Self, SlicedBuildError> {
        let definition = limits.with_window(record.definition.slice()?, record.policies.clock);
        let plan = GroupPlan::of_level(&record.definition)?;
        let placement = Placement::new(map, record, site.group, site.me, plan);
        let whole = whole(&plan, &definition.cells)?;
        Ok(Self {
            present: GroupTime::new(&definition, record, limits),
            policies: record.policies,
            refresh: definition.cells.refresh(),
            own: OwnSlices::build(definition.clone(), &placement)?,
            membership: Membership::new(site, placement, &definition, &record.policies, limits),
            tree: Tree::new(site.filter, site.group, level),
            fill: Fill::new(&record.definition.group, whole, u64::from(plan.slices_per_group())),
        })
    }

    /// Opens the generations of the group that the cluster map contains.
    pub(super) fn open_generation(&mut self, record: &FilterRecord) {
        let group = self.membership.site().group as usize;
        self.fill.open(record.generations.get(group).copied().unwrap_or_default());
    }

    /// Distributes heads over the slices that nodes serve according to the cluster map.
    pub(super) fn spread_heads(&mut self) {
        let placement = self.membership.placement();
        self.fill.spread_over(placement.served_slices(), placement.asked_here());
    }

    /// Checks whether the newest generation has room for another event of `unit`. `pending` further events are about to
    /// be recorded, and they count as if they were already recorded. If there is little room left, the function also
    /// proposes the next generation, so that it opens before the newest one is full.
    pub(super) fn room(&mut self, unit: UnitNumber, pending: u64, outbox: &mut Outbox) -> Result<(), Reason> {
        let Self { own, fill, .. } = self;
        let room = fill.room(own.len() as u64, pending, || {
            own.advance(unit);
            own.used_cells(fill.newest())
        });
        if room == Room::Free {
            return Ok(());
        }
        let may_open = self.propose_generation(unit, outbox);
        match room {
            Room::None if may_open => Err(Reason::Overloaded),
            Room::None => Err(Reason::Full),
            Room::Scarce | Room::Free => Ok(()),
        }
    }

    /// Proposes another generation if one may be opened. Returns whether one may be opened.
    fn propose_generation(&mut self, unit: UnitNumber, outbox: &mut Outbox) -> bool {
        self.own.advance(unit);
        let opened = self.own.newest_generation();
        let alive = self.own.generations() as u64 + self.fill.newest().since(opened).unwrap_or(0);
        if alive >= self.fill.generations_max() {
            return false;
        }
        let Site { filter, group, .. } = self.membership.site();
        if let Some(number) = self.fill.ask_for_next(self.present.now_ms()) {
            outbox.push(Command::Propose(Proposal::OpenGeneration { filter, group, number }));
        }
        true
    }

    /// Handles events that slices of this node lack, and compares copies.
    pub(super) fn mind_slices(&mut self, outbox: &mut Outbox, kept: &mut ToPersist) {
        let Self { membership, own, present, .. } = self;
        membership.recover_gap(present, own, outbox);
        membership.fetch(present, own, outbox);
        membership.rescan(present, own, kept, outbox);
    }

    /// Returns the number of slices that the cluster map assigns to this node and that do not fit into memory.
    pub(super) fn unbuilt_slices(&self) -> usize {
        let placement = self.membership.placement();
        let slices = 0..placement.slices() as u32;
        slices.filter(|slice| placement.holds_slice(*slice as usize) && !self.own.has(*slice)).count()
    }

    /// Returns the states of this node's slices, estimated from samples.
    pub(super) fn slice_states(&mut self, sample_bytes: usize) -> Vec<SliceState> {
        let slice_sample_bytes = share_of_sample(sample_bytes, self.own.len());
        let complete_from_unit = self.membership.complete_from_unit(&self.own);
        let complete_from_ms = complete_from_unit.and_then(|unit| begin_ms(&self.own.definition().unit, unit));
        let placement = self.membership.placement();
        let first = self.membership.site().group.saturating_mul(placement.slices() as u32);
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
        states.collect()
    }
}

/// Returns the geometry of all slices of a group together.
fn whole(plan: &GroupPlan, cells: &CellDefinition) -> Result<Geometry, DefinitionError> {
    if let Some(geometry) = cells.geometry().filter(|_| !cells.kind().can(Ability::Divide)) {
        return Ok(*geometry);
    }
    let cell_bits = cells.geometry().map_or(1, Geometry::cell_bits);
    let hashes = plan.shape().hashes();
    Ok(Geometry::new(plan.group_cells(), hashes, cell_bits, Layout::Classic)?)
}
