//! Where a scenario plays: processes of this machine, or containers.
//!
//! Promises: whoever carries a scenario out need not know which. Must not know: scenarios.

use std::process::Command;

use super::scenario::Action;

/// Where nodes run.
pub(super) trait Stage {
    /// `firstseen` with these arguments, on the cluster, by other nodes than this one.
    fn command(&self, args: &[&str], besides: Option<usize>) -> Command;

    /// Does something to a node, from 1.
    fn act(&mut self, action: Action, node: usize) -> anyhow::Result<()>;

    /// Whether a node says that it is ready.
    fn is_ready(&self, node: usize) -> bool;

    /// What the cluster calls a node.
    fn name_of(&self, node: usize) -> String;
}
