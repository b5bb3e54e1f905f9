//! Executes the commands of one connection, one after the other.
//!
//! - A client that must authenticate can do nothing else before it has done so.
//! - Transactions use bounded memory. A transaction either runs without interruption by other commands of the
//!   connection, or does not run at all.
//! - When the replies of a transaction have exceeded their size limit, each further command returns an error instead of
//!   running.
//!
//! This module does not depend on sockets and the protocol.

mod claims;
mod cluster;
mod delayed_sets;
mod event_query;
mod expiring;
mod handler;
mod hello;
mod info;
mod make;
mod place;
mod scripts;
mod server;
mod subscriptions;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::Instant;

use firstseen_backend::{ClientSession, EventOperation, Filters, Host, Patience, ROOM_BYTES, Refused};
use firstseen_client::{SubmissionName, Verdict};
use firstseen_resp::{
    Command, EventTime, Flag, KeptCommand, KeyRequest, Request, Submission, TransactionRequest, find_command,
};
use firstseen_routing::Reason;

use delayed_sets::{DelayedSets, SetCommand};
use event_query::{Action, EventQuery, Other, Place};
use handler::CommandHandler;
use place::{Found, Placed};
use subscriptions::Subscriptions;

use crate::auto_confirm::Confirmer;
use crate::batch::{CallContext, Question};
use crate::command_rejected::CommandRejected;
use crate::counts::RedisEndpointCounts;
use crate::events::CollectedEvents;
use crate::names::Names;
use crate::outbox::Outbox;
use crate::own_claims::OwnClaims;
use crate::reply_shape::{self, ReplyShape};
use crate::sandbox::Sandbox;
use crate::settings::{RedisEndpointSettings, Rules};

/// Maximum size of the commands that wait for `EXEC`, in bytes.
const QUEUED_BYTES_MAX: usize = 4 << 20;

/// Number of commands of one connection that are executed before other connections get their turn.
pub(crate) const TURN_COMMANDS: usize = 256;

/// Size of the replies to one transaction after which its remaining commands are not executed, in bytes.
const REPLIES_BYTES_MAX: u64 = 1 << 20;

/// Context of a command: the shared state, the user who sent it, and the limit on how long it waits for verdicts.
#[derive(Clone, Copy)]
struct Requester<'a> {
    shared: &'a Shared,
    client_session: &'a dyn ClientSession,
    patience: &'a Patience,
}

/// State that the connections of one worker share.
pub(crate) struct Shared {
    pub(crate) filters: Filters,
    pub(crate) common: Arc<Common>,
}

/// State that all connections share.
pub(crate) struct Common {
    pub(crate) settings: RedisEndpointSettings,
    pub(crate) names: Names,
    pub(crate) rules: Rules,
    pub(crate) confirmer: Confirmer,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) counts: Arc<RedisEndpointCounts>,
    /// Filters that clients have created by using them, if the sandbox mode is on.
    pub(crate) sandbox: Option<Sandbox>,
    /// Name of the node, which `INFO` shows.
    pub(crate) node: String,
}

/// Whether a connection continues after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Go,
    /// The connection is closed after its replies have been sent.
    Close,
}

/// Client of a connection, with the addresses of both ends.
pub(crate) struct Caller {
    pub(crate) from: SocketAddr,
    /// Address of the endpoint to which the client has connected.
    pub(crate) at: SocketAddr,
    /// User of the connection, if the client need not authenticate.
    pub(crate) known: Option<Arc<dyn ClientSession>>,
}

/// State of a connection.
pub(crate) struct Session {
    shared: Arc<Shared>,
    number: u64,
    from: SocketAddr,
    /// Address of the endpoint to which the client has connected.
    at: SocketAddr,
    /// User of the connection, if the client need not authenticate.
    known: Option<Arc<dyn ClientSession>>,
    client_session: Option<Arc<dyn ClientSession>>,
    name: Vec<u8>,
    transaction: Option<Transaction>,
    /// Delayed `SETNX` and `SET NX` commands, for which an `EXPIRE` may follow.
    held_back: DelayedSets,
    gathered: CollectedEvents,
    subscriptions: Subscriptions,
    claims: OwnClaims,
    placed: Placed,
    patience: Patience,
    outbox: Outbox,
    /// Memory budget that all connections share.
    room: Arc<Semaphore>,
}

/// Commands between `MULTI` and `EXEC`.
#[derive(Default)]
struct Transaction {
    commands: Vec<KeptCommand>,
    bytes: usize,
    /// Units of the common memory budget that this transaction uses.
    taken: Vec<OwnedSemaphorePermit>,
    /// Whether a command was rejected. `EXEC` is then rejected too.
    is_broken: bool,
}

impl Transaction {
    /// Reserves memory for the queued commands of a transaction. All connections share the memory that is reserved in
    /// this way. In addition, every connection has a small allowance of its own that needs no reservation. A short
    /// transaction therefore succeeds even if long transactions of other clients use all the shared memory. Returns
    /// `false` if the shared memory is used up.
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
            client_session: known.clone(),
            known,
            name: Vec::new(),
            transaction: None,
            held_back: DelayedSets::default(),
            gathered: CollectedEvents::default(),
            subscriptions: Subscriptions::default(),
            claims: OwnClaims::new(room.clone()),
            placed: Placed::default(),
            outbox,
            room,
        }
    }

    /// Returns whether the client has authenticated, or need not authenticate.
    pub(crate) fn is_known(&self) -> bool {
        self.client_session.is_some()
    }

    /// Returns whether commands wait for `EXEC`.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Returns the outbox with the replies.
    pub(crate) fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// Begins another read, whose calls may again take the whole verdict timeout.
    pub(crate) fn begin(&mut self) {
        self.patience.begin();
    }

    /// Frees memory if many events had to be stored.
    pub(crate) fn release_memory(&mut self) {
        self.gathered.release_memory();
        self.claims.release_memory(Instant::now());
    }

    /// Processes a command. Its reply is written now, or at the latest by [`Self::finish`].
    pub(crate) async fn take(&mut self, command: Command<'_>) -> Next {
        let spec = find_command(command.name());
        if self.client_session.is_none() && !spec.is_some_and(|spec| spec.has(Flag::NoAuth)) {
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
        if self.transaction.is_some() && !bypasses_transaction(&request) {
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

    /// Executes all collected and delayed commands, and writes their replies.
    pub(crate) async fn finish(&mut self) {
        self.release_held_back().await;
        self.ask().await;
    }

    /// Ends a read of the connection, and executes the commands that were collected from the received bytes.
    ///
    /// A delayed `SETNX` or `SET NX` remains delayed if its `EXPIRE` probably arrives with the next read. The function
    /// considers this probable in two cases:
    ///
    /// - The received bytes end in the middle of a command (`is_cut`), so the next read continues the same pipeline.
    /// - This connection has already sent an `EXPIRE` after such a command, so it probably does so again.
    ///
    /// In all other cases, the delayed commands are executed now, because the client may be waiting for their replies.
    pub(crate) async fn finish_read(&mut self, is_cut: bool) {
        if !is_cut && !self.held_back.has_sent_expire() {
            self.release_held_back().await;
        }
        self.ask().await;
    }

    /// Returns whether commands are delayed.
    pub(crate) fn holds_back(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// Executes the collected commands, and writes their replies.
    async fn ask(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        // Only an authenticated client can have collected events, so there always is a user here.
        let Some(client_session) = self.client_session.clone() else { return };
        let context = call_context(&self.shared, &self.patience, &client_session);
        // The future is boxed because it is large, and it would enlarge the futures of many callers.
        let answered = self.outbox.wait_for(Box::pin(self.gathered.ask(context))).await;
        self.gathered.conclude(answered, context, &mut self.claims, self.outbox.replies());
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
        let other = match event_query::of(request, &self.shared.common.names, self.shared.common.settings.get) {
            Ok(wanted) => return self.gather(wanted).await,
            Err(other) => other,
        };
        self.finish().await;
        let is_allowed_before_auth = match &other {
            Other::Connection(request) => request.is_allowed_before_auth(),
            // A transaction command needs no authentication itself, because each command in the transaction is checked.
            Other::Transaction(_) => true,
            Other::FilterCommand(_) | Other::Scripts(_) | Other::Server(_) | Other::Subscriptions(_) => false,
        };
        // A user who must authenticate by now may send only commands that need no authentication.
        let is_somebody =
            self.client_session.as_ref().is_none_or(|client_session| !client_session.requires_authentication());
        if !is_allowed_before_auth && !is_somebody {
            self.refuse(CommandRejected::from(Refused::Unknown));
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
            Other::FilterCommand(command) => {
                if let Some(mut handler) = self.handler() {
                    Box::pin(handler.carry_out(command)).await;
                }
            }
        }
        Next::Go
    }

    /// Adds a command to the collected commands. Executes the collected commands first, if the new command cannot join
    /// them.
    async fn gather(&mut self, wanted: EventQuery<'_>) -> Next {
        let EventQuery { place, act, form, items, time, submission } = wanted;
        // The connection learns which events it holds only from the answers to its earlier claims.
        if self.gathered.has_claims() && matches!(act, Action::Confirm(_) | Action::Release(_)) {
            self.ask().await;
        }
        // Only an authenticated client gets this far.
        let Some(client_session) = self.client_session.as_deref() else { return Next::Go };
        let requester = Requester { shared: &self.shared, client_session, patience: &self.patience };
        let found = match self.placed.find(requester, place, act, time).await {
            Ok(_) if submission.is_some() && matches!(time, EventTime::NowWithTtl { .. }) => {
                Err(CommandRejected::wrong(
                    "ID and TTL do not go together: a retry is told its first verdict for the retry horizon",
                ))
            }
            found => found,
        };
        let held = match &found {
            Ok(found) => claims::held(&self.shared.filters, &mut self.claims, found, act, items.iter()).await,
            Err(_) => Ok(claims::Shown::default()),
        };
        let (Found { filter, others, act, ttl_ms, .. }, shown) = match found.and_then(|found| Ok((found, held?))) {
            Ok(found) => found,
            Err(error) => {
                self.ask().await;
                return self.reply_rejected(place, form, items.count(), &error);
            }
        };
        let at_ms = match time {
            EventTime::At { unix_ms } => Some(unix_ms),
            EventTime::Now | EventTime::NowWithTtl { .. } => shown.at_ms,
        };
        // Without memory for the claim, the connection could neither confirm nor release it later.
        if matches!(act, EventOperation::Claim { .. })
            && !self.claims.make_room(items.count() + self.gathered.events(), Instant::now())
        {
            self.ask().await;
            return self.reply_rejected(place, form, items.count(), &CommandRejected::Undecided(Reason::Overloaded));
        }
        let question = Question { filter, others, act, at_ms, ttl_ms };
        // Either all events of a call have idempotency keys or none has, so a command with a key begins a new call.
        if submission.is_some() || !self.gathered.add(&question, form, items.iter()) {
            self.ask().await;
            self.gathered.add(&question, form, items.iter());
        }
        self.gathered.show(&shown.fences);
        if let Some(Submission { source, first_number }) = submission {
            let source = source_number(source);
            let names = (first_number..).take(items.count()).map(|number| SubmissionName { source, number });
            self.gathered.name(names);
            self.ask().await;
        }
        Next::Go
    }

    /// Replies to a command that cannot be executed.
    fn reply_rejected(&mut self, place: Place<'_>, form: ReplyShape, events: usize, error: &CommandRejected) -> Next {
        let CommandRejected::Undecided(reason) = error else {
            match place {
                Place::Filter(name) if !form.is_of_bloom() => self.refuse(error.naming(name)),
                _ => self.refuse(error),
            }
            return Next::Go;
        };
        let filter = match place {
            Place::Filter(name) => std::str::from_utf8(name).ok().map(Arc::<str>::from),
            Place::Key { key, .. } | Place::OnlyOf { key } => self.shared.common.names.filters_of(key).first().cloned(),
        };
        let rule = self.shared.common.rules.undecided(filter.as_deref().unwrap_or_default());
        let undecided =
            reply_shape::reply(self.outbox.replies(), form, rule, &vec![Verdict::Undecided(*reason); events], &[]);
        self.shared.common.counts.undecided.fetch_add(undecided as u64, Ordering::Relaxed);
        Next::Go
    }

    /// Delays a `SETNX` or `SET NX`, or applies an `EXPIRE` to a delayed command. Returns any other command, which must
    /// be executed now.
    async fn hold_back<'a>(&mut self, request: Request<'a>) -> Option<Request<'a>> {
        let (key, command) = match request {
            Request::Keys(KeyRequest::SetNx { key }) => (key, SetCommand::SetNx),
            Request::Keys(KeyRequest::SetIfNew { key, expiry: None }) => (key, SetCommand::Set),
            Request::Keys(KeyRequest::Expire { key, expiry }) if self.held_back.take_time(key, expiry) => return None,
            _ => {
                self.release_held_back().await;
                return Some(request);
            }
        };
        if !self.held_back.hold(key, command) {
            self.release_held_back().await;
            self.held_back.hold(key, command);
        }
        None
    }

    /// Adds the delayed commands to the collected commands.
    async fn release_held_back(&mut self) {
        if !self.held_back.is_empty() {
            // The future is boxed because it is large, and it would enlarge the futures of many callers.
            Box::pin(self.release_all()).await;
        }
    }

    async fn release_all(&mut self) {
        let mut held = std::mem::take(&mut self.held_back);
        for set in held.sets() {
            self.gather(event_query::held(set)).await;
        }
        for key in held.expires() {
            // The expiry was already applied with the key, so the reply to `EXPIRE` only says whether the key exists.
            self.ask().await;
            if let Some(mut handler) = self.handler() {
                handler.known(&[key], ReplyShape::HowManyThere).await;
            }
        }
        held.clear();
        self.held_back = held;
    }

    /// Returns the handler for commands about filters, or `None` if the client has not authenticated.
    fn handler(&mut self) -> Option<CommandHandler<'_>> {
        let Self { shared, client_session: Some(client_session), claims, outbox, patience, held_back, .. } = self
        else {
            return None;
        };
        let requester = Requester { shared, client_session: &**client_session, patience };
        Some(CommandHandler { requester, own: claims, last_set: held_back.last(), outbox })
    }

    /// Creates the filter that a command is about to use, if the filter does not exist. Earlier commands are executed
    /// first.
    async fn prepare(&mut self, request: &Request<'_>) -> Result<(), String> {
        let Some(client_session) = &self.client_session else { return Ok(()) };
        let requester = Requester { shared: &self.shared, client_session: &**client_session, patience: &self.patience };
        let Some((name, options)) = make::lacking(requester, request).await? else { return Ok(()) };
        self.finish().await;
        let (Some(sandbox), Some(client_session)) = (&self.shared.common.sandbox, &self.client_session) else {
            return Ok(());
        };
        make::make(&self.shared, sandbox, &**client_session, &name, options).await
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
                // A transaction cannot contain another transaction, so the recursion ends.
                Ok(request) if !is_too_long => drop(Box::pin(self.carry_out(request)).await),
                refused => {
                    // Earlier commands may still be collected, and must get their replies first.
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

/// Returns whether a command is executed at once, even between `MULTI` and `EXEC`.
fn bypasses_transaction(request: &Request<'_>) -> bool {
    use firstseen_resp::ConnectionRequest::{Quit, Reset};
    matches!(request, Request::Transaction(_) | Request::Connection(Quit | Reset))
}

fn call_context<'a>(
    shared: &'a Shared,
    patience: &'a Patience,
    client_session: &'a Arc<dyn ClientSession>,
) -> CallContext<'a> {
    CallContext {
        filters: &shared.filters,
        patience,
        client_session,
        counts: &shared.common.counts,
        sandbox: shared.common.sandbox.as_ref(),
        confirmer: &shared.common.confirmer,
        rules: &shared.common.rules,
        missing: shared.common.settings.missing,
        now_ms: shared.filters.now_ms(),
        asked_at: Instant::now(),
    }
}

/// Returns the number that represents the name of a source. If the name is a decimal number in its usual form, such as
/// `7`, the function returns that number. Every other name is hashed. The names `07` and `+7` are hashed too, so `7`,
/// `07` and `+7` are three different sources.
fn source_number(name: &[u8]) -> u128 {
    let number = std::str::from_utf8(name).ok().and_then(|name| name.parse::<u128>().ok());
    number.filter(|number| number.to_string().as_bytes() == name).unwrap_or_else(|| xxhash_rust::xxh3::xxh3_128(name))
}

#[cfg(test)]
mod tests {
    use super::source_number;

    #[test]
    fn sources_that_are_written_otherwise_are_others() {
        let numbers = ["7", "07", "+7", "7 ", "worker"].map(|name| source_number(name.as_bytes()));
        assert_eq!((numbers[0], source_number(u128::MAX.to_string().as_bytes())), (7, u128::MAX));
        assert!((0..5).all(|one| (one + 1..5).all(|other| numbers[one] != numbers[other])), "{numbers:?}");
    }
}
