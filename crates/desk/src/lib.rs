//! What every door of a node needs to ask the cluster for clients that know nothing of firstseen: who is let in, the filters, and how
//! long their nodes are waited for.
//!
//! Promises: nothing is asked for a client whose rights or quota do not allow it ([`Guest::may`] says so, and every door asks it
//! first). Must not know: what clients send and are sent, sockets.
#![warn(missing_docs)]

mod filters;
mod host;
mod hosts;
mod meaning;
mod patience;
mod room;

pub use filters::{Act, Answers, Asked, Facts, Filters, OwnTime, Remembers};
pub use host::{Guest, Host, Making, NewFilter, Refused};
pub use hosts::Hosts;
pub use meaning::meaning;
pub use patience::Patience;
pub use room::{ROOM_BYTES, room};
