//! What the slices of a node may lack, and until when that matters: a slice whose node was away has missed the events
//! that were recorded meanwhile, or has lost its cells. When all of these events have expired, the slice is complete
//! again, and no data was moved.
//!
//! What a slice lacks is of no unit after `newest` (`group/gap.rs`). Which unit that is depends on the case:
//!
//! - The node was only away. Then the other nodes of the group know of all missing events: `newest` is the greatest
//!   unit that they know of when they begin to set events here too.
//! - The slice has lost its cells. Then no other node knows of events that had all of their positions here, so `newest`
//!   is the time of day.
//! - Another node is gone, or goes before it has answered. Then nobody knows what it has recorded without this one, so
//!   `newest` is the time of day, too.
//!
//! A slice is complete when all missing events have expired, or sooner if all of them have been handed over
//! (`missed.rs`).
//!
//! Promises: no slice is called complete that may lack an event of the window, unless the event's time was further in
//! the future than clocks may differ. Must not know: how the map learns of it, messages.

use firstseen_filter::UnitNumber;

use super::Membership;
use crate::group::divided::outbox::Outbox;
use crate::group::divided::own::OwnSlices;
use crate::group::divided::placement::{Arrival, Placement};
use crate::group::gap::Missing;
use crate::group::present::Present;
use crate::group::rules::Rule;
use crate::group::wholeness::Completeness;
use crate::ids::{Epoch, Incarnation, NodeId, distinct};
use crate::protocol::{MonotonicMs, Past, PeerBody};

/// Nodes that have not answered are asked again after so long.
const AGAIN_MS: u64 = 1_000;

/// What the slices here may lack.
#[derive(Clone, Debug, Default)]
pub(super) struct Gaps {
    /// The gap of slices that were here.
    settled: Option<Gap>,
    /// The gap of slices that are on their way here: all that was recorded before they were given to this node.
    arriving: Option<Gap>,
    /// The slices on their way here.
    arrivals: Vec<Arrival>,
}

/// What some slices may lack.
#[derive(Clone, Debug)]
struct Gap {
    /// Nodes that have not said yet what they may have recorded.
    awaited: Vec<(NodeId, Incarnation)>,
    /// The epoch of the map by which the gap is known.
    since_epoch: Epoch,
    missing: Missing,
    /// All missing events are handed over: the slices were complete before.
    is_handed_over: bool,
    next_ask_ms: MonotonicMs,
}

impl Gap {
    /// Where the slices were complete before, `known_unit` is their greatest unit.
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

    /// A node that has gone before it has said what it may have recorded takes that knowledge with it.
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

    /// Whether all missing events were handed over.
    fn has_got_all(&self) -> bool {
        self.awaited.is_empty() && self.is_handed_over
    }

    /// Whether nothing is missing any more: all of it was handed over, or has expired.
    fn is_over(&self, present: &Present, own: &OwnSlices) -> bool {
        let known = self.known();
        self.has_got_all() || known.is_some_and(|known| known.is_over(own.definition(), present, own.now_unit()))
    }

    /// The missing events, once all nodes have said what they may have recorded.
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

    /// What is known of slices that arrived before says nothing of slices that have begun to arrive since.
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
    /// Follows the map: slices that have become incomplete have a gap, and those that are complete have none.
    pub(crate) fn follow_gap(&mut self, present: &Present, own: &OwnSlices) {
        if !self.placement.lacks_here() {
            self.gaps = None;
            return;
        }
        // No node hands anything over to a node that is down.
        if self.placement.is_gone_here() {
            self.gaps = None;
            self.from_copies.forget_fetched();
            return;
        }
        let unknown = self.unknown(present);
        let known_unit = own.now_unit().max(present.clock().now_unit());
        let known_unit = (self.wholeness.now() != Completeness::Lacking).then_some(known_unit);
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

    /// Slices have come only now: whatever is known of earlier events, they are not here.
    pub(super) fn begin_arrivals_anew(&mut self) {
        if let Some(gaps) = &mut self.gaps {
            gaps.arrivals.clear();
        }
    }

    /// A set of a node was refused: what that node hands over is not all here.
    pub(crate) fn has_refused(&mut self, from: NodeId, present: &Present, own: &OwnSlices) {
        // It may be the first input.
        if self.has_unknown_gap() {
            self.follow_gap(present, own);
        }
        let gaps = self.gaps.iter_mut().flat_map(Gaps::all_mut);
        gaps.filter(|gap| gap.awaits(from)).for_each(|gap| gap.is_handed_over = false);
    }

    /// Asks nodes that have not answered; proposes that slices are complete, once they are.
    pub(crate) fn mind_gap(&mut self, present: &Present, own: &OwnSlices, outbox: &mut Outbox) {
        if !self.placement.lacks_here() {
            return;
        }
        // At the first input the time of day is known.
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
            gap.next_ask_ms = now_ms.after(AGAIN_MS);
            asked.extend(gap.awaited.iter().map(|(peer, _)| *peer));
        }
        distinct(asked.into_iter()).into_iter().for_each(|peer| outbox.send(peer, PeerBody::AskPast));
    }

    /// Events of which no node is left that knows are of no later unit than the time of day, once that is known.
    fn learn_the_time(&mut self, present: &Present) {
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

    /// Slices here that are complete, and of which the map does not say so.
    fn complete_again(&self, present: &Present, own: &OwnSlices) -> Vec<u32> {
        if self.placement.is_gone_here() {
            return Vec::new();
        }
        let settled = self.gaps.as_ref().and_then(|gaps| gaps.settled.as_ref());
        let arriving = self.gaps.as_ref().and_then(|gaps| gaps.arriving.as_ref());
        let is_settled_over = self.wholeness.is_whole() || settled.is_some_and(|gap| gap.is_over(present, own));
        let is_arriving_over = arriving.is_some_and(|gap| gap.is_over(present, own));
        let lacking = self.placement.lacking_here().filter(|slice| own.has(*slice));
        let complete = lacking.filter(|slice| {
            let is_fetched = self.from_copies.fetched.has(*slice) && self.knows_names_of(*slice, present.now_ms());
            if !present.keeps(Rule::MindsGaps) || is_fetched {
                return true;
            }
            if self.placement.is_arriving_here(*slice) { is_arriving_over } else { is_settled_over }
        });
        complete.collect()
    }

    /// Whether the others may still hand over what slices here have missed, or have done so and the map does not say so yet;
    /// slices that are on their way here do not count.
    pub(crate) fn is_catching_up(&self) -> bool {
        if !self.placement.lacks_here() || self.placement.is_gone_here() {
            return false;
        }
        if self.placement.lacking_here().all(|slice| self.placement.is_arriving_here(slice)) {
            return false;
        }
        let may_be_handed_over = match self.gaps.as_ref().and_then(|gaps| gaps.settled.as_ref()) {
            Some(gap) => gap.is_handed_over,
            // The gap was not looked at yet.
            None => self.wholeness.now() == Completeness::Interrupted,
        };
        self.wholeness.is_whole() || may_be_handed_over
    }

    /// Whether it was not looked at yet what the slices here may lack.
    fn has_unknown_gap(&self) -> bool {
        self.placement.lacks_here() && self.gaps.is_none() && !self.placement.is_gone_here()
    }

    /// When [`Self::mind_gap`] has something to do, if nothing comes.
    pub(crate) fn next_gap_ms(&self, present: &Present, own: &OwnSlices) -> Option<MonotonicMs> {
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

    /// The unit from which on the slices here are complete again; none where that is not known yet.
    pub(crate) fn complete_from_unit(&self, own: &OwnSlices) -> Option<UnitNumber> {
        let gaps = self.gaps.as_ref()?.all();
        let units: Option<Vec<UnitNumber>> =
            gaps.map(|gap| gap.known()?.complete_from_unit(own.definition())).collect();
        units?.into_iter().max()
    }

    /// Another node asks what was recorded without it. Only a node that sets its events there from now on can say;
    /// otherwise the other asks again.
    pub(crate) fn send_past(
        &self,
        from: NodeId,
        epoch: Epoch,
        present: &Present,
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
            None if self.wholeness.is_whole() => Some(UnitNumber::FIRST),
            Some(_) | None => self.newest_unknown_unit(present),
        };
        // A node that gets no answer asks again.
        let Some(known_unit) = known_unit else { return };
        let newest_unit = known_unit.max(own.now_unit()).max(present.clock().now_unit());
        let has_handed_over = handed_over.is_all;
        outbox.send(from, PeerBody::Past(Past { newest_unit, has_handed_over }));
    }

    /// Another node says what it may have recorded, by the map of `epoch`. An answer by an older map than the gap's is
    /// late: it is about another gap.
    pub(crate) fn hear_past(&mut self, from: NodeId, past: Past, epoch: Epoch) {
        let gaps = self.gaps.iter_mut().flat_map(Gaps::all_mut);
        for gap in gaps.filter(|gap| gap.awaits(from) && gap.since_epoch <= epoch) {
            gap.awaited.retain(|(peer, _)| *peer != from);
            gap.missing.add_until(past.newest_unit);
            gap.is_handed_over &= past.has_handed_over;
        }
    }

    /// The greatest unit of events of which no node is left that knows; none where the time of day is not known.
    pub(crate) fn newest_unknown_unit(&self, present: &Present) -> Option<UnitNumber> {
        self.unknown(present).newest_unit()
    }

    fn unknown(&self, present: &Present) -> Missing {
        Missing::unknown(present, self.placement.nodes().len() > 1)
    }
}
