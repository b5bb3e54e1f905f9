//! What Redis clients say to a server and hear from it: requests out of bytes, commands out of requests, replies into
//! bytes.
//!
//! Promises: any bytes give commands or an error, never a panic; a command that comes in pieces is parsed once; no size
//! that a client names decides how much memory is taken; errors are Redis' own texts, as clients compare them. Must not
//! know: sockets, async, clocks, chance; filters, and what a command does.
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
