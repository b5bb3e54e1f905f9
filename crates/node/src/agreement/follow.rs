//! Follows the map, and which nodes can be reached: makes of what the cluster agrees on the view that this node acts
//! on.
//!
//! Promises: a view is published when all owners act on it, one after the other; the view counts this node in only once
//! the map shows its start. Must not know: streams.

use std::collections::BTreeMap;
use std::sync::Arc;

use firstseen_client::Levels;
use firstseen_meta::Meta;
use firstseen_routing::{ClusterMap, Incarnation};
use firstseen_wire::watch;

use super::news;
use crate::clock::Clock;
use crate::keeper::{DiskState, Keeper};
use crate::lease::Downs;
use crate::links::Links;
use crate::metrics::Metrics;
use crate::owner::Owners;
use crate::view::{Me, View};

/// The task that follows the map.
pub(crate) struct Follower {
    pub(crate) meta: Meta,
    pub(crate) links: Links,
    pub(crate) views: watch::Sender<Arc<View>>,
    pub(crate) owners: Arc<Owners>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) levels: Arc<Levels>,
    pub(crate) downs: Arc<Downs>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Follower {
    /// Follows until the cluster's agreement ends.
    pub(crate) async fn run(mut self) {
        let mut maps = self.meta.map();
        let mut incarnations = self.meta.incarnation();
        let mut unreachable = self.links.unreachable();
        let mut disk_states = self.keeper.watch_disk();
        // The start in which groups with a journal were given up, as the disk hung.
        let mut hung_in = None;
        let mut has_been = false;
        loop {
            let map = maps.borrow_and_update().clone();
            let incarnation = *incarnations.borrow_and_update();
            // The others have given this node up, and it counts as started anew in a moment: until then it goes on.
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
            self.downs.follow(&view.map, self.clock.monotonic_ms());
            let faults = self.owners.show(&view).await;
            let version = view.map.version;
            let before = self.views.borrow().map.clone();
            news::log(&before, &view.map);
            if before.version != version {
                tracing::info!(version, filters = view.filters.len(), faults = faults.len(), "a new map counts");
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

    /// Has the node count as started anew where its disk has hung, or has room again and the others go on without a
    /// copy: they treat its copies as those of another process. The agreement may have spared the copy late.
    fn begin_anew_after(&self, view: &View, hung_in: &mut Option<Incarnation>) {
        let Some(Me { incarnation, .. }) = view.me else { return };
        if view.disk == DiskState::Hangs {
            *hung_in = Some(incarnation);
            return;
        }
        let has_hung = hung_in.take() == Some(incarnation);
        if has_hung || view.disk == DiskState::Works && view.is_spared() && !view.is_needed_as_it_is() {
            self.meta.begin_anew(incarnation);
        }
    }

    /// This node, where the map shows this start of it.
    fn me(&self, map: &ClusterMap, incarnation: Incarnation) -> Option<Me> {
        let identity = self.meta.identity()?;
        let shown = map.nodes.get(&identity.node)?.incarnation;
        (shown == incarnation).then_some(Me { identity, incarnation })
    }
}
