//! Handles copies of a slice that contains all positions of its events. One copy of the slice answers clients, and it
//! replies only after all other copies have recorded the event. A copy that lacks events does not answer clients. It
//! must first fetch the missing events from another copy, or wait until they have expired.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use firstseen_filter::{PartError, Probes};

use super::SingleSliceGroup;
use super::names::remembered;
use crate::group::completeness_tracker::Completeness;
use crate::group::copying::parts_of;
use crate::group::gap::Missing;
use crate::group::guard::ReplayGuard;
use crate::group::parts::TakesParts;
use crate::group::persisting::restore_names;
use crate::group::rules::Rule;
use crate::group::site::Site;
use crate::ids::{Epoch, Incarnation, NodeId};
use crate::map::{ClusterMap, FilterRecord};
use crate::protocol::{
    AskCells, BackupCells, CellParts, Command, Entry, HandedOver, Mirrored, Moment, MonotonicMs, PeerBody, PeerMessage,
    SetAcks, Submission,
};
use crate::verdict::{Decision, Reason};

impl SingleSliceGroup {
    /// Returns whether this slice may answer lookups and record events. If other copies of the slice exist, the cluster
    /// map must first list this copy as complete.
    ///
    /// Without this rule, another copy could be down when this copy begins to record events. The map would still list
    /// the other copy as complete, although it lacks these events.
    pub(super) fn is_known_whole(&self) -> bool {
        match self.completeness.now() {
            Completeness::Complete => true,
            Completeness::Whole => !self.mirrors.has_others(),
            Completeness::Interrupted | Completeness::Lacking => false,
        }
    }

    /// Returns whether the slice is complete, but the cluster map does not say so yet.
    pub(crate) fn is_catching_up(&self) -> bool {
        self.completeness.now() == Completeness::Whole && !self.mirrors.is_gone_here()
    }

    /// Begins to process an input. The range of events that the slice may lack is computed as soon as the time of day
    /// is known.
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

    /// Fetches the events that the slice lacks, and proposes the slice as complete to the cluster map once it is.
    pub(super) fn recover_gap(&mut self) {
        let now_ms = self.present.now_ms();
        let epoch = self.mirrors.epoch();
        let is_due = !self.completeness.is_complete() && self.is_complete_again(now_ms);
        let slices = if is_due { vec![0] } else { Vec::new() };
        self.commands.extend(self.proposals.propose(&self.site, slices, epoch, now_ms));
        self.joining.end_input(now_ms);
        self.ask_names();
        if !self.completeness.is_complete() && !self.mirrors.is_gone_here() {
            let Self { from_copies, mirrors, present, slice, .. } = self;
            if let Some((source, ask)) = from_copies.fetch(mirrors.sources(), epoch, present, slice) {
                self.joining.asked(now_ms);
                self.commands.push(self.mirrors.send(source, PeerBody::AskCells(ask)));
            }
        }
    }

    /// Returns whether the slice has become complete again.
    fn is_complete_again(&self, now_ms: MonotonicMs) -> bool {
        let Self { definition, present, .. } = self;
        let is_over = self
            .missing
            .as_ref()
            .is_some_and(|missing| missing.is_over(definition, present, present.clock().now_unit()));
        self.completeness.is_whole() || self.known_ms() <= now_ms && (self.has_fetched_all() || is_over)
    }

    /// Returns whether this copy has fetched everything that other copies recorded without it.
    pub(super) fn has_fetched_all(&self) -> bool {
        self.mirrors.has_others() && !self.mirrors.is_gone_here() && self.from_copies.fetched.has(0)
    }

    /// Returns the time from which the fetched cells count as complete. The cells alone are not sufficient, because a
    /// retry must get the same reply as its first attempt. This copy therefore waits until it knows the replies to all
    /// submissions that may still be retried. If no other node can send these replies, there is nothing to wait for.
    pub(super) fn known_ms(&self) -> MonotonicMs {
        let is_told = self.mirrors.has_live_origin() || self.mirrors.other_that_answers().is_some();
        self.joining.known_ms(is_told)
    }

    /// Returns whether this copy answers and is complete.
    fn answers(&self) -> bool {
        self.mirrors.is_asked() && self.completeness.is_complete()
    }

    /// Treats the node as restarted. The next cluster map says whether other copies have recorded anything meanwhile.
    pub(crate) fn mark_restarted(&mut self, incarnation: Incarnation, now: Moment) {
        self.present.begin(now);
        self.site.incarnation = incarnation;
        // The cluster map that marked the node down may have arrived together with the next one, so this state was not
        // saved before.
        if !self.mirrors.is_gone_here() {
            self.completeness.keep(self.completeness.is_whole());
        }
        self.completeness.forget_reported_completeness();
        self.from_copies.forget_fetched();
        self.mirrors.mark_restarted(self.site.first_number(), &mut self.commands);
        let Self { claiming, mirrors, .. } = self;
        if let Some(claiming) = claiming {
            claiming.mark_restarted(mirrors.epoch(), mirrors.live_nodes());
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

    /// Returns the record of a batch that was run, with its replies.
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

    /// Handles a message about the slice from another node.
    pub(crate) fn receive(&mut self, from: NodeId, message: PeerMessage, now: Moment) {
        self.present.begin(now);
        if let Some(claiming) = &mut self.claiming {
            claiming.head_changes_mut().hear(from, message.epoch);
        }
        match message.body {
            PeerBody::Mirror(Some(number), mirrored) => {
                let is_taken = self.mirrors.takes(message.epoch) || !self.present.keeps(Rule::FencesEpochs);
                let is_done = is_taken && self.take(&mirrored).is_ok();
                let mut acks = SetAcks::default();
                if is_done {
                    acks.set_numbers.push(number.number);
                    // This limit covers the most that other copies may have sent before they get acknowledgements, and
                    // the same again for records that are sent twice.
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
            PeerBody::AskCells(ask) if message.epoch <= self.mirrors.epoch() && self.completeness.is_complete() => {
                // Advancing the slice first lets the other node distinguish cells of a long past time from newer ones.
                self.slice.advance(ask.unit.min(self.present.clock().unit_at(self.present.latest_ms())));
                let parts = self.parts(&ask);
                self.commands.push(self.mirrors.send(from, PeerBody::Cells(parts)));
            }
            PeerBody::Cells(parts) => self.receive_cells(parts, message.epoch),
            // This copy is incomplete or has an older map, so its cells may be wrong for the other node.
            PeerBody::AskCells(_) => {}
            // These messages belong to groups whose slices share events.
            PeerBody::Test(_) | PeerBody::ClaimTests(_) | PeerBody::Resolved(_) | PeerBody::Set(_) => {}
            PeerBody::AskPast if message.epoch <= self.mirrors.epoch() && self.answers() => self.hand_names(from),
            PeerBody::Mirror(None, replied) => self.hear_names(&replied),
            PeerBody::HandedOver(handed) => self.receive_handed_over(handed),
            // This copy does not answer or has an older map, so its replies may be wrong for the other node.
            PeerBody::AskPast | PeerBody::Past(_) => {}
        }
        self.recover_gap();
    }

    /// Applies a record from another copy.
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

    /// Returns whether this copy is compared with other copies.
    pub(super) fn rescans(&self) -> bool {
        self.completeness.is_complete() && self.mirrors.has_others()
    }

    /// Compares this copy with another copy, if a comparison is due, and adds the cells that are missing here.
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

    fn receive_cells(&mut self, parts: CellParts, epoch: Epoch) {
        // An event that is late at the other copy must also be late here.
        self.present.clock_mut().restore(parts.clock);
        let is_complete = self.completeness.is_complete();
        if !is_complete && parts.asked.is_none() {
            self.joining.note_told(self.present.now_ms());
        }
        let keep = keeper(self.site, self.keeps_journal, &mut self.commands);
        if is_complete {
            self.from_copies.receive_for_comparison(parts, &self.present, &mut self.slice);
        } else {
            self.from_copies.receive_fetched(parts, epoch, &self.present, &mut self.slice, keep);
        }
    }

    fn parts(&self, ask: &AskCells) -> CellParts {
        parts_of(&self.slice, ask, self.present.limits().copied_at_once_bytes, self.present.clock().reading())
    }

    /// Reads cells of the slice for a backup.
    pub(crate) fn read_cells(&mut self, ask: &AskCells) -> Option<BackupCells> {
        if ask.slice != 0 || self.slice.outline().is_none() {
            return None;
        }
        self.slice.advance(self.present.clock().now_unit());
        Some(BackupCells { parts: self.parts(ask), is_complete: self.completeness.is_whole() })
    }

    /// Writes cells from a backup into the slice.
    pub(crate) fn write_cells(&mut self, parts: CellParts, now: Moment) -> Result<(), PartError> {
        self.present.clock_mut().restore(parts.clock);
        // If the window counts events, the events of the backup are not among those that are counted from now on.
        self.missing = None;
        self.begin(now);
        let mut keep = keeper(self.site, self.keeps_journal, &mut self.commands);
        parts.into_entries().try_for_each(|part| self.slice.take_part(part, &mut keep))
    }

    /// Forgets all remembered idempotency keys and their replies. They must not be used again, because they may never
    /// have reached their producers, and another copy may have sent different replies since.
    ///
    /// After this call, a retry is decided like a new submission. If its event is found, the retry's own first attempt
    /// may have recorded it, so the event must not simply be called a duplicate.
    pub(super) fn forget_names(&mut self) {
        self.guard = ReplayGuard::new(self.joining.horizon_ms(), self.present.limits().guard_bytes_max);
        self.joining.begin_at_next_input();
    }

    /// Asks the copy that answers for its remembered replies, if this copy needs them.
    pub(super) fn ask_names(&mut self) {
        let Some(answering) = self.mirrors.other_that_answers() else { return };
        if self.joining.asks(self.present.now_ms()) {
            self.commands.push(self.mirrors.send(answering, PeerBody::AskPast));
        }
    }

    /// Returns the time at which [`Self::ask_names`] has work to do.
    pub(super) fn next_ask_names_ms(&self) -> Option<MonotonicMs> {
        self.joining.next_ask_ms().filter(|_| self.mirrors.other_that_answers().is_some())
    }

    /// Sends the replies that this copy remembers to another copy.
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

    /// Receives remembered replies from the copy that answers. They are not persisted, because after a restart the copy
    /// asks again.
    pub(super) fn hear_names(&mut self, replied: &Mirrored) {
        let Mirrored { name, names, decisions, clock, .. } = replied.clone();
        if !self.mirrors.is_asked() {
            restore_names(Entry::Replied { name, names, decisions, clock }, &mut self.guard, &mut self.present);
        }
    }

    /// Handles the begin or end marker of the remembered replies that the answering copy sends.
    pub(super) fn receive_handed_over(&mut self, handed: HandedOver) {
        match handed.told_for_ms {
            0 => self.joining.begin_hearing(),
            told_for_ms => self.joining.end_hearing(told_for_ms, self.present.now_ms()),
        }
    }

    /// Applies a new cluster map. `record` is the map's record of the filter.
    pub(crate) fn map_changed(&mut self, map: &ClusterMap, record: Option<&FilterRecord>, now: Moment) {
        self.present.begin(now);
        let was_complete = self.completeness.is_whole();
        let was_gone = self.mirrors.is_gone_here();
        let complete = record.and_then(|record| is_complete(map, record, &self.site));
        let is_closed = self.present.follow(record.and_then(|record| record.line.absent()));
        if let Some(claiming) = &mut self.claiming {
            claiming.follow(map);
            if is_closed {
                claiming.close();
            }
        }
        self.completeness.follow(complete == Some(true), self.mirrors.has_gap_here());
        let Some(record) = record.filter(|_| complete.is_some()) else {
            self.refuses = Some(Reason::StaleMap);
            return self.mirrors.abandon(&mut self.commands);
        };
        let former_since = self.mirrors.arriving_since();
        let former_epoch = self.mirrors.epoch();
        let was_asked = self.mirrors.is_asked();
        let had_others = self.mirrors.has_others();
        if self.mirrors.follow(map, record, self.site.me, &mut self.commands) {
            self.forget_names();
        }
        // If this node missed a map, another copy may have answered in between.
        let is_unseen = self.mirrors.epoch().since(former_epoch) > 1 && (had_others || self.mirrors.has_others());
        if self.mirrors.is_asked() && (!was_asked || is_unseen) {
            self.note_head_change();
        }
        self.query_former_heads();
        self.completeness.follow(complete == Some(true), self.mirrors.has_gap_here());
        if self.mirrors.is_gone_here() && !was_gone {
            self.completeness.keep(was_complete);
        }
        // The slice may have left this node and come back in between.
        let has_come = self.mirrors.arriving_since().is_some_and(|since| former_since != Some(since));
        if has_come {
            self.completeness.keep(false);
            self.missing = None;
        }
        if self.completeness.is_complete() || self.mirrors.is_gone_here() || has_come {
            self.from_copies.forget_fetched();
        }
        self.recover_gap();
    }

    /// Sets the nodes that have been unreachable for so long that events do not wait for them.
    pub(crate) fn reach_changed(&mut self, unreachable: &BTreeSet<NodeId>) {
        self.mirrors.set_unreachable(unreachable.iter().copied());
    }

    /// Ends the wait of all records and replies for other copies of the slice, because the records cannot be completed
    /// on this node. The verdicts of the affected submissions become unknown, and the clients can retry them at another
    /// copy.
    pub(crate) fn abandon_in_flight(&mut self, now: Moment) {
        self.present.begin(now);
        self.mirrors.abandon(&mut self.commands);
    }

    /// Returns the number of events whose replies wait for other copies.
    pub(crate) fn inflight_events(&self) -> u64 {
        self.mirrors.held_events() as u64
    }
}

/// Returns whether the copy of the slice at this site is complete, or `None` if there is no copy.
pub(super) fn is_complete(map: &ClusterMap, record: &FilterRecord, site: &Site) -> Option<bool> {
    record.copies_of(site.group).find(|copy| copy.node == site.me).map(|copy| map.is_complete_copy(copy))
}

/// Returns a function that persists parts of copies. Each part becomes a separate record, because parts are long.
fn keeper(site: Site, keeps_journal: bool, commands: &mut Vec<Command>) -> impl FnMut(Entry) {
    move |part| {
        if keeps_journal {
            commands.push(site.persist(vec![part]));
        }
    }
}
