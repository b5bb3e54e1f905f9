//! The protocol of Redis clients: parses requests into commands and commands into typed requests, and encodes replies.
//!
//! - Arbitrary bytes result in commands or an error, and never in a panic.
//! - A command that arrives in pieces is parsed only once.
//! - A size that a client announces never decides how much memory is allocated.
//! - Error texts are those of Redis, because clients compare them.
//!
//! This crate does not depend on sockets, async code, clocks or randomness. It does not depend on filters, or on what a
//! command does.
//!
//! ```text
//! bytes -- Parser::next --> Command -- Request::read --> Request --> (who carries it out) -- Replies --> bytes
//!                |                          |
//!          ProtocolError: close       Refusal: an error, go on
//! ```
#![warn(missing_docs)]

mod command;
mod inline;
mod limits;
mod number;
mod parser;
mod protocol_error;
mod refusal;
mod replies;
mod request;
mod table;

pub use command::{ArgumentIter, Arguments, Command, KeptCommand};
pub use limits::Limits;
pub use parser::Parser;
pub use protocol_error::ProtocolError;
pub use refusal::{Refusal, Unserved};
pub use replies::{Protocol, Replies};
pub use request::{
    BloomInfoField, BloomOptions, BloomRequest, ClaimRequest, ClaimedEvents, ClientRequest, ClusterQuery, CommandQuery,
    ConnectionRequest, Credentials, EventTime, Expansion, Expiry, FilterRequest, ITEMS_MAX, KeyRequest, Request,
    ScriptRequest, ServerRequest, SetRequest, Submission, SubscriptionKind, SubscriptionRequest, TransactionRequest,
    is_known_script,
};
pub use table::{COMMANDS, COMMANDS_MAX, CommandSpec, Flag, find_command};
