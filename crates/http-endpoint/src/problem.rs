//! Problem documents (RFC 9457), which a client receives if its request was not executed.
//!
//! Each problem document says what failed, on what, why, and what the client can do.
//!
//! This module does not depend on requests.

use std::fmt::Display;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::verdicts::ShownVerdict;

/// Media type of a problem document.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// Kind of a problem. The name of the kind is the last part of the problem type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProblemKind {
    Malformed,
    Unauthorized,
    Forbidden,
    NoSuchFilter,
    NoSuchPath,
    MethodNotAllowed,
    Duplicate,
    NotHeld,
    BodyTooSlow,
    BodyTooLarge,
    UnsupportedMediaType,
    OtherName,
    Impossible,
    QuotaSpent,
    NoRoom,
    Undecided,
    OldVersion,
}

impl ProblemKind {
    fn described(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Malformed => (StatusCode::BAD_REQUEST, "malformed", "The request is malformed"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized", "The client must authenticate"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "forbidden", "The client may not do this"),
            Self::NoSuchFilter => (StatusCode::NOT_FOUND, "no-such-filter", "There is no such filter"),
            Self::NoSuchPath => (StatusCode::NOT_FOUND, "no-such-path", "There is nothing at this path"),
            Self::MethodNotAllowed => {
                (StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "The path has no such method")
            }
            Self::Duplicate => (StatusCode::CONFLICT, "duplicate", "The event was seen before"),
            Self::NotHeld => (StatusCode::CONFLICT, "not-held", "No client holds the event with this fence"),
            Self::BodyTooSlow => (StatusCode::REQUEST_TIMEOUT, "body-too-slow", "The body did not arrive in time"),
            Self::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", "The body is too large"),
            Self::UnsupportedMediaType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported-media-type",
                "The body has another type than expected",
            ),
            Self::OtherName => (StatusCode::MISDIRECTED_REQUEST, "other-name", "The node has another name"),
            // The request contradicts itself, or the filter does not support it.
            Self::Impossible => (StatusCode::UNPROCESSABLE_ENTITY, "impossible", "The request cannot be carried out"),
            Self::QuotaSpent => (StatusCode::TOO_MANY_REQUESTS, "quota-spent", "The quota is spent"),
            Self::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, "no-room", "The node has no room for the request now"),
            Self::OldVersion => {
                (StatusCode::HTTP_VERSION_NOT_SUPPORTED, "old-version", "The call needs a later version of HTTP")
            }
            Self::Undecided => {
                (StatusCode::SERVICE_UNAVAILABLE, "undecided", "The cluster cannot tell whether the event is new")
            }
        }
    }
}

/// Reason why a request was not executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    kind: ProblemKind,
    detail: String,
    retry_after: Option<Duration>,
    verdict: Option<ShownVerdict>,
}

/// Problem document (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemDocument<'a> {
    /// URN that identifies the kind of problem.
    #[serde(rename = "type")]
    #[schema(example = "urn:firstseen:problem:no-such-filter")]
    kind: String,
    /// Short description of the kind of problem.
    title: &'a str,
    /// Status code of the reply.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What failed in this request, why, and what to do.
    detail: &'a str,
    /// Verdict on the event, if the request asked about a single event.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    verdict: Option<ShownVerdict>,
}

impl Problem {
    pub(crate) fn new(kind: ProblemKind, detail: impl Display) -> Self {
        Self { kind, detail: detail.to_string(), retry_after: None, verdict: None }
    }

    /// Creates the problem of a malformed request.
    pub(crate) fn malformed(detail: impl Display) -> Self {
        Self::new(ProblemKind::Malformed, detail)
    }

    /// Creates the problem of a well-formed request that this filter cannot execute.
    pub(crate) fn impossible(detail: impl Display) -> Self {
        Self::new(ProblemKind::Impossible, detail)
    }

    /// Adds the time after which the client may retry.
    pub(crate) fn retry_after(self, after: Duration) -> Self {
        Self { retry_after: Some(after), ..self }
    }

    /// Adds the verdict on the event.
    pub(crate) fn with_verdict(self, verdict: ShownVerdict) -> Self {
        Self { verdict: Some(verdict), ..self }
    }

    /// Returns the kind of the problem.
    #[cfg(test)]
    pub(crate) fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// Returns the description of what failed, why, and what to do.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }
}

/// Returns the number of whole seconds to wait, which is at least 1, because clients read 0 as "at once".
fn seconds(after: Duration) -> u64 {
    after.as_millis().div_ceil(1000).clamp(1, 3600) as u64
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, name, title) = self.kind.described();
        let document = ProblemDocument {
            kind: format!("urn:firstseen:problem:{name}"),
            title,
            status: status.as_u16(),
            detail: &self.detail,
            verdict: self.verdict,
        };
        let text = serde_json::to_vec(&document).unwrap_or_default();
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"firstseen\""));
        }
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds(after)));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_to_wait_is_told_for_how_many_whole_seconds() {
        for (after_ms, expected) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (86_400_000, 3600)] {
            assert_eq!(seconds(Duration::from_millis(after_ms)), expected);
        }
        let problem = Problem::new(ProblemKind::QuotaSpent, "wait").retry_after(Duration::from_millis(1500));
        let response = problem.into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
        assert_eq!(response.headers()[header::CONTENT_TYPE], PROBLEM_JSON);
    }
}
