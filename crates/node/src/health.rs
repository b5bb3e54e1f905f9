//! Determines whether a node works, and whether it serves all slices that it should. For every problem, this module
//! produces a sentence that tells an operator what to do. Health checks never hold a lock while they wait, so they
//! cannot delay the operations of the node.

use std::sync::Arc;

use firstseen_meta::Meta;
use firstseen_routing::rules::{Rule, Rules};

use crate::clock::Clock;
use crate::clocks::Clocks;
use crate::folder_watch::FolderWatch;
use crate::journal_writer::JournalWriter;
use crate::lease;
use crate::owner::Owners;
use crate::shutdown::Shutdown;
use crate::view::{View, Views};

/// The parts of a node whose state determines its health.
pub(crate) struct Health {
    pub(crate) meta: Meta,
    pub(crate) owners: Arc<Owners>,
    pub(crate) keeper: Arc<JournalWriter>,
    pub(crate) folder: Arc<FolderWatch>,
    pub(crate) views: Views,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) clocks: Arc<Clocks>,
    pub(crate) departure: Arc<Shutdown>,
    pub(crate) rules: Rules,
}

impl Health {
    /// Returns the reason why the process must be restarted. `None` means that the process works.
    pub(crate) fn not_alive(&self) -> Option<String> {
        if let Some(lost) = self.owners.loss().reason() {
            return Some(lost);
        }
        let stopped = "the consensus of this node has stopped: start the node again, and see its log for the cause";
        (!self.meta.is_alive()).then(|| stopped.to_owned())
    }

    /// Returns the reason why the node is not fully ready. `None` means that the node can serve everything that it
    /// should.
    pub(crate) fn not_ready(&self) -> Option<String> {
        let view = self.views.newest();
        self.not_alive()
            .or_else(|| self.departure.has_begun().then(|| "the node is about to stop".to_owned()))
            .or_else(|| self.folder.data_loss_reason())
            .or_else(|| self.no_room())
            .or_else(|| self.displaced(&view))
            .or_else(|| view.not_ready())
            .or_else(|| lease::not_held(self.clocks.lease().newest(), self.clock.now()))
            .or_else(|| self.clocks.not_sure(self.clock.now()))
            .or_else(|| self.incomplete_reason(&view))
    }

    /// Returns whether the node's disks prevent it from serving, or whether the node has left its cluster.
    fn no_room(&self) -> Option<String> {
        let why = if self.keeper.is_full() {
            "the disk of the journal is full: events of durable filters are rejected until it has room"
        } else if *self.meta.disk_hangs().borrow() {
            "the disk of the data folder hangs: the node cannot take part in the consensus, and the other nodes \
             continue without it until the disk answers"
        } else if *self.meta.nearly_full().borrow() {
            "the disk of the data folder is nearly full, and the remaining space is reserved for the consensus log: \
             events of durable filters and changes that can wait are rejected until it has room"
        } else if self.meta.has_left() {
            "the node has left its cluster for good: stop it and remove its data"
        } else {
            return None;
        };
        Some(why.to_owned())
    }

    /// Returns whether another process with the same identity has replaced this one, and the address of that process.
    fn displaced(&self, view: &View) -> Option<String> {
        let identity = self.meta.identity()?;
        let own = (*self.meta.incarnation().borrow())?;
        let record = view.map.nodes.get(&identity.node).filter(|record| record.incarnation > own)?;
        Some(format!(
            "another process with the identity of this node (`{}`, node {}) has started since, at {}: this process no \
             longer takes part in the cluster; stop it, and start a node with an empty data folder if you want an \
             additional node",
            record.name, identity.node, record.address
        ))
    }

    /// Returns the reason why slices on this node lack data that other nodes have.
    fn incomplete_reason(&self, view: &View) -> Option<String> {
        if !self.rules.keep(Rule::ReadyWhenComplete) {
            return None;
        }
        let groups = self.owners.catching_up();
        view.incomplete_reason().or_else(|| {
            (groups > 0).then(|| format!("{groups} slice groups here are receiving the events that they have missed"))
        })
    }
}
