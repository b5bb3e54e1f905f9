//! What the slices of a node may lack, and until when that matters: a slice whose node was away has missed what was
//! recorded meanwhile, or has lost its cells; when all of that has expired, it is complete again without any data having
//! been moved.
//!
//! What it lacks is of no unit after `newest`: where it was only away, the greatest that the other nodes of the group know of
//! when they begin to set events here too. Where it has lost its cells, nobody knows of events that had all of theirs here,
//! and where another node is down or gone without having said, of those that this one has recorded; then it is the time of
//! day, with the skew of clocks. Cells of `newest` expire at `newest + span`, and nothing is judged more than the lateness
//! before the present, so the slices are complete from
//!
//! `now = newest + span + lateness` on; and before that where all that is missing has been handed over (`missed.rs`).
//!
//! Promises: nothing is called complete that may lack an event of the window, unless its time was further in the future
//! than clocks may differ. Must not know: how the map learns of it, messages.

use super::DividedGroup;
use super::placement::Placement;
use crate::{Command, Incarnation, NodeId, Past, PeerBody};

/// Nodes that have not answered are asked again, and the map is told again, after so long.
const AGAIN_MS: u64 = 1_000;

/// What the slices here may lack.
#[derive(Clone, Debug)]
pub(super) struct Gap {
    /// Who has not said yet what it may have recorded.
    awaited: Vec<(NodeId, Incarnation)>,
    /// Nothing is missing that is of a later unit, as far as is known.
    newest_unit: u64,
    /// All that is missing is handed over: the slices had everything before.
    is_handed_over: bool,
    next_ask_ms: u64,
}

impl Gap {
    /// Where the slices had everything before, `known_unit` is the greatest unit of that.
    fn of(placement: &Placement, unknown_unit: u64, known_unit: Option<u64>) -> Self {
        let awaited: Vec<_> = placement.live_peers().collect();
        let others_know = !awaited.is_empty() && placement.down_peers().next().is_none();
        let known_unit = known_unit.filter(|_| others_know);
        let (newest_unit, is_handed_over) = (known_unit.unwrap_or(unknown_unit), known_unit.is_some());
        Self { awaited, newest_unit, is_handed_over, next_ask_ms: 0 }
    }
}

impl DividedGroup {
    /// Follows the map: slices that have become incomplete have a gap, and those that are complete have none.
    pub(super) fn follow_gap(&mut self) {
        if self.complete {
            self.gap = None;
            return;
        }
        let unknown_unit = self.unknown_unit();
        // Nobody hands anything over to a node that is down.
        if self.placement.is_down_here() {
            self.gap = None;
            self.fetch_anew();
            return;
        }
        let known_unit = self.own.now_unit().max(self.clock.now_unit());
        let known_unit = (self.was_whole || self.is_restored).then_some(known_unit);
        let gap = self.gap.get_or_insert_with(|| Gap::of(&self.placement, unknown_unit, known_unit));
        let live: Vec<_> = self.placement.live_peers().collect();
        let before = gap.awaited.len();
        gap.awaited.retain(|peer| live.contains(peer));
        if gap.awaited.len() < before {
            // What it would have said is gone with it.
            gap.newest_unit = gap.newest_unit.max(unknown_unit);
            gap.is_handed_over = false;
        }
    }

    /// Something that a node has set was refused: what it hands over is not all here.
    pub(super) fn has_refused(&mut self, from: NodeId) {
        if let Some(gap) = self.gap.as_mut().filter(|gap| gap.awaited.iter().any(|(peer, _)| *peer == from)) {
            gap.is_handed_over = false;
        }
    }

    /// Asks who has not answered; once nothing is missing, has the map say that the slices are complete.
    pub(super) fn mind_gap(&mut self) {
        // At the first input, when it is known what time it is.
        if self.has_unknown_gap() {
            self.follow_gap();
        }
        let now_ms = self.now.monotonic_ms;
        let is_over = self.complete_from_unit().is_some_and(|unit| self.own.now_unit() >= unit);
        let is_over = is_over || self.gap.as_ref().is_some_and(|gap| gap.awaited.is_empty() && gap.is_handed_over);
        let is_over = is_over || self.has_fetched_all();
        if !self.complete && (self.is_whole() || is_over || !self.limits.minds_gaps) {
            if now_ms >= self.next_claim_ms {
                self.next_claim_ms = now_ms + AGAIN_MS;
                let Self { filter, group, incarnation, .. } = *self;
                self.outbox.push(Command::SlicesComplete { filter, group, incarnation });
            }
            return;
        }
        let Some(gap) = self.gap.as_mut().filter(|gap| !gap.awaited.is_empty() && now_ms >= gap.next_ask_ms) else {
            return;
        };
        gap.next_ask_ms = now_ms + AGAIN_MS;
        gap.awaited.iter().for_each(|(peer, _)| self.outbox.send(*peer, PeerBody::AskPast));
    }

    /// Nobody has looked yet what the slices here may lack.
    fn has_unknown_gap(&self) -> bool {
        !self.complete && self.gap.is_none() && !self.placement.is_down_here()
    }

    /// When [`Self::mind_gap`] has something to do, if nothing comes.
    pub(super) fn next_gap_ms(&self) -> Option<u64> {
        if self.has_unknown_gap() {
            return Some(0);
        }
        let asks = self.gap.as_ref().filter(|gap| !gap.awaited.is_empty()).map(|gap| gap.next_ask_ms);
        let is_handed_over = self.gap.as_ref().is_some_and(|gap| gap.awaited.is_empty() && gap.is_handed_over);
        let is_known = self.is_whole() || is_handed_over || self.has_fetched_all();
        let claims = (!self.complete && is_known).then_some(self.next_claim_ms);
        asks.into_iter().chain(claims).chain(self.next_fetch_ms()).min()
    }

    /// The unit from which on the slices here are complete again; none where that is not known yet.
    pub(super) fn complete_from_unit(&self) -> Option<u64> {
        let gap = self.gap.as_ref().filter(|gap| gap.awaited.is_empty() && self.own.has_window())?;
        let rule = self.own.rule();
        Some(rule.expiry(gap.newest_unit).saturating_add(rule.lateness_units))
    }

    /// Another node asks what was recorded without it. Only who sets its events there from now on can say; else it asks
    /// again.
    pub(super) fn tell_past(&mut self, from: NodeId, epoch: u64) {
        if epoch > self.placement.epoch() || !self.placement.live_peers().any(|(peer, _)| peer == from) {
            return;
        }
        let known_unit = match &self.gap {
            Some(gap) if gap.awaited.is_empty() => gap.newest_unit,
            None if self.is_whole() => 0,
            Some(_) | None => self.unknown_unit(),
        };
        let newest_unit = known_unit.max(self.own.now_unit()).max(self.clock.now_unit());
        let has_handed_over = self.missed.has_handed_over(from);
        self.outbox.tell(from, PeerBody::Past(Past { newest_unit, has_handed_over }));
    }

    /// Another node says what it may have recorded.
    pub(super) fn hear_past(&mut self, from: NodeId, past: Past) {
        let Some(gap) = &mut self.gap else { return };
        let before = gap.awaited.len();
        gap.awaited.retain(|(peer, _)| *peer != from);
        if gap.awaited.len() < before {
            gap.newest_unit = gap.newest_unit.max(past.newest_unit);
            gap.is_handed_over &= past.has_handed_over;
        }
    }

    /// Nobody is left who knows of an event of a later unit.
    pub(super) fn unknown_unit(&self) -> u64 {
        self.clock.unit_at(self.now.wall_ms.saturating_add(self.limits.clock_skew_max_ms))
    }
}
