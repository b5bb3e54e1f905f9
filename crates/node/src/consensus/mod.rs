//! Communication between this node and the consensus group.
//!
//! - [`Follower`] creates a view of every new cluster map. The owners act on the view, and the log reports what has
//!   changed.
//! - [`propose`] proposes the changes that slice groups ask for.
//! - [`report`] reports facts that only this node can know: which nodes it cannot reach ([`UnreachableReports`]), which of its
//!   slices it cannot hold ([`MissingGroups`]), and the progress of filters that were replaced ([`Closing`]).
//!
//! Each report names the incarnation of this node, a number that changes with every start. If the report arrives after
//! a restart, the cluster can therefore tell that it is about the previous process, and ignores it. The node sends a
//! report again and again until the cluster map shows that the cluster has accepted it.

mod closing;
mod follow;
mod map_change;
mod missing;
mod propose;
mod report;
mod unreachable_reports;

pub(crate) use closing::Closing;
pub(crate) use follow::Follower;
pub(crate) use missing::MissingGroups;
pub(crate) use propose::{Proposer, propose};
pub(crate) use report::report;
pub(crate) use unreachable_reports::UnreachableReports;
