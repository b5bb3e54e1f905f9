//! One call: the place where its caller waits for answers.
//!
//! Promises: every event is answered once at most; answers to a caller that went away are dropped, and disturb no other
//! caller. Must not know: how answers come about.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstseen_routing::{Decision, Hold, Reason, Seen};
use tokio::sync::{Notify, oneshot};

use crate::trace::TraceParent;

/// The answer to one event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) decision: Decision,
    /// The event's frequency, where that was asked for.
    pub(crate) estimate: f32,
}

impl Answer {
    pub(crate) fn duplicate() -> Self {
        Self { decision: Decision::Duplicate, estimate: 0.0 }
    }

    pub(crate) fn undecided(reason: Reason) -> Self {
        Self { decision: Decision::Undecided(reason), estimate: 0.0 }
    }
}

/// Locks. A value that a panicking thread left behind is whole, as no code here panics between two changes.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call about many events, or one that is traced.
pub(crate) struct ManyCall {
    trace: Option<TraceParent>,
    state: Mutex<ManyState>,
    done: Notify,
}

struct ManyState {
    answers: Vec<Answer>,
    missing: usize,
    /// Where events were found, by the levels of a tree; none where no reply has said so.
    seen: Vec<Seen>,
    /// Who holds events that were claimed; none where no reply has said so.
    holds: Vec<Hold>,
    degraded: bool,
}

impl ManyCall {
    pub(crate) fn new(events: usize, trace: Option<TraceParent>) -> Arc<Self> {
        let answers = vec![Answer::undecided(Reason::Unknown); events];
        let state = ManyState { answers, missing: events, seen: Vec::new(), holds: Vec::new(), degraded: false };
        Arc::new(Self { trace, state: Mutex::new(state), done: Notify::new() })
    }

    /// Answers several events under one lock.
    pub(crate) fn answer(&self, answers: impl Iterator<Item = (u32, Answer)>) {
        let mut state = lock(&self.state);
        for (index, answer) in answers {
            state.answers[index as usize] = answer;
            state.missing -= 1;
        }
        if state.missing == 0 {
            self.done.notify_one();
        }
    }

    /// Notes where an event was found that is about to be answered.
    fn note(&self, index: u32, seen: Seen, degraded: bool) {
        let mut state = lock(&self.state);
        let events = state.answers.len();
        state.seen.resize(events, Seen::default());
        state.seen[index as usize] = seen;
        state.degraded |= degraded;
    }

    /// Notes who holds an event that is about to be answered.
    fn note_hold(&self, index: u32, hold: Hold) {
        let mut state = lock(&self.state);
        let events = state.answers.len();
        state.holds.resize(events, Hold::None);
        state.holds[index as usize] = hold;
    }

    /// Who holds the events that were claimed, as far as replies have said so.
    pub(crate) fn holds(&self) -> Vec<Hold> {
        std::mem::take(&mut lock(&self.state).holds)
    }

    /// What replies said beside the answers: where events were found, and whether any reply was degraded.
    pub(crate) fn noted(&self) -> (Vec<Seen>, bool) {
        let mut state = lock(&self.state);
        (std::mem::take(&mut state.seen), state.degraded)
    }

    /// Waits for all answers, and takes them in the order of the events.
    pub(crate) async fn wait(&self) -> Vec<Answer> {
        loop {
            {
                let mut state = lock(&self.state);
                if state.missing == 0 {
                    return std::mem::take(&mut state.answers);
                }
            }
            self.done.notified().await;
        }
    }
}

/// A caller that waits for events of a queue.
pub(crate) enum Caller {
    One(oneshot::Sender<Answer>),
    Many(Arc<ManyCall>),
}

/// Where the answer to one event of a batch goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// To the only event of this caller.
    One(u32),
    /// To event `index` of this caller.
    Many { caller: u32, index: u32 },
    /// Nowhere: the event has been answered.
    Answered,
}

/// All callers that wait for events of one batch.
#[derive(Default)]
pub(crate) struct Callers {
    ones: Vec<Option<oneshot::Sender<Answer>>>,
    manys: Vec<Arc<ManyCall>>,
    /// One an event, in the order of the batch.
    places: Vec<Place>,
    answered: usize,
}

impl Callers {
    pub(crate) fn with_events(events: usize) -> Self {
        Self { places: Vec::with_capacity(events), ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Events that are not answered.
    pub(crate) fn waiting(&self) -> usize {
        self.places.len() - self.answered
    }

    /// The trace of the first call that has one.
    pub(crate) fn trace(&self) -> Option<TraceParent> {
        self.manys.iter().find_map(|call| call.trace)
    }

    /// Whether event `index` is not answered.
    pub(crate) fn awaits(&self, index: usize) -> bool {
        !matches!(self.places[index], Place::Answered)
    }

    /// The next event is the only one of its caller.
    pub(crate) fn push_one(&mut self, sender: oneshot::Sender<Answer>) {
        self.places.push(Place::One(self.ones.len() as u32));
        self.ones.push(Some(sender));
    }

    /// The next events are those of a call that have these numbers.
    pub(crate) fn push_many(&mut self, call: &Arc<ManyCall>, indices: impl Iterator<Item = u32>) {
        if !self.manys.last().is_some_and(|last| Arc::ptr_eq(last, call)) {
            self.manys.push(call.clone());
        }
        let caller = self.manys.len() as u32 - 1;
        self.places.extend(indices.map(|index| Place::Many { caller, index }));
    }

    /// Puts the events into another order: the new event `i` is the old event `order[i]`.
    pub(crate) fn reorder(&mut self, order: &[u32]) {
        self.places = order.iter().map(|from| self.places[*from as usize]).collect();
    }

    /// Takes the callers of some of the events, which are no longer awaited here.
    pub(crate) fn take_some(&mut self, events: impl Iterator<Item = usize>) -> Self {
        let mut taken = Self::default();
        for event in events {
            match self.places[event] {
                Place::One(caller) => {
                    taken.places.push(Place::One(taken.ones.len() as u32));
                    taken.ones.push(self.ones[caller as usize].take());
                }
                Place::Many { caller, index } => taken.push_many(&self.manys[caller as usize], std::iter::once(index)),
                Place::Answered => {
                    taken.places.push(Place::Answered);
                    taken.answered += 1;
                }
            }
        }
        taken
    }

    /// Answers the events that have an answer already; returns how many.
    pub(crate) fn answer_some(&mut self, answer_of: impl Fn(usize) -> Option<Answer>) -> usize {
        let before = self.answered;
        for (event, place) in self.places.iter_mut().enumerate() {
            let Some(answer) = answer_of(event) else { continue };
            match *place {
                Place::One(caller) => {
                    if let Some(sender) = self.ones[caller as usize].take() {
                        // The caller may have gone away.
                        let _ = sender.send(answer);
                    }
                }
                Place::Many { caller, index } => self.manys[caller as usize].answer(std::iter::once((index, answer))),
                Place::Answered => continue,
            }
            *place = Place::Answered;
            self.answered += 1;
        }
        self.answered - before
    }

    /// Notes who holds events, for the calls that wait for them.
    pub(crate) fn note_holds(&self, holds: &[Hold]) {
        for (place, hold) in self.places.iter().zip(holds) {
            if let Place::Many { caller, index } = place {
                self.manys[*caller as usize].note_hold(*index, *hold);
            }
        }
    }

    /// Notes where events were found, for the calls that wait for them.
    pub(crate) fn note(&self, degraded: bool, seen_of: impl Fn(usize) -> Seen) {
        for (event, place) in self.places.iter().enumerate() {
            if let Place::Many { caller, index } = place {
                self.manys[*caller as usize].note(*index, seen_of(event), degraded);
            }
        }
    }

    /// Answers every event that still waits; afterwards none does.
    pub(crate) fn answer(&mut self, answer_of: impl Fn(usize) -> Answer) {
        let places = std::mem::take(&mut self.places);
        self.answered = 0;
        let mut event = 0;
        while let Some(place) = places.get(event) {
            match *place {
                Place::One(caller) => {
                    if let Some(sender) = self.ones[caller as usize].take() {
                        // The caller may have gone away.
                        let _ = sender.send(answer_of(event));
                    }
                    event += 1;
                }
                Place::Answered => event += 1,
                Place::Many { caller: of, .. } => {
                    let own = places[event..].iter().map_while(|place| match place {
                        Place::Many { caller, index } if *caller == of => Some(*index),
                        _ => None,
                    });
                    let start = event;
                    let answers = own.enumerate().map(|(offset, index)| {
                        event += 1;
                        (index, answer_of(start + offset))
                    });
                    self.manys[of as usize].answer(answers);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(estimate: usize) -> Answer {
        Answer { decision: Decision::FirstSeen, estimate: estimate as f32 }
    }

    #[tokio::test]
    async fn answers_go_to_their_callers_whatever_the_order_of_the_batch() {
        let (many, other) = (ManyCall::new(3, None), ManyCall::new(1, None));
        let (sender, one) = oneshot::channel();
        let (gone, nobody) = oneshot::channel();
        drop(nobody);
        let mut callers = Callers::with_events(6);
        callers.push_many(&many, 0..2);
        callers.push_one(sender);
        callers.push_many(&other, 0..1);
        callers.push_one(gone);
        callers.push_many(&many, 2..3);
        callers.reorder(&[5, 4, 3, 2, 1, 0]);
        let mut taken = callers.take_some([1, 2, 3].into_iter());
        let mut rest = callers.take_some([0, 4, 5].into_iter());
        assert_eq!((taken.waiting(), taken.answer_some(|event| (event == 1).then(|| answer(1)))), (3, 1));
        assert_eq!((taken.waiting(), taken.awaits(1), taken.awaits(2)), (2, false, true));
        taken.answer(answer);
        rest.answer(|event| answer(10 + event));
        assert_eq!(one.await, Ok(answer(2)));
        assert_eq!(other.wait().await, [answer(1)]);
        assert_eq!(many.wait().await, [answer(12), answer(11), answer(10)]);
    }
}
