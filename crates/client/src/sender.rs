//! Sends batches to nodes. Each node has its own sender, which owns the stream to that node, the batches in flight on
//! the stream, and the batches that wait for a retry.
//!
//! - A node never has more unanswered batches than it allows.
//! - A retried batch keeps its sequence number, and the sender retries it until its deadline.
//! - While a node is unreachable, the client asks another node to relay its batches.
//!
//! This module does not depend on how events get into batches.

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
use crate::intake::{FilterCore, NodeQueues, SubqueueTicket};
use crate::node_queue::{FilterSubqueue, NodeQueue};
use crate::outbox::Outbox;
use crate::retry::{AfterRefusal, Jitter};
use crate::routed_batch::RoutedBatch;
use crate::shared::{Core, Target};
use crate::stream::{FromNode, NodeStream};
use crate::traffic::NodeTraffic;

/// Interval at which deadlines are checked while a batch is in flight.
const TICK: Duration = Duration::from_millis(20);
/// Maximum time after a batch's deadline for which the sender still waits for the node's answer. Nodes answer every
/// batch by its deadline, so a longer silence means that a message on the stream was lost.
const ANSWER_GRACE: Duration = Duration::from_secs(10);

/// Batch that waits for its next attempt.
struct Waiting {
    piece: RoutedBatch,
    due: Due,
}

enum Due {
    At(Instant),
    /// The batch is retried at the given time. It is retried earlier if the client receives a cluster map newer than
    /// the given version, because that map may show that the missing slices are gone for good. In that case, it would
    /// be useless to wait for them any longer.
    AtOrAfter(Instant, u64),
    /// When the cluster map reaches this version.
    Map(u64),
}

/// Senders of all nodes. A sender starts when the first batch for its node is queued.
pub(crate) struct Senders {
    core: Arc<Core>,
    relay: Arc<Outbox>,
    by_node: Mutex<BTreeMap<NodeId, Arc<Outbox>>>,
}

impl Due {
    /// Returns whether the batch may be sent again at `now`, with a cluster map of this version.
    fn is_reached(&self, now: Instant, version: u64) -> bool {
        match self {
            Self::At(at) => *at <= now,
            Self::AtOrAfter(at, routed_by) => *at <= now || version > *routed_by,
            Self::Map(awaited) => *awaited <= version,
        }
    }
}

/// Task that sends batches to one node.
struct NodeSender {
    senders: Arc<Senders>,
    core: Arc<Core>,
    outbox: Arc<Outbox>,
    waiting: Vec<Waiting>,
    jitter: Jitter,
    /// Time at which the node became unreachable.
    down_since: Option<Instant>,
    /// Number of consecutive streams that brought no answer.
    failures: u32,
}

/// State of a batch on a stream.
#[expect(clippy::large_enum_variant, reason = "nearly all slots are awaited, and a stream has few")]
enum Slot {
    Awaited(RoutedBatch),
    /// Batch whose deadline has passed without a reply. Its callers have been told that their events are undecided, but
    /// the reply may still arrive. Until then, the batch counts as in flight, because the node may still be working on
    /// it. It is included in both limits on batches in flight: that of the stream and that of the filter.
    Abandoned {
        _ticket: Option<Arc<SubqueueTicket>>,
        since: Instant,
    },
}

/// Batches on a stream, by sequence number.
type Unanswered = BTreeMap<u64, Slot>;

impl Senders {
    /// Creates the senders of a client, without starting the sender to relaying nodes.
    pub(crate) fn new(core: Arc<Core>) -> Arc<Self> {
        Arc::new(Self { core, relay: Outbox::new(Target::Relay), by_node: Mutex::default() })
    }

    /// Creates the senders of a client, and starts the sender to whichever node relays.
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

    /// Sends a batch to the head nodes of its events, which are the nodes that decide the events. A batch with several
    /// head nodes is split.
    pub(crate) fn dispatch(self: &Arc<Self>, mut piece: RoutedBatch) {
        let map = self.core.map();
        let Some(record) = map.filters.get(&piece.filter.id()) else {
            piece.filter.line().misses(&map, piece.filter.id());
            let reason = piece.tries.reason_for_callers(Reason::UnknownFilter);
            return piece.answer_all(reason);
        };
        piece.routed_by = map.version;
        let heads = Heads::new(&map, record);
        match piece.head(&heads) {
            Some(head) => self.outbox(head).deliver(piece),
            None => piece.split(&heads).into_iter().for_each(|(head, part)| self.outbox(head).deliver(part)),
        }
    }

    /// Returns the number of batches and bytes sent to each node so far, and through relaying nodes.
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

    /// Ends all waiting work. Callers that still wait receive an answer.
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

    /// Runs until the client ends. While there is nothing to send, the sender keeps no connection.
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

    /// Tries to connect until there is a stream. Meanwhile deadlines are enforced, and batches are relayed by another
    /// node.
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
        // If no node could be reached for the whole duration of a call, the next call need not wait as long again. Its
        // events are answered at once.
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
        while let Some(FilterSubqueue { filter, subqueue }) = self.outbox.queue.next_ready() {
            if let Some(piece) =
                RoutedBatch::take(filter, subqueue, limits.batch_events_max as usize, limits.inflight_batches_max)
            {
                self.senders.relay.deliver(piece);
            }
        }
    }

    /// Sends and receives batches until the stream breaks. Returns the reason.
    async fn serve(&mut self, stream: &mut NodeStream, unanswered: &mut Unanswered) -> String {
        let mut maps = self.core.maps();
        let tick = sleep_until(Instant::now() + TICK);
        tokio::pin!(tick);
        loop {
            if let Err(complaint) = self.send_due_batches(stream, unanswered) {
                return complaint;
            }
            let has_work = !unanswered.is_empty() || !self.waiting.is_empty() || !self.outbox.is_idle();
            // The tick has priority. It is rarely due, and a steady flow of replies would otherwise starve it.
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
                        apply_early_duplicates(&found, unanswered);
                    }
                    Err(complaint) => return complaint,
                },
                () = self.outbox.queue.wake.notified() => {
                    // Tasks of this process that are about to submit events get a chance to join the same batch.
                    if stream.is_here() {
                        self.outbox.queue.settle().await;
                    }
                }
                _ = maps.changed() => {}
            }
        }
    }

    fn send_due_batches(&mut self, stream: &mut NodeStream, unanswered: &mut Unanswered) -> Result<(), String> {
        if !self.waiting.is_empty() {
            self.dispatch_due(Instant::now());
        }
        let mut held = Vec::new();
        while unanswered.len() < stream.credits
            && let Some(piece) = self.outbox.next_batch()
        {
            // Parts of one batch may arrive here under the same sequence number. An answer names only the sequence
            // number, so one part must wait until the other is answered.
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
        // One filter may use only half of the node's credit, so that other filters can proceed if the node is slow with
        // this one.
        let batches_max = (stream.credits as u32 / 2).max(1);
        while unanswered.len() < stream.credits
            && let Some(FilterSubqueue { filter, subqueue }) = self.outbox.queue.next_ready()
        {
            if let Some(piece) = RoutedBatch::take(filter, subqueue, stream.batch_events_max, batches_max) {
                self.send(piece, stream, unanswered)?;
            }
        }
        Ok(())
    }

    fn send(&self, mut piece: RoutedBatch, stream: &mut NodeStream, unanswered: &mut Unanswered) -> Result<(), String> {
        let now = Instant::now();
        if piece.retry_until.is_some_and(|until| until < now) {
            let reason = piece.tries.timeout_reason(false, Reason::Unknown);
            piece.answer_all(reason);
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
                piece.answer_all(reason);
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
                return piece.answer_all(Reason::Unknown);
            }
        };
        piece.filter.catch_up(answers.clock_ms());
        self.failures = 0;
        let is_refused = message.refused != i32::from(proto::Reason::Unspecified);
        if is_refused && let Some(Decision::Undecided(reason)) = answers.decisions().first() {
            let next = match message.retry_after_ms {
                // The quota of this producer is used up. Waiting for new quota does not count as a retry.
                1.. => piece.tries.retry_after(*reason, message.retry_after_ms, &mut self.jitter),
                0 => self.next_after(&mut piece, *reason, map_version, |_| true),
            };
            tracing::debug!(?reason, ?next, detail, "a batch was refused");
            return self.send_again(piece, next);
        }
        piece.filter.note_level_hits(answers.level_hits());
        piece.note(&answers);
        let listed = piece.listed_degraded(&answers);
        piece.note_holds(answers.holds());
        // A batch is sent again as a whole, because it has one idempotency key. The node remembers the events that it
        // has decided already.
        if let Some(reason) = retry_reason(answers.decisions(), piece.operation)
            && let next = self.next_after(&mut piece, reason, map_version, |event| {
                answers.decisions()[event] == Decision::Undecided(Reason::SlicesDown)
            })
            && !matches!(next, AfterRefusal::Answer(_))
        {
            let answered = piece.answer_definite(answers.clock_ms(), |event| answer_to(&answers, event));
            note_degraded(&piece, &answers, listed.unwrap_or(answered));
            if answers.decisions().iter().any(may_have_recorded) {
                piece.tries.lost();
            }
            return self.send_again(piece, next);
        }
        note_degraded(&piece, &answers, listed.unwrap_or(piece.awaited()));
        let tries = piece.tries.clone();
        piece.answer(answers.clock_ms(), |event| match answer_to(&answers, event) {
            Answer { decision: Decision::Undecided(reason), .. } => Answer::undecided(tries.reason_for_callers(reason)),
            answer => answer,
        });
    }

    /// Determines the next step for a batch to which a node replied `reason`. The batch may need slices that can never
    /// return. Because it is useless to wait for these slices, the function first answers the events that need them.
    /// The next step then concerns only the remaining events.
    ///
    /// `map_version` is the version of the node's cluster map. `is_down` returns whether an event needs slices that are
    /// down. If an event may be recorded without a decision, the reason is not that slices are down (`retry_reason`), so
    /// no event is answered early.
    fn next_after(
        &mut self,
        piece: &mut RoutedBatch,
        reason: Reason,
        map_version: u64,
        is_down: impl Fn(usize) -> bool,
    ) -> AfterRefusal {
        if reason == Reason::SlicesDown {
            if piece.is_lost() {
                return AfterRefusal::Answer(reason);
            }
            piece.answer_unrecoverable(is_down);
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

    fn send_again(&mut self, piece: RoutedBatch, next: AfterRefusal) {
        let Some(mut piece) = piece.into_retry() else { return };
        piece.is_sent = false;
        let due = match next {
            AfterRefusal::Answer(reason) => return piece.answer_all(reason),
            AfterRefusal::Wait(wait_ms) => {
                let at = Instant::now() + Duration::from_millis(wait_ms);
                if piece.tries.has_unreachable_owners() { Due::AtOrAfter(at, piece.routed_by) } else { Due::At(at) }
            }
            AfterRefusal::Map(version) => {
                self.core.note_map_version(version);
                Due::Map(version)
            }
        };
        self.waiting.push(Waiting { piece, due });
    }

    /// Sends batches whose waiting time has ended to the nodes that now own their events.
    fn dispatch_due(&mut self, now: Instant) {
        let version = self.core.map_version();
        for Waiting { piece, .. } in self.waiting.extract_if(.., |waiting| waiting.due.is_reached(now, version)) {
            self.senders.dispatch(piece);
        }
    }

    /// Answers callers whose deadline has passed at `now`, except for batches that are on the stream.
    fn expire(&mut self, now: Instant, otherwise: Reason) {
        let waiting = self.waiting.extract_if(.., |waiting| waiting.piece.deadline <= now);
        let waiting: Vec<RoutedBatch> = waiting.map(|waiting| waiting.piece).collect();
        for piece in waiting.into_iter().chain(self.outbox.take_expired(now)) {
            let reason = piece.tries.timeout_reason(false, otherwise);
            piece.answer_all(reason);
        }
        for FilterSubqueue { filter, subqueue } in self.outbox.queue.subqueues() {
            filter.expire(subqueue, now, otherwise);
        }
    }

    /// Answers the callers of batches that are on the stream and whose deadline has passed. Returns an error if the
    /// node has not replied to a batch for more than [`ANSWER_GRACE`] after its deadline.
    fn expire_unanswered(&self, now: Instant, unanswered: &mut Unanswered) -> Result<(), String> {
        for slot in unanswered.values_mut() {
            match slot {
                Slot::Awaited(piece) if piece.deadline <= now => {
                    let abandoned = Slot::Abandoned { _ticket: piece.ticket(), since: now };
                    if let Slot::Awaited(piece) = std::mem::replace(slot, abandoned) {
                        let reason = piece.tries.timeout_reason(true, Reason::Unknown);
                        piece.answer_all(reason);
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

/// Answers those events of a batch that the node has already found to be duplicates, while the rest of the batch is
/// still in flight.
fn apply_early_duplicates(message: &proto::Found, unanswered: &mut Unanswered) {
    let Some(Slot::Awaited(piece)) = unanswered.get_mut(&message.sequence) else { return };
    match reply::decode_found(message, piece.events()) {
        Ok(found) => {
            piece.answer_definite(read_ms(message.clock_ms), |event| {
                if found[event] { Answer::duplicate() } else { Answer::undecided(Reason::Unknown) }
            });
        }
        // The final reply repeats these verdicts, so nothing is lost.
        Err(error) => tracing::warn!(%error, "cannot decode the early duplicates of a batch"),
    }
}

/// Returns the time for which a batch may be retried, in milliseconds. Usually this is the time for which nodes
/// remember the idempotency key of the batch. After that time, a node would no longer recognise a retry, and would
/// treat it as a new batch. A batch of claims is retried for at most half of its lease, so that the caller can use the
/// other half.
fn retry_ms(piece: &RoutedBatch) -> u64 {
    let horizon_ms = u64::from(piece.filter.record().policies.retry_horizon_ms);
    match piece.operation {
        Operation::Claim { lease_ms } => horizon_ms.min(u64::from(lease_ms) / 2),
        _ => horizon_ms,
    }
}

/// Returns the reason for which a batch should be retried, or `None` if a retry is useless. The events of a batch can
/// have different reasons. The function returns an outage, for example slices that are down, only if no event has
/// another reason for a retry.
///
/// A claim that was refused for lack of space is not retried, because waiting would not help. Space becomes free when
/// the caller confirms earlier claims, but the caller cannot confirm them while it waits for this call.
fn retry_reason(decisions: &[Decision], operation: Operation) -> Option<Reason> {
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

/// Returns whether a node may have recorded an event although it has not decided it.
fn may_have_recorded(decision: &Decision) -> bool {
    matches!(decision, Decision::Undecided(reason) if reason.may_have_recorded())
}

/// Returns the answer that a reply gives to one event.
fn answer_to(answers: &Answers, event: usize) -> Answer {
    Answer { decision: answers.decisions()[event], estimate: answers.estimate(event) }
}

/// Counts the events that a reply answers with degraded verdicts. Such verdicts rest on fewer slices than usual, or a
/// level of a tree gave them without the levels above it. `events` is their number if the reply is degraded.
fn note_degraded(piece: &RoutedBatch, answers: &Answers, events: usize) {
    if answers.is_degraded() {
        piece.filter.note_degraded(events, answers.expected_rate());
    }
}
