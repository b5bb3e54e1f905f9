//! One connection: HTTP/1.1 requests and their replies, one after the other.
//!
//! Promises: the head of a request has bounded bytes and has to come in time; a client that reads nothing of its reply is given up.
//! When the door stops, the reply that is under way is the last one. This module must not depend on calls.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::connected_client::ConnectedClient;
use crate::limits::{HEAD_BYTES_MAX, HEAD_TIMEOUT, HEADERS_MAX};
use crate::stalled::Stalled;

/// Serves a connection until it ends, or `stop`.
pub(crate) async fn serve<T>(router: Router, stream: T, client: Arc<ConnectedClient>, stop: &CancellationToken)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(|request| call(router.clone(), client.clone(), request));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(Stalled::new(stream)), service));
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "the connection of an HTTP client has failed");
    }
}

/// Carries out a request of this client.
async fn call(
    mut router: Router,
    client: Arc<ConnectedClient>,
    request: Request<Incoming>,
) -> Result<Response, Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(client);
    router.call(request).await
}
