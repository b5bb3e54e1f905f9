//! The door for Redis clients in this node: where it listens, and how it closes.
//!
//! This module must not depend on the commands of Redis clients.

mod simulated;
mod threads;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use firstseen_door::Door;
use firstseen_wire::tls::ServerTls;
use tokio::time::{Instant, sleep};

use crate::doors::{NodeHost, REPLIES_LOOK, replied};
use crate::edges::RedisListener;
use crate::shared::Shared;

/// What calls at the door are called where it is written down who did what.
const CALL: &str = "redis";
/// What its clients are called in the log.
const CLIENTS: &str = "Redis clients";

/// Opens the door if the settings have one, and returns its address.
pub(crate) fn open(
    listener: Option<RedisListener>,
    tls: Option<ServerTls>,
    shared: &Arc<Shared>,
) -> Option<SocketAddr> {
    let (listener, settings) = (listener?, shared.config.redis.clone()?);
    let address = listener.local_addr();
    let tls = tls.filter(|_| settings.tls);
    let host = Arc::new(NodeHost::new(shared.clone(), CALL, tls.clone()));
    let threads = settings.threads;
    let door = Arc::new(Door::new(settings, host.clone(), tls, &shared.config.name));
    match listener {
        RedisListener::Tcp(listener) => {
            let threads = crate::doors::threads::count(threads);
            tokio::spawn(threads::serve(door, threads, listener, shared.clone()));
        }
        RedisListener::Simulated(incoming) => {
            tokio::spawn(simulated::serve(door, host, incoming, shared.clone()));
        }
    }
    address
}

/// Closes the door for Redis clients. Waits until open connections have their replies, for [`REPLIES_MAX`](crate::doors::REPLIES_MAX) at most, and then until the
/// door has confirmed its pending claims, for `confirms_max` at most.
pub(crate) async fn close(shared: &Shared, confirms_max: Duration) {
    shared.departure.door_closed.cancel();
    let Some(door) = shared.open.door.get() else { return };
    replied(|| door.open()).await;
    let until = Instant::now() + confirms_max;
    while door.confirms_waiting() > 0 {
        if Instant::now() >= until {
            let claims = door.confirms_waiting();
            tracing::warn!(
                claims,
                "the node stops before the door has confirmed all claims: their events are new to the next client"
            );
            return;
        }
        sleep(REPLIES_LOOK).await;
    }
}
