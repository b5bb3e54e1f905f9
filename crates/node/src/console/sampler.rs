//! The sampler of a node: it gathers the overview once a second while somebody looks.
//!
//! Promises: there is one, however many look; it begins with the first who looks, and ends some seconds after the last, with all
//! that it has gathered; the overview is written once for all of them. Must not know: who looks, over which connection.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use firstseen_routing::{MonotonicMs, NodeId};
use firstseen_wire::net::Connector;
use firstseen_wire::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::alarms::{ALARMS_MAX, alarms};
use super::gather::{Known, gather};
use super::history::Histories;
use super::overview::{Alarm, ClusterLine, Overview, Severity};
use super::peers::{NODES_MAX, Peers};
use super::rates::Said;
use super::sample::NodeSample;
use super::viewers::Viewers;
use super::work::Work;
use crate::health::Health;

/// The time between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// Filters that an overview shows; those that follow are counted, and have their alarms.
const FILTERS_MAX: usize = 256;

/// The source of overviews.
pub(crate) struct OverviewSource {
    pub(crate) health: Arc<Health>,
    /// What this node says of itself.
    pub(crate) own: Arc<NodeSample>,
    /// Opens connections to the other nodes.
    pub(crate) connector: Arc<dyn Connector>,
    /// The name of this node.
    pub(crate) name: String,
    /// Where others reach it.
    pub(crate) address: String,
    /// Whether it asks for certificates.
    pub(crate) is_secure: bool,
    pub(crate) clock_skew_max_ms: u64,
}

/// One overview as JSON.
pub(super) struct Frame {
    /// When it was gathered.
    pub(super) at_ms: MonotonicMs,
    /// Rises when the history changes.
    pub(super) step: u64,
    /// With the last ten minutes.
    pub(super) whole: Bytes,
    /// Without them.
    pub(super) brief: Bytes,
}

/// The newest overview; none while nobody looks.
pub(super) type Newest = Option<Arc<Frame>>;

/// Gathers whenever somebody looks.
pub(super) async fn run(source: OverviewSource, viewers: Arc<Viewers>, newest: watch::Sender<Newest>) {
    loop {
        viewers.come().await;
        let mut sampler = Sampler::default();
        let mut second = interval(SAMPLE_EVERY);
        second.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while viewers.look() {
            second.tick().await;
            newest.send(sampler.frame(&source).await.map(Arc::new));
        }
        newest.send(None);
    }
}

/// What is remembered from second to second.
#[derive(Default)]
struct Sampler {
    peers: Peers,
    said: Said,
    work: Work,
    histories: Histories,
    step: u64,
}

impl Sampler {
    async fn frame(&mut self, source: &OverviewSource) -> Option<Frame> {
        let answers = self.peers.ask(&source.own, &*source.connector).await;
        let at_ms = source.health.clock.monotonic_ms();
        self.said.take(at_ms.0, answers);
        let mut overview = self.overview(source, at_ms);
        let series = overview.filters.iter().map(|filter| (Some(filter.number), &filter.verdicts));
        if self.histories.take(std::iter::once((None, &overview.verdicts)).chain(series)) {
            self.step += 1;
        }
        let brief = json(&overview)?;
        overview.history = Some(self.histories.of(None));
        for filter in &mut overview.filters {
            filter.history = Some(self.histories.of(Some(filter.number)));
        }
        Some(Frame { at_ms, step: self.step, whole: json(&overview)?, brief })
    }

    fn overview(&mut self, source: &OverviewSource, at_ms: MonotonicMs) -> Overview {
        let Health { meta, clocks, views, clock, .. } = &*source.health;
        let view = views.newest();
        let leader = meta.status().leader;
        let now = clock.now();
        let known = Known {
            map: &view.map,
            cluster: ClusterLine {
                id: meta.identity().map(|identity| identity.cluster.to_string()).unwrap_or_default(),
                node: source.name.clone(),
                address: source.address.clone(),
                tls: source.is_secure,
                leader: leader.and_then(|leader| Some(view.map.nodes.get(&leader)?.name.clone())),
                map_version: view.map.version,
                format: view.map.format.0,
                clock_skew_max_ms: source.clock_skew_max_ms,
            },
            now_ms: now.wall_ms,
            me: view.node(),
            leader,
            unreachable: &view.unreachable,
            clocks: clocks
                .of_nodes(now, &view)
                .into_iter()
                .map(|clock| (NodeId(clock.node_id), clock.ahead_ms))
                .collect(),
            said: &self.said,
        };
        let mut overview = gather(&known, &mut self.work, at_ms.0 / 1000);
        overview.nodes_left_out = cut(&mut overview.nodes, NODES_MAX);
        overview.alarms = alarms(&overview);
        let more = cut(&mut overview.alarms, ALARMS_MAX);
        if more > 0 {
            overview.alarms.push(left_out(more));
        }
        overview.filters_left_out = cut(&mut overview.filters, FILTERS_MAX);
        overview
    }
}

/// Keeps the first of a list; returns how many are left out.
fn cut<T>(all: &mut Vec<T>, most: usize) -> usize {
    let more = all.len().saturating_sub(most);
    all.truncate(most);
    more
}

fn left_out(more: usize) -> Alarm {
    Alarm {
        severity: Severity::Warning,
        kind: "more".to_owned(),
        subject: "more alarms".to_owned(),
        text: format!("{more} more alarms are left out: look after these first"),
        ..Alarm::default()
    }
}

fn json(overview: &Overview) -> Option<Bytes> {
    let written = serde_json::to_vec(overview);
    if let Err(error) = &written {
        tracing::error!(%error, "the overview cannot be written");
    }
    written.ok().map(Bytes::from)
}
