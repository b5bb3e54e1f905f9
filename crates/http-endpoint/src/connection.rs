//! Serves one HTTP/1.1 connection, with its requests and replies one after the other.
//!
//! The head of an HTTP request is limited in size, and must arrive within a time limit. The endpoint disconnects a
//! client that stops reading its reply. When the endpoint stops, it completes the reply in progress and then closes the
//! connection.
//!
//! This module does not depend on calls.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::HOST;
use http::{Request, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::connected_client::ConnectedClient;
use crate::flushes::Flushes;
use crate::limits::{HEAD_BYTES_MAX, HEAD_TIMEOUT, HEADERS_MAX};
use crate::problem::Problem;
use crate::stalled::Stalled;

/// Serves a connection until it ends or `stop` is cancelled.
pub(crate) async fn serve<T>(router: Router, stream: T, client: Arc<ConnectedClient>, stop: &CancellationToken)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let flushes = Arc::new(Flushes::default());
    let service = service_fn(|request| call(router.clone(), client.clone(), flushes.clone(), request));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(Stalled::new(stream, flushes.clone())), service));
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

/// Executes a request of this client.
async fn call(
    mut router: Router,
    client: Arc<ConnectedClient>,
    flushes: Arc<Flushes>,
    request: Request<Incoming>,
) -> Result<Response, Infallible> {
    if let Err(problem) = check_host_header(&request) {
        return Ok(problem.into_response());
    }
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(client);
    request.extensions_mut().insert(flushes);
    router.call(request).await
}

/// Checks that a request has exactly one `Host` header (RFC 9112, section 3.2). With two headers, a proxy and the node
/// could disagree about the host of the request, which attackers exploit.
fn check_host_header<B>(request: &Request<B>) -> Result<(), Problem> {
    let hosts = request.headers().get_all(HOST).iter().count();
    if hosts == 1 || (hosts == 0 && request.version() < Version::HTTP_11) {
        return Ok(());
    }
    Err(Problem::malformed(format_args!("the request has {hosts} headers Host: send one")))
}
