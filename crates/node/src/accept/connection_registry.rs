//! The open connections of a listener. The number of connections is limited, so every open connection occupies one of a
//! fixed number of slots, and releases its slot when it is closed.
//!
//! If a new connection needs a slot and all slots are taken, an older connection must be closed to make room. This
//! module tells that older connection to close itself at once.
//!
//! The choice of the connection to close is made in `connection_slots.rs`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstseen_routing::{MonotonicMs, TokenId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::transport::CertificateDer;

use super::connection_slots::{ConnectionSlots, SlotOutcome};
use crate::metrics::ConnectionMeter;
use crate::shares::Party;

/// The certificates that the peer of a connection presented. The first one is the peer's own certificate.
type Certificates = Arc<Vec<CertificateDer<'static>>>;

#[derive(Clone)]
struct Shown {
    certificates: Certificates,
    close: CancellationToken,
}

/// The set of open connections of a listener.
pub(crate) struct ConnectionRegistry {
    slots: Mutex<ConnectionSlots>,
    /// Certificates that the peers of open connections presented, with the tokens that close these connections.
    shown: Mutex<BTreeMap<u64, Shown>>,
    began: Instant,
    meter: ConnectionMeter,
}

impl ConnectionRegistry {
    /// Creates a registry with `places` slots for connections whose role is known, and `unknown_max` slots for other
    /// connections.
    pub(crate) fn new(places: u32, unknown_max: u32, meter: ConnectionMeter) -> Arc<Self> {
        let slots = Mutex::new(ConnectionSlots::new(places, unknown_max));
        Arc::new(Self { slots, shown: Mutex::default(), began: Instant::now(), meter })
    }

    /// Closes the connections whose certificates are rejected by `accepts`, and returns their number.
    pub(crate) fn close_where(&self, accepts: impl Fn(&[CertificateDer<'_>]) -> Result<(), String>) -> usize {
        let shown: Vec<Shown> = self.shown().values().cloned().collect();
        let refused = shown.iter().filter(|shown| match accepts(&shown.certificates) {
            Ok(()) => false,
            Err(reason) => {
                tracing::info!(reason, "a connection is closed because its certificate is no longer accepted");
                true
            }
        });
        refused.map(|shown| shown.close.cancel()).count()
    }

    fn shown(&self) -> MutexGuard<'_, BTreeMap<u64, Shown>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a new connection, whose role is not known yet.
    pub(super) fn come(self: &Arc<Self>) -> ConnectionPlace {
        let closed = CancellationToken::new();
        let (number, is_full) = self.slots().come(closed.clone());
        self.meter.open.inc();
        self.meter.closed.inc_by(u64::from(is_full));
        ConnectionPlace { slot: ConnectionSlot { registry: self.clone(), number, token: Arc::default() }, closed }
    }

    fn slots(&self) -> MutexGuard<'_, ConnectionSlots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> MonotonicMs {
        MonotonicMs(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn count(&self, seated: SlotOutcome) -> bool {
        match seated {
            SlotOutcome::Here => {}
            SlotOutcome::InsteadOfAnother => drop(self.meter.closed.inc()),
            SlotOutcome::Nowhere => drop(self.meter.refused.inc()),
        }
        seated != SlotOutcome::Nowhere
    }
}

/// The slot of an open connection. The slot is released when this value is dropped.
pub(crate) struct ConnectionPlace {
    slot: ConnectionSlot,
    closed: CancellationToken,
}

impl ConnectionPlace {
    /// Sets the role of the connection. Returns `false` if there is no free slot for this role.
    pub(super) fn known(&self, party: Party) -> bool {
        let ConnectionSlot { registry, number, .. } = &self.slot;
        let seated = registry.slots().assign_slot(*number, party, registry.now_ms());
        registry.count(seated)
    }

    /// Stores the certificates that the peer of this connection presented.
    pub(super) fn show(&self, certificates: Certificates) {
        let ConnectionSlot { registry, number, .. } = &self.slot;
        registry.shown().insert(*number, Shown { certificates, close: self.closed.clone() });
    }

    /// Returns the token that is cancelled when the connection must be closed.
    pub(super) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Returns the counter of the connection's calls.
    pub(super) fn slot(&self) -> ConnectionSlot {
        self.slot.clone()
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let ConnectionSlot { registry, number, .. } = &self.slot;
        registry.shown().remove(number);
        registry.slots().leave(*number);
        registry.meter.open.dec();
    }
}

/// Counter of the calls on a connection.
#[derive(Clone)]
pub(crate) struct ConnectionSlot {
    registry: Arc<ConnectionRegistry>,
    number: u64,
    /// Token that the newest call of the connection presented.
    token: Arc<Mutex<Option<TokenId>>>,
}

impl ConnectionSlot {
    /// Returns whether this token differs from the token of the connection's previous call.
    pub(crate) fn is_first_of(&self, token: TokenId) -> bool {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).replace(token) != Some(token)
    }

    /// Registers the beginning of a call on this connection. `party` is the kind of client that usually makes such
    /// calls: a node, an operator or a producer. Slots are reserved for each kind of client, but a node learns which
    /// kind has connected only from the first call. At the first call, the connection therefore gets a slot of `party`.
    ///
    /// Returns the party whose slot the connection uses. If no slot is free, this method closes the connection and
    /// returns `None`.
    pub(crate) fn begin_call(&self, party: Party) -> Option<(Party, OpenCall)> {
        let (party, seated) = self.registry.slots().begin_call(self.number, party, self.registry.now_ms());
        self.registry.count(seated).then(|| (party, OpenCall(self.clone())))
    }
}

/// A call that is in progress.
pub(crate) struct OpenCall(ConnectionSlot);

impl Drop for OpenCall {
    fn drop(&mut self) {
        let ConnectionSlot { registry, number, .. } = &self.0;
        registry.slots().end_call(*number, registry.now_ms());
    }
}
