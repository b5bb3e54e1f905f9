//! The threads that serve the connections of Redis clients. Every thread connects to the cluster before it serves a
//! connection, so the endpoint accepts connections only when the node can process their commands.

use std::sync::Arc;

use firstseen_door::Door;
use tokio::net::TcpListener;

use super::CLIENTS;
use crate::doors::DoorPlace;
use crate::doors::threads::DoorThreads;

/// Serves Redis clients until the node stops.
pub(super) async fn serve(place: DoorPlace, door: Arc<Door>, count: usize, listener: TcpListener) {
    let DoorPlace { clients, doors, stop, .. } = place;
    let threads = DoorThreads { name: "redis", clients: CLIENTS, count, stop: &stop };
    let started = threads.start(|is_first| {
        let door = door.clone();
        let own_clients = clients.clone();
        let stop = stop.clone();
        move || async move {
            let connecting = own_clients.connect(CLIENTS, door.verdict_timeout());
            let client = stop.run_until_cancelled(connecting).await?;
            let (sender, attendant) = door.attendant(client, is_first);
            Some((sender, attendant.serve(stop)))
        }
    });
    let Some(attendants) = started.await else { return };
    let _ = doors.redis.set(door.counts());
    door.serve(listener, &attendants, stop).await;
}
