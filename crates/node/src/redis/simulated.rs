//! The Redis endpoint of a simulated node. A single task serves all connections, because a simulation has only one
//! thread.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use firstseen_backend::Host;
use firstseen_door::{Arrival, Door};
use firstseen_routing::rules::Rule;
use tokio_stream::StreamExt;
use tonic::transport::server::Connected;

use super::CLIENTS;
use crate::doors::{DoorPlace, NodeHost};
use crate::edges::{Connection, Incoming};

/// Serves Redis clients until the node stops.
pub(super) async fn serve(place: DoorPlace, door: Arc<Door>, host: Arc<NodeHost>, incoming: Incoming) {
    let DoorPlace { node, clients, doors, stop, .. } = place;
    let connecting = clients.connect(CLIENTS, door.verdict_timeout());
    let Some(client) = stop.run_until_cancelled(connecting).await else { return };
    let (_, attendant) = door.attendant(client, true);
    let _ = doors.redis.set(door.counts());
    let arrivals = incoming.filter_map(move |accepted| accepted.ok().map(|connection| arrival(&host, connection)));
    let keeps_rule = node.rules.keep(Rule::DoorConfirmsBeforeStop);
    let attendant = if keeps_rule { attendant } else { attendant.without_confirms_at_stop() };
    attendant.serve_arrivals(arrivals, stop).await;
}

/// Returns a new connection with its client, if the network vouches for the client or if the client needs no token.
fn arrival(host: &NodeHost, connection: Connection) -> Arrival<Connection> {
    let unknown = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let from = connection.connect_info().remote_addr().unwrap_or(unknown);
    let guest = match connection.vouched() {
        Some(vouched) => host.vouched_for(vouched, from),
        None => host.known(None, from),
    };
    Arrival { stream: connection, from, guest }
}
