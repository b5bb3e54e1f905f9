//! What goes between this node and the cluster's agreement.
//!
//! Downwards: [`Follower`] makes a view of every new map, and owners act on it; what is new in it is a line of the
//! log. Upwards: [`propose`] carries changes that groups want; [`report`] says what only this node can know: which
//! nodes it cannot reach ([`Doubts`]), which of its slices it cannot hold ([`MissingGroups`]), how far it has come
//! with filters that others have followed ([`Closing`]).
//!
//! Promises: a report is of this start of the node, and is made again until the map shows it. Must not know: what the
//! cluster makes of it.

mod closing;
mod doubts;
mod follow;
mod missing;
mod news;
mod propose;
mod report;

pub(crate) use closing::Closing;
pub(crate) use doubts::Doubts;
pub(crate) use follow::Follower;
pub(crate) use missing::MissingGroups;
pub(crate) use propose::{Proposer, propose};
pub(crate) use report::report;
