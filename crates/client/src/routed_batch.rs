//! A batch in the client, from the time when it leaves the queue until its callers have their answers.
//!
//! The content and the sequence number of a batch stay the same in each attempt to send the batch, so that a node
//! recognises a retry. When a batch is dropped, all callers that are still waiting receive an answer.
//!
//! This module does not depend on streams or waiting times.

mod again;

use std::collections::BTreeSet;
use std::sync::Arc;

use firstseen_filter::{ProbeShape, Probes};
use firstseen_routing::{
    Answers, ClusterMap, Decision, Epoch, Fence, FromLevel, Heads, Incarnation, LevelQuery, NodeId, Operation, Reason,
    SubmissionName, Tick, Times, WhenLost,
};
use firstseen_wire::WireError;
use firstseen_wire::batch::{self, BatchHeader, Run};
use firstseen_wire::proto::producer::Batch;
use tokio::time::Instant;

use crate::call::{Answer, Callers, ManyCall, lock};
use crate::intake::{DueBatch, FilterCore, SubqueueTicket};
use crate::noted::{AuditedEvent, Noted};
use crate::outage::{MissingSlices, passes_within};
use crate::queue::{Asked, Taken, chosen};
use crate::retry::RetryState;
use crate::trace::TraceParent;

/// Consecutive events of a batch that belong to the same slice group.
#[derive(Clone, Copy, Debug)]
struct GroupRun {
    group: u32,
    events: u32,
}

/// Events of a batch that go to the same head node (the node that decides them).
struct Share {
    head: NodeId,
    /// Whether each run of events goes to this head node as a whole. If not, each run is divided among several head
    /// nodes.
    is_whole: bool,
    events: Vec<usize>,
}

/// Events that are sent together under one sequence number.
pub(crate) struct RoutedBatch {
    pub(crate) filter: Arc<FilterCore>,
    pub(crate) sequence: u64,
    pub(crate) operation: Operation,
    /// Runs of events. The events of the batch are sorted by slice group.
    runs: Vec<GroupRun>,
    probes: Probes,
    times: Times,
    names: Vec<SubmissionName>,
    fences: Vec<Fence>,
    callers: Callers,
    /// Trace context. The trace context is part of the content, so a retry carries the same context.
    trace: Option<TraceParent>,
    noted: Noted,
    pub(crate) deadline: Instant,
    pub(crate) tries: RetryState,
    /// Time until which nodes remember the idempotency key of the batch, counted from the first attempt.
    pub(crate) retry_until: Option<Instant>,
    /// Version of the cluster map that was used to choose the batch's head node.
    pub(crate) routed_by: u64,
    /// Whether the batch has been sent, so that an answer may still arrive.
    pub(crate) is_sent: bool,
    /// Encoded message, except for the fields that are known only when the batch is sent.
    content: Result<Batch, WireError>,
    /// Level of the tree that sent these events to its parent or child. That level must learn where the events were
    /// found.
    from: Option<FromLevel>,
    /// Whether the events were sent to this level before, so that they may have been recorded already.
    again: bool,
    /// Guard that counts the batch as in flight in its subqueue for as long as any part of the batch exists.
    ticket: Option<Arc<SubqueueTicket>>,
}

impl RoutedBatch {
    /// Takes the batch that is due in a subqueue of a filter. The node accepts `events_max` events in a batch and
    /// `batches_max` batches at once.
    pub(crate) fn take(filter: Arc<FilterCore>, subqueue: usize, events_max: usize, batches_max: u32) -> Option<Self> {
        let due = filter.take(subqueue, events_max, batches_max)?;
        Some(Self::new(filter, due))
    }

    /// Creates a batch from these events, grouped into runs.
    fn new(filter: Arc<FilterCore>, due: DueBatch) -> Self {
        let DueBatch { taken, clock_ms, ticket } = due;
        let Taken { asked, mut events, whens, mut names, mut fences, mut callers } = taken;
        let first = whens.first().map(|run| run.when).unwrap_or_default();
        // If all events share one time unit, the message carries the unit only once, even if the clock moved to that
        // unit at the first event.
        let mut base_unit = first.tick.clock_unit;
        let mut ticks = Vec::new();
        if whens.iter().any(|run| run.when.tick != Tick { clock_unit: base_unit, unit: base_unit }) {
            base_unit = first.before_unit;
            ticks.extend(whens.iter().flat_map(|run| std::iter::repeat_n(run.when.tick, run.events)));
        }
        let still = Tick { clock_unit: base_unit, unit: base_unit };
        if filter.prober().groups() > 1 {
            let mut order: Vec<u32> = (0..events.len() as u32).collect();
            order.sort_by_key(|index| events[*index as usize].group);
            callers.reorder(&order);
            events = order.iter().map(|index| events[*index as usize]).collect();
            names = in_order(names, &order);
            fences = in_order(fences, &order);
            ticks = in_order(ticks, &order);
        }
        let mut probes = Probes::new(filter.prober().shape());
        let mut runs: Vec<GroupRun> = Vec::new();
        let mut audited = Vec::new();
        for (index, event) in (0..).zip(&events) {
            filter.prober().push(event.digest, &mut probes);
            add_to_runs(&mut runs, event.group);
            if asked.ttl_ms.is_none() && filter.audits(event.digest) {
                audited.push(AuditedEvent { event: index, digest: event.digest });
            }
        }
        let times = Times { base_unit, ticks, clock_ms, ttl_ms: asked.ttl_ms };
        // An event with its own time to live expires at a time that only the nodes know, so it is not remembered
        // locally.
        let remembers = filter.remembers() && asked.operation == Operation::Observe && asked.ttl_ms.is_none();
        let digests = if remembers { events.iter().map(|event| event.digest).collect() } else { Vec::new() };
        let local_tick = if remembers { filter.local_tick(still) } else { still };
        let sequence = filter.core().next_sequence();
        let mut piece = Self::begin(filter, sequence, asked, runs, probes, times, callers);
        piece.names = names;
        piece.fences = fences;
        piece.noted = Noted { digests, local_tick, audited };
        piece.ticket = Some(Arc::new(ticket));
        piece.content = piece.packed();
        piece
    }

    /// Creates the batch for events that another level of the tree sent to this level. The answers go to `call`.
    pub(crate) fn of_level_query(
        filter: Arc<FilterCore>,
        climb: LevelQuery,
        deadline: Instant,
        call: &Arc<ManyCall>,
    ) -> Self {
        let LevelQuery { from, group, operation, probes, times, again, .. } = climb;
        let events = probes.len() as u32;
        let mut callers = Callers::with_events(events as usize);
        callers.push_many(call, 0..events);
        let sequence = filter.core().next_sequence();
        let asked = Asked { operation, ttl_ms: times.ttl_ms, deadline };
        let mut piece = Self::begin(filter, sequence, asked, vec![GroupRun { group, events }], probes, times, callers);
        piece.from = Some(from);
        piece.again = again;
        piece.content = piece.packed();
        piece
    }

    /// Creates an unsent batch of events without idempotency keys. The caller encodes the content after it has set all
    /// other fields.
    fn begin(
        filter: Arc<FilterCore>,
        sequence: u64,
        Asked { operation, deadline, .. }: Asked,
        runs: Vec<GroupRun>,
        probes: Probes,
        times: Times,
        callers: Callers,
    ) -> Self {
        Self {
            filter,
            sequence,
            operation,
            runs,
            probes,
            times,
            names: Vec::new(),
            fences: Vec::new(),
            trace: callers.trace(),
            callers,
            noted: Noted::default(),
            deadline,
            tries: RetryState::default(),
            retry_until: None,
            routed_by: 0,
            is_sent: false,
            content: Ok(Batch::default()),
            from: None,
            again: false,
            ticket: None,
        }
    }

    /// Notes where events were found, and which answers are degraded.
    pub(crate) fn note(&self, answers: &Answers) {
        if self.from.is_some() {
            self.callers.note(
                |event| answers.is_event_degraded(event),
                |event| answers.seen().get(event).copied().unwrap_or_default(),
            );
        }
    }

    /// Returns the number of awaited events that a reply lists as degraded and decides. Returns `None` if the reply
    /// does not list degraded events.
    pub(crate) fn listed_degraded(&self, answers: &Answers) -> Option<usize> {
        let listed = answers.degraded_events();
        if listed.is_empty() {
            return None;
        }
        let awaited = listed.iter().map(|event| *event as usize).filter(|event| self.callers.awaits(*event));
        Some(awaited.filter(|event| !matches!(answers.decisions()[*event], Decision::Undecided(_))).count())
    }

    pub(crate) fn events(&self) -> usize {
        self.callers.len()
    }

    /// Returns the guard that counts the batch as in flight.
    pub(crate) fn ticket(&self) -> Option<Arc<SubqueueTicket>> {
        self.ticket.clone()
    }

    /// Returns the complete message, addressed with the current cluster map.
    pub(crate) fn message(&self, map: &ClusterMap, head: NodeId, now: Instant) -> Result<Batch, WireError> {
        let left_ms = self.deadline.saturating_duration_since(now).as_millis();
        Ok(Batch {
            sequence: self.sequence,
            filter_epoch: map.filters.get(&self.filter.id()).map_or(0, |record| record.epoch.0),
            incarnation: map.nodes.get(&head).map_or(0, |node| node.incarnation.0),
            deadline_ms: u32::try_from(left_ms).unwrap_or(u32::MAX).max(1),
            again: self.again || self.tries.may_have_recorded(),
            former_asked: map.former_of(self.filter.id()).is_some(),
            ..self.content.clone()?
        })
    }

    fn packed(&self) -> Result<Batch, WireError> {
        let header = BatchHeader {
            sequence: self.sequence,
            filter: self.filter.id(),
            epoch: Epoch::default(),
            incarnation: Incarnation(0),
            operation: self.operation,
            ttl_ms: self.times.ttl_ms,
            deadline_in_ms: 0,
            base_unit: self.times.base_unit,
            clock_ms: self.times.clock_ms,
            traceparent: self.trace.map(|trace| trace.to_string()).unwrap_or_default(),
            from: self.from,
            again: false,
        };
        let mut end = 0;
        let runs = self.runs.iter().map(|run| {
            let range = end..end + run.events as usize;
            end = range.end;
            Run {
                group: run.group,
                probes: &self.probes,
                ticks: self.times.ticks.get(range.clone()).unwrap_or(&[]),
                names: self.names.get(range.clone()).unwrap_or(&[]),
                fences: self.fences.get(range.clone()).unwrap_or(&[]),
                range,
            }
        });
        let batch = batch::encode(&header, &runs.collect::<Vec<_>>())?;
        let audited = self.filter.auditor().map(|auditor| lock(auditor).take_new_counts()).unwrap_or_default();
        Ok(Batch {
            audited_tests: u32::try_from(audited.tests).unwrap_or(u32::MAX),
            audited_false_positives: u32::try_from(audited.false_positives).unwrap_or(u32::MAX),
            ..batch
        })
    }

    /// Returns the head node of every event, in order, each with the index of the event's run.
    fn heads_of_events<'a>(&'a self, heads: &'a Heads<'_>) -> impl Iterator<Item = (usize, Option<NodeId>)> + 'a {
        let runs = self.runs.iter().enumerate();
        let groups = runs.flat_map(|(number, run)| (0..run.events).map(move |_| (number, run.group)));
        groups
            .enumerate()
            .map(move |(event, (run, group))| (run, heads.of(self.filter.prober(), group, &self.probes, event)))
    }

    /// Returns the head node of all events of the batch, or `None` if they have several.
    pub(crate) fn head(&self, heads: &Heads<'_>) -> Option<NodeId> {
        let mut end = 0;
        let runs = self.runs.iter().map(|run| {
            let begin = end;
            end += run.events as usize;
            (run.group, begin..end)
        });
        let mut heads =
            runs.flat_map(|(group, events)| heads.of_run(self.filter.prober(), group, &self.probes, events));
        let first = heads.next()??;
        heads.all(|head| head == Some(first)).then_some(first)
    }

    /// Splits the batch into parts, each with a single head node (the node that decides its events).
    ///
    /// The events of the batch for one slice group form a run, and each run has a sequence number, by which a node
    /// recognises a retry. If all events of a run have the same head node, the run keeps its number. Otherwise the run
    /// is divided among the head nodes. Each part is then a different set of events, so it gets a new number.
    ///
    /// A part with a new sequence number may contain events that an earlier attempt has recorded. The node cannot
    /// recognise the retry of such an event, and would call the event a duplicate of itself. The function therefore
    /// answers these events as undecided and does not send them again.
    pub(crate) fn split(mut self, heads: &Heads<'_>) -> Vec<(NodeId, Self)> {
        let heads: Vec<(usize, Option<NodeId>)> = self.heads_of_events(heads).collect();
        let mut shares: Vec<Share> = Vec::new();
        let mut from = 0;
        while from < heads.len() {
            let run = heads[from].0;
            let events = heads[from..].iter().take_while(|(of, _)| *of == run).count();
            let is_whole = heads[from..from + events].iter().all(|(_, head)| *head == heads[from].1);
            for (event, (_, head)) in heads.iter().enumerate().skip(from).take(events) {
                let Some(head) = *head else { continue };
                match shares.iter_mut().find(|share| (share.head, share.is_whole) == (head, is_whole)) {
                    Some(share) => share.events.push(event),
                    None => shares.push(Share { head, is_whole, events: vec![event] }),
                }
            }
            from += events;
        }
        let may_have_recorded = self.tries.reason_for_callers(Reason::StaleMap) == Reason::Unknown;
        let mut batches = Vec::with_capacity(shares.len());
        for Share { head, is_whole, events } in shares {
            let mut part = self.part(&events);
            if !is_whole && may_have_recorded {
                part.answer_all(Reason::Unknown);
                continue;
            }
            if !is_whole {
                part.sequence = self.filter.core().next_sequence();
            }
            batches.push((head, part));
        }
        let headless = heads.iter().enumerate().filter(|(_, (_, head))| head.is_none());
        let headless: Vec<usize> = headless.map(|(event, _)| event).collect();
        let reason = self.tries.reason_for_callers(Reason::NotReady);
        self.part(&headless).answer_all(reason);
        // Every event now belongs to a part, which answers the event's caller.
        self.callers = Callers::default();
        batches
    }

    /// Divides the batch into parts of at most `events_max` events, and gives each part its own sequence number. Nodes
    /// cannot recognise a retry under a new sequence number. If an earlier attempt may have recorded some of the
    /// events, the function therefore answers all events as undecided and returns no parts.
    pub(crate) fn cut(mut self, events_max: usize) -> Vec<Self> {
        if self.tries.reason_for_callers(Reason::StaleMap) == Reason::Unknown {
            self.answer_all(Reason::Unknown);
            return Vec::new();
        }
        let events: Vec<usize> = (0..self.events()).collect();
        let parts = events.chunks(events_max.max(1)).map(|events| self.split_off_renumbered(events)).collect();
        // Every event now belongs to a part, which answers the event's caller.
        self.callers = Callers::default();
        parts
    }

    /// Removes some events and their callers from this batch, and returns them as a batch with a new sequence number.
    fn split_off_renumbered(&mut self, events: &[usize]) -> Self {
        let mut part = self.part(events);
        part.sequence = self.filter.core().next_sequence();
        part.content = part.packed();
        part
    }

    /// Removes some events and their callers from this batch, and returns them as a batch with the same sequence
    /// number.
    fn part(&mut self, events: &[usize]) -> Self {
        let mut probes = Probes::new(self.probes.shape());
        let mut runs: Vec<GroupRun> = Vec::new();
        let mut groups = self.groups();
        let mut next = 0;
        for event in events {
            let pushed = match self.probes.shape() {
                ProbeShape::Spread { .. } => probes.push_positions(self.probes.positions(*event)),
                ProbeShape::Blocked { .. } => {
                    self.probes.block(*event).map_or(Ok(()), |block| probes.push_block(block))
                }
            };
            debug_assert!(pushed.is_ok(), "a probe of the same shape");
            let group = groups.nth(event - next).unwrap_or(0);
            next = event + 1;
            add_to_runs(&mut runs, group);
        }
        drop(groups);
        let times = Times { ticks: chosen(&self.times.ticks, events), ..self.times };
        let asked = Asked { operation: self.operation, ttl_ms: times.ttl_ms, deadline: self.deadline };
        let callers = self.callers.take_some(events.iter().copied());
        let mut part = Self::begin(self.filter.clone(), self.sequence, asked, runs, probes, times, callers);
        part.names = chosen(&self.names, events);
        part.fences = chosen(&self.fences, events);
        part.noted = self.noted.part(events);
        part.trace = self.trace;
        part.from = self.from;
        part.again = self.again;
        part.tries = self.tries.clone();
        part.retry_until = self.retry_until;
        part.routed_by = self.routed_by;
        part.ticket = self.ticket.clone();
        part.content = part.packed();
        part
    }

    /// Returns the number of events that callers still wait for.
    pub(crate) fn awaited(&self) -> usize {
        self.callers.waiting()
    }

    /// Returns whether every awaited event has lost all of its slices, and the filter's policy assigns a verdict to
    /// such events.
    pub(crate) fn is_lost(&self) -> bool {
        let lost = self.lost_events(|_| Answer::undecided(Reason::SlicesDown));
        lost.is_some_and(|(_, events)| events.len() == self.awaited())
    }

    /// Answers the events that can never be decided, because they need slices whose cells are lost for good. The
    /// function considers only events for which `is_down` returns `true`. All other events stay in the batch.
    pub(crate) fn answer_unrecoverable(&mut self, is_down: impl Fn(usize) -> bool) {
        let vain = self.unrecoverable_events(is_down);
        if vain.is_empty() {
            return;
        }
        let reason = self.tries.reason_for_callers(Reason::SlicesDown);
        if !reason.may_have_recorded() {
            self.tries.refuse_events();
        }
        let answer = Answer::undecided(reason);
        self.audit(None, |event| vain.contains(&event).then_some(answer.decision));
        let answered = self.callers.answer_some(|event| vain.contains(&event).then_some(answer));
        self.filter.core().release(answered);
    }

    fn unrecoverable_events(&self, is_down: impl Fn(usize) -> bool) -> BTreeSet<usize> {
        let core = self.filter.core();
        let map = core.map();
        let record = map.filters.get(&self.filter.id());
        let Some(record) = record.filter(|record| !passes_within(record, core.patience())) else {
            return BTreeSet::new();
        };
        let mut vain = BTreeSet::new();
        for (event, group) in self.groups().enumerate() {
            if !self.callers.awaits(event) || !is_down(event) {
                continue;
            }
            let slices = self.filter.prober().slices(group, &self.probes, event);
            if MissingSlices::among(&map, record, slices).is_unrecoverable() {
                vain.insert(event);
            }
        }
        vain
    }

    /// Returns the slice group of each event.
    fn groups(&self) -> impl Iterator<Item = u32> {
        self.runs.iter().flat_map(|run| std::iter::repeat_n(run.group, run.events as usize))
    }

    /// Answers every event. `clock_ms` is the reading of the owner's clock, if the filter has a clock.
    pub(crate) fn answer(mut self, clock_ms: Option<u64>, answer_of: impl Fn(usize) -> Answer) {
        self.finish(clock_ms, answer_of);
    }

    /// Answers every event as undecided with the same reason.
    pub(crate) fn answer_all(self, reason: Reason) {
        self.answer(None, |_| Answer::undecided(reason));
    }

    fn finish(&mut self, clock_ms: Option<u64>, answer_of: impl Fn(usize) -> Answer) {
        let lost = self.lost_events(&answer_of);
        if let Some((decision, events)) = &lost {
            self.filter.note_degraded(events.len(), if *decision == Decision::Duplicate { 1.0 } else { 0.0 });
        }
        match &lost {
            None => self.tell(clock_ms, answer_of),
            Some((decision, events)) => self.tell(clock_ms, |event| {
                if events.contains(&event) { Answer { decision: *decision, estimate: 0.0 } } else { answer_of(event) }
            }),
        }
    }

    /// Answers all callers, and passes the answers to the audit and to the client's local memory.
    fn tell(&mut self, clock_ms: Option<u64>, answer_of: impl Fn(usize) -> Answer) {
        self.audit(clock_ms, |event| Some(answer_of(event).decision));
        self.remember(&answer_of);
        self.filter.core().release(self.callers.waiting());
        self.callers.answer(answer_of);
    }

    /// Returns the events for which no slice is left, together with their verdict. The verdict is determined by the
    /// filter's policy for lost slices (`when_lost`), for example "duplicate". Returns `None` if there are no such
    /// events, or if the policy leaves them undecided.
    fn lost_events(&self, answer_of: impl Fn(usize) -> Answer) -> Option<(Decision, BTreeSet<usize>)> {
        let is_asked = matches!(self.operation, Operation::Observe | Operation::Lookup) && self.from.is_none();
        let decision = match self.filter.record().policies.when_lost {
            _ if !is_asked => return None,
            WhenLost::Undecided => return None,
            WhenLost::Duplicate => Decision::Duplicate,
            WhenLost::FirstSeen => Decision::FirstSeen,
        };
        let map = self.filter.core().map();
        let record = map.filters.get(&self.filter.id())?;
        let heads = Heads::new(&map, record);
        let mut lost = BTreeSet::new();
        for (event, group) in self.groups().enumerate() {
            let is_down =
                self.callers.awaits(event) && answer_of(event).decision == Decision::Undecided(Reason::SlicesDown);
            if is_down && heads.are_gone(self.filter.prober(), group, &self.probes, event) {
                lost.insert(event);
            }
        }
        (!lost.is_empty()).then_some((decision, lost))
    }

    /// Adds first-seen events to the client's local memory, if the memory is enabled.
    fn remember(&self, answer_of: impl Fn(usize) -> Answer) {
        let Noted { digests, local_tick, .. } = &self.noted;
        if digests.is_empty() {
            return;
        }
        let first = (0..digests.len())
            .filter(|event| self.callers.awaits(*event) && answer_of(*event).decision == Decision::FirstSeen);
        self.filter.remember(first.map(|event| {
            let tick = self.times.ticks.get(event).unwrap_or(local_tick);
            (digests[event], tick.unit)
        }));
    }

    /// Passes the answers of audited events to the audit. Each answer is audited once.
    fn audit(&mut self, clock_ms: Option<u64>, decision_of: impl Fn(usize) -> Option<Decision>) {
        if self.operation != Operation::Observe || self.noted.audited.is_empty() {
            return;
        }
        let still = Tick { clock_unit: self.times.base_unit, unit: self.times.base_unit };
        let callers = &self.callers;
        let ticks = &self.times.ticks;
        let audited = self.noted.audited.iter().filter_map(|AuditedEvent { event, digest }| {
            let event = Some(*event as usize).filter(|event| callers.awaits(*event))?;
            Some((*digest, ticks.get(event).copied().unwrap_or(still), decision_of(event)?))
        });
        self.filter.audit(clock_ms, audited);
    }
}

/// Appends an event of a slice group to the list of runs.
fn add_to_runs(runs: &mut Vec<GroupRun>, group: u32) {
    match runs.last_mut() {
        Some(run) if run.group == group => run.events += 1,
        _ => runs.push(GroupRun { group, events: 1 }),
    }
}

/// Reorders a list. The list has one entry for each event, or is empty.
fn in_order<T: Copy>(list: Vec<T>, order: &[u32]) -> Vec<T> {
    if list.is_empty() { list } else { order.iter().map(|index| list[*index as usize]).collect() }
}

impl Drop for RoutedBatch {
    fn drop(&mut self) {
        if self.callers.waiting() > 0 {
            let reason = self.tries.timeout_reason(self.is_sent, Reason::NotReady);
            self.finish(None, |_| Answer::undecided(reason));
        }
    }
}
