//! The replay guard of a group (elsewhere: idempotency table): a retry gets the reply of the first try, and is not run
//! again.
//!
//! A batch is named by its producer and its sequence, or each event by its caller: source and number. A name
//! (elsewhere: idempotency key) is remembered for the retry horizon, and within a limit of memory. A submission within
//! the horizon under a name that has been forgotten is refused, never taken for new; after the horizon that holds as
//! long as there is room for low-water marks. Beside a name stands a tag of its event: a caller that uses a name again
//! for another event gets an error, and never that event's verdict.
//!
//! Promises: a definite decision never changes once it was a reply; memory is bounded, whatever comes; time is constant
//! for each batch, amortised, or for each event where each is named; nothing is allocated for an event. Must not know:
//! cells, clocks, how an event is decided.

mod batches;
mod kept;
mod marks;
mod names;
mod queue;
mod verdicts;

use hashbrown::HashMap;

use crate::protocol::{BatchName, EventTag, MonotonicMs, NamedEvent, Submission, SubmissionName};
use crate::verdict::{Decision, Reason};
use batches::Batches;
use marks::Marks;
use names::Names;

/// The share of the memory that low-water marks of producers may take, and again those of sources: one in so many.
const MARKS_SHARE: u64 = 4;

/// What the guard knows of a submission of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing: the submission is to be run.
    New,
    /// The submission runs, under the same name in another batch, or twice in one.
    InFlight,
    /// The reply that it got before, or the reason why it is not run.
    Answered(Decision),
}

impl Standing {
    const TOO_OLD: Self = Self::Answered(Decision::Undecided(Reason::TooOld));
    const NO_ROOM: Self = Self::Answered(Decision::Undecided(Reason::Overloaded));
    const NAME_REUSED: Self = Self::Answered(Decision::Undecided(Reason::NameReused));
}

/// What is to be done with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Nothing is known of it: every event is to be run.
    New,
    /// Something is known: one standing for each event was written.
    Known,
    /// The batch is in flight: when it is settled, its reply goes to the newer place. There is nothing else to do.
    Attached,
    /// No event is run.
    Refused(Reason),
}

/// A batch in flight.
struct BatchInFlight {
    reply_to: u64,
    events: usize,
    tag: EventTag,
}

/// What is remembered of the submissions to a group.
///
/// ```
/// use firstseen_filter::{ProbeShape, Probes};
/// use firstseen_routing::{Admission, Decision, MonotonicMs, Operation, ReplayGuard, Standing, Submission, Times};
/// let mut probes = Probes::new(ProbeShape::Spread { cells: 8, hashes: 1 });
/// probes.push_positions(&[3]).unwrap();
/// let (operation, times) = (Operation::Observe, Times::default());
/// let (names, fences, from, again, traceparent) = (Vec::new(), Vec::new(), None, false, None);
/// let deadline_ms = MonotonicMs(100);
/// let (producer, sequence, reply_to) = (7, 1, 1);
/// let batch = Submission {
///     reply_to, operation, producer, sequence, names, fences, probes, times, deadline_ms, from, again, traceparent,
/// };
///
/// let mut guard = ReplayGuard::new(60_000, 1 << 20);
/// let mut standings = Vec::new();
/// assert_eq!(guard.admit(&batch, MonotonicMs(0), &mut standings), Admission::New);
/// guard.settle(&batch, &[Decision::FirstSeen]);
/// assert_eq!(guard.admit(&batch, MonotonicMs(59_999), &mut standings), Admission::Known);
/// assert_eq!(standings, [Standing::Answered(Decision::FirstSeen)]);
/// ```
pub struct ReplayGuard {
    batches: Batches,
    names: Names,
    producers: Marks,
    sources: Marks,
    /// Batches in flight; their owner bounds them.
    flights: HashMap<BatchName, BatchInFlight>,
    horizon_ms: u64,
    bytes_max: u64,
    /// When a name was forgotten last though its horizon was not over.
    whole_since_ms: MonotonicMs,
}

impl ReplayGuard {
    /// A guard that remembers for `horizon_ms` milliseconds and takes about `bytes_max` bytes at most.
    pub fn new(horizon_ms: u64, bytes_max: u64) -> Self {
        let marks_bytes_max = bytes_max / MARKS_SHARE;
        Self {
            batches: Batches::new(),
            names: Names::new(),
            producers: Marks::new(horizon_ms, marks_bytes_max),
            sources: Marks::new(horizon_ms, marks_bytes_max),
            flights: HashMap::new(),
            horizon_ms,
            bytes_max,
            whole_since_ms: MonotonicMs::START,
        }
    }

    /// Since when no name was forgotten whose horizon is not over.
    pub(crate) fn whole_since_ms(&self) -> MonotonicMs {
        self.whole_since_ms
    }

    /// Takes about `bytes_max` bytes at most from now on; the oldest names are forgotten where it has more.
    pub fn set_bytes_max(&mut self, bytes_max: u64, now_ms: MonotonicMs) {
        self.bytes_max = bytes_max;
        self.make_room(now_ms);
    }

    /// Takes up a batch and returns what to do with it; writes `standings`, one for each event, where the result says
    /// so. A batch that is not refused or attached is to be settled, now or after [`Self::depart`].
    pub fn admit(&mut self, submission: &Submission, now_ms: MonotonicMs, standings: &mut Vec<Standing>) -> Admission {
        self.expire(now_ms);
        standings.clear();
        let name = submission.name();
        let events = submission.probes.len();
        let tag = EventTag::of_batch(&submission.probes);
        if let Some(flight) = self.flights.get_mut(&name) {
            if (flight.events, flight.tag) != (events, tag) {
                return Admission::Refused(Reason::Invalid);
            }
            flight.reply_to = submission.reply_to;
            return Admission::Attached;
        }
        let admission = if submission.names.is_empty() {
            self.admit_batch(name, events, tag, now_ms, standings)
        } else {
            self.admit_names(submission.named_events(), now_ms, standings)
        };
        self.make_room(now_ms);
        admission
    }

    fn admit_batch(
        &mut self,
        name: BatchName,
        events: usize,
        tag: EventTag,
        now_ms: MonotonicMs,
        standings: &mut Vec<Standing>,
    ) -> Admission {
        let Ok(count) = u32::try_from(events) else { return Admission::Refused(Reason::Invalid) };
        if let Some((known, known_tag)) = self.batches.content(name) {
            // Two producers go by one name, say a machine that was copied while it ran.
            if known != count || !known_tag.may_be(tag) {
                return Admission::Refused(Reason::Invalid);
            }
            self.batches.standings(name, standings);
            return Admission::Known;
        }
        match self.producers.touch(name.producer, now_ms) {
            None => Admission::Refused(Reason::Overloaded),
            Some(low_water) if name.sequence < low_water => Admission::Refused(Reason::TooOld),
            Some(_) => {
                self.batches.take(name, count, tag, now_ms);
                Admission::New
            }
        }
    }

    fn admit_names(
        &mut self,
        events: impl Iterator<Item = NamedEvent>,
        now_ms: MonotonicMs,
        standings: &mut Vec<Standing>,
    ) -> Admission {
        let mut recent: Option<(u128, Option<u64>)> = None;
        for event in events {
            let source = event.name.source;
            let low_water = match recent {
                Some((recent, low_water)) if recent == source => low_water,
                _ => self.sources.touch(source, now_ms),
            };
            recent = Some((source, low_water));
            standings.push(match low_water {
                Some(low_water) => self.names.take(event, low_water, now_ms),
                None => Standing::NO_ROOM,
            });
        }
        if standings.iter().all(|standing| *standing == Standing::New) { Admission::New } else { Admission::Known }
    }

    /// The batch is not settled at once: until it is, the same one attaches to it.
    pub fn depart(&mut self, submission: &Submission) {
        let Submission { reply_to, probes, .. } = submission;
        let flight = BatchInFlight { reply_to: *reply_to, events: probes.len(), tag: EventTag::of_batch(probes) };
        self.flights.insert(submission.name(), flight);
    }

    /// The replies to a batch, one decision for each event, in order. Definite ones stand from now on;
    /// [`Reason::Unknown`] stands until a definite one is learnt; events with others may be run again. Returns the
    /// newest place that asked for a batch in flight.
    pub fn settle(&mut self, submission: &Submission, decisions: &[Decision]) -> Option<u64> {
        self.learn(submission.name(), submission.names.iter().copied(), decisions);
        self.arrive(submission.name())
    }

    /// Learns the replies to a batch, before it has arrived or after: the same as [`Self::settle`], but a retry that is
    /// in flight by now stays in flight.
    pub fn learn(
        &mut self,
        name: BatchName,
        names: impl ExactSizeIterator<Item = SubmissionName>,
        decisions: &[Decision],
    ) {
        if names.len() == 0 {
            if !self.batches.learn(name, decisions) {
                self.producers.raise(name.producer, name.sequence);
            }
        } else {
            names.zip(decisions).for_each(|(name, decision)| self.learn_named(name, *decision));
        }
    }

    /// A batch is in flight no more, as it is answered; returns the newest place that asked for it, where it was in
    /// flight.
    pub fn arrive(&mut self, name: BatchName) -> Option<u64> {
        self.flights.remove(&name).map(|flight| flight.reply_to)
    }

    fn learn_named(&mut self, name: SubmissionName, decision: Decision) {
        // This verdict says nothing of the event that the name is remembered for.
        if decision != Decision::Undecided(Reason::NameReused) && !self.names.learn(name, decision) {
            self.sources.raise(name.source, name.number);
        }
    }

    /// What the guard knows by now of a named submission that was in flight when its batch came.
    pub fn recall(&mut self, name: SubmissionName) -> Standing {
        self.names.recall(name)
    }

    /// Forgets names that are older than the horizon.
    pub fn expire(&mut self, now_ms: MonotonicMs) {
        while self.is_over(self.batches.oldest_ms(), now_ms) {
            self.forget_batch();
        }
        while self.is_over(self.names.oldest_ms(), now_ms) {
            self.pass_names(now_ms, self.horizon_ms);
        }
        self.producers.expire(now_ms);
        self.sources.expire(now_ms);
    }

    fn is_over(&self, since_ms: Option<MonotonicMs>, now_ms: MonotonicMs) -> bool {
        since_ms.is_some_and(|since_ms| now_ms.since(since_ms) >= self.horizon_ms)
    }

    /// When [`Self::expire`] has something to forget.
    pub fn next_expiry_ms(&self) -> Option<MonotonicMs> {
        let oldest_ms = [self.batches.oldest_ms(), self.names.oldest_ms()].into_iter().flatten().min();
        oldest_ms.map(|oldest_ms| oldest_ms.after(self.horizon_ms))
    }

    /// Forgets the oldest names until the rest fits.
    fn make_room(&mut self, now_ms: MonotonicMs) {
        while self.bytes() > self.bytes_max {
            self.whole_since_ms = now_ms;
            match (self.batches.oldest_ms(), self.names.oldest_ms()) {
                (None, None) => break,
                (Some(batch_ms), name_ms) if name_ms.is_none_or(|name_ms| batch_ms <= name_ms) => self.forget_batch(),
                _ => self.pass_names(now_ms, 0),
            }
        }
    }

    fn forget_batch(&mut self) {
        if let Some(name) = self.batches.forget() {
            self.producers.raise(name.producer, name.sequence);
        }
    }

    fn pass_names(&mut self, now_ms: MonotonicMs, keep_ms: u64) {
        if let Some(greatest) = self.names.pass(now_ms, keep_ms) {
            self.sources.raise(greatest.source, greatest.number);
        }
    }

    /// Bytes that the guard takes, at most.
    pub fn bytes(&self) -> u64 {
        let flights = self.flights.len() * 2 * size_of::<(BatchName, BatchInFlight)>();
        self.batches.bytes() + self.names.bytes() + self.producers.bytes() + self.sources.bytes() + flights as u64
    }

    /// Bytes that each second of the horizon takes at present.
    pub fn bytes_per_horizon_second(&self) -> f64 {
        self.bytes() as f64 * 1000.0 / self.horizon_ms.max(1) as f64
    }
}
