//! The gRPC service for producers. Through this service, a producer sends streams of batches, requests descriptions of
//! filters, and receives updates of the cluster map. The node grants each stream a credit, which limits the number of
//! unanswered batches. Whatever a producer does, its stream cannot use more resources of the node than this credit
//! allows.

mod admit;
mod relay;
mod relays;
mod rights;
mod session;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use firstseen_meta::{Meta, is_restoring};
use firstseen_routing::rules::Rules;
use firstseen_routing::{FilterId, FilterVerb};
use firstseen_wire::map as wire_map;
use firstseen_wire::net::{Connector, ObserveHere};
use firstseen_wire::proto::producer::producer_server::Producer;
use firstseen_wire::proto::producer::{
    ClusterMap, DescribeFilterReply, DescribeFilterRequest, ObserveReply, ObserveRequest, WatchMapRequest,
};
use firstseen_wire::status::ErrorKind;
use firstseen_wire::ticks::written_ms;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use crate::audit::Audit;
use crate::authenticated_caller::{AuthenticatedCaller, Call, Needs, Right};
use crate::budget::Budget;
use crate::clock::Clock;
use crate::clocks::Clocks;
use crate::config::Limits;
use crate::metrics::Metrics;
use crate::open_counts::OpenCounts;
use crate::owner::Owners;
use crate::quotas::Quotas;
use crate::roles::{Caller, Role};
use crate::shares::Party;
use crate::shutdown::Shutdown;
use crate::view::Views;
use session::Session;

/// Services of the node that producer streams use.
pub(crate) struct StreamContext {
    pub(crate) views: Views,
    pub(crate) owners: Arc<Owners>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) open: Arc<OpenCounts>,
    pub(crate) departure: Arc<Shutdown>,
    pub(crate) audit: Arc<Audit>,
    /// Opens connections to the nodes that batches are forwarded to.
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) limits: Limits,
    pub(crate) rules: Rules,
}

/// The Producer service.
pub(crate) struct ProducerService {
    pub(crate) streams: Arc<StreamContext>,
    pub(crate) meta: Meta,
    pub(crate) clocks: Arc<Clocks>,
}

/// An open stream. It decrements the counter of its kind of streams when it is dropped.
struct OpenStream {
    counts: Arc<OpenCounts>,
    count: fn(&OpenCounts) -> &AtomicU32,
}

impl OpenStream {
    fn open(counts: &Arc<OpenCounts>, count: fn(&OpenCounts) -> &AtomicU32, streams_max: u32) -> Result<Self, Status> {
        let stream = Self { counts: counts.clone(), count };
        if count(counts).fetch_add(1, Ordering::Relaxed) < streams_max {
            Ok(stream)
        } else {
            Err(ErrorKind::Overloaded
                .status(format!("the node already has {streams_max} streams of this kind, which is its limit")))
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        (self.count)(&self.counts).fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves a stream of the client `guest`, and returns the receiver of its replies.
fn open(
    context: &Arc<StreamContext>,
    party: Party,
    guest: Arc<AuthenticatedCaller>,
    requests: impl Stream<Item = Result<ObserveRequest, Status>> + Send + Unpin + 'static,
) -> ObserveHere {
    let open = OpenStream::open(&context.open, |counts| &counts.streams, context.limits.streams_max)?;
    let credits = context.limits.inflight_batches_max as usize;
    // The channel has room for a reply to each batch of the credit, for the welcome message, and for the final status.
    let (replies, outbound) = mpsc::channel(2 * credits + 2);
    let session = Session::new(context.clone(), party, guest, replies);
    tokio::spawn(async move {
        session.run(requests).await;
        drop(open);
    });
    Ok(outbound)
}

/// Serves a stream on which this node submits events to itself, for example the events of Redis clients. The requests
/// on such a stream do not pass the network. Access rights are not checked here, because the Redis endpoint or HTTP
/// endpoint has already checked the rights of its client.
pub(crate) fn open_own(context: &Arc<StreamContext>, requests: mpsc::Receiver<ObserveRequest>) -> ObserveHere {
    let needs = Needs { role: Role::Producer, right: Some(Right::SomeFilter(FilterVerb::Observe)) };
    let map = context.views.borrow().map.clone();
    let guest =
        AuthenticatedCaller::enter(Caller::showing(None), None, Call { path: "own", needs }, &map, &context.audit)?;
    open(context, Party::Producers, Arc::new(guest), ReceiverStream::new(requests).map(Ok))
}

impl ProducerService {
    /// Returns the secret of a filter, and the secret of its predecessor if there is one. `None` means that this node
    /// does not know these secrets.
    fn secrets(&self, id: FilterId, former: Option<FilterId>) -> Option<(Vec<u8>, Vec<u8>)> {
        let secret = self.meta.secret(id)?.0.to_vec();
        let former_secret = match former {
            Some(former) => self.meta.secret(former)?.0.to_vec(),
            None => Vec::new(),
        };
        Some((secret, former_secret))
    }
}

#[tonic::async_trait]
impl Producer for ProducerService {
    type ObserveStream = ReceiverStream<Result<ObserveReply, Status>>;
    type WatchMapStream = Pin<Box<dyn Stream<Item = Result<ClusterMap, Status>> + Send>>;

    async fn observe(
        &self,
        request: Request<Streaming<ObserveRequest>>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        let guest = AuthenticatedCaller::of(&request)?;
        let party = request.extensions().get().copied().unwrap_or(Party::Producers);
        let replies = open(&self.streams, party, guest, request.into_inner())?;
        Ok(Response::new(ReceiverStream::new(replies)))
    }

    async fn describe_filter(
        &self,
        request: Request<DescribeFilterRequest>,
    ) -> Result<Response<DescribeFilterReply>, Status> {
        let guest = AuthenticatedCaller::of(&request)?;
        let name = request.into_inner().name;
        let view = self.streams.views.newest();
        let owners = &self.streams.owners;
        if view.me.is_none() {
            return Err(ErrorKind::Unavailable.status("this node belongs to no cluster yet"));
        }
        if let Some(lost) = owners.loss().reason() {
            return Err(ErrorKind::Unavailable.status(lost));
        }
        // Only operators can see a filter that is being restored.
        let named = view.map.filter_named(&name).filter(|(_, record)| !is_restoring(&record.name));
        let for_rights = named.map_or(name.as_str(), |(_, record)| view.map.name_for_rights(record));
        guest.must_for(&view.map, for_rights)?;
        let former = named.and_then(|(id, _)| view.map.former_of(id));
        let secrets = named.and_then(|(id, _)| self.secrets(id, former.map(|(former, _)| former)));
        let Some(((id, record), (mut secret, mut former_secret))) = named.zip(secrets) else {
            let unknown = format!("there is no filter `{name}` (map {})", view.map.version);
            return Err(ErrorKind::NotFound.status(unknown));
        };
        if !guest.may_hash_for(&view.map, for_rights) {
            secret.clear();
            former_secret.clear();
        }
        let former_clock_ms = match former {
            Some((former, _)) => owners.clock_ms(former).await,
            None => None,
        };
        Ok(Response::new(DescribeFilterReply {
            filter: Some(wire_map::filter_message(id, record)),
            secret: secret.into(),
            clock_ms: written_ms(owners.clock_ms(id).await),
            map_version: view.map.version,
            slices_ready: view.slices_ready(id),
            former: former.map(|(id, record)| wire_map::filter_message(id, record)),
            former_secret: former_secret.into(),
            former_clock_ms: written_ms(former_clock_ms),
            wall_ms: written_ms(self.clocks.reliable_wall_ms(self.streams.clock.now())),
        }))
    }

    async fn watch_map(&self, request: Request<WatchMapRequest>) -> Result<Response<Self::WatchMapStream>, Status> {
        let guest = AuthenticatedCaller::of(&request)?;
        let StreamContext { open, limits, departure, views, .. } = &*self.streams;
        let open = OpenStream::open(open, |counts| &counts.watches, limits.watches_max)?;
        let mut known_version = request.into_inner().known_version;
        let stopping = departure.stopping.clone();
        let mut views = views.clone();
        let (sender, outbound) = mpsc::channel(1);
        tokio::spawn(async move {
            let pump = async {
                loop {
                    // An update is created only when the client can receive it. A slow client therefore keeps at most
                    // one update in memory.
                    let Ok(room) = sender.reserve().await else { return };
                    let map = views.borrow_and_update().map.clone();
                    if let Err(status) = guest.must_still(&map) {
                        return room.send(Err(status));
                    }
                    if map.version > known_version {
                        known_version = map.version;
                        room.send(Ok(ClusterMap::from(&*guest.visible(&map))));
                    }
                    if views.changed().await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = sender.closed() => {}
                () = pump => {}
            }
            drop(open);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outbound))))
    }
}
