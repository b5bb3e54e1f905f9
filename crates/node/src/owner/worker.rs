//! The loop of one owner: takes work in order, runs the machines of its groups, and carries out their commands.
//!
//! Promises: the loop waits for its queue, for records to be synced and for time to pass, and for no other owner: so owners of
//! different nodes cannot wait for each other. Must not know: streams, what messages look like on the wire.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use firstseen_routing::{
    Climb, Command, FilterId, GroupReply, Lease, Moment, MonotonicMs, NodeId, OwnerLimits, PeerBody, PeerMessage,
    Proposal, Reading, Reason, Record, refuse,
};
use firstseen_wire::watch;
use tokio::sync::{mpsc, oneshot};

use super::backlog::Backlog;
use super::brake::Brake;
use super::desk::Desk;
use super::groups::{Groups, NOT_HERE, lost_peers};
use super::{OwnerInbox, Run, Work};
use crate::clock::Clock;
use crate::clocks::Clocks;
use crate::group_key::GroupKey;
use crate::keeper::Keeper;
use crate::lease::SharedLease;
use crate::metrics::{BatchMeter, Metrics};
use crate::view::View;

/// Groups are told that time has passed at most once in so many milliseconds.
const TICK_MS: u64 = 10;

/// Pieces of work that are done before what they set off is sent, where so many have come in.
const WORK_AT_ONCE: usize = 256;

/// Events of these pieces, at most: a piece has one, or thousands, and meanwhile replies wait and no deadline ends. The
/// last piece may have more.
const EVENTS_AT_ONCE_MAX: u64 = 1 << 14;

/// How often a busy owner that finds no more work yields before it sends: threads that may bring more work run then.
const YIELDS_MAX: usize = 2;

/// An owner yields only after so many events, because on a machine that other programs keep busy yielding may take
/// milliseconds: that is little beside what many events take, and much beside a single call.
const YIELD_EVENTS_MIN: u64 = 256;

/// The parts that an owner is made of.
pub(crate) struct WorkerParts {
    /// Which of the owners it is.
    pub(crate) index: usize,
    /// How many there are.
    pub(crate) owners: usize,
    /// Its queue.
    pub(crate) inbox: OwnerInbox,
    /// Limits of each group.
    pub(crate) limits: OwnerLimits,
    /// How long a run may have waited in the queue.
    pub(crate) queue_age_max_ms: u64,
    /// Events a second it takes at most, for tests.
    pub(crate) rate_max_events_per_s: Option<u64>,
    /// What it works with.
    pub(crate) surroundings: Surroundings,
}

/// What all owners of a node work with.
#[derive(Clone)]
pub(crate) struct Surroundings {
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// The node's metrics.
    pub(crate) metrics: Arc<Metrics>,
    /// The queue of proposals to the agreement.
    pub(crate) proposals: mpsc::Sender<Proposal>,
    /// The queue of climbs.
    pub(crate) climbs: mpsc::Sender<Climb>,
    /// The keeper of the journal.
    pub(crate) keeper: Arc<Keeper>,
    /// Until when the node may record.
    pub(crate) lease: Arc<SharedLease>,
    /// The node's knowledge of its clocks.
    pub(crate) clocks: Arc<Clocks>,
}

/// One owner.
pub(crate) struct Worker {
    inbox: OwnerInbox,
    surroundings: Surroundings,
    groups: Groups,
    desk: Desk,
    backlog: Backlog,
    brake: Option<Brake>,
    queue_age_max_ms: u64,
    meters: BTreeMap<FilterId, BatchMeter>,
    commands: Vec<Command>,
    next_tick_ms: MonotonicMs,
    synced: watch::Receiver<u64>,
    /// Signalled when no event is in flight.
    draining: Vec<oneshot::Sender<()>>,
}

/// Work that is done before what it sets off is sent.
#[derive(Default)]
struct Round {
    /// Pieces of work.
    done: usize,
    /// Events of these pieces.
    events: u64,
    /// How often the owner has yielded.
    yields: usize,
}

impl Worker {
    /// An owner without groups.
    pub(crate) fn new(parts: WorkerParts) -> Self {
        Self {
            synced: parts.surroundings.keeper.watch_synced(),
            groups: Groups::new(parts.index, parts.owners, parts.limits, parts.surroundings.keeper.clone()),
            inbox: parts.inbox,
            surroundings: parts.surroundings,
            desk: Desk::default(),
            backlog: Backlog::default(),
            brake: parts.rate_max_events_per_s.map(Brake::new),
            queue_age_max_ms: parts.queue_age_max_ms,
            meters: BTreeMap::new(),
            commands: Vec::new(),
            next_tick_ms: MonotonicMs::START,
            draining: Vec::new(),
        }
    }

    /// Works until the queue is closed.
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

    /// Work that has come in meanwhile. Where several pieces with many events came in at once, the node is busy: whoever
    /// else has work on its machine runs before what has gathered is sent, and may bring more.
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

    /// Sends what the work that has come in has set off.
    fn send_gathered(&mut self) {
        self.groups.send_gathered(&mut self.commands);
        self.carry_out();
        self.finish_drain();
    }

    /// Carries out commands that have waited for the disk.
    fn release(&mut self) {
        self.synced.mark_seen();
        self.groups.kept.release(&mut self.commands);
        self.carry_out();
        self.finish_drain();
    }

    /// How long the owner may sleep if no work comes; none where it may sleep for ever.
    fn next_tick_in(&self) -> Option<Duration> {
        let is_busy = !self.backlog.is_empty() || self.groups.kept.has_checkpoint() || !self.groups.kept.is_empty();
        let again_ms = is_busy.then_some(MonotonicMs::START);
        let next_ms = [again_ms, self.groups.next_tick_ms(), self.desk.next_end_ms()].into_iter().flatten().min()?;
        let in_ms = next_ms.since(self.surroundings.clock.monotonic_ms());
        Some(Duration::from_millis(in_ms.max(TICK_MS)))
    }

    /// Does a piece of work; returns for how many milliseconds to rest after it.
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
                // By the map by which it was done.
                self.groups.send_gathered(&mut self.commands);
                self.carry_out();
                lost_peers(self.groups.view(), &view).into_iter().for_each(|lost| self.backlog.forget(lost));
                self.meters.retain(|filter, _| view.map.filters.contains_key(filter));
                let faults = self.groups.follow(view, now, &mut self.commands);
                // Before the view is published.
                self.inbox.show_catching_up(self.groups.catching_up());
                let _ = done.send(faults);
            }
            Work::Ask(ask) => ask(&mut self.groups, now, &mut self.commands),
            Work::Climbed { key, climbed } => {
                self.groups.climbed(key, &climbed, now, &mut self.commands);
            }
            Work::Ended { producer } => self.groups.end_producer(producer),
            Work::Drain { done } => {
                self.groups.drain(now, &mut self.commands);
                self.draining.push(done);
            }
        }
        self.carry_out();
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

    /// Refuses a message in its receiver's name, so that the head that waits for its result gives up; that may be a
    /// group of this owner.
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
        // A producer that learns of a disk that hangs asks another node.
        let is_here = !self.groups.kept.is_given_up(key);
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
        self.carry_out();
        self.brake.as_mut().map_or(0, |brake| brake.take(events, now))
    }

    /// The meter of a filter; none of one that is gone.
    fn meter(&mut self, filter: FilterId) -> Option<&BatchMeter> {
        match self.meters.entry(filter) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(new) => {
                let name = &self.groups.view().map.filters.get(&filter)?.name;
                Some(new.insert(self.surroundings.metrics.meter(name)))
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
        self.carry_out();
        self.desk.expire(now.monotonic_ms);
        self.finish_drain();
    }

    /// Signals that no event is in flight any more.
    fn finish_drain(&mut self) {
        if !self.draining.is_empty() && self.desk.is_empty() && self.backlog.is_empty() && self.groups.are_idle() {
            for done in self.draining.drain(..) {
                let _ = done.send(());
            }
        }
    }

    fn carry_out(&mut self) {
        while !self.commands.is_empty() {
            std::mem::take(&mut self.commands).into_iter().for_each(|command| self.carry_out_one(command));
        }
    }

    fn carry_out_one(&mut self, command: Command) {
        match command {
            Command::Reply(reply) => self.desk.reply(reply.reply_to, reply),
            Command::EarlyDuplicates(early) => self.desk.hand_early(&early),
            Command::Send { to, message } => {
                self.backlog.send(to, message, link(self.groups.view(), self.surroundings.clock.monotonic_ms()));
            }
            Command::Propose(proposal) => {
                // Where there is no room, the group proposes again.
                let _ = self.surroundings.proposals.try_send(proposal);
            }
            // `GroupJournals` has taken the record, where the group has a journal; others have nothing to persist.
            Command::Persist(record) => self.find_no_journal(&record),
            Command::Climb(climb) => self.climb(climb),
        }
    }

    /// A record cannot be persisted, as there is no journal for it: replies after it rest on nothing.
    fn find_no_journal(&self, record: &Record) {
        let Record { filter, group, .. } = record;
        debug_assert!(false, "group {group} of filter {filter} has something to be persisted, and no journal");
        if self.surroundings.metrics.unkept() == 0 {
            tracing::error!(%filter, group, "what is to be persisted has no journal; a mistake of the program");
        }
    }

    /// Where there is no room for the climb, the group gets an answer at once.
    fn climb(&mut self, climb: Climb) {
        let Err(refused) = self.surroundings.climbs.try_send(climb) else { return };
        let climb = refused.into_inner();
        let climbed = climb.undecided(Reason::Overloaded);
        let key = GroupKey { filter: climb.from.filter, group: climb.group };
        let now = self.now();
        self.groups.climbed(key, &climbed, now, &mut self.commands);
    }

    /// The time for the groups: the shown time of day counts for the lease, and the believed one for all else.
    fn now(&mut self) -> Moment {
        let Surroundings { clock, lease, clocks, .. } = &self.surroundings;
        let shown = clock.now();
        let lease = lease.newest();
        self.groups.set_lease(if lease.holds(shown) { lease } else { Lease::NONE });
        let Reading { moment, doubt } = clocks.time_of_day().read(shown);
        self.groups.set_doubt(doubt);
        moment
    }
}

/// Hands a message to the link of a node; it comes back where it finds no room.
fn link(view: &View, now_ms: MonotonicMs) -> impl Fn(NodeId, PeerMessage) -> Option<PeerMessage> {
    move |to, message| match view.links.get(&to) {
        Some(link) => link.send(message, now_ms),
        None => Some(message),
    }
}

/// For so long; for ever where there is no end.
async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
pub(super) mod tests;
