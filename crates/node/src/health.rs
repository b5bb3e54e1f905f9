//! Whether a node works, and whether it serves all that it should.
//!
//! Promises: what is wrong is a sentence for operators, with what helps; no lock is held while a task waits. Must not
//! know: who asks.

use std::sync::Arc;

use firstseen_meta::Meta;
use firstseen_routing::rules::{Rule, Rules};

use crate::clock::Clock;
use crate::clocks::Clocks;
use crate::departure::Departure;
use crate::folder_watch::FolderWatch;
use crate::keeper::Keeper;
use crate::lease;
use crate::owner::Owners;
use crate::view::{View, Views};

/// The parts of a node whose state decides whether it serves.
pub(crate) struct Health {
    pub(crate) meta: Meta,
    pub(crate) owners: Arc<Owners>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) folder: Arc<FolderWatch>,
    pub(crate) views: Views,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) clocks: Arc<Clocks>,
    pub(crate) departure: Arc<Departure>,
    pub(crate) rules: Rules,
}

impl Health {
    /// Why the process must be started again; none where it works.
    pub(crate) fn not_alive(&self) -> Option<String> {
        if let Some(lost) = self.owners.loss().reason() {
            return Some(lost);
        }
        let stopped = "the consensus of this node has stopped: start the node again, and see its log for the cause";
        (!self.meta.is_alive()).then(|| stopped.to_owned())
    }

    /// Why the node cannot serve all that it should; none where it can.
    pub(crate) fn not_ready(&self) -> Option<String> {
        let view = self.views.newest();
        self.not_alive()
            .or_else(|| self.departure.has_begun().then(|| "the node is about to stop".to_owned()))
            .or_else(|| self.folder.not_kept())
            .or_else(|| self.no_room())
            .or_else(|| self.displaced(&view))
            .or_else(|| view.not_ready())
            .or_else(|| lease::not_held(self.clocks.lease().newest(), self.clock.now()))
            .or_else(|| self.clocks.not_sure(self.clock.now()))
            .or_else(|| self.not_whole(&view))
    }

    /// Why the node's disks, or its having left the cluster, keep it from serving.
    fn no_room(&self) -> Option<String> {
        let why = if self.keeper.is_full() {
            "the disk of the journal is full: events of durable filters are refused until it has room"
        } else if *self.meta.disk_hangs().borrow() {
            "the disk of the data folder hangs: the node hears nothing of what the cluster agrees on, and the others go on \
             without it until the disk answers"
        } else if *self.meta.short_of_room().borrow() {
            "the disk of the data folder is nearly full, and the room that was kept back is for what the cluster agrees \
             on: events of durable filters and changes that can wait are refused until it has room"
        } else if self.meta.has_left() {
            "the node has left its cluster for good: stop it and remove its data"
        } else {
            return None;
        };
        Some(why.to_owned())
    }

    /// Whether another process with this node's identity takes part in its place, and where it is.
    fn displaced(&self, view: &View) -> Option<String> {
        let identity = self.meta.identity()?;
        let own = (*self.meta.incarnation().borrow())?;
        let record = view.map.nodes.get(&identity.node).filter(|record| record.incarnation > own)?;
        Some(format!(
            "another process with the identity of this node (`{}`, node {}) has started since, at {}: this one takes no part any more; \
             stop it, and start a node with an empty data folder if you want one more",
            record.name, identity.node, record.address
        ))
    }

    /// Why slices here lack something that other nodes have.
    fn not_whole(&self, view: &View) -> Option<String> {
        if !self.rules.keep(Rule::ReadyWhenWhole) {
            return None;
        }
        let groups = self.owners.catching_up();
        view.not_whole().or_else(|| {
            (groups > 0)
                .then(|| format!("{groups} groups here are being sent what they have missed by the other nodes"))
        })
    }
}
