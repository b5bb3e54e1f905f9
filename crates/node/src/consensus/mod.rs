//! Communication between this node and the consensus group.
//!
//! - [`Follower`] creates a view of every new cluster map. The owners act on the view, and the log reports what has
//!   changed.
//! - [`propose`] proposes the changes that slice groups ask for.
//! - [`report`] reports facts that only this node can know: which nodes it cannot reach ([`UnreachableReports`]), which of its
//!   slices it cannot hold ([`MissingGroups`]), and the progress of filters that were replaced ([`Closing`]).
//!
//! A report names the incarnation of this node, a number that changes with every start, so the report does not apply to
//! a later start. The node repeats a report until the cluster map shows that the cluster has accepted it.

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
