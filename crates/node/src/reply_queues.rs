//! Collects the replies to the batches of a producer's stream. A batch consists of runs, and each run contains the
//! events that belong to one slice group. The owner threads process the runs independently of each other.
//!
//! The stream of the producer receives the results through two queues. The first queue contains batches whose runs have
//! all been answered. The second queue contains early results: events that are already known to be duplicates, although
//! other events of their batch are still undecided.
//!
//! # Guarantees
//! - Each run receives exactly one reply. If an owner drops a run, its reply is "unknown".
//! - The last reply sends the batch to its stream, without a lock and without waiting.
//! - Duplicates that an owner reports before its reply are forwarded if the queue has room.
//!
//! This module does not depend on streams or owners.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use firstseen_filter::Probes;
use firstseen_routing::{EarlyDuplicates, FilterId, GroupReply, Reason};
use tokio::sync::mpsc;

use crate::budget::Charge;

/// Events of a batch that are already known to be duplicates, while other events of the batch are undecided.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EarlyInBatch {
    /// Sequence number of the batch.
    pub(crate) sequence: u64,
    /// Number of events in the batch.
    pub(crate) batch_events: u32,
    /// Indexes of the duplicates within the batch.
    pub(crate) events: Vec<u32>,
    /// Clock of the filter in milliseconds, as in [`GroupReply`].
    pub(crate) clock_ms: Option<u64>,
}

/// The queues through which a stream is notified about its batches.
#[derive(Clone)]
pub(crate) struct ReplyQueues {
    /// Queue of batches whose runs have all been answered. It must have room for every batch of the stream.
    pub(crate) finished: mpsc::Sender<Arc<PendingBatch>>,
    /// Queue of early duplicates. If the queue is full, the duplicates are reported only with the reply.
    pub(crate) early: mpsc::Sender<EarlyInBatch>,
}

impl ReplyQueues {
    /// Creates queues with room for `batches` batches, and returns their receiving ends.
    pub(crate) fn with_room(batches: usize) -> (Self, mpsc::Receiver<Arc<PendingBatch>>, mpsc::Receiver<EarlyInBatch>) {
        let (finished, all) = mpsc::channel(batches);
        let (early, heard) = mpsc::channel(batches);
        (Self { finished, early }, all, heard)
    }
}

/// Information that all runs of a batch share.
#[derive(Clone, Copy)]
pub(crate) struct PendingHeader {
    /// Filter of the batch.
    pub(crate) filter: FilterId,
    /// Sequence number that the producer gave to the batch.
    pub(crate) sequence: u64,
    /// Time at which the batch arrived, in monotonic microseconds.
    pub(crate) admitted_us: u64,
    /// Whether the sender wants to know where events were found.
    pub(crate) wants_seen: bool,
}

#[cfg(test)]
impl PendingHeader {
    /// Creates the header of a batch whose producer wants only the verdicts.
    pub(crate) fn of(filter: FilterId, sequence: u64) -> Self {
        Self { filter, sequence, admitted_us: 0, wants_seen: false }
    }
}

/// A batch whose runs are being processed.
pub(crate) struct PendingBatch {
    pub(crate) header: PendingHeader,
    /// Total number of events of all runs.
    events: u32,
    replies: Box<[OnceLock<GroupReply>]>,
    open: AtomicU32,
    ears: ReplyQueues,
    /// Bytes that the batch is charged for.
    _charge: Option<Charge>,
}

/// The place of one run in its batch, which receives the reply to the run.
pub(crate) struct RunPlace {
    batch: Option<Arc<PendingBatch>>,
    run: usize,
    /// Number of events in the runs before this one.
    before: u32,
    events: usize,
}

impl PendingBatch {
    /// Creates a batch, and returns a place for each of its runs. `runs` contains the number of events of each run.
    pub(crate) fn places(
        header: PendingHeader,
        runs: &[usize],
        ears: ReplyQueues,
        charge: Option<Charge>,
    ) -> Vec<RunPlace> {
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

    /// Returns the replies in the order of the runs.
    pub(crate) fn replies(&self) -> impl Iterator<Item = &GroupReply> {
        self.replies.iter().filter_map(OnceLock::get)
    }

    /// Returns the buffers of the events, so that their memory can be reused.
    pub(crate) fn spent(self) -> impl Iterator<Item = Probes> {
        self.replies.into_iter().filter_map(OnceLock::into_inner).filter_map(|reply| reply.spent)
    }
}

impl RunPlace {
    /// Returns the number of events in this run.
    pub(crate) fn events(&self) -> usize {
        self.events
    }

    /// Forwards the events that are known to be duplicates, before the complete reply. The reply contains them again.
    pub(crate) fn forward_early(&self, early: &EarlyDuplicates) {
        let Some(batch) = &self.batch else { return };
        let early = EarlyInBatch {
            sequence: batch.header.sequence,
            batch_events: batch.events,
            events: early.events.iter().map(|event| self.before + event).collect(),
            clock_ms: early.clock_ms,
        };
        let _ = batch.ears.early.try_send(early);
    }

    /// Sets the reply to all events of the run.
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
        // The thread that sets the last reply must see all other replies. Each decrement therefore releases, and the
        // last decrement acquires.
        if batch.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Sending fails only if the stream has ended. In that case, no client waits for the reply.
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
        let (ears, mut finished, mut found) = ReplyQueues::with_room(1);
        let mut places = PendingBatch::places(PendingHeader::of(FilterId(1), 7), &[1, 2], ears, None);
        let second = places.pop().expect("two places");
        second.forward_early(&EarlyDuplicates { reply_to: 0, events: vec![1], clock_ms: Some(5) });
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
        let (ears, finished, found) = ReplyQueues::with_room(1);
        let places = PendingBatch::places(PendingHeader::of(FilterId(1), 1), &[1], ears, None);
        drop((finished, found));
        places[0].forward_early(&EarlyDuplicates { reply_to: 0, events: vec![0], clock_ms: None });
        drop(places);
    }
}
