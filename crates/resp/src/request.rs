//! Commands of Redis clients, with their arguments as typed values. The parser checks the number and the form of all
//! arguments, so the caller can execute a returned request without further checks. Parsing a request allocates no
//! memory. Names and options are accepted in upper and lower case.

mod bloom;
mod claims;
mod connection;
mod filters;
mod keys;
mod scripts;
mod server;
mod sets;
mod subscriptions;
mod transactions;
mod unserved;
mod words;

pub use bloom::{BloomInfoField, BloomOptions, BloomRequest, Expansion};
pub use claims::{ClaimRequest, ClaimedEvents};
pub use connection::{ClientRequest, ConnectionRequest, Credentials};
pub use filters::{EventTime, FilterRequest, Submission};
pub use keys::{Expiry, KeyRequest};
pub use scripts::{ScriptRequest, is_known_script};
pub use server::{ClusterQuery, CommandQuery, ServerRequest};
pub use sets::SetRequest;
pub use subscriptions::{SubscriptionKind, SubscriptionRequest};
pub use transactions::TransactionRequest;
pub use words::ITEMS_MAX;

use crate::table::{CommandSpec, Verb, find_command};
use crate::{Command, Refusal};

/// Command with its arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request<'a> {
    /// Command about keys without a type.
    Keys(KeyRequest<'a>),
    /// Command about sets.
    Sets(SetRequest<'a>),
    /// Command of RedisBloom.
    Bloom(BloomRequest<'a>),
    /// Command that is specific to firstseen.
    Filters(FilterRequest<'a>),
    /// Command about claims, which is also specific to firstseen.
    Claims(ClaimRequest<'a>),
    /// Command about scripts.
    Scripts(ScriptRequest<'a>),
    /// Command about channels, on which no client publishes.
    Subscriptions(SubscriptionRequest<'a>),
    /// Command that begins or ends a transaction.
    Transaction(TransactionRequest),
    /// Command about the connection itself.
    Connection(ConnectionRequest<'a>),
    /// Command about the server.
    Server(ServerRequest<'a>),
}

impl<'a> Request<'a> {
    /// Parses a command with its arguments.
    ///
    /// # Errors
    /// Returns [`Refusal`] if the command does not exist, if it is not supported, or if its arguments are not valid.
    pub fn read(command: &Command<'a>) -> Result<Self, Refusal<'a>> {
        Self::read_as(find_command(command.name()), command)
    }

    /// Parses a command whose name was already looked up, like [`Self::read`]. `spec` is `None` if there is no such
    /// command.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::read`].
    pub fn read_as(spec: Option<&CommandSpec>, command: &Command<'a>) -> Result<Self, Refusal<'a>> {
        let Some(spec) = spec else { return Err(unserved::refusal(command)) };
        if !spec.takes(command.count()) {
            return Err(Refusal::WrongArity { command: spec.name(), subcommand: None });
        }
        let arguments = command.arguments();
        if let Some(help) = server::help(spec.verb(), arguments) {
            return Ok(Self::Server(help));
        }
        // Most commands name a key or a filter first, followed by one item or several.
        let first = arguments.at(0);
        let second = arguments.at(1);
        let rest = words::items(arguments.from(1));
        match spec.verb() {
            Verb::Set => keys::set(arguments).map(Self::Keys),
            Verb::SetNx => Ok(Self::Keys(KeyRequest::SetNx { key: first })),
            Verb::Get => Ok(Self::Keys(KeyRequest::Get { key: first })),
            Verb::Expire => keys::expire(keys::SECONDS, "expire", arguments).map(Self::Keys),
            Verb::PExpire => keys::expire(keys::MILLISECONDS, "pexpire", arguments).map(Self::Keys),
            Verb::ExpireAt => keys::expire(keys::AT_SECONDS, "expireat", arguments).map(Self::Keys),
            Verb::PExpireAt => keys::expire(keys::AT_MILLISECONDS, "pexpireat", arguments).map(Self::Keys),
            Verb::Eval => scripts::eval(command).map(Self::Scripts),
            Verb::EvalSha => scripts::eval_by_hash(arguments).map(Self::Scripts),
            Verb::Script => scripts::script(command).map(Self::Scripts),
            Verb::Subscribe | Verb::PSubscribe | Verb::Unsubscribe | Verb::PUnsubscribe => {
                subscriptions::read(spec.verb(), arguments).map(Self::Subscriptions)
            }
            Verb::HSetNx => Ok(Self::Sets(SetRequest::SetField { filter: first, field: second })),
            Verb::HGet => Ok(Self::Sets(SetRequest::GetField { filter: first, field: second })),
            Verb::Exists => words::items(arguments).map(|keys| Self::Keys(KeyRequest::Exists { keys })),
            Verb::Del | Verb::Unlink => words::items(arguments).map(|keys| Self::Keys(KeyRequest::Delete { keys })),
            Verb::Type => Ok(Self::Keys(KeyRequest::Type { key: first })),
            Verb::DbSize => Ok(Self::Keys(KeyRequest::Count)),
            Verb::FlushDb | Verb::FlushAll => keys::flush(arguments).map(Self::Keys),
            Verb::SAdd => rest.map(|items| Self::Sets(SetRequest::Add { filter: first, items })),
            Verb::SIsMember => Ok(Self::Sets(SetRequest::Contains { filter: first, item: second })),
            Verb::SMIsMember => rest.map(|items| Self::Sets(SetRequest::ContainsEach { filter: first, items })),
            Verb::SRem => rest.map(|items| Self::Sets(SetRequest::Remove { filter: first, items })),
            Verb::BfReserve => bloom::reserve(arguments).map(Self::Bloom),
            Verb::BfAdd => Ok(Self::Bloom(BloomRequest::Add { filter: first, item: second })),
            Verb::BfMAdd => rest.map(|items| Self::Bloom(BloomRequest::AddEach { filter: first, items })),
            Verb::BfInsert => bloom::insert(arguments).map(Self::Bloom),
            Verb::BfExists => Ok(Self::Bloom(BloomRequest::Contains { filter: first, item: second })),
            Verb::BfMExists => rest.map(|items| Self::Bloom(BloomRequest::ContainsEach { filter: first, items })),
            Verb::BfCard => Ok(Self::Bloom(BloomRequest::Count { filter: first })),
            Verb::BfInfo => bloom::info(arguments).map(Self::Bloom),
            Verb::FsObserve => filters::observe(arguments).map(Self::Filters),
            Verb::FsTest => filters::test(arguments).map(Self::Filters),
            Verb::FsInfo => Ok(Self::Filters(FilterRequest::Info { filter: first })),
            Verb::FsList => Ok(Self::Filters(FilterRequest::List)),
            Verb::FsClaim => claims::claim(arguments).map(Self::Claims),
            Verb::FsConfirm => claims::confirm(arguments).map(Self::Claims),
            Verb::FsRelease => claims::release(arguments).map(Self::Claims),
            Verb::Multi => Ok(Self::Transaction(TransactionRequest::Begin)),
            Verb::Exec => Ok(Self::Transaction(TransactionRequest::Execute)),
            Verb::Discard => Ok(Self::Transaction(TransactionRequest::Discard)),
            Verb::Unwatch => Ok(Self::Transaction(TransactionRequest::Unwatch)),
            Verb::Hello => connection::hello(arguments).map(Self::Connection),
            Verb::Auth => connection::auth(arguments).map(Self::Connection),
            Verb::Ping => Ok(Self::Connection(ConnectionRequest::Ping { message: arguments.get(0) })),
            Verb::Echo => Ok(Self::Connection(ConnectionRequest::Echo { message: first })),
            Verb::Select => connection::select(arguments).map(Self::Connection),
            Verb::Quit => Ok(Self::Connection(ConnectionRequest::Quit)),
            Verb::Reset => Ok(Self::Connection(ConnectionRequest::Reset)),
            Verb::Client => connection::client(arguments).map(Self::Connection),
            Verb::ReadOnly => Ok(Self::Connection(ConnectionRequest::ReadOnly)),
            Verb::ReadWrite => Ok(Self::Connection(ConnectionRequest::ReadWrite)),
            Verb::Info => Ok(Self::Server(ServerRequest::Info { sections: arguments })),
            Verb::Command => server::command(arguments).map(Self::Server),
            Verb::Config => server::config(arguments).map(Self::Server),
            Verb::Time => Ok(Self::Server(ServerRequest::Time)),
            Verb::Module => server::module(arguments).map(Self::Server),
            Verb::Cluster => server::cluster(arguments).map(Self::Server),
        }
    }
}
