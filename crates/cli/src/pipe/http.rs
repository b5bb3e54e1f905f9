//! Serves metrics and probes over HTTP, on a thread of its own.

use std::net::{SocketAddr, TcpListener};
use std::thread;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use firstseen_pipe::Counts;

use super::metrics;

/// Media type of the metrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The endpoint. It ends with the process.
pub(super) struct Endpoint {
    address: SocketAddr,
}

impl Endpoint {
    /// Begins to serve at `address`.
    ///
    /// # Errors
    /// Returns an error if the address cannot be used.
    pub(super) fn open(address: &SocketAddr, counts: Counts) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)
            .with_context(|| format!("cannot serve HTTP at {address}; name another address with --http"))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let router = Router::new()
            .route("/metrics", get(show_metrics))
            .route("/readyz", get(show_ready))
            .route("/livez", get(async || "the process works\n"))
            .with_state(counts);
        thread::Builder::new().name("http".to_owned()).spawn(move || {
            runtime.block_on(async {
                match tokio::net::TcpListener::from_std(listener) {
                    Ok(listener) => {
                        if let Err(error) = axum::serve(listener, router).await {
                            notice!("firstseen: metrics are no longer served: {error}");
                        }
                    }
                    Err(error) => notice!("firstseen: cannot serve metrics: {error}"),
                }
            });
        })?;
        Ok(Self { address })
    }

    /// Returns the address, whose port the system has chosen if the flag names port 0.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn show_metrics(State(counts): State<Counts>) -> Response {
    match metrics::text(&counts.figures()) {
        Ok(text) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn show_ready(State(counts): State<Counts>) -> Response {
    let figures = counts.figures();
    if figures.is_ready() {
        return "the filter of every assigned partition is rebuilt\n".into_response();
    }
    let partitions = &figures.partitions;
    let reason = if partitions.has_joined {
        format!("{} of {} partitions are rebuilt\n", partitions.ready, partitions.assigned)
    } else {
        "the group has not assigned partitions yet\n".to_owned()
    };
    (StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
}
