//! The sampler of a node, which collects the console's overview once a second. All viewers share one sampler, and each
//! overview is serialized to JSON only once, so further viewers cost almost nothing. The sampler starts with the first
//! viewer. It ends some seconds after the last viewer has left, and the collected data is dropped then.

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
use super::rates::RecentSamples;
use super::sample::NodeSample;
use super::viewers::Viewers;
use super::work::Work;
use crate::health::Health;

/// Interval between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// Maximum number of filters in an overview. Further filters are only counted, but their alarms are included.
const FILTERS_MAX: usize = 256;

/// The source of overviews.
pub(crate) struct OverviewSource {
    pub(crate) health: Arc<Health>,
    /// Source of this node's own sample.
    pub(crate) own: Arc<NodeSample>,
    /// Opens connections to the other nodes.
    pub(crate) connector: Arc<dyn Connector>,
    /// Name of this node.
    pub(crate) name: String,
    /// Address under which other nodes and clients reach this node.
    pub(crate) address: String,
    /// Whether this node requires certificates.
    pub(crate) is_secure: bool,
    pub(crate) clock_skew_max_ms: u64,
}

/// An overview in JSON format.
pub(super) struct Frame {
    /// Time at which the overview was collected.
    pub(super) at_ms: MonotonicMs,
    /// Version of the history, which increases when the history changes.
    pub(super) step: u64,
    /// The overview with the history of the last ten minutes.
    pub(super) whole: Bytes,
    /// The overview without the history.
    pub(super) brief: Bytes,
}

/// The newest overview. `None` while there are no viewers.
pub(super) type Newest = Option<Arc<Frame>>;

/// Collects overviews whenever there are viewers.
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

/// State that is kept between two samples.
#[derive(Default)]
struct Sampler {
    peers: Peers,
    said: RecentSamples,
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

/// Truncates a list, and returns the number of removed elements.
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
        text: format!("{more} more alarms are omitted: handle these first"),
        ..Alarm::default()
    }
}

fn json(overview: &Overview) -> Option<Bytes> {
    let written = serde_json::to_vec(overview);
    if let Err(error) = &written {
        tracing::error!(%error, "the overview cannot be serialized");
    }
    written.ok().map(Bytes::from)
}
