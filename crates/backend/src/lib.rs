//! The backend that all doors of a node share: accepting connections, authentication, rights and quotas of their clients, the open
//! filters, and the room for bytes that connections share.
//!
//! A door checks [`Guest::may`] before each call, so that no client gets past its rights or its quota. This crate must not depend on
//! protocols.
#![warn(missing_docs)]

mod accept;
mod filters;
mod host;
mod hosts;
mod meaning;
mod patience;
mod room;

pub use accept::{Acceptor, ConnectionCounts, ConnectionReceiver, ConnectionSender, connections};
pub use filters::{Act, Answers, Asked, Facts, Filters, KeptTtl, Remembers};
pub use host::{Counting, Guest, Host, Making, NewFilter, Refused};
pub use hosts::Hosts;
pub use meaning::meaning;
pub use patience::Patience;
pub use room::{ROOM_BYTES, room};
