//! Tests of how an owner handles messages that do not reach another node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use firstseen_filter::{FilterSecret, Probes, Stamp};
use firstseen_journal::MemoryDisk;
use firstseen_meta::Identity;
use firstseen_routing::{
    AnswerWhen, ClockSource, ClusterMap, Decision, Epoch, FilterPolicies, Incarnation, MonotonicMs, Operation, Prober,
    SetAcks, SetBatch, Submission, TestRun, Times,
};
use tokio::time::timeout;

use super::*;
use crate::clock::SystemClock;
use crate::clocks::Clocks;
use crate::group_key::GroupKey;
use crate::lease::SharedLease;
use crate::link_handle::{LinkHandle, Queued};
use crate::owner::{OwnerQueue, queue};
use crate::reply_queues::{PendingBatch, PendingHeader, ReplyQueues};
use crate::sample_map::{self, FILTER};
use crate::view::Me;

const PATIENCE: Duration = Duration::from_secs(60);
const ME: NodeId = NodeId(1);
const PEER: NodeId = NodeId(2);

/// Returns a cluster map with a filter of two slices on two nodes.
pub(in crate::owner) fn map() -> ClusterMap {
    let policies = FilterPolicies { clock: ClockSource::Wall, answer: AnswerWhen::Safe, ..FilterPolicies::default() };
    sample_map::map("vertical:2", 2, policies)
}

/// A running owner, and the messages that it sends to the other node.
struct Running {
    queue: OwnerQueue,
    to_peer: mpsc::Receiver<Queued>,
    sequence: u64,
}

fn worker(inbox: OwnerInbox) -> Worker {
    let ((proposals, _), (climbs, _)) = (mpsc::channel(1), mpsc::channel(1));
    let clock = Arc::new(SystemClock::new());
    let keeper = JournalWriter::new(Arc::new(MemoryDisk::default()), 1 << 20, clock.clone(), 1);
    Worker::new(WorkerParts {
        index: 0,
        owners: 1,
        inbox,
        limits: OwnerLimits::default(),
        queue_age_max_ms: 3_600_000,
        rate_max_events_per_s: None,
        node_context: NodeContext {
            clock,
            metrics: Arc::new(Metrics::new()),
            proposals,
            climbs,
            keeper: Arc::new(keeper),
            lease: Arc::new(SharedLease::endless()),
            clocks: Arc::new(Clocks::unchecked()),
        },
    })
}

impl Running {
    async fn start() -> Self {
        let (queue, inbox) = queue(1000);
        tokio::spawn(worker(inbox).run());
        let (messages, to_peer) = mpsc::channel(64);
        let map = map();
        let identity = Identity { cluster: map.cluster, node: ME, founder: true, journal: map.cluster };
        let links = BTreeMap::from([(PEER, LinkHandle::to(messages))]);
        let view = View::new(Arc::new(map), Some(Me { identity, incarnation: Incarnation(1) }), links, BTreeSet::new());
        let (done, shown) = oneshot::channel();
        assert!(queue.hand(Work::View { view: Arc::new(view), done }).await);
        assert_eq!(shown.await.expect("the owner runs"), []);
        Self { queue, to_peer, sequence: 0 }
    }

    /// Submits the first event whose head is this node, without a deadline. Returns the receiver of the reply.
    fn submit(&mut self) -> mpsc::Receiver<Arc<PendingBatch>> {
        self.submit_one(0)
    }

    /// Submits a later event whose head is this node.
    fn submit_one(&mut self, index: usize) -> mpsc::Receiver<Arc<PendingBatch>> {
        let prober = Prober::new(&map().filters[&FILTER].definition).expect("a prober");
        let mut here =
            (0u64..).map(|number| FilterSecret::from_seed(1).digest(&number.to_le_bytes())).filter_map(|digest| {
                let mut probes = Probes::new(prober.shape());
                prober.push(digest, &mut probes);
                (prober.head_slice(0, &probes, 0) == 0).then_some(probes)
            });
        self.sequence += 1;
        let (ears, finished, _) = ReplyQueues::with_room(1);
        let place = PendingBatch::places(PendingHeader::of(FILTER, self.sequence), &[1], ears, None).remove(0);
        let submission = Submission {
            fences: Vec::new(),
            reply_to: 0,
            operation: Operation::Observe,
            producer: 1,
            sequence: self.sequence,
            names: Vec::new(),
            from: None,
            probes: here.nth(index).expect("half of all events"),
            times: Times::default(),
            deadline_ms: MonotonicMs(3_600_000),
            again: false,
            traceparent: None,
        };
        self.queue.offer(Run {
            key: GroupKey { filter: FILTER, group: 0 },
            submission,
            admitted_ms: MonotonicMs::START,
            place,
        });
        finished
    }

    /// Returns the owner's next message to the other node.
    async fn next_message(&mut self) -> PeerMessage {
        timeout(PATIENCE, self.to_peer.recv()).await.expect("a message").expect("the owner runs").message
    }

    /// Takes the owner's next message, and returns it to the owner as a message that cannot be sent.
    async fn refuse_next(&mut self) -> PeerMessage {
        let message = self.next_message().await;
        let refused = Work::Refused { sender: ME, receiver: PEER, message: message.clone() };
        assert!(self.queue.hand(refused).await);
        message
    }
}

async fn verdict(mut finished: mpsc::Receiver<Arc<PendingBatch>>) -> Decision {
    let batch =
        timeout(PATIENCE, finished.recv()).await.expect("answered before its deadline").expect("the owner runs");
    let replies: Vec<_> = batch.replies().collect();
    replies[0].answers.decisions()[0]
}

#[tokio::test]
async fn what_cannot_be_sent_ends_what_waits_for_it() {
    let mut owner = Running::start().await;
    // The event is new. The message that sets its other cells is never delivered, although some cells are set on this
    // node.
    let first = owner.submit();
    assert!(matches!(owner.refuse_next().await.body, PeerBody::Set(_)));
    assert_eq!(verdict(first).await, Decision::Undecided(Reason::Unknown));
    // The event is not new on this node, so the owner asks the other node. The question is never delivered.
    let second = owner.submit();
    assert!(matches!(owner.refuse_next().await.body, PeerBody::Test(_)));
    assert_eq!(verdict(second).await, Decision::Undecided(Reason::Invalid));
    // No event remains in flight, so the owner can end.
    let (done, drained) = oneshot::channel();
    assert!(owner.queue.hand(Work::Drain { done }).await);
    timeout(PATIENCE, drained).await.expect("nothing is in flight").expect("the owner runs");
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "a record to persist, but no journal")]
fn what_no_journal_takes_is_a_mistake() {
    let (_queue, inbox) = queue(1000);
    worker(inbox).execute_one(Command::Persist(Record { filter: FILTER, group: 0, entries: Vec::new() }));
}

#[tokio::test]
async fn what_has_come_in_is_sent_together() {
    let mut owner = Running::start().await;
    // The owner runs on this thread, so it finds all submissions when it next wakes up.
    let replies: Vec<_> = (0..3).map(|index| owner.submit_one(index)).collect();
    let PeerBody::Set(set) = owner.next_message().await.body else { panic!("new events are set") };
    assert_eq!(set.stamps.len(), 3, "one message has them all");
    let body = PeerBody::SetAcks(SetAcks { set_numbers: vec![set.set_number], ..SetAcks::default() });
    let message = PeerMessage { filter: FILTER, epoch: Epoch::FIRST, group: 0, body };
    assert!(owner.queue.hand(Work::Peer { from: PEER, message, received_ms: MonotonicMs::START }).await);
    for reply in replies {
        assert_eq!(verdict(reply).await, Decision::FirstSeen);
    }
    assert!(owner.to_peer.try_recv().is_err(), "nothing else was sent");
}

#[tokio::test]
async fn many_events_are_answered_before_more_are_taken() {
    let mut owner = Running::start().await;
    // The owner runs on this thread, so it finds all messages when it next wakes up.
    for set_number in 0..3 {
        let mut set = SetBatch { set_number, ..SetBatch::default() };
        for _ in 0..EVENTS_AT_ONCE_MAX / 2 {
            set.cells.push([0]);
            set.stamps.push(Stamp::default());
        }
        let message = PeerMessage { filter: FILTER, epoch: Epoch::FIRST, group: 0, body: PeerBody::Set(set) };
        assert!(owner.queue.hand(Work::Peer { from: PEER, message, received_ms: MonotonicMs::START }).await);
    }
    let mut acknowledged = async || match owner.next_message().await.body {
        PeerBody::SetAcks(acks) => acks.set_numbers.len() + acks.refused_numbers.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!([acknowledged().await, acknowledged().await], [2, 1]);
}

#[tokio::test]
async fn who_sent_what_cannot_be_read_is_told() {
    let mut owner = Running::start().await;
    let message = |body| PeerMessage { filter: FILTER, epoch: Epoch::FIRST, group: 0, body };
    let set = PeerBody::Set(SetBatch { set_number: 7, ..Default::default() });
    let runs = vec![TestRun { head: PEER, events: 2, ..TestRun::default() }];
    let test = firstseen_routing::TestBatch { runs, tickets: vec![3, 4], ..Default::default() };
    for body in [set, PeerBody::Test(test)] {
        let refused = Work::Refused { sender: PEER, receiver: ME, message: message(body) };
        assert!(owner.queue.hand(refused).await);
    }
    let PeerBody::SetAcks(acks) = owner.next_message().await.body else { panic!("not the answer to a set") };
    assert_eq!((acks.set_numbers, acks.refused_numbers), (vec![], vec![7]));
    let PeerBody::Resolved(resolved) = owner.next_message().await.body else { panic!("not the answer to a test") };
    assert_eq!((resolved.tickets, resolved.hits), (vec![3, 4], vec![false; 2]));
    assert_eq!(resolved.undecided, [(0, Reason::Invalid), (1, Reason::Invalid)]);
}
