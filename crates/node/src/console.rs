//! The web console of a node. The console shows an overview of the cluster, which the node serves as JSON, as a stream
//! of events, and as a web page. The console is read-only: no request can change the cluster. The web page loads no
//! resources from other servers. It displays all names as plain text, so a name that contains HTML cannot inject a
//! script.

mod alarms;
mod filters;
mod gather;
mod history;
mod overview;
mod peers;
mod rates;
mod sample;
mod sampler;
mod trees;
mod viewers;
mod work;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use firstseen_wire::watch;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

pub use overview::{
    Alarm, ClaimsLine, ClusterLine, FilterLine, History, NodeLine, OVERVIEW_VERSION, Overview, PlaceLine, Severity,
    SliceCounts, TreeLine, Undecided, Verdicts, WorkLine,
};
pub(crate) use sample::NodeSample;
pub(crate) use sampler::OverviewSource;
use sampler::{Frame, Newest};
use viewers::{VIEWERS_MAX, Viewers};

use crate::clock::Clock;

/// Content security policy of the page. The page may load only its own files from this server.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The files of the page.
const FILES: [(&str, &str, &str); 7] = [
    ("/ui", "text/html; charset=utf-8", include_str!("console/page/index.html")),
    ("/ui/console.css", "text/css; charset=utf-8", include_str!("console/page/console.css")),
    ("/ui/console.js", "text/javascript; charset=utf-8", include_str!("console/page/console.js")),
    ("/ui/panes.js", "text/javascript; charset=utf-8", include_str!("console/page/panes.js")),
    ("/ui/draw.js", "text/javascript; charset=utf-8", include_str!("console/page/draw.js")),
    ("/ui/words.js", "text/javascript; charset=utf-8", include_str!("console/page/words.js")),
    ("/ui/icon.svg", "image/svg+xml", include_str!("console/page/icon.svg")),
];

/// Maximum age of an overview that is sent to a client, in milliseconds.
const FRESH_MS: u64 = 1_500;

/// Maximum time that a client waits for the first overview.
const FIRST_MAX: Duration = Duration::from_secs(5);

/// Maximum number of overviews that wait for one viewer. Further overviews are skipped until the viewer has read the
/// waiting one.
const UNREAD_MAX: usize = 1;

/// State that the request handlers share.
#[derive(Clone)]
struct Console {
    clock: Arc<dyn Clock>,
    stopping: CancellationToken,
    viewers: Arc<Viewers>,
    newest: watch::Receiver<Newest>,
}

/// Creates the routes of the console. The task that samples the cluster ends when `stopping` is cancelled.
pub(crate) fn router(source: OverviewSource, stopping: CancellationToken) -> Router {
    let clock = source.health.clock.clone();
    let viewers = Arc::new(Viewers::new(clock.clone()));
    let (sender, newest) = watch::channel(None);
    let sampling = sampler::run(source, viewers.clone(), sender);
    tokio::spawn(stopping.clone().run_until_cancelled_owned(sampling));
    let mut router = Router::new().route("/", get(async || Redirect::temporary("/ui")));
    for (path, kind, text) in FILES {
        router = router.route(path, get(async move || ([(header::CONTENT_TYPE, kind)], text)));
    }
    let console = Console { clock, stopping, viewers, newest };
    router
        .route("/api/v1/overview", get(overview))
        .route("/events", get(events))
        .with_state(console)
        .layer(from_fn(guarded))
}

/// Sets headers that restrict what browsers may load and display.
async fn guarded(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

async fn overview(State(mut console): State<Console>) -> Response {
    console.viewers.note_request();
    let fresh = console.newest.wait_for(|newest| {
        newest.as_ref().is_some_and(|frame| console.clock.monotonic_ms() < frame.at_ms.after(FRESH_MS))
    });
    let seen = timeout(FIRST_MAX, fresh).await;
    let frame = console.newest.borrow().clone();
    match frame.filter(|_| seen.is_ok_and(|seen| seen.is_ok())) {
        Some(frame) => ([(header::CONTENT_TYPE, "application/json")], frame.whole.clone()).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the overview cannot be collected now: try again\n").into_response(),
    }
}

/// Sends every new overview to a connected viewer, until the node stops.
async fn events(State(console): State<Console>) -> Response {
    let Console { stopping, viewers, mut newest, .. } = console;
    let Some(viewer) = viewers.stay() else {
        let full = format!("{VIEWERS_MAX} viewers look at this node already: close one, or look at another node\n");
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "10")], full).into_response();
    };
    let (unread, events) = mpsc::channel::<Bytes>(UNREAD_MAX);
    let sending = async move {
        let _viewer = viewer;
        let mut step = None;
        loop {
            let frame = newest.borrow_and_update().clone();
            if let Some(frame) = frame
                && unread.send(event(&frame, &mut step)).await.is_err()
            {
                return;
            }
            tokio::select! {
                biased;
                () = unread.closed() => return,
                changed = newest.changed() => if changed.is_err() { return },
            }
        }
    };
    tokio::spawn(stopping.run_until_cancelled_owned(sending));
    let body = Body::from_stream(ReceiverStream::new(events).map(Ok::<_, std::convert::Infallible>));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// Formats an overview as a server-sent event. The history is included only if this viewer does not have it yet.
fn event(frame: &Frame, step: &mut Option<u64>) -> Bytes {
    let json = if step.replace(frame.step) == Some(frame.step) { &frame.brief } else { &frame.whole };
    [&b"event: overview\ndata: "[..], json, b"\n\n"].concat().into()
}
