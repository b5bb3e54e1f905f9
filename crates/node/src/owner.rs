//! Owners (elsewhere: actors, partition threads): each group of slices belongs to one owner, which does all that is
//! done with the group, in order.
//!
//! Promises: the queue of an owner is bounded in events and in pieces of work; a run that finds no room is refused before
//! anything is set, and a message of another node waits, and with it the link. Must not know: streams, how messages travel.

mod advice;
mod awaiting_disk;
mod backlog;
mod brake;
mod desk;
mod gathered;
mod groups;
mod kept;
mod loss;
mod reading;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firstseen_routing::Climbed;
use firstseen_routing::{
    AskCells, BackupCells, CellParts, Command, Ending, FilterId, GroupReply, GroupState, Moment, MonotonicMs, NodeId,
    PeerMessage, Reason, Submission,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::group_key::GroupKey;
use crate::pending::RunPlace;
use crate::view::{GroupFault, View};

use groups::Groups;
pub(crate) use loss::OwnerLoss;
pub(crate) use worker::{Surroundings, Worker, WorkerParts};

/// Pieces of work that wait for one owner, whatever their size.
const QUEUE_WORK_MAX: usize = 4096;

/// Events of other nodes' messages that wait for one owner, at most: a message has one, or thousands. Together they take
/// some 40 MB.
const QUEUE_PEER_EVENTS_MAX: u32 = 1 << 19;

/// A piece of work for an owner.
pub(crate) enum Work {
    /// Events of one group.
    Run(Run),
    /// A message of another node.
    Peer {
        /// The node.
        from: NodeId,
        /// The message.
        message: PeerMessage,
        /// When it came, in monotonic milliseconds.
        received_ms: MonotonicMs,
    },
    /// A message between two nodes that this node, one of them, cannot write or read. It is refused in the receiver's
    /// name, as its numbers and names are right.
    Refused {
        /// The node that sends it.
        sender: NodeId,
        /// The node that it is for.
        receiver: NodeId,
        /// The message.
        message: PeerMessage,
    },
    /// A new map.
    View {
        /// The view to act on from now on.
        view: Arc<View>,
        /// Signalled when it does, with the faults.
        done: oneshot::Sender<Vec<GroupFault>>,
    },
    /// A question to the groups.
    Ask(Question),
    /// The answer of the level above to a climb.
    Climbed {
        /// The group that asked.
        key: GroupKey,
        /// The answer.
        climbed: Climbed,
    },
    /// A producer has ended a stream.
    Ended {
        /// Its incarnation.
        producer: u128,
    },
    /// Nothing new will come: finish.
    Drain {
        /// Signalled when no event is in flight.
        done: oneshot::Sender<()>,
    },
}

/// Sends its own answer.
pub(crate) type Question = Box<dyn FnOnce(&mut Groups, Moment, &mut Vec<Command>) + Send>;

impl Work {
    /// A question whose answer comes by `reply`, if somebody still waits for it.
    fn asking<T: Send + 'static>(
        reply: oneshot::Sender<T>,
        ask: impl FnOnce(&mut Groups, Moment, &mut Vec<Command>) -> T + Send + 'static,
    ) -> Self {
        Self::Ask(Box::new(move |groups, now, commands| drop(reply.send(ask(groups, now, commands)))))
    }

    /// How many events, or acknowledgements of sets, the work is about; 1 where it is about neither.
    pub(crate) fn events(&self) -> u64 {
        match self {
            Self::Run(run) => run.place.events() as u64,
            Self::Peer { message, .. } | Self::Refused { message, .. } => message.events(),
            _ => 1,
        }
    }
}

/// Events of one group on their way to its owner.
pub(crate) struct Run {
    /// The group.
    pub(crate) key: GroupKey,
    /// The events.
    pub(crate) submission: Submission,
    /// When they came in, in monotonic milliseconds.
    pub(crate) admitted_ms: MonotonicMs,
    /// The place that the answer goes to.
    pub(crate) place: RunPlace,
}

impl Run {
    /// Answers all events with `reason`; nothing was set.
    pub(crate) fn refuse(self, reason: Reason) {
        let reply = GroupReply::undecided(self.place.events(), reason);
        self.place.reply(GroupReply { spent: Some(self.submission.probes), ..reply });
    }
}

/// The state of one group.
pub(crate) struct GroupLook {
    /// The filter.
    pub(crate) filter: FilterId,
    /// The group.
    pub(crate) group: u32,
    /// The state, as its owner reports it.
    pub(crate) state: GroupState,
}

/// Work that waits.
struct Waiting {
    work: Work,
    /// Is given back when the owner takes the work.
    _room: Option<OwnedSemaphorePermit>,
}

impl Waiting {
    /// Work that takes no room of other nodes' messages.
    fn of_no_peer(work: Work) -> Self {
        Self { work, _room: None }
    }
}

/// The queue to one owner.
#[derive(Clone)]
pub(crate) struct OwnerQueue {
    work: mpsc::Sender<Waiting>,
    events: Arc<AtomicU64>,
    events_max: u64,
    /// Room for events of other nodes' messages.
    peer_events: Arc<Semaphore>,
    catching_up: Arc<AtomicU64>,
}

/// The receiving end of an [`OwnerQueue`].
pub(crate) struct OwnerInbox {
    work: mpsc::Receiver<Waiting>,
    events: Arc<AtomicU64>,
    catching_up: Arc<AtomicU64>,
}

/// A queue for one owner, of at most `events_max` events.
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
    /// Admits a run, or refuses it where the queue is full.
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

    /// Hands over other work, when there is room. False where the owner has ended.
    pub(crate) async fn hand(&self, work: Work) -> bool {
        let room = match &work {
            Work::Peer { message, .. } | Work::Refused { message, .. } => self.peer_room(message).await,
            _ => None,
        };
        self.work.send(Waiting { work, _room: room }).await.is_ok()
    }

    /// Room for a message. One that has more events than may wait is taken when no other waits.
    async fn peer_room(&self, message: &PeerMessage) -> Option<OwnedSemaphorePermit> {
        let events = u32::try_from(message.events()).unwrap_or(u32::MAX).min(QUEUE_PEER_EVENTS_MAX);
        self.peer_events.clone().acquire_many_owned(events).await.ok()
    }
}

impl OwnerInbox {
    /// The work that has waited longest, as soon as there is some; none once nobody can hand over more.
    pub(crate) async fn next(&mut self) -> Option<Work> {
        self.work.recv().await.map(|Waiting { work, .. }| work)
    }

    /// The same, if there is some now.
    pub(crate) fn next_now(&mut self) -> Option<Work> {
        self.work.try_recv().ok().map(|Waiting { work, .. }| work)
    }

    /// Gives the room of a run back to the queue.
    pub(crate) fn took(&self, run: &Run) {
        self.events.fetch_sub(run.place.events() as u64, Ordering::Relaxed);
    }

    /// Shows how many groups here are catching up: others hand over what they have missed.
    pub(crate) fn show_catching_up(&self, groups: usize) {
        self.catching_up.store(groups as u64, Ordering::Relaxed);
    }
}

/// All owners of a node.
pub(crate) struct Owners {
    queues: Box<[OwnerQueue]>,
    loss: Arc<OwnerLoss>,
}

impl Owners {
    /// The owners behind `queues`; `loss` keeps the first that ends before the node does.
    pub(crate) fn new(queues: Vec<OwnerQueue>, loss: Arc<OwnerLoss>) -> Self {
        Self { queues: queues.into(), loss }
    }

    /// The first owner that was lost, if any.
    pub(crate) fn loss(&self) -> &OwnerLoss {
        &self.loss
    }

    /// The owner of a group. Groups of a filter follow each other, so they are spread evenly.
    pub(crate) fn of(&self, key: GroupKey) -> &OwnerQueue {
        &self.queues[Self::index_of(self.queues.len(), key)]
    }

    /// The index of the owner of a group.
    pub(crate) fn index_of(owners: usize, GroupKey { filter, group }: GroupKey) -> usize {
        (filter.0.wrapping_add(u64::from(group)) % owners.max(1) as u64) as usize
    }

    /// Gives all owners a new view; returns the groups that they could not hold.
    pub(crate) async fn show(&self, view: &Arc<View>) -> Vec<GroupFault> {
        self.ask(|done| Work::View { view: view.clone(), done }).await.into_iter().flatten().collect()
    }

    /// The state of the groups of one filter, or of all, with a look at a sample of their cells.
    pub(crate) async fn look(&self, filter: Option<FilterId>) -> Vec<GroupLook> {
        let looks = self.ask(|reply| Work::asking(reply, move |groups, _, _| groups.look(filter))).await;
        let mut looks: Vec<GroupLook> = looks.into_iter().flatten().collect();
        looks.sort_by_key(|look| (look.filter, look.group));
        looks
    }

    /// The greatest clock of the groups of a filter here, in milliseconds since 1970; none where none shows one. Looks at no cells.
    pub(crate) async fn clock_ms(&self, filter: FilterId) -> Option<u64> {
        let clocks = self.ask(|reply| Work::asking(reply, move |groups, _, _| groups.clock_ms(filter))).await;
        clocks.into_iter().flatten().max()
    }

    /// Cells of a slice of a group for a backup, from its owner, and whether the slice has all that was ever recorded in it; none
    /// where the slice is not here.
    pub(crate) async fn read_cells(&self, key: GroupKey, ask: AskCells) -> Option<BackupCells> {
        let (reply, answer) = oneshot::channel();
        self.of(key).hand(Work::asking(reply, move |groups, _, _| groups.read_cells(key, &ask))).await;
        answer.await.ok().flatten()
    }

    /// Has the owner of a group put in cells of a slice from a backup; returns how many records must be on the medium before they
    /// are persisted.
    ///
    /// # Errors
    /// Why they are not taken.
    pub(crate) async fn write_cells(&self, key: GroupKey, parts: CellParts) -> Result<u64, String> {
        let (reply, answer) = oneshot::channel();
        let write = Work::asking(reply, move |groups, now, commands| groups.write_cells(key, parts, now, commands));
        self.of(key).hand(write).await;
        answer.await.unwrap_or_else(|_| Err("the owner of the slice is lost".to_owned()))
    }

    /// How far the groups of a closed filter here have come; none where there are no groups.
    pub(crate) async fn ending(&self, filter: FilterId) -> Option<Ending> {
        let endings = self.ask(|reply| Work::asking(reply, move |groups, now, _| groups.ending(filter, now))).await;
        endings.into_iter().flatten().reduce(Ending::and)
    }

    /// A producer has ended a stream. An owner whose queue has no room for this learns it from the producer's silence.
    pub(crate) fn end_producer(&self, producer: u128) {
        for queue in &self.queues {
            let _ = queue.work.try_send(Waiting::of_no_peer(Work::Ended { producer }));
        }
    }

    /// Waits until no owner has an event in flight.
    pub(crate) async fn drain(&self) {
        self.ask(|done| Work::Drain { done }).await;
    }

    /// Asks all owners at once; returns the answers of those that are not lost.
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

    /// Groups that are catching up: others hand over what they have missed.
    pub(crate) fn catching_up(&self) -> u64 {
        self.queues.iter().map(|queue| queue.catching_up.load(Ordering::Relaxed)).sum()
    }

    /// Events that wait in all queues.
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

    /// Whether there is room at this moment; waits for none.
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
