//! The courier of one node: its stream, the batches in flight on it, and those that must be sent again.
//!
//! Promises: there are never more unanswered batches than the node allows; a batch is sent again with the same
//! sequence, until its deadline; while the node cannot be reached, a node that can be reached is asked to relay. Must
//! not know: how events get into batches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firstseen_routing::{Decision, Heads, NodeId, Operation, Reason};
use firstseen_wire::proto::producer as proto;
use firstseen_wire::reply;
use firstseen_wire::ticks::read_ms;
use prost::Message;
use tokio::time::{Instant, sleep, sleep_until};

use crate::call::Answer;
use crate::client::Core;
use crate::dock::{Dock, FilterLane, Target};
use crate::intake::LaneTicket;
use crate::piece::Piece;
use crate::retry::{AfterRefusal, Jitter};
use crate::stream::{FromNode, NodeStream};

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

/// Carries batches to one node.
pub(crate) struct Courier {
    core: Arc<Core>,
    dock: Arc<Dock>,
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

impl Courier {
    pub(crate) fn new(core: Arc<Core>, dock: Arc<Dock>) -> Self {
        let jitter = core.jitter();
        Self { core, dock, waiting: Vec::new(), jitter, down_since: None, failures: 0 }
    }

    /// Works for as long as the client lives; without work there is no connection.
    pub(crate) async fn run(mut self) {
        loop {
            while self.dock.is_idle() && self.waiting.is_empty() {
                self.dock.wake.notified().await;
            }
            let mut stream = self.connect().await;
            let mut unanswered = Unanswered::new();
            let complaint = self.serve(&mut stream, &mut unanswered).await;
            tracing::debug!(target = ?self.dock.target, complaint, unanswered = unanswered.len(), "stream lost");
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
            let opening = NodeStream::open(self.core.clone(), self.dock.target, wait_ms);
            tokio::pin!(opening);
            let opened = loop {
                self.work_without_stream();
                tokio::select! {
                    biased;
                    opened = &mut opening => break opened,
                    () = self.dock.wake.notified() => {}
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
                    tracing::debug!(target = ?self.dock.target, complaint, "no stream");
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
        let is_hopeless = self.dock.target == Target::Relay && now >= down_since + self.core.patience();
        self.expire(if is_hopeless { last_deadline } else { now }, Reason::NotReady);
        self.dispatch_due(now);
        if self.dock.target == Target::Relay || now.saturating_duration_since(down_since) < patience {
            return;
        }
        while let Some(piece) = self.dock.next_piece() {
            self.core.relay_dock().deliver(piece);
        }
        let limits = self.core.options();
        while let Some(FilterLane { filter, lane }) = self.dock.next_ready() {
            if let Some(piece) = filter.take(lane, limits.batch_events_max as usize, limits.inflight_batches_max) {
                self.core.relay_dock().deliver(piece);
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
            let has_work = !unanswered.is_empty() || !self.waiting.is_empty() || !self.dock.is_idle();
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
                        self.dock.traffic.received(found.encoded_len());
                        take_found(&found, unanswered);
                    }
                    Err(complaint) => return complaint,
                },
                () = self.dock.wake.notified() => {
                    // Callers in this process that are about to ask as well get into the same batch.
                    if stream.is_here() {
                        self.dock.settle().await;
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
            && let Some(piece) = self.dock.next_piece()
        {
            // Parts of one batch may meet again here; an answer names no more than the batch.
            if unanswered.contains_key(&piece.sequence) {
                held.push(piece);
            } else if piece.events() > stream.batch_events_max {
                piece.cut(stream.batch_events_max).into_iter().for_each(|part| self.dock.deliver(part));
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
            && let Some(FilterLane { filter, lane }) = self.dock.next_ready()
        {
            if let Some(piece) = filter.take(lane, stream.batch_events_max, batches_max) {
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
        let head = match (self.dock.target, map.filters.get(&piece.filter.id())) {
            (Target::Node(node), _) if piece.routed_by == map.version => Some(node),
            (_, None) => None,
            (_, Some(record)) => piece.head(&Heads::new(&map, record)),
        };
        let is_here = |head: NodeId| self.dock.target == Target::Relay || self.dock.target == Target::Node(head);
        let Some(head) = head.filter(|head| is_here(*head)) else {
            self.core.dispatch(piece);
            return Ok(());
        };
        piece.routed_by = map.version;
        match piece.message(&map, head, now) {
            Ok(message) => {
                let horizon = Duration::from_millis(retry_ms(&piece));
                piece.retry_until.get_or_insert(now + horizon);
                piece.tries.sent += 1;
                piece.is_sent = true;
                self.dock.traffic.sent(message.encoded_len());
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
        self.dock.traffic.received(message.encoded_len());
        let Some(Slot::Awaited(mut piece)) = unanswered.remove(&message.sequence) else { return };
        piece.is_sent = false;
        let answers = match reply::decode(message, piece.events()) {
            Ok(answers) => answers,
            Err(error) => {
                tracing::warn!(%error, "an answer makes no sense");
                piece.tries.lost();
                return piece.answer_alike(Reason::Unknown);
            }
        };
        piece.filter.catch_up(answers.clock_ms);
        self.failures = 0;
        let is_refused = message.refused != i32::from(proto::Reason::Unspecified);
        if is_refused && let Some(Decision::Undecided(reason)) = answers.decisions.first() {
            let next = match message.retry_after_ms {
                // The quota of this producer is spent: to wait is no retry.
                1.. => piece.tries.told_to_wait(*reason, message.retry_after_ms, &mut self.jitter),
                0 => self.next_after(&mut piece, *reason, answers.map_version, |_| true),
            };
            tracing::debug!(?reason, ?next, detail = answers.detail, "a batch was refused");
            return self.send_again(piece, next);
        }
        piece.filter.note_level_hits(&answers.level_hits);
        piece.note(answers.degraded, &answers.seen);
        piece.note_holds(&answers.holds);
        let answer_of = |event: usize| Answer {
            decision: answers.decisions[event],
            estimate: answers.estimates.get(event).copied().unwrap_or(0.0),
        };
        // A batch is sent again as a whole, as it has one name: the node remembers the events that it has decided.
        if let Some(reason) = worth_retrying(&answers.decisions, piece.operation)
            && let next = self.next_after(&mut piece, reason, answers.map_version, |event| {
                answers.decisions[event] == Decision::Undecided(Reason::SlicesDown)
            })
            && !matches!(next, AfterRefusal::Answer(_))
        {
            let answered = piece.answer_definite(answers.clock_ms, answer_of);
            note_degraded(&piece, &answers, answered);
            if answers
                .decisions
                .iter()
                .any(|decision| matches!(decision, Decision::Undecided(reason) if reason.may_have_recorded()))
            {
                piece.tries.lost();
            }
            return self.send_again(piece, next);
        }
        note_degraded(&piece, &answers, piece.awaited());
        let tries = piece.tries.clone();
        piece.answer(answers.clock_ms, |event| match answer_of(event) {
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
        let is_due = |waiting: &mut Waiting| match waiting.due {
            Due::At(at) => at <= now,
            Due::AtOrAfter(at, routed_by) => at <= now || version > routed_by,
            Due::Map(awaited) => awaited <= version,
        };
        for Waiting { piece, .. } in self.waiting.extract_if(.., is_due) {
            self.core.dispatch(piece);
        }
    }

    /// Answers callers whose time is over at `now`, as far as their batches are not on the stream.
    fn expire(&mut self, now: Instant, otherwise: Reason) {
        let is_over = |waiting: &mut Waiting| waiting.piece.deadline <= now;
        for Waiting { piece, .. } in self.waiting.extract_if(.., is_over) {
            let reason = piece.tries.out_of_time(false, otherwise);
            piece.answer_alike(reason);
        }
        for piece in self.dock.take_expired(now) {
            let reason = piece.tries.out_of_time(false, otherwise);
            piece.answer_alike(reason);
        }
        for FilterLane { filter, lane } in self.dock.lanes() {
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
                if found[event] {
                    Answer { decision: Decision::Duplicate, estimate: 0.0 }
                } else {
                    Answer::undecided(Reason::Unknown)
                }
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
    let reasons = || {
        let reasons = decisions.iter().filter_map(|decision| match decision {
            Decision::Undecided(reason) => Some(*reason),
            _ => None,
        });
        reasons.filter(move |reason| !(is_claim && *reason == Reason::Overloaded))
    };
    let find = |is_so: fn(&Reason) -> bool| reasons().find(is_so);
    find(|reason| reason.is_worth_retrying()).or_else(|| find(|reason| reason.is_outage()))
}

/// Counts events that are answered now by a reply that rests on fewer slices.
fn note_degraded(piece: &Piece, answers: &reply::Answers, events: usize) {
    if answers.degraded {
        piece.filter.note_degraded(events, answers.expected_rate);
    }
}
