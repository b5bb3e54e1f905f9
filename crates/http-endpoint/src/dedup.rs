//! The `dedup` call, which receives a stream of records and returns the records that are first-seen, while more records
//! arrive.
//!
//! The node processes the body of a `dedup` request as a stream, so it never holds the whole body in memory.
//!
//! If the node cannot complete a reply, it aborts the reply. The client then sees that the reply is incomplete, and
//! does not mistake the received part for the whole.
//!
//! This module does not depend on connections.

mod pipe;
mod query;
mod reading;
mod selection;
mod streaming;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Version, header};
use axum::response::{IntoResponse, Response};
use firstseen_backend::ROOM_BYTES;
use firstseen_routing::FilterVerb;
use tokio::sync::OwnedSemaphorePermit;

use crate::call::{Naming, submission_source};
use crate::call_body::not_opened;
use crate::calls::{FilterProblems, NamingHeaders, client_session, filter_name};
use crate::connected_client::refused;
use crate::flushes::Flushes;
use crate::limits::STREAM_BYTES;
use crate::problem::{Problem, ProblemDocument, ProblemKind};
use crate::reserved_bytes::no_room;
use crate::shared::Shared;
use query::{DedupHeaders, DedupOptions, DedupQuery};
use streaming::{Opened, Stream};

/// Trailer of a reply, which contains the report.
pub(crate) const REPORT: HeaderName = HeaderName::from_static("x-firstseen-report");

/// Permits that a stream holds until it ends.
struct Places {
    _place: OwnedSemaphorePermit,
    _room: OwnedSemaphorePermit,
}

/// Stream of records, in any of the supported formats.
#[derive(utoipa::ToSchema)]
#[schema(format = Binary)]
#[allow(dead_code)]
pub(crate) struct Records(String);

/// Returns the records that are first-seen, while more records arrive
///
/// The body contains records in any format that `firstseen dedup` reads. The reply contains the first-seen records,
/// unchanged and in their order. Both the body and the reply are streamed, and the node buffers only a part of each at
/// a time. A client that sends `TE: trailers` gets a report in the trailer X-Firstseen-Report. A reply that is cut off
/// is incomplete. To get the same verdicts again, the client repeats the request with the same X-Firstseen-Source and
/// Idempotency-Key.
#[utoipa::path(
    post,
    path = "/v1/filters/{name}/dedup",
    params(
        ("name" = String, Path, description = "The filter", min_length = 1),
        DedupQuery,
        DedupHeaders,
        NamingHeaders,
    ),
    request_body(content(
        (Records = "application/octet-stream"),
        (Records = "text/plain"),
        (Records = "text/csv"),
        (Records = "application/x-ndjson"),
    )),
    responses(
        (status = 200, description = "The records that are first-seen, with the media type of the body",
            content((Records = "application/octet-stream"), (Records = "text/plain"), (Records = "text/csv"), (Records = "application/x-ndjson"))),
        (status = 415, description = "The body has a compression that this call does not accept", body = ProblemDocument<'static>, content_type = "application/problem+json"),
        (status = 505, description = "The request uses HTTP/1.0", body = ProblemDocument<'static>, content_type = "application/problem+json"),
        FilterProblems,
    ),
)]
pub(crate) async fn dedup(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.common.counts.call("dedup");
    match begun(shared, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn begun(shared: Arc<Shared>, mut request: Request) -> Result<Response, Problem> {
    let name = filter_name(&mut request).await?;
    let (head, body) = request.into_parts();
    let client_session = client_session(&shared, &head)?;
    client_session.may(FilterVerb::Observe, &name, 0).map_err(refused)?;
    if head.version < Version::HTTP_11 {
        return Err(Problem::new(
            ProblemKind::OldVersion,
            "dedup needs HTTP/1.1, because a reply of HTTP/1.0 that is cut off looks whole: have the client, or the proxy before the node \
             (nginx: proxy_http_version 1.1), ask by HTTP/1.1",
        ));
    }
    let options = DedupOptions::read(head.uri.query(), &head.headers)?;
    let source = source(&head.headers)?;
    let facts = shared.patient.facts(&name).await.map_err(not_opened)?;
    if facts.counts_events {
        return Err(Problem::impossible(format_args!(
            "filter `{name}` counts how often events came, and gives no verdicts"
        )));
    }
    options.check_times(&name, facts.needs_times)?;
    let filter = shared.patient.get(&name).await.map_err(not_opened)?;
    let parser = options.parser(filter.info().secret.clone(), facts.needs_times)?;
    let places = places(&shared)?;
    let (writer, reader) = pipe::pipe();
    tokio::spawn(writer.pass_on(body, shared.stop.clone()));
    let batches = reading::start(reader, &options, parser);
    let by_arrival = facts.needs_times && !options.has_times();
    let opened = Opened { name, filter, client_session, source, by_arrival };
    let stream = Stream::new(shared, opened, batches, options.unjudged, places);
    let flushes = head.extensions.get::<Arc<Flushes>>().cloned().unwrap_or_default();
    let body = stream.begin(flushes).await?;
    Ok(reply(body, head.headers.get(header::CONTENT_TYPE)))
}

/// Returns the source of the records' idempotency keys, if a retry of the stream must get the verdicts of the first
/// attempt.
fn source(headers: &HeaderMap) -> Result<Option<u128>, Problem> {
    let naming = Naming::read(headers)?;
    match (naming.source, naming.key) {
        (None, None) => Ok(None),
        (Some(source), Some(key)) => Ok(Some(submission_source(source, key))),
        _ => Err(Problem::impossible(
            "X-Firstseen-Source and Idempotency-Key name the stream together, so that a retry gets the same verdicts: send both, or neither",
        )),
    }
}

/// Reserves the permits of a stream.
fn places(shared: &Shared) -> Result<Places, Problem> {
    let common = &shared.common;
    let place = common.streams.clone().try_acquire_owned().map_err(|_| {
        let detail = "as many calls of dedup are under way as streams_max of [http_api] allows: try again later";
        Problem::new(ProblemKind::NoRoom, detail).retry_after(Duration::from_secs(5))
    })?;
    let permits = u32::try_from(STREAM_BYTES / ROOM_BYTES).unwrap_or(u32::MAX);
    let room = common.room.clone().try_acquire_many_owned(permits).map_err(|_| no_room())?;
    Ok(Places { _place: place, _room: room })
}

fn reply(body: Body, media: Option<&HeaderValue>) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    let media = media.cloned().unwrap_or(HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_TYPE, media);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::TRAILER, HeaderValue::from_static("x-firstseen-report"));
    response
}
