//! The Producer service: streams of batches, descriptions of filters, and the map.
//!
//! Promises: a stream costs the node no more than its credit, whatever its producer does or fails to do. Must not know:
//! cells, agreement.

mod admit;
mod relay;
mod relays;
mod rights;
mod seen;
mod session;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use firstseen_meta::is_restoring;
use firstseen_routing::FilterVerb;
use firstseen_wire::map as wire_map;
use firstseen_wire::net::ObserveHere;
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

use crate::guest::{Guest, Needs, Right};
use crate::roles::{Caller, Role};
use crate::shared::Shared;
use crate::shares::Party;
use session::Session;

/// The Producer service.
pub(crate) struct ProducerService {
    shared: Arc<Shared>,
}

impl ProducerService {
    /// The service of this node.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

/// An open stream, with the counter of streams like it.
struct OpenStream(Arc<Shared>, fn(&Shared) -> &AtomicU32);

impl OpenStream {
    fn open(shared: &Arc<Shared>, count: fn(&Shared) -> &AtomicU32, streams_max: u32) -> Result<Self, Status> {
        let stream = Self(shared.clone(), count);
        if count(shared).fetch_add(1, Ordering::Relaxed) < streams_max {
            Ok(stream)
        } else {
            Err(ErrorKind::Overloaded.status(format!("the node has {streams_max} such streams, its limit")))
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.1(&self.0).fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves a stream of `guest`; returns its replies.
fn open(
    shared: &Arc<Shared>,
    party: Party,
    guest: Arc<Guest>,
    requests: impl Stream<Item = Result<ObserveRequest, Status>> + Send + Unpin + 'static,
) -> ObserveHere {
    let open = OpenStream::open(shared, |shared| &shared.open.streams, shared.config.limits.streams_max)?;
    let credits = shared.config.limits.inflight_batches_max as usize;
    // A reply for each batch of the credit, the welcome, and the status at the end.
    let (replies, outbound) = mpsc::channel(2 * credits + 2);
    let session = Session::new(shared.clone(), party, guest, replies);
    tokio::spawn(async move {
        session.run(requests).await;
        drop(open);
    });
    Ok(outbound)
}

/// Serves a stream of this node's own, which has passed no network and no gate: what comes on it was checked before.
pub(crate) fn open_own(shared: &Arc<Shared>, requests: mpsc::Receiver<ObserveRequest>) -> ObserveHere {
    let needs = Needs { role: Role::Producer, right: Some(Right::SomeFilter(FilterVerb::Observe)) };
    let map = shared.view().map.clone();
    let guest = Guest::enter((Caller::showing(None), None), ("own", needs), &map, &shared.audit)?;
    open(shared, Party::Producers, Arc::new(guest), ReceiverStream::new(requests).map(Ok))
}

#[tonic::async_trait]
impl Producer for ProducerService {
    type ObserveStream = ReceiverStream<Result<ObserveReply, Status>>;
    type WatchMapStream = Pin<Box<dyn Stream<Item = Result<ClusterMap, Status>> + Send>>;

    async fn observe(
        &self,
        request: Request<Streaming<ObserveRequest>>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        let guest = Guest::of(&request)?;
        let party = request.extensions().get().copied().unwrap_or(Party::Producers);
        let replies = open(&self.shared, party, guest, request.into_inner())?;
        Ok(Response::new(ReceiverStream::new(replies)))
    }

    async fn describe_filter(
        &self,
        request: Request<DescribeFilterRequest>,
    ) -> Result<Response<DescribeFilterReply>, Status> {
        let guest = Guest::of(&request)?;
        let name = request.into_inner().name;
        let view = self.shared.view();
        if view.me.is_none() {
            return Err(ErrorKind::Unavailable.status("this node belongs to no cluster yet"));
        }
        if let Some(lost) = self.shared.owners.loss().reason() {
            return Err(ErrorKind::Unavailable.status(lost));
        }
        let unknown = || ErrorKind::NotFound.status(format!("there is no filter `{name}` (map {})", view.map.version));
        // A filter that is being restored is there for operators only.
        let named = view.map.filter_named(&name).filter(|(_, record)| !is_restoring(&record.name));
        let for_rights = named.map_or(name.as_str(), |(_, record)| view.map.name_for_rights(record));
        guest.must_for(&view.map, for_rights)?;
        let (id, record) = named.ok_or_else(unknown)?;
        let hashes = guest.may_hash_for(&view.map, for_rights);
        let secret = |id| match self.shared.meta.secret(id) {
            Some(secret) if hashes => Ok(secret.0.to_vec()),
            Some(_) => Ok(Vec::new()),
            None => Err(unknown()),
        };
        let former = view.map.former_of(id);
        let former_secret = former.map(|(former, _)| secret(former)).transpose()?.unwrap_or_default();
        let former_clock_ms = match former {
            Some((former, _)) => self.shared.owners.clock_ms(former).await,
            None => None,
        };
        Ok(Response::new(DescribeFilterReply {
            filter: Some(wire_map::filter_message(id, record)),
            secret: secret(id)?.into(),
            clock_ms: written_ms(self.shared.owners.clock_ms(id).await),
            map_version: view.map.version,
            slices_ready: view.slices_ready(id),
            former: former.map(|(id, record)| wire_map::filter_message(id, record)),
            former_secret: former_secret.into(),
            former_clock_ms: written_ms(former_clock_ms),
            wall_ms: written_ms(self.shared.clocks.sure_wall_ms(self.shared.clock.now())),
        }))
    }

    async fn watch_map(&self, request: Request<WatchMapRequest>) -> Result<Response<Self::WatchMapStream>, Status> {
        let guest = Guest::of(&request)?;
        let open =
            OpenStream::open(&self.shared, |shared| &shared.open.watches, self.shared.config.limits.watches_max)?;
        let mut known_version = request.into_inner().known_version;
        let stopping = self.shared.departure.stopping.clone();
        let mut views = self.shared.views.clone();
        let (sender, outbound) = mpsc::channel(1);
        tokio::spawn(async move {
            let pump = async {
                loop {
                    // An update is made when it can be taken: a slow client keeps one update waiting, not two.
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
