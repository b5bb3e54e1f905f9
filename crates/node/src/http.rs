//! Health and metrics over HTTP/1, for probes and scrapers.
//!
//! Promises: alive says that the process works, ready that it serves all that it should, with the reason why not. Must
//! not know: how metrics are counted.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::accept::BoundedListener;
use crate::shared::Shared;

/// Connections that may be open: those of some scrapers and probes.
const CONNECTIONS_MAX: u32 = 64;

/// What Prometheus calls the format.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves until the node stops.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let stopping = shared.stopping.clone();
    let listener = BoundedListener::new(listener, CONNECTIONS_MAX, shared.metrics.connections("http"));
    let router = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(shared);
    let serving = axum::serve(listener, router).with_graceful_shutdown(stopping.cancelled_owned());
    if let Err(error) = serving.await {
        tracing::error!(%error, "health and metrics are served no longer");
    }
}

async fn healthz(State(shared): State<Arc<Shared>>) -> Response {
    match shared.not_alive() {
        None => "ok\n".into_response(),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    match shared.not_ready() {
        None => "ready\n".into_response(),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let looks = shared.owners.look(None).await;
    match shared.metrics.text(&shared, &looks) {
        Ok(text) => ([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response(),
        Err(error) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("metrics cannot be shown: {error}\n")).into_response()
        }
    }
}
