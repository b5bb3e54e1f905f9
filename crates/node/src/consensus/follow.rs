//! Creates the view that this node acts on. A view combines the newest cluster map, the set of nodes that are currently
//! unreachable, and the state of the node's disk. The node creates a new view whenever one of these three parts
//! changes. Views are published in order. Before a view is published, all owner threads have begun to act on it.
//!
//! A view lists this node as a member only if the cluster map contains the node's current incarnation. The incarnation
//! is a number that changes with every start of the node. A map that still contains an older incarnation describes the
//! previous process, so the node does not act as a member yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use firstseen_client::Levels;
use firstseen_meta::Meta;
use firstseen_routing::{ClusterMap, Incarnation};
use firstseen_wire::watch;

use super::map_change;
use crate::clock::Clock;
use crate::journal_writer::{DiskState, JournalWriter};
use crate::lease::DownNodes;
use crate::links::Links;
use crate::metrics::Metrics;
use crate::owner::Owners;
use crate::view::{Me, View};

/// The task that follows the cluster map.
pub(crate) struct Follower {
    pub(crate) meta: Meta,
    pub(crate) links: Links,
    pub(crate) views: watch::Sender<Arc<View>>,
    pub(crate) owners: Arc<Owners>,
    pub(crate) keeper: Arc<JournalWriter>,
    pub(crate) levels: Arc<Levels>,
    pub(crate) down_nodes: Arc<DownNodes>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Follower {
    /// Follows the cluster map until the consensus on this node ends.
    pub(crate) async fn run(mut self) {
        let mut maps = self.meta.map();
        let mut incarnations = self.meta.incarnation();
        let mut unreachable = self.links.unreachable();
        let mut disk_states = self.keeper.watch_disk();
        // The start of this node in which slice groups with a journal stopped being served because the disk hung.
        let mut hung_in = None;
        let mut has_been = false;
        loop {
            let map = maps.borrow_and_update().clone();
            let incarnation = *incarnations.borrow_and_update();
            // The other nodes have marked this node as down, and it will count as restarted in a moment. Until then, it
            // continues with its current view.
            if has_been && incarnation.is_none() {
                match incarnations.changed().await {
                    Ok(()) => continue,
                    Err(_) => return,
                }
            }
            let me = incarnation.and_then(|incarnation| self.me(&map, incarnation));
            has_been |= me.is_some();
            let disk = *disk_states.borrow_and_update();
            let links = match me {
                Some(me) => self.links.follow(&map, me),
                None => BTreeMap::new(),
            };
            let unreachable_now = unreachable.borrow_and_update().clone();
            let view = Arc::new(View { disk, ..View::new(map, me, links, unreachable_now) });
            self.levels.follow(&view.map);
            self.down_nodes.follow(&view.map, self.clock.monotonic_ms());
            let faults = self.owners.show(&view).await;
            let version = view.map.version;
            let before = self.views.borrow().map.clone();
            map_change::log(&before, &view.map);
            if before.version != version {
                tracing::info!(
                    version,
                    filters = view.filters.len(),
                    faults = faults.len(),
                    "the node uses a new version of the cluster map"
                );
            }
            let view = Arc::new(View { faults, ..(*view).clone() });
            self.begin_anew_after(&view, &mut hung_in);
            self.views.send(view.clone());
            let names = view.map.filters.values().map(|record| record.name.as_str());
            self.metrics.keep_filters(&names.collect());
            let changed = tokio::select! {
                biased;
                changed = maps.changed() => changed,
                changed = incarnations.changed() => changed,
                changed = unreachable.changed() => changed,
                changed = disk_states.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
        }
    }

    /// Makes this node count as restarted after a disk problem has ended. To the other nodes, the copies of slices on
    /// this node then look like the copies of a new process: they may lack events, and fetch these events from other
    /// copies.
    ///
    /// This step is necessary in two situations:
    ///
    /// - The disk of this node hung.
    /// - The consensus group has decided that the other nodes continue without a copy of a slice on this node. The
    ///   group may make this decision after the disk has already recovered, so this method must check for it repeatedly
    ///   while the disk works.
    fn begin_anew_after(&self, view: &View, hung_in: &mut Option<Incarnation>) {
        let Some(Me { incarnation, .. }) = view.me else { return };
        if view.disk == DiskState::Hangs {
            *hung_in = Some(incarnation);
            return;
        }
        let has_hung = hung_in.take() == Some(incarnation);
        if has_hung || view.disk == DiskState::Works && view.is_spared() && !view.is_needed_as_it_is() {
            self.meta.mark_restarted(incarnation);
        }
    }

    /// Returns the identity of this node, if the cluster map contains this start of it.
    fn me(&self, map: &ClusterMap, incarnation: Incarnation) -> Option<Me> {
        let identity = self.meta.identity()?;
        let shown = map.nodes.get(&identity.node)?.incarnation;
        (shown == incarnation).then_some(Me { identity, incarnation })
    }
}
