//! Handlers of the HTTP endpoint. They define what each path does, and how the OpenAPI document describes it.
//!
//! Each HTTP request gets one reply, and a rejected request gets a problem document (RFC 9457).
//!
//! This module does not depend on connections.

use std::sync::Arc;

use axum::RequestExt;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use firstseen_backend::ClientSession;
use firstseen_routing::FilterVerb;
use std::sync::atomic::Ordering;

use crate::body::{Asking, ClaimBody, EventLines, HeldBody, ObserveBody, TestBody};
use crate::call::{CallOptions, Naming, media_type, reject_compressed};
use crate::call_body::{CallAnswers, ask, not_opened};
use crate::catalogue::{FilterDescription, FilterNames, describe};
use crate::connected_client::{ConnectedClient, refused};
use crate::kind::CallKind;
use crate::problem::{Problem, ProblemDocument, ProblemKind};
use crate::reply;
use crate::reserved_bytes::{ReservedBytes, whole};
use crate::shared::Shared;
use crate::verdicts::{Claims, OneVerdict, ShownVerdict, Verdicts};

/// Replies that every call about a filter can return, in addition to its own replies.
#[derive(utoipa::IntoResponses)]
#[allow(dead_code)]
pub(crate) enum FilterProblems {
    /// The request is malformed.
    #[response(status = 400, content_type = "application/problem+json")]
    Malformed(#[to_schema] ProblemDocument<'static>),
    /// The client must authenticate.
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthorized(#[to_schema] ProblemDocument<'static>),
    /// The client does not have the right to do this.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(#[to_schema] ProblemDocument<'static>),
    /// The filter does not exist.
    #[response(status = 404, content_type = "application/problem+json")]
    NoSuchFilter(#[to_schema] ProblemDocument<'static>),
    /// The request names the node by a host name that is not its own.
    #[response(status = 421, content_type = "application/problem+json")]
    OtherName(#[to_schema] ProblemDocument<'static>),
    /// The filter cannot do this, or parts of the request contradict each other.
    #[response(status = 422, content_type = "application/problem+json")]
    Impossible(#[to_schema] ProblemDocument<'static>),
    /// The quota of the client is used up.
    #[response(status = 429, content_type = "application/problem+json")]
    QuotaSpent(#[to_schema] ProblemDocument<'static>),
    /// The event that a header names is undecided, or the node has no memory for the request.
    #[response(status = 503, content_type = "application/problem+json")]
    Undecided(#[to_schema] ProblemDocument<'static>),
}

/// Replies that every call with a body can return, in addition to the others.
#[derive(utoipa::IntoResponses)]
#[allow(dead_code)]
pub(crate) enum BodyProblems {
    /// The body did not arrive in time.
    #[response(status = 408, content_type = "application/problem+json")]
    BodyTooSlow(#[to_schema] ProblemDocument<'static>),
    /// The event that a header names was seen before, or is not held with the fence that a header names.
    #[response(status = 409, content_type = "application/problem+json")]
    Duplicate(#[to_schema] ProblemDocument<'static>),
    /// The body is too large.
    #[response(status = 413, content_type = "application/problem+json")]
    BodyTooLarge(#[to_schema] ProblemDocument<'static>),
    /// The body has a media type that this call does not accept.
    #[response(status = 415, content_type = "application/problem+json")]
    UnsupportedMediaType(#[to_schema] ProblemDocument<'static>),
}

/// Header that names an event.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code)]
pub(crate) struct KeyHeader {
    /// The event, if the request has no body.
    #[param(rename = "Idempotency-Key", value_type = String, required = false, min_length = 1, max_length = 255, pattern = "^[!-~]([ -~]*[!-~])?$")]
    idempotency_key: Option<String>,
}

/// Headers that name an event or a submission.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code)]
pub(crate) struct NamingHeaders {
    /// In a request without a body, the event. In a request with a body, the idempotency key for its events.
    #[param(rename = "Idempotency-Key", value_type = String, required = false, min_length = 1, max_length = 255, pattern = "^[!-~]([ -~]*[!-~])?$")]
    idempotency_key: Option<String>,
    /// Source of the submission. A retry with the same source and the same Idempotency-Key gets the verdicts of the
    /// first attempt.
    #[param(rename = "X-Firstseen-Source", value_type = String, required = false, min_length = 1, max_length = 255, pattern = "^[!-~]([ -~]*[!-~])?$")]
    source: Option<String>,
}

/// Header with the fence of the claim of an event that another header names.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code)]
pub(crate) struct FenceHeader {
    /// Fence of the claim of the event in Idempotency-Key.
    #[param(rename = "X-Firstseen-Fence", value_type = String, required = false, pattern = "^[0-9a-fA-F]{48}$")]
    fence: Option<String>,
}

/// Records new events, and returns a verdict for each event
///
/// The verdict is `first_seen` if no client has recorded the event within the time that the filter remembers, and
/// `duplicate` if a client has. If the cluster cannot decide, the verdict is `undecided`, and the reply contains the
/// reason. To submit a single event, a client can send the header Idempotency-Key instead of a body. In that case the
/// status code gives the verdict: 200 for first_seen, 409 for duplicate, 503 for undecided.
#[utoipa::path(
    post,
    path = "/v1/filters/{name}/observe",
    params(
        ("name" = String, Path, description = "The filter", min_length = 1),
        ("ttl_ms" = Option<u64>, Query, description = "Time for which the filter remembers the events, in milliseconds", minimum = 1, maximum = 3155760000000_u64),
        ("time_ms" = Option<u64>, Query, description = "Time at which all events occurred, in milliseconds since 1970", maximum = 253402300799999_u64),
        NamingHeaders,
    ),
    request_body(content((ObserveBody<'static> = "application/json"), (EventLines = "text/plain"))),
    responses(
        (status = 200, description = "The verdicts", body = inline(ObserveReply), content_type = "application/json"),
        FilterProblems,
        BodyProblems,
    ),
)]
pub(crate) async fn observe(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    about_events(&shared, CallKind::Observe, request).await
}

/// Looks up events without recording them
///
/// Each event gets a verdict. The verdict `first_seen` means that the event would now be recorded as new.
#[utoipa::path(
    post,
    path = "/v1/filters/{name}/test",
    params(
        ("name" = String, Path, description = "The filter", min_length = 1),
        ("time_ms" = Option<u64>, Query, description = "Time at which all events occurred, in milliseconds since 1970", maximum = 253402300799999_u64),
        KeyHeader,
    ),
    request_body(content((TestBody<'static> = "application/json"), (EventLines = "text/plain"))),
    responses(
        (status = 200, description = "The verdicts", body = inline(ObserveReply), content_type = "application/json"),
        FilterProblems,
        BodyProblems,
    ),
)]
pub(crate) async fn test(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    about_events(&shared, CallKind::Test, request).await
}

/// Claims events, so that no other client is granted them for some time
///
/// A client that is granted an event delivers it, and then confirms it with the fence in the reply. The verdict
/// `{"undecided": "claimed"}` means that another consumer holds the event.
#[utoipa::path(
    post,
    path = "/v1/filters/{name}/claim",
    params(
        ("name" = String, Path, description = "The filter", min_length = 1),
        ("lease_ms" = Option<u64>, Query, description = "Lease of the claims, in milliseconds", minimum = 1, maximum = 3155760000000_u64),
        ("time_ms" = Option<u64>, Query, description = "Time at which all events occurred, in milliseconds since 1970", maximum = 253402300799999_u64),
        KeyHeader,
    ),
    request_body(content((ClaimBody<'static> = "application/json"), (EventLines = "text/plain"))),
    responses(
        (status = 200, description = "The verdicts and the fences", body = inline(ClaimReply), content_type = "application/json",
            headers(("X-Firstseen-Fence" = String, description = "The fence of the claim, if the event was named in Idempotency-Key"))),
        FilterProblems,
        BodyProblems,
    ),
)]
pub(crate) async fn claim(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    about_events(&shared, CallKind::Claim, request).await
}

/// Confirms claims, which records the events as delivered
#[utoipa::path(
    post,
    path = "/v1/filters/{name}/confirm",
    params(
        ("name" = String, Path, description = "The filter", min_length = 1),
        ("time_ms" = Option<u64>, Query, description = "Time at which all events occurred, in milliseconds since 1970", maximum = 253402300799999_u64),
        KeyHeader,
        FenceHeader,
    ),
    request_body(content((HeldBody<'static> = "application/json"))),
    responses(
        (status = 200, description = "The verdicts", body = inline(ObserveReply), content_type = "application/json"),
        FilterProblems,
        BodyProblems,
    ),
)]
pub(crate) async fn confirm(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    about_events(&shared, CallKind::Confirm, request).await
}

/// Releases claims of events that were not delivered, so that other clients may claim them
#[utoipa::path(
    post,
    path = "/v1/filters/{name}/release",
    params(
        ("name" = String, Path, description = "The filter", min_length = 1),
        ("time_ms" = Option<u64>, Query, description = "Time at which all events occurred, in milliseconds since 1970", maximum = 253402300799999_u64),
        KeyHeader,
        FenceHeader,
    ),
    request_body(content((HeldBody<'static> = "application/json"))),
    responses(
        (status = 200, description = "The verdicts", body = inline(ObserveReply), content_type = "application/json"),
        FilterProblems,
        BodyProblems,
    ),
)]
pub(crate) async fn release(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    about_events(&shared, CallKind::Release, request).await
}

/// Lists the filters that the client may see
#[utoipa::path(
    get,
    path = "/v1/filters",
    responses(
        (status = 200, description = "The names of the filters", body = FilterNames),
        (status = 401, description = "The client must authenticate", body = ProblemDocument<'static>, content_type = "application/problem+json"),
        (status = 403, description = "The request comes from a web page without a token", body = ProblemDocument<'static>, content_type = "application/problem+json"),
        (status = 421, description = "The request names the node by a host name that is not its own", body = ProblemDocument<'static>, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn filters(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.common.counts.call("filters");
    let (head, _) = request.into_parts();
    let client_session = match client_session(&shared, &head) {
        Ok(client_session) => client_session,
        Err(problem) => return problem.into_response(),
    };
    let mut filters = shared.filters.all();
    filters.retain(|name| client_session.sees(name));
    reply::json(&FilterNames { filters })
}

/// Describes a filter
#[utoipa::path(
    get,
    path = "/v1/filters/{name}",
    params(("name" = String, Path, description = "The filter", min_length = 1)),
    responses((status = 200, description = "The filter", body = FilterDescription<'static>), FilterProblems),
)]
pub(crate) async fn filter(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.common.counts.call("filter");
    match described(&shared, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn described(shared: &Shared, mut request: Request) -> Result<Response, Problem> {
    let name = filter_name(&mut request).await?;
    let (head, _) = request.into_parts();
    client_session(shared, &head)?.may(FilterVerb::Describe, &name, 0).map_err(refused)?;
    let filter = shared.filters.get(&name).await.map_err(not_opened)?;
    let map = shared.filters.map();
    let record = map.filters.get(&filter.info().id).ok_or_else(|| {
        Problem::new(ProblemKind::NoSuchFilter, format_args!("filter `{name}` was dropped a moment ago: ask again"))
    })?;
    Ok(reply::json(&describe(&map, filter.info().id, record)))
}

/// Describes this endpoint as an OpenAPI document
#[utoipa::path(
    get,
    path = "/v1/openapi.json",
    responses((status = 200, description = "The OpenAPI document", body = Object, content_type = "application/json")),
)]
pub(crate) async fn openapi(State(shared): State<Arc<Shared>>) -> Response {
    shared.common.counts.call("openapi");
    let mut response = Response::new(Body::from(shared.common.openapi.clone()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Reply of the calls observe, test, confirm and release.
#[derive(utoipa::ToSchema)]
#[serde(untagged)]
#[allow(dead_code)]
pub(crate) enum ObserveReply {
    /// Reply for events in the body.
    List(Verdicts),
    /// Reply for an event in a header.
    One(OneVerdict),
}

/// Reply of the call claim.
#[derive(utoipa::ToSchema)]
#[serde(untagged)]
#[allow(dead_code)]
pub(crate) enum ClaimReply {
    /// Reply for events in the body.
    List(Claims),
    /// Reply for an event in a header.
    One(OneVerdict),
}

/// Executes a call about events.
async fn about_events(shared: &Shared, kind: CallKind, request: Request) -> Response {
    shared.common.counts.call(kind.name());
    match carried_out(shared, kind, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn carried_out(shared: &Shared, kind: CallKind, mut request: Request) -> Result<Response, Problem> {
    let name = filter_name(&mut request).await?;
    let (head, body) = request.into_parts();
    let client_session = client_session(shared, &head)?;
    // The right is checked before the body is read, so that an unauthorized client's body uses no memory.
    client_session.may(kind.verb(), &name, 0).map_err(refused)?;
    let options = CallOptions::read(kind, head.uri.query())?;
    let naming = Naming::read(&head.headers)?;
    let media = media_type(&head.headers)?;
    reject_compressed(&head.headers)?;
    let mut taken = ReservedBytes::new(shared.common.room.clone());
    let body = whole(body, shared.common.body_bytes_max, &mut taken).await?;
    let asking = Asking::read(kind, media.as_deref(), &body, options, naming)?;
    let CallAnswers { answers, lease_max } = ask(&shared.filters, &*client_session, &name, kind, &asking).await?;
    let counts = &shared.common.counts;
    let verdicts = answers.verdicts.iter().map(|verdict| ShownVerdict::of(kind, *verdict));
    let undecided = verdicts.filter(|verdict| matches!(verdict, ShownVerdict::Undecided(_)));
    counts.undecided.fetch_add(undecided.count() as u64, Ordering::Relaxed);
    counts.events.fetch_add(answers.verdicts.len() as u64, Ordering::Relaxed);
    Ok(if asking.is_single { reply::single(kind, &answers, lease_max) } else { reply::list(kind, &answers, taken) })
}

/// Returns the filter that the path names.
pub(crate) async fn filter_name(request: &mut Request) -> Result<Arc<str>, Problem> {
    let Path(name) = request
        .extract_parts::<Path<String>>()
        .await
        .map_err(|_| Problem::malformed("path: the name of the filter is not UTF-8"))?;
    Ok(name.into())
}

/// Returns the user who sends a request with this head.
pub(crate) fn client_session(shared: &Shared, head: &Parts) -> Result<Arc<dyn ClientSession>, Problem> {
    let common = &shared.common;
    let client = head.extensions.get::<Arc<ConnectedClient>>();
    // Each connection adds its client to the extensions of its requests.
    let client =
        client.ok_or_else(|| Problem::new(ProblemKind::Unauthorized, "the client of this connection is unknown"))?;
    client.client_session(&*common.host, common.hosts.as_ref(), head)
}
