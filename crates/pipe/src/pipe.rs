//! The loop of a pipe: collect a batch, decide it, deliver it, and continue. Between batches the loop rebuilds filters
//! and saves checkpoints. One thread does all of this, so a partition never changes its owner while a batch is being
//! delivered.
//!
//! # Guarantees
//!
//! - A filter is kept after a batch only if the batch was committed. If the outcome of an attempt is unknown, the
//!   committed positions of the group decide.
//! - The group is polled between any two steps, and each step is bounded.

mod saving;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use firstseen_filter::FilterSecret;
use firstseen_routing::SlicedDefinition;

use crate::batch::{attempt, end_of_pending, target, undeliverable};
use crate::checkpoint::{Anchor, CheckpointFolder};
use crate::counts::Counts;
use crate::error::PipeError;
use crate::faults::{self, Point, Rule};
use crate::message::{Message, PartitionId};
use crate::outcome::Outcome;
use crate::partition::{Decided, Partition, Stage};
use crate::partition_filter::PartitionFilter;
use crate::parts::Parts;
use crate::ports::{Aborted, Committed, Delivery, Input, Output, Polled, Target};
use crate::reader::{EventReader, Events};
use crate::rebuild::{Rebuild, Step, Tools};
use crate::settings::{Ended, Settings};

/// How long the loop waits for the first message of a batch.
const IDLE_WAIT: Duration = Duration::from_millis(100);
/// Pause after an attempt that was aborted. It doubles with each further attempt.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Maximum pause between two attempts.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);
/// Maximum time that messages wait for further ones that show whether their times are right.
const HELD_MAX: Duration = Duration::from_millis(100);
/// Number of messages by which a batch may be larger while messages wait.
const HELD_EVENTS: usize = 512;
/// Time between two checkpoints of a partition.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(30);
/// Minimum time between two checkpoints, as a multiple of the time that the last one took.
const CHECKPOINT_REST: u32 = 20;

/// The committed position of a partition after no transaction can move it any more.
enum Settled {
    /// Every message before this offset is delivered.
    At(i64),
    /// The group has committed nothing in the partition, or has taken the partition away.
    Nowhere,
    /// The caller has stopped the pipe before the position was known.
    Stopped,
}

/// A pipe from an input to an output.
pub struct Pipe<I: Input, O> {
    input: I,
    output: O,
    settings: Settings,
    reader: EventReader,
    secret: FilterSecret,
    /// Definition of the filters. `None` means that the pipe copies everything.
    definition: Option<SlicedDefinition>,
    checkpoints: Option<CheckpointFolder>,
    /// Clock by which the pipe waits and measures.
    clock: Box<dyn Fn() -> Instant>,
    partitions: BTreeMap<PartitionId, Partition<I::Message>>,
    counts: Counts,
    notes: Vec<String>,
    events: Events,
    /// Time at which the first message of the batch came.
    first_at: Option<Instant>,
    incoming_events: usize,
    incoming_bytes: usize,
    checkpoint_due: Instant,
    rebuild_began: Option<Instant>,
    /// Partitions that the group has ever assigned to this process.
    seen: BTreeSet<PartitionId>,
    /// Ends that the partitions had when this process got them first, for a pipe that stops there.
    ends: BTreeMap<PartitionId, i64>,
}

impl<I: Input, O: Output<I::Message>> Pipe<I, O> {
    /// Creates a pipe that has no partition yet.
    pub fn new(parts: Parts<I, O>, settings: Settings, counts: Counts) -> Self {
        let Parts { input, output, reader, secret, definition, checkpoints, clock } = parts;
        let checkpoint_due = clock() + CHECKPOINT_EVERY;
        Self {
            input,
            output,
            settings,
            reader,
            secret,
            definition,
            checkpoints,
            clock,
            partitions: BTreeMap::new(),
            counts,
            notes: Vec::new(),
            events: Events::default(),
            first_at: None,
            incoming_events: 0,
            incoming_bytes: 0,
            checkpoint_due,
            rebuild_began: None,
            seen: BTreeSet::new(),
            ends: BTreeMap::new(),
        }
    }

    /// Runs until `is_stopped` returns true, or until the end of the input if the settings say so. `note` receives
    /// lines for the user.
    ///
    /// # Errors
    /// Returns an error if the pipe cannot continue. Every batch was then either committed or had no effect, except a
    /// batch whose attempt was under way when the connection to the log was lost.
    pub fn run(&mut self, is_stopped: &dyn Fn() -> bool, note: &mut dyn FnMut(&str)) -> Result<Ended, PipeError> {
        let ended = self.run_loop(is_stopped, note);
        self.notes.drain(..).for_each(|line| note(&line));
        self.save_all();
        self.input.leave();
        ended
    }

    fn run_loop(&mut self, is_stopped: &dyn Fn() -> bool, note: &mut dyn FnMut(&str)) -> Result<Ended, PipeError> {
        loop {
            if is_stopped() {
                return Ok(Ended::Stopped);
            }
            self.collect()?;
            self.deliver(is_stopped, note)?;
            self.rebuild_some()?;
            self.save_if_due();
            self.show();
            self.notes.drain(..).for_each(|line| note(&line));
            if self.is_at_end()? {
                return Ok(Ended::AtEnd);
            }
        }
    }

    /// Collects messages until the batch is full or its first message has waited long enough.
    fn collect(&mut self) -> Result<(), PipeError> {
        let is_starting = self.partitions.values().any(|partition| !partition.is_ready());
        while !self.is_full() {
            let wait = match self.first_at {
                Some(first_at) => self.settings.linger.saturating_sub(self.since(first_at)),
                None if is_starting => Duration::ZERO,
                None => IDLE_WAIT,
            };
            if !self.poll(wait)? && (self.first_at.is_none() || wait.is_zero()) {
                return Ok(());
            }
            if self.first_at.is_some_and(|first_at| self.since(first_at) >= self.settings.linger) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn since(&self, began: Instant) -> Duration {
        (self.clock)().saturating_duration_since(began)
    }

    fn is_full(&self) -> bool {
        // A partition whose last messages wait for further ones must get these.
        let is_holding = self.partitions.values().any(|partition| partition.held_since.is_some());
        let surplus = if is_holding { HELD_EVENTS } else { 0 };
        self.incoming_events >= self.settings.batch_events.saturating_add(surplus)
            || self.incoming_bytes >= self.settings.batch_bytes
    }

    /// Handles the next message or change of the assignment. Returns false if nothing happened that the batch needs.
    fn poll(&mut self, wait: Duration) -> Result<bool, PipeError> {
        match self.input.poll(wait)? {
            Polled::Message(id, message) => return Ok(self.take(&id, message)),
            Polled::Assigned(ids) => self.assigned(ids),
            Polled::Revoked(ids) => {
                self.save(&ids);
                self.remove(&ids);
            }
            Polled::Lost(ids) => self.remove(&ids),
            Polled::Nothing => return Ok(false),
        }
        Ok(true)
    }

    /// Adds a message to the batch. Returns false if it does not belong there.
    fn take(&mut self, id: &PartitionId, message: I::Message) -> bool {
        let Some(partition) = self.partitions.get_mut(id) else { return false };
        let bytes = message.size_bytes();
        if !partition.take(message) {
            return false;
        }
        self.first_at.get_or_insert_with(&self.clock);
        self.incoming_events += 1;
        self.incoming_bytes += bytes;
        true
    }

    fn assigned(&mut self, ids: Vec<PartitionId>) {
        for id in ids {
            self.seen.insert(id.clone());
            self.partitions.insert(id.clone(), Partition::new(id));
        }
    }

    fn remove(&mut self, ids: &[PartitionId]) {
        for id in ids {
            self.partitions.remove(id);
        }
        self.count_incoming();
    }

    fn count_incoming(&mut self) {
        let incoming = self.partitions.values().flat_map(|partition| &partition.incoming);
        self.incoming_events = incoming.clone().count();
        self.incoming_bytes = incoming.map(Message::size_bytes).sum();
        if self.incoming_events == 0 {
            self.first_at = None;
        }
    }

    /// Decides the batch, and delivers it.
    fn deliver(&mut self, is_stopped: &dyn Fn() -> bool, note: &mut dyn FnMut(&str)) -> Result<(), PipeError> {
        let Some(first_at) = self.first_at else { return Ok(()) };
        self.decide()?;
        if self.has_pending() {
            faults::pass(Point::Tested);
        }
        let mut pause = RETRY_PAUSE;
        while self.has_pending() {
            let pending = self.partitions.values().filter(|partition| partition.pending.is_some());
            match attempt(&mut self.output, pending, &self.settings) {
                Delivery::Committed => {
                    faults::pass(Point::Committed);
                    self.delivered(first_at);
                }
                Delivery::Aborted(aborted) => self.aborted(&aborted)?,
                Delivery::Unknown(reason) => self.resolve(&reason, first_at, is_stopped)?,
                Delivery::Never { index, reason } => {
                    let pending = self.partitions.values();
                    return Err(undeliverable(pending, &self.settings, index, reason));
                }
            }
            if self.has_pending() {
                self.notes.drain(..).for_each(|line| note(&line));
                if is_stopped() {
                    return Ok(());
                }
                self.serve(pause)?;
                pause = (pause * 2).min(RETRY_PAUSE_MAX);
            }
        }
        let poison = self.partitions.values_mut().find_map(|partition| partition.poison.take());
        poison.map_or(Ok(()), Err)
    }

    fn has_pending(&self) -> bool {
        self.partitions.values().any(|partition| partition.pending.is_some())
    }

    /// Decides the messages that were collected. A message that must not be skipped and has no topic to go to becomes the
    /// poison of its partition. The messages before it are delivered first.
    fn decide(&mut self) -> Result<(), PipeError> {
        let present_ms = (self.settings.present_ms)();
        let now = (self.clock)();
        for partition in self.partitions.values_mut().filter(|partition| !partition.incoming.is_empty()) {
            let mut messages = std::mem::take(&mut partition.incoming);
            let mut outcomes = Vec::with_capacity(messages.len());
            if let Stage::Ready(Some(filter)) = &mut partition.stage {
                self.reader.read(&messages, &mut self.events)?;
                let mut is_last = false;
                if !self.settings.has_dead_letters
                    && let Some((index, rejection)) = self.events.first_rejection()
                {
                    let reason = format!("{rejection}; name a topic for such messages with --dead-letter");
                    let offset = messages[index].offset();
                    partition.poison = Some(PipeError::Message { partition: partition.id.clone(), offset, reason });
                    messages.truncate(index);
                    self.reader.read(&messages, &mut self.events)?;
                    is_last = true;
                }
                // Before a message that ends the pipe, no further message comes to wait for.
                let decidable = if is_last { messages.len() } else { filter.decidable(&self.events) };
                let has_waited = partition.held_since.is_some_and(|since| now.duration_since(since) >= HELD_MAX);
                let held = hold_back(has_waited, decidable, &mut messages);
                partition.held_since = match partition.held_since.filter(|_| messages.is_empty()) {
                    _ if held.is_empty() => None,
                    Some(since) => Some(since),
                    None => Some(now),
                };
                if !held.is_empty() {
                    self.reader.read(&messages, &mut self.events)?;
                }
                partition.incoming = held;
                if messages.is_empty() {
                    continue;
                }
                filter.decide(&self.events, present_ms, &mut outcomes);
            } else {
                outcomes.resize(messages.len(), Outcome::New);
            }
            partition.pending = Some(Decided { messages, outcomes });
        }
        self.first_at = None;
        self.count_incoming();
        if self.incoming_events > 0 {
            self.first_at = Some(now);
        }
        if faults::is_broken(Rule::RecordBeforeCommit) {
            self.record_before_commit();
        }
        Ok(())
    }

    /// Breaks the order of recording and delivery, for a test that must find the violation.
    fn record_before_commit(&mut self) {
        let Self { partitions, checkpoints, secret, .. } = self;
        for partition in partitions.values_mut() {
            let Some(last) = partition.pending.as_ref().and_then(|decided| decided.messages.last()) else { continue };
            let anchor = partition.anchor.unwrap_or(Anchor::of(last, secret));
            if let (Some(checkpoints), Stage::Ready(Some(filter))) = (&checkpoints, &mut partition.stage) {
                filter.delivered();
                let _ = checkpoints.save(&partition.id, filter, partition.position, anchor);
            }
        }
    }

    /// Counts the delivered batch, and lets the filters know that it is delivered.
    fn delivered(&mut self, first_at: Instant) {
        let latency = self.since(first_at);
        let Self { partitions, counts, settings, secret, .. } = self;
        counts.change(|figures| {
            for partition in partitions.values_mut() {
                let Some(decided) = partition.delivered() else { continue };
                partition.anchor = decided.messages.last().map(|last| Anchor::of(last, secret));
                for outcome in &decided.outcomes {
                    figures.add(outcome);
                    match target(outcome, settings) {
                        Some(Target::Output) => figures.passed += 1,
                        Some(Target::DeadLetters) => figures.dead_letters += 1,
                        Some(Target::Duplicates) | None => {}
                    }
                }
            }
            figures.attempts.committed += 1;
            figures.add_latency(latency);
        });
        faults::pass(Point::Recorded);
    }

    fn aborted(&mut self, aborted: &Aborted) -> Result<(), PipeError> {
        self.counts.change(|figures| {
            figures.attempts.aborted += 1;
            figures.attempts.fenced += u64::from(aborted.is_fenced);
        });
        self.notes.push(format!("a batch was aborted and is delivered again: {}", aborted.reason));
        Ok(())
    }

    /// Finds out whether an attempt with an unknown outcome was committed.
    fn resolve(&mut self, reason: &str, first_at: Instant, is_stopped: &dyn Fn() -> bool) -> Result<(), PipeError> {
        self.counts.change(|figures| figures.attempts.unknown += 1);
        self.notes.push(format!("the outcome of a commit is unknown, so the committed offsets are read: {reason}"));
        let mut pause = RETRY_PAUSE;
        while let Err(reason) = self.output.recover() {
            if is_stopped() {
                return Ok(());
            }
            self.notes.push(format!("cannot end the attempt yet: {reason}"));
            self.serve(pause)?;
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        }
        // If the group has given partitions away in the meantime, they are removed now.
        self.serve(RETRY_PAUSE)?;
        let pending: Vec<(PartitionId, i64)> = self.partitions.values().filter_map(end_of_pending).collect();
        let mut is_committed = false;
        for (id, end) in pending {
            let committed = match self.wait_for_committed(&id, is_stopped)? {
                Settled::At(offset) => Some(offset),
                Settled::Nowhere => None,
                Settled::Stopped => return Ok(()),
            };
            let partition = self.partitions.get(&id).filter(|partition| partition.pending.is_some());
            let Some(partition) = partition else { continue };
            if committed == Some(end) {
                is_committed = true;
            } else if committed.unwrap_or(partition.position) > partition.position {
                // Another member of the group had the partition in the meantime.
                self.notes
                    .push(format!("{id}: another process has moved the committed offset, so the filter is rebuilt"));
                self.input.suspend(&id);
                self.partitions.insert(id.clone(), Partition::new(id));
                self.count_incoming();
            }
        }
        if is_committed {
            self.delivered(first_at);
        }
        Ok(())
    }

    /// Waits until the committed position of a partition is known.
    fn wait_for_committed(&mut self, id: &PartitionId, is_stopped: &dyn Fn() -> bool) -> Result<Settled, PipeError> {
        while self.partitions.contains_key(id) {
            match self.input.committed(id)? {
                Committed::Offset(offset) => return Ok(Settled::At(offset)),
                Committed::Never => return Ok(Settled::Nowhere),
                Committed::NotYet if is_stopped() => return Ok(Settled::Stopped),
                Committed::NotYet => self.serve(RETRY_PAUSE)?,
            }
        }
        Ok(Settled::Nowhere)
    }

    /// Waits, and handles changes of the assignment meanwhile. Messages that come are kept for the next batch.
    fn serve(&mut self, pause: Duration) -> Result<(), PipeError> {
        let end = (self.clock)() + pause;
        self.input.hold(true)?;
        loop {
            let left = end.saturating_duration_since((self.clock)());
            self.poll(left)?;
            if left.is_zero() {
                break;
            }
        }
        self.show();
        self.input.hold(false)
    }

    /// Continues to start partitions that are not ready, for a short time.
    fn rebuild_some(&mut self) -> Result<(), PipeError> {
        let Some(id) = self.partition_to_start() else { return Ok(()) };
        let Some(partition) = self.partitions.get_mut(&id) else { return Ok(()) };
        if let Stage::AwaitsPosition = partition.stage {
            let bounds = self.input.bounds(&id)?;
            let committed = match self.input.committed(&id)? {
                Committed::Offset(offset) => offset,
                Committed::Never => bounds.first,
                Committed::NotYet => return Ok(()),
            };
            if committed < bounds.first {
                self.notes.push(format!(
                    "{id}: the log deleted the messages from offset {committed} to {} before they were read; keep messages \
                     for longer (retention.ms)",
                    bounds.first
                ));
            }
            return self.begin(&id, committed.max(bounds.first));
        }
        self.step(&id)
    }

    /// Returns the partition whose history is read now, or else the first one that was not begun.
    fn partition_to_start(&self) -> Option<PartitionId> {
        let starting = self.partitions.values().filter(|partition| !partition.is_ready());
        let rebuilding = starting.clone().find(|partition| matches!(partition.stage, Stage::Rebuilding(_)));
        rebuilding.or_else(|| starting.clone().next()).map(|partition| partition.id.clone())
    }

    fn begin(&mut self, id: &PartitionId, committed: i64) -> Result<(), PipeError> {
        let is_rebuilt = self.definition.is_some() && !faults::is_broken(Rule::NoRebuild);
        let Some(partition) = self.partitions.get_mut(id) else { return Ok(()) };
        partition.position = committed;
        if !is_rebuilt {
            let empty = self.definition.as_ref().map(PartitionFilter::build).transpose()?;
            return self.ready(id, empty.map(Box::new), None);
        }
        let Some(mut tools) = self.tools() else { return Ok(()) };
        let rebuild = Rebuild::begin(id, committed, &mut tools)?;
        if let Some(partition) = self.partitions.get_mut(id) {
            partition.stage = Stage::Rebuilding(Box::new(rebuild));
        }
        self.rebuild_began = Some((self.clock)());
        Ok(())
    }

    fn tools(&mut self) -> Option<Tools<'_, I>> {
        Some(Tools {
            input: &mut self.input,
            reader: &mut self.reader,
            definition: self.definition.as_ref()?,
            checkpoints: self.checkpoints.as_ref(),
            secret: &self.secret,
            present_ms: (self.settings.present_ms)(),
            notes: &mut self.notes,
        })
    }

    fn step(&mut self, id: &PartitionId) -> Result<(), PipeError> {
        let Some(partition) = self.partitions.get_mut(id) else { return Ok(()) };
        let Stage::Rebuilding(mut rebuild) = std::mem::replace(&mut partition.stage, Stage::AwaitsPosition) else {
            return Ok(());
        };
        let Some(mut tools) = self.tools() else { return Ok(()) };
        let step = rebuild.step(id, &mut tools)?;
        let Step::Done { filter, anchor, recorded } = step else {
            if let Some(partition) = self.partitions.get_mut(id) {
                partition.stage = Stage::Rebuilding(rebuild);
            }
            return Ok(());
        };
        let took = self.rebuild_began.take().map(|began| self.since(began)).unwrap_or_default();
        self.counts.change(|figures| {
            figures.rebuilds.filters += 1;
            figures.rebuilds.events += recorded;
            figures.rebuilds.seconds += took.as_secs_f64();
        });
        self.ready(id, Some(filter), anchor)
    }

    /// Begins to deliver the messages of a partition.
    fn ready(
        &mut self,
        id: &PartitionId,
        filter: Option<Box<PartitionFilter>>,
        anchor: Option<Anchor>,
    ) -> Result<(), PipeError> {
        if self.settings.until_end && !self.ends.contains_key(id) {
            let end = self.end_of(id)?;
            self.ends.insert(id.clone(), end);
        }
        let end = self.ends.get(id).copied();
        let Some(partition) = self.partitions.get_mut(id) else { return Ok(()) };
        partition.anchor = anchor;
        partition.end = end;
        partition.start(partition.position, filter);
        self.input.resume_at(id, partition.position)
    }

    /// Returns the offset after the last message that the partition has now.
    fn end_of(&mut self, id: &PartitionId) -> Result<i64, PipeError> {
        let bounds = self.input.bounds(id)?;
        let tail = self.input.tail(id, bounds.end)?;
        Ok(tail.last().map_or(bounds.first, |last| last.offset + 1))
    }

    /// Returns whether everything before the ends is delivered. For partitions that another process has now, the
    /// committed offsets of the group say so.
    fn is_at_end(&mut self) -> Result<bool, PipeError> {
        let is_open = self.ends.is_empty() || !self.partitions.values().all(Partition::is_at_end);
        if !self.settings.until_end || is_open {
            return Ok(false);
        }
        // A partition that was taken away before it was started counts too. No history is being read now.
        let unknown: Vec<PartitionId> = self.seen.iter().filter(|id| !self.ends.contains_key(*id)).cloned().collect();
        for id in unknown {
            let end = self.end_of(&id)?;
            self.ends.insert(id, end);
        }
        let moved = self.ends.iter().filter(|(id, _)| !self.partitions.contains_key(*id));
        for (id, end) in moved {
            let is_empty = *end == 0;
            match self.input.committed(id)? {
                Committed::Offset(offset) if offset >= *end => {}
                Committed::Never if is_empty => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// Removes the messages from index `decidable` on, and returns them. If messages of this partition have waited long
/// enough, none are removed.
fn hold_back<M>(has_waited: bool, decidable: usize, messages: &mut Vec<M>) -> Vec<M> {
    if has_waited {
        return Vec::new();
    }
    messages.split_off(decidable.min(messages.len()))
}
