//! Tracks the claims of a run, which are its permissions to deliver events. The module knows which events of a batch
//! this run may write, and which events other consumers hold.
//!
//! A record is written only while the claim of its event is valid. If the lease of the claim is about to end, the run
//! claims the event again before it writes the record.
//!
//! If other consumers hold events of a batch, the batch is deferred and retried later. The number of batches that are
//! deferred is bounded.

pub(super) mod calls;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use firstseen_client::{Confirming, Lost};
use firstseen_routing::{CLOCK_RATE_PARTS, Fence, Reason};

use crate::driver::{Retry, Waiting};
use crate::input::Batch;
use crate::report::filter::ClaimsReport;

/// Maximum number of batches with held events before the input waits.
const DEFERRED_BATCHES_MAX: usize = 32;
/// If less than 1/8 of a lease is left, the event is claimed again before its record is written, because writing takes
/// time.
const LEASE_LEFT_DIVISOR: u32 = 8;
/// Longest and shortest pause before a run retries the claim of an event that another consumer holds. The run does not
/// wait until the lease of the other consumer ends, because that consumer may confirm or release the event much
/// earlier.
const RECLAIM_PAUSE_MAX: Duration = Duration::from_secs(1);
const RECLAIM_PAUSE_MIN: Duration = Duration::from_millis(20);

/// First pause before the run retries a claim request that the cluster could not decide because of a problem with its
/// nodes. Each failed attempt doubles the pause, but at most [`RETRY_DOUBLINGS_MAX`] times.
const RETRY_PAUSE_FIRST: Duration = Duration::from_millis(250);
const RETRY_DOUBLINGS_MAX: u32 = 4;

/// Answers to a request that claimed some events of a batch.
pub(super) struct Answers {
    pub(super) asked: Instant,
    pub(super) answers: Vec<(usize, Answer)>,
}

impl Answers {
    /// Returns the granted events with their fences.
    pub(super) fn granted(&self) -> Vec<(usize, Fence)> {
        let granted = self.answers.iter().filter_map(|(event, answer)| match answer {
            Answer::Granted(fence) => Some((*event, *fence)),
            _ => None,
        });
        granted.collect()
    }

    /// Removes the granted events, and returns them so that they can be released. From then on they belong to other
    /// consumers.
    pub(super) fn take_granted(&mut self) -> Vec<(usize, Fence)> {
        let granted = self.granted();
        for (_, answer) in &mut self.answers {
            if matches!(answer, Answer::Granted(_)) {
                *answer = Answer::Held(Duration::ZERO);
            }
        }
        granted
    }
}

/// The answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The event was granted to this run, which may write its record.
    Granted(Fence),
    /// Another consumer holds the event, for at most this time.
    Held(Duration),
    /// Nodes have problems and cannot answer yet.
    Troubled(Reason),
    /// The verdict says what happens to the event.
    Decided,
}

/// All claims of a run.
pub(super) struct Claims<R> {
    pub(super) lease: Duration,
    /// Events of the current batch that this run may write, and the fences of their claims.
    granted: Vec<(usize, Fence)>,
    /// Events of the current batch that are not decided, because other consumers hold them or nodes have problems.
    held: Vec<usize>,
    /// For each event of the current batch, whether it is in `held`.
    is_held: Vec<bool>,
    /// How long to wait before asking again about the held events.
    pause: Duration,
    /// Why some events of the current batch have no answer.
    pub(super) trouble: Option<Reason>,
    /// How often the cluster was asked about the batch.
    asked: u32,
    deferred: VecDeque<DeferredBatch<R>>,
    pub(super) report: ClaimsReport,
}

/// A batch that waits because some of its events are not decided.
struct DeferredBatch<R> {
    batch: Box<Batch<R>>,
    events: Vec<usize>,
    due: Instant,
    asked: u32,
}

impl<R> Claims<R> {
    pub(super) fn new(lease: Duration) -> Self {
        Self {
            lease,
            granted: Vec::new(),
            held: Vec::new(),
            is_held: Vec::new(),
            pause: Duration::ZERO,
            trouble: None,
            asked: 0,
            deferred: VecDeque::new(),
            report: ClaimsReport::default(),
        }
    }

    /// Starts to track the claims of a new batch with `events` events. `answers` contains the replies to the claim
    /// requests for all or some of these events.
    ///
    /// Returns the claims that were granted, but whose leases end too soon to write the records safely. The caller must
    /// release these claims. The run claims their events again later.
    pub(super) fn begin(&mut self, events: usize, answers: &Answers, asked: u32, now: Instant) -> Vec<(usize, Fence)> {
        let ends = answers.asked + self.lease - self.lease / CLOCK_RATE_PARTS as u32;
        let is_over = ends.saturating_duration_since(now) < self.lease / LEASE_LEFT_DIVISOR;
        let mut over = Vec::new();
        let mut of_others = 0;
        let mut left = Duration::ZERO;
        self.asked = asked;
        self.is_held = vec![false; events];
        self.trouble = None;
        self.granted.clear();
        self.held.clear();
        for (event, answer) in &answers.answers {
            match answer {
                Answer::Granted(fence) if !is_over => {
                    self.granted.push((*event, *fence));
                    continue;
                }
                Answer::Granted(fence) => over.push((*event, *fence)),
                Answer::Held(of_other) => {
                    of_others += 1;
                    left = left.max(*of_other);
                }
                Answer::Troubled(reason) => self.trouble = Some(*reason),
                Answer::Decided => continue,
            }
            self.held.push(*event);
            self.is_held[*event] = true;
        }
        // Events that are held at the first request may be held by an earlier record of this same run, so they count
        // only from the second request on.
        self.report.waited += if asked == 1 { of_others } else { 0 };
        self.pause = self.pause(left, asked);
        over
    }

    /// Returns how long the undecided events wait. `left` is the longest remaining lease of the other consumers.
    fn pause(&self, left: Duration, asked: u32) -> Duration {
        match self.trouble {
            // Writing the granted records frees room in the table of claims for more of the batch.
            Some(Reason::Overloaded) if !self.granted.is_empty() => Duration::ZERO,
            Some(_) => RETRY_PAUSE_FIRST * 2_u32.pow(asked.min(RETRY_DOUBLINGS_MAX)),
            // Events that an earlier record of this run holds are confirmed by then.
            None if asked == 0 => Duration::ZERO,
            None => (left / 4).clamp(RECLAIM_PAUSE_MIN, RECLAIM_PAUSE_MAX),
        }
    }

    /// Notes that the granted records were written.
    pub(super) fn written(&mut self) {
        self.report.claimed += self.granted.len() as u64;
    }

    /// Removes and returns the granted claims, because their records were not written.
    pub(super) fn take_unwritten(&mut self) -> Vec<(usize, Fence)> {
        std::mem::take(&mut self.granted)
    }

    /// Returns whether this event of the current batch is not decided yet.
    pub(super) fn is_held(&self, event: usize) -> bool {
        self.is_held.get(event).is_some_and(|is_held| *is_held)
    }

    /// Returns the events of the current batch that this run may write, and the fences of their claims.
    pub(super) fn granted(&self) -> &[(usize, Fence)] {
        &self.granted
    }

    /// Takes the answers to the confirmation of the granted records, which were written. Returns how many events must
    /// be confirmed again.
    pub(super) fn confirmed(&mut self, answers: &[Confirming], is_last: bool) -> usize {
        let mut again = Vec::new();
        for ((event, fence), answer) in self.granted.drain(..).zip(answers) {
            match answer {
                Confirming::Confirmed => self.report.confirmed += 1,
                Confirming::LeaseLost(Lost::Recorded | Lost::NotHeld) => self.report.lost += 1,
                Confirming::Undecided(_) if is_last => self.report.unconfirmed += 1,
                Confirming::Undecided(_) => again.push((event, fence)),
            }
        }
        self.granted = again;
        self.granted.len()
    }

    /// Keeps the current batch if some of its events are not decided. Otherwise returns it.
    pub(super) fn defer(&mut self, batch: Box<Batch<R>>, now: Instant) -> Option<Box<Batch<R>>> {
        if self.held.is_empty() {
            return Some(batch);
        }
        let events = std::mem::take(&mut self.held);
        self.deferred.push_back(DeferredBatch { batch, events, due: now + self.pause, asked: self.asked + 1 });
        None
    }

    /// Returns how many records and batches wait.
    pub(super) fn waiting(&self, now: Instant) -> Waiting {
        Waiting {
            records: self.deferred.iter().map(|deferred| deferred.events.len()).sum(),
            batches: self.deferred.len(),
            is_crowded: self.deferred.len() >= DEFERRED_BATCHES_MAX,
            due: self.deferred.iter().map(|deferred| deferred.due.saturating_duration_since(now)).min(),
        }
    }

    /// Returns a batch that is due to be asked about again, and how often it was asked about.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(Retry<R>, u32)> {
        let place = self.deferred.iter().position(|deferred| deferred.due <= now)?;
        let DeferredBatch { batch, events, asked, .. } = self.deferred.remove(place)?;
        Some((Retry { batch, events }, asked))
    }

    /// Leaves all waiting events to the other consumers, because the run ends.
    pub(super) fn leave(&mut self) {
        self.report.left += self.deferred.iter().map(|deferred| deferred.events.len() as u64).sum::<u64>();
        self.deferred.clear();
    }
}

#[cfg(test)]
mod tests {
    use firstseen_records::Block;
    use firstseen_routing::{Epoch, FilterId};

    use super::*;

    const LEASE: Duration = Duration::from_secs(8);

    fn own(number: u64) -> Answer {
        Answer::Granted(Fence::of_number(FilterId(1), Epoch(1), number))
    }

    fn claims(answers: Vec<(usize, Answer)>, passed: Duration) -> (Claims<Block>, Instant) {
        let mut claims = Claims::new(LEASE);
        let asked = Instant::now();
        let over = claims.begin(4, &Answers { asked, answers }, 0, asked + passed);
        assert!(over.is_empty() || claims.granted().is_empty());
        (claims, asked + passed)
    }

    #[test]
    fn what_is_granted_is_written_and_what_others_hold_waits() {
        let answers =
            vec![(0, own(1)), (1, Answer::Held(Duration::from_millis(400))), (2, Answer::Decided), (3, own(2))];
        let (mut claims, now) = claims(answers, Duration::ZERO);
        assert_eq!([0, 1, 2, 3].map(|event| claims.is_held(event)), [false, true, false, false]);
        assert_eq!(claims.granted().iter().map(|(event, _)| *event).collect::<Vec<_>>(), [0, 3]);
        claims.written();
        assert_eq!(claims.confirmed(&[Confirming::Confirmed, Confirming::Undecided(Reason::NotReady)], false), 1);
        assert_eq!(claims.confirmed(&[Confirming::LeaseLost(Lost::NotHeld)], true), 0);
        assert!(claims.defer(Box::default(), now).is_none());
        assert_eq!(claims.waiting(now).due, Some(Duration::ZERO), "the first time it may be this run's own");
        let (Retry { batch, events }, asked) = claims.take_due(now).expect("due");
        assert_eq!((events.as_slice(), asked), (&[1][..], 1));
        claims.begin(
            4,
            &Answers { asked: now, answers: vec![(1, Answer::Held(Duration::from_millis(400)))] },
            asked,
            now,
        );
        assert!(claims.defer(batch, now).is_none());
        assert_eq!(claims.waiting(now).due, Some(Duration::from_millis(100)), "a quarter of what is left");
        assert!(claims.take_due(now).is_none());
        claims.leave();
        let ClaimsReport { claimed, confirmed, lost, waited, unconfirmed, left } = claims.report;
        assert_eq!((claimed, confirmed, lost, waited, unconfirmed, left), (2, 1, 1, 1, 0, 1));
    }

    /// A run that ends does not write records whose claims it releases.
    #[test]
    fn what_is_given_back_is_left_to_others() {
        let (now, answers) = (Instant::now(), vec![(0, own(1)), (2, Answer::Decided)]);
        let mut answers = Answers { asked: now, answers };
        assert_eq!(answers.take_granted().len(), 1);
        let mut claims: Claims<Block> = Claims::new(LEASE);
        claims.begin(4, &answers, 0, now);
        assert_eq!([0, 2].map(|event| claims.is_held(event)), [true, false]);
        assert!(claims.granted().is_empty() && claims.defer(Box::default(), now).is_none());
        claims.leave();
        assert_eq!(claims.report.left, 1);
    }

    #[test]
    fn a_claim_with_too_little_left_is_let_go_and_not_written_by() {
        let mut claims = Claims::<Block>::new(LEASE);
        let asked = Instant::now();
        let answers = Answers { asked, answers: vec![(0, own(1))] };
        assert_eq!(claims.begin(4, &answers, 0, asked + LEASE - LEASE / 8).len(), 1);
        assert!(claims.is_held(0) && claims.granted().is_empty());
        let (claims, _) = self::claims(vec![(0, own(1))], LEASE / 2);
        assert!(!claims.is_held(0) && claims.granted().len() == 1);
    }

    #[test]
    fn a_batch_of_which_nobody_holds_anything_is_done_with() {
        let (mut claims, now) = claims(vec![(0, own(1))], Duration::ZERO);
        assert_eq!(claims.confirmed(&[Confirming::Undecided(Reason::NotReady)], true), 0);
        assert_eq!(claims.report.unconfirmed, 1);
        assert!(claims.defer(Box::default(), now).is_some());
        assert_eq!((claims.waiting(now).due, claims.waiting(now).records), (None, 0));
    }

    /// If nodes have problems, a record waits. Without a claim, every run that shares the input would write it.
    #[test]
    fn what_nothing_is_said_of_waits() {
        let (mut claims, now) = claims(vec![(2, Answer::Troubled(Reason::SlicesDown))], Duration::ZERO);
        assert!(claims.is_held(2) && claims.trouble == Some(Reason::SlicesDown));
        assert!(claims.defer(Box::default(), now).is_none());
        assert_eq!(claims.waiting(now).due, Some(RETRY_PAUSE_FIRST));
        assert_eq!((claims.waiting(now).records, claims.report.waited), (1, 0), "it waits for no other run");
        let mut pause = |asked| {
            let answers = vec![(2, Answer::Troubled(Reason::SlicesDown))];
            claims.begin(4, &Answers { asked: now, answers }, asked, now);
            claims.pause
        };
        assert_eq!(
            [1, 2, 4, 9].map(&mut pause),
            [2, 4, 16, 16].map(|times| RETRY_PAUSE_FIRST * times),
            "more and more slowly"
        );
    }

    /// If the table of claims is smaller than a batch, the batch is claimed in parts.
    #[test]
    fn what_found_no_room_is_asked_about_as_soon_as_others_have_made_room() {
        let (mut claims, now) = claims(vec![(0, own(1)), (1, Answer::Troubled(Reason::Overloaded))], Duration::ZERO);
        assert_eq!(claims.confirmed(&[Confirming::Confirmed], true), 0);
        assert!(claims.defer(Box::default(), now).is_none());
        assert_eq!(claims.waiting(now).due, Some(Duration::ZERO));
    }

    #[test]
    fn what_was_not_written_is_given_back_and_not_counted() {
        let (mut claims, _) = claims(vec![(0, own(1)), (3, own(2))], Duration::ZERO);
        assert_eq!(claims.take_unwritten().len(), 2);
        assert_eq!((claims.granted().len(), claims.report.claimed), (0, 0));
    }
}
