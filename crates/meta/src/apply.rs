//! Applies commands to the state, by passing each change to the module that implements it.
//!
//! # Guarantees
//! - The state depends only on the previous commands, so it is the same on every node.
//! - A command that is repeated within [`OUTCOMES_MAX`](crate::OUTCOMES_MAX) commands receives the same answer as the
//!   first time and changes nothing.
//! - No node is assigned more cells than fit into its memory.
//!
//! This module does not depend on openraft, disks, the network or clocks.

use std::sync::Arc;

use firstseen_routing::Format;

use crate::change::Change;
use crate::command::{Command, Outcome};
use crate::filters::CompleteReport;
use crate::node_start::NodeStart;
use crate::refusal::Refusal;
use crate::state::State;
use crate::{access, alterations, filters, liveness, moves, nodes, places, restore, shares};

impl State {
    /// Applies `command`, which is the log entry with index `index`.
    ///
    /// # Errors
    /// [`Refusal`]: nothing has changed, except that the rejection is remembered.
    pub fn apply(&mut self, index: u64, command: Command) -> Result<Outcome, Refusal> {
        if let Some(outcome) = self.outcome_of(command.id) {
            return outcome.clone();
        }
        let before = Arc::clone(&self.map);
        let secrets_before = Arc::clone(&self.secrets);
        let can_increase_usage = shares::can_increase_usage(&command.change);
        let mut outcome = change(self, command.change);
        if can_increase_usage && let Err(refused) = shares::check(&before, &self.map) {
            self.map = Arc::clone(&before);
            self.secrets = secrets_before;
            outcome = Err(refused);
        }
        if !Arc::ptr_eq(&before, &self.map) {
            let map = Arc::make_mut(&mut self.map);
            map.version = index;
            alterations::settle(map);
            liveness::open_gaps_beside_complete(map);
            liveness::raise_epochs_since(&before, map);
            alterations::ask_again(&before, map);
        }
        self.remember(command.id, outcome.clone());
        outcome
    }
}

fn change(state: &mut State, change: Change) -> Result<Outcome, Refusal> {
    if state.map.nodes.is_empty() && !matches!(change, Change::FoundCluster { .. } | Change::FoundAs { .. }) {
        return Err(Refusal::NotFounded);
    }
    match change {
        Change::FoundCluster { cluster, profile } => nodes::found(state, cluster, profile, Format::FIRST),
        Change::FoundAs { cluster, profile, format } => nodes::found(state, cluster, profile, format),
        Change::Raise { format } => {
            if state.map.format < format {
                Arc::make_mut(&mut state.map).format = format;
            }
            Ok(Outcome::Done)
        }
        Change::AddNode { profile } => nodes::add(state, profile),
        Change::NodeStarted { node, address, site, memory_bytes } => {
            nodes::started(state, node, address, site, memory_bytes)
        }
        Change::SetVoter { node, voter } => nodes::set_voter(state, node, voter),
        Change::RemoveNode { node } => nodes::remove(state, node),
        Change::CreateFilter(asked) => filters::create(state, asked),
        Change::DropFilter { name } => filters::drop_named(state, &name),
        Change::OpenGeneration { filter, group, number } => filters::open_generation(state, filter, group, number),
        Change::SlicesComplete { filter, group, slices, epoch, node, incarnation } => {
            let report = CompleteReport { filter, group, slices: &slices, epoch };
            filters::slices_complete(state, &report, NodeStart { node, incarnation })
        }
        Change::SlicesMissing { filter, group, node, incarnation } => {
            filters::slices_missing(state, filter, group, NodeStart { node, incarnation })
        }
        Change::SlicesSpared { filter, group, node, incarnation } => {
            filters::slices_spared(state, filter, group, NodeStart { node, incarnation })
        }
        Change::MoveSlices { filter, moves } => moves::begin(state, filter, &moves),
        Change::CancelMoves { name } => moves::cancel(state, &name),
        Change::PeerReached { by, by_incarnation, peer, peer_incarnation, is_reached } => {
            let reporter = NodeStart { node: by, incarnation: by_incarnation };
            let seen = NodeStart { node: peer, incarnation: peer_incarnation };
            liveness::peer_reached(state, reporter, seen, is_reached)
        }
        Change::ForgiveFilter { name, ended } => filters::forgive(state, &name, &ended),
        Change::RestoreFilter(asked) => restore::begin(state, asked),
        Change::FinishRestore { filter } => restore::finish(state, filter),
        Change::AlterFilter(asked) => alterations::alter(state, asked),
        Change::FilterEnded { filter, node, incarnation, newest_unit } => {
            alterations::ended(state, filter, NodeStart { node, incarnation }, newest_unit)
        }
        Change::FilterPassed { filter, node, incarnation } => {
            alterations::passed(state, filter, NodeStart { node, incarnation })
        }
        Change::FinishAlteration { name } => alterations::finish(state, &name),
        Change::AddPlace(asked) => places::add(state, asked),
        Change::RemovePlace { name } => places::remove(state, &name),
        Change::Access(change) => access::change(&mut state.map, change),
        Change::By(_) => Err(Refusal::AskedTwice),
    }
}
