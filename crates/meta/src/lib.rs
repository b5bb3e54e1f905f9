//! The cluster map, which the nodes of a cluster agree on through Raft. The map contains the nodes, the filters, and
//! the owner of each slice.
//!
//! # Guarantees
//! - A committed change survives the loss of any minority of nodes, and a power failure of all nodes.
//! - Every node applies the same commands in the same order.
//!
//! This crate does not depend on the data of slices or on producers.
#![warn(missing_docs)]

mod access;
mod access_change;
mod alterations;
mod announce;
mod apply;
mod asked;
mod asked_by;
mod audited;
mod catalog;
mod change;
pub mod codec;
mod command;
mod config;
mod confirm;
mod error;
mod filters;
mod formats;
mod leading;
mod liveness;
mod logged_refusals;
mod membership;
mod meta;
mod mixed;
mod moves;
mod names;
mod network;
mod node_start;
mod nodes;
mod on_behalf;
mod placement;
mod places;
mod raising;
mod rebalance;
mod recover;
mod refusal;
mod restore;
mod room;
mod running;
mod sender;
mod service;
mod shares;
mod slots;
mod start;
mod state;
mod store;
mod tree;
mod types;

pub use access_change::AccessChange;
pub use alterations::plan_alteration;
pub use asked_by::AskedBy;
pub use audited::{AUDITED_WAITING_MAX, Audited};
pub use change::{AlteredFilter, Change, NewFilter, NewPlace, NewRestore, NodeProfile, Requester, RestoredPlace};
pub use command::{COMMAND_BYTES_MAX, Command, CommandId, Outcome};
pub use config::{MetaConfig, RaftTiming};
pub use error::MetaError;
pub use formats::NEWEST_FORMAT;
pub use meta::{Meta, MetaStatus};
pub use names::{FORMER_SUFFIX, is_restoring, restoring_name};
pub use on_behalf::{join, leave, propose_for};
pub use placement::{generation_max, owners, slice_bytes, used_bytes};
pub use raising::{hold_format, holds_format, raise_format};
pub use rebalance::plan_moves;
pub use recover::{LostFilter, Recovery, RecoveryError, plan_recovery, recover};
pub use refusal::Refusal;
pub use service::{MetaService, service};
pub use slots::VOTERS_MAX;
pub use state::{OUTCOMES_MAX, Secrets, State};
pub use store::{Identity, MetaStorage, RESERVE_FILE, StoreError};
