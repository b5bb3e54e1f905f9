//! State of one call while its caller waits for answers.
//!
//! Each event of a call receives at most one answer. A caller that no longer wants its answers can drop its future. The
//! client then discards these answers, and the other callers whose events are in the same batch still receive theirs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstseen_routing::{Decision, Hold, Reason, Seen};
use tokio::sync::{Notify, oneshot};

use crate::trace::TraceParent;

/// Answer to one event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) decision: Decision,
    /// Estimated frequency of the event, if the caller asked for it.
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

/// Locks a mutex, even if another thread panicked while it held the mutex. This is safe because no code in this crate
/// can panic halfway through a change, so the protected value is always consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call with many events, or a traced call with any number of events.
pub(crate) struct ManyCall {
    trace: Option<TraceParent>,
    state: Mutex<ManyState>,
    done: Notify,
}

struct ManyState {
    answers: Vec<Answer>,
    missing: usize,
    /// Tree levels at which each event was found. The list is empty until a reply carries this information.
    seen: Vec<Seen>,
    /// Holder of each claimed event. The list is empty until a reply carries this information.
    holds: Vec<Hold>,
    /// Whether each answer is degraded. The list is empty until a reply contains a degraded answer.
    degraded: Vec<bool>,
}

impl ManyCall {
    pub(crate) fn new(events: usize, trace: Option<TraceParent>) -> Arc<Self> {
        let answers = vec![Answer::undecided(Reason::Unknown); events];
        let state = ManyState { answers, missing: events, seen: Vec::new(), holds: Vec::new(), degraded: Vec::new() };
        Arc::new(Self { trace, state: Mutex::new(state), done: Notify::new() })
    }

    /// Answers several events while holding the lock once.
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

    /// Notes the tree level at which an event was found, and whether its answer is degraded, before the event is
    /// answered.
    fn note(&self, index: u32, seen: Seen, degraded: bool) {
        let mut state = lock(&self.state);
        let events = state.answers.len();
        state.seen.resize(events, Seen::default());
        state.seen[index as usize] = seen;
        if degraded {
            state.degraded.resize(events, false);
            state.degraded[index as usize] = true;
        }
    }

    /// Notes who holds a claimed event, before the event is answered.
    fn note_hold(&self, index: u32, hold: Hold) {
        let mut state = lock(&self.state);
        let events = state.answers.len();
        state.holds.resize(events, Hold::None);
        state.holds[index as usize] = hold;
    }

    /// Takes the holders of the claimed events, as far as replies have reported them.
    pub(crate) fn holds(&self) -> Vec<Hold> {
        std::mem::take(&mut lock(&self.state).holds)
    }

    /// Takes the tree levels at which the events were found, as far as replies have reported them.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut lock(&self.state).seen)
    }

    /// Takes which answers are degraded. The list is empty if none are.
    pub(crate) fn degraded(&self) -> Vec<bool> {
        std::mem::take(&mut lock(&self.state).degraded)
    }

    /// Waits for all answers, and returns them in the order of the events.
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

/// Caller that waits for the answers to queued events.
pub(crate) enum Caller {
    One(oneshot::Sender<Answer>),
    Many(Arc<ManyCall>),
}

/// Destination of the answer to one event of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Caller that submitted only this event, by its index in `ones`.
    One(u32),
    /// Event number `index` of the caller `caller` that submitted many events.
    Many { caller: u32, index: u32 },
    /// No destination, because the event has been answered already.
    Answered,
}

/// All callers that wait for events of one batch.
#[derive(Default)]
pub(crate) struct Callers {
    ones: Vec<Option<oneshot::Sender<Answer>>>,
    manys: Vec<Arc<ManyCall>>,
    /// Destination of each answer, in the order of the events in the batch.
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

    /// Returns the number of events that have no answer yet.
    pub(crate) fn waiting(&self) -> usize {
        self.places.len() - self.answered
    }

    /// Returns the trace context of the first call that has one.
    pub(crate) fn trace(&self) -> Option<TraceParent> {
        self.manys.iter().find_map(|call| call.trace)
    }

    /// Returns whether event `index` has no answer yet.
    pub(crate) fn awaits(&self, index: usize) -> bool {
        !matches!(self.places[index], Place::Answered)
    }

    /// Adds an event that is the only event of its caller.
    pub(crate) fn push_one(&mut self, sender: oneshot::Sender<Answer>) {
        self.places.push(Place::One(self.ones.len() as u32));
        self.ones.push(Some(sender));
    }

    /// Adds the events of a call that have these indices.
    pub(crate) fn push_many(&mut self, call: &Arc<ManyCall>, indices: impl Iterator<Item = u32>) {
        if !self.manys.last().is_some_and(|last| Arc::ptr_eq(last, call)) {
            self.manys.push(call.clone());
        }
        let caller = self.manys.len() as u32 - 1;
        self.places.extend(indices.map(|index| Place::Many { caller, index }));
    }

    /// Reorders the events. The new event `i` is the old event `order[i]`.
    pub(crate) fn reorder(&mut self, order: &[u32]) {
        self.places = order.iter().map(|from| self.places[*from as usize]).collect();
    }

    /// Moves the callers of some events to a new value. Afterwards these events count as answered here.
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

    /// Answers the events for which `answer_of` returns an answer. Returns how many events were answered.
    pub(crate) fn answer_some(&mut self, answer_of: impl Fn(usize) -> Option<Answer>) -> usize {
        let before = self.answered;
        for (event, place) in self.places.iter_mut().enumerate() {
            let Some(answer) = answer_of(event) else { continue };
            match *place {
                Place::One(caller) => {
                    if let Some(sender) = self.ones[caller as usize].take() {
                        // Sending fails if the caller has gone away, which is not an error.
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

    /// Reports to the waiting calls who holds the events that they claimed.
    pub(crate) fn note_holds(&self, holds: &[Hold]) {
        for (place, hold) in self.places.iter().zip(holds) {
            if let Place::Many { caller, index } = place {
                self.manys[*caller as usize].note_hold(*index, *hold);
            }
        }
    }

    /// Reports to the waiting calls the tree levels at which their events were found, and which answers are degraded.
    pub(crate) fn note(&self, is_degraded: impl Fn(usize) -> bool, seen_of: impl Fn(usize) -> Seen) {
        for (event, place) in self.places.iter().enumerate() {
            if let Place::Many { caller, index } = place {
                self.manys[*caller as usize].note(*index, seen_of(event), is_degraded(event));
            }
        }
    }

    /// Answers every event that still waits. Afterwards no event of the batch is open.
    pub(crate) fn answer(&mut self, answer_of: impl Fn(usize) -> Answer) {
        let places = std::mem::take(&mut self.places);
        self.answered = 0;
        let mut event = 0;
        while let Some(place) = places.get(event) {
            match *place {
                Place::One(caller) => {
                    if let Some(sender) = self.ones[caller as usize].take() {
                        // Sending fails if the caller has gone away, which is not an error.
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
