//! A node of a `firstseen` cluster. A node owns slices of filters and decides which events are new. For this purpose,
//! it runs threads that own the slices, accepts streams of events from producers, and exchanges messages with the other
//! nodes of the cluster.
//!
//! # Guarantees
//! - The state machines of the `routing` crate make all decisions about events. This crate only supplies threads, time
//!   and connections to them.
//! - Every queue and every buffer of a node has an upper bound.
//!
//! This crate does not parse command lines and does not hash events.
#![warn(missing_docs)]

mod accept;
mod admin;
mod audit;
mod audit_file;
mod authenticated_caller;
mod budget;
mod certificates;
mod clock;
mod clocks;
mod config;
mod consensus;
mod console;
mod data_folder;
mod dates;
mod edges;
mod endpoints;
mod exposition;
mod folder_watch;
mod fullness;
mod gate;
mod group_key;
mod health;
mod http;
mod http_api;
mod ids;
mod journal_writer;
mod last_time;
mod lease;
mod link_handle;
mod links;
mod local_connector;
mod metrics;
mod node;
mod node_error;
mod open_counts;
mod owing;
mod owner;
mod parent_queries;
mod quotas;
mod recover;
mod redis;
mod refusals;
mod repair;
mod reply_queues;
mod roles;
#[cfg(test)]
mod sample_map;
mod serve;
mod shares;
mod shutdown;
mod stopping;
mod streams;
mod tokens;
mod view;

pub use audit_file::{AuditFile, AuditFileError};
pub use clock::{Clock, SystemClock};
pub use config::{AuditSettings, ConfigError, HttpSettings, Limits, NodeConfig, Timing, TlsSettings};
pub use console::{
    Alarm, ClaimsLine, ClusterLine, FilterLine, History, NodeLine, OVERVIEW_VERSION, Overview, PlaceLine, Severity,
    SliceCounts, TreeLine, Undecided, Verdicts, WorkLine,
};
pub use edges::{
    Connection, Duplex, EdgeError, Edges, Incoming, OwnerSpawner, RedisListener, Vouched, has_identity,
    has_lost_identity, tcp_incoming,
};
pub use firstseen_http_endpoint::HttpEndpointSettings;
pub use firstseen_meta::{LostFilter, Recovery, is_restoring, restoring_name};
pub use firstseen_redis_endpoint::RedisEndpointSettings;
pub use folder_watch::KeptFiles;
pub use last_time::{LastTime, NoLastTime};
pub use node::Node;
pub use node_error::NodeError;
pub use recover::{RecoverError, recover};
pub use repair::{RepairError, Repaired, repair, salvage_journal};
