//! The gate: every call passes it before its service hears of the call.
//!
//! Promises: a caller that may not make a call is refused by the call's headers alone, and nothing of the body is read;
//! a body is within the call's limits and the node's budget of bytes; a call counts for its connection until its answer
//! is sent or the connection is closed. Must not know: what calls do.

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

use crate::accept::{self, OpenCall, Seat, Visitor};
use crate::audit::Audit;
use crate::budget::{Budget, Charge};
use crate::guest::{self, Guest};
use crate::roles::Caller;
use crate::shares::Party;
use crate::tokens;
use crate::view::Views;
use measured::Measured;
use rules::CallRule;

/// The least charge of a call, however small: its headers, and the memory that the node keeps for it.
const CALL_BYTES: u64 = HTTP2_HEADER_BYTES_MAX as u64;

/// Puts services behind the gate.
#[derive(Clone)]
pub(crate) struct GateLayer {
    /// Whether callers show certificates.
    pub(crate) is_secure: bool,
    /// The newest view has the rights of callers.
    pub(crate) views: Views,
    pub(crate) budget: Arc<Budget>,
    pub(crate) audit: Arc<Audit>,
}

impl GateLayer {
    /// Admits a call: returns the request as its service gets it, and its charge.
    fn admit(&self, request: Request<Body>) -> Result<(Request<Body>, Arc<Call>), Status> {
        let (mut parts, body) = request.into_parts();
        let CallRule { needs, party, bulk } = rules::of(parts.uri.path());
        let Some(visitor) = parts.extensions.remove::<Visitor>() else {
            return Err(ErrorKind::Internal.status("the call is of no connection"));
        };
        let Visitor { tcp, tls, vouched, seat } = visitor;
        let certificates = tls.as_ref().and_then(|tls| tls.peer_certs()).unwrap_or_default();
        let map = self.views.borrow().map.clone();
        let caller = match vouched {
            Some(vouched) if !self.is_secure => Caller::vouched_for(vouched),
            _ => Caller::showing(self.is_secure.then_some(certificates)),
        };
        let caller = self.named(caller, &parts, &map, &tcp, &seat)?;
        let call = guest::Call { path: parts.uri.path(), needs };
        let guest = Guest::enter(caller, tcp.remote_addr, call, &map, &self.audit)?;
        parts.extensions.insert(tcp);
        let roles = guest.caller().roles();
        parts.extensions.insert(Arc::new(guest));
        let caller_party = match self.is_secure.then(|| accept::party(roles)) {
            // Without certificates the call's path alone says whose work it is. What a node relays for producers counts
            // as theirs.
            None if party == Party::Agreement => Party::Nodes,
            None => party,
            Some(Party::Nodes) if party == Party::Producers => party,
            Some(party) => party,
        };
        let Some((place, open)) = seat.begin_call(caller_party) else {
            let full = "the node has no room for another connection: see connections_max";
            return Err(ErrorKind::Overloaded.status(full));
        };
        // Link messages that wait for their owners do not keep nodes from reaching agreement.
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

    /// The caller, by its token where nothing else says who it is.
    fn named(
        &self,
        caller: Caller,
        parts: &Parts,
        map: &ClusterMap,
        tcp: &TcpConnectInfo,
        seat: &Seat,
    ) -> Result<Caller, Status> {
        if !caller.may_show_token() {
            return Ok(caller);
        }
        match tokens::shown(&parts.headers, &map.access, self.audit.now_s()) {
            Ok(None) => Ok(caller),
            Ok(Some(named)) => {
                let token = named.token.id();
                let caller = caller.by_token(named);
                if seat.is_first_of(token) {
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

/// The answer where the budget is spent.
fn spent() -> Status {
    ErrorKind::Overloaded.status("the node has as much under way as inflight_bytes_max allows: try again")
}

/// A call, until its body and its answer are gone.
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

/// Services behind the gate.
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

/// The body of an answer; its call is over when the body is sent.
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
