//! HTTP endpoint of a node. The endpoint translates requests to calls of the firstseen client, and verdicts to HTTP
//! replies.
//!
//! ```text
//! request -- connection --> calls -- call, body --> Asking -- asking --> verdicts -- reply --> status and JSON
//!                             \- dedup: body -- reading --> pieces -- streaming --> verdicts -- passing --> records
//! ```
//!
//! A call for a limited number of events reads its whole body and sends one call to the cluster. The body of a `dedup`
//! request can be much larger, so the request is processed in pieces. A separate thread reads the records, and the
//! cluster decides one piece after the other. The endpoint sends the first-seen records of each piece back while the
//! client still sends further records.
//!
//! - Each request gets one reply. A rejected request gets a problem document (RFC 9457).
//! - The cluster is never asked on behalf of a client that does not have the right.
//! - The memory for bodies and replies is bounded over all connections.
//!
//! This crate does not depend on consensus, slices, or the way in which rights are granted. The node that runs the
//! endpoint provides this functionality through the trait [`Host`](firstseen_backend::Host).
#![warn(missing_docs)]

mod body;
mod call;
mod call_body;
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
mod unknown_member;
mod verdicts;

pub use counts::{CallCount, HttpCounts};
pub use listen::{Clients, HttpEndpoint, HttpWorker};
pub use settings::{HttpEndpointSettings, InvalidHttpSettings};
