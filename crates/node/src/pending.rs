//! A batch while its runs are with their owners.
//!
//! The stream that a batch came by hears of it through the batch's *ears*, two queues: one for batches with all
//! replies, one for duplicates that are known ahead of these.
//!
//! Promises: each run gets exactly one reply, whatever becomes of its owner (where one forgets the run, the reply is
//! "unknown"); the last reply hands the whole batch back, without a lock and without waiting. Duplicates that an owner
//! reports ahead of its reply are handed on where there is room. Must not know: streams, owners.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use firstseen_filter::Probes;
use firstseen_routing::{EarlyDuplicates, FilterId, GroupReply, Reason};
use tokio::sync::mpsc;

use crate::budget::Charge;

/// Duplicates of a batch that are certain while other events of it are not decided.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EarlyInBatch {
    /// Names the batch.
    pub(crate) sequence: u64,
    /// Events of the batch.
    pub(crate) batch_events: u32,
    /// The duplicates, by their places in it.
    pub(crate) events: Vec<u32>,
    /// As in [`GroupReply`].
    pub(crate) clock_ms: Option<u64>,
}

/// The queues by which a stream hears of its batches.
#[derive(Clone)]
pub(crate) struct Ears {
    /// Batches whose places all have their replies; this must have room for every batch.
    pub(crate) finished: mpsc::Sender<Arc<PendingBatch>>,
    /// Early duplicates; those that find no room here come with the reply.
    pub(crate) early: mpsc::Sender<EarlyInBatch>,
}

impl Ears {
    /// Queues with room for so many batches, with their receiving ends.
    pub(crate) fn with_room(batches: usize) -> (Self, mpsc::Receiver<Arc<PendingBatch>>, mpsc::Receiver<EarlyInBatch>) {
        let (finished, all) = mpsc::channel(batches);
        let (early, heard) = mpsc::channel(batches);
        (Self { finished, early }, all, heard)
    }
}

/// What all runs of a batch share.
#[derive(Clone, Copy)]
pub(crate) struct PendingHeader {
    /// Its filter.
    pub(crate) filter: FilterId,
    /// The batch's number among those of its producer.
    pub(crate) sequence: u64,
    /// When it came in, in monotonic microseconds.
    pub(crate) admitted_us: u64,
    /// Whether the sender is to learn where events were found.
    pub(crate) wants_seen: bool,
}

#[cfg(test)]
impl PendingHeader {
    /// A batch of a producer that is to learn no more than the verdicts.
    pub(crate) fn of(filter: FilterId, sequence: u64) -> Self {
        Self { filter, sequence, admitted_us: 0, wants_seen: false }
    }
}

/// A batch whose runs are asked.
pub(crate) struct PendingBatch {
    pub(crate) header: PendingHeader,
    /// Events of all runs.
    events: u32,
    replies: Box<[OnceLock<GroupReply>]>,
    open: AtomicU32,
    ears: Ears,
    /// The bytes that it takes.
    _charge: Option<Charge>,
}

/// The place of one run in its batch, where its reply goes.
pub(crate) struct RunPlace {
    batch: Option<Arc<PendingBatch>>,
    run: usize,
    /// Events of the runs before.
    before: u32,
    events: usize,
}

impl PendingBatch {
    /// A batch with runs of these numbers of events, and a place for each.
    pub(crate) fn places(header: PendingHeader, runs: &[usize], ears: Ears, charge: Option<Charge>) -> Vec<RunPlace> {
        let replies = runs.iter().map(|_| OnceLock::new()).collect();
        let open = AtomicU32::new(u32::try_from(runs.len()).unwrap_or(u32::MAX));
        let events = runs.iter().sum::<usize>() as u32;
        let batch = Arc::new(Self { header, events, replies, open, ears, _charge: charge });
        let mut places = Vec::with_capacity(runs.len());
        let mut before = 0;
        for (run, events) in runs.iter().enumerate() {
            places.push(RunPlace { batch: Some(batch.clone()), run, before, events: *events });
            before += *events as u32;
        }
        places
    }

    /// The replies, run by run.
    pub(crate) fn replies(&self) -> impl Iterator<Item = &GroupReply> {
        self.replies.iter().filter_map(OnceLock::get)
    }

    /// The events, given back for their memory.
    pub(crate) fn spent(self) -> impl Iterator<Item = Probes> {
        self.replies.into_iter().filter_map(OnceLock::into_inner).filter_map(|reply| reply.spent)
    }
}

impl RunPlace {
    /// Events that wait here.
    pub(crate) fn events(&self) -> usize {
        self.events
    }

    /// Hands on which of the events are duplicates, ahead of the answer, which says so too.
    pub(crate) fn hand_early(&self, early: &EarlyDuplicates) {
        let Some(batch) = &self.batch else { return };
        let early = EarlyInBatch {
            sequence: batch.header.sequence,
            batch_events: batch.events,
            events: early.events.iter().map(|event| self.before + event).collect(),
            clock_ms: early.clock_ms,
        };
        let _ = batch.ears.early.try_send(early);
    }

    /// Gives all events of the run their replies.
    pub(crate) fn reply(mut self, mut reply: GroupReply) {
        if reply.answers.len() != self.events {
            debug_assert!(false, "{} replies to {} events", reply.answers.len(), self.events);
            reply = GroupReply::undecided(self.events, Reason::Unknown);
        }
        self.put(reply);
    }

    fn put(&mut self, reply: GroupReply) {
        let Some(batch) = self.batch.take() else { return };
        if let Some(slot) = batch.replies.get(self.run) {
            let _ = slot.set(reply);
        }
        // The last one sees what all others have put: each releases, the last acquires.
        if batch.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            // This fails only where the stream is gone; then no one waits.
            let _ = batch.ears.finished.clone().try_send(batch);
        }
    }
}

impl Drop for RunPlace {
    fn drop(&mut self) {
        let reply = GroupReply::undecided(self.events, Reason::Unknown);
        self.put(reply);
    }
}

#[cfg(test)]
mod tests {
    use firstseen_routing::Decision;

    use super::*;

    #[test]
    fn the_last_answer_hands_the_batch_back() {
        let (ears, mut finished, mut found) = Ears::with_room(1);
        let mut places = PendingBatch::places(PendingHeader::of(FilterId(1), 7), &[1, 2], ears, None);
        let second = places.pop().expect("two places");
        second.hand_early(&EarlyDuplicates { reply_to: 0, events: vec![1], clock_ms: Some(5) });
        let early = EarlyInBatch { sequence: 7, batch_events: 3, events: vec![2], clock_ms: Some(5) };
        assert_eq!(found.try_recv(), Ok(early));
        second.reply(GroupReply::undecided(2, Reason::Full));
        assert!(finished.try_recv().is_err(), "the first run is still open");
        drop(places);
        let batch = finished.try_recv().expect("all runs are answered");
        let decisions: Vec<_> = batch.replies().flat_map(|reply| reply.answers.decisions().to_vec()).collect();
        let (unknown, full) = (Decision::Undecided(Reason::Unknown), Decision::Undecided(Reason::Full));
        assert_eq!((batch.header.sequence, decisions), (7, vec![unknown, full, full]));
    }

    #[test]
    fn a_stream_that_is_gone_is_no_trouble() {
        let (ears, finished, found) = Ears::with_room(1);
        let places = PendingBatch::places(PendingHeader::of(FilterId(1), 1), &[1], ears, None);
        drop((finished, found));
        places[0].hand_early(&EarlyDuplicates { reply_to: 0, events: vec![0], clock_ms: None });
        drop(places);
    }
}
