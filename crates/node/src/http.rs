//! Serves health checks and metrics over HTTP/1 for probes and scrapers, and the web console for people.
//!
//! # Guarantees
//! - The liveness check tells whether the process works.
//! - The readiness check tells whether the node serves everything that it should and has fetched all data that other
//!   nodes can provide. If it is not ready, the reply contains the reason.
//! - Metrics are at most one second old.
//! - Requests with a host name that does not belong to the node are rejected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use firstseen_backend::Hosts;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::accept::BoundedListener;
use crate::console::{self, OverviewSource};
use crate::exposition::{Exposition, TextFormat, older};
use crate::health::Health;
use crate::metrics::Scrapes;

/// Maximum number of open connections. It is enough for several scrapers and probes.
const CONNECTIONS_MAX: u32 = 64;

/// Everything that the node serves over HTTP.
pub(crate) struct HttpService {
    pub(crate) exposition: Arc<Exposition>,
    /// Host names and addresses that requests may use for the node.
    pub(crate) hosts: Hosts,
    /// Data source of the console. `None` means that the console is not served.
    pub(crate) console: Option<OverviewSource>,
    /// Cancelled when the node stops.
    pub(crate) stopping: CancellationToken,
}

/// Serves HTTP requests until the node stops.
pub(crate) async fn serve(listener: TcpListener, service: HttpService) {
    let HttpService { exposition, hosts, console, stopping } = service;
    let listener = BoundedListener::new(listener, CONNECTIONS_MAX, exposition.metrics.connections("http"));
    let health = exposition.health.clone();
    let (scrapes, answering) = Scrapes::new(CONNECTIONS_MAX as usize, health.clock.clone(), move || {
        let exposition = exposition.clone();
        async move { exposition.text().await.map(Bytes::from).map_err(|error| error.to_string()) }
    });
    tokio::spawn(stopping.clone().run_until_cancelled_owned(answering));
    let console = console.map(|source| console::router(source, stopping.clone())).unwrap_or_default();
    let router = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(health.clone())
        .merge(Router::new().route("/startupz", get(startupz)).with_state((health, Arc::default())))
        .merge(Router::new().route("/metrics", get(metrics)).with_state(scrapes))
        .merge(console)
        .layer(from_fn_with_state(hosts, only_by_own_names));
    let serving = axum::serve(listener, router).with_graceful_shutdown(stopping.cancelled_owned());
    if let Err(error) = serving.await {
        tracing::error!(%error, "serving health and metrics failed: they are no longer available");
    }
}

/// Passes on an HTTP request only if its `Host` header contains an address or a name of this node, and otherwise
/// rejects the request. This function also adds a header to every response that forbids browsers to interpret the
/// response as another type of content.
async fn only_by_own_names(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or_default().to_owned());
    let authority = request.uri().authority().map(|authority| authority.as_str().to_owned());
    let mut response = match host.or(authority).filter(|host| !hosts.has(host)) {
        None => next.run(request).await,
        Some(host) => {
            let host: String = host.chars().filter(|letter| !letter.is_control()).take(80).collect();
            let refused =
                format!("`{host}` is no name of this node: ask by its address, or name it in `hosts` of `[http]`\n");
            (StatusCode::MISDIRECTED_REQUEST, refused).into_response()
        }
    };
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn healthz(State(health): State<Arc<Health>>) -> Response {
    health.not_alive().map_or("ok\n".into_response(), unavailable)
}

async fn readyz(State(health): State<Arc<Health>>) -> Response {
    health.not_ready().map_or("ready\n".into_response(), unavailable)
}

fn unavailable(reason: String) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, reason + "\n").into_response()
}

/// Returns whether the node has been ready at least once since its start. At that time it had fetched all data that
/// other nodes could provide.
async fn startupz(State((health, was_ready)): State<(Arc<Health>, Arc<AtomicBool>)>) -> Response {
    match health.not_ready() {
        Some(reason) if !was_ready.load(Ordering::Relaxed) => unavailable(reason),
        not_ready => {
            was_ready.fetch_or(not_ready.is_none(), Ordering::Relaxed);
            "started\n".into_response()
        }
    }
}

async fn metrics(State(scrapes): State<Scrapes<Bytes>>, headers: HeaderMap) -> Response {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let format = TextFormat::asked_for(&accepted.collect::<Vec<_>>().join(","));
    let described = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")];
    match scrapes.newest().await {
        Ok(text) if format == TextFormat::Prometheus => {
            (described, older(&String::from_utf8_lossy(&text))).into_response()
        }
        Ok(text) => (described, text).into_response(),
        Err(error) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("metrics cannot be rendered: {error}\n")).into_response()
        }
    }
}
