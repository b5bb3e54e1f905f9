//! A batch in the client: from the queue until its callers have their answers.
//!
//! Promises: content and sequence stay the same however often the batch is sent; when it is dropped, all callers that
//! still wait get an answer. Must not know: streams, waiting times.

mod again;

use std::collections::BTreeSet;
use std::sync::Arc;

use firstseen_filter::{ProbeShape, Probes};
use firstseen_routing::{
    Climb, ClusterMap, Decision, Epoch, Fence, FromLevel, Heads, Incarnation, NodeId, Operation, Reason, Seen,
    SubmissionName, Tick, Times, WhenLost,
};
use firstseen_wire::WireError;
use firstseen_wire::batch::{self, BatchHeader, Run};
use firstseen_wire::proto::producer::Batch;
use tokio::time::Instant;

use crate::call::{Answer, Callers, ManyCall, lock};
use crate::intake::{DueBatch, FilterCore, LaneTicket};
use crate::noted::{AuditedEvent, Noted};
use crate::outage::{MissingSlices, passes_within};
use crate::queue::{Asked, Taken, chosen};
use crate::retry::Tries;
use crate::trace::TraceParent;

/// Events in a row that are of one group.
#[derive(Clone, Copy, Debug)]
struct GroupRun {
    group: u32,
    events: u32,
}

/// Events of a batch that go to one head.
struct Share {
    head: NodeId,
    /// Each of their runs goes to this head as a whole; otherwise each is divided among several heads.
    is_whole: bool,
    events: Vec<usize>,
}

/// Events that are sent under one sequence.
pub(crate) struct Piece {
    pub(crate) filter: Arc<FilterCore>,
    pub(crate) sequence: u64,
    pub(crate) operation: Operation,
    /// Events stand group by group.
    runs: Vec<GroupRun>,
    probes: Probes,
    times: Times,
    names: Vec<SubmissionName>,
    fences: Vec<Fence>,
    callers: Callers,
    /// The trace, which is part of the content: a batch that is sent again has the same.
    trace: Option<TraceParent>,
    noted: Noted,
    pub(crate) deadline: Instant,
    pub(crate) tries: Tries,
    /// Until when nodes remember the submission, counted from when it was first sent.
    pub(crate) retry_until: Option<Instant>,
    /// The version of the map by which it has been routed.
    pub(crate) routed_by: u64,
    /// The batch is on its way: an answer may still come.
    pub(crate) is_sent: bool,
    /// The batch's message, but for the fields that are known only when it is sent.
    content: Result<Batch, WireError>,
    /// The level of a tree that the batch comes from, which is to know where events were found.
    from: Option<FromLevel>,
    /// The events have climbed before, and may have been recorded.
    again: bool,
    /// As long as one part of the batch is held anywhere, the batch counts as in flight in its lane.
    ticket: Option<Arc<LaneTicket>>,
}

impl Piece {
    /// The batch that is due in a lane of a filter, for a node that takes `events_max` events at once and `batches_max` batches.
    pub(crate) fn take(filter: Arc<FilterCore>, lane: usize, events_max: usize, batches_max: u32) -> Option<Self> {
        let due = filter.take(lane, events_max, batches_max)?;
        Some(Self::new(filter, due))
    }

    /// The batch of these events, grouped in runs.
    fn new(filter: Arc<FilterCore>, due: DueBatch) -> Self {
        let DueBatch { taken, clock_ms, ticket } = due;
        let Taken { asked, mut events, whens, mut names, mut fences, mut callers } = taken;
        let first = whens.first().map(|run| run.when).unwrap_or_default();
        // Where all events are of one unit, the message has it once, also if the clock stepped there for the first of
        // them.
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
        // Only nodes know when events end that have lives of their own.
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

    /// The batch of events that have climbed to a level of a tree, whose answers go to `call`.
    pub(crate) fn of_climb(filter: Arc<FilterCore>, climb: Climb, deadline: Instant, call: &Arc<ManyCall>) -> Self {
        let Climb { from, group, operation, probes, times, again, .. } = climb;
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

    /// A batch that has never been sent, of events without names; its content is packed once all else is in place.
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
            tries: Tries::default(),
            retry_until: None,
            routed_by: 0,
            is_sent: false,
            content: Ok(Batch::default()),
            from: None,
            again: false,
            ticket: None,
        }
    }

    /// Notes where events were found.
    pub(crate) fn note(&self, degraded: bool, seen: &[Seen]) {
        if self.from.is_some() {
            self.callers.note(degraded, |event| seen.get(event).copied().unwrap_or_default());
        }
    }

    pub(crate) fn events(&self) -> usize {
        self.callers.len()
    }

    /// A ticket that keeps the batch counted as in flight.
    pub(crate) fn ticket(&self) -> Option<Arc<LaneTicket>> {
        self.ticket.clone()
    }

    /// The message, by the present map.
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
        let audited = self.filter.auditor().map(|auditor| lock(auditor).take_news()).unwrap_or_default();
        Ok(Batch {
            audited_tests: u32::try_from(audited.tests).unwrap_or(u32::MAX),
            audited_false_positives: u32::try_from(audited.false_positives).unwrap_or(u32::MAX),
            ..batch
        })
    }

    /// The head of every event, in order, with the number of the run.
    fn heads_of_events<'a>(&'a self, heads: &'a Heads<'_>) -> impl Iterator<Item = (usize, Option<NodeId>)> + 'a {
        let runs = self.runs.iter().enumerate();
        let groups = runs.flat_map(|(number, run)| (0..run.events).map(move |_| (number, run.group)));
        groups
            .enumerate()
            .map(move |(event, (run, group))| (run, heads.of(self.filter.prober(), group, &self.probes, event)))
    }

    /// The node that heads all events of the batch; `None` if there are several.
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

    /// Parts that have one head each. A run that goes to one node keeps its sequence, by which the node's memory of
    /// submissions names it; one that must be divided gets new sequences, unless it may have been recorded already:
    /// then it would be unknown which of the two submissions of an event came first.
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
        let mut pieces = Vec::with_capacity(shares.len());
        for Share { head, is_whole, events } in shares {
            let mut part = self.part(&events);
            if !is_whole && may_have_recorded {
                part.answer_alike(Reason::Unknown);
                continue;
            }
            if !is_whole {
                part.sequence = self.filter.core().next_sequence();
            }
            pieces.push((head, part));
        }
        let headless = heads.iter().enumerate().filter(|(_, (_, head))| head.is_none());
        let headless: Vec<usize> = headless.map(|(event, _)| event).collect();
        let reason = self.tries.reason_for_callers(Reason::NotReady);
        self.part(&headless).answer_alike(reason);
        // Every event is in a part now, and answered there.
        self.callers = Callers::default();
        pieces
    }

    /// Parts of at most so many events, which get sequences of their own; none where some events may have been recorded
    /// already, as in [`Self::split`].
    pub(crate) fn cut(mut self, events_max: usize) -> Vec<Self> {
        if self.tries.reason_for_callers(Reason::StaleMap) == Reason::Unknown {
            self.answer_alike(Reason::Unknown);
            return Vec::new();
        }
        let events: Vec<usize> = (0..self.events()).collect();
        let parts = events.chunks(events_max.max(1)).map(|events| self.renamed_part(events)).collect();
        // Every event is in a part now, and answered there.
        self.callers = Callers::default();
        parts
    }

    /// Some of the events, with their callers, under a new sequence.
    fn renamed_part(&mut self, events: &[usize]) -> Self {
        let mut part = self.part(events);
        part.sequence = self.filter.core().next_sequence();
        part.content = part.packed();
        part
    }

    /// Some of the events, with their callers.
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

    /// Events that callers still wait for.
    pub(crate) fn awaited(&self) -> usize {
        self.callers.waiting()
    }

    /// Whether all slices of all awaited events are down, and the filter's policy has a verdict for these.
    pub(crate) fn is_lost(&self) -> bool {
        let lost = self.lost_events(|_| Answer::undecided(Reason::SlicesDown));
        lost.is_some_and(|(_, events)| events.len() == self.awaited())
    }

    /// Answers the events that `is_down` names, as slices that they need are down, where no waiting brings the cells of
    /// these back; keeps the others.
    pub(crate) fn give_up_vain(&mut self, is_down: impl Fn(usize) -> bool) {
        let vain = self.vain_events(is_down);
        let answer = Answer::undecided(self.tries.reason_for_callers(Reason::SlicesDown));
        self.audit(None, |event| vain.contains(&event).then_some(answer.decision));
        let answered = self.callers.answer_some(|event| vain.contains(&event).then_some(answer));
        self.filter.core().release(answered);
    }

    fn vain_events(&self, is_down: impl Fn(usize) -> bool) -> BTreeSet<usize> {
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
            if MissingSlices::among(&map, record, slices).is_vain() {
                vain.insert(event);
            }
        }
        vain
    }

    /// The group of each event.
    fn groups(&self) -> impl Iterator<Item = u32> {
        self.runs.iter().flat_map(|run| std::iter::repeat_n(run.group, run.events as usize))
    }

    /// Answers every event; `clock_ms` is the reading of the owner's clock, if there is one.
    pub(crate) fn answer(mut self, clock_ms: Option<u64>, answer_of: impl Fn(usize) -> Answer) {
        self.finish(clock_ms, answer_of);
    }

    /// Answers every event alike.
    pub(crate) fn answer_alike(self, reason: Reason) {
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

    /// Tells all callers, and notes what the audit and the client's own memory want to know.
    fn tell(&mut self, clock_ms: Option<u64>, answer_of: impl Fn(usize) -> Answer) {
        self.audit(clock_ms, |event| Some(answer_of(event).decision));
        self.remember(&answer_of);
        self.filter.core().release(self.callers.waiting());
        self.callers.answer(answer_of);
    }

    /// The events all of whose slices are down, and their verdict, where the filter's policy has one for them.
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

    /// Remembers first-seen events, where that is wanted.
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

    /// Checks the answers to audited events, each once.
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

/// Adds an event of a group behind the others.
fn add_to_runs(runs: &mut Vec<GroupRun>, group: u32) {
    match runs.last_mut() {
        Some(run) if run.group == group => run.events += 1,
        _ => runs.push(GroupRun { group, events: 1 }),
    }
}

/// A list that has one entry an event, or none, in another order.
fn in_order<T: Copy>(list: Vec<T>, order: &[u32]) -> Vec<T> {
    if list.is_empty() { list } else { order.iter().map(|index| list[*index as usize]).collect() }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if self.callers.waiting() > 0 {
            let reason = self.tries.out_of_time(self.is_sent, Reason::NotReady);
            self.finish(None, |_| Answer::undecided(reason));
        }
    }
}
