//! Carries out the commands of one connection, one after the other.
//!
//! Promises: clients that are required to authenticate can do nothing until they have; transactions use bounded memory, and run without
//! interruption by other commands of the connection, or not at all; a command whose reply would exceed the limit of a transaction's
//! replies is not run, and returns an error. This module must not depend on sockets and the protocol.

mod about;
mod claims;
mod cluster;
mod events;
mod expiring;
mod held_back;
mod hello;
mod info;
mod make;
mod place;
mod scripts;
mod server;
mod subscriptions;
mod wanted;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::Instant;

use firstseen_backend::{Filters, Guest, Host, Patience, ROOM_BYTES, Refused};
use firstseen_resp::{Command, Flag, KeptCommand, KeyRequest, Request, TransactionRequest, find_command};

use about::Clerk;
use held_back::{HeldBack, SetCommand};
use place::Placed;
use subscriptions::Subscriptions;
use wanted::Other;

use crate::confirming::Confirmer;
use crate::counts::DoorCounts;
use crate::desk::Desk;
use crate::events::Gathered;
use crate::form::Form;
use crate::names::Names;
use crate::not_asked::NotAsked;
use crate::outbox::Outbox;
use crate::own_claims::OwnClaims;
use crate::rules::Rules;
use crate::sandbox::Sandbox;
use crate::settings::DoorSettings;
use crate::turns::TURN_COMMANDS;

/// Greatest number of bytes of commands that wait for `EXEC`.
const QUEUED_BYTES_MAX: usize = 4 << 20;

/// Bytes of the replies to one transaction, after which no more of its commands are carried out.
const REPLIES_BYTES_MAX: u64 = 1 << 20;

/// State that the connections of one attendant share.
pub(crate) struct Shared {
    pub(crate) filters: Filters,
    pub(crate) common: Arc<Common>,
}

/// State that all connections share.
pub(crate) struct Common {
    pub(crate) settings: DoorSettings,
    pub(crate) names: Names,
    pub(crate) rules: Rules,
    pub(crate) confirmer: Confirmer,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) counts: Arc<DoorCounts>,
    /// The filters that clients have created by using them, if that is allowed.
    pub(crate) sandbox: Option<Sandbox>,
    /// The name of the node, for `INFO`.
    pub(crate) node: String,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Go,
    /// It is closed after the replies are sent.
    Close,
}

/// The client of a connection.
pub(crate) struct Caller {
    pub(crate) from: SocketAddr,
    /// The address to which it has connected.
    pub(crate) at: SocketAddr,
    /// The guest, if the client need not authenticate.
    pub(crate) known: Option<Arc<dyn Guest>>,
}

/// The state of a connection.
pub(crate) struct Session {
    shared: Arc<Shared>,
    number: u64,
    from: SocketAddr,
    /// The address to which the client has connected.
    at: SocketAddr,
    /// The guest, if the client need not authenticate.
    known: Option<Arc<dyn Guest>>,
    guest: Option<Arc<dyn Guest>>,
    name: Vec<u8>,
    transaction: Option<Transaction>,
    /// Commands whose `EXPIRE` may follow.
    held_back: HeldBack,
    gathered: Gathered,
    subscriptions: Subscriptions,
    claims: OwnClaims,
    placed: Placed,
    patience: Patience,
    outbox: Outbox,
    /// The room for bytes that all connections share.
    room: Arc<Semaphore>,
}

/// Commands between `MULTI` and `EXEC`.
#[derive(Default)]
struct Transaction {
    commands: Vec<KeptCommand>,
    bytes: usize,
    /// The part of the room of all connections that it has taken.
    taken: Vec<OwnedSemaphorePermit>,
    /// A command was refused, so `EXEC` is refused as well.
    is_broken: bool,
}

impl Transaction {
    /// Reserves memory for queued commands. An initial allowance is always available, so the long transactions of others cannot starve
    /// a short one. Returns false if the memory of all connections is used up.
    fn has_room(&mut self, room: &Arc<Semaphore>) -> bool {
        while (1 + self.taken.len()) * ROOM_BYTES < self.bytes {
            match room.clone().try_acquire_owned() {
                Ok(permit) => self.taken.push(permit),
                Err(_) => return false,
            }
        }
        true
    }
}

impl Session {
    pub(crate) fn new(
        shared: Arc<Shared>,
        room: Arc<Semaphore>,
        number: u64,
        Caller { from, at, known }: Caller,
        outbox: Outbox,
    ) -> Self {
        Self {
            patience: Patience::new(shared.common.settings.verdict_timeout()),
            shared,
            number,
            from,
            at,
            guest: known.clone(),
            known,
            name: Vec::new(),
            transaction: None,
            held_back: HeldBack::default(),
            gathered: Gathered::default(),
            subscriptions: Subscriptions::default(),
            claims: OwnClaims::new(room.clone()),
            placed: Placed::default(),
            outbox,
            room,
        }
    }

    /// Whether the client is known: it has authenticated, or need not.
    pub(crate) fn is_known(&self) -> bool {
        self.guest.is_some()
    }

    /// Whether commands wait for `EXEC`.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// The replies.
    pub(crate) fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// Begins another read: its calls may take the whole timeout again.
    pub(crate) fn begin(&mut self) {
        self.patience.begin();
    }

    /// Frees memory that was needed for many events.
    pub(crate) fn shed(&mut self) {
        self.gathered.shed();
        self.claims.shed(Instant::now());
    }

    /// Takes up a command. Its reply is written now, or by [`Self::finish`] at the latest.
    pub(crate) async fn take(&mut self, command: Command<'_>) -> Next {
        let spec = find_command(command.name());
        if self.guest.is_none() && !spec.is_some_and(|spec| spec.has(Flag::NoAuth)) {
            self.finish().await;
            self.refuse("NOAUTH Authentication required.");
            return Next::Go;
        }
        let request = match Request::read_as(spec, &command) {
            Ok(request) => request,
            Err(refusal) => {
                self.finish().await;
                if let Some(transaction) = &mut self.transaction {
                    transaction.is_broken = true;
                }
                self.refuse(refusal);
                return if refusal.closes_connection() { Next::Close } else { Next::Go };
            }
        };
        if let Some(spec) = spec {
            self.shared.common.counts.count(spec);
        }
        if self.transaction.is_some() && !ends_or_leaves(&request) {
            self.queue(command);
            return Next::Go;
        }
        if !self.subscriptions.allow(&request, self.outbox.replies().protocol()) {
            self.finish().await;
            self.refuse(subscriptions::NOT_WHILE_SUBSCRIBED);
            return Next::Go;
        }
        self.carry_out(request).await
    }

    /// Carries out all commands that were gathered or held back, and writes their replies.
    pub(crate) async fn finish(&mut self) {
        self.release_held_back().await;
        self.ask().await;
    }

    /// Ends a read: carries out the gathered commands. Held-back commands stay queued if their `EXPIRE` may arrive with the next read:
    /// this one stopped in the middle of a command (`is_cut`), or the connection has previously sent `EXPIRE` after such commands.
    pub(crate) async fn finish_read(&mut self, is_cut: bool) {
        if !is_cut && !self.held_back.was_ever_timed() {
            self.release_held_back().await;
        }
        self.ask().await;
    }

    /// Whether commands are held back.
    pub(crate) fn holds_back(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// Carries out the gathered commands, and writes their replies.
    async fn ask(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        // Who gathers events is somebody.
        let Some(guest) = self.guest.clone() else { return };
        let desk = desk(&self.shared, &self.patience, &guest);
        // On the heap: it is large, and many functions wait for it.
        let answered = self.outbox.wait_for(Box::pin(self.gathered.ask(desk))).await;
        self.gathered.conclude(answered, desk, &mut self.claims, self.outbox.replies());
    }

    async fn carry_out(&mut self, request: Request<'_>) -> Next {
        if self.shared.common.sandbox.is_some()
            && let Err(refusal) = self.prepare(&request).await
        {
            self.finish().await;
            self.refuse(refusal);
            return Next::Go;
        }
        let Some(request) = self.hold_back(request).await else { return Next::Go };
        let other = match wanted::of(request, &self.shared.common.names, self.shared.common.settings.get) {
            Ok(wanted) => return self.gather(wanted).await,
            Err(other) => other,
        };
        self.finish().await;
        let needs_nobody = match &other {
            Other::Connection(request) => request.needs_nobody(),
            // Each command in it is looked at.
            Other::Transaction(_) => true,
            Other::Errand(_) | Other::Scripts(_) | Other::Server(_) | Other::Subscriptions(_) => false,
        };
        // A guest that has to say by now who it is may send only what anybody may send.
        let is_somebody = self.guest.as_ref().is_none_or(|guest| !guest.must_say_who());
        if !needs_nobody && !is_somebody {
            self.refuse(NotAsked::from(Refused::Unknown));
            return Next::Go;
        }
        match other {
            Other::Connection(request) => return self.connection(request),
            Other::Transaction(request) => return self.transaction(request).await,
            Other::Scripts(request) => scripts::reply(self.outbox.replies(), &self.shared.common.counts, request),
            Other::Subscriptions(request) => {
                if let Err(refusal) = self.subscriptions.change(request, self.outbox.replies()) {
                    self.refuse(refusal);
                }
            }
            Other::Server(request) => server::reply(self.outbox.replies(), &self.shared, self.at, request),
            Other::Errand(errand) => {
                if let Some(mut clerk) = self.clerk() {
                    Box::pin(clerk.carry_out(errand)).await;
                }
            }
        }
        Next::Go
    }

    /// Holds back a `SETNX` or `SET NX`, or gives it the time of its `EXPIRE`. Returns any other command, which is to be carried out now.
    async fn hold_back<'a>(&mut self, request: Request<'a>) -> Option<Request<'a>> {
        let held = match request {
            Request::Keys(KeyRequest::SetNx { key }) => (key, SetCommand::SetNx),
            Request::Keys(KeyRequest::SetIfNew { key, expiry: None }) => (key, SetCommand::Set),
            Request::Keys(KeyRequest::Expire { key, expiry }) if self.held_back.take_time(key, expiry) => return None,
            _ => {
                self.release_held_back().await;
                return Some(request);
            }
        };
        let (key, command) = held;
        if !self.held_back.hold(key, command) {
            self.release_held_back().await;
            self.held_back.hold(key, command);
        }
        None
    }

    /// Gathers the commands that were held back.
    async fn release_held_back(&mut self) {
        if !self.held_back.is_empty() {
            // On the heap: it is large, and many functions wait for it.
            Box::pin(self.release_all()).await;
        }
    }

    async fn release_all(&mut self) {
        let mut held = std::mem::take(&mut self.held_back);
        for set in held.sets() {
            self.gather(wanted::held(set)).await;
        }
        for key in held.expires() {
            // The reply says whether the key is there, as it has its time by now.
            self.ask().await;
            if let Some(mut clerk) = self.clerk() {
                clerk.known(&[key], Form::HowManyThere).await;
            }
        }
        held.clear();
        self.held_back = held;
    }

    /// Returns what carries out errands, or `None` if the client is not known.
    fn clerk(&mut self) -> Option<Clerk<'_>> {
        let Self { shared, guest: Some(guest), claims, outbox, patience, held_back, .. } = self else { return None };
        Some(Clerk { shared, guest: &**guest, patience, own: claims, last_set: held_back.last(), outbox })
    }

    /// Creates the filter that a command is about to use, if it does not exist, after the commands before.
    async fn prepare(&mut self, request: &Request<'_>) -> Result<(), String> {
        let Some(guest) = &self.guest else { return Ok(()) };
        let Some((name, options)) = make::lacking((&self.shared, &**guest), request).await? else { return Ok(()) };
        self.finish().await;
        let (Some(sandbox), Some(guest)) = (&self.shared.common.sandbox, &self.guest) else { return Ok(()) };
        make::make(&self.shared, sandbox, &**guest, &name, options).await
    }

    fn queue(&mut self, command: Command<'_>) {
        let Some(transaction) = &mut self.transaction else { return };
        let kept = command.keep();
        transaction.bytes += kept.held_bytes() + size_of::<KeptCommand>();
        let is_too_long = transaction.bytes > QUEUED_BYTES_MAX;
        if is_too_long || !transaction.has_room(&self.room) {
            *transaction = Transaction { is_broken: true, ..Transaction::default() };
            self.refuse(if is_too_long {
                "ERR the transaction is too long: send it in several"
            } else {
                "ERR the node has no room for a transaction as large as this one now: send less at once"
            });
            return;
        }
        transaction.commands.push(kept);
        self.outbox.replies().simple("QUEUED");
    }

    async fn transaction(&mut self, request: TransactionRequest) -> Next {
        match (request, self.transaction.take()) {
            (TransactionRequest::Begin, None) => {
                self.transaction = Some(Transaction::default());
                self.outbox.replies().simple("OK");
            }
            (TransactionRequest::Begin, begun) => {
                self.transaction = begun;
                self.refuse("ERR MULTI calls can not be nested");
            }
            (TransactionRequest::Execute, None) => self.refuse("ERR EXEC without MULTI"),
            (TransactionRequest::Discard, None) => self.refuse("ERR DISCARD without MULTI"),
            (TransactionRequest::Execute, Some(Transaction { is_broken: true, .. })) => {
                self.refuse("EXECABORT Transaction discarded because of previous errors.");
            }
            (TransactionRequest::Execute, Some(Transaction { commands, taken: _taken, .. })) => {
                self.execute(&commands).await;
            }
            (TransactionRequest::Discard, Some(_)) => self.outbox.replies().simple("OK"),
            (TransactionRequest::Unwatch, begun) => {
                self.transaction = begun;
                self.outbox.replies().simple("OK");
            }
        }
        Next::Go
    }

    async fn execute(&mut self, commands: &[KeptCommand]) {
        let begin = self.outbox.bytes();
        self.outbox.replies().array(commands.len());
        for (number, kept) in commands.iter().enumerate() {
            if number % TURN_COMMANDS == TURN_COMMANDS - 1 {
                yield_now().await;
            }
            let is_too_long = self.outbox.bytes() - begin > REPLIES_BYTES_MAX;
            match Request::read(&kept.command()) {
                // A transaction has no transaction in it.
                Ok(request) if !is_too_long => drop(Box::pin(self.carry_out(request)).await),
                refused => {
                    // Commands before it may not have been asked yet, and are replied to first.
                    self.finish().await;
                    match refused {
                        Ok(_) => self
                            .refuse("ERR not carried out: the replies of the transaction are too long for one message"),
                        Err(refusal) => self.refuse(refusal),
                    }
                }
            }
        }
        self.finish().await;
    }

    fn refuse(&mut self, error: impl std::fmt::Display) {
        self.shared.common.counts.refuse(self.outbox.replies(), error);
    }
}

/// Whether a command is carried out at once, even between `MULTI` and `EXEC`.
fn ends_or_leaves(request: &Request<'_>) -> bool {
    use firstseen_resp::ConnectionRequest::{Quit, Reset};
    matches!(request, Request::Transaction(_) | Request::Connection(Quit | Reset))
}

fn desk<'a>(shared: &'a Shared, patience: &'a Patience, guest: &'a Arc<dyn Guest>) -> Desk<'a> {
    Desk {
        filters: &shared.filters,
        patience,
        guest,
        counts: &shared.common.counts,
        sandbox: shared.common.sandbox.as_ref(),
        confirmer: &shared.common.confirmer,
        rules: &shared.common.rules,
        missing: shared.common.settings.missing,
        now_ms: shared.filters.now_ms(),
        asked_at: Instant::now(),
    }
}
