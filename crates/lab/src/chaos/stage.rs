//! Where the nodes of a scenario run: as processes of this machine, or in containers.
//!
//! Promises: the code that runs a scenario need not know which of the two it is. Must not know: scenarios.

use std::process::Command;

use super::scenario::Action;

/// Where nodes run.
pub(super) trait Stage {
    /// The command `firstseen` with these arguments on the cluster, to be run at other nodes than `besides`.
    fn command(&self, args: &[&str], besides: Option<usize>) -> Command;

    /// The command `firstseen-lab` with these arguments, for producers of the cluster.
    fn producer(&self, args: &[&str]) -> anyhow::Result<Command>;

    /// Carries out an action on a node, numbered from 1.
    fn act(&mut self, action: Action, node: usize) -> anyhow::Result<()>;

    /// Whether a node says that it is ready.
    fn is_ready(&self, node: usize) -> bool;

    /// The name of the node in the cluster.
    fn name_of(&self, node: usize) -> String;
}
