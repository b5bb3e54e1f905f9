//! The replay guard of a slice group, which other systems call an idempotency table. It remembers the replies to
//! submissions. If a producer retries a submission, the guard returns the reply to the first attempt, and the
//! submission is not executed again.
//!
//! The guard recognizes the retry of a batch by its idempotency key, which consists of the producer and a sequence
//! number. A client can instead give each event a key of its own, which consists of a source and a number. The guard
//! remembers a key for the retry horizon, which is the longest time after which a producer may still retry. If memory
//! becomes scarce, it may have to forget a key earlier.
//!
//! If memory runs out, the guard forgets the oldest keys. It then still keeps one number for each producer or source:
//! the low-water mark, which is above all forgotten numbers. A submission with a number below the mark may be a retry
//! whose key was forgotten. The guard therefore rejects it, and never treats it as new. As long as there is room for
//! the marks, this also applies after the retry horizon.
//!
//! The guard stores a short fingerprint of the event, the tag, with each key. The tag reveals when a client uses a key
//! again for a different event. In that case, the client gets an error. Without the tag, it would get the reply to the
//! first event, which may be wrong for the second one.
//!
//! # Guarantees
//!
//! - A definite decision that was sent as a reply never changes.
//! - Memory is bounded for any input.
//! - The time per batch is constant (amortised), or constant per event if each event has its own key.
//! - Nothing is allocated per event.
//!
//! This module does not depend on cells, on clocks, or on how an event is decided.

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

/// Divisor that limits the memory for low-water marks. For example, with a value of 4, a quarter of the guard's memory
/// may contain marks of producers, and another quarter may contain marks of sources.
const MARKS_SHARE: u64 = 4;

/// What the guard knows about the submission of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The guard does not know the event, so it must be run.
    New,
    /// The event is already running, either under the same idempotency key in another batch or earlier in the same
    /// batch.
    InFlight,
    /// The reply that the event got before, or the reason why it is not run.
    Answered(Decision),
}

impl Standing {
    const TOO_OLD: Self = Self::Answered(Decision::Undecided(Reason::TooOld));
    const NO_ROOM: Self = Self::Answered(Decision::Undecided(Reason::Overloaded));
    const NAME_REUSED: Self = Self::Answered(Decision::Undecided(Reason::NameReused));
}

/// What the caller must do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The guard does not know the batch, so all of its events must be run.
    New,
    /// The guard knows at least some events. It has written one standing for each event.
    Known,
    /// The same batch is already in flight. Its reply will be sent to the newer connection, and the caller has nothing
    /// else to do.
    Attached,
    /// The batch is rejected for this reason. None of its events is run.
    Refused(Reason),
}

/// A batch that has no reply yet.
struct BatchInFlight {
    reply_to: u64,
    events: usize,
    tag: EventTag,
}

/// Memory of the submissions to a group and of their replies.
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
    /// Batches in flight. The owner of the group limits their number.
    flights: HashMap<BatchName, BatchInFlight>,
    horizon_ms: u64,
    bytes_max: u64,
    /// The last time at which the guard forgot an idempotency key before its horizon had passed.
    whole_since_ms: MonotonicMs,
}

impl ReplayGuard {
    /// Creates a guard that remembers idempotency keys for `horizon_ms` milliseconds and uses at most about `bytes_max`
    /// bytes.
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

    /// Returns the time since which the guard has not forgotten any idempotency key before its horizon had passed.
    pub(crate) fn whole_since_ms(&self) -> MonotonicMs {
        self.whole_since_ms
    }

    /// Limits the guard to about `bytes_max` bytes from now on. If it uses more, it forgets the oldest idempotency
    /// keys.
    pub fn set_bytes_max(&mut self, bytes_max: u64, now_ms: MonotonicMs) {
        self.bytes_max = bytes_max;
        self.make_room(now_ms);
    }

    /// Looks up a batch in the replay guard, and returns whether the caller must execute it. If the result is
    /// [`Admission::Known`], the guard has also written what it knows about each event into `standings`.
    ///
    /// The result [`Admission::New`] or [`Admission::Known`] means that the caller must execute the events that the
    /// guard does not know, and later pass the replies to [`Self::settle`]. If the replies are not available at once,
    /// the caller first calls [`Self::depart`], which marks the batch as in flight.
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
            // Two producers use the same identity, for example because a machine was cloned while it was running.
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

    /// Notes that a batch stays in flight for now. Until it is settled, a retry of the batch is attached to it.
    pub fn depart(&mut self, submission: &Submission) {
        let Submission { reply_to, probes, .. } = submission;
        let flight = BatchInFlight { reply_to: *reply_to, events: probes.len(), tag: EventTag::of_batch(probes) };
        self.flights.insert(submission.name(), flight);
    }

    /// Remembers the replies to a batch and ends the batch. `decisions` contains one decision for each event, in the
    /// order of the batch. If the batch was in flight, the function returns the connection of the newest attempt.
    ///
    /// After this call, a retry of the batch gets the remembered decisions. Three cases must be distinguished:
    /// - A definite decision, which is first-seen or duplicate, never changes again.
    /// - The decision [`Reason::Unknown`] means that the event may have been recorded. It is kept until a definite
    ///   decision about the event arrives.
    /// - An event that is undecided for any other reason was not recorded. It is executed again when it is retried.
    pub fn settle(&mut self, submission: &Submission, decisions: &[Decision]) -> Option<u64> {
        self.learn(submission.name(), submission.names.iter().copied(), decisions);
        self.arrive(submission.name())
    }

    /// Remembers the replies to a batch like [`Self::settle`], but leaves the batch in flight. The batch is in flight
    /// until [`Self::arrive`] notes that its producer has got the reply. The two functions can be called in any order.
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

    /// Notes that a batch has been answered, so it is no longer in flight. Returns the connection of the newest
    /// attempt, which gets the reply, or `None` if the batch was not in flight.
    pub fn arrive(&mut self, name: BatchName) -> Option<u64> {
        self.flights.remove(&name).map(|flight| flight.reply_to)
    }

    fn learn_named(&mut self, name: SubmissionName, decision: Decision) {
        // This decision reports that the idempotency key was reused. It says nothing about the event that the guard
        // remembers under that key.
        if decision != Decision::Undecided(Reason::NameReused) && !self.names.learn(name, decision) {
            self.sources.raise(name.source, name.number);
        }
    }

    /// Returns what the guard knows now about an event whose idempotency key was in flight when its batch arrived.
    pub fn recall(&mut self, name: SubmissionName) -> Standing {
        self.names.recall(name)
    }

    /// Forgets idempotency keys that are older than the horizon.
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

    /// Returns the time at which [`Self::expire`] has something to forget.
    pub fn next_expiry_ms(&self) -> Option<MonotonicMs> {
        let oldest_ms = [self.batches.oldest_ms(), self.names.oldest_ms()].into_iter().flatten().min();
        oldest_ms.map(|oldest_ms| oldest_ms.after(self.horizon_ms))
    }

    /// Forgets the oldest idempotency keys until the rest fits into memory.
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

    /// Returns an upper bound of the bytes that the guard uses.
    pub fn bytes(&self) -> u64 {
        let flights = self.flights.len() * 2 * size_of::<(BatchName, BatchInFlight)>();
        self.batches.bytes() + self.names.bytes() + self.producers.bytes() + self.sources.bytes() + flights as u64
    }

    /// Returns the number of bytes that the guard uses now for each second of the horizon.
    pub fn bytes_per_horizon_second(&self) -> f64 {
        self.bytes() as f64 * 1000.0 / self.horizon_ms.max(1) as f64
    }
}
