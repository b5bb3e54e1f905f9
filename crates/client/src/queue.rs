//! Events that wait for a batch to one node.
//!
//! Promises: first in, first out; a batch has events of one operation only, all named or none, and within the span of
//! times in which a node accepts whatever this producer's clock has accepted. Must not know: when a batch is due.

use std::collections::VecDeque;
use std::sync::Arc;

use firstseen_filter::Digest;
use firstseen_routing::{Operation, SubmissionName, Tick};
use tokio::time::Instant;

use crate::call::{Answer, Caller, Callers};

/// An event on its way into a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    pub(crate) digest: Digest,
    pub(crate) group: u32,
    /// Its number in its call.
    pub(crate) index: u32,
    pub(crate) tick: Tick,
    /// What the clock showed before it.
    pub(crate) before_unit: u64,
}

/// Events of one caller.
struct Segment {
    caller: Caller,
    operation: Operation,
    is_named: bool,
    events: usize,
    deadline: Instant,
}

/// What the events of a batch have in common, and the events.
pub(crate) struct Taken {
    pub(crate) operation: Operation,
    pub(crate) events: Vec<Queued>,
    /// One an event, or none.
    pub(crate) names: Vec<SubmissionName>,
    pub(crate) callers: Callers,
    pub(crate) deadline: Instant,
}

/// The queue of one filter and node.
#[derive(Default)]
pub(crate) struct Queue {
    segments: VecDeque<Segment>,
    events: VecDeque<Queued>,
    /// Of events in segments that are named.
    names: VecDeque<SubmissionName>,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Adds the only event of a caller, or one of the events of a call.
    pub(crate) fn push(
        &mut self,
        event: Queued,
        name: Option<SubmissionName>,
        (operation, deadline): (Operation, Instant),
        caller: Caller,
    ) {
        let is_named = name.is_some();
        self.events.push_back(event);
        self.names.extend(name);
        if let (Caller::Many(call), Some(last)) = (&caller, self.segments.back_mut())
            && matches!(&last.caller, Caller::Many(of_last) if Arc::ptr_eq(call, of_last))
            && (last.operation, last.is_named, last.deadline) == (operation, is_named, deadline)
        {
            last.events += 1;
            return;
        }
        self.segments.push_back(Segment { caller, operation, is_named, events: 1, deadline });
    }

    /// The events of the next batch: at most `events_max`, whose clock is at most `span_units` ahead of where it stood
    /// before them (beyond that a node might take the last ones for events from the future).
    pub(crate) fn take(&mut self, events_max: usize, span_units: u64) -> Option<Taken> {
        let (first, base_unit) = (self.segments.front()?, self.events.front()?.before_unit);
        let (operation, is_named, deadline) = (first.operation, first.is_named, first.deadline);
        let in_span = |event: &&Queued| event.tick.clock_unit <= base_unit.saturating_add(span_units);
        // The first event has the clock's word, however far the clock stepped for it.
        let events_max = self.events.iter().take(events_max).take_while(in_span).count().max(1);
        let mut taken = Taken {
            operation,
            events: Vec::with_capacity(events_max),
            names: Vec::new(),
            callers: Callers::with_events(events_max),
            deadline,
        };
        while let Some(segment) = self.segments.front_mut()
            && (segment.operation, segment.is_named) == (operation, is_named)
            && taken.events.len() < events_max
        {
            let events = segment.events.min(events_max - taken.events.len());
            segment.events -= events;
            let is_over = segment.events == 0;
            let from = taken.events.len();
            taken.events.extend(self.events.drain(..events));
            if is_named {
                taken.names.extend(self.names.drain(..events));
            }
            match &segment.caller {
                Caller::Many(call) => {
                    taken.events[from..].iter().for_each(|event| taken.callers.push_many(call, event.index));
                    if is_over {
                        self.segments.pop_front();
                    }
                }
                Caller::One(_) => {
                    if let Some(Segment { caller: Caller::One(sender), .. }) = self.segments.pop_front() {
                        taken.callers.push_one(sender);
                    }
                }
            }
        }
        Some(taken)
    }

    /// Answers callers whose time is over at `now`, and tells how many events that were.
    pub(crate) fn expire(&mut self, now: Instant, answer: Answer) -> usize {
        let mut expired = 0;
        while self.segments.front().is_some_and(|segment| segment.deadline <= now) {
            expired += self.answer_front(answer);
        }
        expired
    }

    /// Answers everybody, and tells how many events that were.
    pub(crate) fn give_up(&mut self, answer: Answer) -> usize {
        let mut events = 0;
        while !self.segments.is_empty() {
            events += self.answer_front(answer);
        }
        events
    }

    fn answer_front(&mut self, answer: Answer) -> usize {
        let Some(segment) = self.segments.pop_front() else { return 0 };
        if segment.is_named {
            self.names.drain(..segment.events);
        }
        let events = self.events.drain(..segment.events);
        match segment.caller {
            // The caller may have gone away.
            Caller::One(sender) => drop((sender.send(answer), events)),
            Caller::Many(call) => call.answer(events.map(|event| (event.index, answer))),
        }
        segment.events
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firstseen_routing::{Decision, Reason};
    use tokio::sync::oneshot;

    use super::*;
    use crate::call::ManyCall;

    fn event(index: u32, before_unit: u64, clock_unit: u64) -> Queued {
        let tick = Tick { clock_unit, unit: clock_unit };
        Queued { digest: Digest { lo: index.into(), hi: 0 }, group: 0, index, tick, before_unit }
    }

    fn indices(taken: &Taken) -> Vec<u32> {
        taken.events.iter().map(|event| event.index).collect()
    }

    #[tokio::test]
    async fn batches_are_of_one_operation_and_end_where_the_clock_has_gone_too_far() {
        let (mut queue, deadline) = (Queue::default(), Instant::now() + Duration::from_secs(1));
        let call = ManyCall::new(6);
        for (index, clock_unit) in (0..).zip([0, 5, 10, 11, 30, 30]) {
            let name = (index == 5).then_some(SubmissionName { source: 1, number: 2 });
            let before = if index == 0 { 0 } else { [0, 0, 5, 10, 11, 30][index as usize] };
            queue.push(
                event(index, before, clock_unit),
                name,
                (Operation::Observe, deadline),
                Caller::Many(call.clone()),
            );
        }
        let (sender, _receiver) = oneshot::channel();
        queue.push(event(0, 30, 30), None, (Operation::Lookup, deadline), Caller::One(sender));
        let batches: Vec<Taken> = std::iter::from_fn(|| queue.take(4, 10)).collect();
        assert_eq!(
            batches.iter().map(indices).collect::<Vec<_>>(),
            [vec![0, 1, 2], vec![3], vec![4], vec![5], vec![0]]
        );
        assert_eq!(batches.iter().map(|batch| batch.names.len()).collect::<Vec<_>>(), [0, 0, 0, 1, 0]);
        assert_eq!(batches[4].operation, Operation::Lookup);
        assert_eq!(queue.len(), 0);
    }

    #[tokio::test]
    async fn what_waits_too_long_is_answered() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let call = ManyCall::new(2);
        for index in 0..2 {
            let until = (Operation::Observe, now + Duration::from_secs(index.into()));
            queue.push(event(index, 0, 0), None, until, Caller::Many(call.clone()));
        }
        let answer = Answer::undecided(Reason::Overloaded);
        assert_eq!((queue.expire(now, answer), queue.len()), (1, 1));
        assert_eq!((queue.expire(now + Duration::from_secs(1), answer), queue.len()), (1, 0));
        assert!(call.wait().await.iter().all(|told| told.decision == Decision::Undecided(Reason::Overloaded)));
    }
}
