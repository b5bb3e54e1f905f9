//! Converts the verdicts on events to the reply of a call.
//!
//! A call for a single event can name the event in a header instead of a body. The status code of the reply then gives
//! the verdict: 200 for first-seen, 409 for a duplicate, and 503 if the event is undecided.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use firstseen_backend::{Answers, meaning};
use firstseen_client::Verdict;
use firstseen_routing::{Hold, Reason};
use serde::Serialize;

use crate::call::FENCE;
use crate::kind::CallKind;
use crate::problem::{Problem, ProblemKind};
use crate::reserved_bytes::{self, ReservedBytes};
use crate::verdicts::{self, OneVerdict, ShownVerdict};

/// Retry time for a verdict that is not possible until an operator changes something.
const RETRY_AFTER_LONG: Duration = Duration::from_secs(60);
/// Retry time for a verdict that may soon be possible.
const RETRY_AFTER_SHORT: Duration = Duration::from_secs(1);

/// Creates the reply about a list of events.
pub(crate) fn list(kind: CallKind, answers: &Answers, mut taken: ReservedBytes) -> Response {
    // A verdict takes at most 40 bytes, and a fence adds 60 bytes.
    let bytes = answers.verdicts.len() * if kind == CallKind::Claim { 128 } else { 40 };
    if let Err(problem) = taken.make_room(bytes) {
        // The events have been decided by now, so the reply is sent even if it exceeds the memory budget.
        tracing::debug!(detail = problem.detail(), "a reply is sent although it exceeds the memory budget");
    }
    match verdicts::list(kind, &answers.verdicts, &answers.holds) {
        Ok(text) => with_text(Body::from(reserved_bytes::reply(text, taken))),
        Err(error) => {
            tracing::error!(%error, "cannot write a reply of the HTTP endpoint");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Creates the reply about an event that a header names. `lease_max` is the longest lease of a claim in the filter, if
/// its events can be claimed.
pub(crate) fn single(kind: CallKind, answers: &Answers, lease_max: Option<Duration>) -> Response {
    let verdict = answers.verdicts.first().copied().unwrap_or(Verdict::Undecided(Reason::Unknown));
    let shown = ShownVerdict::of(kind, verdict);
    match verdict {
        Verdict::Undecided(Reason::Claimed) if kind == CallKind::Confirm => {
            let detail = "another client holds the event: the lease of this claim ended before the confirm arrived, and the event was \
                          claimed again. Nothing was recorded; leave the event to the other client";
            Problem::new(ProblemKind::NotHeld, detail).with_verdict(shown).into_response()
        }
        Verdict::Undecided(reason) => {
            undecided(reason, answers.holds.first(), lease_max).with_verdict(shown).into_response()
        }
        Verdict::Duplicate => {
            let (problem, detail) = match kind {
                CallKind::Release => (
                    ProblemKind::NotHeld,
                    "no client holds the event with this fence: its claim was confirmed or released, or has ended",
                ),
                CallKind::Confirm => (ProblemKind::Duplicate, "the event is recorded already: there is nothing to do"),
                _ => (
                    ProblemKind::Duplicate,
                    "the event was seen before, within the time that the filter remembers: there is nothing to do",
                ),
            };
            Problem::new(problem, detail).with_verdict(shown).into_response()
        }
        Verdict::FirstSeen => {
            let fence = verdicts::fence_of(answers.holds.first());
            let one = OneVerdict { verdict: shown, fence };
            let mut response = json(&one);
            let text = fence.and_then(|fence| HeaderValue::from_str(&fence.0.to_string()).ok());
            text.map(|text| response.headers_mut().insert(FENCE, text));
            response
        }
    }
}

/// Creates the problem of an undecided event.
fn undecided(reason: Reason, hold: Option<&Hold>, lease_max: Option<Duration>) -> Problem {
    let after = match (hold, lease_max) {
        (Some(Hold::Other { left_ms }), _) => Duration::from_millis((*left_ms).into()),
        // Only the reply to a claim says how long the other client may still hold the event. No lease is longer.
        (_, Some(lease_max)) if reason == Reason::Claimed => lease_max,
        _ if reason.is_worth_retrying() || reason == Reason::ClaimsUnknown => RETRY_AFTER_SHORT,
        _ => RETRY_AFTER_LONG,
    };
    let name = serde_json::to_value(reason).ok();
    let name = name.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
    Problem::new(ProblemKind::Undecided, format_args!("{name}: {}", meaning(reason))).retry_after(after)
}

/// Creates a reply with this value as JSON.
pub(crate) fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) => with_text(Body::from(text)),
        Err(error) => {
            tracing::error!(%error, "cannot write a reply of the HTTP endpoint");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn with_text(text: Body) -> Response {
    let mut response = Response::new(text);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use firstseen_routing::{Epoch, FilterId, Incarnation};

    use super::*;

    fn answers(verdict: Verdict, hold: Hold) -> Answers {
        Answers { verdicts: vec![verdict], holds: vec![hold] }
    }

    async fn replied(kind: CallKind, verdict: Verdict, hold: Hold) -> (u16, Option<String>, String) {
        let response = single(kind, &answers(verdict, hold), Some(Duration::from_secs(10)));
        let after = response.headers().get(header::RETRY_AFTER).map(|after| after.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, after, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_status_tells_the_verdict_on_a_single_event() {
        let (status, after, body) = replied(CallKind::Observe, Verdict::FirstSeen, Hold::None).await;
        assert_eq!((status, after, &*body), (200, None, r#"{"verdict":"first_seen"}"#));
        let (status, after, body) = replied(CallKind::Observe, Verdict::Duplicate, Hold::None).await;
        assert!(status == 409 && after.is_none() && body.contains(r#""verdict":"duplicate""#), "{body}");
        let (status, after, body) = replied(CallKind::Observe, Verdict::Undecided(Reason::Full), Hold::None).await;
        assert!(status == 503 && after.as_deref() == Some("60"), "{body}");
        assert!(body.contains(r#""verdict":{"undecided":"full"}"#) && body.contains("nothing was recorded"), "{body}");
        let (status, after, _) = replied(CallKind::Observe, Verdict::Undecided(Reason::Overloaded), Hold::None).await;
        assert_eq!((status, after.as_deref()), (503, Some("1")));
    }

    #[tokio::test]
    async fn a_claim_shows_its_fence_or_who_waits_for_how_long() {
        let fence = firstseen_routing::Fence::new(FilterId(1), Epoch(1), Incarnation(1), 1).unwrap();
        let response = single(CallKind::Claim, &answers(Verdict::FirstSeen, Hold::Own(fence)), None);
        assert_eq!(response.headers()[FENCE], fence.to_string());
        let held = Verdict::Undecided(Reason::Claimed);
        let (status, after, _) = replied(CallKind::Claim, held, Hold::Other { left_ms: 2500 }).await;
        assert_eq!((status, after.as_deref()), (503, Some("3")));
        // Without a claim, it was told to wait for a minute, although no lease of the filter is longer than 10 s.
        for kind in [CallKind::Observe, CallKind::Test] {
            let (status, after, body) = replied(kind, held, Hold::None).await;
            assert_eq!((status, after.as_deref()), (503, Some("10")), "{body}");
        }
        let (status, after, body) = replied(CallKind::Confirm, held, Hold::None).await;
        assert!(status == 409 && after.is_none() && body.contains(r#""verdict":"not_held""#), "{body}");
        assert!(body.contains("urn:firstseen:problem:not-held"), "{body}");
    }
}
