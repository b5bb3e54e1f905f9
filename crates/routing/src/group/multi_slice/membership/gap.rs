//! Tracks which events the slices of a node may lack, and the time at which all of these events have expired. If a node
//! was away, its slices have missed the events that were recorded meanwhile, or have lost their cells. When the missing
//! events have expired, the slices are complete again, even if no data was transferred to them.
//!
//! No missing event has a greater unit than `newest` (`group/gap.rs`). The value of `newest` depends on the case:
//!
//! - The node was only away. Then the other nodes of the group know of all missing events. `newest` is the greatest
//!   unit that they know when they start to set events here again.
//! - The slice has lost its cells. Then no other node knows of events that had all of their positions here, so `newest`
//!   is the time of day.
//! - Another node is gone, or goes before it has replied. Then it is unknown which events it recorded without this
//!   node, so `newest` is the time of day as well.
//!
//! A slice is complete when all missing events have expired, or earlier if all of them have been handed over
//! (`missed.rs`).
//!
//! The cluster map does not list a slice as complete while the slice may lack an event that is still within the window.
//! There is one exception. If an event has a time so far in the future that no correct clock could have produced it,
//! the slice may be listed as complete without that event.

use firstseen_filter::UnitNumber;

use super::Membership;
use crate::group::completeness_tracker::Completeness;
use crate::group::gap::Missing;
use crate::group::group_time::GroupTime;
use crate::group::multi_slice::local_slices::OwnSlices;
use crate::group::multi_slice::outbox::Outbox;
use crate::group::multi_slice::placement::{Arrival, Placement};
use crate::group::rules::Rule;
use crate::ids::{Epoch, Incarnation, NodeId, distinct};
use crate::protocol::{MonotonicMs, Past, PeerBody};

/// Time in milliseconds after which nodes that have not replied are asked again.
const RETRY_MS: u64 = 1_000;

/// The events that slices of this node may lack.
#[derive(Clone, Debug, Default)]
pub(super) struct Gaps {
    /// The gap of slices that were on this node before.
    settled: Option<Gap>,
    /// The gap of slices that are moving to this node: everything that was recorded before the map gave them to this
    /// node.
    arriving: Option<Gap>,
    /// The slices that are moving to this node.
    arrivals: Vec<Arrival>,
}

/// The events that some slices may lack.
#[derive(Clone, Debug)]
struct Gap {
    /// Nodes that have not said yet which events they may have recorded.
    awaited: Vec<(NodeId, Incarnation)>,
    /// Epoch of the map by which the gap became known.
    since_epoch: Epoch,
    missing: Missing,
    /// Whether all missing events are handed over. That requires that the slices were complete before.
    is_handed_over: bool,
    next_ask_ms: MonotonicMs,
}

impl Gap {
    /// Creates a gap. `known_unit` is the greatest unit of the slices if they were complete before.
    fn of(placement: &Placement, unknown: Missing, known_unit: Option<UnitNumber>) -> Self {
        let awaited: Vec<_> = placement.live_peers().collect();
        let others_know = !awaited.is_empty() && placement.gone_peers().next().is_none();
        let known_unit = known_unit.filter(|_| others_know);
        Self {
            awaited,
            since_epoch: placement.epoch(),
            missing: known_unit.map_or(unknown, Missing::until),
            is_handed_over: known_unit.is_some(),
            next_ask_ms: MonotonicMs::START,
        }
    }

    /// Applies a new placement. If a node goes before it has said which events it may have recorded, the range of
    /// missing events becomes unknown.
    fn follow(&mut self, placement: &Placement, unknown: Missing) {
        let live: Vec<_> = placement.live_peers().collect();
        let before = self.awaited.len();
        self.awaited.retain(|peer| live.contains(peer));
        if self.awaited.len() < before {
            self.missing.add(unknown);
            self.is_handed_over = false;
        }
    }

    fn awaits(&self, peer: NodeId) -> bool {
        self.awaited.iter().any(|(awaited, _)| *awaited == peer)
    }

    /// Returns whether all missing events were handed over.
    fn has_got_all(&self) -> bool {
        self.awaited.is_empty() && self.is_handed_over
    }

    /// Returns whether nothing is missing any more, because all events were handed over or have expired.
    fn is_over(&self, present: &GroupTime, own: &OwnSlices) -> bool {
        let known = self.known();
        self.has_got_all() || known.is_some_and(|known| known.is_over(own.definition(), present, own.now_unit()))
    }

    /// Returns the range of missing events, once all nodes have said which events they may have recorded.
    fn known(&self) -> Option<&Missing> {
        Some(&self.missing).filter(|_| self.awaited.is_empty())
    }
}

impl Gaps {
    fn all(&self) -> impl Iterator<Item = &Gap> {
        self.settled.iter().chain(&self.arriving)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Gap> {
        self.settled.iter_mut().chain(&mut self.arriving)
    }

    /// Updates the gap of the slices that are still moving to this node. The gap is the range of events that these
    /// slices may lack. It is computed again only if a further slice has begun to move to this node since the last
    /// computation.
    fn follow_arrivals(&mut self, placement: &Placement, unknown: Missing) {
        if placement.arriving_here().iter().any(|arrival| !self.arrivals.contains(arrival)) {
            self.arriving = None;
        }
        self.arrivals = placement.arriving_here().to_vec();
        if self.arrivals.is_empty() {
            self.arriving = None;
        } else {
            self.arriving.get_or_insert_with(|| Gap::of(placement, unknown, None));
        }
    }
}

impl Membership {
    /// Applies a new cluster map. Slices that have become incomplete get a gap, and complete slices have none.
    pub(crate) fn follow_gap(&mut self, present: &GroupTime, own: &OwnSlices) {
        if !self.placement.lacks_here() {
            self.gaps = None;
            return;
        }
        // No node hands over events to a node that is down.
        if self.placement.is_gone_here() {
            self.gaps = None;
            self.from_copies.forget_fetched();
            return;
        }
        let unknown = self.unknown(present);
        let known_unit = own.now_unit().max(present.clock().now_unit());
        let known_unit = (self.completeness.now() != Completeness::Lacking).then_some(known_unit);
        let Self { placement, gaps, .. } = self;
        let gaps = gaps.get_or_insert_default();
        if placement.lacking_here().any(|slice| !placement.is_arriving_here(slice)) {
            gaps.settled.get_or_insert_with(|| Gap::of(placement, unknown, known_unit));
        } else {
            gaps.settled = None;
        }
        gaps.follow_arrivals(placement, unknown);
        gaps.all_mut().for_each(|gap| gap.follow(placement, unknown));
    }

    /// Notes that slices have arrived only now. The events recorded before are not in them, whatever was known about
    /// earlier slices.
    pub(super) fn begin_arrivals_anew(&mut self) {
        if let Some(gaps) = &mut self.gaps {
            gaps.arrivals.clear();
        }
    }

    /// Notes that a set of a node was rejected, so the events that this node hands over are not all here.
    pub(crate) fn has_refused(&mut self, from: NodeId, present: &GroupTime, own: &OwnSlices) {
        // This message may be the first input.
        if self.has_unknown_gap() {
            self.follow_gap(present, own);
        }
        let gaps = self.gaps.iter_mut().flat_map(Gaps::all_mut);
        gaps.filter(|gap| gap.awaits(from)).for_each(|gap| gap.is_handed_over = false);
    }

    /// Asks nodes that have not replied yet, and proposes slices as complete to the cluster map once they are.
    pub(crate) fn recover_gap(&mut self, present: &GroupTime, own: &OwnSlices, outbox: &mut Outbox) {
        if !self.placement.lacks_here() {
            return;
        }
        // The time of day is known from the first input on.
        if self.has_unknown_gap() {
            self.follow_gap(present, own);
        }
        self.learn_the_time(present);
        let now_ms = present.now_ms();
        let slices = self.complete_again(present, own);
        if let Some(proposal) = self.proposals.propose(&self.site, slices, self.placement.epoch(), now_ms) {
            outbox.push(proposal);
        }
        let mut asked = Vec::new();
        let gaps = self.gaps.iter_mut().flat_map(Gaps::all_mut);
        for gap in gaps.filter(|gap| !gap.awaited.is_empty() && now_ms >= gap.next_ask_ms) {
            gap.next_ask_ms = now_ms.after(RETRY_MS);
            asked.extend(gap.awaited.iter().map(|(peer, _)| *peer));
        }
        distinct(asked.into_iter()).into_iter().for_each(|peer| outbox.send(peer, PeerBody::AskPast));
    }

    /// Limits missing events that no remaining node knows to the time of day, once that is known.
    fn learn_the_time(&mut self, present: &GroupTime) {
        if !self.awaits_time() {
            return;
        }
        let Some(newest_unit) = self.newest_unknown_unit(present) else { return };
        let gaps = self.gaps.iter_mut().flat_map(Gaps::all_mut);
        gaps.for_each(|gap| gap.missing.learn_the_time(newest_unit));
    }

    fn awaits_time(&self) -> bool {
        self.gaps.iter().flat_map(Gaps::all).any(|gap| gap.missing.awaits_time())
    }

    /// Returns the slices here that are complete although the cluster map does not say so.
    fn complete_again(&self, present: &GroupTime, own: &OwnSlices) -> Vec<u32> {
        if self.placement.is_gone_here() {
            return Vec::new();
        }
        let settled = self.gaps.as_ref().and_then(|gaps| gaps.settled.as_ref());
        let arriving = self.gaps.as_ref().and_then(|gaps| gaps.arriving.as_ref());
        let is_settled_over = self.completeness.is_whole() || settled.is_some_and(|gap| gap.is_over(present, own));
        let is_arriving_over = arriving.is_some_and(|gap| gap.is_over(present, own));
        let lacking = self.placement.lacking_here().filter(|slice| own.has(*slice));
        let complete = lacking.filter(|slice| {
            let is_fetched = self.from_copies.fetched.has(*slice) && self.knows_names_of(*slice, present.now_ms());
            if !present.keeps(Rule::AwaitsGapExpiry) || is_fetched {
                return true;
            }
            if self.placement.is_arriving_here(*slice) { is_arriving_over } else { is_settled_over }
        });
        complete.collect()
    }

    /// Returns whether this node is catching up. While it is, other nodes may still hand over events that its slices
    /// missed, or they have handed over all of them and the cluster map does not list the slices as complete yet.
    /// Slices that are moving to this node are not taken into account.
    pub(crate) fn is_catching_up(&self) -> bool {
        if !self.placement.lacks_here() || self.placement.is_gone_here() {
            return false;
        }
        if self.placement.lacking_here().all(|slice| self.placement.is_arriving_here(slice)) {
            return false;
        }
        let may_be_handed_over = match self.gaps.as_ref().and_then(|gaps| gaps.settled.as_ref()) {
            Some(gap) => gap.is_handed_over,
            // The gap was not examined yet.
            None => self.completeness.now() == Completeness::Interrupted,
        };
        self.completeness.is_whole() || may_be_handed_over
    }

    /// Returns whether it was not examined yet which events the slices here may lack.
    fn has_unknown_gap(&self) -> bool {
        self.placement.lacks_here() && self.gaps.is_none() && !self.placement.is_gone_here()
    }

    /// Returns the time at which [`Self::recover_gap`] has work to do, if no other input arrives before.
    pub(crate) fn next_gap_ms(&self, present: &GroupTime, own: &OwnSlices) -> Option<MonotonicMs> {
        if !self.placement.lacks_here() {
            return None;
        }
        if self.has_unknown_gap() || self.awaits_time() {
            return Some(MonotonicMs::START);
        }
        let gaps = self.gaps.iter().flat_map(Gaps::all);
        let asks = gaps.filter(|gap| !gap.awaited.is_empty()).map(|gap| gap.next_ask_ms);
        let proposals = (!self.complete_again(present, own).is_empty()).then_some(self.proposals.next_ms());
        asks.chain(proposals).chain(self.next_fetch_ms()).chain(self.next_known_ms(present.now_ms())).min()
    }

    /// Returns the unit from which on the slices here are complete again, or `None` if that is not known yet.
    pub(crate) fn complete_from_unit(&self, own: &OwnSlices) -> Option<UnitNumber> {
        let gaps = self.gaps.as_ref()?.all();
        let units: Option<Vec<UnitNumber>> =
            gaps.map(|gap| gap.known()?.complete_from_unit(own.definition())).collect();
        units?.into_iter().max()
    }

    /// Answers the question of another node about the events that were recorded while that node was down. This node
    /// answers only if its own cluster map already lists the other node as present. From then on, all new events are
    /// sent to the other node too, so the answer covers every event that the other node has missed. If there is no
    /// answer, the other node asks again later.
    pub(crate) fn send_past(
        &self,
        from: NodeId,
        epoch: Epoch,
        present: &GroupTime,
        own: &OwnSlices,
        outbox: &mut Outbox,
    ) {
        if epoch > self.placement.epoch() || !self.placement.live_peers().any(|(peer, _)| peer == from) {
            return;
        }
        let handed_over = self.missed.handed_over(from);
        let known_unit = match self.gaps.as_ref().and_then(|gaps| gaps.settled.as_ref()) {
            _ if !handed_over.are_all_here => self.newest_unknown_unit(present),
            Some(gap) if gap.awaited.is_empty() => gap.missing.newest_unit(),
            None if self.completeness.is_whole() => Some(UnitNumber::FIRST),
            Some(_) | None => self.newest_unknown_unit(present),
        };
        // A node that gets no reply asks again.
        let Some(known_unit) = known_unit else { return };
        let newest_unit = known_unit.max(own.now_unit()).max(present.clock().now_unit());
        let has_handed_over = handed_over.is_all;
        outbox.send(from, PeerBody::Past(Past { newest_unit, has_handed_over }));
    }

    /// Handles the answer of another node about the events that it may have recorded while this node was down. `epoch`
    /// is the epoch of the cluster map under which the answer was sent. If that epoch is older than the epoch at which
    /// the current gap began, the answer belongs to an earlier absence of this node and is ignored.
    pub(crate) fn hear_past(&mut self, from: NodeId, past: Past, epoch: Epoch) {
        let gaps = self.gaps.iter_mut().flat_map(Gaps::all_mut);
        for gap in gaps.filter(|gap| gap.awaits(from) && gap.since_epoch <= epoch) {
            gap.awaited.retain(|(peer, _)| *peer != from);
            gap.missing.add_until(past.newest_unit);
            gap.is_handed_over &= past.has_handed_over;
        }
    }

    /// Returns the greatest unit of events that no remaining node knows, or `None` if the time of day is unknown.
    pub(crate) fn newest_unknown_unit(&self, present: &GroupTime) -> Option<UnitNumber> {
        self.unknown(present).newest_unit()
    }

    fn unknown(&self, present: &GroupTime) -> Missing {
        Missing::unknown(present, self.placement.nodes().len() > 1)
    }
}
