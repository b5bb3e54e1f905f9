//! The claims of a run: which events of a batch are this run's to write, and which wait for others.
//!
//! Promises: an event is written while its claim holds, or claimed anew; of batches that others hold events of, a bounded
//! number waits. Must not know: where records go, how claims travel.

pub(super) mod calls;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use firstseen_client::{Confirming, Lost};
use firstseen_routing::{CLOCK_RATE_PARTS, Fence, Reason};

use crate::driver::{Retry, Waiting};
use crate::input::Batch;
use crate::report::filter::ClaimsReport;

/// Batches of which others may hold events before the input waits.
const ASIDE_BATCHES_MAX: usize = 32;
/// If less than 1/8 of a lease is left, the record is claimed again before it is written: writing takes time.
const LEAST_PARTS: u32 = 8;
/// The longest and the shortest pause before nodes are asked again about an event that another one holds: its holder may end long
/// before its lease is over.
const ASK_EVERY_MAX: Duration = Duration::from_secs(1);
const ASK_EVERY_MIN: Duration = Duration::from_millis(20);

/// Whoever says nothing is asked again after so long, and after twice as long each time that it says nothing again, up to the longest.
const TROUBLED: Duration = Duration::from_millis(250);
const TROUBLED_DOUBLINGS_MAX: u32 = 4;

/// Answers to claims of some events of a batch, which were asked for at a time.
pub(super) struct Answers {
    pub(super) asked: Instant,
    pub(super) answers: Vec<(usize, Answer)>,
}

impl Answers {
    /// What was granted, with the fences.
    pub(super) fn granted(&self) -> Vec<(usize, Fence)> {
        let granted = self.answers.iter().filter_map(|(event, answer)| match answer {
            Answer::Granted(fence) => Some((*event, *fence)),
            _ => None,
        });
        granted.collect()
    }

    /// Takes out what was granted, to be let go: these events are others' from here on.
    pub(super) fn give_back(&mut self) -> Vec<(usize, Fence)> {
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
    /// The event is this run's to write.
    Granted(Fence),
    /// Another one holds it, for so long at most.
    Held(Duration),
    /// Nodes are in trouble, and say nothing yet.
    Troubled(Reason),
    /// The verdict says what becomes of it.
    Decided,
}

/// The claims of a run.
pub(super) struct Claims<R> {
    pub(super) lease: Duration,
    /// Events of the batch that is being handled which this run is to write, and the fences of their claims.
    granted: Vec<(usize, Fence)>,
    /// Events of the batch that is being handled which are not decided: others hold them, or nodes are in trouble.
    held: Vec<usize>,
    /// By event of that batch: whether it is one of these.
    is_held: Vec<bool>,
    /// How long to wait before they are asked about again.
    pause: Duration,
    /// Why nothing is said of some events of the batch that is being handled.
    pub(super) trouble: Option<Reason>,
    /// How often the batch has been asked about.
    asked: u32,
    aside: VecDeque<Aside<R>>,
    pub(super) report: ClaimsReport,
}

/// A batch with events that are not decided.
struct Aside<R> {
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
            aside: VecDeque::new(),
            report: ClaimsReport::default(),
        }
    }

    /// A batch of so many events, some of which were asked about, is handled from now on. Returns what was granted and has too little
    /// of its lease left: it is to be let go, and claimed again.
    pub(super) fn begin(&mut self, events: usize, answers: &Answers, asked: u32, now: Instant) -> Vec<(usize, Fence)> {
        let ends = answers.asked + self.lease - self.lease / CLOCK_RATE_PARTS as u32;
        let is_over = ends.saturating_duration_since(now) < self.lease / LEAST_PARTS;
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
        // What is held when it is asked about first may be an earlier record of this run.
        self.report.waited += if asked == 1 { of_others } else { 0 };
        self.pause = self.pause(left, asked);
        over
    }

    /// How long what is not decided waits, where others hold events for `left` at most.
    fn pause(&self, left: Duration, asked: u32) -> Duration {
        match self.trouble {
            // What is written of the batch makes room for more of it.
            Some(Reason::Overloaded) if !self.granted.is_empty() => Duration::ZERO,
            Some(_) => TROUBLED * 2_u32.pow(asked.min(TROUBLED_DOUBLINGS_MAX)),
            // What an earlier record of this run holds is confirmed by then.
            None if asked == 0 => Duration::ZERO,
            None => (left / 4).clamp(ASK_EVERY_MIN, ASK_EVERY_MAX),
        }
    }

    /// What was granted is written.
    pub(super) fn written(&mut self) {
        self.report.claimed += self.granted.len() as u64;
    }

    /// What was granted is not written.
    pub(super) fn unwritten(&mut self) -> Vec<(usize, Fence)> {
        std::mem::take(&mut self.granted)
    }

    /// Whether this event of the batch that is being handled is not decided yet.
    pub(super) fn is_held(&self, event: usize) -> bool {
        self.is_held.get(event).is_some_and(|is_held| *is_held)
    }

    /// The events of the batch that is being handled which this run is to write, and the fences of their claims.
    pub(super) fn granted(&self) -> &[(usize, Fence)] {
        &self.granted
    }

    /// What was granted is written, and was confirmed with these answers; returns what is to be confirmed again.
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

    /// Keeps the batch that was handled, if events of it are not decided; else gives it back.
    pub(super) fn put_aside(&mut self, batch: Box<Batch<R>>, now: Instant) -> Option<Box<Batch<R>>> {
        if self.held.is_empty() {
            return Some(batch);
        }
        let events = std::mem::take(&mut self.held);
        self.aside.push_back(Aside { batch, events, due: now + self.pause, asked: self.asked + 1 });
        None
    }

    /// What was put aside.
    pub(super) fn waiting(&self, now: Instant) -> Waiting {
        Waiting {
            records: self.aside.iter().map(|aside| aside.events.len()).sum(),
            batches: self.aside.len(),
            is_crowded: self.aside.len() >= ASIDE_BATCHES_MAX,
            due: self.aside.iter().map(|aside| aside.due.saturating_duration_since(now)).min(),
        }
    }

    /// A batch that is to be asked about again, and how often it was.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(Retry<R>, u32)> {
        let place = self.aside.iter().position(|aside| aside.due <= now)?;
        let Aside { batch, events, asked, .. } = self.aside.remove(place)?;
        Some((Retry { batch, events }, asked))
    }

    /// The run ends: what others hold is left to them.
    pub(super) fn leave(&mut self) {
        self.report.left += self.aside.iter().map(|aside| aside.events.len() as u64).sum::<u64>();
        self.aside.clear();
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
        assert!(claims.put_aside(Box::default(), now).is_none());
        assert_eq!(claims.waiting(now).due, Some(Duration::ZERO), "the first time it may be this run's own");
        let (Retry { batch, events }, asked) = claims.take_due(now).expect("due");
        assert_eq!((events.as_slice(), asked), (&[1][..], 1));
        claims.begin(
            4,
            &Answers { asked: now, answers: vec![(1, Answer::Held(Duration::from_millis(400)))] },
            asked,
            now,
        );
        assert!(claims.put_aside(batch, now).is_none());
        assert_eq!(claims.waiting(now).due, Some(Duration::from_millis(100)), "a quarter of what is left");
        assert!(claims.take_due(now).is_none());
        claims.leave();
        let ClaimsReport { claimed, confirmed, lost, waited, unconfirmed, left } = claims.report;
        assert_eq!((claimed, confirmed, lost, waited, unconfirmed, left), (2, 1, 1, 1, 0, 1));
    }

    /// A run that ends writes nothing by claims that it lets go.
    #[test]
    fn what_is_given_back_is_left_to_others() {
        let (now, answers) = (Instant::now(), vec![(0, own(1)), (2, Answer::Decided)]);
        let mut answers = Answers { asked: now, answers };
        assert_eq!(answers.give_back().len(), 1);
        let mut claims: Claims<Block> = Claims::new(LEASE);
        claims.begin(4, &answers, 0, now);
        assert_eq!([0, 2].map(|event| claims.is_held(event)), [true, false]);
        assert!(claims.granted().is_empty() && claims.put_aside(Box::default(), now).is_none());
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
        assert!(claims.put_aside(Box::default(), now).is_some());
        assert_eq!((claims.waiting(now).due, claims.waiting(now).records), (None, 0));
    }

    /// Where nodes are in trouble a record waits: written without a claim it would be written by every run.
    #[test]
    fn what_nothing_is_said_of_waits() {
        let (mut claims, now) = claims(vec![(2, Answer::Troubled(Reason::SlicesDown))], Duration::ZERO);
        assert!(claims.is_held(2) && claims.trouble == Some(Reason::SlicesDown));
        assert!(claims.put_aside(Box::default(), now).is_none());
        assert_eq!(claims.waiting(now).due, Some(TROUBLED));
        assert_eq!((claims.waiting(now).records, claims.report.waited), (1, 0), "it waits for no other run");
        let mut pause = |asked| {
            let answers = vec![(2, Answer::Troubled(Reason::SlicesDown))];
            claims.begin(4, &Answers { asked: now, answers }, asked, now);
            claims.pause
        };
        assert_eq!([1, 2, 4, 9].map(&mut pause), [2, 4, 16, 16].map(|times| TROUBLED * times), "more and more slowly");
    }

    /// Where the table of claims is smaller than a batch, the batch is claimed part by part.
    #[test]
    fn what_found_no_room_is_asked_about_as_soon_as_others_have_made_room() {
        let (mut claims, now) = claims(vec![(0, own(1)), (1, Answer::Troubled(Reason::Overloaded))], Duration::ZERO);
        assert_eq!(claims.confirmed(&[Confirming::Confirmed], true), 0);
        assert!(claims.put_aside(Box::default(), now).is_none());
        assert_eq!(claims.waiting(now).due, Some(Duration::ZERO));
    }

    #[test]
    fn what_was_not_written_is_given_back_and_not_counted() {
        let (mut claims, _) = claims(vec![(0, own(1)), (3, own(2))], Duration::ZERO);
        assert_eq!(claims.unwritten().len(), 2);
        assert_eq!((claims.granted().len(), claims.report.claimed), (0, 0));
    }
}
