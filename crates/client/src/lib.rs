//! Client library for producers and consumers. A program that links this crate hashes its events locally, sends only
//! their positions to the cluster, and receives a verdict for each event.
//!
//! # Guarantees
//!
//! - The bytes of an event never leave the process. Nodes see only positions, which the client computes with the
//!   filter's secret.
//! - All queues are bounded. When they are full, calls wait.
//! - A retry carries the same idempotency key as the first attempt, so a retried event is never counted twice.
//!
//! This crate does not depend on the consensus protocol or on the internals of a node.
#![warn(missing_docs)]

/// Compiles the code blocks of `docs/how-to/client.md` as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/how-to/client.md")]
mod guide {}

mod audit;
mod batch;
mod call;
mod claims;
mod client;
mod cluster_time;
mod degraded;
mod error;
mod filter;
mod filter_history;
mod followers;
mod frequency;
mod intake;
mod levels;
mod local;
mod node_queue;
mod noted;
mod options;
mod outage;
mod outbox;
mod pace;
mod queue;
mod registry;
mod retry;
mod routed_batch;
mod sender;
mod shared;
mod stream;
mod trace;
mod traffic;
mod ttl;
mod wait;
mod watch;

pub use audit::{AuditReport, ErrorRate};
pub use batch::{Batch, Event, Ttl};
pub use claims::{Claim, Claiming, Confirming, Delivery};
pub use client::Client;
pub use cluster_time::WallClock;
pub use degraded::Degraded;
pub use error::{CallError, ConnectError, FilterError, SeedMismatch};
pub use filter::{Filter, FilterInfo, FilterStatus, Verdict};
pub use firstseen_filter::{Digest, FilterSecret};
pub use firstseen_routing::{Fence, Hold, Lost, NotAFence, Reason, SubmissionName};
pub use firstseen_wire::net::{Connector, Mismatch, TcpConnector};
pub use firstseen_wire::tls::TlsFiles;
pub use frequency::Frequency;
#[doc(hidden)]
pub use levels::Levels;
pub use options::ConnectOptions;
pub use outage::MissingSlices;
pub use trace::{CurrentTrace, TraceParent, TraceParentError};
pub use traffic::NodeTraffic;
pub use wait::Wait;
