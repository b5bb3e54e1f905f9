//! Queue of events that wait for a batch to one node.
//!
//! Events leave the queue in the order in which they entered, and are sent in batches. All events of a batch have the
//! same operation and the same time to live. A batch contains either only events with idempotency keys from their
//! callers, or only events without such keys.

use std::collections::VecDeque;
use std::time::Duration;

use firstseen_filter::{Digest, UnitNumber};
use firstseen_routing::{Fence, Operation, SubmissionName, Tick};
use tokio::time::Instant;

use crate::call::{Answer, Caller, Callers};

/// Maximum difference between the deadlines of the events in one batch.
///
/// All events of a batch share one deadline. It is the earliest of their deadlines, so that no event is answered too
/// late. An event whose own deadline is much later would be given up too early in such a batch. The queue therefore
/// puts this event into another batch.
const DEADLINE_SPREAD: Duration = Duration::from_millis(100);

/// Event that waits for its batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    pub(crate) digest: Digest,
    pub(crate) group: u32,
    /// Index of the event in its call.
    pub(crate) index: u32,
}

/// Place of an event in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct When {
    pub(crate) tick: Tick,
    /// Reading of the clock before the event.
    pub(crate) before_unit: UnitNumber,
}

/// Consecutive events with the same place in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WhenRun {
    pub(crate) when: When,
    pub(crate) events: usize,
}

/// Parameters of a call that apply to all of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) operation: Operation,
    /// Time to live that nodes must apply to the events that they record. `None` means that nodes apply no time to
    /// live. There are two such cases: the events have none, so the filter's window applies, or the client has already
    /// expressed it by submitting the events with earlier times.
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) deadline: Instant,
}

/// Events of one part of a call. A large call is divided into several parts. The lists `names` and `fences` are either
/// empty or have one entry for each event of this part. The list `times_ms` can be longer, because it may continue with
/// the times of events in later parts of the call.
#[derive(Clone, Copy)]
pub(crate) struct Events<'a> {
    pub(crate) digests: &'a [Digest],
    pub(crate) times_ms: &'a [u64],
    pub(crate) names: &'a [SubmissionName],
    /// Fences of the grants, one for each event, if the operation confirms or releases events.
    pub(crate) fences: &'a [Fence],
}

impl<'a> Events<'a> {
    /// Creates events without idempotency keys and fences.
    pub(crate) fn plain(digests: &'a [Digest], times_ms: &'a [u64]) -> Self {
        Self { digests, times_ms, names: &[], fences: &[] }
    }
}

/// Consecutive queued events of one caller.
struct Segment {
    caller: Caller,
    asked: Asked,
    is_named: bool,
    events: usize,
}

impl Segment {
    /// Returns whether these events may be in the same batch as those of the first segment.
    fn can_share_batch(&self, first: &Self) -> bool {
        (self.asked.operation, self.asked.ttl_ms) == (first.asked.operation, first.asked.ttl_ms)
            && self.is_named == first.is_named
            && self.asked.deadline <= first.asked.deadline + DEADLINE_SPREAD
    }
}

/// Events of a batch, with the parameters that they have in common.
pub(crate) struct Taken {
    pub(crate) asked: Asked,
    pub(crate) events: Vec<Queued>,
    pub(crate) whens: Vec<WhenRun>,
    /// Idempotency keys, one for each event, or empty.
    pub(crate) names: Vec<SubmissionName>,
    /// Fences of the grants, one for each event, if the operation confirms or releases events.
    pub(crate) fences: Vec<Fence>,
    pub(crate) callers: Callers,
}

/// Queue of one filter for one node.
#[derive(Default)]
pub(crate) struct Queue {
    segments: VecDeque<Segment>,
    events: VecDeque<Queued>,
    whens: VecDeque<WhenRun>,
    /// Idempotency keys of the events that have one, in the order of the queue.
    names: VecDeque<SubmissionName>,
    /// Fences of events that are to be confirmed or released, in the order of the queue.
    fences: VecDeque<Fence>,
    /// Number of events that were added after the last segment and do not belong to a caller yet.
    unsealed: usize,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Reserves memory for `events` more events.
    pub(crate) fn reserve(&mut self, events: usize) {
        self.events.reserve(events);
    }

    /// Adds an event to the queue. The event has no caller until the next call of [`Self::seal`], which assigns the
    /// event to its caller.
    ///
    /// The function is inlined so that the fields of the event stay in registers. Without inlining, its caller would
    /// write the event to memory, and the function would have to wait for these writes before it reads the event.
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

    /// Adds the fence of the event that was added last.
    pub(crate) fn push_fence(&mut self, fence: Fence) {
        self.fences.push_back(fence);
    }

    /// Assigns all events that were added since the last call of this function to `caller`, and returns their number.
    /// Either all of these events must have idempotency keys, or none of them.
    pub(crate) fn seal(&mut self, caller: impl FnOnce() -> Caller, asked: Asked, is_named: bool) -> usize {
        let events = std::mem::take(&mut self.unsealed);
        if events > 0 {
            self.segments.push_back(Segment { caller: caller(), asked, is_named, events });
        }
        events
    }

    /// Returns the reading of the clock at the first event.
    pub(crate) fn first_unit(&self) -> Option<UnitNumber> {
        self.whens.front().map(|run| run.when.tick.clock_unit)
    }

    /// Takes the events of the next batch: at most `events_max` events, whose clock reading is at most `unit_max`.
    pub(crate) fn take(&mut self, events_max: usize, unit_max: UnitNumber) -> Option<Taken> {
        let first = self.segments.front()?;
        let asked = first.asked;
        let is_named = first.is_named;
        let in_span = self.whens.iter().take_while(|run| run.when.tick.clock_unit <= unit_max);
        // The first event may always be taken, even if it moved the clock beyond `unit_max`. Otherwise the queue would
        // block.
        let events_max = in_span.map(|run| run.events).sum::<usize>().clamp(1, events_max.max(1));
        let fitting = self.segments.iter().take_while(|segment| segment.can_share_batch(first));
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

    /// Takes the first `count` events. If these are all events, they are moved without copying.
    fn take_events(&mut self, count: usize) -> Vec<Queued> {
        if count == self.events.len() {
            std::mem::take(&mut self.events).into()
        } else {
            self.events.drain(..count).collect()
        }
    }

    /// Takes the callers of these events, which were the first of the queue.
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

    /// Removes the places in time of the first `events` events, and passes them to `take`.
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

    /// Answers callers whose deadline has passed at `now`. Returns the number of answered events.
    pub(crate) fn expire(&mut self, now: Instant, answer: Answer) -> usize {
        let mut expired = 0;
        while self.segments.front().is_some_and(|segment| segment.asked.deadline <= now) {
            expired += self.answer_front(answer);
        }
        expired
    }

    /// Answers all callers. Returns the number of answered events.
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
            // Sending fails if the caller has gone away, which is not an error.
            Caller::One(sender) => drop((sender.send(answer), events)),
            Caller::Many(call) => call.answer(events.map(|event| (event.index, answer))),
        }
        segment.events
    }
}

/// Returns the entries of a list for the chosen events. The list has one entry for each event, or is empty.
pub(crate) fn chosen<T: Copy>(list: &[T], events: &[usize]) -> Vec<T> {
    events.iter().filter_map(|event| list.get(*event).copied()).collect()
}

/// Returns whether each event of this operation carries the fence of a grant.
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
