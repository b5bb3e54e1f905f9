//! The sender of each node: its stream, the batches in flight on it, and those that must be sent again.
//!
//! Promises: there are never more unanswered batches than the node allows; a batch is sent again with the same
//! sequence, until its deadline; while the node cannot be reached, a node that can be reached is asked to relay. Must
//! not know: how events get into batches.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firstseen_routing::{Answers, Decision, Heads, NodeId, Operation, Reason};
use firstseen_wire::proto::producer as proto;
use firstseen_wire::reply::{self, Reply};
use firstseen_wire::ticks::read_ms;
use prost::Message;
use tokio::time::{Instant, sleep, sleep_until};

use crate::call::{Answer, lock};
use crate::intake::{FilterCore, LaneTicket, NodeQueues};
use crate::node_queue::{FilterLane, NodeQueue};
use crate::outbox::Outbox;
use crate::piece::Piece;
use crate::retry::{AfterRefusal, Jitter};
use crate::shared::{Core, Target};
use crate::stream::{FromNode, NodeStream};
use crate::traffic::NodeTraffic;

/// The time between two looks at deadlines while a batch is under way.
const TICK: Duration = Duration::from_millis(20);
/// A node answers every batch by its deadline. A stream on which an answer is overdue for this long has lost a message.
const ANSWER_GRACE: Duration = Duration::from_secs(10);

/// A batch that will be sent again.
struct Waiting {
    piece: Piece,
    due: Due,
}

enum Due {
    At(Instant),
    /// At this time, or at the first map after this version: that map may do without the missing slices.
    AtOrAfter(Instant, u64),
    /// With a map of this version.
    Map(u64),
}

/// The senders of all nodes, each of which is started with the first work for its node.
pub(crate) struct Senders {
    core: Arc<Core>,
    relay: Arc<Outbox>,
    by_node: Mutex<BTreeMap<NodeId, Arc<Outbox>>>,
}

impl Due {
    /// Whether a batch is sent again at `now`, by a map of this version.
    fn is_reached(&self, now: Instant, version: u64) -> bool {
        match self {
            Self::At(at) => *at <= now,
            Self::AtOrAfter(at, routed_by) => *at <= now || version > *routed_by,
            Self::Map(awaited) => *awaited <= version,
        }
    }
}

/// Sends batches to one node.
struct NodeSender {
    senders: Arc<Senders>,
    core: Arc<Core>,
    outbox: Arc<Outbox>,
    waiting: Vec<Waiting>,
    jitter: Jitter,
    /// Since when the node cannot be reached.
    down_since: Option<Instant>,
    /// Streams in a row that brought no answer.
    failures: u32,
}

/// A batch on a stream.
#[expect(clippy::large_enum_variant, reason = "nearly all slots are awaited, and a stream has few")]
enum Slot {
    Awaited(Piece),
    /// No caller waits any longer, but the node still owes the answer: the batch keeps its credit, and its place in its
    /// filter's share.
    Abandoned {
        _ticket: Option<Arc<LaneTicket>>,
        since: Instant,
    },
}

/// Batches on a stream, by sequence.
type Unanswered = BTreeMap<u64, Slot>;

impl Senders {
    /// Creates the senders of a client without a node that relays.
    pub(crate) fn new(core: Arc<Core>) -> Arc<Self> {
        Arc::new(Self { core, relay: Outbox::new(Target::Relay), by_node: Mutex::default() })
    }

    /// Starts the sender to any node that relays.
    pub(crate) fn start(core: Arc<Core>) -> Arc<Self> {
        let senders = Self::new(core);
        senders.spawn(senders.relay.clone());
        senders
    }

    fn spawn(self: &Arc<Self>, outbox: Arc<Outbox>) {
        self.core.spawn(NodeSender::new(self.clone(), outbox).run());
    }

    fn outbox(self: &Arc<Self>, node: NodeId) -> Arc<Outbox> {
        let mut by_node = lock(&self.by_node);
        if let Some(outbox) = by_node.get(&node) {
            return outbox.clone();
        }
        let outbox = Outbox::new(Target::Node(node));
        by_node.insert(node, outbox.clone());
        drop(by_node);
        self.spawn(outbox.clone());
        outbox
    }

    /// Brings a batch to the heads of its events.
    pub(crate) fn dispatch(self: &Arc<Self>, mut piece: Piece) {
        let map = self.core.map();
        let Some(record) = map.filters.get(&piece.filter.id()) else {
            piece.filter.line().misses(&map, piece.filter.id());
            let reason = piece.tries.reason_for_callers(Reason::UnknownFilter);
            return piece.answer_alike(reason);
        };
        piece.routed_by = map.version;
        let heads = Heads::new(&map, record);
        match piece.head(&heads) {
            Some(head) => self.outbox(head).deliver(piece),
            None => piece.split(&heads).into_iter().for_each(|(head, part)| self.outbox(head).deliver(part)),
        }
    }

    /// Counts of batches and bytes sent to each node so far, and through any node that relays.
    pub(crate) fn traffic(&self) -> Vec<NodeTraffic> {
        let map = self.core.map();
        let mut traffic = Vec::new();
        for (node, outbox) in lock(&self.by_node).iter() {
            let name = map.nodes.get(node).map_or_else(|| node.to_string(), |record| record.name.clone());
            traffic.push(outbox.traffic.of(name));
        }
        traffic.push(self.relay.traffic.of(String::new()));
        traffic.retain(|traffic| traffic.batches > 0);
        traffic
    }

    /// Ends all work that waits.
    pub(crate) fn clear(&self) {
        let by_node = mem::take(&mut *lock(&self.by_node));
        by_node.values().chain([&self.relay]).for_each(|outbox| outbox.clear());
    }
}

impl NodeQueues for Senders {
    fn queue_of(self: Arc<Self>, node: NodeId) -> Arc<NodeQueue<FilterCore>> {
        self.outbox(node).queue.clone()
    }
}

impl NodeSender {
    fn new(senders: Arc<Senders>, outbox: Arc<Outbox>) -> Self {
        let core = senders.core.clone();
        let jitter = core.jitter();
        Self { senders, core, outbox, waiting: Vec::new(), jitter, down_since: None, failures: 0 }
    }

    /// Works for as long as the client lives; without work there is no connection.
    async fn run(mut self) {
        loop {
            while self.outbox.is_idle() && self.waiting.is_empty() {
                self.outbox.queue.wake.notified().await;
            }
            let mut stream = self.connect().await;
            let mut unanswered = Unanswered::new();
            let complaint = self.serve(&mut stream, &mut unanswered).await;
            tracing::debug!(target = ?self.outbox.target, complaint, unanswered = unanswered.len(), "stream lost");
            self.failures += 1;
            for slot in unanswered.into_values() {
                let Slot::Awaited(mut piece) = slot else { continue };
                piece.tries.lost();
                let wait_ms = self.jitter.wait_ms(piece.tries.sent);
                self.send_again(piece, AfterRefusal::Wait(wait_ms));
            }
        }
    }

    /// Tries until there is a stream; meanwhile deadlines pass, and batches are relayed by another node.
    async fn connect(&mut self) -> NodeStream {
        loop {
            let wait_ms = if self.failures == 0 { 0 } else { self.jitter.wait_ms(self.failures) };
            let opening = NodeStream::open(self.core.clone(), self.outbox.target, wait_ms);
            tokio::pin!(opening);
            let opened = loop {
                self.work_without_stream();
                tokio::select! {
                    biased;
                    opened = &mut opening => break opened,
                    () = self.outbox.queue.wake.notified() => {}
                    () = sleep(TICK) => {}
                }
            };
            match opened {
                Ok(stream) => {
                    self.down_since = None;
                    return stream;
                }
                Err(complaint) => {
                    self.failures = self.failures.saturating_add(1);
                    tracing::debug!(target = ?self.outbox.target, complaint, "no stream");
                }
            }
        }
    }

    fn work_without_stream(&mut self) {
        let now = Instant::now();
        let down_since = *self.down_since.get_or_insert(now);
        let patience = Duration::from_millis(self.core.options().relay_after_ms);
        // Where no node could be reached for as long as a call may take, the next call need not wait as long again.
        let last_deadline = now + self.core.patience();
        let is_hopeless = self.outbox.target == Target::Relay && now >= down_since + self.core.patience();
        self.expire(if is_hopeless { last_deadline } else { now }, Reason::NotReady);
        self.dispatch_due(now);
        if self.outbox.target == Target::Relay || now.saturating_duration_since(down_since) < patience {
            return;
        }
        while let Some(piece) = self.outbox.next_batch() {
            self.senders.relay.deliver(piece);
        }
        let limits = self.core.options();
        while let Some(FilterLane { filter, lane }) = self.outbox.queue.next_ready() {
            if let Some(piece) =
                Piece::take(filter, lane, limits.batch_events_max as usize, limits.inflight_batches_max)
            {
                self.senders.relay.deliver(piece);
            }
        }
    }

    /// Sends and receives until the stream is lost; returns why.
    async fn serve(&mut self, stream: &mut NodeStream, unanswered: &mut Unanswered) -> String {
        let mut maps = self.core.maps();
        let tick = sleep_until(Instant::now() + TICK);
        tokio::pin!(tick);
        loop {
            if let Err(complaint) = self.send_what_may_be_sent(stream, unanswered) {
                return complaint;
            }
            let has_work = !unanswered.is_empty() || !self.waiting.is_empty() || !self.outbox.is_idle();
            // The tick comes first: it is seldom due, and behind replies that pour in it would not be looked at.
            tokio::select! {
                biased;
                () = &mut tick, if has_work => {
                    let now = Instant::now();
                    tick.as_mut().reset(now + TICK);
                    self.expire(now, Reason::Overloaded);
                    if let Err(complaint) = self.expire_unanswered(now, unanswered) {
                        return complaint;
                    }
                }
                message = stream.next_message() => match message {
                    Ok(FromNode::Reply(reply)) => self.take_reply(&reply, unanswered),
                    Ok(FromNode::Found(found)) => {
                        self.outbox.traffic.received(found.encoded_len());
                        take_found(&found, unanswered);
                    }
                    Err(complaint) => return complaint,
                },
                () = self.outbox.queue.wake.notified() => {
                    // Callers in this process that are about to ask as well get into the same batch.
                    if stream.is_here() {
                        self.outbox.queue.settle().await;
                    }
                }
                _ = maps.changed() => {}
            }
        }
    }

    fn send_what_may_be_sent(&mut self, stream: &mut NodeStream, unanswered: &mut Unanswered) -> Result<(), String> {
        if !self.waiting.is_empty() {
            self.dispatch_due(Instant::now());
        }
        let mut held = Vec::new();
        while unanswered.len() < stream.credits
            && let Some(piece) = self.outbox.next_batch()
        {
            // Parts of one batch may meet again here; an answer names no more than the batch.
            if unanswered.contains_key(&piece.sequence) {
                held.push(piece);
            } else if piece.events() > stream.batch_events_max {
                piece.cut(stream.batch_events_max).into_iter().for_each(|part| self.outbox.deliver(part));
            } else {
                self.send(piece, stream, unanswered)?;
            }
        }
        held.into_iter().for_each(|piece| {
            self.waiting.push(Waiting { due: Due::At(Instant::now() + TICK), piece });
        });
        // Half of the node's credit is for the other filters, should the node be slow with this one.
        let batches_max = (stream.credits as u32 / 2).max(1);
        while unanswered.len() < stream.credits
            && let Some(FilterLane { filter, lane }) = self.outbox.queue.next_ready()
        {
            if let Some(piece) = Piece::take(filter, lane, stream.batch_events_max, batches_max) {
                self.send(piece, stream, unanswered)?;
            }
        }
        Ok(())
    }

    fn send(&self, mut piece: Piece, stream: &mut NodeStream, unanswered: &mut Unanswered) -> Result<(), String> {
        let now = Instant::now();
        if piece.retry_until.is_some_and(|until| until < now) {
            let reason = piece.tries.out_of_time(false, Reason::Unknown);
            piece.answer_alike(reason);
            return Ok(());
        }
        let map = self.core.map();
        let head = match (self.outbox.target, map.filters.get(&piece.filter.id())) {
            (Target::Node(node), _) if piece.routed_by == map.version => Some(node),
            (_, None) => None,
            (_, Some(record)) => piece.head(&Heads::new(&map, record)),
        };
        let Some(head) = head.filter(|head| [Target::Relay, Target::Node(*head)].contains(&self.outbox.target)) else {
            self.senders.dispatch(piece);
            return Ok(());
        };
        piece.routed_by = map.version;
        match piece.message(&map, head, now) {
            Ok(message) => {
                let horizon = Duration::from_millis(retry_ms(&piece));
                piece.retry_until.get_or_insert(now + horizon);
                piece.tries.sent += 1;
                piece.is_sent = true;
                self.outbox.traffic.sent(message.encoded_len());
                unanswered.insert(piece.sequence, Slot::Awaited(piece));
                stream.send(message)
            }
            Err(error) => {
                tracing::warn!(%error, "a batch breaks the protocol's limits");
                let reason = piece.tries.reason_for_callers(Reason::Invalid);
                piece.answer_alike(reason);
                Ok(())
            }
        }
    }

    fn take_reply(&mut self, message: &proto::BatchReply, unanswered: &mut Unanswered) {
        self.outbox.traffic.received(message.encoded_len());
        let Some(Slot::Awaited(mut piece)) = unanswered.remove(&message.sequence) else { return };
        piece.is_sent = false;
        let Reply { answers, map_version, detail } = match reply::decode(message, piece.events()) {
            Ok(reply) => reply,
            Err(error) => {
                tracing::warn!(%error, "an answer makes no sense");
                piece.tries.lost();
                return piece.answer_alike(Reason::Unknown);
            }
        };
        piece.filter.catch_up(answers.clock_ms());
        self.failures = 0;
        let is_refused = message.refused != i32::from(proto::Reason::Unspecified);
        if is_refused && let Some(Decision::Undecided(reason)) = answers.decisions().first() {
            let next = match message.retry_after_ms {
                // The quota of this producer is spent: to wait is no retry.
                1.. => piece.tries.told_to_wait(*reason, message.retry_after_ms, &mut self.jitter),
                0 => self.next_after(&mut piece, *reason, map_version, |_| true),
            };
            tracing::debug!(?reason, ?next, detail, "a batch was refused");
            return self.send_again(piece, next);
        }
        piece.filter.note_level_hits(answers.level_hits());
        piece.note(answers.is_degraded(), answers.seen());
        piece.note_holds(answers.holds());
        // A batch is sent again as a whole, as it has one name: the node remembers the events that it has decided.
        if let Some(reason) = worth_retrying(answers.decisions(), piece.operation)
            && let next = self.next_after(&mut piece, reason, map_version, |event| {
                answers.decisions()[event] == Decision::Undecided(Reason::SlicesDown)
            })
            && !matches!(next, AfterRefusal::Answer(_))
        {
            let answered = piece.answer_definite(answers.clock_ms(), |event| answer_to(&answers, event));
            note_degraded(&piece, &answers, answered);
            if answers
                .decisions()
                .iter()
                .any(|decision| matches!(decision, Decision::Undecided(reason) if reason.may_have_recorded()))
            {
                piece.tries.lost();
            }
            return self.send_again(piece, next);
        }
        note_degraded(&piece, &answers, piece.awaited());
        let tries = piece.tries.clone();
        piece.answer(answers.clock_ms(), |event| match answer_to(&answers, event) {
            Answer { decision: Decision::Undecided(reason), .. } => Answer::undecided(tries.reason_for_callers(reason)),
            answer => answer,
        });
    }

    /// The next step for a batch to which a node, whose map has version `map_version`, replied `reason`; `is_down`
    /// names the events that need slices which are down. Those that would wait for these in vain are answered.
    fn next_after(
        &mut self,
        piece: &mut Piece,
        reason: Reason,
        map_version: u64,
        is_down: impl Fn(usize) -> bool,
    ) -> AfterRefusal {
        if reason == Reason::SlicesDown {
            if piece.is_lost() {
                return AfterRefusal::Answer(reason);
            }
            piece.give_up_vain(is_down);
        }
        if reason.is_outage() && piece.awaited() == 0 {
            return AfterRefusal::Answer(reason);
        }
        if reason.is_outage() && piece.filter.waits_for_slices(Instant::now()) {
            return piece.tries.awaits_nodes(reason, &mut self.jitter);
        }
        let retries_max = self.core.options().overload_retries_max;
        piece.tries.refused(reason, piece.routed_by, map_version, retries_max, &mut self.jitter)
    }

    fn send_again(&mut self, piece: Piece, next: AfterRefusal) {
        let mut piece = piece.into_sent_again();
        piece.is_sent = false;
        let due = match next {
            AfterRefusal::Answer(reason) => return piece.answer_alike(reason),
            AfterRefusal::Wait(wait_ms) => {
                let at = Instant::now() + Duration::from_millis(wait_ms);
                if piece.tries.lacks_nodes() { Due::AtOrAfter(at, piece.routed_by) } else { Due::At(at) }
            }
            AfterRefusal::Map(version) => {
                self.core.heard_of_version(version);
                Due::Map(version)
            }
        };
        self.waiting.push(Waiting { piece, due });
    }

    /// Batches whose wait is over go to the nodes that own their events now.
    fn dispatch_due(&mut self, now: Instant) {
        let version = self.core.map_version();
        for Waiting { piece, .. } in self.waiting.extract_if(.., |waiting| waiting.due.is_reached(now, version)) {
            self.senders.dispatch(piece);
        }
    }

    /// Answers callers whose time is over at `now`, as far as their batches are not on the stream.
    fn expire(&mut self, now: Instant, otherwise: Reason) {
        let waiting = self.waiting.extract_if(.., |waiting| waiting.piece.deadline <= now);
        let waiting: Vec<Piece> = waiting.map(|waiting| waiting.piece).collect();
        for piece in waiting.into_iter().chain(self.outbox.take_expired(now)) {
            let reason = piece.tries.out_of_time(false, otherwise);
            piece.answer_alike(reason);
        }
        for FilterLane { filter, lane } in self.outbox.queue.lanes() {
            filter.expire(lane, now, otherwise);
        }
    }

    /// Answers callers whose batches are on the stream; an error if the node owes answers for too long.
    fn expire_unanswered(&self, now: Instant, unanswered: &mut Unanswered) -> Result<(), String> {
        for slot in unanswered.values_mut() {
            match slot {
                Slot::Awaited(piece) if piece.deadline <= now => {
                    let abandoned = Slot::Abandoned { _ticket: piece.ticket(), since: now };
                    if let Slot::Awaited(piece) = std::mem::replace(slot, abandoned) {
                        let reason = piece.tries.out_of_time(true, Reason::Unknown);
                        piece.answer_alike(reason);
                    }
                }
                Slot::Abandoned { since, .. } if now.saturating_duration_since(*since) > ANSWER_GRACE => {
                    return Err(format!(
                        "a batch has had no answer for {} s after its deadline",
                        ANSWER_GRACE.as_secs()
                    ));
                }
                Slot::Awaited(_) | Slot::Abandoned { .. } => {}
            }
        }
        Ok(())
    }
}

/// Answers the early duplicates of a batch, while the rest of it is on its way.
fn take_found(message: &proto::Found, unanswered: &mut Unanswered) {
    let Some(Slot::Awaited(piece)) = unanswered.get_mut(&message.sequence) else { return };
    match reply::decode_found(message, piece.events()) {
        Ok(found) => {
            piece.answer_definite(read_ms(message.clock_ms), |event| {
                if found[event] { Answer::duplicate() } else { Answer::undecided(Reason::Unknown) }
            });
        }
        // The reply will have the same verdicts.
        Err(error) => tracing::warn!(%error, "what was found makes no sense"),
    }
}

/// For how long a batch is sent again: as long as nodes remember it, and of a claim's lease half, as the other half is for what was
/// granted meanwhile.
fn retry_ms(piece: &Piece) -> u64 {
    let horizon_ms = u64::from(piece.filter.record().policies.retry_horizon_ms);
    match piece.operation {
        Operation::Claim { lease_ms } => horizon_ms.min(u64::from(lease_ms) / 2),
        _ => horizon_ms,
    }
}

/// Why a batch may be sent again; an outage only where no event has another reason. Claims that find no room are not sent again:
/// other claims of the call make room when they are confirmed, and that is after the call has ended.
fn worth_retrying(decisions: &[Decision], operation: Operation) -> Option<Reason> {
    let is_claim = matches!(operation, Operation::Claim { .. });
    let mut outage = None;
    for decision in decisions {
        match decision {
            Decision::Undecided(Reason::Overloaded) if is_claim => {}
            Decision::Undecided(reason) if reason.is_worth_retrying() => return Some(*reason),
            Decision::Undecided(reason) if reason.is_outage() => outage = outage.or(Some(*reason)),
            _ => {}
        }
    }
    outage
}

/// The answer of a reply to one event.
fn answer_to(answers: &Answers, event: usize) -> Answer {
    Answer { decision: answers.decisions()[event], estimate: answers.estimate(event) }
}

/// Counts events that are answered now by a reply that rests on fewer slices.
fn note_degraded(piece: &Piece, answers: &Answers, events: usize) {
    if answers.is_degraded() {
        piece.filter.note_degraded(events, answers.expected_rate());
    }
}
