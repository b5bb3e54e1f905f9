//! A slice that has all positions of its events, and its copies on other nodes.
//!
//! Promises: the other copies have recorded every event before this one replies; a copy that lacks something answers
//! nothing until it has fetched that, or it has expired. Must not know: which producer asks, how messages travel.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use firstseen_filter::{PartError, Probes};

use super::TogetherGroup;
use super::names::remembered;
use crate::group::copying::parts_of;
use crate::group::gap::Missing;
use crate::group::guard::ReplayGuard;
use crate::group::parts::TakesParts;
use crate::group::persisting::restore_names;
use crate::group::rules::Rule;
use crate::group::site::Site;
use crate::group::wholeness::Completeness;
use crate::ids::{Epoch, Incarnation, NodeId};
use crate::map::{ClusterMap, FilterRecord};
use crate::protocol::{
    AskCells, BackupCells, CellParts, Command, Entry, HandedOver, Mirrored, Moment, MonotonicMs, PeerBody, PeerMessage,
    SetAcks, Submission,
};
use crate::verdict::{Decision, Reason};

impl TogetherGroup {
    /// Whether the slice may answer and record. Beside other copies it may not before the map calls it complete: while
    /// the map knows no complete copy, a record makes no gap in copies that are down.
    pub(super) fn is_known_whole(&self) -> bool {
        match self.wholeness.now() {
            Completeness::Complete => true,
            Completeness::Whole => !self.mirrors.has_others(),
            Completeness::Interrupted | Completeness::Lacking => false,
        }
    }

    /// Whether the slice is complete, and the map does not say so yet.
    pub(crate) fn is_catching_up(&self) -> bool {
        self.wholeness.now() == Completeness::Whole && !self.mirrors.is_gone_here()
    }

    /// An input begins. What the slice may lack can be worked out once the time of day is known.
    pub(super) fn begin(&mut self, now: Moment) {
        self.present.begin(now);
        if let Some(claiming) = &mut self.claiming {
            claiming.note_time(now.monotonic_ms);
        }
        if self.present.doubt().is_none() {
            let Self { missing, present, mirrors, .. } = self;
            missing.get_or_insert_with(|| Missing::unknown(present, mirrors.has_others()));
        }
    }

    /// Proposes that the slice is complete, once it is, and fetches what it lacks.
    pub(super) fn mind_gap(&mut self) {
        let now_ms = self.present.now_ms();
        let epoch = self.mirrors.epoch();
        let is_due = !self.wholeness.is_complete() && self.is_complete_again(now_ms);
        let slices = if is_due { vec![0] } else { Vec::new() };
        self.commands.extend(self.proposals.propose(&self.site, slices, epoch, now_ms));
        self.joining.end_input(now_ms);
        self.ask_names();
        if !self.wholeness.is_complete() && !self.mirrors.is_gone_here() {
            let Self { from_copies, mirrors, present, slice, .. } = self;
            if let Some((source, ask)) = from_copies.fetch(mirrors.sources(), epoch, present, slice) {
                self.joining.asked(now_ms);
                self.commands.push(self.mirrors.send(source, PeerBody::AskCells(ask)));
            }
        }
    }

    /// Whether the slice is complete again.
    fn is_complete_again(&self, now_ms: MonotonicMs) -> bool {
        let Self { definition, present, .. } = self;
        let is_over = self
            .missing
            .as_ref()
            .is_some_and(|missing| missing.is_over(definition, present, present.clock().now_unit()));
        self.wholeness.is_whole() || self.known_ms() <= now_ms && (self.has_fetched_all() || is_over)
    }

    /// Whether everything is here that other copies have recorded without this one.
    pub(super) fn has_fetched_all(&self) -> bool {
        self.mirrors.has_others() && !self.mirrors.is_gone_here() && self.from_copies.fetched.has(0)
    }

    /// When the cells here count as complete: once all names that may come again are known, where a node sends the replies to them.
    pub(super) fn known_ms(&self) -> MonotonicMs {
        let is_told = self.mirrors.has_live_origin() || self.mirrors.other_that_answers().is_some();
        self.joining.known_ms(is_told)
    }

    /// Whether this copy answers, and has everything.
    fn answers(&self) -> bool {
        self.mirrors.is_asked() && self.wholeness.is_complete()
    }

    /// The node counts as started anew. The map says whether others have recorded anything meanwhile.
    pub(crate) fn begin_anew(&mut self, incarnation: Incarnation, now: Moment) {
        self.present.begin(now);
        self.site.incarnation = incarnation;
        // The map by which the node was down may have arrived together with the next one.
        if !self.mirrors.is_gone_here() {
            self.wholeness.keep(self.wholeness.is_whole());
        }
        self.wholeness.distrust();
        self.from_copies.forget_fetched();
        self.mirrors.begin_anew(self.site.first_number(), &mut self.commands);
        let Self { claiming, mirrors, .. } = self;
        if let Some(claiming) = claiming {
            claiming.begin_anew(mirrors.epoch(), mirrors.live_nodes());
        }
        if self.mirrors.has_others() {
            self.forget_names();
            self.missing = None;
        }
    }

    /// Persists the record of a batch with its replies, and sends it to the other copies.
    pub(super) fn tell_copies(&mut self, submission: &Submission, decisions: &[Decision]) {
        if !self.keeps_journal && !self.mirrors.has_others() {
            return;
        }
        let mirrored = self.mirrored(submission, decisions);
        if self.keeps_journal {
            self.commands.push(self.site.persist(mirrored.clone().into_entries()));
        }
        self.mirrors.push(mirrored, &mut self.commands);
    }

    /// The record of a batch that was run, with its replies.
    fn mirrored(&self, submission: &Submission, decisions: &[Decision]) -> Mirrored {
        let mut probes = Probes::new(submission.probes.shape());
        let mut stamps = Vec::new();
        for event in self.workbench.runs.iter().cloned().flatten() {
            let is_recorded = match decisions[event] {
                Decision::FirstSeen => true,
                Decision::Duplicate => self.refreshes,
                Decision::Undecided(_) => false,
            };
            if is_recorded {
                probes.push_from(&submission.probes, event);
                stamps.push(self.workbench.stamps[event]);
            }
        }
        Mirrored {
            name: submission.name(),
            names: submission.named_events().collect(),
            decisions: decisions.to_vec(),
            clock: self.present.clock().reading(),
            generation: self.slice.newest_generation(),
            probes,
            stamps,
        }
    }

    /// Handles a message of another node about the slice.
    pub(crate) fn receive(&mut self, from: NodeId, message: PeerMessage, now: Moment) {
        self.present.begin(now);
        if let Some(claiming) = &mut self.claiming {
            claiming.unsure_mut().hear(from, message.epoch);
        }
        match message.body {
            PeerBody::Mirror(Some(number), mirrored) => {
                let is_taken = self.mirrors.takes(message.epoch) || !self.present.keeps(Rule::FencesEpochs);
                let is_done = is_taken && self.take(&mirrored).is_ok();
                let mut acks = SetAcks::default();
                if is_done {
                    acks.set_numbers.push(number.number);
                    // The most that other copies may have sent before they get acknowledgements, and as much again for
                    // records that are sent twice.
                    let limits = self.present.limits();
                    let events_max = 2 * (limits.inflight_events_max + limits.batch_events_max);
                    self.mirrors.heard.push(from, message.epoch, number, &mirrored, events_max);
                } else {
                    acks.refused_numbers.push(number.number);
                }
                self.commands.push(self.mirrors.send(from, PeerBody::SetAcks(acks)));
            }
            PeerBody::SetAcks(acks) => {
                self.mirrors.acknowledged(from, &acks.set_numbers, &mut self.commands);
                match message.epoch.cmp(&self.mirrors.epoch()) {
                    Ordering::Less => {
                        self.mirrors.send_again_to_new_copy(from, &acks.refused_numbers, &mut self.commands)
                    }
                    Ordering::Equal => self.mirrors.refused(from, &acks.refused_numbers, self.present.now_ms()),
                    Ordering::Greater => {}
                }
            }
            PeerBody::AskCells(ask) if message.epoch <= self.mirrors.epoch() && self.wholeness.is_complete() => {
                // Otherwise the other node could not distinguish cells of a time long past from newer ones.
                self.slice.advance(ask.unit.min(self.present.clock().unit_at(self.present.latest_ms())));
                let parts = self.parts(&ask);
                self.commands.push(self.mirrors.send(from, PeerBody::Cells(parts)));
            }
            PeerBody::Cells(parts) => self.hear_cells(parts, message.epoch),
            // Cells that this copy cannot vouch for.
            PeerBody::AskCells(_) => {}
            // Messages of groups whose slices share events.
            PeerBody::Test(_) | PeerBody::ClaimTests(_) | PeerBody::Resolved(_) | PeerBody::Set(_) => {}
            PeerBody::AskPast if message.epoch <= self.mirrors.epoch() && self.answers() => self.hand_names(from),
            PeerBody::Mirror(None, replied) => self.hear_names(&replied),
            PeerBody::HandedOver(handed) => self.hear_handed_over(handed),
            // Replies that this copy cannot vouch for.
            PeerBody::AskPast | PeerBody::Past(_) => {}
        }
        self.mind_gap();
    }

    /// Takes a record of another copy.
    fn take(&mut self, mirrored: &Arc<Mirrored>) -> Result<(), PartError> {
        let mirrored = Mirrored::clone(mirrored);
        let says_something = !mirrored.decisions.is_empty();
        let keeps = self.keeps_journal && says_something;
        let record = keeps.then(|| self.site.persist(mirrored.clone().into_entries()));
        self.load.record_visits += mirrored.stamps.len() as u64;
        mirrored.into_entries().into_iter().try_for_each(|entry| self.put(entry))?;
        self.commands.extend(record);
        Ok(())
    }

    /// Whether this copy is compared with others.
    pub(super) fn rescans(&self) -> bool {
        self.wholeness.is_complete() && self.mirrors.has_others()
    }

    /// Reads another copy, if that is due, and puts in the cells that are missing here.
    pub(super) fn rescan(&mut self) {
        if !self.rescans() {
            return;
        }
        let Self { from_copies, mirrors, slice, present, .. } = self;
        let keep = keeper(self.site, self.keeps_journal, &mut self.commands);
        if let Some((source, ask)) = from_copies.compare(mirrors.sources(), present, slice, keep) {
            self.commands.push(self.mirrors.send(source, PeerBody::AskCells(ask)));
        }
    }

    fn hear_cells(&mut self, parts: CellParts, epoch: Epoch) {
        // An event that is late at the other copy must be late here.
        self.present.clock_mut().restore(parts.clock);
        let is_complete = self.wholeness.is_complete();
        if !is_complete && parts.asked.is_none() {
            self.joining.note_told(self.present.now_ms());
        }
        let keep = keeper(self.site, self.keeps_journal, &mut self.commands);
        if is_complete {
            self.from_copies.hear_to_compare(parts, &self.present, &mut self.slice);
        } else {
            self.from_copies.hear_fetched(parts, epoch, &self.present, &mut self.slice, keep);
        }
    }

    fn parts(&self, ask: &AskCells) -> CellParts {
        parts_of(&self.slice, ask, self.present.limits().copied_at_once_bytes, self.present.clock().reading())
    }

    /// The cells for a backup.
    pub(crate) fn read_cells(&mut self, ask: &AskCells) -> Option<BackupCells> {
        if ask.slice != 0 || self.slice.outline().is_none() {
            return None;
        }
        self.slice.advance(self.present.clock().now_unit());
        Some(BackupCells { parts: self.parts(ask), is_complete: self.wholeness.is_whole() })
    }

    /// Puts in cells of a backup.
    pub(crate) fn write_cells(&mut self, parts: CellParts, now: Moment) -> Result<(), PartError> {
        self.present.clock_mut().restore(parts.clock);
        // Where the window counts events, those of the backup are not among the ones counted from now on.
        self.missing = None;
        self.begin(now);
        let mut keep = keeper(self.site, self.keeps_journal, &mut self.commands);
        parts.into_entries().try_for_each(|part| self.slice.take_part(part, &mut keep))
    }

    /// Forgets names and their replies, as these may never have been sent: another copy may have replied something else
    /// since. A retry is decided anew; if it is found, it may be a duplicate only of its own first attempt.
    pub(super) fn forget_names(&mut self) {
        self.guard = ReplayGuard::new(self.joining.horizon_ms(), self.present.limits().guard_bytes_max);
        self.joining.begin_at_next_input();
    }

    /// Asks the copy that answers for its replies, if they are needed.
    pub(super) fn ask_names(&mut self) {
        let Some(answering) = self.mirrors.other_that_answers() else { return };
        if self.joining.asks(self.present.now_ms()) {
            self.commands.push(self.mirrors.send(answering, PeerBody::AskPast));
        }
    }

    /// When [`Self::ask_names`] has something to do.
    pub(super) fn next_ask_names_ms(&self) -> Option<MonotonicMs> {
        self.joining.next_ask_ms().filter(|_| self.mirrors.other_that_answers().is_some())
    }

    /// Sends another copy the replies that are remembered here.
    pub(super) fn hand_names(&mut self, to: NodeId) {
        let now_ms = self.present.now_ms();
        let clock = self.present.clock().reading();
        let replies = remembered(&self.guard, clock, &self.slice);
        let whole_since_ms = self.guard.whole_since_ms();
        let whole_for_ms = if whole_since_ms == MonotonicMs::START { u64::MAX } else { now_ms.since(whole_since_ms) };
        let known_for_ms = if replies.is_some() { self.joining.known_for_ms(now_ms).min(whole_for_ms) } else { 0 };
        self.commands.push(self.mirrors.send(to, self.handed_over(0)));
        for replied in replies.into_iter().flatten() {
            self.commands.push(self.mirrors.send(to, PeerBody::Mirror(None, Arc::new(replied))));
        }
        self.commands.push(self.mirrors.send(to, self.handed_over(known_for_ms.max(1))));
    }

    fn handed_over(&self, told_for_ms: u64) -> PeerBody {
        PeerBody::HandedOver(HandedOver { epoch: self.mirrors.epoch(), told_for_ms })
    }

    /// Takes replies of the copy that answers. They are not persisted: after a start, the copy asks again.
    pub(super) fn hear_names(&mut self, replied: &Mirrored) {
        let Mirrored { name, names, decisions, clock, .. } = replied.clone();
        if !self.mirrors.is_asked() {
            restore_names(Entry::Replied { name, names, decisions, clock }, &mut self.guard, &mut self.present);
        }
    }

    /// The replies of the copy that answers begin or end.
    pub(super) fn hear_handed_over(&mut self, handed: HandedOver) {
        match handed.told_for_ms {
            0 => self.joining.begin_hearing(),
            told_for_ms => self.joining.end_hearing(told_for_ms, self.present.now_ms()),
        }
    }

    /// The map has changed; `record` is its record of the filter.
    pub(crate) fn map_changed(&mut self, map: &ClusterMap, record: Option<&FilterRecord>, now: Moment) {
        self.present.begin(now);
        let was_whole = self.wholeness.is_whole();
        let was_gone = self.mirrors.is_gone_here();
        let complete = record.and_then(|record| is_complete(map, record, &self.site));
        let is_closed = self.present.follow(record.and_then(|record| record.line.absent()));
        if let Some(claiming) = &mut self.claiming {
            claiming.follow(map);
            if is_closed {
                claiming.close();
            }
        }
        self.wholeness.follow(complete == Some(true), self.mirrors.has_gap_here());
        let Some(record) = record.filter(|_| complete.is_some()) else {
            self.refuses = Some(Reason::StaleMap);
            return self.mirrors.give_up(&mut self.commands);
        };
        let former_since = self.mirrors.arriving_since();
        let former_epoch = self.mirrors.epoch();
        let was_asked = self.mirrors.is_asked();
        let had_others = self.mirrors.has_others();
        if self.mirrors.follow(map, record, self.site.me, &mut self.commands) {
            self.forget_names();
        }
        // Where a map was missed, another copy may have answered in between.
        let is_unseen = self.mirrors.epoch().since(former_epoch) > 1 && (had_others || self.mirrors.has_others());
        if self.mirrors.is_asked() && (!was_asked || is_unseen) {
            self.become_unsure();
        }
        self.mind_unsure();
        self.wholeness.follow(complete == Some(true), self.mirrors.has_gap_here());
        if self.mirrors.is_gone_here() && !was_gone {
            self.wholeness.keep(was_whole);
        }
        // The slice may have left and come again in between.
        let has_come = self.mirrors.arriving_since().is_some_and(|since| former_since != Some(since));
        if has_come {
            self.wholeness.keep(false);
            self.missing = None;
        }
        if self.wholeness.is_complete() || self.mirrors.is_gone_here() || has_come {
            self.from_copies.forget_fetched();
        }
        self.mind_gap();
    }

    /// These nodes have been out of reach for so long that events do not wait for them.
    pub(crate) fn reach_changed(&mut self, unreachable: &BTreeSet<NodeId>) {
        self.mirrors.set_unreachable(unreachable.iter().copied());
    }

    /// No record or reply that waits for other copies can end here: the submissions get unknown verdicts, and their
    /// clients ask another copy.
    pub(crate) fn give_up_flights(&mut self, now: Moment) {
        self.present.begin(now);
        self.mirrors.give_up(&mut self.commands);
    }

    /// Events whose replies wait for other copies.
    pub(crate) fn inflight_events(&self) -> u64 {
        self.mirrors.held_events() as u64
    }
}

/// Whether the copy of the slice at this site is complete; none where there is none.
pub(super) fn is_complete(map: &ClusterMap, record: &FilterRecord, site: &Site) -> Option<bool> {
    record.copies_of(site.group).find(|copy| copy.node == site.me).map(|copy| map.is_complete_copy(copy))
}

/// Persists parts of copies, each as a record of its own, as they are long.
fn keeper(site: Site, keeps_journal: bool, commands: &mut Vec<Command>) -> impl FnMut(Entry) {
    move |part| {
        if keeps_journal {
            commands.push(site.persist(vec![part]));
        }
    }
}
