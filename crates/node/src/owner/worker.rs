//! The main loop of one owner thread. The loop takes work from its queue in order, passes it to the state machines of
//! its slice groups, and executes the commands that they return. The loop waits only for new work, for records to be
//! synced to the disk, and for the next timer. An owner never waits for another owner, so the owners of different nodes
//! cannot block each other in a deadlock.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use firstseen_routing::{
    Command, FilterId, GroupReply, Lease, LevelQuery, Moment, MonotonicMs, NodeId, OwnerLimits, PeerBody, PeerMessage,
    Proposal, Reading, Reason, Record, refuse,
};
use firstseen_wire::watch;
use tokio::sync::{mpsc, oneshot};

use super::backlog::Backlog;
use super::groups::{Groups, NOT_HERE, lost_peers};
use super::pending_replies::PendingReplies;
use super::rate_limiter::RateLimiter;
use super::{OwnerInbox, Run, Work};
use crate::clock::Clock;
use crate::clocks::Clocks;
use crate::group_key::GroupKey;
use crate::journal_writer::JournalWriter;
use crate::lease::SharedLease;
use crate::metrics::{BatchMeter, Metrics};
use crate::view::View;

/// Minimum interval between two notifications of the groups that time has passed, in milliseconds.
const TICK_MS: u64 = 10;

/// Maximum number of work items that are processed in one round before the resulting messages are sent.
const WORK_AT_ONCE: usize = 256;

/// Number of events after which an owner ends a round of work. Replies are sent and deadlines are checked only between
/// rounds, so a round must not take too long. A work item has between one and several thousand events and is never
/// split, so the last item of a round may exceed this number.
const EVENTS_AT_ONCE_MAX: u64 = 1 << 14;

/// Maximum number of times that a busy owner yields the processor in one round of work. While the owner yields, other
/// threads can add more work to its queue. More work in a round is an advantage, because the owner sends the resulting
/// messages together, which is cheaper than sending them separately.
const YIELDS_MAX: usize = 2;

/// Minimum number of events that a round must contain before the owner yields the processor. After yielding, the owner
/// may have to wait several milliseconds until it runs again, if other programs are running on the machine. For a small
/// round, for example with a single call, this would be a considerable delay. A round with many events takes so long
/// anyway that the wait hardly matters.
const YIELD_EVENTS_MIN: u64 = 256;

/// The parts from which an owner is created.
pub(crate) struct WorkerParts {
    /// Index of the owner.
    pub(crate) index: usize,
    /// Number of owners.
    pub(crate) owners: usize,
    /// Queue of the owner.
    pub(crate) inbox: OwnerInbox,
    /// Limits for each slice group.
    pub(crate) limits: OwnerLimits,
    /// Maximum time that a run may have waited in the queue, in milliseconds.
    pub(crate) queue_age_max_ms: u64,
    /// Maximum number of events per second, which tests set to slow the owner down.
    pub(crate) rate_max_events_per_s: Option<u64>,
    /// Services of the node that the owner uses.
    pub(crate) node_context: NodeContext,
}

/// Services of the node that all owners use.
#[derive(Clone)]
pub(crate) struct NodeContext {
    /// The clock.
    pub(crate) clock: Arc<dyn Clock>,
    /// Metrics of the node.
    pub(crate) metrics: Arc<Metrics>,
    /// Queue of proposals to the consensus group.
    pub(crate) proposals: mpsc::Sender<Proposal>,
    /// Queue of queries to other tree levels.
    pub(crate) climbs: mpsc::Sender<LevelQuery>,
    /// The component that writes the journal.
    pub(crate) keeper: Arc<JournalWriter>,
    /// The lease, which says until when the node may record events.
    pub(crate) lease: Arc<SharedLease>,
    /// What the node knows about its clock and the clocks of other nodes.
    pub(crate) clocks: Arc<Clocks>,
}

/// One owner of slice groups.
pub(crate) struct Worker {
    inbox: OwnerInbox,
    node_context: NodeContext,
    groups: Groups,
    desk: PendingReplies,
    backlog: Backlog,
    brake: Option<RateLimiter>,
    queue_age_max_ms: u64,
    meters: BTreeMap<FilterId, BatchMeter>,
    commands: Vec<Command>,
    next_tick_ms: MonotonicMs,
    synced: watch::Receiver<u64>,
    /// Senders that are signalled when no event is in flight.
    draining: Vec<oneshot::Sender<()>>,
}

/// Counters of one round. The work of a round is processed before the resulting messages are sent.
#[derive(Default)]
struct Round {
    /// Number of work items.
    done: usize,
    /// Number of events in these work items.
    events: u64,
    /// Number of times that the owner has yielded.
    yields: usize,
}

impl Worker {
    /// Creates an owner without slice groups.
    pub(crate) fn new(parts: WorkerParts) -> Self {
        Self {
            synced: parts.node_context.keeper.watch_synced(),
            groups: Groups::new(parts.index, parts.owners, parts.limits, parts.node_context.keeper.clone()),
            inbox: parts.inbox,
            node_context: parts.node_context,
            desk: PendingReplies::default(),
            backlog: Backlog::default(),
            brake: parts.rate_max_events_per_s.map(RateLimiter::new),
            queue_age_max_ms: parts.queue_age_max_ms,
            meters: BTreeMap::new(),
            commands: Vec::new(),
            next_tick_ms: MonotonicMs::START,
            draining: Vec::new(),
        }
    }

    /// Processes work until the queue is closed.
    pub(crate) async fn run(mut self) {
        loop {
            let pause = self.next_tick_in();
            let mut next = tokio::select! {
                biased;
                _ = self.synced.changed(), if !self.groups.kept.is_empty() => {
                    self.release();
                    continue;
                }
                work = self.inbox.next() => work,
                () = sleep(pause) => {
                    self.tick();
                    self.inbox.show_catching_up(self.groups.catching_up());
                    continue;
                }
            };
            if next.is_none() {
                return;
            }
            let mut round = Round::default();
            while let Some(work) = next.take() {
                round.events += work.events();
                let rest = Duration::from_millis(self.handle(work));
                round.done += 1;
                if !rest.is_zero() {
                    self.send_gathered();
                    tokio::time::sleep(rest).await;
                }
                if round.done < WORK_AT_ONCE && round.events < EVENTS_AT_ONCE_MAX {
                    next = self.next_work(&mut round);
                }
            }
            self.send_gathered();
            self.tick();
            self.inbox.show_catching_up(self.groups.catching_up());
        }
    }

    /// Returns the next work item of this round, or `None` if the round should end. If the queue is empty after several
    /// items with many events, the node is busy, and more work probably arrives soon. In that case, the owner first
    /// yields to other threads, so that they can add work to the queue.
    fn next_work(&mut self, round: &mut Round) -> Option<Work> {
        let next = self.inbox.next_now();
        let is_busy = round.done > 1 && round.events >= YIELD_EVENTS_MIN;
        if next.is_some() || !is_busy || round.yields == YIELDS_MAX || !self.groups.has_gathered() {
            return next;
        }
        round.yields += 1;
        std::thread::yield_now();
        self.inbox.next_now()
    }

    /// Sends the messages that result from the processed work.
    fn send_gathered(&mut self) {
        self.groups.send_gathered(&mut self.commands);
        self.execute();
        self.finish_drain();
    }

    /// Executes commands that have waited for the disk.
    fn release(&mut self) {
        self.synced.mark_seen();
        self.groups.kept.release(&mut self.commands);
        self.execute();
        self.finish_drain();
    }

    /// Returns how long the owner may sleep if no work arrives. `None` means that it may sleep until work arrives.
    fn next_tick_in(&self) -> Option<Duration> {
        let is_busy = !self.backlog.is_empty() || self.groups.kept.has_checkpoint() || !self.groups.kept.is_empty();
        let again_ms = is_busy.then_some(MonotonicMs::START);
        let next_ms = [again_ms, self.groups.next_tick_ms(), self.desk.next_end_ms()].into_iter().flatten().min()?;
        let in_ms = next_ms.since(self.node_context.clock.monotonic_ms());
        Some(Duration::from_millis(in_ms.max(TICK_MS)))
    }

    /// Processes a work item, and returns how many milliseconds to pause after it.
    fn handle(&mut self, work: Work) -> u64 {
        let now = self.now();
        match work {
            Work::Run(run) => return self.submit(run, now),
            Work::Peer { from, mut message, received_ms } => {
                message.pass_time(now.monotonic_ms.since(received_ms));
                self.receive(from, message, now);
            }
            Work::Refused { sender, receiver, message } => self.refused(sender, receiver, message, now),
            Work::View { view, done } => {
                // Commands from before this view belong to the previous cluster map.
                self.groups.send_gathered(&mut self.commands);
                self.execute();
                lost_peers(self.groups.view(), &view).into_iter().for_each(|lost| self.backlog.forget(lost));
                self.meters.retain(|filter, _| view.map.filters.contains_key(filter));
                let faults = self.groups.follow(view, now, &mut self.commands);
                // This number must be current before the view is published.
                self.inbox.show_catching_up(self.groups.catching_up());
                let _ = done.send(faults);
            }
            Work::Ask(ask) => ask(&mut self.groups, now, &mut self.commands),
            Work::LevelReply { key, climbed } => {
                self.groups.climbed(key, &climbed, now, &mut self.commands);
            }
            Work::Ended { producer } => self.groups.end_producer(producer),
            Work::Drain { done } => {
                self.groups.drain(now, &mut self.commands);
                self.draining.push(done);
            }
        }
        self.execute();
        self.finish_drain();
        0
    }

    fn receive(&mut self, from: NodeId, message: PeerMessage, now: Moment) {
        let _entered = match &message.body {
            PeerBody::Test(test) => tracing::debug_span!(
                "peer_test",
                %from,
                filter = message.filter.0,
                group = message.group,
                events = test.tickets.len(),
                traceparent = test.traceparent.as_deref()
            )
            .entered(),
            _ => tracing::Span::none().entered(),
        };
        self.groups.receive(from, message, now, &mut self.commands);
    }

    /// Rejects a message that could not be encoded or decoded. The head node of the message's events, which decides
    /// them, waits for a result from the receiver of the message. This method sends the head node a negative result in
    /// place of the receiver. If this node is itself the head node, its own slice group gets the result directly.
    fn refused(&mut self, sender: NodeId, receiver: NodeId, message: PeerMessage, now: Moment) {
        for command in refuse(sender, message, Reason::Invalid) {
            match command {
                Command::Send { to, message } if Some(to) == self.groups.view().node() => {
                    self.groups.receive(receiver, message, now, &mut self.commands);
                }
                command => self.commands.push(command),
            }
        }
    }

    fn submit(&mut self, run: Run, now: Moment) -> u64 {
        self.inbox.took(&run);
        let age_ms = now.monotonic_ms.since(run.admitted_ms);
        if let Some(meter) = self.meter(run.key.filter) {
            meter.queue_age(age_ms);
        }
        if age_ms > self.queue_age_max_ms || now.monotonic_ms > run.submission.deadline_ms {
            run.refuse(Reason::Overloaded);
            return 0;
        }
        let key = run.key;
        let records = !run.submission.operation.is_lookup();
        // A producer that learns of a hanging disk asks another node.
        let is_here = !self.groups.kept.is_abandoned(key);
        if is_here && (self.groups.is_disk_held_up(key, records) || self.groups.is_held_up(key)) {
            run.refuse(Reason::Overloaded);
            return 0;
        }
        let Run { mut submission, place, .. } = run;
        let events = place.events();
        let _entered = tracing::debug_span!(
            "owner_batch",
            filter = key.filter.0,
            group = key.group,
            sequence = submission.sequence,
            events,
            traceparent = submission.traceparent.as_deref()
        )
        .entered();
        let number = self.desk.take(place, submission.deadline_ms);
        submission.reply_to = number;
        if !self.groups.submit(key, submission, now, &mut self.commands) {
            self.desk.reply(number, GroupReply::undecided(events, NOT_HERE));
        }
        self.execute();
        self.brake.as_mut().map_or(0, |brake| brake.take(events, now))
    }

    /// Returns the meter of a filter. Returns `None` for a filter that no longer exists.
    fn meter(&mut self, filter: FilterId) -> Option<&BatchMeter> {
        match self.meters.entry(filter) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(new) => {
                let name = &self.groups.view().map.filters.get(&filter)?.name;
                Some(new.insert(self.node_context.metrics.meter(name)))
            }
        }
    }

    fn tick(&mut self) {
        let now = self.now();
        if now.monotonic_ms < self.next_tick_ms {
            return;
        }
        self.next_tick_ms = now.monotonic_ms.after(TICK_MS);
        self.backlog.send_again(link(self.groups.view(), now.monotonic_ms));
        self.groups.tick(now, &mut self.commands);
        self.groups.kept.release(&mut self.commands);
        self.execute();
        self.desk.expire(now.monotonic_ms);
        self.finish_drain();
    }

    /// Signals the waiting senders if no event is in flight any more.
    fn finish_drain(&mut self) {
        if !self.draining.is_empty() && self.desk.is_empty() && self.backlog.is_empty() && self.groups.are_idle() {
            for done in self.draining.drain(..) {
                let _ = done.send(());
            }
        }
    }

    fn execute(&mut self) {
        while !self.commands.is_empty() {
            std::mem::take(&mut self.commands).into_iter().for_each(|command| self.execute_one(command));
        }
    }

    fn execute_one(&mut self, command: Command) {
        match command {
            Command::Reply(reply) => self.desk.reply(reply.reply_to, reply),
            Command::EarlyDuplicates(early) => self.desk.forward_early(&early),
            Command::Send { to, message } => {
                self.backlog.send(to, message, link(self.groups.view(), self.node_context.clock.monotonic_ms()));
            }
            Command::Propose(proposal) => {
                // If the queue has no room, the group proposes the change again later.
                let _ = self.node_context.proposals.try_send(proposal);
            }
            // `GroupJournals` takes the record of a group with a journal. Other groups have nothing to persist.
            Command::Persist(record) => self.find_no_journal(&record),
            Command::LevelQuery(climb) => self.climb(climb),
        }
    }

    /// Reports that a slice group has produced a record for the journal although it has no journal. Only a programming
    /// error can cause this. The error is serious: replies that depend on the record tell clients that their events are
    /// on the disk, although the record was never written.
    fn find_no_journal(&self, record: &Record) {
        let Record { filter, group, .. } = record;
        debug_assert!(false, "group {group} of filter {filter} has a record to persist, but no journal");
        if self.node_context.metrics.unpersisted() == 0 {
            tracing::error!(
                %filter,
                group,
                "a record cannot be persisted because its slice group has no journal: this is a programming error"
            );
        }
    }

    /// Queues a query to another tree level. If the queue has no room, the group receives the reply "overloaded" at
    /// once.
    fn climb(&mut self, climb: LevelQuery) {
        let Err(refused) = self.node_context.climbs.try_send(climb) else { return };
        let climb = refused.into_inner();
        let climbed = climb.undecided(Reason::Overloaded);
        let key = GroupKey { filter: climb.from.filter, group: climb.group };
        let now = self.now();
        self.groups.climbed(key, &climbed, now, &mut self.commands);
    }

    /// Returns the current time for the slice groups, and tells the groups whether the node has a valid lease. The
    /// returned time of day is corrected: the node compares its clock with the clocks of other nodes. The lease is
    /// checked with the uncorrected clock of this machine.
    fn now(&mut self) -> Moment {
        let NodeContext { clock, lease, clocks, .. } = &self.node_context;
        let shown = clock.now();
        let lease = lease.newest();
        self.groups.set_lease(if lease.holds(shown) { lease } else { Lease::NONE });
        let Reading { moment, doubt } = clocks.time_of_day().read(shown);
        self.groups.set_doubt(doubt);
        moment
    }
}

/// Returns a function that passes a message to the link of its node, and returns the message if the link has no room.
fn link(view: &View, now_ms: MonotonicMs) -> impl Fn(NodeId, PeerMessage) -> Option<PeerMessage> {
    move |to, message| match view.links.get(&to) {
        Some(link) => link.send(message, now_ms),
        None => Some(message),
    }
}

/// Sleeps for the given time, or forever if `pause` is `None`.
async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
pub(super) mod tests;
