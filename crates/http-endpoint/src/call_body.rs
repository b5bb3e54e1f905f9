//! Asks the cluster about the events of a call.
//!
//! The HTTP endpoint performs three checks before it sends a call to the cluster: the client must have the necessary
//! right, it must not exceed its quota, and the filter must support the operation. If a check fails, the endpoint
//! rejects the call, and no event of the call is recorded.
//!
//! This module does not depend on bodies and replies.

use std::sync::Arc;
use std::time::Duration;

use firstseen_backend::{Answers, ClientSession, EventCall, EventOperation, Facts, Filters, KeptTtl, Retention};
use firstseen_client::{FilterError, Verdict};
use firstseen_routing::Reason;
use tokio::time::Instant;

use crate::body::Asking;
use crate::connected_client::refused;
use crate::kind::CallKind;
use crate::problem::{Problem, ProblemKind};

/// Answers to a call, and the facts about its filter that the reply needs.
pub(crate) struct CallAnswers {
    pub(crate) answers: Answers,
    /// Longest lease of a claim in the filter. `None` means that its events cannot be claimed.
    pub(crate) lease_max: Option<Duration>,
}

/// Asks the cluster about the events of a call.
///
/// # Errors
/// Returns the reason why the cluster was not asked.
pub(crate) async fn ask(
    filters: &Filters,
    client_session: &dyn ClientSession,
    name: &Arc<str>,
    kind: CallKind,
    asking: &Asking<'_>,
) -> Result<CallAnswers, Problem> {
    let events = u32::try_from(asking.events.len()).unwrap_or(u32::MAX);
    client_session.may(kind.verb(), name, events).map_err(refused)?;
    let facts = filters.facts(name).await.map_err(not_opened)?;
    if facts.counts_events {
        return Err(Problem::impossible(format_args!(
            "filter `{name}` counts how often events came (kind decaying), and gives no verdicts: use a filter of another kind"
        )));
    }
    let is_plain = asking.times_ms.is_empty() && asking.ttl_ms.is_none();
    if !is_plain {
        check_times(name, facts, asking)?;
    }
    let act = act(name, kind, facts, asking)?;
    for (number, fence) in asking.fences.iter().enumerate() {
        // A foreign fence would make the filter refuse the other events of the same call too.
        if !filters.may_have_granted(name, *fence).await {
            return Err(Problem::impossible(format_args!(
                "fences[{number}] was not given by filter `{name}`: confirm or release an event in the filter where it was claimed"
            )));
        }
    }
    let ttl_ms = match asking.ttl_ms {
        Some(ttl_ms) => ttl(filters, name, facts, ttl_ms).await?,
        None => None,
    };
    let items: Vec<&[u8]> = asking.events.iter().map(|event| &**event).collect();
    let asked = EventCall {
        names: &asking.names,
        fences: &asking.fences,
        times_ms: &asking.times_ms,
        ttl_ms,
        ..EventCall::new(&items, act, filters.now_ms())
    };
    let asked_at = Instant::now();
    let mut answers = match filters.ask(name, &asked, None).await {
        Err(FilterError::Unreachable { .. } | FilterError::Closed) => {
            Answers::alike(Verdict::Undecided(Reason::NotReady), items.len())
        }
        answers => answers.map_err(not_opened)?,
    };
    if let EventOperation::Claim { lease, .. } = act
        && asked_at + lease <= Instant::now()
    {
        answers.end_grants(0..items.len());
    }
    Ok(CallAnswers { answers, lease_max: facts.lease_max })
}

/// Checks whether the filter accepts the times and the time to live of the events.
fn check_times(name: &str, facts: Facts, asking: &Asking<'_>) -> Result<(), Problem> {
    if asking.times_ms.is_empty() {
        return Ok(());
    }
    if !facts.needs_times {
        return Err(Problem::impossible(format_args!(
            "events of filter `{name}` bring no times (its nodes stamp them, --clock wall, or it has no window of time): leave the times out"
        )));
    }
    if asking.ttl_ms.is_some() {
        return Err(Problem::impossible(
            "an event with a time to live of its own occurs now: leave the times out, or ttl_ms",
        ));
    }
    Ok(())
}

/// Returns the operation on the events.
fn act(name: &str, kind: CallKind, facts: Facts, asking: &Asking<'_>) -> Result<EventOperation, Problem> {
    let lease_max = match (kind, facts.lease_max) {
        (CallKind::Observe, _) => return Ok(EventOperation::Observe),
        (CallKind::Test, _) => return Ok(EventOperation::Test),
        (_, None) => {
            return Err(Problem::impossible(format_args!(
                "events of filter `{name}` cannot be claimed: `firstseen filter create NAME --claims 10s` makes a filter with claims"
            )));
        }
        (CallKind::Confirm, Some(_)) => return Ok(EventOperation::Confirm),
        (CallKind::Release, Some(_)) => return Ok(EventOperation::Release),
        (CallKind::Claim, Some(lease_max)) => lease_max,
    };
    let lease = asking.lease_ms.map_or(lease_max, Duration::from_millis);
    if lease > lease_max {
        let asked_ms = lease.as_millis();
        let most_ms = lease_max.as_millis();
        return Err(Problem::impossible(format_args!(
            "lease_ms is {asked_ms}, and events of filter `{name}` are claimed for {most_ms} ms at most (--claims): ask for less"
        )));
    }
    Ok(EventOperation::Claim { lease, is_confirmed_by_endpoint: false })
}

/// Returns the time to live that the filter applies for a requested one, or `None` if it equals the window.
async fn ttl(filters: &Filters, name: &Arc<str>, facts: Facts, ttl_ms: u64) -> Result<Option<u64>, Problem> {
    if facts.remembers < Retention::ForMs(ttl_ms) {
        let most = match facts.remembers {
            Retention::ForMs(ms) => format!("for {ms} ms at most"),
            _ => "for a window that is not a duration".to_owned(),
        };
        return Err(Problem::impossible(format_args!(
            "ttl_ms is {ttl_ms}, and filter `{name}` remembers events {most}: ask for less, or use another filter"
        )));
    }
    match filters.kept_ttl(name, ttl_ms).await.map_err(not_opened)? {
        KeptTtl::Ms(ttl_ms) => Ok(Some(ttl_ms)),
        KeptTtl::Window => Ok(None),
        KeptTtl::Refused(reason) => Err(Problem::impossible(format_args!(
            "{reason}; leave ttl_ms out, and events are remembered for the window"
        ))),
    }
}

/// Converts the error of opening a filter to a problem.
pub(crate) fn not_opened(error: FilterError) -> Problem {
    match error {
        FilterError::NotFound { name, .. } => Problem::new(
            ProblemKind::NoSuchFilter,
            format_args!(
                "there is no filter `{name}`: `firstseen filter create {name}` makes it, and GET /v1/filters lists those that there are"
            ),
        ),
        FilterError::Refused { reason, .. } => Problem::new(ProblemKind::Forbidden, reason),
        FilterError::Unreachable { .. } | FilterError::Closed => Problem::new(
            ProblemKind::Undecided,
            "the node cannot ask the cluster now, and nothing was recorded: send the request again later",
        )
        .retry_after(Duration::from_secs(1)),
        error => Problem::impossible(error),
    }
}
