//! The access checks that every call must pass before its service receives it.
//!
//! # Guarantees
//! - A caller that may not make a call is rejected by the headers of the call alone, before any of the body is read.
//! - The body of a call respects the limits of the call and the node's budget for bytes in flight.
//! - A call counts for its connection until its reply has been sent or the connection is closed.

mod measured;
mod rules;

use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use firstseen_routing::ClusterMap;
use firstseen_wire::limits::HTTP2_HEADER_BYTES_MAX;
use firstseen_wire::status::ErrorKind;
use http::request::Parts;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use tonic::transport::server::TcpConnectInfo;
use tower::{Layer, Service};

use crate::accept::{self, ConnectionSlot, OpenCall, Visitor};
use crate::audit::Audit;
use crate::authenticated_caller::{self, AuthenticatedCaller};
use crate::budget::{Budget, Charge};
use crate::roles::Caller;
use crate::shares::Party;
use crate::tokens;
use crate::view::Views;
use measured::Measured;
use rules::CallRule;

/// Minimum number of bytes that every call is charged for. They cover its headers and the memory that the node uses for
/// it.
const CALL_BYTES: u64 = HTTP2_HEADER_BYTES_MAX as u64;

/// Tower layer that adds the access checks to services.
#[derive(Clone)]
pub(crate) struct GateLayer {
    /// Whether callers authenticate with certificates.
    pub(crate) is_secure: bool,
    /// Receiver of the current view, which contains the rights of callers.
    pub(crate) views: Views,
    pub(crate) budget: Arc<Budget>,
    pub(crate) audit: Arc<Audit>,
}

impl GateLayer {
    /// Admits a call. Returns the request in the form in which its service receives it, together with its charge.
    fn admit(&self, request: Request<Body>) -> Result<(Request<Body>, Arc<Call>), Status> {
        let (mut parts, body) = request.into_parts();
        let CallRule { needs, party, bulk } = rules::of(parts.uri.path());
        let Some(visitor) = parts.extensions.remove::<Visitor>() else {
            return Err(ErrorKind::Internal.status("the call does not belong to a connection"));
        };
        let Visitor { tcp, tls, vouched, slot } = visitor;
        let certificates = tls.as_ref().and_then(|tls| tls.peer_certs()).unwrap_or_default();
        let map = self.views.borrow().map.clone();
        let caller = match vouched {
            Some(vouched) if !self.is_secure => Caller::vouched_for(vouched),
            _ => Caller::showing(self.is_secure.then_some(certificates)),
        };
        let caller = self.named(caller, &parts, &map, &tcp, &slot)?;
        let call = authenticated_caller::Call { path: parts.uri.path(), needs };
        let guest = AuthenticatedCaller::enter(caller, tcp.remote_addr, call, &map, &self.audit)?;
        parts.extensions.insert(tcp);
        let roles = guest.caller().roles();
        parts.extensions.insert(Arc::new(guest));
        let caller_party = match self.is_secure.then(|| accept::party(roles)) {
            // Without certificates, only the path of the call shows which kind of caller makes it. A batch that a node
            // forwards for a producer counts as a batch of a producer.
            None if party == Party::Agreement => Party::Nodes,
            None => party,
            Some(Party::Nodes) if party == Party::Producers => party,
            Some(party) => party,
        };
        let Some((place, open)) = slot.begin_call(caller_party) else {
            let full = "the node has no room for another connection: see connections_max";
            return Err(ErrorKind::Overloaded.status(full));
        };
        // Messages between nodes that wait for their owners must not use up the bytes that are reserved for the
        // consensus.
        let party = if (place, party) == (Party::Nodes, Party::Agreement) { party } else { place };
        let charge = self.budget.charge(party, CALL_BYTES).ok_or_else(spent)?;
        let call = Arc::new(Call { charge: Mutex::new(charge), _open: open });
        if let Some(tls) = tls {
            parts.extensions.insert(tls);
        }
        parts.extensions.insert(party);
        let body = Body::new(Measured::new(body, bulk, call.clone()));
        Ok((Request::from_parts(parts, body), call))
    }

    /// Returns the caller with the principal of its token, if the caller has no other identity.
    fn named(
        &self,
        caller: Caller,
        parts: &Parts,
        map: &ClusterMap,
        tcp: &TcpConnectInfo,
        slot: &ConnectionSlot,
    ) -> Result<Caller, Status> {
        if !caller.may_show_token() {
            return Ok(caller);
        }
        match tokens::shown(&parts.headers, &map.access, self.audit.now_s()) {
            Ok(None) => Ok(caller),
            Ok(Some(named)) => {
                let token = named.token.id();
                let caller = caller.by_token(named);
                if slot.is_first_of(token) {
                    self.audit.came(&self.audit.who(&caller, tcp.remote_addr()), Some(token));
                }
                Ok(caller)
            }
            Err(refused) => {
                self.audit.denied_stranger(tcp.remote_addr(), parts.uri.path(), refused.message());
                Err(refused)
            }
        }
    }
}

/// Returns the error for a call that does not fit into the budget for bytes in flight.
fn spent() -> Status {
    ErrorKind::Overloaded.status("the node has as much under way as inflight_bytes_max allows: try again")
}

/// A call, from its admission until its body and its reply have been dropped.
struct Call {
    charge: Mutex<Charge>,
    _open: OpenCall,
}

impl Call {
    fn charge(&self) -> MutexGuard<'_, Charge> {
        self.charge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn grow(&self, bytes: u64) -> Result<(), Status> {
        if self.charge().grow(bytes) { Ok(()) } else { Err(spent()) }
    }

    fn shrink(&self, bytes: u64) {
        self.charge().shrink(bytes);
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = Gate<S>;

    fn layer(&self, inner: S) -> Gate<S> {
        Gate { layer: self.clone(), inner }
    }
}

/// A service behind the access checks.
#[derive(Clone)]
pub(crate) struct Gate<S> {
    layer: GateLayer,
    inner: S,
}

impl<S> Service<Request<Body>> for Gate<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match self.layer.admit(request) {
            Ok((request, call)) => {
                let answering = self.inner.call(request);
                Box::pin(async move { Ok(answering.await?.map(|body| Body::new(AnswerBody { body, _call: call }))) })
            }
            Err(status) => Box::pin(ready(Ok(status.into_http()))),
        }
    }
}

/// The body of a reply. The call ends when this body has been sent.
struct AnswerBody {
    body: Body,
    _call: Arc<Call>,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
