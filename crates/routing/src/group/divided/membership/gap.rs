//! What the slices of a node may lack, and until when that matters: a slice whose node was away has missed what was
//! recorded meanwhile, or has lost its cells; when all of that has expired, it is complete again without any data having
//! been moved.
//!
//! What it lacks is of no unit after `newest`: where it was only away, the greatest that the other nodes of the group know of
//! when they begin to set events here too. Where it has lost its cells, nobody knows of events that had all of theirs here,
//! and where another node is down or gone without having said, of those that this one has recorded; then it is the time of
//! day, with the skew of clocks and the rest of the leases by which others may record (`lease.rs`). Cells of `newest` expire at `newest + span`, and nothing is judged more than the lateness
//! before the present, so the slices are complete from
//!
//! `now = newest + span + lateness` on; and before that where all that is missing has been handed over (`missed.rs`).
//!
//! Promises: nothing is called complete that may lack an event of the window, unless its time was further in the future
//! than clocks may differ. Must not know: how the map learns of it, messages.

use firstseen_filter::WindowRule;

use super::{Membership, Present, Site};
use crate::group::divided::outbox::Outbox;
use crate::group::divided::own::OwnSlices;
use crate::group::divided::placement::Placement;
use crate::group::holding::Completeness;
use crate::group::lease::others_may_record_ms;
use crate::group::rules::Rule;
use crate::ids::{Incarnation, NodeId};
use crate::protocol::{Command, Past, PeerBody};

/// Nodes that have not answered are asked again, and the map is told again, after so long.
const AGAIN_MS: u64 = 1_000;

/// What the slices here may lack.
#[derive(Clone, Debug, Default)]
pub(super) struct Gaps {
    /// Of slices that were here.
    settled: Option<Gap>,
    /// Of slices that are on their way here: all that was recorded before they were given to this node.
    arriving: Option<Gap>,
    /// Which these are, and since which epoch.
    arrivals: Vec<(u32, u64)>,
}

/// What some slices may lack.
#[derive(Clone, Debug)]
struct Gap {
    /// Who has not said yet what it may have recorded.
    awaited: Vec<(NodeId, Incarnation)>,
    /// By which map it is known.
    since_epoch: u64,
    /// Nothing is missing that is of a later unit, as far as is known.
    newest_unit: u64,
    /// Beside that, something may be of any unit up to the time of day, which is not known yet.
    awaits_time: bool,
    /// All that is missing is handed over: the slices had everything before.
    is_handed_over: bool,
    /// Until then others may record without this node, in monotonic milliseconds.
    unshared_ms: u64,
    next_ask_ms: u64,
}

/// Of what nobody is left who knows.
#[derive(Clone, Copy, Debug)]
struct Unknown {
    /// It is of no later unit; none while it is not known what time it is.
    newest_unit: Option<u64>,
    /// Nobody adds to it from this monotonic time on.
    unshared_ms: u64,
}

impl Gap {
    /// Where the slices had everything before, `known_unit` is the greatest unit of that.
    fn of(placement: &Placement, unknown: Unknown, known_unit: Option<u64>) -> Self {
        let awaited: Vec<_> = placement.live_peers().collect();
        let others_know = !awaited.is_empty() && placement.down_peers().next().is_none();
        let known_unit = known_unit.filter(|_| others_know);
        let (newest_unit, is_handed_over) = (known_unit.or(unknown.newest_unit), known_unit.is_some());
        Self {
            awaited,
            since_epoch: placement.epoch(),
            newest_unit: newest_unit.unwrap_or(0),
            awaits_time: newest_unit.is_none(),
            is_handed_over,
            unshared_ms: if is_handed_over { 0 } else { unknown.unshared_ms },
            next_ask_ms: 0,
        }
    }

    /// Who has gone before it has said what it may have recorded takes that with it.
    fn follow(&mut self, placement: &Placement, unknown: Unknown) {
        let live: Vec<_> = placement.live_peers().collect();
        let before = self.awaited.len();
        self.awaited.retain(|peer| live.contains(peer));
        if self.awaited.len() < before {
            self.newest_unit = self.newest_unit.max(unknown.newest_unit.unwrap_or(0));
            self.awaits_time |= unknown.newest_unit.is_none();
            self.unshared_ms = self.unshared_ms.max(unknown.unshared_ms);
            self.is_handed_over = false;
        }
    }

    fn awaits(&self, peer: NodeId) -> bool {
        self.awaited.iter().any(|(awaited, _)| *awaited == peer)
    }

    /// Whether all that is missing was handed over.
    fn has_got_all(&self) -> bool {
        self.awaited.is_empty() && self.is_handed_over
    }

    /// The unit from which on all that is missing has expired.
    fn complete_from_unit(&self, rule: &WindowRule) -> Option<u64> {
        let is_known = self.awaited.is_empty() && !self.awaits_time;
        is_known.then(|| rule.expiry(self.newest_unit).saturating_add(rule.lateness_units))
    }
}

impl Gaps {
    fn all(&self) -> impl Iterator<Item = &Gap> {
        self.settled.iter().chain(&self.arriving)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Gap> {
        self.settled.iter_mut().chain(&mut self.arriving)
    }

    /// The slices that have begun to arrive since are not what is known of those before.
    fn follow_arrivals(&mut self, placement: &Placement, unknown: Unknown) {
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
    pub(in crate::group::divided) fn follow_gap(&mut self, present: &Present<'_>, own: &OwnSlices) {
        if !self.placement.lacks_here() {
            self.gaps = None;
            return;
        }
        // Nobody hands anything over to a node that is down.
        if self.placement.is_down_here() {
            self.gaps = None;
            self.fetch_anew();
            return;
        }
        let unknown = self.unknown(present);
        let known_unit = own.now_unit().max(present.clock.now_unit());
        let known_unit = (self.holding.now() != Completeness::Lacking).then_some(known_unit);
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

    /// Slices have come only now: what was recorded before, whatever is known of that, is not here.
    pub(super) fn begin_arrivals_anew(&mut self) {
        if let Some(gaps) = &mut self.gaps {
            gaps.arrivals.clear();
        }
    }

    /// Something that a node has set was refused: what it hands over is not all here.
    pub(in crate::group::divided) fn has_refused(&mut self, from: NodeId, present: &Present<'_>, own: &OwnSlices) {
        // It may be the first input.
        if self.has_unknown_gap() {
            self.follow_gap(present, own);
        }
        let gaps = self.gaps.iter_mut().flat_map(Gaps::all_mut);
        gaps.filter(|gap| gap.awaits(from)).for_each(|gap| gap.is_handed_over = false);
    }

    /// Asks who has not answered; has the map say which slices are complete, once they are.
    pub(in crate::group::divided) fn mind_gap(&mut self, present: &Present<'_>, own: &OwnSlices, outbox: &mut Outbox) {
        if !self.placement.lacks_here() {
            return;
        }
        // At the first input, when it is known what time it is.
        if self.has_unknown_gap() {
            self.follow_gap(present, own);
        }
        self.learn_the_time(present);
        let now_ms = present.now.monotonic_ms;
        let slices = self.complete_again(present, own);
        if !slices.is_empty() && now_ms >= self.next_claim_ms {
            self.next_claim_ms = now_ms + AGAIN_MS;
            let (Site { filter, group, incarnation, .. }, epoch) = (self.site, self.placement.epoch());
            outbox.push(Command::SlicesComplete { filter, group, slices, epoch, incarnation });
        }
        let mut asked = Vec::new();
        let gaps = self.gaps.iter_mut().flat_map(Gaps::all_mut);
        for gap in gaps.filter(|gap| !gap.awaited.is_empty() && now_ms >= gap.next_ask_ms) {
            gap.next_ask_ms = now_ms + AGAIN_MS;
            asked.extend(gap.awaited.iter().map(|(peer, _)| *peer));
        }
        asked.sort_unstable();
        asked.dedup();
        asked.into_iter().for_each(|peer| outbox.send(peer, PeerBody::AskPast));
    }

    /// What nobody is left who knows of is of no later unit than the time of day, once that is known.
    fn learn_the_time(&mut self, present: &Present<'_>) {
        if !self.awaits_time() {
            return;
        }
        let Some(newest_unit) = self.newest_unknown_unit(present) else { return };
        for gap in self.gaps.iter_mut().flat_map(Gaps::all_mut).filter(|gap| gap.awaits_time) {
            (gap.newest_unit, gap.awaits_time) = (gap.newest_unit.max(newest_unit), false);
        }
    }

    fn awaits_time(&self) -> bool {
        self.gaps.iter().flat_map(Gaps::all).any(|gap| gap.awaits_time)
    }

    /// Slices here that have all that counts, and of which the map does not say so.
    fn complete_again(&self, present: &Present<'_>, own: &OwnSlices) -> Vec<u32> {
        if self.placement.is_down_here() {
            return Vec::new();
        }
        // An event that says to occur after the present does not end a gap sooner.
        let latest_ms = present.now.wall_ms.saturating_add(present.limits.clock_skew_max_ms);
        let now_unit = present.clock.not_after(latest_ms, own.now_unit());
        let is_over = |gap: &Gap| {
            let complete_from = gap.complete_from_unit(own.rule()).filter(|_| own.has_window());
            let is_unshared = present.now.monotonic_ms >= gap.unshared_ms;
            gap.has_got_all() || is_unshared && complete_from.is_some_and(|unit| now_unit >= unit)
        };
        let gaps = || self.gaps.as_ref();
        let is_settled_over =
            self.holding.is_whole() || gaps().and_then(|gaps| gaps.settled.as_ref()).is_some_and(is_over);
        let is_arriving_over = gaps().and_then(|gaps| gaps.arriving.as_ref()).is_some_and(is_over);
        let has_all = |slice: &u32| match self.placement.is_arriving_here(*slice) {
            _ if !present.limits.rules.keep(Rule::MindsGaps) => true,
            _ if self.has_fetched(*slice) && self.knows_names_of(*slice, present.now.monotonic_ms) => true,
            true => is_arriving_over,
            false => is_settled_over,
        };
        self.placement.lacking_here().filter(|slice| own.has(*slice)).filter(has_all).collect()
    }

    /// Whether the others may still hand over what slices here have missed, or have done so and the map does not say so yet;
    /// slices that are on their way here do not count.
    pub(in crate::group::divided) fn is_catching_up(&self) -> bool {
        let lacks = || self.placement.lacking_here().any(|slice| !self.placement.is_arriving_here(slice));
        if !self.placement.lacks_here() || self.placement.is_down_here() || !lacks() {
            return false;
        }
        let may_be_handed_over = match self.gaps.as_ref().and_then(|gaps| gaps.settled.as_ref()) {
            Some(gap) => gap.is_handed_over,
            // Nobody has looked yet.
            None => self.holding.now() == Completeness::Interrupted,
        };
        self.holding.is_whole() || may_be_handed_over
    }

    /// Nobody has looked yet what the slices here may lack.
    fn has_unknown_gap(&self) -> bool {
        self.placement.lacks_here() && self.gaps.is_none() && !self.placement.is_down_here()
    }

    /// When [`Self::mind_gap`] has something to do, if nothing comes.
    pub(in crate::group::divided) fn next_gap_ms(&self, present: &Present<'_>, own: &OwnSlices) -> Option<u64> {
        if !self.placement.lacks_here() {
            return None;
        }
        if self.has_unknown_gap() || self.awaits_time() {
            return Some(0);
        }
        let gaps = self.gaps.iter().flat_map(Gaps::all);
        let asks = gaps.filter(|gap| !gap.awaited.is_empty()).map(|gap| gap.next_ask_ms);
        let claims = (!self.complete_again(present, own).is_empty()).then_some(self.next_claim_ms);
        asks.chain(claims).chain(self.next_fetch_ms()).chain(self.next_known_ms(present.now.monotonic_ms)).min()
    }

    /// The unit from which on the slices here are complete again; none where that is not known yet.
    pub(in crate::group::divided) fn complete_from_unit(&self, own: &OwnSlices) -> Option<u64> {
        let gaps = self.gaps.as_ref().filter(|_| own.has_window())?;
        let units: Option<Vec<u64>> = gaps.all().map(|gap| gap.complete_from_unit(own.rule())).collect();
        units?.into_iter().max()
    }

    /// Another node asks what was recorded without it. Only who sets its events there from now on can say; else it asks
    /// again.
    pub(in crate::group::divided) fn tell_past(
        &self,
        from: NodeId,
        epoch: u64,
        present: &Present<'_>,
        own: &OwnSlices,
        outbox: &mut Outbox,
    ) {
        if epoch > self.placement.epoch() || !self.placement.live_peers().any(|(peer, _)| peer == from) {
            return;
        }
        let handed_over = self.missed.handed_over(from);
        let known_unit = match self.gaps.as_ref().and_then(|gaps| gaps.settled.as_ref()) {
            _ if !handed_over.are_all_here => self.newest_unknown_unit(present),
            Some(gap) if gap.awaited.is_empty() => Some(gap.newest_unit).filter(|_| !gap.awaits_time),
            None if self.holding.is_whole() => Some(0),
            Some(_) | None => self.newest_unknown_unit(present),
        };
        // Whoever is not told asks again.
        let Some(known_unit) = known_unit else { return };
        let newest_unit = known_unit.max(own.now_unit()).max(present.clock.now_unit());
        let has_handed_over = handed_over.is_all;
        outbox.tell(from, PeerBody::Past(Past { newest_unit, has_handed_over }));
    }

    /// Another node says what it may have recorded, by the map of `epoch`. What was said by an older one than that of the gap comes
    /// late: it is about another.
    pub(in crate::group::divided) fn hear_past(&mut self, from: NodeId, past: Past, epoch: u64) {
        let gaps = self.gaps.iter_mut().flat_map(Gaps::all_mut);
        for gap in gaps.filter(|gap| gap.awaits(from) && gap.since_epoch <= epoch) {
            gap.awaited.retain(|(peer, _)| *peer != from);
            gap.newest_unit = gap.newest_unit.max(past.newest_unit);
            gap.is_handed_over &= past.has_handed_over;
        }
    }

    /// Nobody is left who knows of an event of a later unit; none where it is not known what time it is.
    pub(in crate::group::divided) fn newest_unknown_unit(&self, present: &Present<'_>) -> Option<u64> {
        self.unknown(present).newest_unit
    }

    fn unknown(&self, present: &Present<'_>) -> Unknown {
        let has_others = self.placement.nodes().len() > 1;
        let for_ms = if has_others { others_may_record_ms(present.limits) } else { 0 };
        let newest_ms = present.now.wall_ms.saturating_add(present.limits.clock_skew_max_ms).saturating_add(for_ms);
        Unknown {
            newest_unit: present.leave.doubt().is_none().then(|| present.clock.unit_at(newest_ms)),
            unshared_ms: present.now.monotonic_ms.saturating_add(for_ms),
        }
    }
}
