//! A slice that has all positions of its events, and its copies on other nodes.
//!
//! Promises: what one copy answers, the others have recorded; a copy that lacks something says nothing until it has fetched
//! that, or it has expired. Must not know: who asks, how messages travel.

use std::collections::BTreeSet;
use std::sync::Arc;

use firstseen_filter::{PartError, Probes};

use super::TogetherGroup;
use crate::group::copying::{Copying, told};
use crate::group::guard::ReplayGuard;
use crate::group::holding::Completeness;
use crate::group::lease::Lease;
use crate::group::limits::NAMES_AWAITED_MS_MAX;
use crate::group::rescan::IsPut;
use crate::group::rules::Rule;
use crate::group::state::begin_ms;
use crate::ids::{Incarnation, NodeId};
use crate::map::{ClusterMap, FilterRecord};
use crate::protocol::{
    AskCells, CellParts, Command, Entry, Mirrored, Moment, PeerBody, PeerMessage, Record, SetAcks, Submission,
};
use crate::verdict::{Decision, Reason};

impl TogetherGroup {
    /// Whether it may answer and record: beside other copies not before the map knows that it has everything, as what is
    /// recorded where the map knows of no such copy opens no gap in those that are down.
    pub(super) fn is_known_whole(&self) -> bool {
        match self.holding.now() {
            Completeness::Complete => true,
            Completeness::Whole => !self.mirrors.has_others(),
            Completeness::Interrupted | Completeness::Lacking => false,
        }
    }

    /// Whether the slice has everything, and the map does not say so yet.
    pub(crate) fn is_catching_up(&self) -> bool {
        self.holding.now() == Completeness::Whole && !self.mirrors.is_down_here()
    }

    /// Until when this node may record.
    pub(crate) fn set_lease(&mut self, lease: Lease) {
        self.leave.set_lease(lease, self.limits.rules);
    }

    /// Why the time of day is not to be relied on, where that is so.
    pub(crate) fn set_doubt(&mut self, doubt: Option<Reason>) {
        self.leave.set_doubt(doubt, &self.clock);
    }

    /// What the slice may lack is known as soon as it is known what time it is.
    pub(super) fn open_gap(&mut self, now: Moment) {
        if self.leave.doubt().is_none() {
            self.gap.open(&self.clock, now, self.mirrors.has_others());
        }
    }

    /// What is told of events that are not here, where nothing is recorded.
    pub(super) fn unrecorded(&self, now: Moment) -> Option<Reason> {
        self.leave.absent().or_else(|| self.leave.cut_off(now))
    }

    pub(super) fn complete_from_ms(&self) -> Option<u64> {
        let unit = self.gap.complete_from_unit().filter(|_| !self.holding.is_complete())?;
        begin_ms(&self.unit, unit)
    }

    /// Has the map say that the slice is complete, once it is.
    pub(super) fn mind_gap(&mut self, now: Moment, commands: &mut Vec<Command>) {
        let has_fetched = self.has_fetched_all() && self.known_ms() <= now.monotonic_ms;
        let is_due = !self.holding.is_complete()
            && (self.holding.is_whole() || has_fetched || self.gap.is_over(&self.clock, now));
        if is_due && self.gap.may_claim(now) {
            let Self { filter, number: group, incarnation, .. } = *self;
            let epoch = self.mirrors.epoch();
            commands.push(Command::SlicesComplete { filter, group, slices: vec![0], epoch, incarnation });
        }
        if std::mem::take(&mut self.is_joining) {
            self.joined_ms = Some(now.monotonic_ms);
        }
        if !self.holding.is_complete() && !self.mirrors.is_down_here() {
            let (unit, epoch, now_ms) = (self.clock.now_unit(), self.mirrors.epoch(), now.monotonic_ms);
            if let Some((source, ask)) = self.copying.ask(self.mirrors.sources(), (unit, epoch), now_ms) {
                self.joined_ms.get_or_insert(now_ms);
                commands.push(self.mirrors.send(source, PeerBody::AskCells(ask)));
            }
        }
    }

    /// Whether all that was recorded in other copies without this one is here.
    pub(super) fn has_fetched_all(&self) -> bool {
        self.mirrors.has_others() && !self.mirrors.is_down_here() && self.copying.has(0)
    }

    /// When what was fetched counts: once the names that may come again are known, where somebody tells them.
    pub(super) fn known_ms(&self) -> u64 {
        let wait_ms = self.horizon_ms.min(NAMES_AWAITED_MS_MAX);
        let joined_ms = self.joined_ms.filter(|_| self.mirrors.has_live_origin());
        joined_ms.map_or(0, |joined_ms| joined_ms + wait_ms)
    }

    /// The node counts as started anew. Whether others have recorded anything meanwhile, the map says.
    pub(crate) fn begin_anew(&mut self, incarnation: Incarnation, commands: &mut Vec<Command>) {
        self.incarnation = incarnation;
        // The map by which it was down may have come together with the next.
        if !self.mirrors.is_down_here() {
            self.holding.keep(self.holding.is_whole());
        }
        self.holding.distrust();
        self.copying = Copying::default();
        self.mirrors.begin_anew(first_number(incarnation), commands);
        if self.mirrors.has_others() {
            self.forget_names();
            self.gap.reopen();
        }
    }

    /// What was recorded and told of a batch is kept, and goes to the other copies.
    pub(super) fn tell_copies(&mut self, submission: &Submission, decisions: &[Decision], commands: &mut Vec<Command>) {
        if !self.keeps_journal && !self.mirrors.has_others() {
            return;
        }
        let mirrored = self.mirrored(submission, decisions);
        if self.keeps_journal {
            commands.push(Command::Record(self.record_of(mirrored.clone())));
        }
        self.mirrors.push(mirrored, commands);
    }

    /// What was recorded of a batch that was run, and told.
    pub(super) fn mirrored(&self, submission: &Submission, decisions: &[Decision]) -> Mirrored {
        let mut probes = Probes::new(submission.probes.shape());
        let mut stamps = Vec::new();
        let is_recorded = |decision: Decision| match decision {
            Decision::FirstSeen => true,
            Decision::Duplicate => self.refreshes,
            Decision::Undecided(_) => false,
        };
        for event in self.workbench.runs.iter().cloned().flatten().filter(|event| is_recorded(decisions[*event])) {
            probes.push_from(&submission.probes, event);
            stamps.push(self.workbench.stamps[event]);
        }
        Mirrored {
            name: submission.name(),
            names: submission.named_events().collect(),
            decisions: decisions.to_vec(),
            clock: self.clock.reading(),
            generation: self.slice.newest_generation(),
            probes,
            stamps,
        }
    }

    pub(super) fn record_of(&self, mirrored: Mirrored) -> Record {
        Record { filter: self.filter, group: self.number, entries: mirrored.into_entries() }
    }

    /// Another node has something to say of the slice.
    pub(crate) fn receive(&mut self, from: NodeId, message: PeerMessage, now: Moment, commands: &mut Vec<Command>) {
        match message.body {
            PeerBody::Mirror(number, mirrored) => {
                let is_taken = self.mirrors.takes(message.epoch) || !self.limits.rules.keep(Rule::FencesEpochs);
                let is_done = is_taken && self.take(&mirrored, now, commands).is_ok();
                if is_done {
                    // What others are told at most before they have said that they have it, and what of that comes twice.
                    let events_max = 2 * (self.limits.inflight_events_max + self.limits.batch_events_max);
                    self.mirrors.heard((from, message.epoch), number, &mirrored, events_max);
                }
                let (set_numbers, refused_numbers) =
                    if is_done { (vec![number.number], Vec::new()) } else { (Vec::new(), vec![number.number]) };
                let acks = PeerBody::SetAcks(SetAcks { set_numbers, refused_numbers });
                commands.push(self.mirrors.send(from, acks));
            }
            PeerBody::SetAcks(acks) => {
                self.mirrors.acknowledged(from, &acks.set_numbers, commands);
                if message.epoch < self.mirrors.epoch() {
                    self.mirrors.send_early_again(from, &acks.refused_numbers, commands);
                }
            }
            PeerBody::AskCells(ask) if message.epoch <= self.mirrors.epoch() && self.holding.is_complete() => {
                // Cells of a time that is long over could not be told apart there.
                let present_unit = self.clock.unit_at(now.wall_ms.saturating_add(self.limits.clock_skew_max_ms));
                self.slice.advance(ask.unit.min(present_unit));
                let parts = told(&self.slice, &ask, self.limits.copied_at_once_bytes, self.clock.reading());
                commands.push(self.mirrors.send(from, PeerBody::Cells(parts)));
            }
            PeerBody::Cells(parts) => self.hear_cells(parts, message.epoch, now, commands),
            // Of groups whose slices share events.
            _ => {}
        }
        self.mind_gap(now, commands);
    }

    /// Records what another copy has recorded.
    pub(super) fn take(
        &mut self,
        mirrored: &Arc<Mirrored>,
        now: Moment,
        commands: &mut Vec<Command>,
    ) -> Result<(), PartError> {
        let mirrored = Mirrored::clone(mirrored);
        let record = self.keeps_journal.then(|| self.record_of(mirrored.clone()));
        self.load.record_visits += mirrored.stamps.len() as u64;
        mirrored.into_entries().into_iter().try_for_each(|entry| self.restore(entry, now))?;
        commands.extend(record.map(Command::Record));
        Ok(())
    }

    /// Whether this copy is compared with others.
    pub(super) fn rescans(&self) -> bool {
        self.holding.is_complete() && self.mirrors.has_others()
    }

    /// Reads another copy, if it is time, and puts in what is missing here.
    pub(super) fn rescan(&mut self, now: Moment, commands: &mut Vec<Command>) {
        if !self.rescans() {
            return;
        }
        let Self { rescan, slice, keeps_journal, filter, number, .. } = self;
        rescan.mend(now.monotonic_ms, |_, run, is_put| {
            if is_put == IsPut::Not {
                return slice.lacks_cells(run);
            }
            let lacks = slice.put_missing_cells(run)?;
            if lacks && *keeps_journal {
                let entries = vec![Entry::Cells { slice: 0, run: run.clone() }];
                commands.push(Command::Record(Record { filter: *filter, group: *number, entries }));
            }
            Ok(lacks)
        });
        let unit = self.clock.now_unit();
        if let Some((source, ask)) = self.rescan.ask(self.mirrors.sources(), unit, now.monotonic_ms) {
            commands.push(self.mirrors.send(source, PeerBody::AskCells(ask)));
        }
    }

    /// What another copy has that has everything, as this one.
    fn compare_cells(&mut self, parts: CellParts, now: Moment) {
        self.clock.restore(parts.clock);
        let Self { rescan, slice, limits, .. } = self;
        let bytes_per_s_max = limits.compared_bytes_per_s_max;
        rescan.hear(parts, now.monotonic_ms, bytes_per_s_max, |_, run| slice.lacks_cells(run));
    }

    pub(super) fn hear_cells(&mut self, parts: CellParts, epoch: u64, now: Moment, commands: &mut Vec<Command>) {
        if self.holding.is_complete() {
            return self.compare_cells(parts, now);
        }
        // What is late there is late here.
        self.clock.restore(parts.clock);
        if parts.asked.is_none() {
            // Whoever says this tells this copy what it tells under which name, by now.
            self.joined_ms = Some(now.monotonic_ms);
        }
        let (mut copying, limits) = (std::mem::take(&mut self.copying), self.limits);
        copying.hear(parts, (epoch, now.monotonic_ms), &limits, |part| self.put_part(part, commands));
        self.copying = copying;
    }

    /// Puts a part of another copy in, and keeps it.
    fn put_part(&mut self, part: Entry, commands: &mut Vec<Command>) -> Result<(), PartError> {
        match &part {
            Entry::Slice { slice: 0, outline } => self.slice.put_outline(outline)?,
            Entry::Cells { slice: 0, run } => self.slice.put_cells(run)?,
            _ => return Err(PartError::Misfit("a slice that is not here")),
        }
        if self.keeps_journal {
            let (filter, group) = (self.filter, self.number);
            commands.push(Command::Record(Record { filter, group, entries: vec![part] }));
        }
        Ok(())
    }

    /// Cells for a backup, and whether they are all that was ever recorded.
    pub(crate) fn read_cells(&mut self, ask: &AskCells) -> Option<(CellParts, bool)> {
        if ask.slice != 0 || self.slice.outline().is_none() {
            return None;
        }
        self.slice.advance(self.clock.now_unit());
        let parts = told(&self.slice, ask, self.limits.copied_at_once_bytes, self.clock.reading());
        Some((parts, self.holding.is_whole()))
    }

    /// Puts cells of a backup in.
    pub(crate) fn write_cells(
        &mut self,
        parts: CellParts,
        now: Moment,
        commands: &mut Vec<Command>,
    ) -> Result<(), PartError> {
        self.clock.restore(parts.clock);
        // Where events make the window, those of the backup are not counted from now on.
        self.gap.reopen();
        self.open_gap(now);
        parts.into_entries().try_for_each(|part| self.put_part(part, commands))
    }

    /// Whether a batch that is found may be found because of itself: it came before this copy knew what was told.
    pub(super) fn may_be_its_own(&self, submission: &Submission, now: Moment) -> bool {
        let is_young = |joined_ms: u64| now.monotonic_ms.saturating_sub(joined_ms) < self.horizon_ms;
        (submission.again || !submission.names.is_empty()) && (self.is_joining || self.joined_ms.is_some_and(is_young))
    }

    /// What is remembered of submissions may have been told by nobody: another copy may have told something else since. A
    /// retry is decided anew, and if it is found, nobody knows because of whom.
    pub(super) fn forget_names(&mut self) {
        self.guard = ReplayGuard::new(self.horizon_ms, self.limits.guard_bytes_max);
        self.is_joining = true;
    }

    /// The map has changed; `record` is what it says of the filter.
    pub(crate) fn map_changed(
        &mut self,
        map: &ClusterMap,
        record: Option<&FilterRecord>,
        now: Moment,
        commands: &mut Vec<Command>,
    ) {
        let (was_whole, was_down) = (self.holding.is_whole(), self.mirrors.is_down_here());
        let complete = record.and_then(|record| is_complete(map, record, self.number, self.me));
        self.leave.follow(record.and_then(|record| record.line.absent()));
        self.holding.follow(complete == Some(true), self.mirrors.has_gap_here());
        let Some(record) = record.filter(|_| complete.is_some()) else {
            self.closed = Some(Reason::StaleMap);
            return self.mirrors.give_up(commands);
        };
        let former_since = self.mirrors.arriving_since();
        if self.mirrors.follow(map, record, self.me, commands) {
            self.forget_names();
        }
        self.holding.follow(complete == Some(true), self.mirrors.has_gap_here());
        if self.mirrors.is_down_here() && !was_down {
            self.holding.keep(was_whole);
        }
        // It may have left and come again in between.
        let has_come = self.mirrors.arriving_since().is_some_and(|since| former_since != Some(since));
        if has_come {
            self.holding.keep(false);
            self.gap.reopen();
        }
        if self.holding.is_complete() || self.mirrors.is_down_here() || has_come {
            self.copying = Copying::default();
        }
        self.mind_gap(now, commands);
    }

    /// These nodes have been out of reach for so long that events are not to wait for them.
    pub(crate) fn reach_changed(&mut self, unreachable: &BTreeSet<NodeId>) {
        self.mirrors.set_unreachable(unreachable.iter().copied());
    }

    /// Nothing of what waits for other copies can come to an end here: whoever waits for an answer gets one, and asks elsewhere.
    pub(crate) fn give_up_flights(&mut self, commands: &mut Vec<Command>) {
        self.mirrors.give_up(commands);
    }

    /// Events whose answers wait for other copies.
    pub(crate) fn held_events(&self) -> usize {
        self.mirrors.held_events()
    }
}

/// Whether the copy of slice `slice` that node `me` has is complete; none where it has none.
pub(super) fn is_complete(map: &ClusterMap, record: &FilterRecord, slice: u32, me: NodeId) -> Option<bool> {
    record.copies_of(slice).find(|copy| copy.node == me).map(|copy| map.is_complete_copy(copy))
}

/// What is sent by one start of a node is not taken for what another has sent.
pub(super) fn first_number(incarnation: Incarnation) -> u64 {
    (incarnation.0 & 0xFF) << 40
}
