//! Environment in which the nodes of a scenario run. The nodes are processes of this machine or containers, and both
//! implement the same trait, so that the same scenario can run in either environment.

use std::process::Command;

use super::scenario::Action;

/// Environment in which nodes run.
pub(super) trait Stage {
    /// Returns the command `firstseen` with these arguments for the cluster. The command connects to any node except
    /// `besides`.
    fn command(&self, args: &[&str], besides: Option<usize>) -> Command;

    /// Returns the command `firstseen-lab` with these arguments, for producers of the cluster.
    fn producer(&self, args: &[&str]) -> anyhow::Result<Command>;

    /// Executes an action on a node. Nodes are numbered starting with 1.
    fn act(&mut self, action: Action, node: usize) -> anyhow::Result<()>;

    /// Returns the reason why a node is not ready, or `None` if it reports that it is ready.
    fn not_ready(&self, node: usize) -> Option<String>;

    /// Returns the name of the node in the cluster.
    fn name_of(&self, node: usize) -> String;
}
