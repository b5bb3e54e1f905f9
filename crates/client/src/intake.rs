//! State that all handles of a filter share: its hash function, its clock, and one queue for each node that owns slices
//! of the filter.
//!
//! Each queued event can advance the clock of the filter, and the clock determines how later events are placed in time.
//! The order in which events are queued therefore affects their verdicts.
//!
//! The number of batches in flight determines how long events are collected. While few batches are in flight, the
//! client sends each event as soon as possible. While many batches are in flight, the client collects events until they
//! fill a batch.
//!
//! This module does not depend on streams or retries.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use firstseen_filter::{Digest, FilterSecret, Probes, UnitNumber, WindowClock};
use firstseen_routing::{
    ClockSource, Decision, FilterId, FilterRecord, Heads, NodeId, Operation, Prober, Reason, SlicedBuildError,
    SubmissionName, TREE_LEVELS_MAX, Tick,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::audit::Auditor;
use crate::call::{Answer, Caller, ManyCall, lock};
use crate::degraded::Degraded;
use crate::filter_history::FilterHistory;
use crate::local::LocalFilter;
use crate::node_queue::NodeQueue;
use crate::outage::{MissingSlices, Outage};
use crate::pace::Pace;
use crate::queue::{Asked, Events, Queue, Queued, Taken, When};
use crate::shared::Core;

/// Source of the queue of each node.
pub(crate) trait NodeQueues: Send + Sync {
    /// Returns the queue of a node. The first call for a node starts its sender.
    fn queue_of(self: Arc<Self>, node: NodeId) -> Arc<NodeQueue<FilterCore>>;
}

/// A filter as this client uses it.
pub(crate) struct FilterCore {
    core: Arc<Core>,
    queues: Arc<dyn NodeQueues>,
    id: FilterId,
    line: FilterHistory<FilterCore>,
    record: FilterRecord,
    secret: FilterSecret,
    prober: Prober,
    is_divided: bool,
    auditor: Option<Mutex<Auditor>>,
    local: Option<Mutex<LocalFilter>>,
    degraded: Mutex<Degraded>,
    /// Number of duplicates found at each level of a tree, starting at the root.
    level_hits: [AtomicU64; TREE_LEVELS_MAX],
    outage: Mutex<Outage>,
    intake: Mutex<Intake>,
}

struct Intake {
    /// Clock of the filter. Only filters that judge events by the events' own times have a clock here.
    clock: Option<WindowClock>,
    pace: Pace,
    scratch: Probes,
    map_version: u64,
    is_closed: bool,
    subqueue_of_slice: Vec<SliceSubqueue>,
    subqueues: Vec<Subqueue>,
}

impl Intake {
    /// Returns the greatest clock reading whose events may be sent now.
    fn unit_max(&self) -> UnitNumber {
        self.pace.unit_max(self.subqueues.iter().filter_map(|subqueue| subqueue.queue.first_unit()))
    }
}

/// Destination of events that need a certain slice.
#[derive(Clone, Copy, Debug)]
struct SliceSubqueue {
    subqueue: u32,
    /// Whether the slice is gone, so that no node serves it.
    is_gone: bool,
}

/// Slice group of an event, and the subqueue to its head node (the node that decides the event).
#[derive(Clone, Copy)]
struct EventPlace {
    group: u32,
    subqueue: usize,
}

/// Events that are queued for one node.
struct Subqueue {
    node: NodeId,
    node_queue: Arc<NodeQueue<FilterCore>>,
    queue: Queue,
    inflight_batches: u32,
    /// Whether the node's sender has been notified that a batch is due.
    is_listed: bool,
}

/// Events of a batch that is due.
pub(crate) struct DueBatch {
    pub(crate) taken: Taken,
    /// Reading of the filter's clock. `None` means that the filter has no clock in this client.
    pub(crate) clock_ms: Option<u64>,
    pub(crate) ticket: SubqueueTicket,
}

/// Guard that counts a batch as in flight until it is dropped.
pub(crate) struct SubqueueTicket {
    filter: Arc<FilterCore>,
    subqueue: usize,
    /// Reading of the clock at the first event of the batch.
    unit: UnitNumber,
}

impl Drop for SubqueueTicket {
    fn drop(&mut self) {
        let mut intake = lock(&self.filter.intake);
        let Intake { subqueues, pace, .. } = &mut *intake;
        if let Some(subqueue) = subqueues.get_mut(self.subqueue) {
            subqueue.inflight_batches -= 1;
        }
        pace.end(self.unit);
        if pace.holds_back() {
            self.filter.list_all_due(&mut intake)
        } else {
            self.filter.list_if_due(&mut intake, self.subqueue)
        }
    }
}

impl FilterCore {
    pub(crate) fn new(
        core: Arc<Core>,
        queues: Arc<dyn NodeQueues>,
        id: FilterId,
        record: FilterRecord,
        secret: FilterSecret,
        clock_ms: Option<u64>,
    ) -> Result<Self, SlicedBuildError> {
        let prober = core.map().prober(&record)?;
        let group = &record.definition.group;
        let has_clock = group.unit.needs_time() && record.policies.clock == ClockSource::Event;
        let mut clock = has_clock.then(|| WindowClock::new(group.unit.clone(), group.rule, group.future_max_ms));
        if let (Some(clock), Some(clock_ms)) = (&mut clock, clock_ms) {
            clock.catch_up_ms(clock_ms);
        }
        let options = core.options();
        let auditor = (options.audit_rate > 0.0)
            .then(|| Auditor::new(group, has_clock, options.audit_rate, options.audit_keys_max));
        let local = match options.local_bytes_max {
            0 => None,
            bytes_max => LocalFilter::new(&record, bytes_max),
        };
        let intake = Intake {
            clock,
            pace: Pace::of(&record.definition, record.has_flights(), has_clock),
            scratch: Probes::new(prober.shape()),
            map_version: 0,
            is_closed: false,
            subqueue_of_slice: Vec::new(),
            subqueues: Vec::new(),
        };
        Ok(Self {
            core,
            queues,
            id,
            line: FilterHistory::of(id, &record),
            secret,
            prober,
            is_divided: record.definition.slicing.divides_cells(),
            auditor: auditor.map(Mutex::new),
            local: local.map(Mutex::new),
            degraded: Mutex::default(),
            level_hits: Default::default(),
            outage: Mutex::default(),
            intake: Mutex::new(intake),
            record,
        })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn id(&self) -> FilterId {
        self.id
    }

    /// Returns the chain of filters that replaced this filter under its name.
    pub(crate) fn line(&self) -> &FilterHistory<Self> {
        &self.line
    }

    /// Returns the description of the filter from when this client first asked for it.
    pub(crate) fn record(&self) -> &FilterRecord {
        &self.record
    }

    pub(crate) fn secret(&self) -> &FilterSecret {
        &self.secret
    }

    pub(crate) fn prober(&self) -> &Prober {
        &self.prober
    }

    pub(crate) fn auditor(&self) -> Option<&Mutex<Auditor>> {
        self.auditor.as_ref()
    }

    pub(crate) fn degraded(&self) -> Degraded {
        *lock(&self.degraded)
    }

    pub(crate) fn level_hits(&self) -> [u64; TREE_LEVELS_MAX] {
        self.level_hits.each_ref().map(|hits| hits.load(Ordering::Relaxed))
    }

    /// Adds the number of duplicates found at each level of a tree, starting at the root.
    pub(crate) fn note_level_hits(&self, hits: &[u32]) {
        for (counter, hits) in self.level_hits.iter().zip(hits) {
            counter.fetch_add((*hits).into(), Ordering::Relaxed);
        }
    }

    /// Counts events that were answered by fewer slices than usual. `rate` is the probability that a new event among
    /// them was called a duplicate.
    pub(crate) fn note_degraded(&self, events: usize, rate: f32) {
        lock(&self.degraded).add(events as u64, rate.into());
    }

    /// Notes that a node reported slices as down. Returns whether the client should retry before it answers its
    /// callers.
    pub(crate) fn waits_for_slices(&self, now: Instant) -> bool {
        self.core.waits_for_slices && lock(&self.outage).should_wait(now, self.core.patience())
    }

    /// Returns the slices that cannot answer, according to the cluster map.
    pub(crate) fn missing_slices(&self) -> MissingSlices {
        let map = self.core.map();
        let record = map.filters.get(&self.id);
        record.map_or_else(MissingSlices::default, |record| {
            MissingSlices::among(&map, record, 0..record.owners.len() as u32)
        })
    }

    /// Returns whether this client remembers first-seen events locally.
    pub(crate) fn remembers(&self) -> bool {
        self.local.is_some()
    }

    /// Returns the number of duplicates that this client recognised from its local memory.
    pub(crate) fn local_hits(&self) -> u64 {
        self.local.as_ref().map_or(0, |local| lock(local).hits())
    }

    /// Converts the tick of an event to a tick for the client's local memory. If events carry their own times, `tick`
    /// already expresses the time of the event and is returned unchanged. If the nodes of this filter stamp events on
    /// arrival, the event has no time yet, so the client computes the tick from the current time.
    pub(crate) fn local_tick(&self, tick: Tick) -> Tick {
        self.local.as_ref().map_or(tick, |local| lock(local).tick(tick, || self.core.present().wall_ms()))
    }

    /// Remembers events that received the verdict first-seen, each with its time unit.
    pub(crate) fn remember(&self, events: impl Iterator<Item = (Digest, UnitNumber)>) {
        if let Some(local) = &self.local {
            let mut local = lock(local);
            events.for_each(|(digest, unit)| local.remember(digest, unit));
        }
    }

    /// Returns whether the client's local memory contains the event, in which case no node needs to be asked. The local
    /// memory is used only by `observe`, and only for events without an idempotency key from the caller.
    #[inline]
    fn is_known_here(&self, digest: Digest, tick: Tick, asked: Asked, is_named: bool) -> bool {
        let Some(local) = self.local.as_ref().filter(|_| asked.operation == Operation::Observe && !is_named) else {
            return false;
        };
        let mut local = lock(local);
        let tick = local.tick(tick, || self.core.present().wall_ms());
        local.knows(digest, tick)
    }

    pub(crate) fn needs_times(&self) -> bool {
        self.record.definition.group.unit.needs_time() && self.record.policies.clock == ClockSource::Event
    }

    pub(crate) fn audits(&self, digest: Digest) -> bool {
        self.auditor.is_some() && Auditor::samples(digest, self.core.options().audit_rate)
    }

    pub(crate) fn audit(&self, clock_ms: Option<u64>, answers: impl Iterator<Item = (Digest, Tick, Decision)>) {
        if let Some(auditor) = &self.auditor {
            let mut auditor = lock(auditor);
            answers.for_each(|(digest, tick, decision)| auditor.observe(digest, tick, clock_ms, decision));
        }
    }

    /// Advances this client's clock of the filter to `clock_ms`, a time that was read from another clock, for example
    /// from the clock of a node. If `clock_ms` is `None`, the clock does not change. Returns the time unit that the
    /// clock shows afterwards, or `None` if this client has no clock for the filter.
    pub(crate) fn catch_up(&self, clock_ms: Option<u64>) -> Option<UnitNumber> {
        let mut intake = lock(&self.intake);
        let clock = intake.clock.as_mut()?;
        if let Some(clock_ms) = clock_ms {
            clock.catch_up_ms(clock_ms);
        }
        Some(clock.now_unit())
    }

    /// Queues one event, or answers it at once if possible. The caller has already reserved space for the event.
    pub(crate) fn queue_one(
        self: &Arc<Self>,
        digest: Digest,
        time_ms: Option<u64>,
        name: Option<SubmissionName>,
        asked: Asked,
    ) -> Result<oneshot::Receiver<Answer>, Answer> {
        let mut intake = lock(&self.intake);
        self.refresh(&mut intake);
        let placed = self.subqueue(&mut intake, digest);
        let placed = placed.and_then(|place| {
            let when = self.when(&mut intake, time_ms.as_slice(), 0, asked.operation)?;
            Ok((place, when))
        });
        let (place, when) = match placed {
            Ok((_, when)) if self.is_known_here(digest, when.tick, asked, name.is_some()) => {
                self.core.release(1);
                return Err(Answer::duplicate());
            }
            Ok(placed) => placed,
            Err(reason) => {
                self.core.release(1);
                return Err(Answer::undecided(reason));
            }
        };
        let (sender, receiver) = oneshot::channel();
        let subqueue = &mut intake.subqueues[place.subqueue];
        subqueue.queue.push(Queued { digest, group: place.group, index: 0 }, when, name);
        let queued = subqueue.queue.seal(|| Caller::One(sender), asked, name.is_some());
        subqueue.node_queue.count_queued(queued, 0);
        self.list_if_due(&mut intake, place.subqueue);
        Ok(receiver)
    }

    /// Queues the events of a call, starting with the event at index `from`. The caller must have reserved space for
    /// the events in the queue. Events that no node can decide, and events without a valid time, are not queued but
    /// answered at once.
    pub(crate) fn queue_many(self: &Arc<Self>, call: &Arc<ManyCall>, from: u32, events: Events<'_>, asked: Asked) {
        let mut intake = lock(&self.intake);
        self.refresh(&mut intake);
        let subqueues = intake.subqueues.len().max(1);
        intake
            .subqueues
            .iter_mut()
            .for_each(|subqueue| subqueue.queue.reserve(events.digests.len().div_ceil(subqueues)));
        let mut last = None;
        for (event, (digest, index)) in events.digests.iter().zip(from..).enumerate() {
            let time_ms = events.times_ms.get(event).copied();
            let placed = self.subqueue(&mut intake, *digest).and_then(|place| {
                let when = match last {
                    // The time is the same as that of the previous event, so the clock does not move.
                    Some((of, When { tick, .. })) if of == time_ms => {
                        intake.clock.iter_mut().for_each(WindowClock::pass);
                        When { tick, before_unit: tick.clock_unit }
                    }
                    _ => self.when(&mut intake, events.times_ms, event, asked.operation)?,
                };
                last = Some((time_ms, when));
                Ok((place, when))
            });
            match placed {
                Ok((_, when)) if self.is_known_here(*digest, when.tick, asked, !events.names.is_empty()) => {
                    self.core.release(1);
                    call.answer(std::iter::once((index, Answer::duplicate())));
                }
                Ok((place, when)) => {
                    let name = events.names.get(event).copied();
                    let queue = &mut intake.subqueues[place.subqueue].queue;
                    queue.push(Queued { digest: *digest, group: place.group, index }, when, name);
                    if let Some(fence) = events.fences.get(event) {
                        queue.push_fence(*fence);
                    }
                }
                Err(reason) => {
                    self.core.release(1);
                    call.answer(std::iter::once((index, Answer::undecided(reason))));
                }
            }
        }
        for subqueue in &mut intake.subqueues {
            let added = subqueue.queue.seal(|| Caller::Many(call.clone()), asked, !events.names.is_empty());
            subqueue.node_queue.count_queued(added, 0);
        }
        self.list_all_due(&mut intake);
    }

    /// Determines the slice group and the subqueue of an event.
    #[inline]
    fn subqueue(&self, intake: &mut Intake, digest: Digest) -> Result<EventPlace, Reason> {
        let group = self.prober.group(digest);
        if self.is_divided {
            intake.scratch.reset(self.prober.shape());
            self.prober.push(digest, &mut intake.scratch);
        }
        let nowhere = if intake.is_closed { Reason::NotReady } else { Reason::UnknownFilter };
        let slices = self.prober.slices(group, &intake.scratch, 0);
        let mut subqueues = slices.map(|slice| intake.subqueue_of_slice.get(slice as usize).copied());
        let first = subqueues.next().flatten().ok_or(nowhere)?;
        let live = if first.is_gone { subqueues.flatten().find(|subqueue| !subqueue.is_gone) } else { None };
        Ok(EventPlace { group, subqueue: live.unwrap_or(first).subqueue as usize })
    }

    /// Determines the place in time of event number `event` of `times_ms`. Moves the clock, unless the event is only
    /// looked up.
    fn when(&self, intake: &mut Intake, times_ms: &[u64], event: usize, operation: Operation) -> Result<When, Reason> {
        let Some(clock) = &mut intake.clock else { return Ok(When::default()) };
        let before_unit = clock.now_unit();
        let time_ms = times_ms.get(event).copied();
        if time_ms.is_some_and(|time_ms| !clock.takes_freely(time_ms)) {
            clock.show_present_ms(self.core.present().wall_ms());
        }
        let placed =
            if operation.moves_clock() { clock.tick_nth(times_ms, event) } else { clock.look_up_tick(time_ms) };
        let (clock_unit, unit) = placed.ok_or(Reason::Future)?;
        Ok(When { tick: Tick { clock_unit, unit }, before_unit })
    }

    /// Adopts a newer cluster map. Events that are already queued stay in their subqueues, and the sender that takes
    /// them forwards them.
    fn refresh(self: &Arc<Self>, intake: &mut Intake) {
        if intake.map_version == self.core.map_version() || intake.is_closed {
            return;
        }
        let map = self.core.map();
        intake.map_version = map.version;
        let Some(record) = map.filters.get(&self.id) else {
            intake.subqueue_of_slice.clear();
            self.line.misses(&map, self.id);
            return;
        };
        let Intake { subqueues, subqueue_of_slice, .. } = intake;
        subqueue_of_slice.clear();
        let heads = Heads::new(&map, record);
        subqueue_of_slice.extend((0..).zip(heads.owners()).map(|(slice, owner)| {
            let known = subqueues.iter().position(|subqueue| subqueue.node == owner.node);
            let subqueue = known.unwrap_or_else(|| {
                let node_queue = self.queues.clone().queue_of(owner.node);
                node_queue.add_subqueue(Arc::downgrade(self), subqueues.len());
                subqueues.push(Subqueue {
                    node: owner.node,
                    node_queue,
                    queue: Queue::default(),
                    inflight_batches: 0,
                    is_listed: false,
                });
                subqueues.len() - 1
            });
            SliceSubqueue { subqueue: subqueue as u32, is_gone: heads.is_gone(slice) }
        }));
    }

    fn is_due(&self, subqueue: &Subqueue, unit_max: UnitNumber) -> bool {
        let limits = self.core.options();
        // Events that a leaf sends to its parent take long. Further events should not gather behind them, because the
        // leaf may know their answers.
        let climbs = self.record.branch.as_ref().is_some_and(|branch| !branch.is_root());
        let inflight_max = if climbs || subqueue.queue.len() >= limits.batch_events_max as usize {
            limits.inflight_batches_max
        } else {
            limits.gathering_batches_max.min(limits.inflight_batches_max)
        };
        subqueue.inflight_batches < inflight_max && subqueue.queue.first_unit().is_some_and(|unit| unit <= unit_max)
    }

    fn list_if_due(self: &Arc<Self>, intake: &mut Intake, number: usize) {
        let unit_max = intake.unit_max();
        if let Some(subqueue) = intake.subqueues.get_mut(number)
            && !subqueue.is_listed
            && self.is_due(subqueue, unit_max)
        {
            subqueue.is_listed = true;
            subqueue.node_queue.list(self.clone(), number);
        }
    }

    fn list_all_due(self: &Arc<Self>, intake: &mut Intake) {
        (0..intake.subqueues.len()).for_each(|number| self.list_if_due(intake, number));
    }

    /// Takes the next batch from the queue of one node, if that batch is due. The node's limits apply: a batch has at
    /// most `events_max` events, and at most `batches_max` batches are in flight. Only the task that sends to this node
    /// calls this function, so batches leave in the order in which their events were queued.
    pub(crate) fn take(self: &Arc<Self>, number: usize, events_max: usize, batches_max: u32) -> Option<DueBatch> {
        let mut intake = lock(&self.intake);
        let clock_ms = intake.clock.as_ref().and_then(WindowClock::now_ms);
        let unit_max = intake.unit_max();
        let subqueue = intake.subqueues.get_mut(number)?;
        subqueue.is_listed = false;
        if !self.is_due(subqueue, unit_max) || subqueue.inflight_batches >= batches_max {
            return None;
        }
        let unit = subqueue.queue.first_unit()?;
        let events_max = events_max.min(self.core.options().batch_events_max as usize);
        let taken = subqueue.queue.take(events_max, unit_max)?;
        subqueue.node_queue.count_queued(0, taken.events.len());
        subqueue.inflight_batches += 1;
        intake.pace.begin(unit);
        self.list_if_due(&mut intake, number);
        drop(intake);
        Some(DueBatch { taken, clock_ms, ticket: SubqueueTicket { filter: self.clone(), subqueue: number, unit } })
    }

    /// Answers queued events whose deadline has passed.
    pub(crate) fn expire(self: &Arc<Self>, number: usize, now: Instant, reason: Reason) {
        let mut intake = lock(&self.intake);
        let Some(subqueue) = intake.subqueues.get_mut(number) else { return };
        let expired = subqueue.queue.expire(now, Answer::undecided(reason));
        if expired > 0 {
            subqueue.node_queue.count_queued(0, expired);
            self.core.release(expired);
            self.list_all_due(&mut intake);
        }
    }

    /// Closes the filter because the client is closing. Queued events are answered and not sent.
    pub(crate) fn close(&self) {
        let mut intake = lock(&self.intake);
        for subqueue in &mut intake.subqueues {
            subqueue.queue.give_up(Answer::undecided(Reason::NotReady));
        }
        // Calls that come later fail when they reserve space. Calls that have reserved space already find no subqueue.
        intake.is_closed = true;
        intake.subqueue_of_slice.clear();
    }
}
