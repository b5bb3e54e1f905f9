//! Where connections get in, and what is known of each as long as it is open.
//!
//! Promises: a connection that has to go hears of it at once; one that is closed has given its place back. Must not
//! know: what connections carry, who has to go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstseen_routing::{MonotonicMs, TokenId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::transport::CertificateDer;

use super::hall::{Hall, Seated};
use crate::metrics::ConnectionMeter;
use crate::shares::Party;

/// The certificates of a connection, its own first.
type Certificates = Arc<Vec<CertificateDer<'static>>>;

#[derive(Clone)]
struct Shown {
    certificates: Certificates,
    close: CancellationToken,
}

/// Where connections get in.
pub(crate) struct Entrance {
    hall: Mutex<Hall>,
    /// The certificates that open connections have shown, with what closes each.
    shown: Mutex<BTreeMap<u64, Shown>>,
    began: Instant,
    meter: ConnectionMeter,
}

impl Entrance {
    /// An entrance with so many places, and so many for connections whose role is not known yet.
    pub(crate) fn new(places: u32, unknown_max: u32, meter: ConnectionMeter) -> Arc<Self> {
        let hall = Mutex::new(Hall::new(places, unknown_max));
        Arc::new(Self { hall, shown: Mutex::default(), began: Instant::now(), meter })
    }

    /// Closes connections whose certificates `accepts` refuses; returns how many.
    pub(crate) fn close_where(&self, accepts: impl Fn(&[CertificateDer<'_>]) -> Result<(), String>) -> usize {
        let shown: Vec<Shown> = self.shown().values().cloned().collect();
        let refused = shown.iter().filter(|shown| match accepts(&shown.certificates) {
            Ok(()) => false,
            Err(reason) => {
                tracing::info!(reason, "a connection is closed, as its certificate is accepted no more");
                true
            }
        });
        refused.map(|shown| shown.close.cancel()).count()
    }

    fn shown(&self) -> MutexGuard<'_, BTreeMap<u64, Shown>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A peer has connected, whose role is not known.
    pub(super) fn come(self: &Arc<Self>) -> ConnectionPlace {
        let closed = CancellationToken::new();
        let (number, is_full) = self.hall().come(closed.clone());
        self.meter.open.inc();
        self.meter.closed.inc_by(u64::from(is_full));
        ConnectionPlace { seat: Seat { entrance: self.clone(), number, token: Arc::default() }, closed }
    }

    fn hall(&self) -> MutexGuard<'_, Hall> {
        self.hall.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> MonotonicMs {
        MonotonicMs(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn count(&self, seated: Seated) -> bool {
        match seated {
            Seated::Here => {}
            Seated::InsteadOfAnother => drop(self.meter.closed.inc()),
            Seated::Nowhere => drop(self.meter.refused.inc()),
        }
        seated != Seated::Nowhere
    }
}

/// The place of a connection, as long as it is open.
pub(crate) struct ConnectionPlace {
    seat: Seat,
    closed: CancellationToken,
}

impl ConnectionPlace {
    /// The connection's party is known now; false where there is no room for it.
    pub(super) fn known(&self, party: Party) -> bool {
        let Seat { entrance, number, .. } = &self.seat;
        let seated = entrance.hall().seat(*number, party, entrance.now_ms());
        entrance.count(seated)
    }

    /// The connection has shown these certificates.
    pub(super) fn show(&self, certificates: Certificates) {
        let Seat { entrance, number, .. } = &self.seat;
        entrance.shown().insert(*number, Shown { certificates, close: self.closed.clone() });
    }

    /// Cancelled when the connection is to be closed.
    pub(super) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// The counter of the connection's calls.
    pub(super) fn seat(&self) -> Seat {
        self.seat.clone()
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let Seat { entrance, number, .. } = &self.seat;
        entrance.shown().remove(number);
        entrance.hall().leave(*number);
        entrance.meter.open.dec();
    }
}

/// The counter of the calls of a connection.
#[derive(Clone)]
pub(crate) struct Seat {
    entrance: Arc<Entrance>,
    number: u64,
    /// The token that the connection's newest call has shown.
    token: Arc<Mutex<Option<TokenId>>>,
}

impl Seat {
    /// Whether a call is the first that shows this token, after others or none.
    pub(crate) fn is_first_of(&self, token: TokenId) -> bool {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).replace(token) != Some(token)
    }

    /// A call begins that is usual for one of `party`; returns the party of its connection. None where there is no room
    /// for that, and the connection is closed.
    pub(crate) fn begin_call(&self, party: Party) -> Option<(Party, OpenCall)> {
        let (party, seated) = self.entrance.hall().begin_call(self.number, party, self.entrance.now_ms());
        self.entrance.count(seated).then(|| (party, OpenCall(self.clone())))
    }
}

/// A call that is under way.
pub(crate) struct OpenCall(Seat);

impl Drop for OpenCall {
    fn drop(&mut self) {
        let Seat { entrance, number, .. } = &self.0;
        entrance.hall().end_call(*number, entrance.now_ms());
    }
}
