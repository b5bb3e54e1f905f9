//! The threads that serve Redis clients.
//!
//! Nobody is accepted before the node can be asked. This module must not depend on who may come in.

use std::sync::Arc;

use firstseen_door::Door;
use tokio::net::TcpListener;

use crate::doors::own_client;
use crate::doors::threads::DoorThreads;
use crate::shared::Shared;

/// Serves Redis clients until the node stops.
pub(super) async fn serve(door: Arc<Door>, count: usize, listener: TcpListener, shared: Arc<Shared>) {
    // Nothing new is taken up then, and what is under way is replied to.
    let stop = shared.departure.door_closed.clone();
    let threads = DoorThreads { name: "redis", clients: super::CLIENTS, count, stop: &stop };
    let attendant = |is_first| {
        let (door, shared, stop) = (door.clone(), shared.clone(), stop.clone());
        move || async move {
            let connecting = own_client::connect(&shared, super::CLIENTS, door.verdict_timeout());
            let client = stop.run_until_cancelled(connecting).await?;
            let (sender, attendant) = door.attendant(client, is_first);
            Some((sender, attendant.serve(stop)))
        }
    };
    let Some(attendants) = threads.start(attendant).await else { return };
    let _ = shared.open.door.set(door.counts());
    door.serve(listener, &attendants, stop).await;
}
