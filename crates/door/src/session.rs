//! One connection's commands, carried out one after the other.
//!
//! Promises: who has not said who it is does nothing else first; a transaction holds bounded memory, and is carried out in a
//! row or not begun; commands whose replies would be too long for it are not carried out, and say so. Must not know: sockets, how bytes become commands.

mod about;
mod claims;
mod events;
mod hello;
mod info;
mod make;
mod place;
mod server;
mod wanted;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use firstseen_resp::{Command, Flag, KeptCommand, Protocol, Replies, Request, TransactionRequest, find_command};

use about::Clerk;
use place::Placed;

use crate::confirming::Confirmer;
use crate::counts::DoorCounts;
use crate::events::{Desk, Gathered};
use crate::filters::Filters;
use crate::host::{Guest, Host};
use crate::names::Names;
use crate::own_claims::OwnClaims;
use crate::room::ROOM_BYTES;
use crate::rules::Rules;
use crate::sandbox::Sandbox;
use crate::settings::DoorSettings;

/// Commands that wait for `EXEC` at most.
const QUEUED_COMMANDS_MAX: usize = 8192;
/// Bytes of commands that wait for `EXEC` at most.
const QUEUED_BYTES_MAX: usize = 4 << 20;

/// Bytes of the replies to one transaction, and that of one command beside.
const REPLIES_BYTES_MAX: usize = 1 << 20;

/// What the connections of one attendant share.
pub(crate) struct Shared {
    pub(crate) filters: Filters,
    pub(crate) common: Arc<Common>,
}

/// What all connections share.
pub(crate) struct Common {
    pub(crate) settings: DoorSettings,
    pub(crate) names: Names,
    pub(crate) rules: Rules,
    pub(crate) confirmer: Confirmer,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) counts: Arc<DoorCounts>,
    /// What was made by use, where that is allowed.
    pub(crate) sandbox: Option<Sandbox>,
    /// The name of the node, for `INFO`.
    pub(crate) node: String,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Go,
    /// It is closed after the replies.
    Close,
}

/// A connection's state, between its commands.
pub(crate) struct Session {
    shared: Arc<Shared>,
    number: u64,
    from: SocketAddr,
    /// Who it is without saying so.
    known: Option<Arc<dyn Guest>>,
    guest: Option<Arc<dyn Guest>>,
    name: Vec<u8>,
    transaction: Option<Transaction>,
    gathered: Gathered,
    claims: OwnClaims,
    placed: Placed,
    replies: Replies,
    /// The room for bytes that all connections share.
    room: Arc<Semaphore>,
}

/// Commands between `MULTI` and `EXEC`.
#[derive(Default)]
struct Transaction {
    commands: Vec<KeptCommand>,
    bytes: usize,
    /// What it takes of the room of all.
    taken: Vec<OwnedSemaphorePermit>,
    /// A command was refused.
    is_broken: bool,
}

impl Session {
    pub(crate) fn new(
        shared: Arc<Shared>,
        room: Arc<Semaphore>,
        number: u64,
        (from, known): (SocketAddr, Option<Arc<dyn Guest>>),
    ) -> Self {
        Self {
            shared,
            number,
            from,
            guest: known.clone(),
            known,
            name: Vec::new(),
            transaction: None,
            gathered: Gathered::default(),
            claims: OwnClaims::default(),
            placed: Placed::default(),
            replies: Replies::new(Protocol::Resp2),
            room,
        }
    }

    /// Whether it is known who has connected.
    pub(crate) fn is_known(&self) -> bool {
        self.guest.is_some()
    }

    /// Whether commands wait for `EXEC`.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// What is to be sent.
    pub(crate) fn replies(&mut self) -> &mut Replies {
        &mut self.replies
    }

    /// Gives back room that was taken for many events.
    pub(crate) fn shed(&mut self) {
        self.gathered.shed();
    }

    /// Takes a command up: its reply is written now, or by [`Self::finish`] at the latest.
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
        self.carry_out(request).await
    }

    /// Asks what was gathered, and writes the replies.
    pub(crate) async fn finish(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        // Who gathers events is somebody.
        let Some(guest) = self.guest.clone() else { return };
        let desk = desk(&self.shared, &*guest);
        self.gathered.ask(desk, &mut self.claims, &mut self.replies).await;
    }

    async fn carry_out(&mut self, request: Request<'_>) -> Next {
        if self.shared.common.sandbox.is_some()
            && let Err(refusal) = self.prepare(&request).await
        {
            self.finish().await;
            self.refuse(refusal);
            return Next::Go;
        }
        let wanted = match wanted::of(request) {
            Ok(wanted) => return self.gather(wanted).await,
            Err(request) => request,
        };
        self.finish().await;
        let request = match wanted {
            Request::Connection(request) => return self.connection(request),
            Request::Transaction(request) => return self.transaction(request).await,
            Request::Server(request) => {
                server::reply(&mut self.replies, &self.shared, request);
                return Next::Go;
            }
            request => request,
        };
        // Who gets so far is somebody.
        let Some(guest) = &self.guest else { return Next::Go };
        let mut clerk =
            Clerk { shared: &self.shared, guest: &**guest, own: &mut self.claims, replies: &mut self.replies };
        match request {
            Request::Keys(request) => clerk.keys(request).await,
            Request::Sets(request) => clerk.sets(request).await,
            Request::Bloom(request) => clerk.bloom(request).await,
            Request::Filters(request) => clerk.own(request).await,
            Request::Claims(_) | Request::Connection(_) | Request::Transaction(_) | Request::Server(_) => {}
        }
        Next::Go
    }

    /// Makes the filter that a command is about to use, where there is none; what came before it is asked first.
    async fn prepare(&mut self, request: &Request<'_>) -> Result<(), String> {
        let Some((name, options)) = make::lacking(&self.shared, request).await? else { return Ok(()) };
        self.finish().await;
        let (Some(sandbox), Some(guest)) = (&self.shared.common.sandbox, &self.guest) else { return Ok(()) };
        make::make(&self.shared, sandbox, &**guest, &name, options).await
    }

    fn queue(&mut self, command: Command<'_>) {
        let Some(transaction) = &mut self.transaction else { return };
        let kept = command.keep();
        transaction.bytes += kept.held_bytes();
        let has_room = loop {
            if transaction.taken.len() * ROOM_BYTES >= transaction.bytes {
                break true;
            }
            match self.room.clone().try_acquire_owned() {
                Ok(permit) => transaction.taken.push(permit),
                Err(_) => break false,
            }
        };
        if !has_room || transaction.commands.len() >= QUEUED_COMMANDS_MAX || transaction.bytes > QUEUED_BYTES_MAX {
            *transaction = Transaction { is_broken: true, ..Transaction::default() };
            self.refuse("ERR the transaction is too long: send it in several");
            return;
        }
        transaction.commands.push(kept);
        self.replies.simple("QUEUED");
    }

    async fn transaction(&mut self, request: TransactionRequest) -> Next {
        match (request, self.transaction.take()) {
            (TransactionRequest::Begin, None) => {
                self.transaction = Some(Transaction::default());
                self.replies.simple("OK");
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
                let begin = self.replies.len();
                self.replies.array(commands.len());
                for kept in &commands {
                    if self.replies.len() - begin > REPLIES_BYTES_MAX {
                        self.refuse("ERR not carried out: the replies of the transaction are too long for one message");
                        continue;
                    }
                    match Request::read(&kept.command()) {
                        // A transaction has no transaction in it.
                        Ok(request) => drop(Box::pin(self.carry_out(request)).await),
                        Err(refusal) => self.refuse(refusal),
                    }
                }
                self.finish().await;
            }
            (TransactionRequest::Discard, Some(_)) => self.replies.simple("OK"),
            (TransactionRequest::Unwatch, begun) => {
                self.transaction = begun;
                self.replies.simple("OK");
            }
        }
        Next::Go
    }

    fn refuse(&mut self, error: impl std::fmt::Display) {
        self.shared.common.counts.refuse(&mut self.replies, error);
    }
}

/// Whether a command between `MULTI` and `EXEC` is carried out at once.
fn ends_or_leaves(request: &Request<'_>) -> bool {
    use firstseen_resp::ConnectionRequest::{Auth, Hello, Quit, Reset};
    matches!(request, Request::Transaction(_) | Request::Connection(Quit | Reset | Auth(_) | Hello { .. }))
}

fn desk<'a>(shared: &'a Shared, guest: &'a dyn Guest) -> Desk<'a> {
    Desk {
        filters: &shared.filters,
        guest,
        counts: &shared.common.counts,
        sandbox: shared.common.sandbox.as_ref(),
        confirmer: &shared.common.confirmer,
        rules: &shared.common.rules,
        missing: shared.common.settings.missing,
        now_ms: now_ms(),
    }
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
