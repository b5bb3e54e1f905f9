//! Events that wait for a batch to one node.
//!
//! Promises: first in, first out; a batch has events of one operation and one ttl only, all named or none. Must not know: when a batch is
//! due.

use std::collections::VecDeque;
use std::time::Duration;

use firstseen_filter::{Digest, UnitNumber};
use firstseen_routing::{Fence, Operation, SubmissionName, Tick};
use tokio::time::Instant;

use crate::call::{Answer, Caller, Callers};

/// A batch ends with the first of its deadlines; those of the others are not much later.
const DEADLINE_SPREAD: Duration = Duration::from_millis(100);

/// An event on its way into a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    pub(crate) digest: Digest,
    pub(crate) group: u32,
    /// Its number in its call.
    pub(crate) index: u32,
}

/// The place of an event in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct When {
    pub(crate) tick: Tick,
    /// What the clock showed before it.
    pub(crate) before_unit: UnitNumber,
}

/// Events in a row with one place in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WhenRun {
    pub(crate) when: When,
    pub(crate) events: usize,
}

/// What a call asks for all of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) operation: Operation,
    /// Time to live that nodes count for the events that they record. `None` means the window, or that event times express it.
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) deadline: Instant,
}

/// The events of one part of a call. Names and fences, where there are any, are one an event; `times_ms` also holds the
/// times of later events of the call.
#[derive(Clone, Copy)]
pub(crate) struct Events<'a> {
    pub(crate) digests: &'a [Digest],
    pub(crate) times_ms: &'a [u64],
    pub(crate) names: &'a [SubmissionName],
    /// One an event where these are confirmed or released.
    pub(crate) fences: &'a [Fence],
}

impl<'a> Events<'a> {
    /// Events without names and fences.
    pub(crate) fn plain(digests: &'a [Digest], times_ms: &'a [u64]) -> Self {
        Self { digests, times_ms, names: &[], fences: &[] }
    }
}

/// Events of one caller.
struct Segment {
    caller: Caller,
    asked: Asked,
    is_named: bool,
    events: usize,
}

impl Segment {
    /// Whether the events may be in one batch with those of the first segment.
    fn fits_behind(&self, first: &Self) -> bool {
        (self.asked.operation, self.asked.ttl_ms) == (first.asked.operation, first.asked.ttl_ms)
            && self.is_named == first.is_named
            && self.asked.deadline <= first.asked.deadline + DEADLINE_SPREAD
    }
}

/// The events of a batch, with what they have in common.
pub(crate) struct Taken {
    pub(crate) asked: Asked,
    pub(crate) events: Vec<Queued>,
    pub(crate) whens: Vec<WhenRun>,
    /// One an event, or none.
    pub(crate) names: Vec<SubmissionName>,
    /// One an event where these are confirmed or released.
    pub(crate) fences: Vec<Fence>,
    pub(crate) callers: Callers,
}

/// The queue of one filter and node.
#[derive(Default)]
pub(crate) struct Queue {
    segments: VecDeque<Segment>,
    events: VecDeque<Queued>,
    whens: VecDeque<WhenRun>,
    /// The names of events in named segments.
    names: VecDeque<SubmissionName>,
    /// The fences of events that are confirmed or released.
    fences: VecDeque<Fence>,
    /// Events behind the last segment.
    unsealed: usize,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// So many events are about to come.
    pub(crate) fn reserve(&mut self, events: usize) {
        self.events.reserve(events);
    }

    /// Adds an event, whose caller [`Self::seal`] names. Inlined, since an event that is passed through memory stalls
    /// its reader until all of its fields are written.
    #[inline(always)]
    pub(crate) fn push(&mut self, event: Queued, when: When, name: Option<SubmissionName>) {
        self.events.push_back(event);
        self.names.extend(name);
        self.unsealed += 1;
        match self.whens.back_mut() {
            Some(run) if run.when == when => run.events += 1,
            _ => self.whens.push_back(WhenRun { when, events: 1 }),
        }
    }

    /// The fence of the event that was added last.
    pub(crate) fn push_fence(&mut self, fence: Fence) {
        self.fences.push_back(fence);
    }

    /// The events that were added since the last time are `caller`'s; either all of them have names or none. Returns
    /// how many they are.
    pub(crate) fn seal(&mut self, caller: impl FnOnce() -> Caller, asked: Asked, is_named: bool) -> usize {
        let events = std::mem::take(&mut self.unsealed);
        if events > 0 {
            self.segments.push_back(Segment { caller: caller(), asked, is_named, events });
        }
        events
    }

    /// The clock at the first event.
    pub(crate) fn first_unit(&self) -> Option<UnitNumber> {
        self.whens.front().map(|run| run.when.tick.clock_unit)
    }

    /// The events of the next batch: at most `events_max`, whose clock is at most `unit_max`.
    pub(crate) fn take(&mut self, events_max: usize, unit_max: UnitNumber) -> Option<Taken> {
        let first = self.segments.front()?;
        let asked = first.asked;
        let is_named = first.is_named;
        let in_span = self.whens.iter().take_while(|run| run.when.tick.clock_unit <= unit_max);
        // The first event may always go, however far the clock stepped for it.
        let events_max = in_span.map(|run| run.events).sum::<usize>().clamp(1, events_max.max(1));
        let fitting = self.segments.iter().take_while(|segment| segment.fits_behind(first));
        let fitting = fitting.map(|segment| segment.events).sum::<usize>();
        let events = self.take_events(fitting.min(events_max));
        let names = if is_named { self.names.drain(..events.len()).collect() } else { Vec::new() };
        let has_fences = has_fences(asked.operation);
        let fences = if has_fences { self.fences.drain(..events.len()).collect() } else { Vec::new() };
        let callers = self.take_callers(&events);
        let mut whens = Vec::new();
        self.drain_whens(events.len(), |run| whens.push(run));
        Some(Taken { asked, events, whens, names, fences, callers })
    }

    /// The first events; all of them without a copy.
    fn take_events(&mut self, count: usize) -> Vec<Queued> {
        if count == self.events.len() {
            std::mem::take(&mut self.events).into()
        } else {
            self.events.drain(..count).collect()
        }
    }

    /// Takes the callers of the first events, which are these.
    fn take_callers(&mut self, events: &[Queued]) -> Callers {
        let mut callers = Callers::with_events(events.len());
        while callers.len() < events.len()
            && let Some(segment) = self.segments.front_mut()
        {
            let from = callers.len();
            let count = segment.events.min(events.len() - from);
            segment.events -= count;
            let is_over = segment.events == 0;
            match &segment.caller {
                Caller::Many(call) => {
                    callers.push_many(call, events[from..from + count].iter().map(|event| event.index));
                    if is_over {
                        self.segments.pop_front();
                    }
                }
                Caller::One(_) => {
                    if let Some(Segment { caller: Caller::One(sender), .. }) = self.segments.pop_front() {
                        callers.push_one(sender);
                    }
                }
            }
        }
        callers
    }

    /// Takes the places in time of so many events from the front.
    fn drain_whens(&mut self, mut events: usize, mut take: impl FnMut(WhenRun)) {
        while events > 0
            && let Some(run) = self.whens.front_mut()
        {
            let part = run.events.min(events);
            take(WhenRun { events: part, ..*run });
            events -= part;
            run.events -= part;
            if run.events == 0 {
                self.whens.pop_front();
            }
        }
    }

    /// Answers callers whose time is over at `now`; returns how many events that were.
    pub(crate) fn expire(&mut self, now: Instant, answer: Answer) -> usize {
        let mut expired = 0;
        while self.segments.front().is_some_and(|segment| segment.asked.deadline <= now) {
            expired += self.answer_front(answer);
        }
        expired
    }

    /// Answers all callers; returns how many events that were.
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
        if has_fences(segment.asked.operation) {
            self.fences.drain(..segment.events);
        }
        self.drain_whens(segment.events, drop);
        let events = self.events.drain(..segment.events);
        match segment.caller {
            // The caller may have gone away.
            Caller::One(sender) => drop((sender.send(answer), events)),
            Caller::Many(call) => call.answer(events.map(|event| (event.index, answer))),
        }
        segment.events
    }
}

/// Those entries of a list that has one an event, or none.
pub(crate) fn chosen<T: Copy>(list: &[T], events: &[usize]) -> Vec<T> {
    events.iter().filter_map(|event| list.get(*event).copied()).collect()
}

/// Whether each event comes with the fence of a grant.
fn has_fences(operation: Operation) -> bool {
    matches!(operation, Operation::Confirm | Operation::Release)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use firstseen_routing::{Decision, Reason};
    use tokio::sync::oneshot;

    use super::*;
    use crate::call::ManyCall;

    fn event(index: u32) -> Queued {
        Queued { digest: Digest { lo: index.into(), hi: 0 }, group: 0, index }
    }

    fn when(before_unit: u64, clock_unit: u64) -> When {
        let (before_unit, clock_unit) = (UnitNumber(before_unit), UnitNumber(clock_unit));
        When { tick: Tick { clock_unit, unit: clock_unit }, before_unit }
    }

    fn indices(taken: &Taken) -> Vec<u32> {
        taken.events.iter().map(|event| event.index).collect()
    }

    fn push_of(queue: &mut Queue, call: &Arc<ManyCall>, index: u32, when: When, asked: Asked) {
        queue.push(event(index), when, None);
        queue.seal(|| Caller::Many(call.clone()), asked, false);
    }

    #[tokio::test]
    async fn batches_are_of_one_operation_and_end_where_the_clock_goes_too_far() {
        let mut queue = Queue::default();
        let asked =
            Asked { operation: Operation::Observe, ttl_ms: None, deadline: Instant::now() + Duration::from_secs(1) };
        let call = ManyCall::new(6, None);
        for (index, (before, clock)) in (0..).zip([(0, 0), (0, 5), (5, 10), (10, 11), (11, 30)]) {
            queue.push(event(index), when(before, clock), None);
        }
        assert_eq!(queue.seal(|| Caller::Many(call.clone()), asked, false), 5);
        queue.push(event(5), when(30, 30), Some(SubmissionName { source: 1, number: 2 }));
        assert_eq!(queue.seal(|| Caller::Many(call.clone()), asked, true), 1);
        let (sender, _receiver) = oneshot::channel();
        queue.push(event(0), when(30, 30), None);
        queue.seal(|| Caller::One(sender), Asked { operation: Operation::Lookup, ..asked }, false);
        let batches: Vec<Taken> = std::iter::from_fn(|| queue.take(4, UnitNumber(11))).collect();
        assert_eq!(batches.iter().map(indices).collect::<Vec<_>>(), [vec![0, 1, 2, 3], vec![4], vec![5], vec![0]]);
        assert_eq!(batches.iter().map(|batch| batch.names.len()).collect::<Vec<_>>(), [0, 0, 1, 0]);
        assert!(
            batches.iter().all(|batch| batch.whens.iter().map(|run| run.events).sum::<usize>() == batch.events.len())
        );
        assert_eq!(batches[3].asked.operation, Operation::Lookup);
        assert_eq!((queue.len(), queue.first_unit()), (0, None));
    }

    #[tokio::test]
    async fn events_of_one_place_in_time_are_shared_out_over_batches() {
        let mut queue = Queue::default();
        let asked =
            Asked { operation: Operation::Observe, ttl_ms: None, deadline: Instant::now() + Duration::from_secs(1) };
        let call = ManyCall::new(5, None);
        (0..5).for_each(|index| push_of(&mut queue, &call, index, when(7, 7), asked));
        let runs = |taken: Taken| taken.whens.iter().map(|run| (run.when, run.events)).collect::<Vec<_>>();
        assert_eq!(queue.take(3, UnitNumber(10)).map(runs), Some(vec![(when(7, 7), 3)]));
        assert_eq!(queue.take(3, UnitNumber(10)).map(runs), Some(vec![(when(7, 7), 2)]));
        assert!(queue.take(3, UnitNumber(10)).is_none());
    }

    #[tokio::test]
    async fn an_old_event_does_not_shorten_the_time_of_new_ones() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let call = ManyCall::new(3, None);
        for (index, after_ms) in [(0, 0), (1, 90), (2, 900)] {
            let asked =
                Asked { operation: Operation::Observe, ttl_ms: None, deadline: now + Duration::from_millis(after_ms) };
            push_of(&mut queue, &call, index, when(0, 0), asked);
        }
        assert_eq!(queue.take(4, UnitNumber(10)).map(|batch| indices(&batch)), Some(vec![0, 1]));
        assert_eq!(queue.take(4, UnitNumber(10)).map(|batch| indices(&batch)), Some(vec![2]));
    }

    #[tokio::test]
    async fn what_waits_too_long_is_answered() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let call = ManyCall::new(2, None);
        for index in 0..2 {
            let asked = Asked {
                operation: Operation::Observe,
                ttl_ms: None,
                deadline: now + Duration::from_secs(index.into()),
            };
            push_of(&mut queue, &call, index, when(0, 0), asked);
        }
        let answer = Answer::undecided(Reason::Overloaded);
        assert_eq!((queue.expire(now, answer), queue.len()), (1, 1));
        assert_eq!((queue.expire(now + Duration::from_secs(1), answer), queue.len()), (1, 0));
        assert!(call.wait().await.iter().all(|answer| answer.decision == Decision::Undecided(Reason::Overloaded)));
    }
}
