//! Code that the Redis endpoint and the HTTP endpoint of a node share. It accepts connections, authenticates clients,
//! checks their rights and quotas, opens filters, and limits the memory of all connections together.
//!
//! An endpoint must call [`ClientSession::may`] before each call to the cluster. That function checks the rights and the quota
//! of the client.
//!
//! This crate does not depend on protocols.
#![warn(missing_docs)]

mod accept;
mod filters;
mod hosts;
mod meaning;
mod room;
mod services;
mod timeouts;

pub use accept::{Acceptor, ConnectionCounts, ConnectionReceiver, ConnectionSender, connections};
pub use filters::{Answers, EventCall, EventOperation, Facts, Filters, KeptTtl, Retention};
pub use hosts::Hosts;
pub use meaning::meaning;
pub use room::{ROOM_BYTES, room};
pub use services::{ClientSession, CountFuture, Host, NewFilter, OperationFuture, Refused};
pub use timeouts::Patience;
