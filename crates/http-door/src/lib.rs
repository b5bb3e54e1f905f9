//! A door for HTTP clients: their requests become calls of the client, and verdicts their replies.
//!
//! ```text
//! request -- connection --> calls -- call, body --> Asking -- asking --> verdicts -- reply --> status and JSON
//!                             \- dedup: body -- reading --> pieces -- streaming --> verdicts -- passing --> records
//! ```
//!
//! A call reads its body as a whole, within limits, and asks once. A `dedup` reads records on a thread of its own, asks piece by piece,
//! and sends what is seen first while more comes.
//!
//! Promises: each request gets one reply, and what is refused is a problem document (RFC 9457); nothing is asked for a client without
//! the right; bytes that are held are bounded over all connections. This crate must not depend on agreement, slices, and how principals
//! are granted what ([`Host`](firstseen_backend::Host) says).
#![warn(missing_docs)]

mod asking;
mod body;
mod call;
mod calls;
mod catalogue;
mod connected_client;
mod connection;
mod counts;
mod dedup;
mod flushes;
mod kind;
mod limits;
mod listen;
mod problem;
mod reply;
mod reserved_bytes;
mod router;
mod settings;
mod shared;
mod stalled;
mod verdicts;

pub use counts::{CallCount, HttpCounts};
pub use listen::{Clients, HttpAttendant, HttpDoor};
pub use settings::{HttpDoorSettings, NotHttpDoorSettings};
