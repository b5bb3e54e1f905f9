//! The door for Redis clients in this node: where it listens, and how it closes.
//!
//! This module must not depend on the commands of Redis clients.

mod simulated;
mod threads;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use firstseen_door::{Door, DoorSettings};
use firstseen_wire::tls::ServerTls;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::departure::Departure;
use crate::doors::own_client::OwnClients;
use crate::doors::{DoorContext, NodeHost, REPLIES_LOOK, replied};
use crate::edges::RedisListener;
use crate::open_counts::OpenDoors;

/// What calls at the door are called where it is written down who did what.
const CALL: &str = "redis";
/// What its clients are called in the log.
const CLIENTS: &str = "Redis clients";

/// The place of the door in the node.
pub(crate) struct RedisPlace {
    pub(crate) settings: DoorSettings,
    pub(crate) node: Arc<DoorContext>,
    pub(crate) clients: Arc<OwnClients>,
    pub(crate) doors: Arc<OpenDoors>,
    /// The name of the node.
    pub(crate) name: String,
    /// Cancelled when the door closes: nothing new is taken up then, and what is under way is replied to.
    pub(crate) stop: CancellationToken,
}

impl RedisPlace {
    /// Opens the door, and returns its address.
    pub(crate) fn open(self, listener: RedisListener, tls: Option<ServerTls>) -> Option<SocketAddr> {
        let address = listener.local_addr();
        let tls = tls.filter(|_| self.settings.tls);
        let host = Arc::new(NodeHost::new(self.node.clone(), CALL, tls.clone()));
        let door = Arc::new(Door::new(self.settings.clone(), host.clone(), tls, &self.name));
        match listener {
            RedisListener::Tcp(listener) => {
                tokio::spawn(threads::serve(self, door, listener));
            }
            RedisListener::Simulated(incoming) => {
                tokio::spawn(simulated::serve(self, door, host, incoming));
            }
        }
        address
    }
}

/// Closes the door for Redis clients. Waits until open connections have their replies, for [`REPLIES_MAX`](crate::doors::REPLIES_MAX) at most, and then until the
/// door has confirmed its pending claims, for `confirms_max` at most.
pub(crate) async fn close(departure: &Departure, doors: &OpenDoors, confirms_max: Duration) {
    departure.door_closed.cancel();
    let Some(door) = doors.redis.get() else { return };
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
