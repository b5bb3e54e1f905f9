//! Threads that own slice groups. Each slice group belongs to exactly one owner thread (an actor). The owner executes
//! all operations of the group one after the other, so slices need no locks.
//!
//! # Guarantees
//! - The queue of an owner is bounded, both in events and in work items.
//! - If the queue has no room for a run of events from a producer, the run is rejected before any cell is set.
//! - If the queue has no room for a message from another node, the message waits and delays the messages behind it on
//!   the same link.
//!
//! This module does not depend on streams or on how messages travel.

mod advice;
mod awaiting_disk;
mod backlog;
mod gathered;
mod groups;
mod kept;
mod loss;
mod pending_replies;
mod rate_limiter;
mod reading;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firstseen_routing::LevelReply;
use firstseen_routing::{
    AskCells, BackupCells, CellParts, Command, Ending, FilterId, GroupReply, GroupState, Moment, MonotonicMs, NodeId,
    OwedCounts, PeerMessage, Reason, Submission,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::group_key::GroupKey;
use crate::reply_queues::RunPlace;
use crate::view::{GroupFault, View};

use groups::Groups;
pub(crate) use loss::OwnerLoss;
pub(crate) use worker::{NodeContext, Worker, WorkerParts};

/// Maximum number of work items in the queue of one owner, regardless of their size.
const QUEUE_WORK_MAX: usize = 4096;

/// Maximum number of events in the messages from other nodes that wait for one owner thread. A limit on the number of
/// messages would not be enough, because a message can contain between one and several thousand events. At this
/// maximum, the waiting messages take about 40 MB.
const QUEUE_PEER_EVENTS_MAX: u32 = 1 << 19;

/// A work item in the queue of an owner.
pub(crate) enum Work {
    /// Events of one slice group.
    Run(Run),
    /// A message from another node.
    Peer {
        /// The node that sent the message.
        from: NodeId,
        /// The message.
        message: PeerMessage,
        /// Time at which the message arrived, in monotonic milliseconds.
        received_ms: MonotonicMs,
    },
    /// A message that cannot be delivered, because this node could not decode it on arrival, or could not encode it
    /// before sending. The head node that decides the message's events would wait for a result in vain.
    ///
    /// The owner therefore tells the head node, in place of the receiver, that the message was rejected. For this
    /// reply, the owner needs only the ids in the message, and these are valid.
    Refused {
        /// The node that sent the message.
        sender: NodeId,
        /// The node that should receive the message.
        receiver: NodeId,
        /// The message.
        message: PeerMessage,
    },
    /// A new version of the cluster map.
    View {
        /// The view that the owner must act on from now on.
        view: Arc<View>,
        /// Receives the slice groups that the owner cannot hold, as soon as the owner acts on the view.
        done: oneshot::Sender<Vec<GroupFault>>,
    },
    /// A request that reads or changes the slice groups of this owner.
    Ask(Question),
    /// The reply of another tree level to a query of a slice group.
    LevelReply {
        /// The slice group that sent the query.
        key: GroupKey,
        /// The reply.
        climbed: LevelReply,
    },
    /// A producer has closed a stream.
    Ended {
        /// Incarnation of the producer.
        producer: u128,
    },
    /// The node is stopping: finish the remaining work, because no new work will arrive.
    Drain {
        /// Signalled when no event is in flight.
        done: oneshot::Sender<()>,
    },
}

/// A request to the slice groups of an owner. The closure sends its own reply.
pub(crate) type Question = Box<dyn FnOnce(&mut Groups, Moment, &mut Vec<Command>) + Send>;

impl Work {
    /// Creates a request whose result is sent to `reply`. The result is dropped if its receiver no longer exists.
    fn asking<T: Send + 'static>(
        reply: oneshot::Sender<T>,
        ask: impl FnOnce(&mut Groups, Moment, &mut Vec<Command>) -> T + Send + 'static,
    ) -> Self {
        Self::Ask(Box::new(move |groups, now, commands| drop(reply.send(ask(groups, now, commands)))))
    }

    /// Returns the number of events, or of acknowledged sets, in this work item. The number is 1 for other kinds of
    /// work.
    pub(crate) fn events(&self) -> u64 {
        match self {
            Self::Run(run) => run.place.events() as u64,
            Self::Peer { message, .. } | Self::Refused { message, .. } => message.events(),
            _ => 1,
        }
    }
}

/// A run: the events of a batch that belong to the same slice group, on their way to the owner of the group.
pub(crate) struct Run {
    /// The slice group.
    pub(crate) key: GroupKey,
    /// The events.
    pub(crate) submission: Submission,
    /// Time at which the events were admitted, in monotonic milliseconds.
    pub(crate) admitted_ms: MonotonicMs,
    /// Place of this run's reply within the reply to the batch.
    pub(crate) place: RunPlace,
}

impl Run {
    /// Replies to all events with "undecided" and the given reason. No cell has been set.
    pub(crate) fn refuse(self, reason: Reason) {
        let reply = GroupReply::undecided(self.place.events(), reason);
        self.place.reply(GroupReply { spent: Some(self.submission.probes), ..reply });
    }
}

/// State of one slice group.
pub(crate) struct GroupLook {
    /// The filter.
    pub(crate) filter: FilterId,
    /// The number of the slice group.
    pub(crate) group: u32,
    /// The state, as the owner of the group reports it.
    pub(crate) state: GroupState,
}

/// A work item in a queue.
struct Waiting {
    work: Work,
    /// Reserved room in the queue, which is released when the owner takes the work item.
    _room: Option<OwnedSemaphorePermit>,
}

impl Waiting {
    /// Creates a queue entry for work that is not a message of another node. Such work needs no reserved room.
    fn of_no_peer(work: Work) -> Self {
        Self { work, _room: None }
    }
}

/// The sending end of the queue of one owner.
#[derive(Clone)]
pub(crate) struct OwnerQueue {
    work: mpsc::Sender<Waiting>,
    events: Arc<AtomicU64>,
    events_max: u64,
    /// Room for the events in messages of other nodes.
    peer_events: Arc<Semaphore>,
    catching_up: Arc<AtomicU64>,
}

/// The receiving end of an [`OwnerQueue`].
pub(crate) struct OwnerInbox {
    work: mpsc::Receiver<Waiting>,
    events: Arc<AtomicU64>,
    catching_up: Arc<AtomicU64>,
}

/// Creates the queue of one owner, with room for at most `events_max` events.
pub(crate) fn queue(events_max: u64) -> (OwnerQueue, OwnerInbox) {
    let (sender, work) = mpsc::channel(QUEUE_WORK_MAX);
    let events = Arc::<AtomicU64>::default();
    let catching_up = Arc::<AtomicU64>::default();
    let queue = OwnerQueue {
        work: sender,
        events: events.clone(),
        events_max,
        peer_events: Arc::new(Semaphore::new(QUEUE_PEER_EVENTS_MAX as usize)),
        catching_up: catching_up.clone(),
    };
    (queue, OwnerInbox { work, events, catching_up })
}

impl OwnerQueue {
    /// Adds a run of events to the queue. If the queue is full, the run is rejected at once.
    pub(crate) fn offer(&self, run: Run) {
        let events = run.place.events() as u64;
        let waiting = self.events.fetch_add(events, Ordering::Relaxed);
        let run = Waiting::of_no_peer(Work::Run(run));
        let sent = if waiting + events > self.events_max {
            Err(mpsc::error::TrySendError::Full(run))
        } else {
            self.work.try_send(run)
        };
        let Err(refused) = sent else { return };
        self.events.fetch_sub(events, Ordering::Relaxed);
        let (reason, Waiting { work, .. }) = match refused {
            mpsc::error::TrySendError::Full(waiting) => (Reason::Overloaded, waiting),
            mpsc::error::TrySendError::Closed(waiting) => (Reason::NotReady, waiting),
        };
        if let Work::Run(run) = work {
            run.refuse(reason);
        }
    }

    /// Adds other work to the queue, and waits until there is room for it. Returns `false` if the owner has ended.
    pub(crate) async fn hand(&self, work: Work) -> bool {
        let room = match &work {
            Work::Peer { message, .. } | Work::Refused { message, .. } => self.peer_room(message).await,
            _ => None,
        };
        self.work.send(Waiting { work, _room: room }).await.is_ok()
    }

    /// Reserves room for a message. A message with more events than the limit allows waits until no other message is
    /// queued.
    async fn peer_room(&self, message: &PeerMessage) -> Option<OwnedSemaphorePermit> {
        let events = u32::try_from(message.events()).unwrap_or(u32::MAX).min(QUEUE_PEER_EVENTS_MAX);
        self.peer_events.clone().acquire_many_owned(events).await.ok()
    }
}

impl OwnerInbox {
    /// Waits for the next work item and returns it. Returns `None` when all senders have been dropped.
    pub(crate) async fn next(&mut self) -> Option<Work> {
        self.work.recv().await.map(|Waiting { work, .. }| work)
    }

    /// Returns the next work item if one is queued now.
    pub(crate) fn next_now(&mut self) -> Option<Work> {
        self.work.try_recv().ok().map(|Waiting { work, .. }| work)
    }

    /// Releases the room that a run took in the queue.
    pub(crate) fn took(&self, run: &Run) {
        self.events.fetch_sub(run.place.events() as u64, Ordering::Relaxed);
    }

    /// Publishes the number of slice groups that are catching up. Such a group is receiving the events that it missed
    /// from other nodes.
    pub(crate) fn show_catching_up(&self, groups: usize) {
        self.catching_up.store(groups as u64, Ordering::Relaxed);
    }
}

/// All owner threads of a node.
pub(crate) struct Owners {
    queues: Box<[OwnerQueue]>,
    loss: Arc<OwnerLoss>,
}

impl Owners {
    /// Creates the set of owners behind `queues`. `loss` records the first owner that ends before the node does.
    pub(crate) fn new(queues: Vec<OwnerQueue>, loss: Arc<OwnerLoss>) -> Self {
        Self { queues: queues.into(), loss }
    }

    /// Returns the record of the first lost owner.
    pub(crate) fn loss(&self) -> &OwnerLoss {
        &self.loss
    }

    /// Returns the owner of a slice group. The groups of a filter have consecutive numbers, so they are spread evenly
    /// over the owners.
    pub(crate) fn of(&self, key: GroupKey) -> &OwnerQueue {
        &self.queues[Self::index_of(self.queues.len(), key)]
    }

    /// Returns the index of the owner of a slice group.
    pub(crate) fn index_of(owners: usize, GroupKey { filter, group }: GroupKey) -> usize {
        (filter.0.wrapping_add(u64::from(group)) % owners.max(1) as u64) as usize
    }

    /// Passes a new view to all owners, and returns the slice groups that they cannot hold.
    pub(crate) async fn show(&self, view: &Arc<View>) -> Vec<GroupFault> {
        self.ask(|done| Work::View { view: view.clone(), done }).await.into_iter().flatten().collect()
    }

    /// Returns the state of the slice groups on this node, such as the number of their events and how full they are. If
    /// `filter` is `None`, the groups of all filters are included. The owner threads estimate how full a slice is by
    /// reading a sample of its cells.
    pub(crate) async fn look(&self, filter: Option<FilterId>) -> Vec<GroupLook> {
        let looks = self.ask(|reply| Work::asking(reply, move |groups, _, _| groups.look(filter))).await;
        let mut looks: Vec<GroupLook> = looks.into_iter().flatten().collect();
        looks.sort_by_key(|look| (look.filter, look.group));
        looks
    }

    /// Returns the event clock of a filter on this node, in milliseconds since 1970. Every slice group has an event
    /// clock of its own, and this method returns the greatest of them. Returns `None` if no group of the filter has a
    /// clock. The method reads no cells, so it is cheap.
    pub(crate) async fn clock_ms(&self, filter: FilterId) -> Option<u64> {
        let clocks = self.ask(|reply| Work::asking(reply, move |groups, _, _| groups.clock_ms(filter))).await;
        clocks.into_iter().flatten().max()
    }

    /// Returns the slice groups of this node that have decided events without the parent level of their filter tree,
    /// and have not reported all of them yet. The method reads no cells, so it is cheap.
    pub(crate) async fn owed(&self) -> Vec<(GroupKey, OwedCounts)> {
        let owed = self.ask(|reply| Work::asking(reply, |groups, _, _| groups.owed())).await;
        owed.into_iter().flatten().collect()
    }

    /// Reads a part of the cells of a slice for a backup. Besides the cells, the result tells whether the slice is
    /// complete. A complete slice contains every event that was recorded in it, whereas an incomplete slice may lack
    /// some of these events. Returns `None` if the slice is not on this node.
    pub(crate) async fn read_cells(&self, key: GroupKey, ask: AskCells) -> Option<BackupCells> {
        let (reply, answer) = oneshot::channel();
        self.of(key).hand(Work::asking(reply, move |groups, _, _| groups.read_cells(key, &ask))).await;
        answer.await.ok().flatten()
    }

    /// Writes a part of the cells from a backup into a slice, and adds records of these cells to the journal. The
    /// method does not wait until the records are on the disk. Its result is the number of records that the journal
    /// then contains. When the journal has synced that many records, the cells survive a restart of the node.
    ///
    /// # Errors
    /// Returns the reason why the owner rejects the cells.
    pub(crate) async fn write_cells(&self, key: GroupKey, parts: CellParts) -> Result<u64, String> {
        let (reply, answer) = oneshot::channel();
        let write = Work::asking(reply, move |groups, now, commands| groups.write_cells(key, parts, now, commands));
        self.of(key).hand(write).await;
        answer.await.unwrap_or_else(|_| Err("the owner of the slice is lost".to_owned()))
    }

    /// Returns the progress of a closed filter towards its end on this node. Returns `None` if the node has no group of
    /// the filter.
    pub(crate) async fn ending(&self, filter: FilterId) -> Option<Ending> {
        let endings = self.ask(|reply| Work::asking(reply, move |groups, now, _| groups.ending(filter, now))).await;
        endings.into_iter().flatten().reduce(Ending::and)
    }

    /// Tells all owners that a producer has closed its stream. This method does not wait. If the queue of an owner is
    /// full, that owner does not receive the message, and concludes only later, from the silence of the producer, that
    /// the producer has left.
    pub(crate) fn end_producer(&self, producer: u128) {
        for queue in &self.queues {
            let _ = queue.work.try_send(Waiting::of_no_peer(Work::Ended { producer }));
        }
    }

    /// Waits until no owner has an event in flight.
    pub(crate) async fn drain(&self) {
        self.ask(|done| Work::Drain { done }).await;
    }

    /// Sends a request to all owners at once, and returns the replies of the owners that are not lost.
    async fn ask<T>(&self, work: impl Fn(oneshot::Sender<T>) -> Work) -> Vec<T> {
        let mut asked = Vec::new();
        for queue in &self.queues {
            let (reply, answer) = oneshot::channel();
            if queue.hand(work(reply)).await {
                asked.push(answer);
            }
        }
        let mut answers = Vec::new();
        for answer in asked {
            answers.extend(answer.await.ok());
        }
        answers
    }

    /// Returns the number of slice groups that are catching up: they are receiving the events that they missed from
    /// other nodes.
    pub(crate) fn catching_up(&self) -> u64 {
        self.queues.iter().map(|queue| queue.catching_up.load(Ordering::Relaxed)).sum()
    }

    /// Returns the number of events that wait in all queues.
    pub(crate) fn events_queued(&self) -> u64 {
        self.queues.iter().map(|queue| queue.events.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use firstseen_routing::{Epoch, PeerBody, TestBatch};

    use super::*;

    fn test_of(events: u32) -> Work {
        let body = PeerBody::Test(TestBatch { tickets: (0..events.into()).collect(), ..TestBatch::default() });
        let message = PeerMessage { filter: FilterId(1), epoch: Epoch::FIRST, group: 0, body };
        Work::Peer { from: NodeId(2), message, received_ms: MonotonicMs::START }
    }

    /// Returns whether the queue has room for `work` at this moment, without waiting.
    async fn has_room(queue: &OwnerQueue, work: Work) -> bool {
        let mut handing = pin!(queue.hand(work));
        std::future::poll_fn(|context| std::task::Poll::Ready(handing.as_mut().poll(context).is_ready())).await
    }

    #[tokio::test]
    async fn messages_of_many_events_fill_a_queue_before_their_number_does() {
        let (queue, mut inbox) = queue(1);
        for _ in 0..8 {
            assert!(has_room(&queue, test_of(QUEUE_PEER_EVENTS_MAX / 8)).await);
        }
        assert!(!has_room(&queue, test_of(1)).await, "no room for one event more");
        assert!(has_room(&queue, Work::Ended { producer: 1 }).await, "what is no message of a node waits for none");
        assert!(inbox.next_now().is_some());
        assert!(has_room(&queue, test_of(1)).await, "the owner has taken a message");
    }

    #[tokio::test]
    async fn a_message_with_more_events_than_may_wait_is_handed_over_alone() {
        let (queue, mut inbox) = queue(1);
        assert!(has_room(&queue, test_of(QUEUE_PEER_EVENTS_MAX + 1)).await);
        assert!(!has_room(&queue, test_of(1)).await);
        assert!(inbox.next().await.is_some());
        assert!(has_room(&queue, test_of(1)).await);
    }
}
