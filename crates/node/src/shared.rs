//! What the services of a node share.
//!
//! Promises: no lock of these is held while a task waits. Must not know: services.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use firstseen_client::Levels;
use firstseen_door::DoorCounts;
use firstseen_http_door::HttpCounts;
use firstseen_meta::Meta;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_wire::net::Connector;
use firstseen_wire::watch;
use tokio_util::sync::CancellationToken;

use crate::audit::Audit;
use crate::budget::Budget;
use crate::clock::Clock;
use crate::clocks::Clocks;
use crate::config::NodeConfig;
use crate::folder_watch::FolderWatch;
use crate::ids::Ids;
use crate::keeper::Keeper;
use crate::lease::{self, Downs};
use crate::metrics::Metrics;
use crate::owner::Owners;
use crate::quotas::Quotas;
use crate::view::View;

/// What the services of a node share.
pub(crate) struct Shared {
    /// The settings.
    pub(crate) config: NodeConfig,
    /// Where others reach the node.
    pub(crate) address: String,
    /// Whether callers show certificates.
    pub(crate) is_secure: bool,
    /// The client for other levels of trees.
    pub(crate) levels: Levels,
    /// The cluster's agreement.
    pub(crate) meta: Meta,
    /// The owners of slices.
    pub(crate) owners: Owners,
    /// The keeper of the journal.
    pub(crate) keeper: Arc<Keeper>,
    /// The look after the data folder.
    pub(crate) folder: Arc<FolderWatch>,
    /// The views that the node acts on.
    pub(crate) views: watch::Receiver<Arc<View>>,
    /// Opens connections to other nodes.
    pub(crate) connector: Arc<dyn Connector>,
    /// The node's knowledge of clocks, and until when they let it record.
    pub(crate) clocks: Arc<Clocks>,
    /// The time since when others are down.
    pub(crate) downs: Downs,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// The node's metrics.
    pub(crate) metrics: Arc<Metrics>,
    /// Where it is written down who did what.
    pub(crate) audit: Arc<Audit>,
    /// Names for commands.
    pub(crate) ids: Ids,
    /// How far the node has come on the way to its end.
    pub(crate) departure: Departure,
    /// The rules that the node keeps.
    pub(crate) rules: Rules,
    /// Bytes that are under way.
    pub(crate) budget: Arc<Budget>,
    /// What the node serves at present.
    pub(crate) open: OpenCounts,
}

/// How far a node has come on the way to its end: first it is about to drain, and last its journal is written.
#[derive(Default)]
pub(crate) struct Departure {
    /// The node is about to drain: it still serves, for as long as other copies fetch cells that only it has.
    pub(crate) leaving: AtomicBool,
    /// Cancelled when the doors for Redis and HTTP clients close, while the node still takes batches: that for Redis confirms
    /// claims then.
    pub(crate) door_closed: CancellationToken,
    /// No new batches are taken.
    pub(crate) draining: AtomicBool,
    /// Cancelled when no new batches are taken.
    pub(crate) drained: CancellationToken,
    /// Streams and links end now.
    pub(crate) stopping: CancellationToken,
    /// All records are written, and no more come.
    pub(crate) kept: CancellationToken,
}

/// What a node serves at present.
#[derive(Default)]
pub(crate) struct OpenCounts {
    /// Producer streams that are open.
    pub(crate) streams: AtomicU32,
    /// Streams on which the map is sent.
    pub(crate) watches: AtomicU32,
    /// Batches of all streams that are not answered.
    pub(crate) batches: AtomicU64,
    /// What principals have used of their quotas.
    pub(crate) quotas: Quotas,
    /// What has happened at the door for Redis clients, once it is open.
    pub(crate) door: OnceLock<Arc<DoorCounts>>,
    /// What has happened at the door for HTTP clients, once it is open.
    pub(crate) http_door: OnceLock<Arc<HttpCounts>>,
}

impl Shared {
    /// The view that the node acts on now.
    pub(crate) fn view(&self) -> Arc<View> {
        self.views.borrow().clone()
    }

    /// Whether no new batches are taken.
    pub(crate) fn is_draining(&self) -> bool {
        self.departure.draining.load(Ordering::Relaxed)
    }

    /// The text of the metrics, gathered now.
    pub(crate) async fn metrics_text(&self) -> Result<String, std::fmt::Error> {
        let looks = self.owners.look(None).await;
        self.metrics.text(self, &looks)
    }

    /// Why the process must be started again; none where it works.
    pub(crate) fn not_alive(&self) -> Option<String> {
        let stopped =
            || "the consensus of this node has stopped: start the node again, and see its log for the cause".to_owned();
        self.owners.loss().reason().or_else(|| (!self.meta.is_alive()).then(stopped))
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

    /// Why the node cannot serve all that it should; none where it can.
    pub(crate) fn not_ready(&self) -> Option<String> {
        if let Some(dead) = self.not_alive() {
            return Some(dead);
        }
        if self.is_draining() || self.departure.leaving.load(Ordering::Relaxed) {
            return Some("the node is about to stop".to_owned());
        }
        if let Some(not_kept) = self.folder.not_kept() {
            return Some(not_kept);
        }
        if self.keeper.is_full() {
            return Some(
                "the disk of the journal is full: events of durable filters are refused until it has room".to_owned(),
            );
        }
        if *self.meta.disk_hangs().borrow() {
            return Some(
                "the disk of the data folder hangs: the node hears nothing of what the cluster agrees on, and the others go on \
                 without it until the disk answers"
                    .to_owned(),
            );
        }
        if *self.meta.short_of_room().borrow() {
            return Some(
                "the disk of the data folder is nearly full, and the room that was kept back is for what the cluster agrees \
                 on: events of durable filters and changes that can wait are refused until it has room"
                    .to_owned(),
            );
        }
        if self.meta.has_left() {
            return Some("the node has left its cluster for good: stop it and remove its data".to_owned());
        }
        let catching_up = || {
            let groups = self.owners.catching_up();
            (groups > 0)
                .then(|| format!("{groups} groups here are being sent what they have missed by the other nodes"))
        };
        let view = self.view();
        let not_whole = || view.not_whole().or_else(catching_up);
        let not_held = || lease::not_held(self.clocks.lease().newest(), self.clock.now());
        let not_sure = || self.clocks.not_sure(self.clock.now());
        self.displaced(&view)
            .or_else(|| view.not_ready())
            .or_else(not_held)
            .or_else(not_sure)
            .or_else(|| not_whole().filter(|_| self.rules.keep(Rule::ReadyWhenWhole)))
    }
}
